/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a pair of an open flow stands still while another target joins,
 * leaves or dies: the longest time between two segments of its source. The
 * other target is a process of its own. Beside it stands the longest time while
 * nothing happens, which the machine's other programs make. And how long the
 * tuples of partitions wait that move to a target that joins (handover.h).
 */
#include <dfi/dfi.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../common/children.h"
#include "../common/complain.h"
#include "bench.h"
#include "flow_job.h"
#include "handover.h"
#include "pauses.h"
#include "session.h"
#include "tuple.h"

#define SEAT 0  /* of the target that stays */
#define OTHER 1 /* of the one that comes and goes */
#define LOOK_MS 50
#define TUPLE 64
#define FLOW "dfi-bench.pauses"

static const struct column columns[] = {
	{ "event", "event", 9, 0, false },
	{ "value", "longest", 9, 3, false },
	{ "baseline_value", "without", 9, 3, false },
	{ "unit", "unit", 4, 0, false },
	{ "ratio", "ratio", 6, 3, false },
	{ "drain_ms", "drain[ms]", 9, 3, false },
	{ "min", "min", 9, 3, false },
	{ "max", "max", 9, 3, false },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

enum event {
	EVENT_JOIN = 0,
	EVENT_LEAVE,
	EVENT_DEATH,
	N_EVENTS,
};

static const char *const event_names[N_EVENTS] = { "join", "leave", "death" };

/* The pair, which a thread sends to and another one drains. */
struct pair {
	struct dfi_source *source;
	struct dfi_target *target;
	pthread_t sender, drainer;
	_Atomic bool stops;
	_Atomic uint64_t longest_ns; /* since it was last set to 0 */
	uint64_t sent, received;     /* tuples */
	int sent_ret, received_ret;
};

/* The gaps of each round, and those without an event beside them. */
struct gaps {
	double values[N_EVENTS][STATS_MAX_VALUES];
	double without[N_EVENTS][STATS_MAX_VALUES];
	uint32_t n;
};

/* ---- The other target ---------------------------------------------------- */

int pauses_member(int argc, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_target *target;
	struct dfi *dfi;
	char go = 0;

	child_enter();
	if (argc != 3)
		return 1;
	attr.registry = argv[1];
	if (dfi_open(&attr, &dfi) < 0 ||
	    dfi_target_open(dfi, argv[2], OTHER, NULL, &target) < 0) {
		complain("the other target: %s", dfi_errmsg());
		return 1;
	}
	if (write(CHILD_FD, &go, 1) != 1 || read(CHILD_FD, &go, 1) != 1)
		return 1;
	return dfi_target_close(target) < 0 || dfi_close(dfi) < 0;
}

/* Start it, and wait until its target is open. Returns its pid, or -1. */
static pid_t start_member(const char *registry, int *fd)
{
	char *argv[] = { (char[]){ "dfi-bench" }, (char[]){ MEMBER_COMMAND },
		strdupa(registry), (char[]){ FLOW }, NULL };
	int ends[2];
	pid_t pid;
	char ready;

	children_keep_ends();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		complain("socketpair: %s", strerror(errno));
		return -1;
	}
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], CHILD_FD);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(ends[1]);
	*fd = ends[0];
	if (pid > 0 && read(ends[0], &ready, 1) == 1)
		return pid;
	complain("the other target did not open its seat");
	close(ends[0]);
	return -1;
}

/* Let it leave, or kill it. */
static void end_member(pid_t pid, int fd, enum event how)
{
	char go = 1;

	if (how == EVENT_DEATH || write(fd, &go, 1) != 1)
		kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(fd);
}

/* ---- The pair ------------------------------------------------------------ */

static void *send_all(void *arg)
{
	struct pair *pair = arg;
	uint64_t last = now_ns(), now, gap;
	struct dfi_span span;
	int ret = 0;

	while (!ret && !atomic_load(&pair->stops)) {
		ret = dfi_source_claim(pair->source, SEAT, &span);
		if (ret < 0)
			break;
		memset(span.tuples, 1, (size_t)span.count * TUPLE);
		ret = dfi_source_commit(pair->source, &span, span.count);
		pair->sent += span.count;
		now = now_ns();
		gap = now - last;
		last = now;
		if (gap > atomic_load(&pair->longest_ns))
			atomic_store(&pair->longest_ns, gap);
	}
	pair->sent_ret = ret < 0 ? ret : dfi_source_close(pair->source);
	return NULL;
}

static void *drain_all(void *arg)
{
	struct pair *pair = arg;
	struct dfi_batch batch;
	int ret;

	while ((ret = dfi_target_consume_batch(pair->target, &batch)) > 0) {
		pair->received += (uint64_t)ret;
		dfi_target_release(pair->target, &batch);
	}
	pair->received_ret = ret;
	return NULL;
}

static bool start_pair(struct dfi *dfi, struct pair *pair)
{
	static struct tuple_schema schema;
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	tuple_schema_init(&schema, TUPLE);
	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema.schema;
	attr.n_sources = 1;
	attr.n_targets = 2;
	attr.routing = DFI_ROUTE_DIRECT;
	attr.transport = DFI_TRANSPORT_SHM;
	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.on_loss = DFI_ON_LOSS_DROP;
	if (dfi_flow_create(dfi, FLOW, &attr) < 0 ||
	    dfi_target_open(dfi, FLOW, SEAT, NULL, &pair->target) < 0 ||
	    dfi_source_open(dfi, FLOW, 0, NULL, &pair->source) < 0) {
		complain("%s", dfi_errmsg());
		return false;
	}
	if (!pthread_create(&pair->sender, NULL, send_all, pair) &&
	    !pthread_create(&pair->drainer, NULL, drain_all, pair))
		return true;
	complain("cannot start a thread");
	return false;
}

/* Whether all that was sent has come. */
static bool stop_pair(struct dfi *dfi, struct pair *pair)
{
	bool done = dfi_flow_finish(dfi, FLOW) == 0;

	atomic_store(&pair->stops, true);
	pthread_join(pair->sender, NULL);
	pthread_join(pair->drainer, NULL);
	done = dfi_target_close(pair->target) == 0 && done;
	done = dfi_flow_remove(dfi, FLOW) == 0 && done;
	return done && !pair->sent_ret && !pair->received_ret &&
	    pair->sent == pair->received;
}

/* ---- Measuring ----------------------------------------------------------- */

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

/* The longest gap since the last call, in us. */
static double take_gap(struct pair *pair)
{
	return (double)atomic_exchange(&pair->longest_ns, 0) * 1e-3;
}

/* A member joins, and leaves or dies. */
static bool run_round(
    struct pair *pair, const char *registry, struct gaps *gaps, uint32_t round)
{
	enum event end = round % 2 ? EVENT_DEATH : EVENT_LEAVE;
	uint32_t at = round / 2;
	uint64_t begin;
	pid_t pid;
	int fd;

	(void)take_gap(pair);
	begin = now_ns();
	pid = start_member(registry, &fd);
	if (pid < 0)
		return false;
	pause_ms(LOOK_MS);
	gaps->values[EVENT_JOIN][at] = take_gap(pair);
	/* As long, without an event. */
	pause_ms((long)((now_ns() - begin) / 1000000) % 1000);
	gaps->without[EVENT_JOIN][at] = take_gap(pair);
	end_member(pid, fd, end);
	pause_ms(LOOK_MS);
	gaps->values[end][at] = take_gap(pair);
	pause_ms(LOOK_MS);
	gaps->without[end][at] = take_gap(pair);
	return true;
}

static void report_event(
    struct report *report, struct gaps *gaps, enum event event, bool verified)
{
	struct summary summary = stats_summary(gaps->values[event], gaps->n);
	json_t *row = json_pack("{s:s, s:s, s:i}", "experiment", "pauses",
	    "event", event_names[event], "tuple_size", TUPLE);

	json_object_set_new(row, "drain_ms", json_null());
	report_result(row, "us", &summary, gaps->n, verified);
	report_baseline(
	    row, "nothing", gaps->values[event], gaps->without[event], gaps->n);
	report_row(report, row);
}

static bool run_handovers(
    struct session *session, struct report *report, uint32_t n)
{
	static double values[STATS_MAX_VALUES], drains[STATS_MAX_VALUES];
	struct handover handover;
	struct summary summary;
	bool verified = true;
	json_t *row;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (!handover_measure(session, &handover))
			return false;
		values[i] = handover.value_ms;
		drains[i] = handover.drain_ms;
		verified = verified && handover.verified;
	}
	row = json_pack("{s:s, s:s, s:i}", "experiment", "pauses", "event",
	    "hand-over", "tuple_size", TUPLE);
	summary = stats_summary(drains, n);
	json_object_set_new(row, "drain_ms", report_number(summary.median));
	summary = stats_summary(values, n);
	report_result(row, "ms", &summary, n, verified);
	report_baseline(row, NULL, values, drains, n);
	report_row(report, row);
	return true;
}

int bench_pauses(int argc, char **argv)
{
	static struct pauses_options options;
	static struct gaps gaps;
	static struct pair pair;
	struct session session;
	struct report report;
	bool done = true, whole;
	uint32_t i;

	pauses_options_parse(argc, argv, &options);
	if (!session_open(&options.common, &session))
		return 1;
	if (!start_pair(session.dfi, &pair))
		return 1;
	pause_ms(LOOK_MS);
	gaps.n = options.common.repeat;
	for (i = 0; done && i < 2 * gaps.n; i++)
		done = run_round(&pair, session.address, &gaps, i);
	whole = stop_pair(session.dfi, &pair);
	report_open(&report, options.common.format, "pauses", columns, 2);
	for (i = 0; done && i < N_EVENTS; i++)
		report_event(&report, &gaps, (enum event)i, whole);
	done = done && run_handovers(&session, &report, gaps.n);
	i = (uint32_t)report_close(&report);
	session_close(&session);
	return done ? (int)i : 1;
}
