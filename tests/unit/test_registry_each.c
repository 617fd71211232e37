/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all implementations of the registry's client have in common: a server at
 * a Unix socket, a registry inside the process, and an etcd.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "etcd_help.h"
#include "registry_help.h"

struct kind {
	char name[16];
};

static struct kind kinds[] = {
	{ "unix" },
	{ "local" },
#if DFI_ETCD
	{ "etcd" },
#endif
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct dfi_registry *registry;
static struct etcd etcd;
static struct loop *loop, *other_loop;
static struct registry_client *client, *other;
static struct ear ear;

static const char *address;

static void begin(const struct kind *kind)
{
	if (!strcmp(kind->name, "etcd")) {
		etcd_start(&etcd, 1);
		address = etcd.address;
	} else if (!strcmp(kind->name, "unix")) {
		registry = start_at(NULL);
		address = dfi_registry_address(registry);
	} else {
		address = "local:";
	}
	ear_init(&ear);
	loop = start_loop();
	other_loop = start_loop();
	client = open_client_at(loop, address);
	other = open_client_at(other_loop, address);
}

static void end(void)
{
	dfi__client_close(client);
	dfi__client_close(other);
	stop_loop(loop);
	stop_loop(other_loop);
	dfi_registry_stop(registry);
	if (etcd.n)
		etcd_stop(&etcd);
}

#define EACH(name)                                                       \
	ParameterizedTestParameters(each, name)                          \
	{                                                                \
		return cr_make_param_array(struct kind, kinds, N_KINDS); \
	}                                                                \
	static void check_##name(void);                                  \
	ParameterizedTest(struct kind *kind, each, name)                 \
	{                                                                \
		begin(kind);                                             \
		check_##name();                                          \
		end();                                                   \
	}                                                                \
	static void check_##name(void)

static int create(struct registry_client *by, const char *key,
    const char *value, unsigned flags)
{
	return dfi__client_create(
	    by, key, value, strlen(value), flags, soon(), NULL);
}

/* Wait until a key has this value; NULL: until it is gone. */
static void await(
    struct registry_client *by, const char *key, const char *expected)
{
	struct registry_value value;
	bool found = false;

	while (!found) {
		if (dfi__client_get(by, key, soon(), &value)) {
			found = !expected;
			continue;
		}
		found = expected && !strcmp(value.data, expected);
		dfi__registry_value_free(&value);
	}
}

EACH(keys_are_kept)
{
	struct registry_value value, *values;
	uint64_t first, second;
	size_t n;

	cr_assert_eq(
	    dfi__client_create(client, "b", "1\0002", 3, 0, soon(), &first), 0);
	cr_assert_eq(
	    dfi__client_create(client, "b", "", 0, 0, soon(), NULL), -EEXIST);
	cr_assert_not_null(strstr(dfi_errmsg(), "'b'"));
	cr_assert_eq(
	    dfi__client_put(client, "a", "", 0, CLIENT_LEASED, soon(), &second),
	    0);
	cr_assert_gt(second, first);

	cr_assert_eq(dfi__client_get(client, "b", soon(), &value), 0);
	cr_assert_str_eq(value.key, "b");
	cr_assert_eq(value.size, 3);
	cr_assert_eq(memcmp(value.data, "1\0002", 4), 0);
	cr_assert_eq(value.revision, first);
	dfi__registry_value_free(&value);
	cr_assert_eq(dfi__client_get(client, "c", soon(), &value), -ENOENT);

	cr_assert_eq(dfi__client_list(client, "", soon(), &values, &n), 0);
	cr_assert_eq(n, 2);
	cr_assert_str_eq(values[0].key, "a");
	cr_assert_str_eq(values[1].key, "b");
	dfi__registry_values_free(values, n);
	cr_assert_eq(dfi__client_list(client, "x", soon(), &values, &n), 0);
	cr_assert_eq(n, 0);
	cr_assert_null(values);

	cr_assert_eq(
	    dfi__client_delete(client, "b", first + 7, soon()), -ENOENT);
	cr_assert_eq(dfi__client_delete(client, "b", first, soon()), 0);
	cr_assert_eq(dfi__client_delete(client, "b", 0, soon()), -ENOENT);
	cr_assert_eq(dfi__client_delete(client, "a", 0, soon()), 0);
	cr_assert_eq(dfi__client_get(client, "a", soon(), &value), -ENOENT);
}

EACH(all_bytes_of_a_value_come_back)
{
	unsigned char data[1024];
	struct registry_value value;
	size_t size, i;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 7 + i / 256);
	for (size = 0; size < sizeof(data); size += size < 8 ? 1 : 127) {
		cr_assert_eq(
		    dfi__client_put(client, "k", data, size, 0, soon(), NULL),
		    0);
		cr_assert_eq(dfi__client_get(other, "k", soon(), &value), 0);
		cr_assert_eq(value.size, size);
		cr_assert_eq(memcmp(value.data, data, size), 0);
		dfi__registry_value_free(&value);
	}
}

EACH(a_watch_hears_keys_that_exist_and_then_all_changes)
{
	struct registry_watch *watch;
	uint64_t revision;

	cr_assert_eq(put_text(other, "a/2", "two"), 0);
	cr_assert_eq(put_text(client, "a/1", "one"), 0);
	cr_assert_eq(
	    dfi__client_watch(client, "a/", ear_hear, &ear, soon(), &watch), 0);
	cr_assert_str_eq(ear.log, "+a/1=one +a/2=two ");
	cr_assert_eq(
	    dfi__client_put(other, "a/1", "new", 3, 0, soon(), &revision), 0);
	cr_assert_eq(
	    dfi__client_delete(other, "a/1", revision - 1, soon()), -ENOENT);
	cr_assert_eq(dfi__client_delete(other, "a/1", revision, soon()), 0);
	cr_assert_eq(put_text(other, "b", "unwatched"), 0);
	ear_expect(&ear, "+a/1=one +a/2=two +a/1=new -a/1 ");
	dfi__client_unwatch(watch);
	cr_assert_eq(put_text(other, "a/3", "unheard"), 0);
	cr_assert_eq(
	    dfi__client_watch_key(client, "b", ear_hear, &ear, soon(), &watch),
	    0);
	cr_assert_str_eq(
	    ear.log, "+a/1=one +a/2=two +a/1=new -a/1 +b=unwatched ");
}

EACH(a_watch_hears_all_changes_in_order)
{
	struct registry_watch *watch, *second;
	char expected[sizeof(ear.log)] = "", value[16];
	struct ear all;
	size_t used = 0;
	int i;

	ear_init(&all);
	cr_assert_eq(
	    dfi__client_watch(client, "k", ear_hear, &ear, soon(), &watch), 0);
	cr_assert_eq(
	    dfi__client_watch_key(client, "k", ear_hear, &all, soon(), &second),
	    0);
	for (i = 0; i < 100; i++) {
		snprintf(value, sizeof(value), "%d", i);
		cr_assert_eq(put_text(i % 2 ? client : other, "k", value), 0);
		cr_assert_eq(put_text(other, "other", value), 0);
		used += (size_t)snprintf(
		    expected + used, sizeof(expected) - used, "+k=%d ", i);
	}
	ear_expect(&ear, expected);
	ear_expect(&all, expected);
}

static struct registry_watch *ended;

static void hear_and_end(void *arg, const struct registry_event *event)
{
	ear_hear(arg, event);
	dfi__client_unwatch(ended);
}

EACH(a_watch_can_end_itself)
{
	struct registry_watch *watch;
	struct ear control;

	ear_init(&control);
	cr_assert_eq(
	    dfi__client_watch(client, "", hear_and_end, &ear, soon(), &ended),
	    0);
	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &control, soon(), &watch),
	    0);
	cr_assert_eq(put_text(other, "a", "1"), 0);
	cr_assert_eq(put_text(other, "a", "2"), 0);
	ear_expect(&control, "+a=1 +a=2 ");
	cr_assert_str_eq(ear.log, "+a=1 ");
}

EACH(a_client_that_closes_takes_its_leased_keys_along)
{
	struct registry_client *third = open_client_at(loop, address);
	struct registry_watch *watch;

	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &ear, soon(), &watch), 0);
	cr_assert_eq(create(third, "leased", "x", CLIENT_LEASED), 0);
	cr_assert_eq(create(third, "stays", "x", 0), 0);
	cr_assert_eq(create(other, "leased", "y", CLIENT_LEASED), -EEXIST);
	dfi__client_close(third);
	cr_assert_eq(count_keys(other, "leased"), 0);
	cr_assert_eq(count_keys(other, "stays"), 1);
	ear_expect(&ear, "+leased=x +stays=x -leased ");
}

/* Neither forgets, renews nor retires what has another owner by now. */
EACH(a_key_of_another_client_is_left_alone)
{
	struct registry_value value;

	cr_assert_eq(create(client, "a", "mine", CLIENT_SHARED), 0);
	cr_assert_eq(dfi__client_delete(other, "a", 0, soon()), 0);
	dfi__client_forget(client, "a");
	dfi__client_renew(client, "a", "mine", 4);
	cr_assert_eq(count_keys(client, "a"), 0);
	cr_assert_eq(create(other, "a", "theirs", CLIENT_LEASED), 0);
	dfi__client_forget(client, "a");
	dfi__client_renew(client, "a", "mine", 4);
	dfi__client_retire(client, "a", "mine", 4);
	cr_assert_eq(
	    dfi__client_change(client, "a", "mine", 4, soon()), -EEXIST);
	cr_assert_eq(dfi__client_get(client, "a", soon(), &value), 0);
	cr_assert_str_eq(value.data, "theirs");
	dfi__registry_value_free(&value);
	cr_assert_eq(dfi__client_change(other, "a", "new", 3, soon()), 0);
	dfi__client_renew(other, "a", "newer", 5);
	await(client, "a", "newer");
	dfi__client_forget(other, "a");
	await(client, "a", NULL);
}

EACH(a_retired_key_gets_its_last_value_before_it_goes)
{
	struct registry_watch *watch;

	cr_assert_eq(create(client, "a", "1", CLIENT_LEASED), 0);
	cr_assert_eq(
	    dfi__client_watch(other, "a", ear_hear, &ear, soon(), &watch), 0);
	dfi__client_retire(client, "a", "last", 4);
	cr_assert_eq(
	    create(client, "a", "next", CLIENT_LEASED), 0, "%s", dfi_errmsg());
	ear_expect(&ear, "+a=1 +a=last -a +a=next ");
}

EACH(a_join_that_fails_leaves_neither_watch_nor_key)
{
	struct registry_entry entry = { .key = "a", .value = "b", .size = 1 };
	struct registry_interest interest = {
		.prefix = "",
		.fn = ear_hear,
		.arg = &ear,
	};
	size_t heard;

	cr_assert_eq(put_text(other, "a", "taken"), 0);
	cr_assert_eq(
	    dfi__client_join(client, &interest, 1, &entry, soon()), -EEXIST);
	/* It may have heard what was there, but hears nothing from now on. */
	heard = ear.used;
	cr_assert_eq(put_text(other, "b", "unheard"), 0);
	cr_assert_eq(dfi__loop_check(loop, soon()), 0);
	cr_assert_eq(ear.used, heard);
	ear_init(&ear);
	entry.key = "c";
	cr_assert_eq(dfi__client_join(client, &interest, 1, &entry, soon()), 0);
	ear_expect(&ear, "+a=taken +b=unheard +c=b ");
	dfi__client_leave(interest.watch, "c");
	cr_assert_eq(count_keys(client, "c"), 0);
	await(other, "c", NULL);
	cr_assert_str_eq(ear.log, "+a=taken +b=unheard +c=b ");
}

/* Revisions tell which of two keys came first. */
EACH(a_join_returns_the_revision_of_its_key)
{
	struct registry_entry entry = { .key = "p/2", .value = "b", .size = 1 };
	struct registry_interest interests[] = {
		{ .prefix = "p/", .fn = ear_hear, .arg = &ear },
		{ .prefix = "flow",
		    .exact = true,
		    .fn = ear_hear,
		    .arg = &ear },
	};
	struct registry_value value;
	uint64_t before;

	cr_assert_eq(dfi__client_create(
			 other, "p/1", "a", 1, CLIENT_LEASED, soon(), &before),
	    0);
	cr_assert_eq(dfi__client_join(client, interests, 2, &entry, soon()), 0);
	cr_assert_gt(entry.revision, before);
	cr_assert_eq(dfi__client_get(other, "p/2", soon(), &value), 0);
	cr_assert_eq(value.revision, entry.revision);
	dfi__registry_value_free(&value);
	ear_expect(&ear, "+p/1=a +p/2=b ");
	dfi__client_unwatch(interests[0].watch);
	dfi__client_leave(interests[1].watch, "p/2");
}

/* More than a page; with etcd, more than a transaction may have operations. */
EACH(a_long_list_comes_whole_and_in_order)
{
	static char data[1024];
	struct registry_value *values;
	struct registry_watch *watch;
	char key[32];
	size_t n, i;

	for (i = 0; i < 600; i++) {
		snprintf(key, sizeof(key), "k/%03zu", 599 - i);
		cr_assert_eq(dfi__client_put(client, key, data, sizeof(data),
				 CLIENT_LEASED, soon(), NULL),
		    0);
	}
	cr_assert_eq(put_text(client, "l", ""), 0);
	cr_assert_eq(dfi__client_list(client, "k/", soon(), &values, &n), 0);
	cr_assert_eq(n, 600);
	for (i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "k/%03zu", i);
		cr_assert_str_eq(values[i].key, key);
		cr_assert_eq(values[i].size, sizeof(data));
	}
	dfi__registry_values_free(values, n);
	cr_assert_eq(
	    dfi__client_watch(other, "k/59", ear_hear, &ear, soon(), &watch),
	    0);
	for (i = 0; i < 600; i++) {
		snprintf(key, sizeof(key), "k/%03zu", i);
		dfi__client_forget(client, key);
	}
	cr_assert_eq(count_keys(client, "k/"), 0);
}

EACH(sizes_are_limited)
{
	static char key[514], value[(64 << 10) + 1];
	struct registry_value got;

	memset(key, 'k', 513);
	cr_assert_eq(
	    dfi__client_put(client, key, "", 0, 0, soon(), NULL), -EMSGSIZE);
	key[512] = '\0';
	cr_assert_eq(dfi__client_put(client, key, value, sizeof(value) - 1, 0,
			 soon(), NULL),
	    0, "%s", dfi_errmsg());
	cr_assert_eq(dfi__client_get(client, key, soon(), &got), 0);
	cr_assert_eq(got.size, sizeof(value) - 1);
	dfi__registry_value_free(&got);
	cr_assert_eq(
	    dfi__client_put(client, key, value, sizeof(value), 0, soon(), NULL),
	    -EMSGSIZE);
	cr_assert_eq(
	    dfi__client_put(client, "", "", 0, 0, soon(), NULL), -EINVAL);
	cr_assert_eq(put_text(client, "still", "there"), 0);
}

static int get_on_loop(void *arg)
{
	struct registry_value value;

	return dfi__client_get(arg, "a", soon(), &value);
}

EACH(a_waiting_call_on_the_loops_thread_is_refused)
{
	cr_assert_eq(
	    dfi__loop_call(loop, get_on_loop, client, DEADLINE_NEVER), -EINVAL);
	cr_assert_not_null(strstr(dfi_errmsg(), "loop's thread"));
}
