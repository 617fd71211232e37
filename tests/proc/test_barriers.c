/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers between real processes, one of which is killed. The others run
 * meeting.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <dfi/dfi.h>
#include "spawn.h"

#define N 3u

static struct dfi_registry *registry;
static struct child children[N];

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void setup(void)
{
	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(barriers, .init = setup, .fini = teardown, .timeout = 60);

static void spawn_members(const char *rounds)
{
	char index[16];
	uint32_t i;

	for (i = 0; i < N; i++) {
		snprintf(index, sizeof(index), "%u", i);
		child_spawn(&children[i], DFI_MEETING,
		    dfi_registry_address(registry), "b", "3", index, rounds,
		    NULL);
	}
	for (i = 0; i < N; i++)
		child_expect(&children[i], "open");
}

Test(barriers, hold_processes_together)
{
	uint32_t i;

	spawn_members("100");
	for (i = 0; i < N; i++)
		child_tell(&children[i], 'c');
	for (i = 0; i < N; i++) {
		child_expect(&children[i], "ended 0 100");
		cr_assert_eq(child_wait(&children[i]), 0);
	}
}

static void expect_loss(struct child *child, pid_t pid, const char *round)
{
	char text[64];

	snprintf(text, sizeof(text), "ended %d %s", -ECONNRESET, round);
	child_expect(child, text);
	snprintf(text, sizeof(text), "pid %d)", (int)pid);
	cr_assert(strstr(child->line, "member 2 (node"), "%s", child->line);
	cr_assert(strstr(child->line, "host "), "%s", child->line);
	cr_assert(strstr(child->line, text), "%s", child->line);
}

Test(barriers, tell_all_which_member_was_killed)
{
	pid_t pid;
	int64_t start;
	uint32_t i;

	spawn_members("100");
	child_tell(&children[0], 'c');
	child_tell(&children[1], 'c');
	pid = children[2].pid;
	start = now_ms();
	child_signal(&children[2], SIGKILL);
	for (i = 0; i < 2; i++) {
		expect_loss(&children[i], pid, "0 ");
		cr_assert_eq(child_wait(&children[i]), 0);
	}
	cr_assert_lt(now_ms() - start, 4000);
	cr_assert_eq(child_wait(&children[2]), 128 + SIGKILL);
}

/* All survivors have passed the same rounds. */
Test(barriers, agree_on_the_last_round_when_one_is_killed_in_mid_flight)
{
	unsigned rounds[2];
	uint32_t i;
	int ret;

	spawn_members("1000000");
	for (i = 0; i < N; i++)
		child_tell(&children[i], 'c');
	nanosleep(&(struct timespec){ .tv_nsec = 500000000 }, NULL);
	child_signal(&children[2], SIGKILL);
	for (i = 0; i < 2; i++) {
		child_expect(&children[i], "ended");
		cr_assert_eq(
		    sscanf(children[i].line, "ended %d %u", &ret, &rounds[i]),
		    2);
		cr_assert_eq(ret, -ECONNRESET, "%s", children[i].line);
		cr_assert_eq(child_wait(&children[i]), 0);
	}
	cr_assert_eq(rounds[0], rounds[1]);
	cr_assert_gt(rounds[0], 0);
	cr_assert_eq(child_wait(&children[2]), 128 + SIGKILL);
}

Test(barriers, can_be_opened_again_after_a_loss)
{
	uint32_t i;

	spawn_members("5");
	child_signal(&children[2], SIGKILL);
	for (i = 0; i < 2; i++) {
		child_tell(&children[i], 'c');
		child_expect(&children[i], "ended -104 0");
		cr_assert_eq(child_wait(&children[i]), 0);
	}
	cr_assert_eq(child_wait(&children[2]), 128 + SIGKILL);
	spawn_members("5");
	for (i = 0; i < N; i++)
		child_tell(&children[i], 'c');
	for (i = 0; i < N; i++) {
		child_expect(&children[i], "ended 0 5");
		cr_assert_eq(child_wait(&children[i]), 0);
	}
}
