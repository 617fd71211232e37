/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process of a node: one context, which its workers' threads share.
 */
#include "node.h"
#include "platform.h"
#include "worker.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/prctl.h>

struct thread {
	const struct options *options;
	const struct input *input;
	struct dfi *dfi;
	uint32_t index;
	pthread_t id;
	bool started;
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
		/* The others end when they miss it. */
		if (pthread_create(
			&threads[i].id, NULL, thread_run, &threads[i])) {
			ret = complain("cannot start a thread");
			break;
		}
		threads[i].started = true;
	}
	for (i = 0; i < options->threads && threads[i].started; i++) {
		pthread_join(threads[i].id, NULL);
		if (threads[i].ret)
			ret = -1;
	}
	free(threads);
	return ret;
}

int node_run(const struct options *options)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct input input;
	char name[32];
	struct dfi *dfi;
	int ret;

	/* A node without its first process has nobody to work for. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (input_open(&input, options, options->image_fd))
		return 1;
	snprintf(name, sizeof(name), "node-%" PRIu32, options->node);
	prctl(PR_SET_NAME, name);
	attr.registry = options->registry;
	attr.node_name = name;
	ret = dfi_open(&attr, &dfi);
	if (ret) {
		complain("%s: %s", name, dfi_errmsg());
	} else {
		ret = run_threads(options, &input, dfi);
		dfi_close(dfi);
	}
	input_close(&input);
	return ret ? 1 : 0;
}
