/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers between threads: nobody passes before all have come, in each round,
 * and each wrong use is an error.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "flow_help.h"

#define N_PARTICIPANTS 4u
#define N_ROUNDS 1000u

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(barrier, .init = setup, .fini = teardown, .timeout = 300);

/* One barrier with a thread for each participant. */
struct group {
	const char *name;
	uint32_t n_rounds, n_uses;
	uint32_t next; /* index */
	_Atomic uint32_t arrived;
	_Atomic uint32_t n_early; /* passed before all had come */
	char text[300];
};

struct walker {
	struct group *group;
	uint32_t index;
	pthread_t thread;
};

static int walk(struct walker *walker, uint32_t *round)
{
	struct group *group = walker->group;
	struct dfi_barrier *barrier;
	uint32_t i;
	int ret;

	ret = dfi_barrier_open(walker->index % 2 ? rig.dfi : rig.other,
	    group->name, N_PARTICIPANTS, walker->index, &barrier);
	if (ret < 0)
		return ret;
	for (i = 0; !ret && i < group->n_rounds; i++) {
		atomic_fetch_add(&group->arrived, 1);
		ret = dfi_barrier_wait(barrier, LONG_MS);
		++*round;
		if (atomic_load(&group->arrived) < *round * N_PARTICIPANTS)
			atomic_fetch_add(&group->n_early, 1);
	}
	if (ret < 0)
		return ret;
	return dfi_barrier_close(barrier);
}

static void *run_walker(void *arg)
{
	struct walker *walker = arg;
	struct group *group = walker->group;
	uint32_t use, round = 0;
	int ret = 0;

	for (use = 0; !ret && use < group->n_uses; use++)
		ret = walk(walker, &round);
	if (ret < 0)
		snprintf(group->text, sizeof(group->text),
		    "participant %u, use %u: %s", walker->index, use,
		    dfi_errmsg());
	return NULL;
}

static void start(struct group *group, struct walker *walkers)
{
	uint32_t i;

	for (i = 0; i < N_PARTICIPANTS; i++) {
		walkers[i].group = group;
		walkers[i].index = i;
		cr_assert_eq(pthread_create(&walkers[i].thread, NULL,
				 run_walker, &walkers[i]),
		    0);
	}
}

static void finish(struct group *group, struct walker *walkers)
{
	uint32_t i;

	for (i = 0; i < N_PARTICIPANTS; i++)
		pthread_join(walkers[i].thread, NULL);
	cr_assert_str_empty(group->text, "%s", group->text);
	cr_assert_eq(atomic_load(&group->n_early), 0);
	cr_assert_eq(atomic_load(&group->arrived),
	    group->n_uses * group->n_rounds * N_PARTICIPANTS);
}

Test(barrier, holds_all_participants_a_thousand_times)
{
	struct group group = {
		.name = "b",
		.n_rounds = N_ROUNDS,
		.n_uses = 1,
	};
	struct walker walkers[N_PARTICIPANTS];

	start(&group, walkers);
	finish(&group, walkers);
}

Test(barrier, is_opened_again_while_others_still_close_it)
{
	struct group group = { .name = "b", .n_rounds = 1, .n_uses = 200 };
	struct walker walkers[N_PARTICIPANTS];

	start(&group, walkers);
	finish(&group, walkers);
}

Test(barrier, two_at_once_do_not_mix)
{
	struct group groups[2] = {
		{ .name = "b", .n_rounds = 200, .n_uses = 1 },
		{ .name = "b2", .n_rounds = 300, .n_uses = 1 },
	};
	struct walker walkers[2][N_PARTICIPANTS];

	start(&groups[0], walkers[0]);
	start(&groups[1], walkers[1]);
	finish(&groups[0], walkers[0]);
	finish(&groups[1], walkers[1]);
}

static struct dfi_barrier *open_participant(uint32_t n, uint32_t index)
{
	struct dfi_barrier *barrier = NULL;

	cr_assert_eq(dfi_barrier_open(rig.dfi, "b", n, index, &barrier), 0,
	    "%s", dfi_errmsg());
	return barrier;
}

Test(barrier, of_one_participant_never_waits)
{
	struct dfi_barrier *barrier = open_participant(1, 0);
	uint32_t i;

	for (i = 0; i < 10; i++)
		cr_assert_eq(dfi_barrier_wait(barrier, 0), 0);
	cr_assert_eq(dfi_barrier_close(barrier), 0);
}

static void *wait_long(void *arg)
{
	return (void *)(intptr_t)dfi_barrier_wait(arg, LONG_MS);
}

struct vain_wait {
	struct dfi_barrier *barrier;
	const char *text;
};

/*
 * Whether a wait ends with this error, without the others. The registry must
 * first know that this participant has arrived, which may take as long.
 */
static bool waits_in_vain(void *arg)
{
	const struct vain_wait *wait = arg;

	return dfi_barrier_wait(wait->barrier, 20) == -ETIMEDOUT &&
	    strstr(dfi_errmsg(), wait->text);
}

static void expect_vain_wait(struct dfi_barrier *barrier, const char *text)
{
	struct vain_wait wait = { barrier, text };

	cr_assert(eventually(waits_in_vain, &wait), "'%s' is not in '%s'", text,
	    dfi_errmsg());
}

Test(barrier, timeout_names_the_missing_and_the_round_goes_on)
{
	struct dfi_barrier *first = open_participant(3, 0), *second, *third;
	pthread_t threads[2];
	void *result;

	assert_error(dfi_barrier_wait(first, 20), -ETIMEDOUT, "barrier 'b'",
	    "round 1", "participant 1 has not opened it",
	    "participant 2 has not opened it");
	second = open_participant(3, 1);
	/* The first one hears of the second, which may take longer as well. */
	expect_vain_wait(
	    first, "round 1 of 3: participant 2 has not opened it");
	third = open_participant(3, 2);
	/* Now that all are there, it has arrived, and the others have not. */
	expect_vain_wait(first, "has not arrived");
	expect_vain_wait(first, "participant 1 (node ");
	expect_vain_wait(first, "participant 2 (node ");
	expect_vain_wait(first, "pid ");
	pthread_create(&threads[0], NULL, wait_long, second);
	pthread_create(&threads[1], NULL, wait_long, third);
	pthread_join(threads[0], &result);
	cr_assert_null(result);
	pthread_join(threads[1], &result);
	cr_assert_null(result);
	/* The round is complete by now; this is still its call. */
	cr_assert_eq(dfi_barrier_wait(first, 0), 0, "%s", dfi_errmsg());
	expect_vain_wait(first, "round 2");
	cr_assert_eq(dfi_barrier_close(first), 0);
	cr_assert_eq(dfi_barrier_close(second), 0);
	cr_assert_eq(dfi_barrier_close(third), 0);
}

Test(barrier, without_a_timeout_participants_that_never_open_are_named)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_barrier *barrier;
	struct dfi *dfi;

	attr.registry = rig_address(&rig);
	attr.open_timeout_ms = SHORT_MS;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_barrier_open(dfi, "b", 9, 8, &barrier), 0);
	assert_error(dfi_barrier_wait(barrier, 0), -ETIMEDOUT,
	    "participant 0 has not opened it", "and 5 more");
	cr_assert_eq(dfi_barrier_close(barrier), 0);
	cr_assert_eq(dfi_close(dfi), 0);
}

Test(barrier, participant_that_leaves_ends_the_wait_of_the_others)
{
	struct dfi_barrier *first = open_participant(2, 0);
	struct dfi_barrier *second = open_participant(2, 1);
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, wait_long, first);
	cr_assert_eq(dfi_barrier_wait(second, LONG_MS), 0, "%s", dfi_errmsg());
	pthread_join(thread, &result);
	cr_assert_null(result);
	pthread_create(&thread, NULL, wait_long, first);
	cr_assert_eq(dfi_barrier_close(second), 0);
	pthread_join(thread, &result);
	cr_assert_eq((int)(intptr_t)result, -ECONNRESET);
	assert_error(dfi_barrier_wait(first, 0), -ECONNRESET, "barrier 'b'",
	    "participant 1 (node ", "died or closed before round 2");
	cr_assert_eq(dfi_barrier_close(first), 0);
}

struct opening {
	uint32_t index;
	struct dfi_barrier *barrier;
};

static bool is_free(void *arg)
{
	struct opening *opening = arg;

	return !dfi_barrier_open(
	    rig.other, "b", 3, opening->index, &opening->barrier);
}

/* They may be busy for long before they ask. */
Test(barrier, name_is_free_before_all_have_asked_who_was_lost)
{
	struct dfi_barrier *former[3];
	struct opening next[3];
	pthread_t threads[2];
	void *result;
	uint32_t i;

	for (i = 0; i < 3; i++)
		former[i] = open_participant(3, i);
	cr_assert_eq(dfi_barrier_close(former[2]), 0);
	for (i = 0; i < 3; i++) {
		next[i].index = i;
		cr_assert(eventually(is_free, &next[i]), "%s", dfi_errmsg());
	}
	for (i = 0; i < 2; i++) {
		assert_error(dfi_barrier_wait(former[i], 0), -ECONNRESET,
		    "participant 2 (node ");
		cr_assert_eq(dfi_barrier_close(former[i]), 0);
	}
	for (i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, wait_long, next[i].barrier);
	cr_assert_eq(
	    dfi_barrier_wait(next[2].barrier, LONG_MS), 0, "%s", dfi_errmsg());
	for (i = 0; i < 2; i++) {
		pthread_join(threads[i], &result);
		cr_assert_null(result);
	}
	for (i = 0; i < 3; i++)
		cr_assert_eq(dfi_barrier_close(next[i].barrier), 0);
}

Test(barrier, participants_that_disagree_on_their_number_get_an_error)
{
	struct dfi_barrier *first = open_participant(2, 0), *second;

	assert_error(dfi_barrier_open(rig.other, "b", 3, 2, &second),
	    -EPROTOTYPE, "barrier 'b'", "participant 0 (node",
	    "for 2 participants", "for 3");
	assert_error(dfi_barrier_wait(first, 20), -ETIMEDOUT, "participant 1");
	cr_assert_eq(dfi_barrier_close(first), 0);
}

Test(barrier, wrong_use_is_named)
{
	struct dfi_barrier *barrier = open_participant(2, 1), *other;

	assert_error(dfi_barrier_open(rig.other, "b", 2, 1, &other), -EEXIST,
	    "participant 1 (node ", "open already");
	assert_error(dfi_barrier_open(rig.dfi, "b", 2, 2, &other), -ERANGE,
	    "participant 2", "has 2");
	assert_error(dfi_barrier_open(rig.dfi, "b", 0, 0, &other), -EINVAL,
	    "n_participants 0");
	assert_error(
	    dfi_barrier_open(rig.dfi, "b", DFI_MAX_PARTICIPANTS + 1, 0, &other),
	    -EINVAL, "n_participants 1025");
	assert_error(
	    dfi_barrier_open(rig.dfi, "a/b", 2, 0, &other), -EINVAL, "a/b");
	assert_error(
	    dfi_barrier_open(rig.dfi, NULL, 2, 0, &other), -EINVAL, "NULL");
	assert_error(dfi_barrier_open(rig.dfi, "b", 2, 0, NULL), -EINVAL,
	    "barrier is NULL");
	assert_error(dfi_barrier_wait(NULL, 0), -EINVAL, "the barrier is NULL");
	assert_error(dfi_barrier_wait((struct dfi_barrier *)rig.dfi, 0),
	    -EINVAL, "takes a barrier");
	assert_error(dfi_close(rig.dfi), -EBUSY, "barriers and calls use");
	cr_assert_eq(dfi_barrier_close(barrier), 0);
}

Test(barrier, loss_of_the_registry_ends_the_wait)
{
	struct dfi_registry *registry;
	struct dfi_barrier *barrier;
	struct dfi_attr attr = DFI_ATTR_INIT;
	pthread_t thread;
	struct dfi *dfi;
	void *result;

	cr_assert_eq(dfi_registry_start(NULL, &registry), 0);
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0);
	cr_assert_eq(dfi_barrier_open(dfi, "b", 2, 0, &barrier), 0);
	pthread_create(&thread, NULL, wait_long, barrier);
	cr_assert_eq(dfi_registry_stop(registry), 0);
	pthread_join(thread, &result);
	cr_assert_eq((int)(intptr_t)result, -ENOTCONN);
	cr_assert_eq(dfi_barrier_close(barrier), 0);
	cr_assert_eq(dfi_close(dfi), 0);
}

static bool passes(void *arg)
{
	return dfi_barrier_wait(arg, LONG_MS) == 0;
}

Test(barrier, goes_on_when_the_registry_is_back)
{
	struct dfi_registry_attr registry_attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi_barrier *participants[2];
	char address[64];
	struct dfi *dfi;
	uint32_t i;

	snprintf(
	    address, sizeof(address), "unix:@dfi-test-barrier-%d", getpid());
	registry_attr.listen = attr.registry = address;
	cr_assert_eq(dfi_registry_start(&registry_attr, &registry), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(dfi_open(&attr, &dfi), 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(
		    dfi_barrier_open(dfi, "b", 2, i, &participants[i]), 0);
	/* After its arrival: before, it may not know of the other one. */
	expect_vain_wait(participants[0], "has not arrived");
	cr_assert_eq(dfi_registry_stop(registry), 0);
	cr_assert_eq(dfi_registry_start(&registry_attr, &registry), 0, "%s",
	    dfi_errmsg());
	expect_vain_wait(participants[0], "has not arrived");
	/* It learns after the other one that the registry is back. */
	cr_assert(eventually(passes, participants[1]), "%s", dfi_errmsg());
	cr_assert_eq(
	    dfi_barrier_wait(participants[0], LONG_MS), 0, "%s", dfi_errmsg());
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_barrier_close(participants[i]), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(dfi_registry_stop(registry), 0);
}
