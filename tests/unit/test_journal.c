/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a registry: what it has after each way in which it can be
 * interrupted. Runs by seeds, over files in memory that forget what was not
 * synced; no clock.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>
#include <dfi/log.h>

#include "fake_files.h"
#include "registry/journal/journal.h"
#include "registry/server/table.h"

static void ignore_line(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static void quiet(void)
{
	dfi_log_set(DFI_LOG_ERROR, ignore_line, NULL);
}

TestSuite(journal, .init = quiet, .timeout = 300);

/* ---- A registry's table, kept in a journal ------------------------------- */

#define N_KEYS 12
#define N_LEASES 4

static struct table *new_table(void)
{
	static const struct table_limits limits = {
		.max_keys = 1000,
		.max_bytes = 1 << 20,
		.max_leases = 1000,
		.max_lease_keys = 1000,
		.max_watches = 10,
	};
	static const struct table_hooks hooks = { .arg = NULL };
	struct table *table;

	cr_assert_eq(dfi__table_create(&limits, &hooks, &table), 0);
	return table;
}

static int apply(void *arg, const struct journal_change *change)
{
	struct table *table = arg;
	struct table_put put = {
		.key = change->key,
		.value = change->value,
		.size = change->size,
		.lease = change->lease,
		.owner = change->client,
	};

	switch (change->type) {
	case JOURNAL_GRANT:
		return dfi__table_restore_grant(
		    table, change->lease, NULL, INT64_MAX, 0);
	case JOURNAL_PUT:
		return dfi__table_restore_put(table, &put, change->revision);
	case JOURNAL_DELETE:
		return dfi__table_restore_delete(
		    table, change->key, change->revision);
	case JOURNAL_END:
		return dfi__table_restore_end(
		    table, change->lease, change->revision);
	case JOURNAL_COUNT:
		dfi__table_restore_count(
		    table, change->revision, change->lease);
		return 0;
	}
	return -EBADMSG;
}

/* All of a table as text, which the caller frees. */
static char *dump(const struct table *table)
{
	struct table_item item;
	char *text = NULL;
	size_t size, n;
	FILE *out = open_memstream(&text, &size);
	uint64_t lease;
	int found;

	cr_assert_not_null(out);
	fprintf(out, "%llu\n", (unsigned long long)dfi__table_revision(table));
	found = dfi__table_next(table, "", "", &item);
	for (; found; found = dfi__table_step("", &item))
		fprintf(out, "%s=%.*s rev %llu of %llu lease %llu\n", item.key,
		    (int)item.size, (const char *)item.value,
		    (unsigned long long)item.revision,
		    (unsigned long long)item.owner,
		    (unsigned long long)item.lease);
	for (lease = 1; lease <= dfi__table_last_lease(table); lease++)
		if (!dfi__table_lease_keys(table, lease, &n))
			fprintf(out, "lease %llu has %zu\n",
			    (unsigned long long)lease, n);
	fclose(out);
	return text;
}

struct run {
	struct fake_files fake;
	struct journal *journal;
	struct table *table;
	/* After a failure: what the files may have, */
	char *refused; /* with the record that could not be stored, */
	char *broken;  /* and without it, and without later ends of leases */
	struct table_frozen *frozen;
	unsigned n_stored, n_refused, n_crashes, n_compacted;
};

static int open_journal(struct run *run)
{
	struct journal_hooks hooks = { .apply = apply };

	run->table = hooks.arg = new_table();
	return dfi__journal_open(&run->fake.files, &hooks, &run->journal);
}

/* A change that the table can make, and its revision if it is the next. */
static struct journal_change draw(struct run *run, char key[32], char value[64])
{
	struct journal_change change = { .key = key, .value = value };
	struct table_item item;
	uint64_t lease;

	snprintf(
	    key, 32, "key/%u", (unsigned)fake_files_random(&run->fake, N_KEYS));
	snprintf(value, 64, "%llu",
	    (unsigned long long)fake_files_random(&run->fake, UINT64_MAX));
	change.key_size = strlen(key);
	change.size = strlen(value);
	change.revision = dfi__table_revision(run->table) + 1;
	change.client = fake_files_random(&run->fake, 3);
	lease = dfi__table_last_lease(run->table);
	lease -= lease
	    ? fake_files_random(&run->fake, lease < N_LEASES ? lease : N_LEASES)
	    : 0;
	change.lease = lease;
	switch (fake_files_random(&run->fake, 8)) {
	case 0:
		change.type = JOURNAL_GRANT;
		change.lease = dfi__table_last_lease(run->table) + 1;
		return change;
	case 1:
		if (lease && dfi__table_is_leased(run->table, key)) {
			size_t n;

			dfi__table_get(run->table, key, &item);
			change.type = JOURNAL_END;
			change.lease = item.lease;
			dfi__table_lease_keys(run->table, item.lease, &n);
			change.revision += n - 1;
			return change;
		}
		break;
	case 2:
	case 3:
		if (!dfi__table_get(run->table, key, &item)) {
			change.type = JOURNAL_DELETE;
			return change;
		}
		break;
	default:
		break;
	}
	change.type = JOURNAL_PUT;
	{
		size_t n;

		if (dfi__table_lease_keys(run->table, change.lease, &n))
			change.lease = 0;
	}
	return change;
}

/* Another table with the same content. */
static struct table *copy(struct table *table)
{
	struct table *other = new_table();
	struct table_frozen *frozen;
	struct table_item item;
	uint64_t lease;
	size_t n;

	for (lease = 1; lease <= dfi__table_last_lease(table); lease++)
		if (!dfi__table_lease_keys(table, lease, &n))
			dfi__table_restore_grant(
			    other, lease, NULL, INT64_MAX, 0);
	cr_assert_eq(dfi__table_freeze(table, &frozen), 0);
	while (dfi__table_frozen_next(frozen, &item))
		dfi__table_restore_put(other,
		    &(struct table_put){
			.key = item.key,
			.value = item.value,
			.size = item.size,
			.lease = item.lease,
			.owner = item.owner,
		    },
		    item.revision);
	dfi__table_thaw(frozen);
	dfi__table_restore_count(
	    other, dfi__table_revision(table), dfi__table_last_lease(table));
	return other;
}

/* As the registry does it: stored, then carried out. */
static void change_something(struct run *run)
{
	char key[32], value[64];
	struct journal_change change = draw(run, key, value);
	bool broken = dfi__journal_check(run->journal);
	bool forced = change.type == JOURNAL_END;
	struct table *other;

	/* Then only the ends of leases go on. */
	if (broken && !forced)
		return;
	cr_assert_eq(dfi__journal_add(run->journal, &change), 0);
	if (!dfi__journal_commit(run->journal)) {
		cr_assert_not(broken);
		cr_assert_eq(apply(run->table, &change), 0, "%s", dfi_errmsg());
		run->n_stored++;
		return;
	}
	run->n_refused++;
	cr_assert_neq(dfi__journal_check(run->journal), 0);
	if (!broken) {
		/* If it can't be taken back, it may be there after a crash. */
		other = copy(run->table);
		cr_assert_eq(apply(other, &change), 0, "%s", dfi_errmsg());
		cr_assert_null(run->refused);
		run->refused = dump(other);
		run->broken = dump(run->table);
		dfi__table_destroy(other);
	}
	if (forced)
		cr_assert_eq(apply(run->table, &change), 0, "%s", dfi_errmsg());
}

static void forget_failure(struct run *run)
{
	free(run->refused);
	free(run->broken);
	run->refused = run->broken = NULL;
}

static void compact(struct run *run)
{
	struct journal_change change = {
		.type = JOURNAL_COUNT,
		.revision = dfi__table_revision(run->table),
		.lease = dfi__table_last_lease(run->table),
	};
	struct table_item item;
	uint64_t lease;
	size_t n;

	if (dfi__journal_is_switching(run->journal)) {
		if (dfi__journal_compact_finish(run->journal)) {
			if (!run->refused)
				run->refused = dump(run->table);
			if (!run->broken)
				run->broken = dump(run->table);
			return;
		}
		run->n_compacted++;
		forget_failure(run);
		return;
	}
	if (!dfi__journal_is_compacting(run->journal)) {
		dfi__table_thaw(run->frozen);
		run->frozen = NULL;
		if (dfi__journal_compact_begin(run->journal))
			return;
		dfi__journal_compact_add(run->journal, &change);
		for (lease = 1; lease <= change.lease; lease++)
			if (!dfi__table_lease_keys(run->table, lease, &n))
				dfi__journal_compact_add(run->journal,
				    &(struct journal_change){
					.type = JOURNAL_GRANT,
					.lease = lease,
				    });
		cr_assert_eq(dfi__table_freeze(run->table, &run->frozen), 0);
		return;
	}
	if (!dfi__table_frozen_next(run->frozen, &item)) {
		dfi__journal_compact_switch(run->journal);
		return;
	}
	dfi__journal_compact_add(run->journal,
	    &(struct journal_change){
		.type = JOURNAL_PUT,
		.revision = item.revision,
		.lease = item.lease,
		.client = item.owner,
		.key = item.key,
		.key_size = strlen(item.key),
		.value = item.value,
		.size = item.size,
	    });
	if (fake_files_random(&run->fake, 3) == 0)
		dfi__journal_compact_write(run->journal);
}

/* The registry ends, with power, and starts again. Returns whether it is right.
 */
static bool restart(struct run *run, const char *expected, bool power)
{
	unsigned fail_per_mille = run->fake.fail_per_mille;
	char *found;
	bool right;

	dfi__table_thaw(run->frozen);
	run->frozen = NULL;
	run->fake.fail_per_mille = run->fake.n_until_crash = 0;
	if (power)
		run->fake.crashed = true;
	dfi__journal_close(run->journal);
	if (power)
		fake_files_crash(&run->fake);
	if (open_journal(run)) {
		dfi__table_destroy(run->table);
		run->table = NULL;
		run->journal = NULL;
		return false;
	}
	run->fake.fail_per_mille = fail_per_mille;
	run->n_crashes++;
	found = dump(run->table);
	right = strcmp(found, expected) == 0 ||
	    (run->refused &&
		(strcmp(found, run->refused) == 0 ||
		    strcmp(found, run->broken) == 0));
	free(found);
	forget_failure(run);
	return right;
}

/* Returns whether no acknowledged change was lost. */
static bool do_run(struct run *run, uint64_t seed, unsigned n_steps)
{
	char *expected;
	bool right = true;
	unsigned i;

	fake_files_init(&run->fake, seed);
	cr_assert_eq(open_journal(run), 0, "%s", dfi_errmsg());
	run->fake.fail_per_mille = seed % 3 ? 10 : 0;
	for (i = 0; right && i < n_steps; i++) {
		if (fake_files_random(&run->fake, 40) == 0)
			run->fake.n_until_crash = 1 +
			    (unsigned)fake_files_random(&run->fake, 12);
		/* Changes wait for the name of the new file. */
		if (fake_files_random(&run->fake, 3) == 0 ||
		    dfi__journal_is_switching(run->journal))
			compact(run);
		else
			change_something(run);
		if (!run->fake.crashed && fake_files_random(&run->fake, 30))
			continue;
		expected = dump(run->table);
		dfi__table_destroy(run->table);
		right = restart(run, expected,
		    run->fake.crashed || fake_files_random(&run->fake, 2));
		free(expected);
	}
	dfi__table_thaw(run->frozen);
	dfi__journal_close(run->journal);
	if (run->table)
		dfi__table_destroy(run->table);
	fake_files_free(&run->fake);
	forget_failure(run);
	return right;
}

static unsigned n_seeds(unsigned initial)
{
	const char *text = getenv("DFI_TEST_SEEDS");

	return text ? (unsigned)strtoul(text, NULL, 10) : initial;
}

Test(journal, no_acknowledged_change_is_lost_whatever_fails_or_is_not_synced)
{
	unsigned seed, stored = 0, refused = 0, crashes = 0, compacted = 0;

	for (seed = 1; seed <= n_seeds(1000); seed++) {
		struct run run = { .table = NULL };

		cr_assert(
		    do_run(&run, seed, 150), "seed %u: %s", seed, dfi_errmsg());
		stored += run.n_stored;
		refused += run.n_refused;
		crashes += run.n_crashes;
		compacted += run.n_compacted;
	}
	printf("%u stored, %u refused, %u crashes, %u compactions\n", stored,
	    refused, crashes, compacted);
	cr_assert_gt(stored, 0);
	cr_assert_gt(refused, 0);
	cr_assert_gt(crashes, 0);
	cr_assert_gt(compacted, 0);
}

Test(journal, a_missing_sync_is_found)
{
	unsigned seed;

	for (seed = 1; seed <= 100; seed++) {
		struct run run = { .table = NULL };

		fake_files_init(&run.fake, seed);
		cr_assert_eq(open_journal(&run), 0);
		run.fake.forgetful = true;
		change_something(&run);
		{
			char *expected = dump(run.table);
			bool right;

			dfi__table_destroy(run.table);
			right = restart(&run, expected, true);
			free(expected);
			dfi__journal_close(run.journal);
			if (run.table)
				dfi__table_destroy(run.table);
			fake_files_free(&run.fake);
			if (!right)
				return;
		}
	}
	cr_assert_fail("syncs may be missing");
}

/* ---- Files that are torn or damaged -------------------------------------- */

static void put(struct run *run, const char *key, const char *value)
{
	struct journal_change change = {
		.type = JOURNAL_PUT,
		.revision = dfi__table_revision(run->table) + 1,
		.key = key,
		.key_size = strlen(key),
		.value = value,
		.size = strlen(value),
	};

	cr_assert_eq(dfi__journal_add(run->journal, &change), 0);
	cr_assert_eq(dfi__journal_commit(run->journal), 0);
	cr_assert_eq(apply(run->table, &change), 0);
}

static void reopen(struct run *run, int expected)
{
	dfi__journal_close(run->journal);
	dfi__table_destroy(run->table);
	run->journal = NULL;
	cr_assert_eq(open_journal(run), expected, "%s", dfi_errmsg());
}

static void end_run(struct run *run)
{
	dfi__journal_close(run->journal);
	dfi__table_destroy(run->table);
	fake_files_free(&run->fake);
}

Test(journal, a_file_that_ends_anywhere_has_its_whole_records)
{
	struct run run = { .table = NULL };
	struct fake_bytes *file;
	size_t ends[5], size;
	uint8_t *whole;
	int i;

	fake_files_init(&run.fake, 1);
	cr_assert_eq(open_journal(&run), 0);
	file = fake_files_find(&run.fake, "journal");
	for (i = 0; i < 4; i++) {
		ends[i] = file->size;
		put(&run, i % 2 ? "a" : "b", "value");
	}
	ends[4] = size = file->size;
	whole = malloc(size);
	memcpy(whole, file->at, size);
	for (; size >= ends[0]; size--) {
		memcpy(file->at, whole, size);
		file->size = size;
		reopen(&run, 0);
		for (i = 4; ends[i] > size; i--)
			;
		cr_assert_eq(dfi__table_revision(run.table), (uint64_t)i);
		cr_assert_eq(file->size, ends[i]);
		/* It goes on from there. */
		put(&run, "c", "more");
		reopen(&run, 0);
		cr_assert_eq(dfi__table_revision(run.table), (uint64_t)i + 1);
	}
	free(whole);
	end_run(&run);
}

Test(journal, a_file_that_is_damaged_in_its_middle_is_refused)
{
	struct run run = { .table = NULL };
	struct fake_bytes *file;
	size_t at;

	fake_files_init(&run.fake, 1);
	cr_assert_eq(open_journal(&run), 0);
	put(&run, "a", "value");
	file = fake_files_find(&run.fake, "journal");
	at = file->size - 1;
	put(&run, "b", "value");
	file->at[at] ^= 1;
	reopen(&run, -EBADMSG);
	cr_assert_not_null(strstr(dfi_errmsg(), "/state/journal"));
	cr_assert_not_null(strstr(dfi_errmsg(), "damaged"));
	file->at[at] ^= 1;
	file->at[0] ^= 1;
	reopen(&run, -EBADMSG);
	cr_assert_not_null(strstr(dfi_errmsg(), "not a registry's journal"));
	file->size = 3;
	reopen(&run, -EBADMSG);
	cr_assert_not_null(strstr(dfi_errmsg(), "too short"));
	dfi__table_destroy(run.table);
	fake_files_free(&run.fake);
}

Test(journal, records_of_another_journal_do_not_count)
{
	struct run run = { .table = NULL }, other = { .table = NULL };
	struct fake_bytes *file, *from;
	size_t size;

	fake_files_init(&run.fake, 1);
	fake_files_init(&other.fake, 2);
	cr_assert_eq(open_journal(&run), 0);
	cr_assert_eq(open_journal(&other), 0);
	put(&other, "a", "value");
	file = fake_files_find(&run.fake, "journal");
	from = fake_files_find(&other.fake, "journal");
	size = file->size;
	file->at = realloc(file->at, from->size);
	memcpy(file->at + size, from->at + size, from->size - size);
	file->size = from->size;
	reopen(&run, 0);
	cr_assert_eq(dfi__table_revision(run.table), 0);
	cr_assert_eq(file->size, size);
	end_run(&run);
	end_run(&other);
}

Test(journal, each_kind_of_change_is_read_as_it_was_written)
{
	static const struct journal_change changes[] = {
		{
		    .type = JOURNAL_GRANT,
		    .lease = UINT64_MAX,
		    .client = 2,
		    .start = 3,
		    .location = 4,
		    .ttl_ms = 5,
		    .pid = 6,
		},
		{
		    .type = JOURNAL_PUT,
		    .revision = 7,
		    .lease = 8,
		    .client = 9,
		    .key = "key",
		    .key_size = 3,
		    .value = "\0value",
		    .size = 6,
		},
		{
		    .type = JOURNAL_DELETE,
		    .revision = 10,
		    .key = "other",
		    .key_size = 5,
		},
		{ .type = JOURNAL_END, .revision = 11, .lease = 12 },
		{ .type = JOURNAL_COUNT, .revision = 13, .lease = 14 },
	};
	struct journal_bytes bytes = { .at = NULL };
	struct journal_change change;
	const uint8_t *at;
	size_t i;

	for (i = 0; i < 5; i++)
		cr_assert_eq(dfi__journal_encode(&bytes, &changes[i]), 0);
	at = bytes.at;
	for (i = 0; i < 5; i++) {
		cr_assert_eq(
		    dfi__journal_decode(&at, bytes.at + bytes.size, &change),
		    0);
		cr_assert_eq(change.type, changes[i].type);
		cr_assert_eq(change.revision, changes[i].revision);
		cr_assert_eq(change.lease, changes[i].lease);
		cr_assert_eq(change.client, changes[i].client);
		cr_assert_eq(change.start, changes[i].start);
		cr_assert_eq(change.location, changes[i].location);
		cr_assert_eq(change.ttl_ms, changes[i].ttl_ms);
		cr_assert_eq(change.pid, changes[i].pid);
		cr_assert_eq(change.size, changes[i].size);
		if (changes[i].key)
			cr_assert_str_eq(change.key, changes[i].key);
		if (changes[i].size)
			cr_assert_arr_eq(
			    change.value, changes[i].value, change.size);
	}
	cr_assert_eq(at, bytes.at + bytes.size);
	cr_assert_eq(dfi__journal_decode(&at, at, &change), -EBADMSG);
	dfi__journal_bytes_free(&bytes);
}
