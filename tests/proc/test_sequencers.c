/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequencers between real processes, of which the creator is killed. The
 * processes run numbering.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <dfi/dfi.h>
#include "spawn.h"

static struct dfi_registry *registry;

static void setup(void)
{
	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(sequencers, .init = setup, .fini = teardown, .timeout = 300);

static void spawn(struct child *child, const char *first)
{
	child_spawn(child, DFI_NUMBERING, dfi_registry_address(registry), "s",
	    first, NULL);
	child_expect(child, "open");
}

static void expect_number(struct child *child, const char *line)
{
	child_order(child, 'n');
	cr_assert(child_read(child));
	cr_assert_str_eq(child->line, line);
}

Test(sequencers, count_for_all_processes)
{
	struct child children[3];
	char line[32];
	unsigned i;

	spawn(&children[0], "40");
	spawn(&children[1], NULL);
	spawn(&children[2], NULL);
	for (i = 0; i < 30; i++) {
		snprintf(line, sizeof(line), "number %u", 40 + i);
		expect_number(&children[i * 7 % 3], line);
	}
	/* The creator last: until then there are numbers. */
	for (i = 3; i-- > 0;) {
		child_order(&children[i], 'q');
		cr_assert_eq(child_wait(&children[i]), 0);
	}
}

/* It learns of it soon, but the number of draws until then is not promised. */
Test(sequencers, say_that_their_creator_was_killed)
{
	struct child creator, child;
	char pid[32];

	spawn(&creator, "0");
	spawn(&child, NULL);
	expect_number(&child, "number 0");
	snprintf(pid, sizeof(pid), "pid %d)", (int)creator.pid);
	child_signal(&creator, SIGKILL);
	cr_assert_eq(child_wait(&creator), 128 + SIGKILL);
	do {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		child_order(&child, 'n');
		cr_assert(child_read(&child));
	} while (!strncmp(child.line, "number", strlen("number")));
	cr_assert(strstr(child.line, "error -104 sequencer 's': its creator"),
	    "%s", child.line);
	cr_assert(strstr(child.line, pid), "%s", child.line);
	child_order(&child, 'q');
	cr_assert_eq(child_wait(&child), 0);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* A death must be known within 2 s, and somewhat later on loaded machines. */
#define REPORTED_MS 4000

/* It learns of it in time, though its registry gets that signal before. */
static void expect_death_without_registry(int number)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_sequencer *sequencer;
	struct child server, creator;
	struct dfi *dfi;
	uint64_t first;
	int64_t killed;
	char name[160];
	int ret;

	child_spawn_registry(&server, NULL);
	child_spawn(&creator, DFI_NUMBERING, server.line, "s", "7", NULL);
	child_expect(&creator, "open");
	attr.registry = server.line;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(
	    dfi_sequencer_open(dfi, "s", 0, &sequencer), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_sequencer_next(sequencer, 1, &first), 0);
	cr_assert_eq(first, 7);
	child_signal(&server, number);
	killed = now_ms();
	child_signal(&creator, SIGKILL);
	while (!(ret = dfi_sequencer_next(sequencer, 1, &first))) {
		cr_assert_lt(now_ms() - killed, REPORTED_MS);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	cr_assert_eq(ret, -ECONNRESET, "%s", dfi_errmsg());
	/* Over RDMA its connection may have broken before. */
	cr_assert_not_null(
	    strstr(dfi_errmsg(), "sequencer 's'"), "%s", dfi_errmsg());
	snprintf(name, sizeof(name), "pid %d)", (int)creator.pid);
	cr_assert_not_null(strstr(dfi_errmsg(), name), "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), "host "), "%s", dfi_errmsg());
	cr_assert_eq(child_wait(&creator), 128 + SIGKILL);
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	if (number != SIGKILL)
		child_signal(&server, SIGKILL);
	cr_assert_eq(child_wait(&server), 128 + SIGKILL);
}

Test(sequencers, report_their_creators_death_while_the_registry_hangs)
{
	expect_death_without_registry(SIGSTOP);
}

Test(sequencers, report_their_creators_death_after_that_of_the_registry)
{
	expect_death_without_registry(SIGKILL);
}

/* Much longer than its lease. */
#define OPEN_MS 50000

/* Stopped, it doesn't answer, and its socket doesn't end. */
Test(sequencers, are_not_waited_for_when_the_lease_of_their_creator_is_over)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_sequencer *sequencer;
	struct child creator;
	struct dfi *dfi;
	int64_t began;
	char pid[32];

	setenv("DFI_LEASE", "6000", 1);
	spawn(&creator, "0");
	unsetenv("DFI_LEASE");
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	child_signal(&creator, SIGSTOP);
	began = now_ms();
	cr_assert_eq(
	    dfi_sequencer_open(dfi, "s", OPEN_MS, &sequencer), -ECONNRESET);
	cr_assert_lt(now_ms() - began, OPEN_MS / 2);
	snprintf(pid, sizeof(pid), "pid %d)", (int)creator.pid);
	cr_assert_not_null(strstr(dfi_errmsg(), "sequencer 's' ("));
	cr_assert_not_null(strstr(dfi_errmsg(), pid), "%s", dfi_errmsg());
	child_signal(&creator, SIGKILL);
	cr_assert_eq(child_wait(&creator), 128 + SIGKILL);
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
}

static int count_node(void *arg, const struct dfi_node_info *info)
{
	(void)info;
	++*(unsigned *)arg;
	return 0;
}

/* A creator that comes back late finds its name taken, and leaves it alone. */
Test(sequencers, have_the_name_that_one_before_had_when_its_registry_died)
{
	struct dfi_registry_attr registry_attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_sequencer *created, *opened;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *restarted;
	struct dfi_flow_info info;
	struct child late;
	struct dfi *dfi;
	uint64_t number;
	char address[64];
	int64_t wait_limit;
	unsigned n;

	snprintf(address, sizeof(address), "unix:@dfi-test-sequencers-%d",
	    (int)getpid());
	registry_attr.listen = attr.registry = address;
	cr_assert_eq(dfi_registry_start(&registry_attr, &restarted), 0);
	child_spawn(&late, DFI_NUMBERING, address, "s", "0", NULL);
	child_expect(&late, "open");
	child_signal(&late, SIGSTOP);
	cr_assert_eq(dfi_registry_stop(restarted), 0);
	cr_assert_eq(dfi_registry_start(&registry_attr, &restarted), 0);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_sequencer_create(dfi, "s", 100, &created), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(
	    dfi_sequencer_open(dfi, "s", 0, &opened), 0, "%s", dfi_errmsg());
	child_signal(&late, SIGCONT);
	wait_limit = now_ms() + OPEN_MS;
	do {
		cr_assert_lt(now_ms(), wait_limit);
		n = 0;
		cr_assert_eq(dfi_node_list(dfi, count_node, &n), 0);
	} while (n < 2);
	child_order(&late, 'q');
	cr_assert_eq(child_wait(&late), 0);
	/* Events come before answers. */
	cr_assert_eq(dfi_flow_lookup(dfi, "none", &info), -ENOENT);
	cr_assert_eq(
	    dfi_sequencer_next(opened, 1, &number), 0, "%s", dfi_errmsg());
	cr_assert_eq(number, 100);
	cr_assert_eq(dfi_sequencer_close(opened), 0);
	cr_assert_eq(dfi_sequencer_close(created), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(dfi_registry_stop(restarted), 0);
}
