/* SPDX-License-Identifier: Apache-2.0 */
/* Requested faults happen as often as requested, and no others do. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "base/clock.h"
#include "buffers/multicast/faults.h"

enum {
	N = 20000
};

static struct {
	uint32_t n, n_of[N];
	uint32_t order[4 * N];
	int64_t now, at[N];
} got;

static void take(void *arg, const void *data, size_t size)
{
	uint32_t number;

	cr_assert_eq(arg, &got);
	cr_assert_eq(size, sizeof(number));
	memcpy(&number, data, sizeof(number));
	cr_assert_lt(number, N);
	cr_assert_lt(got.n, 4 * N);
	got.order[got.n++] = number;
	got.n_of[number]++;
	got.at[number] = got.now;
}

/* One each microsecond, and then all that are held back. */
static struct faults_counts send_all(const char *text, uint64_t salt)
{
	struct faults_counts counts;
	struct faults *faults;
	uint32_t i;

	memset(&got, 0, sizeof(got));
	cr_assert_eq(
	    dfi__faults_parse(text, salt, &faults), 0, "%s", dfi_errmsg());
	for (i = 0; i < N; i++) {
		got.now = i * 1000;
		dfi__faults_progress(faults, got.now, take, &got);
		dfi__faults_receive(faults, &i, sizeof(i), got.now, take, &got);
	}
	while (dfi__faults_due(faults) != DEADLINE_NEVER) {
		got.now = dfi__faults_due(faults);
		dfi__faults_progress(faults, got.now, take, &got);
	}
	dfi__faults_query(faults, &counts);
	cr_assert_eq(counts.received, N);
	cr_assert_eq(got.n, N + counts.duplicated - counts.dropped);
	dfi__faults_close(faults);
	return counts;
}

static void about(uint64_t n, double probability)
{
	cr_assert_geq(n, N * probability * 0.8);
	cr_assert_leq(n, N * probability * 1.2);
}

Test(faults, drop_loses_so_many)
{
	struct faults_counts counts = send_all("drop=0.05", 1);
	uint32_t i;

	about(counts.dropped, 0.05);
	cr_assert_eq(counts.duplicated + counts.reordered + counts.delayed, 0);
	for (i = 1; i < got.n; i++)
		cr_assert_lt(got.order[i - 1], got.order[i]);
	send_all("drop=1", 1);
	cr_assert_eq(got.n, 0);
	send_all("drop=1.0,seed=5", 1);
	cr_assert_eq(got.n, 0);
	send_all("drop=0.0,drop=0", 1);
	cr_assert_eq(got.n, N);
}

Test(faults, duplicates_come_twice)
{
	struct faults_counts counts = send_all("duplicate=0.1", 1);
	uint32_t i, twice = 0;

	about(counts.duplicated, 0.1);
	for (i = 0; i < N; i++) {
		cr_assert(got.n_of[i] == 1 || got.n_of[i] == 2);
		twice += got.n_of[i] == 2;
	}
	cr_assert_eq(twice, counts.duplicated);
}

Test(faults, reordered_ones_wait_for_one_to_three_others)
{
	struct faults_counts counts = send_all("reorder=0.1", 1);
	uint64_t late = 0;
	uint32_t i;

	about(counts.reordered, 0.1);
	for (i = 0; i < N; i++) {
		cr_assert_eq(got.n_of[i], 1);
		if (i >= N - 4)
			continue; /* nothing comes after them */
		cr_assert_leq(got.at[i], (i + 3) * 1000);
		late += got.at[i] > i * 1000;
	}
	cr_assert_geq(late + 4, counts.reordered);
}

Test(faults, reordered_ones_that_nothing_follows_come_all_the_same)
{
	struct faults *faults;
	uint32_t i = 7;

	memset(&got, 0, sizeof(got));
	cr_assert_eq(dfi__faults_parse("reorder=1,delay_us=50", 0, &faults), 0);
	dfi__faults_receive(faults, &i, sizeof(i), 100, take, &got);
	cr_assert_eq(got.n, 0);
	cr_assert_eq(dfi__faults_due(faults), 100 + 50001);
	dfi__faults_progress(faults, 100 + 50000, take, &got);
	cr_assert_eq(got.n, 0);
	dfi__faults_progress(faults, 100 + 50001, take, &got);
	cr_assert_eq(got.n, 1);
	cr_assert_eq(dfi__faults_due(faults), DEADLINE_NEVER);
	dfi__faults_close(faults);
}

Test(faults, delayed_ones_come_within_the_time)
{
	struct faults_counts counts = send_all("delay=0.2,delay_us=30", 1);
	uint64_t late = 0;
	uint32_t i;

	about(counts.delayed, 0.2);
	for (i = 0; i < N; i++) {
		cr_assert_eq(got.n_of[i], 1);
		/* Time passes in steps of a microsecond. */
		cr_assert_leq(got.at[i], i * 1000 + 30001 + 1000);
		late += got.at[i] > i * 1000;
	}
	cr_assert_eq(late, counts.delayed);
}

Test(faults, same_seed_gives_the_same_and_another_receiver_others)
{
	static const char text[] =
	    "drop=0.1,duplicate=0.1,reorder=0.1,delay=0.1,delay_us=20,seed=7";
	static uint32_t first[4 * N];

	send_all(text, 1);
	memcpy(first, got.order, sizeof(first));
	send_all(text, 1);
	cr_assert_arr_eq(first, got.order, sizeof(first));
	send_all(text, 2);
	cr_assert_arr_neq(first, got.order, sizeof(first));
}

Test(faults, text_that_is_not_valid_is_refused_by_name)
{
	static const char *const texts[][2] = {
		{ "drop", "'drop'" },
		{ "drop=", "'drop='" },
		{ "drop=x", "'drop=x'" },
		{ "drop=2", "'drop=2'" },
		{ "drop=5", "'drop=5'" },
		{ "drop=-0.1", "'drop=-0.1'" },
		{ "drop=1.000000001", "'drop=1.000000001'" },
		{ "drop=0.1 ", "'drop=0.1 '" },
		{ "lose=0.1", "'lose=0.1'" },
		{ "drop=0.1,", "''" },
		{ ",drop=0.1", "''" },
		{ "drop=0.1,delay_us=10000001", "'delay_us=10000001'" },
		{ "seed=18446744073709551616", "'seed=18446744073709551616'" },
		{ "seed=1,reorder=0,5", "'5'" },
	};
	struct faults *faults;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		faults = (struct faults *)&got;
		cr_assert_eq(dfi__faults_parse(texts[i][0], 0, &faults),
		    -EINVAL, "%s", texts[i][0]);
		cr_assert_not_null(strstr(dfi_errmsg(), texts[i][1]), "%s: %s",
		    texts[i][0], dfi_errmsg());
		cr_assert_not_null(strstr(dfi_errmsg(), "DFI_TEST_FAULTS"));
		cr_assert_eq((void *)faults, (void *)&got);
	}
}

Test(faults, environment_asks_for_them)
{
	struct faults *faults = (struct faults *)&got;
	uint32_t i = 3;

	unsetenv("DFI_TEST_FAULTS");
	cr_assert_eq(dfi__faults_open(0, &faults), 0);
	cr_assert_null(faults);
	memset(&got, 0, sizeof(got));
	dfi__faults_receive(NULL, &i, sizeof(i), 0, take, &got);
	cr_assert_eq(got.n, 1);
	dfi__faults_progress(NULL, 0, take, &got);
	cr_assert_eq(dfi__faults_due(NULL), DEADLINE_NEVER);
	dfi__faults_close(NULL);
	setenv("DFI_TEST_FAULTS", "drop=1", 1);
	cr_assert_eq(dfi__faults_open(0, &faults), 0);
	cr_assert_not_null(faults);
	dfi__faults_close(faults);
	setenv("DFI_TEST_FAULTS", "drop=1e3", 1);
	cr_assert_eq(dfi__faults_open(0, &faults), -EINVAL);
}
