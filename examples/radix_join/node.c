/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a node: one context, which its workers' threads share.
 */
#include "node.h"
#include "platform.h"
#include "worker.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/prctl.h>

#include "../../common/threads.h"

struct thread {
	const struct options *options;
	const struct input *input;
	struct dfi *dfi;
	uint32_t index;
	pthread_t id;
	int ret;
};

static void *thread_run(void *arg)
{
	struct thread *thread = arg;

	thread->ret = worker_run(
	    thread->options, thread->input, thread->dfi, thread->index);
	return NULL;
}

static int run_threads(
    const struct options *options, const struct input *input, struct dfi *dfi)
{
	struct thread *threads = calloc(options->threads, sizeof(*threads));
	uint32_t i;
	int ret = 0;

	if (!threads)
		return complain("no memory");
	for (i = 0; i < options->threads; i++) {
		threads[i].options = options;
		threads[i].input = input;
		threads[i].dfi = dfi;
		threads[i].index = options->node * options->threads + i;
		/*
		 * The running workers wait for the missing one. Other nodes see
		 * the process end.
		 */
		if (thread_start(&threads[i].id, thread_run, &threads[i]))
			_exit(EXIT_FAILURE);
	}
	for (i = 0; i < options->threads; i++) {
		pthread_join(threads[i].id, NULL);
		if (threads[i].ret)
			ret = -1;
	}
	free(threads);
	return ret;
}

/*
 * Wait for the one task. The target stays open after the end of its flow, so
 * that no other process can be the same node.
 */
static int receive_task(struct dfi *dfi, const struct options *options,
    struct dfi_target **target, struct task *task)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	const void *tuple;
	int ret;

	attr.wait = DFI_WAIT_BLOCK;
	/*
	 * The first process gives up before its nodes, and reports the missing
	 * ones.
	 */
	if (options->first_node == 0)
		attr.open_timeout_ms = 2 * options_wait_limit(options);
	ret = protocol_target(
	    dfi, options->run, FLOW_TASK, options->node, attr, target);
	if (ret == 0)
		ret = dfi_target_consume(*target, &tuple);
	if (ret > 0) {
		*task = *(const struct task *)tuple;
		return 0;
	}
	return complain("node %" PRIu32 ": waiting for the first process of "
			"run '%s': %s",
	    options->node, options->run,
	    ret < 0 ? dfi_errmsg() : "it has nothing to do");
}

/* Wait for the end: leaving earlier is an error to the first process. */
static int end_task(struct dfi_target *target)
{
	const void *tuple;

	if (dfi_target_consume(target, &tuple) == 0)
		return 0;
	return complain("the end of the task: %s", dfi_errmsg());
}

static int run_task(const struct options *options, struct dfi *dfi)
{
	struct input input;
	int ret;

	if (input_open(&input, options, options->image_fd))
		return -1;
	/*
	 * One node reports for its machine; on the first one, its parent does.
	 */
	if (options->first_node > 0 && options->node == options->first_node)
		ret = input_check_memory(&input, options);
	else
		ret = 0;
	if (ret == 0)
		ret = run_threads(options, &input, dfi);
	input_close(&input);
	return ret;
}

int node_run(const struct options *command_line)
{
	struct options options = *command_line;
	struct dfi_target *tasks = NULL;
	struct task task;
	char name[32];
	struct dfi *dfi;
	int ret;

	snprintf(name, sizeof(name), "node-%" PRIu32, options.node);
	prctl(PR_SET_NAME, name);
	if (protocol_open(&options, options.registry, name, &dfi)) {
		complain("%s: %s", name, dfi_errmsg());
		return 1;
	}
	ret = receive_task(dfi, &options, &tasks, &task);
	if (ret == 0)
		ret = end_task(tasks);
	if (ret == 0)
		ret = task_take(&task, &options);
	if (ret == 0)
		ret = run_task(&options, dfi);
	if (tasks)
		dfi_target_close(tasks);
	dfi_close(dfi);
	return ret ? 1 : 0;
}
