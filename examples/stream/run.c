/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leader of a run: a registry, event files, producers and consumers as
 * processes, faults among them, and what the store has of all that meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../common/children.h"
#include "../../common/complain.h"
#include "../../common/memory_file.h"
#include "../../common/output.h"
#include "events.h"
#include "store.h"

enum {
	SHOW_MS = 500,
	TURN_MS = 20,
	RETURN_MS = 300, /* a producer that was killed comes again */
	STOP_MS = 1500,
	END_MS = 120000, /* beyond the run's seconds: only what hangs */
	MAX_WORDS = 8,
};

struct member {
	pid_t pid; /* 0: none */
	bool killed;
};

struct leader {
	const struct run_options *options;
	struct dfi_registry *registry;
	struct board *board;
	int board_fd;
	struct member producers[PRODUCERS], consumers[CONSUMERS + 1];
	unsigned n_consumers;
	uint64_t begun, show_at;
	uint64_t kill_at, return_at, stop_at, go_on_at, add_at; /* 0: done */
	struct store_sums shown;
	uint64_t shown_at;
};

static uint64_t ms(uint64_t n)
{
	return n * UINT64_C(1000000);
}

/* ---- Processes ---- */

static pid_t start(struct leader *leader, char *const *words)
{
	pid_t pid;

	output_flush();
	pid = fork();
	if (pid < 0)
		complain("cannot start a process: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* One that is the same stays closed on exec. */
	if (leader->board_fd == CHILD_FD
		? !fcntl(CHILD_FD, F_SETFD, 0)
		: dup2(leader->board_fd, CHILD_FD) == CHILD_FD)
		execv("/proc/self/exe", words);
	_exit(127);
}

static int start_producer(struct leader *leader, unsigned number)
{
	char folder[4096], which[16], rate[32];
	char *words[MAX_WORDS] = { "stream", "produce", folder, which, rate,
		"board", NULL };

	snprintf(folder, sizeof(folder), "%s", leader->options->folder);
	snprintf(which, sizeof(which), "%u", number);
	snprintf(rate, sizeof(rate), "%lu", leader->options->rate);
	leader->producers[number] = (struct member){
		.pid = start(leader, words),
	};
	return leader->producers[number].pid > 0 ? 0 : -1;
}

static int start_consumer(struct leader *leader)
{
	char folder[4096];
	char *words[MAX_WORDS] = { "stream", "consume", folder, NULL };
	struct member *member = &leader->consumers[leader->n_consumers];

	snprintf(folder, sizeof(folder), "%s", leader->options->folder);
	member->pid = start(leader, words);
	leader->n_consumers++;
	return member->pid > 0 ? 0 : -1;
}

/* Whether it has ended, as it should: 1, 0, or -1 after a complaint. */
static int check(struct member *member, const char *what, unsigned number)
{
	int status;

	if (!member->pid || waitpid(member->pid, &status, WNOHANG) <= 0)
		return 0;
	member->pid = 0;
	if (member->killed || (WIFEXITED(status) && !WEXITSTATUS(status)))
		return 1;
	return complain("%s %u has failed", what, number);
}

static int check_all(struct leader *leader, unsigned *n_running)
{
	unsigned i;

	/* What was asked for happens, even if the producers were faster. */
	*n_running = leader->return_at || leader->kill_at || leader->add_at ||
	    leader->stop_at || leader->go_on_at;
	for (i = 0; i < PRODUCERS; i++) {
		if (check(&leader->producers[i], "producer", i) < 0)
			return -1;
		*n_running += leader->producers[i].pid != 0;
	}
	for (i = 0; i < leader->n_consumers; i++)
		if (check(&leader->consumers[i], "consumer", i) < 0)
			return -1;
	return 0;
}

static void end_all(struct leader *leader)
{
	unsigned i;

	for (i = 0; i < PRODUCERS; i++)
		if (leader->producers[i].pid > 0)
			kill(leader->producers[i].pid, SIGKILL);
	for (i = 0; i < leader->n_consumers; i++)
		if (leader->consumers[i].pid > 0)
			kill(leader->consumers[i].pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

/* ---- What happens ---- */

static double seconds(const struct leader *leader)
{
	return (double)(now_ns() - leader->begun) / 1e9;
}

static void report(const struct leader *leader, const char *what)
{
	printf("%7.2f s  %s\n", seconds(leader), what);
}

static bool is_due(uint64_t *at)
{
	bool due = *at && now_ns() >= *at;

	if (due)
		*at = 0;
	return due;
}

static void kill_members(struct leader *leader)
{
	if (leader->options->kill_producer && leader->producers[0].pid > 0) {
		report(leader, "producer 0 is killed");
		leader->producers[0].killed = true;
		kill(leader->producers[0].pid, SIGKILL);
		leader->return_at = now_ns() + ms(RETURN_MS);
	}
	if (leader->options->kill_consumer) {
		report(leader, "consumer 0 is killed");
		leader->consumers[0].killed = true;
		kill(leader->consumers[0].pid, SIGKILL);
	}
}

/* The last consumer, as the first one may be killed. */
static void stop(struct leader *leader, bool go_on)
{
	report(
	    leader, go_on ? "the consumer goes on" : "a consumer is stopped");
	kill(leader->consumers[leader->options->consumers - 1].pid,
	    go_on ? SIGCONT : SIGSTOP);
	if (!go_on)
		leader->go_on_at = now_ns() + ms(STOP_MS);
}

static int let_happen(struct leader *leader)
{
	if (is_due(&leader->kill_at))
		kill_members(leader);
	if (leader->return_at && now_ns() >= leader->return_at &&
	    !leader->producers[0].pid) {
		leader->return_at = 0;
		report(leader, "producer 0 comes again");
		if (start_producer(leader, 0) < 0)
			return -1;
	}
	if (is_due(&leader->stop_at))
		stop(leader, false);
	if (is_due(&leader->go_on_at))
		stop(leader, true);
	if (is_due(&leader->add_at)) {
		report(leader, "a consumer is added");
		return start_consumer(leader);
	}
	return 0;
}

static int show(struct leader *leader)
{
	struct store_sums sums;
	uint64_t now, rows = 0;
	unsigned i;

	if (store_sums(leader->options->folder, &sums) < 0)
		return -1;
	now = now_ns();
	for (i = 0; i < PRODUCERS; i++)
		rows += atomic_load(&leader->board->rows[i]);
	if (leader->shown_at)
		printf("%7.2f s  %9.0f events/s  %9" PRIu64 " behind  %9" PRIu64
		       " results  %7" PRIu64 " corrections\n",
		    seconds(leader),
		    (double)(sums.events - leader->shown.events) * 1e9 /
			(double)(now - leader->shown_at),
		    rows > sums.events ? rows - sums.events : 0, sums.results,
		    sums.corrections);
	output_flush();
	leader->shown = sums;
	leader->shown_at = now;
	leader->show_at = now + ms(SHOW_MS);
	return 0;
}

/* Until all producers have ended. */
static int watch(struct leader *leader)
{
	uint64_t limit = leader->begun + leader->options->seconds * SECOND_NS +
	    ms(END_MS);
	unsigned n_running = 1;

	while (n_running) {
		if (let_happen(leader) < 0 ||
		    check_all(leader, &n_running) < 0 ||
		    (now_ns() >= leader->show_at && show(leader) < 0))
			return -1;
		if (now_ns() > limit)
			return complain("the producers do not end");
		sleep_ms(TURN_MS);
	}
	return show(leader);
}

/* ---- The run ---- */

static int generate(const struct run_options *options)
{
	uint64_t n = options->rate * options->seconds;
	unsigned i;

	for (i = 0; i < options->producers; i++)
		if (events_generate(options->folder, i, n, options->rate) < 0)
			return -1;
	return 0;
}

static void plan(struct leader *leader)
{
	const struct run_options *options = leader->options;
	uint64_t length = options->seconds * SECOND_NS;

	leader->begun = now_ns();
	leader->show_at = leader->begun;
	if (options->kill_producer || options->kill_consumer)
		leader->kill_at = leader->begun + length / 4;
	if (options->add_consumer)
		leader->add_at = leader->begun + length / 2;
	if (options->stop_consumer)
		leader->stop_at = leader->begun + length * 5 / 8;
}

static int start_all(struct leader *leader)
{
	unsigned i;

	for (i = 0; i < leader->options->consumers; i++)
		if (start_consumer(leader) < 0)
			return -1;
	for (i = 0; i < leader->options->producers; i++)
		if (start_producer(leader, i) < 0)
			return -1;
	return 0;
}

/* Consumers end with the flow, once they have stored all. */
static int finish(struct leader *leader)
{
	uint64_t limit = now_ns() + ms(END_MS);
	unsigned i, n_running;
	struct dfi *dfi;
	int ret;

	if (leader->go_on_at)
		stop(leader, true);
	if (dfi_open(NULL, &dfi) < 0)
		return flow_failed("the registry");
	ret = dfi_flow_finish(dfi, FLOW) < 0 ? flow_failed("the end") : 0;
	while (!ret) {
		ret = check_all(leader, &n_running);
		for (i = 0, n_running = 0; i < leader->n_consumers; i++)
			n_running += leader->consumers[i].pid != 0;
		if (!n_running || ret < 0)
			break;
		if (now_ns() > limit)
			ret = complain("the consumers do not end");
		sleep_ms(TURN_MS);
	}
	if (!ret && dfi_flow_remove(dfi, FLOW) < 0)
		ret = flow_failed("the flow");
	dfi_close(dfi);
	return ret;
}

/* Unless the user has a registry, the run does. */
static int open_registry(struct leader *leader)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	char address[64];

	if (getenv("DFI_REGISTRY"))
		return 0;
	snprintf(address, sizeof(address), "unix:@stream-%d", (int)getpid());
	attr.listen = address;
	if (dfi_registry_start(&attr, &leader->registry) < 0)
		return flow_failed("the registry");
	setenv("DFI_REGISTRY", address, 1);
	return 0;
}

static int open_board(struct leader *leader)
{
	leader->board_fd = memory_file_open("stream", "the run's counters");
	if (leader->board_fd < 0)
		return -1;
	if (ftruncate(leader->board_fd, sizeof(*leader->board)) < 0)
		return memory_file_complain(
		    "the run's counters", sizeof(*leader->board));
	leader->board = mmap(NULL, sizeof(*leader->board),
	    PROT_READ | PROT_WRITE, MAP_SHARED, leader->board_fd, 0);
	return leader->board == MAP_FAILED
	    ? complain("no memory for counters: %s", strerror(errno))
	    : 0;
}

int run(const struct run_options *options)
{
	struct leader leader = { .options = options, .board_fd = -1 };
	uint64_t passes = 0;
	unsigned i;
	int ret;

	children_keep_ends();
	ret = generate(options);
	if (!ret)
		ret = open_board(&leader);
	if (!ret)
		ret = open_registry(&leader);
	if (!ret) {
		plan(&leader);
		ret = start_all(&leader);
	}
	if (!ret)
		ret = watch(&leader);
	if (!ret)
		ret = finish(&leader);
	end_all(&leader);
	if (leader.registry)
		dfi_registry_stop(leader.registry);
	if (ret < 0)
		return 1;
	for (i = 0; i < options->producers; i++)
		passes += atomic_load(&leader.board->passes[i]);
	printf("%" PRIu64 " events are in %" PRIu64 " results, after %" PRIu64
	       " passes over %u files\n",
	    leader.shown.events, leader.shown.results, passes,
	    options->producers);
	return 0;
}
