/* SPDX-License-Identifier: Apache-2.0 */
/* The event files and the store of examples/stream. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "examples/stream/events.h"
#include "examples/stream/store.h"

static char folder[64];

static void setup(void)
{
	snprintf(folder, sizeof(folder), "/tmp/test-stream-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(stream, .init = setup, .fini = teardown, .timeout = 120);

Test(stream, an_event_is_three_decimal_numbers)
{
	static const char *const bad[] = { "", "\n", "1,2\n", "1,2,3",
		"0,2,3\n", "-1,2,3\n", "1,-2,3\n", "1,2,3,4\n", "1,2,x\n",
		"1, 2,3\n", "1,2,+3\n", "1,2,9223372036854775808\n",
		"1,2,3\r\n" };
	struct event event;
	size_t i;

	cr_assert(event_parse("7,5,-9\n", &event));
	cr_assert(event.time == 7 && event.sensor == 5 && event.value == -9);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_not(event_parse(bad[i], &event), "'%s'", bad[i]);
}

Test(stream, a_generated_file_is_the_same_again_and_has_late_events)
{
	uint64_t newest = 0, n = 0, late = 0, sum = 0, sums[2];
	struct events events;
	struct event event;
	int i, ret;

	for (i = 0; i < 2; i++) {
		cr_assert_eq(events_generate(folder, 1, 5000, 1000), 0);
		cr_assert_eq(events_open(&events, folder, 1), 0);
		n = late = newest = sum = 0;
		while ((ret = events_next(&events, &event)) > 0) {
			n++;
			late += event.time + LATENESS_MS < newest;
			if (event.time > newest)
				newest = event.time;
			sum = (sum ^ event.time ^ event.sensor ^
				  (uint64_t)event.value) *
			    31;
		}
		cr_assert_eq(ret, 0);
		events_close(&events);
		sums[i] = sum;
	}
	cr_assert_eq(n, 5000);
	cr_assert(late > 10 && late < 500, "%lu are late", (unsigned long)late);
	cr_assert_eq(sums[0], sums[1]);
}

static void add(
    struct partition *partition, uint64_t time, uint64_t sensor, int64_t value)
{
	const struct tuple tuple = {
		.time = time,
		.sensor = sensor,
		.value = value,
	};

	cr_assert_eq(partition_add(partition, &tuple, false), 0);
	partition->seen[0]++;
}

static const struct result *find(
    const struct partition *partition, uint64_t window, uint64_t sensor)
{
	uint64_t i;

	for (i = 0; i < partition->room; i++)
		if (partition->results[i].count &&
		    partition->results[i].window == window &&
		    partition->results[i].sensor == sensor)
			return &partition->results[i];
	return NULL;
}

Test(stream, results_and_numbers_are_stored_together)
{
	struct partition partition, read;
	const struct result *result;
	uint64_t i;

	cr_assert_eq(partition_take(folder, 3, 1, 1, &partition), 0);
	for (i = 0; i < 1000; i++)
		add(&partition, 1000 + i, i % 100, (int64_t)i - 500);
	add(&partition, 2000, 7, -1000);
	cr_assert_eq(partition.n, 101);
	cr_assert_eq(partition_save(folder, &partition), 0);
	cr_assert_eq(partition_load(folder, 3, &read), 0);
	cr_assert_eq(read.n, 101);
	cr_assert_eq(read.seen[0], 1001);
	result = find(&read, 1000, 7);
	cr_assert_not_null(result);
	cr_assert_eq(result->count, 10);
	cr_assert_eq(result->min, -493);
	cr_assert_eq(result->max, 407);
	cr_assert_eq(result->sum, -430);
	result = find(&read, 2000, 7);
	cr_assert(result && result->count == 1 && result->max == -1000);
	partition_free(&read);
	partition_free(&partition);
}

Test(stream, a_former_owner_changes_nothing)
{
	struct partition old, new, read;

	cr_assert_eq(partition_take(folder, 3, 1, 4, &old), 0);
	add(&old, 1000, 1, 1);
	cr_assert_eq(partition_save(folder, &old), 0);
	cr_assert_eq(partition_take(folder, 3, 1, 5, &new), 0);
	cr_assert_eq(new.seen[0], 1);
	add(&old, 1000, 1, 1);
	cr_assert_eq(partition_save(folder, &old), -ESTALE);
	cr_assert_eq(partition_take(folder, 3, 1, 4, &read), -ESTALE,
	    "the news that it has the partition came late");
	cr_assert_eq(partition_save(folder, &new), 0);
	cr_assert_eq(partition_load(folder, 3, &read), 0);
	cr_assert_eq(read.seen[0], 1);
	partition_free(&read);
	/* Epochs of another flow begin anew. */
	cr_assert_eq(partition_take(folder, 3, 2, 1, &read), 0);
	cr_assert_eq(partition_save(folder, &new), -ESTALE);
	partition_free(&read);
	partition_free(&old);
	partition_free(&new);
}

Test(stream, a_file_that_is_cut_off_is_refused)
{
	struct partition partition, read;
	char name[128];

	cr_assert_eq(partition_take(folder, 3, 1, 1, &partition), 0);
	add(&partition, 1000, 1, 1);
	cr_assert_eq(partition_save(folder, &partition), 0);
	partition_free(&partition);
	snprintf(name, sizeof(name), "%s/partition.3", folder);
	cr_assert_eq(truncate(name, 100), 0);
	cr_assert_eq(partition_load(folder, 3, &read), -1);
	cr_assert_eq(truncate(name, 10), 0);
	cr_assert_eq(partition_load(folder, 3, &read), -1);
}
