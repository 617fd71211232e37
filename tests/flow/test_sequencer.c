/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequencers between threads of two contexts: numbers are unique and dense, and
 * each wrong use is an error.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

#define N_TAKERS 4u
#define N_TAKES 50000u
#define MAX_RANGE 5u

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(sequencer, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_sequencer *create(const char *name, uint64_t first)
{
	struct dfi_sequencer *sequencer;

	cr_assert_eq(dfi_sequencer_create(rig.dfi, name, first, &sequencer), 0,
	    "%s", dfi_errmsg());
	return sequencer;
}

static struct dfi_sequencer *open_sequencer(struct dfi *dfi, const char *name)
{
	struct dfi_sequencer *sequencer;

	cr_assert_eq(dfi_sequencer_open(dfi, name, LONG_MS, &sequencer), 0,
	    "%s", dfi_errmsg());
	return sequencer;
}

/* A thread that takes ranges, and what it got. */
struct range {
	uint64_t first;
	uint32_t n;
};

struct taker {
	struct dfi *dfi;
	uint32_t number, n;
	pthread_t thread;
	struct range ranges[N_TAKES];
	char text[300];
};

static int take(struct taker *taker)
{
	struct rng rng = { .state = taker->number };
	struct dfi_sequencer *sequencer;
	struct range *range;
	uint32_t i;
	int ret;

	ret = dfi_sequencer_open(taker->dfi, "s", LONG_MS, &sequencer);
	for (i = 0; !ret && i < taker->n; i++) {
		range = &taker->ranges[i];
		range->n = 1 + rng_below(&rng, MAX_RANGE);
		ret = dfi_sequencer_next(sequencer, range->n, &range->first);
	}
	return ret < 0 ? ret : dfi_sequencer_close(sequencer);
}

static void *run_taker(void *arg)
{
	struct taker *taker = arg;

	if (take(taker) < 0)
		snprintf(taker->text, sizeof(taker->text), "taker %u: %s",
		    taker->number, dfi_errmsg());
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const struct range *left = a, *right = b;

	return (left->first > right->first) - (left->first < right->first);
}

Test(sequencer, gives_each_number_once_to_threads_of_two_contexts)
{
	static struct taker takers[N_TAKERS];
	static struct range all[N_TAKERS * N_TAKES];
	struct dfi_sequencer *sequencer = create("s", 1000);
	uint64_t expected = 1000, last;
	uint32_t i, n = fewer(N_TAKES);

	for (i = 0; i < N_TAKERS; i++) {
		takers[i].n = n;
		takers[i].dfi = i % 2 ? rig.dfi : rig.other;
		takers[i].number = i;
		cr_assert_eq(pthread_create(&takers[i].thread, NULL, run_taker,
				 &takers[i]),
		    0);
	}
	for (i = 0; i < N_TAKERS; i++) {
		pthread_join(takers[i].thread, NULL);
		cr_assert_str_empty(takers[i].text, "%s", takers[i].text);
		memcpy(&all[i * n], takers[i].ranges, n * sizeof(all[0]));
	}
	qsort(all, N_TAKERS * n, sizeof(all[0]), compare);
	for (i = 0; i < N_TAKERS * n; i++) {
		cr_assert_eq(all[i].first, expected);
		expected += all[i].n;
	}
	cr_assert_eq(dfi_sequencer_next(sequencer, 1, &last), 0);
	cr_assert_eq(last, expected);
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
}

Test(sequencer, counts_on_past_the_largest_number)
{
	struct dfi_sequencer *sequencer = create("s", UINT64_MAX - 2);
	uint64_t first;

	cr_assert_eq(dfi_sequencer_next(sequencer, 2, &first), 0);
	cr_assert_eq(first, UINT64_MAX - 2);
	cr_assert_eq(dfi_sequencer_next(sequencer, 4, &first), 0);
	cr_assert_eq(first, UINT64_MAX);
	cr_assert_eq(dfi_sequencer_next(sequencer, 1, &first), 0);
	cr_assert_eq(first, 3);
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
}

static void *create_later(void *arg)
{
	struct dfi_sequencer **sequencer = arg;

	yield_times(1000);
	if (dfi_sequencer_create(rig.dfi, "later", 7, sequencer) < 0)
		*sequencer = NULL;
	return NULL;
}

Test(sequencer, is_waited_for)
{
	struct dfi_sequencer *creator = NULL, *sequencer;
	pthread_t thread;
	uint64_t first;

	cr_assert_eq(pthread_create(&thread, NULL, create_later, &creator), 0);
	sequencer = open_sequencer(rig.other, "later");
	pthread_join(thread, NULL);
	cr_assert_not_null(creator);
	cr_assert_eq(dfi_sequencer_next(sequencer, 1, &first), 0);
	cr_assert_eq(first, 7);
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
	cr_assert_eq(dfi_sequencer_close(creator), 0);
}

Test(sequencer, says_that_nobody_has_created_it)
{
	struct dfi_sequencer *near = create("s2", 0), *sequencer;

	cr_assert_eq(
	    dfi_sequencer_open(rig.dfi, "s", SHORT_MS, &sequencer), -ETIMEDOUT);
	cr_assert_str_eq(dfi_errmsg(), "sequencer 's': nobody has created it");
	cr_assert_eq(dfi_sequencer_close(near), 0);
}

Test(sequencer, has_one_creator)
{
	struct dfi_sequencer *sequencer = create("s", 0), *other = NULL;

	cr_assert_eq(dfi_sequencer_create(rig.other, "s", 0, &other), -EEXIST);
	cr_assert(strstr(dfi_errmsg(), "created already, by node "), "%s",
	    dfi_errmsg());
	cr_assert_null(other);
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
}

static bool is_over(void *arg)
{
	uint64_t number;

	return dfi_sequencer_next(arg, 1, &number) == -ECONNRESET;
}

Test(sequencer, ends_with_its_creator_and_may_be_created_again)
{
	struct dfi_sequencer *creator = create("s", 0), *sequencer, *again;
	uint64_t first = 99;

	sequencer = open_sequencer(rig.other, "s");
	cr_assert_eq(dfi_sequencer_close(creator), 0);
	/* Over a network the registry says so. */
	if (over_network())
		cr_assert(eventually(is_over, sequencer));
	cr_assert_eq(dfi_sequencer_next(sequencer, 1, &first), -ECONNRESET);
	cr_assert(strstr(dfi_errmsg(), "sequencer 's': its creator (node "),
	    "%s", dfi_errmsg());
	cr_assert_eq(first, 99);
	/* The name is free, and the handle is not taken for another's. */
	creator = create("s", 5);
	again = open_sequencer(rig.other, "s");
	cr_assert_eq(dfi_sequencer_next(sequencer, 1, &first), -ECONNRESET);
	cr_assert_eq(dfi_sequencer_next(again, 1, &first), 0);
	cr_assert_eq(first, 5);
	cr_assert_eq(dfi_sequencer_close(again), 0);
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
	cr_assert_eq(dfi_sequencer_close(creator), 0);
}

Test(sequencer, keeps_its_context_open)
{
	struct dfi *dfi = rig_join(&rig);
	struct dfi_sequencer *creator = create("s", 0);
	struct dfi_sequencer *sequencer = open_sequencer(dfi, "s");

	cr_assert_eq(dfi_close(dfi), -EBUSY);
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(dfi_sequencer_close(creator), 0);
}

Test(sequencer, names_what_is_wrong_with_arguments)
{
	struct dfi_sequencer *sequencer = create("s", 0), *other = NULL;
	struct dfi_barrier *barrier;
	uint64_t first = 99;

	cr_assert_eq(dfi_sequencer_create(rig.dfi, "a/b", 0, &other), -EINVAL);
	cr_assert_eq(dfi_sequencer_create(rig.dfi, NULL, 0, &other), -EINVAL);
	cr_assert_eq(dfi_sequencer_create(rig.dfi, "s", 0, NULL), -EINVAL);
	cr_assert_eq(dfi_sequencer_create(NULL, "s", 0, &other), -EINVAL);
	cr_assert_eq(dfi_sequencer_open(rig.dfi, "", 0, &other), -EINVAL);
	cr_assert_eq(dfi_sequencer_open(rig.dfi, "s", 0, NULL), -EINVAL);
	cr_assert_null(other);
	cr_assert_eq(dfi_sequencer_next(sequencer, 0, &first), -EINVAL);
	cr_assert_str_eq(dfi_errmsg(), "sequencer 's': next: n is 0");
	cr_assert_eq(dfi_sequencer_next(sequencer, 1, NULL), -EINVAL);
	cr_assert_eq(dfi_sequencer_next(NULL, 1, &first), -EINVAL);
	cr_assert_eq(first, 99);
	cr_assert_eq(dfi_barrier_open(rig.dfi, "s", 1, 0, &barrier), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(dfi_sequencer_next(
			 (struct dfi_sequencer *)(void *)barrier, 1, &first),
	    -EINVAL);
	cr_assert(
	    strstr(dfi_errmsg(), "takes a sequencer"), "%s", dfi_errmsg());
	cr_assert_eq(dfi_barrier_close(barrier), 0);
	/* Nothing of it has taken a number. */
	cr_assert_eq(dfi_sequencer_next(sequencer, 1, &first), 0);
	cr_assert_eq(first, 0);
	cr_assert_eq(dfi_sequencer_close(NULL), 0);
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
}
