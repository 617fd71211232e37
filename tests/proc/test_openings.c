/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deaths of targets while a source asks for their memory, or, over libfabric,
 * for a connection or a ring: the source fails as soon as the registry knows,
 * not at its time limit. The other processes run worker.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptors.h"
#include "in_time.h"
#include "spawn.h"
#include "worker.h"

#define FLOW "flow"
#define LONG_MS 60000u
/* How long a source may take to open, and a time that is much shorter. */
#define OPEN_MS 50000u
#define SOON_MS 12000

static struct dfi_registry *registry;
static struct dfi *dfi;

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	in_time_start();
	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(openings, .init = setup, .fini = teardown, .timeout = 300);

static void create_flow(uint32_t n_sources, uint32_t n_targets)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &worker_schema;
	attr.n_sources = n_sources;
	attr.n_targets = n_targets;
	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

static void create_ordered_flow(uint32_t n_sources, uint32_t n_targets)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_REPLICATE;
	attr.replicate.method = DFI_REPLICATION_NAIVE;
	attr.replicate.ordered = 1;
	attr.schema = &worker_schema;
	attr.n_sources = n_sources;
	attr.n_targets = n_targets;
	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

/* A source that a thread opens, and its result. */
struct opening {
	pthread_t thread;
	uint32_t index;
	int ret;
	char text[512];
};

static void *run_opening(void *arg)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct opening *opening = arg;
	struct dfi_source *source;

	attr.open_timeout_ms = OPEN_MS;
	opening->ret = dfi_source_open(
	    dfi, FLOW, opening->index, &attr, &source);
	snprintf(opening->text, sizeof(opening->text), "%s",
	    opening->ret ? dfi_errmsg() : "");
	return NULL;
}

static void spawn_target(
    struct child *target, const char *lease, const char *end)
{
	child_spawn(target, DFI_WORKER, "-r", dfi_registry_address(registry),
	    "-f", FLOW, "-l", lease, end, NULL);
	child_expect(target, "target");
}

static void end_targets(struct child *targets, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		child_signal(&targets[i], SIGKILL);
		cr_assert_eq(child_wait(&targets[i]), 128 + SIGKILL);
	}
}

static unsigned count_sockets(void)
{
	return count_descriptors("socket:");
}

/* TCP connections of this process with targets. */
static unsigned count_connections(void)
{
	struct sockaddr_storage peer;
	socklen_t size;
	unsigned n = 0;
	int fd;

	for (fd = 3; fd < 1024; fd++) {
		size = sizeof(peer);
		if (!getpeername(fd, (struct sockaddr *)&peer, &size) &&
		    peer.ss_family == AF_INET)
			n++;
	}
	return n;
}

static bool over_ofi(void)
{
	const char *transport = getenv("DFI_TRANSPORT");

	return transport && !strcmp(transport, "ofi");
}

static unsigned count_mapped_rings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[1024];
	unsigned n = 0;

	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, "memfd:dfi-region") != NULL;
	fclose(file);
	return n;
}

/* Start an opening and wait until count() is n more than before. */
static void start_opening(struct opening *opening, uint32_t index,
    unsigned (*count)(void), unsigned n)
{
	unsigned before = count();
	int64_t wait_limit = now_ms() + LONG_MS;

	opening->index = index;
	cr_assert_eq(
	    pthread_create(&opening->thread, NULL, run_opening, opening), 0);
	while (count() < before + n) {
		cr_assert_lt(now_ms(), wait_limit);
		usleep(1000);
	}
}

/* Start an opening and wait until it waits for the answer of a stopped target.
 */
static void start_asking(struct opening *opening, uint32_t index)
{
	start_opening(
	    opening, index, over_ofi() ? count_connections : count_sockets, 1);
}

static void expect_lost(
    struct opening *opening, const struct child *target, int64_t since_ms)
{
	char pid[32];

	pthread_join(opening->thread, NULL);
	cr_assert_eq(
	    opening->ret, -ECONNRESET, "%d %s", opening->ret, opening->text);
	snprintf(pid, sizeof(pid), "pid %d)", (int)target->pid);
	cr_assert_not_null(
	    strstr(opening->text, "flow '" FLOW "': "), "%s", opening->text);
	cr_assert_not_null(
	    strstr(opening->text, "target "), "%s", opening->text);
	cr_assert_not_null(strstr(opening->text, pid), "%s", opening->text);
	cr_assert_lt(ms_since(since_ms), SOON_MS, "%s", opening->text);
}

/* The child inherits all of its parent, and lives on. */
Test(openings, learn_of_a_target_whose_child_lives_on)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct worker_tuple tuple;
	struct dfi_source *source;
	struct opening opening;
	struct child target;
	int64_t killed;

	create_flow(2, 1);
	child_spawn(&target, DFI_WORKER, "-r", dfi_registry_address(registry),
	    "-f", FLOW, "-k", "-p", "1", "target:0", NULL);
	attr.open_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(dfi, FLOW, 0, &attr, &source), 0, "%s",
	    dfi_errmsg());
	worker_make_tuple(0, 0, &tuple);
	cr_assert_eq(dfi_source_push(source, &tuple), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	child_expect(&target, "target 0 held 1");
	child_signal(&target, SIGSTOP);
	start_asking(&opening, 1);
	killed = now_ms();
	child_signal(&target, SIGKILL);
	expect_lost(&opening, &target, killed);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
	cr_assert_eq(child_wait(&target), 128 + SIGKILL);
}

/*
 * The registry has dropped a stopped target whose process still lives. Another
 * stopped one holds the source up until it asks.
 */
Test(openings, learn_of_a_target_whose_lease_is_over)
{
	struct child targets[2];
	struct opening opening;
	int64_t stopped;

	create_flow(1, 2);
	spawn_target(&targets[0], "60000", "target:0");
	spawn_target(&targets[1], "6000", "target:1");
	child_signal(&targets[0], SIGSTOP);
	start_asking(&opening, 0);
	stopped = now_ms();
	child_signal(&targets[1], SIGSTOP);
	child_signal(&targets[0], SIGCONT);
	expect_lost(&opening, &targets[1], stopped);
	end_targets(targets, 2);
}

/*
 * The source has its ring at the target that holds the sequencer, and asks for
 * that when it has all rings.
 */
Test(openings, learn_of_a_holder_of_the_sequencer_whose_lease_is_over)
{
	struct child targets[2];
	struct opening opening;
	int64_t stopped;

	create_ordered_flow(1, 2);
	spawn_target(&targets[0], "6000", "target:0");
	spawn_target(&targets[1], "60000", "target:1");
	child_signal(&targets[1], SIGSTOP);
	/* The connection with the second target comes after the first ring. */
	if (over_ofi())
		start_opening(&opening, 0, count_connections, 2);
	else
		start_opening(&opening, 0, count_mapped_rings, 1);
	stopped = now_ms();
	child_signal(&targets[0], SIGSTOP);
	child_signal(&targets[1], SIGCONT);
	expect_lost(&opening, &targets[0], stopped);
	end_targets(targets, 2);
}

static void spawn_run(struct child *run)
{
	child_spawn(run, DFI_WORKER, "-r", dfi_registry_address(registry), "-f",
	    FLOW, "-c", "1:1", "target:0", NULL);
	child_expect(run, "target 0 open");
}

static void await_no_flow(void)
{
	int64_t wait_limit = now_ms() + LONG_MS;
	struct dfi_flow_info info;

	while (dfi_flow_lookup(dfi, FLOW, &info) != -ENOENT) {
		cr_assert_lt(now_ms(), wait_limit);
		usleep(1000);
	}
}

/* The source that asks it does not get the next one's target. */
Test(openings, learn_of_the_end_of_an_earlier_run)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;
	struct opening opening;
	struct child runs[2];
	int64_t killed;

	spawn_run(&runs[0]);
	child_signal(&runs[0], SIGSTOP);
	start_asking(&opening, 0);
	killed = now_ms();
	child_signal(&runs[0], SIGKILL);
	cr_assert_eq(child_wait(&runs[0]), 128 + SIGKILL);
	expect_lost(&opening, &runs[0], killed);
	await_no_flow();
	spawn_run(&runs[1]);
	attr.open_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(dfi, FLOW, 0, &attr, &source), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	child_expect(&runs[1], "target 0 ended 0 0");
	cr_assert_eq(child_wait(&runs[1]), 0);
}
