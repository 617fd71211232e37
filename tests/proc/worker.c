/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the tests in test_processes.c: sources and targets of one flow,
 * each on its own thread. It reports events as lines on stdout, source 0 open
 * source 0 held 100 after --hold tuples source 0 ended 0 100 TEXT result,
 * tuples, error text target 1 open target 1 ended 0 100 TEXT and a held
 * endpoint goes on when a 'c' comes on stdin, or ends the process without any
 * closing on an 'x'. Each target checks that its tuples are its own, whole, and
 * in order. Exits with 1 if they are not.
 *
 * -k: who is held forks a child that does nothing, and outlives its parent by
 * some seconds; -K: one that knows nothing of it, as handlers are not called.
 *
 * -O: -c creates an ordered replicate flow, not a shuffle.
 *
 * -c creates the flow before, for that many sources and targets; -g BYTES with
 * segments of that size; -P: it stays when this process has ended, for
 * those that have not attached by then; -M: as a replicate flow, by multicast;
 * -N: which tells of what is lost on the network. Then targets check that each
 * tuple comes, or is told as lost, in the order of its source, and end with
 *	target 1 ended 0 100 and 20 lost in 1 gaps
 *
 * -e: the endpoints don't block; they wait in poll() on their descriptors.
 *
 * combiner:C is a combiner of a flow with a tree. With -p it is held when it is
 * open, as is a target with -p 0.
 *
 * -x TUPLES: targets cancel after that many; 0: when they are open, again and
 * again until the registry knows. Sources skip what a target that has cancelled
 * doesn't want, and report only the others.
 *
 * -o PATH: target J writes the number of each tuple's source, a byte each, to
 * PATH.J; of tuples that were lost, with 0x80 added.
 *
 * -l MS: a process that gives no sign of life for so long counts as dead.
 *
 * -t MS: endpoints wait for so long to be open, and to have found each other.
 *
 * -F: a source says so as soon as a call fails, before it closes:
 *	source 0 failed -104 100 TEXT
 *
 * -S: a source or target says, before it closes, what it has counted:
 *	source 0 long stalls 1
 *
 * worker -r REGISTRY -f FLOW
 *	[-c SOURCES:TARGETS [-g BYTES] [-M [-N]] [-O] [-P]]
 *	[-k | -K] [-l MS] [-n TUPLES] [-o PATH] [-p HOLD] [-s] [-e] [-F] [-S]
 *	[-t MS] [-x TUPLES] source:I... target:J... combiner:C...
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "worker.h"

#define MAX_ENDS 16
#define MAX_SOURCES 16
#define TIMEOUT_MS 30000u

static const char *flow = "";
static uint32_t open_timeout_ms = TIMEOUT_MS;
static uint32_t n_tuples = 1000, hold = UINT32_MAX, leave = UINT32_MAX;
static const struct dfi_schema *schema = &worker_schema;
static struct dfi *dfi;
static pid_t (*forks)(void);
static bool reports_failures, reports_stalls, polls, persistent, ordered,
    multicast, notify;
static const char *order_path;

struct end {
	const char *role;
	uint32_t index;
	pthread_t thread;
	bool damaged; /* a tuple was not what it should be */
	uint32_t n_lost, n_gaps;
};

static void say(const struct end *end, const char *what, int ret,
    uint32_t count, const char *text)
{
	printf("%s %u %s %d %u %s\n", end->role, end->index, what, ret, count,
	    text);
	fflush(stdout);
}

static void say_stalls(const struct end *end, uint64_t n)
{
	if (!reports_stalls)
		return;
	printf(
	    "%s %u long stalls %lu\n", end->role, end->index, (unsigned long)n);
	fflush(stdout);
}

/*
 * A forked child that keeps all it has inherited, except the pipes to others.
 */
static void linger(void)
{
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	alarm(15);
	pause();
	_exit(EXIT_FAILURE);
}

static void hold_on(const struct end *end, uint32_t count)
{
	char order = 'c';

	if (forks && forks() == 0)
		linger();
	printf("%s %u held %u\n", end->role, end->index, count);
	fflush(stdout);
	if (read(STDIN_FILENO, &order, 1) != 1 || order == 'x')
		_exit(EXIT_SUCCESS);
}

/* After -EAGAIN. */
static int wait_for(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, TIMEOUT_MS) > 0 ? 0 : -ETIMEDOUT;
}

static int push(struct dfi_source *source, const struct worker_tuple *tuple)
{
	int ret;

	while ((ret = dfi_source_push(source, tuple)) == -EAGAIN) {
		ret = wait_for(dfi_source_fd(source));
		if (ret < 0)
			break;
	}
	return ret;
}

static int consume(struct dfi_target *target, const void **tuple)
{
	int ret;

	while ((ret = dfi_target_consume(target, tuple)) == -EAGAIN) {
		ret = wait_for(dfi_target_fd(target));
		if (ret < 0)
			break;
	}
	return ret;
}

static int push_all(
    const struct end *end, struct dfi_source *source, uint32_t *count)
{
	struct worker_tuple tuple;
	uint32_t i;
	int ret = 0;

	for (i = 0; i < n_tuples; i++) {
		if (i == hold) {
			ret = dfi_source_flush(source);
			if (ret < 0)
				break;
			hold_on(end, i);
		}
		worker_make_tuple(end->index, i, &tuple);
		ret = push(source, &tuple);
		if (ret == -EPIPE)
			continue;
		if (ret < 0)
			break;
		++*count;
	}
	return ret;
}

static void run_source(struct end *end)
{
	struct dfi_source_attr attr = {
		.size = sizeof(attr),
		.schema = schema,
		.open_timeout_ms = open_timeout_ms,
		.stall_timeout_ms = TIMEOUT_MS,
	};
	struct dfi_source_stats stats;
	struct dfi_source *source;
	uint32_t count = 0;
	int ret;

	attr.flags = polls ? DFI_NONBLOCK : 0;
	ret = dfi_source_open(dfi, flow, end->index, &attr, &source);
	if (ret < 0) {
		say(end, "ended", ret, 0, dfi_errmsg());
		return;
	}
	printf("source %u open\n", end->index);
	fflush(stdout);
	ret = push_all(end, source, &count);
	if (ret < 0 && reports_failures)
		say(end, "failed", ret, count, dfi_errmsg());
	dfi_source_query(source, &stats);
	say_stalls(end, stats.long_stalls);
	ret = dfi_source_close(source);
	say(end, "ended", ret, count, ret < 0 ? dfi_errmsg() : "");
}

/* Those of its part, or, of a replicate flow, all. */
static bool is_for(const struct end *end, const struct dfi_flow_info *info,
    const struct worker_tuple *tuple, uint32_t last)
{
	if (info->kind == DFI_REPLICATE)
		return tuple->number == last + 1;
	return tuple->number > last &&
	    dfi_hash_partition(dfi_hash64(tuple->key), info->n_targets) ==
	    end->index;
}

static void check_tuple(struct end *end, const struct dfi_flow_info *info,
    const struct worker_tuple *tuple, uint32_t *last)
{
	struct worker_tuple expected;

	if (tuple->source >= MAX_SOURCES) {
		end->damaged = true;
		return;
	}
	worker_make_tuple(tuple->source, tuple->number - 1, &expected);
	if (memcmp(&expected, tuple, sizeof(expected)) != 0 ||
	    !is_for(end, info, tuple, last[tuple->source]))
		end->damaged = true;
	last[tuple->source] = tuple->number;
}

/* Segments are full, except the last one of a source. */
static void take_gap(struct end *end, struct dfi_target *target,
    const struct dfi_flow_info *info, uint32_t *last, FILE *order)
{
	uint32_t n = info->segment_size / (uint32_t)sizeof(struct worker_tuple);
	struct dfi_gap gap;
	uint64_t upto;

	if (dfi_target_gap(target, &gap) < 0 || gap.source >= MAX_SOURCES ||
	    last[gap.source] != gap.first * n) {
		end->damaged = true;
		return;
	}
	upto = (gap.first + gap.count) * n;
	upto = upto < n_tuples ? upto : n_tuples;
	end->n_gaps++;
	for (; last[gap.source] < upto; last[gap.source]++) {
		end->n_lost++;
		if (order)
			putc((int)(gap.source | 0x80), order);
	}
}

/* Where a target writes its order, or NULL. */
static FILE *open_order(const struct end *end)
{
	char path[256];
	FILE *file;

	if (!order_path)
		return NULL;
	snprintf(path, sizeof(path), "%s.%u", order_path, end->index);
	file = fopen(path, "we");
	if (!file) {
		perror(path);
		_exit(EXIT_FAILURE);
	}
	return file;
}

/* A successful call leaves the text of the last failed one unchanged. */
static int cancel(struct dfi_target *target)
{
	char said[512];
	int ret;

	for (;;) {
		snprintf(said, sizeof(said), "%s", dfi_errmsg());
		ret = dfi_target_cancel(target);
		if (ret != -ENOTCONN)
			break;
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	if (!ret && strcmp(said, dfi_errmsg()) != 0) {
		fprintf(stderr, "instead of '%s': %s\n", said, dfi_errmsg());
		return -EBADMSG;
	}
	return ret;
}

static void run_target(struct end *end)
{
	struct dfi_target_attr attr = {
		.size = sizeof(attr),
		.schema = schema,
		.open_timeout_ms = open_timeout_ms,
		.stall_timeout_ms = TIMEOUT_MS,
	};
	uint32_t last[MAX_SOURCES] = { 0 }, count = 0;
	struct dfi_flow_info info = { .n_targets = 0 };
	struct dfi_target_stats stats;
	struct dfi_target *target;
	FILE *order = open_order(end);
	const void *tuple;
	char text[64];
	int ret;

	attr.flags = polls ? DFI_NONBLOCK : 0;
	ret = dfi_target_open(dfi, flow, end->index, &attr, &target);
	if (ret < 0) {
		say(end, "ended", ret, 0, dfi_errmsg());
		return;
	}
	dfi_flow_lookup(dfi, flow, &info);
	printf("target %u open\n", end->index);
	fflush(stdout);
	if (hold == 0)
		hold_on(end, 0);
	if (leave == 0)
		ret = cancel(target);
	while (
	    leave && ((ret = consume(target, &tuple)) > 0 || ret == -ENODATA)) {
		if (ret < 0) {
			take_gap(end, target, &info, last, order);
			continue;
		}
		check_tuple(end, &info, tuple, last);
		if (order)
			putc((int)((const struct worker_tuple *)tuple)->source,
			    order);
		if (++count == hold)
			hold_on(end, count);
		if (count == leave) {
			ret = dfi_target_cancel(target);
			break;
		}
	}
	if (order && fclose(order))
		end->damaged = true;
	snprintf(text, sizeof(text), "and %u lost in %u gaps", end->n_lost,
	    end->n_gaps);
	say(end, "ended", ret, count,
	    ret < 0           ? dfi_errmsg()
		: end->n_gaps ? text
			      : "");
	dfi_target_query(target, &stats);
	say_stalls(end, stats.long_stalls);
	dfi_target_close(target);
}

static void run_combiner(struct end *end)
{
	struct dfi_combiner_attr attr = {
		.size = sizeof(attr),
		.open_timeout_ms = open_timeout_ms,
		.stall_timeout_ms = TIMEOUT_MS,
	};
	struct dfi_combiner_stats stats;
	struct dfi_combiner *combiner;
	int ret;

	ret = dfi_combiner_open(dfi, flow, end->index, &attr, &combiner);
	if (ret < 0) {
		say(end, "ended", ret, 0, dfi_errmsg());
		return;
	}
	printf("combiner %u open\n", end->index);
	fflush(stdout);
	if (hold != UINT32_MAX)
		hold_on(end, 0);
	ret = dfi_combiner_run(combiner);
	dfi_combiner_query(combiner, &stats);
	say(end, "ended", ret, (uint32_t)stats.records,
	    ret < 0 ? dfi_errmsg() : "");
	dfi_combiner_close(combiner);
}

static void *run_end(void *arg)
{
	struct end *end = arg;

	if (!strcmp(end->role, "source"))
		run_source(end);
	else if (!strcmp(end->role, "combiner"))
		run_combiner(end);
	else
		run_target(end);
	return NULL;
}

static int run_ends(char **names, unsigned n)
{
	static struct end ends[MAX_ENDS];
	bool damaged = false;
	unsigned i;
	char *colon;

	for (i = 0; i < n; i++) {
		colon = strchr(names[i], ':');
		if (!colon)
			return EXIT_FAILURE;
		*colon = '\0';
		ends[i].role = names[i];
		ends[i].index = (uint32_t)strtoul(colon + 1, NULL, 10);
		if (pthread_create(&ends[i].thread, NULL, run_end, &ends[i]))
			return EXIT_FAILURE;
	}
	for (i = 0; i < n; i++) {
		pthread_join(ends[i].thread, NULL);
		damaged = damaged || ends[i].damaged;
	}
	return damaged ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int create(const char *ends, uint32_t segment_size)
{
	const char *colon = strchr(ends, ':');
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = ordered ? DFI_REPLICATE : DFI_SHUFFLE,
		.replicate.ordered = ordered,
		.schema = schema,
		.n_sources = (uint32_t)strtoul(ends, NULL, 10),
		.n_targets = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0,
		.segment_size = segment_size,
		.flags = persistent ? DFI_FLOW_PERSISTENT : 0,
	};
	int ret;

	if (multicast) {
		attr.kind = DFI_REPLICATE;
		attr.replicate.method = DFI_REPLICATION_MULTICAST;
		attr.replicate.loss_policy = notify ? DFI_LOSS_NOTIFY : 0;
	}
	ret = dfi_flow_create(dfi, flow, &attr);
	if (ret < 0)
		fprintf(stderr, "worker: %s\n", dfi_errmsg());
	return ret;
}

int main(int argc, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	const char *creates = NULL;
	uint32_t segment_size = 0;
	int option, ret;

	/* If a test fails, its processes end as well. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while ((option = getopt(
		    argc, argv, "c:eFg:kKl:MNo:OPr:f:n:p:sSt:x:")) != -1) {
		if (option == 'r')
			attr.registry = optarg;
		else if (option == 'f')
			flow = optarg;
		else if (option == 'n')
			n_tuples = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'p')
			hold = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'c')
			creates = optarg;
		else if (option == 'g')
			segment_size = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'o')
			order_path = optarg;
		else if (option == 's')
			schema = &worker_other_schema;
		else if (option == 'e')
			polls = true;
		else if (option == 'F')
			reports_failures = true;
		else if (option == 'S')
			reports_stalls = true;
		else if (option == 't')
			open_timeout_ms = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'x')
			leave = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'O')
			ordered = true;
		else if (option == 'P')
			persistent = true;
		else if (option == 'M')
			multicast = true;
		else if (option == 'N')
			notify = true;
		else if (option == 'k')
			forks = fork;
		else if (option == 'K')
			forks = _Fork;
		else if (option == 'l')
			attr.lease_ttl_ms = (uint32_t)strtoul(optarg, NULL, 10);
		else
			return EXIT_FAILURE;
	}
	if (argc - optind > MAX_ENDS)
		return EXIT_FAILURE;
	ret = dfi_open(&attr, &dfi);
	if (ret < 0) {
		fprintf(stderr, "worker: %s\n", dfi_errmsg());
		return EXIT_FAILURE;
	}
	if (creates && create(creates, segment_size) < 0)
		return EXIT_FAILURE;
	ret = run_ends(argv + optind, (unsigned)(argc - optind));
	/*
	 * -ENOTCONN when the registry was killed: then leaving is not
	 * announced.
	 */
	dfi_close(dfi);
	return ret;
}
