/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's table: each rule by itself, then random operations against a
 * model too simple to be wrong.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "registry/server/table.h"

#define MS 1000000
#define LOG_SIZE 4096

/* Notices as text: "tag+key=value@revision " or "tag-key@.. ". */
struct heard {
	char log[LOG_SIZE];
	size_t used;
	unsigned n_expired;
	void *holder;
};

static void hear(void *arg, const struct table_notice *notice)
{
	const struct table_item *item = &notice->item;
	uint64_t tag = notice->tag;
	struct heard *heard = arg;
	int n;

	if (notice->type == TABLE_PUT)
		n = snprintf(heard->log + heard->used, LOG_SIZE - heard->used,
		    "%" PRIu64 "+%s=%.*s@%" PRIu64 " ", tag, item->key,
		    (int)item->size,
		    item->size ? (const char *)item->value : "",
		    item->revision);
	else
		n = snprintf(heard->log + heard->used, LOG_SIZE - heard->used,
		    "%" PRIu64 "-%s@%" PRIu64 " ", tag, item->key,
		    item->revision);
	heard->used += (size_t)n;
	cr_assert_lt(heard->used, LOG_SIZE);
}

static void hear_expired(void *arg, void *holder, uint64_t lease)
{
	struct heard *heard = arg;

	(void)lease;
	heard->n_expired++;
	heard->holder = holder;
}

static struct table *table;
static struct heard heard;

/* Who gets the notices. */
static void (*hears)(void *arg, const struct table_notice *notice);
static void *hears_arg;

static void setup_limited(struct table_limits limits)
{
	struct table_hooks hooks = {
		.arg = &heard,
		.expired = hear_expired,
	};

	hears = hear;
	hears_arg = &heard;

	memset(&heard, 0, sizeof(heard));
	cr_assert_eq(dfi__table_create(&limits, &hooks, &table), 0);
}

static void setup(void)
{
	struct table_limits limits = {
		.max_keys = 1000,
		.max_bytes = 1 << 20,
		.max_leases = 10,
		.max_lease_keys = 1000,
		.max_watches = 10,
	};

	setup_limited(limits);
}

static void teardown(void)
{
	dfi__table_destroy(table);
}

TestSuite(table, .init = setup, .fini = teardown);

static int put(const char *key, const char *value, uint64_t lease)
{
	struct table_put put = {
		.key = key,
		.value = value,
		.size = strlen(value),
		.lease = lease,
	};

	return dfi__table_put(table, &put, NULL);
}

/* Returns the steps. */
static size_t notify(size_t max)
{
	struct table_notice notice;
	size_t n = 0;

	while (dfi__table_notice(table, max, &n, &notice))
		hears(hears_arg, &notice);
	return n;
}

/* In the smallest steps. */
static void notify_all(void)
{
	while (notify(1))
		;
	cr_assert_eq(dfi__table_notified(table), dfi__table_revision(table));
	cr_assert_eq(dfi__table_untold_bytes(table), 0);
}

static void assert_heard(const char *log)
{
	notify_all();
	cr_assert_str_eq(heard.log, log);
	heard.used = 0;
	heard.log[0] = '\0';
}

static size_t count_keys(void)
{
	const char *after = "";
	struct table_item item;
	size_t n = 0;

	for (; dfi__table_next(table, "", after, &item); n++)
		after = item.key;
	return n;
}

/* The keys of a prefix, each followed by a blank. */
static void assert_listed(const char *prefix, const char *keys)
{
	char listed[1024] = "";
	const char *after = "";
	struct table_item item;

	while (dfi__table_next(table, prefix, after, &item)) {
		strcat(listed, item.key);
		strcat(listed, " ");
		after = item.key;
	}
	cr_assert_str_eq(listed, keys);
}

Test(table, create_refuses_a_key_that_exists)
{
	struct table_put put = {
		.key = "a",
		.value = "1",
		.size = 1,
		.flags = TABLE_CREATE,
	};
	uint64_t revision = 0;

	cr_assert_eq(dfi__table_put(table, &put, &revision), 0);
	cr_assert_eq(revision, 1);
	put.value = "2";
	cr_assert_eq(dfi__table_put(table, &put, &revision), -EEXIST);
	cr_assert_eq(revision, 1);
	cr_assert_not_null(strstr(dfi_errmsg(), "'a'"));
}

static int put_by(uint64_t owner, uint64_t lease, unsigned flags)
{
	struct table_put put = {
		.key = "a",
		.lease = lease,
		.owner = owner,
		.flags = flags,
	};

	return dfi__table_put(table, &put, NULL);
}

Test(table, only_who_has_put_a_key_last_can_reclaim_it)
{
	unsigned reclaim = TABLE_CREATE | TABLE_RECLAIM;
	uint64_t old, new;

	cr_assert_eq(dfi__table_grant(table, NULL, 100, 0, &old), 0);
	cr_assert_eq(dfi__table_grant(table, NULL, INT64_MAX, 0, &new), 0);
	cr_assert_eq(dfi__table_watch(table, NULL, 1, "", TABLE_PREFIX), 0);
	cr_assert_eq(put_by(1, old, reclaim), 0);
	cr_assert_eq(put_by(2, new, reclaim), -EEXIST);
	cr_assert_eq(put_by(0, new, reclaim), -EEXIST);
	cr_assert_eq(put_by(1, new, TABLE_CREATE), -EEXIST);
	cr_assert_eq(put_by(1, new, reclaim), 0);
	assert_heard("1+a=@1 1+a=@2 ");
	/* It has changed to the new lease. */
	cr_assert_eq(dfi__table_expire(table, 100), 1);
	assert_heard("");
	cr_assert_eq(put_by(2, new, 0), 0);
	cr_assert_eq(put_by(1, new, reclaim), -EEXIST);
	cr_assert_eq(put_by(2, new, reclaim), 0);
	/* Not so for a key that nobody has put. */
	cr_assert_eq(put_by(0, new, 0), 0);
	cr_assert_eq(put_by(0, new, reclaim), -EEXIST);
}

Test(table, put_replaces_the_value_and_counts_revisions)
{
	struct table_item item;

	cr_assert_eq(put("a", "one", 0), 0);
	cr_assert_eq(put("b", "", 0), 0);
	cr_assert_eq(put("a", "three", 0), 0);
	cr_assert_eq(dfi__table_get(table, "a", &item), 0);
	cr_assert_eq(item.size, 5);
	cr_assert_eq(memcmp(item.value, "three", 5), 0);
	cr_assert_eq(item.revision, 3);
	cr_assert_eq(dfi__table_get(table, "b", &item), 0);
	cr_assert_eq(item.size, 0);
	cr_assert_eq(dfi__table_revision(table), 3);
	cr_assert_eq(count_keys(), 2);
}

Test(table, get_and_delete_of_a_missing_key_are_enoent)
{
	struct table_item item;

	cr_assert_eq(put("ab", "", 0), 0);
	cr_assert_eq(dfi__table_get(table, "a", &item), -ENOENT);
	cr_assert_eq(dfi__table_get(table, "abc", &item), -ENOENT);
	cr_assert_eq(dfi__table_delete(table, "a", 0), -ENOENT);
	cr_assert_eq(dfi__table_revision(table), 1);
}

Test(table, delete_with_a_revision_wants_exactly_that_one)
{
	cr_assert_eq(put("a", "1", 0), 0);
	cr_assert_eq(put("a", "2", 0), 0);
	cr_assert_eq(dfi__table_delete(table, "a", 1), -ENOENT);
	cr_assert_eq(dfi__table_delete(table, "a", 3), -ENOENT);
	cr_assert_eq(dfi__table_delete(table, "a", 2), 0);
	cr_assert_eq(count_keys(), 0);
	cr_assert_eq(dfi__table_revision(table), 3);
}

Test(table, lists_in_bytewise_order_whatever_the_order_of_puts)
{
	cr_assert_eq(put("b", "", 0), 0);
	cr_assert_eq(put("a/2", "", 0), 0);
	cr_assert_eq(put("a\xff", "", 0), 0);
	cr_assert_eq(put("a", "", 0), 0);
	cr_assert_eq(put("a/10", "", 0), 0);
	assert_listed("", "a a/10 a/2 a\xff b ");
	assert_listed("a", "a a/10 a/2 a\xff ");
	assert_listed("a/", "a/10 a/2 ");
	assert_listed("a/1", "a/10 ");
	assert_listed("a\xff", "a\xff ");
	assert_listed("a\xff\xff", "");
	assert_listed("c", "");
	assert_listed("A", "");
}

Test(table, next_goes_on_after_a_key_that_is_gone)
{
	struct table_item item;

	cr_assert_eq(put("p/a", "", 0), 0);
	cr_assert_eq(put("p/c", "", 0), 0);
	cr_assert_eq(put("q", "", 0), 0);
	cr_assert_eq(dfi__table_next(table, "p/", "p/b", &item), 1);
	cr_assert_str_eq(item.key, "p/c");
	cr_assert_eq(dfi__table_next(table, "p/", "p/c", &item), 0);
	cr_assert_eq(dfi__table_next(table, "p/", "z", &item), 0);
	cr_assert_eq(dfi__table_next(table, "p/", "a", &item), 1);
	cr_assert_str_eq(item.key, "p/a");
}

Test(table, watches_of_short_prefixes_hear_first_then_the_oldest)
{
	int one, two;

	cr_assert_eq(dfi__table_watch(table, &one, 3, "a/", TABLE_PREFIX), 0);
	cr_assert_eq(dfi__table_watch(table, &two, 1, "a/x", TABLE_PREFIX), 0);
	cr_assert_eq(dfi__table_watch(table, &one, 2, "", TABLE_PREFIX), 0);
	cr_assert_eq(dfi__table_watch(table, &two, 0, "", TABLE_PREFIX), 0);
	cr_assert_eq(put("a/x", "v", 0), 0);
	assert_heard("2+a/x=v@1 0+a/x=v@1 3+a/x=v@1 1+a/x=v@1 ");
	cr_assert_eq(put("a", "", 0), 0);
	assert_heard("2+a=@2 0+a=@2 ");
	cr_assert_eq(put("a/y", "", 0), 0);
	assert_heard("2+a/y=@3 0+a/y=@3 3+a/y=@3 ");
	cr_assert_eq(dfi__table_delete(table, "a/x", 0), 0);
	assert_heard("2-a/x@4 0-a/x@4 3-a/x@4 1-a/x@4 ");
}

Test(table, a_watch_of_a_key_hears_of_no_other)
{
	cr_assert_eq(dfi__table_watch(table, NULL, 1, "a/x", TABLE_KEY), 0);
	cr_assert_eq(put("a/x", "v", 0), 0);
	assert_heard("1+a/x=v@1 ");
	cr_assert_eq(put("a/x/y", "", 0), 0);
	cr_assert_eq(put("a/", "", 0), 0);
	assert_heard("");
	cr_assert_eq(dfi__table_delete(table, "a/", 0), 0);
	cr_assert_eq(dfi__table_delete(table, "a/x", 0), 0);
	cr_assert_eq(dfi__table_delete(table, "a/x/y", 0), 0);
	assert_heard("1-a/x@5 ");
	cr_assert_eq(dfi__table_unwatch(table, NULL, 1), 0);
}

Test(table, a_failed_call_is_not_heard_of)
{
	cr_assert_eq(dfi__table_watch(table, NULL, 1, "", TABLE_PREFIX), 0);
	cr_assert_eq(put("", "", 0), -EINVAL);
	cr_assert_eq(put("a", "", 77), -ENOENT);
	cr_assert_eq(dfi__table_delete(table, "a", 0), -ENOENT);
	assert_heard("");
	cr_assert_eq(dfi__table_revision(table), 0);
}

Test(table, a_watch_is_known_by_watcher_and_tag)
{
	int one, two;

	cr_assert_eq(dfi__table_watch(table, &one, 1, "", TABLE_PREFIX), 0);
	cr_assert_eq(
	    dfi__table_watch(table, &one, 1, "x", TABLE_PREFIX), -EEXIST);
	cr_assert_eq(dfi__table_watch(table, &two, 1, "", TABLE_PREFIX), 0);
	cr_assert_eq(dfi__table_watch(table, &one, 2, "", TABLE_PREFIX), 0);
	cr_assert_eq(dfi__table_unwatch(table, &two, 2), -ENOENT);
	cr_assert_eq(dfi__table_unwatch(table, &two, 1), 0);
	cr_assert_eq(dfi__table_unwatch(table, &two, 1), -ENOENT);
	cr_assert_eq(put("a", "", 0), 0);
	assert_heard("1+a=@1 2+a=@1 ");
	dfi__table_unwatch_all(table, &one);
	cr_assert_eq(put("a", "", 0), 0);
	assert_heard("");
}

Test(table, revoking_a_lease_deletes_its_keys_only)
{
	uint64_t one, two;

	cr_assert_eq(dfi__table_grant(table, NULL, MS, 0, &one), 0);
	cr_assert_eq(dfi__table_grant(table, NULL, MS, 0, &two), 0);
	cr_assert_eq(put("b", "", one), 0);
	cr_assert_eq(put("a", "", one), 0);
	cr_assert_eq(put("c", "", two), 0);
	cr_assert_eq(put("d", "", 0), 0);
	cr_assert_eq(dfi__table_watch(table, NULL, 1, "", TABLE_PREFIX), 0);
	cr_assert_eq(dfi__table_revoke(table, one), 0);
	assert_heard("1-a@5 1-b@6 ");
	cr_assert_eq(dfi__table_revoke(table, one), -ENOENT);
	cr_assert_eq(put("e", "", one), -ENOENT);
	assert_listed("", "c d ");
}

Test(table, a_put_binds_the_key_anew)
{
	uint64_t one, two;

	cr_assert_eq(dfi__table_grant(table, NULL, MS, 0, &one), 0);
	cr_assert_eq(dfi__table_grant(table, NULL, MS, 0, &two), 0);
	cr_assert_eq(put("freed", "", one), 0);
	cr_assert_eq(put("freed", "", 0), 0);
	cr_assert_eq(put("moved", "", one), 0);
	cr_assert_eq(put("moved", "", two), 0);
	cr_assert_eq(put("bound", "", 0), 0);
	cr_assert_eq(put("bound", "", one), 0);
	cr_assert_eq(dfi__table_revoke(table, one), 0);
	assert_listed("", "freed moved ");
	cr_assert_eq(dfi__table_revoke(table, two), 0);
	assert_listed("", "freed ");
}

Test(table, a_lease_expires_when_its_ttl_has_passed)
{
	int holder;
	uint64_t lease;

	cr_assert_eq(
	    dfi__table_grant(table, &holder, 10 * MS, 100 * MS, &lease), 0);
	cr_assert_eq(put("a", "", lease), 0);
	cr_assert_eq(dfi__table_next_expiry(table), 110 * MS);
	cr_assert_eq(dfi__table_expire(table, 110 * MS - 1), 0);
	assert_listed("", "a ");
	cr_assert_eq(dfi__table_expire(table, 110 * MS), 1);
	assert_listed("", "");
	cr_assert_eq(heard.n_expired, 1);
	cr_assert_eq(heard.holder, &holder);
	cr_assert_eq(dfi__table_keepalive(table, lease, 110 * MS), -ENOENT);
	cr_assert_eq(dfi__table_next_expiry(table), INT64_MAX);
}

Test(table, a_keepalive_puts_the_expiry_off)
{
	uint64_t one, two;

	cr_assert_eq(dfi__table_grant(table, NULL, 10, 0, &one), 0);
	cr_assert_eq(dfi__table_grant(table, NULL, 20, 0, &two), 0);
	cr_assert_eq(dfi__table_keepalive(table, one, 9), 0);
	cr_assert_eq(dfi__table_next_expiry(table), 19);
	cr_assert_eq(dfi__table_expire(table, 18), 0);
	cr_assert_eq(dfi__table_expire(table, 25), 2);
}

Test(table, expiry_never_comes_for_an_endless_lease)
{
	uint64_t endless, late;

	cr_assert_eq(dfi__table_grant(table, NULL, INT64_MAX, 5, &endless), 0);
	cr_assert_eq(
	    dfi__table_grant(table, NULL, INT64_MAX - 1, INT64_MAX - 1, &late),
	    0);
	cr_assert_eq(dfi__table_next_expiry(table), INT64_MAX);
	cr_assert_eq(dfi__table_expire(table, INT64_MAX), 0);
	cr_assert_eq(dfi__table_keepalive(table, endless, INT64_MAX), 0);
}

Test(table, renewing_all_gives_each_lease_its_ttl_again)
{
	uint64_t one, two;

	cr_assert_eq(dfi__table_grant(table, NULL, 10, 0, &one), 0);
	cr_assert_eq(dfi__table_grant(table, NULL, 30, 0, &two), 0);
	dfi__table_renew_all(table, 1000);
	cr_assert_eq(dfi__table_expire(table, 1009), 0);
	cr_assert_eq(dfi__table_expire(table, 1010), 1);
	cr_assert_eq(dfi__table_next_expiry(table), 1030);
}

Test(table, keys_and_values_have_a_longest_size)
{
	char *key = malloc(TABLE_KEY_MAX + 2);
	char *value = calloc(1, TABLE_VALUE_MAX + 1);
	struct table_put large = {
		.key = key,
		.value = value,
		.size = TABLE_VALUE_MAX + 1,
	};
	struct table_item item;

	memset(key, 'k', TABLE_KEY_MAX + 1);
	key[TABLE_KEY_MAX + 1] = '\0';
	cr_assert_eq(put(key, "", 0), -EMSGSIZE);
	cr_assert_eq(
	    dfi__table_watch(table, NULL, 1, key, TABLE_PREFIX), -EMSGSIZE);
	key[TABLE_KEY_MAX] = '\0';
	cr_assert_eq(dfi__table_watch(table, NULL, 1, key, TABLE_PREFIX), 0);
	cr_assert_eq(dfi__table_put(table, &large, NULL), -EMSGSIZE);
	dfi__table_unwatch_all(table, NULL);
	large.size = TABLE_VALUE_MAX;
	cr_assert_eq(dfi__table_put(table, &large, NULL), 0);
	cr_assert_eq(dfi__table_get(table, key, &item), 0);
	cr_assert_eq(item.size, TABLE_VALUE_MAX);
	free(key);
	free(value);
}

Test(table, limits_are_enospc_and_a_freed_place_can_be_taken)
{
	struct table_limits limits = {
		.max_keys = 2,
		.max_bytes = 10,
		.max_leases = 1,
		.max_lease_keys = 2,
		.max_watches = 1,
	};
	uint64_t lease, other;

	dfi__table_destroy(table);
	setup_limited(limits);
	cr_assert_eq(put("a", "1234", 0), 0);
	cr_assert_eq(put("b", "12345", 0), -ENOSPC);
	cr_assert_eq(put("b", "1234", 0), 0);
	cr_assert_eq(put("c", "", 0), -ENOSPC);
	cr_assert_not_null(strstr(dfi_errmsg(), "2 keys"));
	/* Replacing a value counts only the difference. */
	cr_assert_eq(put("a", "123", 0), 0);
	cr_assert_eq(put("b", "12345", 0), 0);
	cr_assert_eq(put("b", "123456", 0), -ENOSPC);
	cr_assert_not_null(strstr(dfi_errmsg(), "10 bytes"));
	cr_assert_eq(dfi__table_delete(table, "a", 0), 0);
	cr_assert_eq(put("b", "123456789", 0), 0);

	cr_assert_eq(dfi__table_grant(table, NULL, 1, 0, &lease), 0);
	cr_assert_eq(dfi__table_grant(table, NULL, 1, 0, &other), -ENOSPC);
	cr_assert_eq(dfi__table_revoke(table, lease), 0);
	cr_assert_eq(dfi__table_grant(table, NULL, 1, 0, &other), 0);
	cr_assert_neq(lease, other);

	cr_assert_eq(dfi__table_watch(table, NULL, 1, "", TABLE_PREFIX), 0);
	cr_assert_eq(
	    dfi__table_watch(table, NULL, 2, "", TABLE_PREFIX), -ENOSPC);
}

Test(table, watches_that_follow_take_no_place_of_others)
{
	struct table_limits limits = {
		.max_keys = 2,
		.max_bytes = 10,
		.max_leases = 1,
		.max_lease_keys = 2,
		.max_watches = 2,
	};
	int one, two;

	dfi__table_destroy(table);
	setup_limited(limits);
	cr_assert_eq(dfi__table_watch(table, &one, 1, "a", TABLE_FOLLOW), 0);
	cr_assert_eq(dfi__table_watch(table, &one, 2, "a", TABLE_FOLLOW), 0);
	cr_assert_eq(
	    dfi__table_watch(table, &one, 3, "a", TABLE_FOLLOW), -ENOSPC);
	cr_assert_not_null(strstr(dfi_errmsg(), "2 keys that are followed"));
	cr_assert_eq(dfi__table_watch(table, &two, 1, "", TABLE_PREFIX), 0);
	cr_assert_eq(dfi__table_watch(table, &two, 2, "a", TABLE_KEY), 0);
	cr_assert_eq(
	    dfi__table_watch(table, &two, 3, "", TABLE_PREFIX), -ENOSPC);
	cr_assert_not_null(strstr(dfi_errmsg(), "2 watches"));
	cr_assert_eq(put("a", "", 0), 0);
	assert_heard("1+a=@1 1+a=@1 2+a=@1 2+a=@1 ");
	cr_assert_eq(put("ab", "", 0), 0);
	assert_heard("1+ab=@2 ");
	cr_assert_eq(dfi__table_unwatch(table, &one, 1), 1);
	cr_assert_eq(dfi__table_unwatch(table, &two, 1), 0);
	cr_assert_eq(dfi__table_watch(table, &two, 4, "a", TABLE_FOLLOW), 0);
	cr_assert_eq(
	    dfi__table_watch(table, &two, 5, "a", TABLE_FOLLOW), -ENOSPC);
	cr_assert_eq(dfi__table_watch(table, &two, 5, "", TABLE_PREFIX), 0);
	dfi__table_unwatch_all(table, &two);
	cr_assert_eq(dfi__table_watch(table, &one, 4, "a", TABLE_FOLLOW), 0);
	cr_assert_eq(
	    dfi__table_watch(table, &one, 5, "a", TABLE_FOLLOW), -ENOSPC);
	cr_assert_eq(dfi__table_watch(table, &one, 5, "", TABLE_PREFIX), 0);
	cr_assert_eq(dfi__table_watch(table, &one, 6, "", TABLE_PREFIX), 0);
	cr_assert_eq(
	    dfi__table_watch(table, &one, 7, "", TABLE_PREFIX), -ENOSPC);
}

/*
 * The model: a fixed set of keys, each with its state; leases are slots of
 * which the table's numbers are remembered. The watch's events are applied to a
 * copy, which must always equal the table.
 */
#define N_KEYS 40
#define N_LEASES 6
#define N_OWNERS 3

struct model_key {
	char name[8];
	bool exists;
	char value;
	uint64_t revision;
	int lease; /* -1: none */
	uint64_t owner;
};

struct model {
	struct model_key keys[N_KEYS];
	struct model_key copy[N_KEYS]; /* as heard */
	uint64_t leases[N_LEASES];     /* 0: not granted */
	int64_t expiry[N_LEASES];
	uint64_t revision;
	uint64_t heard_revision;
	int64_t now;
	unsigned seed;
};

static unsigned draw(struct model *model, unsigned below)
{
	model->seed = model->seed * 1664525u + 1013904223u;
	return (model->seed >> 8) % below;
}

static void hear_model(void *arg, const struct table_notice *notice)
{
	const struct table_item *item = &notice->item;
	struct model *model = arg;
	int i;

	cr_assert_eq(item->revision, model->heard_revision + 1);
	model->heard_revision = item->revision;
	for (i = 0; strcmp(model->copy[i].name, item->key) != 0;)
		cr_assert_lt(++i, N_KEYS);
	model->copy[i].exists = notice->type == TABLE_PUT;
	model->copy[i].revision = item->revision;
	if (notice->type == TABLE_PUT)
		model->copy[i].value = *(const char *)item->value;
}

static void model_init(struct model *model, unsigned seed)
{
	int i;

	memset(model, 0, sizeof(*model));
	model->seed = seed;
	for (i = 0; i < N_KEYS; i++) {
		/* Names of which some are prefixes of others: 0, 00, 01, ... */
		snprintf(model->keys[i].name, sizeof(model->keys[i].name),
		    i < 4 ? "%d" : "%02d", i);
		model->keys[i].lease = -1;
	}
	memcpy(model->copy, model->keys, sizeof(model->keys));
}

static void model_delete(struct model *model, struct model_key *key)
{
	key->exists = false;
	key->lease = -1;
	model->revision++;
}

static void model_end_lease(struct model *model, int lease)
{
	int i;

	for (i = 0; i < N_KEYS; i++)
		if (model->keys[i].exists && model->keys[i].lease == lease)
			model_delete(model, &model->keys[i]);
	model->leases[lease] = 0;
}

static void step_put(struct model *model)
{
	struct model_key *key = &model->keys[draw(model, N_KEYS)];
	int lease = (int)draw(model, N_LEASES + 1) - 1;
	static const unsigned flags[] = {
		0,
		TABLE_CREATE,
		TABLE_CREATE | TABLE_RECLAIM,
	};
	char value = (char)('a' + draw(model, 26));
	struct table_put put = {
		.key = key->name,
		.value = &value,
		.size = 1,
		.lease = lease < 0 ? 0 : model->leases[lease],
		.owner = draw(model, N_OWNERS),
		.flags = flags[draw(model, 3)],
	};
	bool reclaims = put.flags & TABLE_RECLAIM && put.owner &&
	    put.owner == key->owner;
	uint64_t revision;
	int ret;

	if (lease >= 0 && put.lease == 0)
		put.lease = UINT64_MAX;
	ret = dfi__table_put(table, &put, &revision);
	if (key->exists && put.flags && !reclaims) {
		cr_assert_eq(ret, -EEXIST);
	} else if (put.lease == UINT64_MAX) {
		cr_assert_eq(ret, -ENOENT);
	} else {
		cr_assert_eq(ret, 0);
		cr_assert_eq(revision, ++model->revision);
		key->exists = true;
		key->value = value;
		key->revision = revision;
		key->lease = lease;
		key->owner = put.owner;
	}
}

static void step_delete(struct model *model)
{
	struct model_key *key = &model->keys[draw(model, N_KEYS)];
	uint64_t revision = draw(model, 3);
	bool matches;

	if (revision)
		revision += key->revision - 1; /* the right one or the next */
	matches = key->exists && (!revision || revision == key->revision);
	cr_assert_eq(dfi__table_delete(table, key->name, revision),
	    matches ? 0 : -ENOENT);
	if (matches)
		model_delete(model, key);
}

static void step_lease(struct model *model)
{
	int lease = (int)draw(model, N_LEASES);
	int64_t ttl = 1 + (int64_t)draw(model, 50);
	uint64_t *id = &model->leases[lease];

	if (!*id) {
		cr_assert_eq(
		    dfi__table_grant(table, NULL, ttl, model->now, id), 0);
		model->expiry[lease] = model->now + ttl;
	} else {
		cr_assert_eq(dfi__table_revoke(table, *id), 0);
		model_end_lease(model, lease);
	}
}

static void step_time(struct model *model)
{
	size_t n = 0;
	int i;

	model->now += 1 + (int64_t)draw(model, 10);
	for (i = 0; i < N_LEASES; i++) {
		if (!model->leases[i] || model->expiry[i] > model->now)
			continue;
		model_end_lease(model, i);
		n++;
	}
	cr_assert_eq(dfi__table_expire(table, model->now), n);
}

static void compare(struct model *model)
{
	const char *after = "";
	struct table_item item;
	size_t n = 0, i;

	cr_assert_eq(dfi__table_revision(table), model->revision);
	/* Heard, but perhaps not by all. */
	cr_assert_leq(dfi__table_notified(table), model->heard_revision);
	cr_assert_geq(dfi__table_notified(table) + 1, model->heard_revision);
	for (i = 0; i < N_KEYS; i++) {
		const struct model_key *key = &model->keys[i];
		const struct model_key *copy = &model->copy[i];

		if (model->heard_revision == model->revision) {
			cr_assert_eq(copy->exists, key->exists);
			cr_assert_eq(copy->revision,
			    key->exists ? key->revision : copy->revision);
			cr_assert_eq(copy->value,
			    key->exists ? key->value : copy->value);
		}
		cr_assert_eq(dfi__table_get(table, key->name, &item),
		    key->exists ? 0 : -ENOENT);
		if (!key->exists)
			continue;
		n++;
		cr_assert_eq(item.revision, key->revision);
		cr_assert_eq(*(const char *)item.value, key->value);
	}
	cr_assert_eq(count_keys(), n);
	for (i = 0; dfi__table_next(table, "", after, &item); i++) {
		cr_assert_gt(strcmp(item.key, after), 0);
		after = item.key;
	}
	cr_assert_eq(i, n);
}

static void run_model(unsigned seed)
{
	struct table_limits limits = {
		.max_keys = N_KEYS,
		.max_bytes = N_KEYS * 8,
		.max_leases = N_LEASES,
		.max_lease_keys = N_KEYS,
		.max_watches = 1,
	};
	struct model model;
	struct table_hooks hooks = { .arg = &model };
	int i;

	model_init(&model, seed);
	hears = hear_model;
	hears_arg = &model;
	cr_assert_eq(dfi__table_create(&limits, &hooks, &table), 0);
	cr_assert_eq(dfi__table_watch(table, NULL, 1, "", TABLE_PREFIX), 0);
	for (i = 0; i < 300; i++) {
		unsigned what = draw(&model, 20);

		if (what < 11)
			step_put(&model);
		else if (what < 15)
			step_delete(&model);
		else if (what < 18)
			step_lease(&model);
		else
			step_time(&model);
		/*
		 * Usually less than there is, so that the rest follows later.
		 */
		notify(draw(&model, 5));
		if (i % 16 == 0)
			notify_all();
		compare(&model);
	}
	dfi__table_destroy(table);
}

Test(table_model, random_operations_agree_with_a_naive_model)
{
	unsigned seed;

	for (seed = 1; seed <= 300; seed++)
		run_model(seed);
}

/*
 * Watches that come and go while changes are delivered in small steps. The log
 * has all changes in order; a watch must receive those after its creation, and
 * none twice.
 */
#define LOG_MAX 4096
#define N_WATCHES 16

struct logged {
	enum table_event_type type;
	char key[8];
};

struct listener {
	bool exists;
	bool exact;
	char prefix[8];
	size_t next; /* the part of the log that it has not received */
};

struct story {
	struct model model; /* only to draw */
	struct logged log[LOG_MAX];
	size_t n_logged;
	struct listener listeners[N_WATCHES];
};

static bool concerns(const struct story *story, size_t i, size_t watch)
{
	const struct listener *listener = &story->listeners[watch];
	const char *key = story->log[i].key;

	return listener->exact
	    ? !strcmp(key, listener->prefix)
	    : !strncmp(key, listener->prefix, strlen(listener->prefix));
}

/* Up to the next change that concerns the watch, or the end. */
static size_t find_next(struct story *story, size_t watch)
{
	size_t i = story->listeners[watch].next;

	while (i < story->n_logged && !concerns(story, i, watch))
		i++;
	return i;
}

static void hear_story(void *arg, const struct table_notice *notice)
{
	const struct table_item *item = &notice->item;
	uint64_t tag = notice->tag;
	struct story *story = arg;
	size_t i = find_next(story, tag);

	cr_assert_eq(notice->watcher, &story->listeners[tag % 4]);
	cr_assert(story->listeners[tag].exists);
	cr_assert_lt(i, story->n_logged);
	cr_assert_eq(item->revision, i + 1);
	cr_assert_eq(notice->type, story->log[i].type);
	cr_assert_str_eq(item->key, story->log[i].key);
	story->listeners[tag].next = i + 1;
}

static void draw_key(struct story *story, char key[8])
{
	static const char *const keys[] = { "a", "ab", "abc", "abd", "b" };

	strcpy(key, keys[draw(&story->model, 5)]);
}

static void change_something(struct story *story)
{
	struct logged *logged = &story->log[story->n_logged];

	draw_key(story, logged->key);
	if (draw(&story->model, 2)) {
		logged->type = TABLE_PUT;
		cr_assert_eq(put(logged->key, "", 0), 0);
		story->n_logged++;
	} else if (!dfi__table_delete(table, logged->key, 0)) {
		logged->type = TABLE_DELETE;
		story->n_logged++;
	}
	cr_assert_eq(dfi__table_revision(table), story->n_logged);
}

static void change_watch(struct story *story, size_t i)
{
	struct listener *listener = &story->listeners[i];
	void *watcher = &story->listeners[i % 4];

	if (listener->exists) {
		listener->exists = false;
		cr_assert_eq(dfi__table_unwatch(table, watcher, i), 0);
		return;
	}
	listener->exists = true;
	listener->exact = draw(&story->model, 2);
	listener->next = story->n_logged;
	draw_key(story, listener->prefix);
	if (listener->exact) {
		cr_assert_eq(dfi__table_watch(table, watcher, i,
				 listener->prefix, TABLE_KEY),
		    0);
	} else {
		listener->prefix[draw(&story->model, 3)] = '\0';
		cr_assert_eq(dfi__table_watch(table, watcher, i,
				 listener->prefix, TABLE_PREFIX),
		    0);
	}
}

static void end_watcher(struct story *story, size_t watcher)
{
	size_t i;

	dfi__table_unwatch_all(table, &story->listeners[watcher]);
	for (i = watcher; i < N_WATCHES; i += 4)
		story->listeners[i].exists = false;
}

static void check_all_heard(struct story *story)
{
	size_t i;

	notify_all();
	for (i = 0; i < N_WATCHES; i++)
		if (story->listeners[i].exists)
			cr_assert_eq(find_next(story, i), story->n_logged);
}

static void run_story(struct story *story, unsigned seed)
{
	struct table_limits limits = {
		.max_keys = N_KEYS,
		.max_bytes = N_KEYS * 8,
		.max_watches = N_WATCHES,
	};
	struct table_hooks hooks = { .arg = story };
	int i;

	memset(story, 0, sizeof(*story));
	story->model.seed = seed;
	hears = hear_story;
	hears_arg = story;
	cr_assert_eq(dfi__table_create(&limits, &hooks, &table), 0);
	for (i = 0; i < LOG_MAX - 1; i++) {
		unsigned what = draw(&story->model, 20);

		if (what < 10)
			change_something(story);
		else if (what < 19)
			change_watch(story, draw(&story->model, N_WATCHES));
		else
			end_watcher(story, draw(&story->model, 4));
		notify(draw(&story->model, 6));
		if (i % 256 == 0)
			check_all_heard(story);
	}
	check_all_heard(story);
	dfi__table_destroy(table);
}

Test(table_model, watches_that_come_and_go_hear_all_that_follows_once)
{
	static struct story story;
	unsigned seed;

	for (seed = 1; seed <= 50; seed++)
		run_story(&story, seed);
}

/*
 * If each change looked at each watch, and each lease at each key, this would
 * take 10^9 steps.
 */
Test(table_scale, a_change_costs_its_matches_whatever_else_there_is)
{
	struct table_limits limits = {
		.max_keys = 40000,
		.max_bytes = 64 << 20,
		.max_leases = 1,
		.max_lease_keys = 40000,
		.max_watches = 20000,
	};
	char key[TABLE_KEY_MAX + 1];
	uint64_t lease;
	unsigned i;

	setup_limited(limits);
	memset(key, 'a', 400);
	for (i = 0; i < 16000; i++) {
		snprintf(key + 400, sizeof(key) - 400, "w%u", i);
		cr_assert_eq(
		    dfi__table_watch(table, NULL, i, key, TABLE_PREFIX), 0);
	}
	cr_assert_eq(dfi__table_grant(table, NULL, INT64_MAX, 0, &lease), 0);
	for (i = 0; i < 30000; i++) {
		snprintf(key + 400, sizeof(key) - 400, "k%u", i);
		cr_assert_eq(put(key, "", lease), 0);
		cr_assert_eq(notify(100), 1);
	}
	cr_assert_eq(put("b", "", 0), 0);
	snprintf(key + 400, sizeof(key) - 400, "k7");
	cr_assert_eq(dfi__table_watch(table, NULL, 20000, key, TABLE_KEY), 0);
	cr_assert_eq(dfi__table_revoke(table, lease), 0);
	/* At once, and delivered later: one of each, to one watch. */
	cr_assert_eq(count_keys(), 1);
	cr_assert_gt(dfi__table_untold_bytes(table), 30000 * 400);
	cr_assert_eq(notify(SIZE_MAX), 1 + 30000 + 1);
	cr_assert_eq(dfi__table_untold_bytes(table), 0);
	dfi__table_destroy(table);
}

Test(table, keys_of_one_lease_are_limited)
{
	struct table_limits limits = {
		.max_keys = 10,
		.max_bytes = 100,
		.max_leases = 2,
		.max_lease_keys = 2,
		.max_watches = 1,
	};
	uint64_t first, second;

	dfi__table_destroy(table);
	setup_limited(limits);
	cr_assert_eq(dfi__table_grant(table, NULL, INT64_MAX, 0, &first), 0);
	cr_assert_eq(dfi__table_grant(table, NULL, INT64_MAX, 0, &second), 0);
	cr_assert_eq(put("a", "", first), 0);
	cr_assert_eq(put("b", "", first), 0);
	cr_assert_eq(put("c", "", first), -ENOSPC);
	cr_assert_not_null(strstr(dfi_errmsg(), "limit of 2 keys"));
	cr_assert_not_null(strstr(dfi_errmsg(), "raise max_client_keys"));
	/* Again, without a lease, with another one, and when there is room. */
	cr_assert_eq(put("a", "", first), 0);
	cr_assert_eq(put("c", "", 0), 0);
	cr_assert_eq(put("c", "", first), -ENOSPC);
	cr_assert_eq(put("b", "", second), 0);
	cr_assert_eq(put("c", "", first), 0);
	cr_assert_eq(put("b", "", first), -ENOSPC);
}
