/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registry and client together, both well-behaved, in one process over each
 * kind of socket.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <dfi/error.h>

#include "registry_help.h"

struct transport {
	char listen[32];
};

/* Starts a registry, or skips the test where there is no IPv6. */
static struct dfi_registry *start_over(const struct transport *transport)
{
	char name[64];

	if (strstr(transport->listen, "[::1]")) {
		int fd = socket(AF_INET6, SOCK_STREAM, 0);
		struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
		struct dfi_registry *registry;

		if (fd < 0)
			cr_skip_test("no IPv6 here");
		close(fd);
		attr.listen = transport->listen;
		if (dfi_registry_start(&attr, &registry))
			cr_skip_test("no IPv6 loopback here");
		return registry;
	}
	if (!strcmp(transport->listen, "unix:PATH"))
		return start_at(fresh_address("registry"));
	if (!strcmp(transport->listen, "unix:@NAME")) {
		snprintf(
		    name, sizeof(name), "unix:@dfi-test-registry-%d", getpid());
		return start_at(name);
	}
	if (!strcmp(transport->listen, "default"))
		return start_at(NULL);
	return start_at(transport->listen);
}

static struct transport transports[] = {
	{ "default" },
	{ "unix:@NAME" },
	{ "unix:PATH" },
	{ "tcp:127.0.0.1:0" },
	{ "tcp:[::1]:0" },
};

#define N_TRANSPORTS (sizeof(transports) / sizeof(transports[0]))

ParameterizedTestParameters(registry, keys_are_kept)
{
	return cr_make_param_array(struct transport, transports, N_TRANSPORTS);
}

ParameterizedTest(struct transport *transport, registry, keys_are_kept)
{
	struct dfi_registry *registry = start_over(transport);
	struct loop *loop = start_loop();
	struct registry_client *client = open_client(loop, registry);
	struct registry_value value, *values;
	uint64_t revision = 0;
	size_t count;

	cr_assert_eq(
	    dfi__client_create(client, "b", "1\0002", 3, 0, soon(), &revision),
	    0);
	cr_assert_eq(revision, 1);
	cr_assert_eq(
	    dfi__client_create(client, "b", "", 0, 0, soon(), NULL), -EEXIST);
	cr_assert_not_null(strstr(dfi_errmsg(), "'b'"));
	cr_assert_eq(dfi__client_put(
			 client, "a", "", 0, CLIENT_LEASED, soon(), &revision),
	    0);
	cr_assert_eq(revision, 2);

	cr_assert_eq(dfi__client_get(client, "b", soon(), &value), 0);
	cr_assert_str_eq(value.key, "b");
	cr_assert_eq(value.size, 3);
	cr_assert_eq(memcmp(value.data, "1\0002", 3), 0);
	cr_assert_eq(value.revision, 1);
	dfi__registry_value_free(&value);
	cr_assert_eq(dfi__client_get(client, "c", soon(), &value), -ENOENT);

	cr_assert_eq(dfi__client_list(client, "", soon(), &values, &count), 0);
	cr_assert_eq(count, 2);
	cr_assert_str_eq(values[0].key, "a");
	cr_assert_str_eq(values[1].key, "b");
	dfi__registry_values_free(values, count);
	cr_assert_eq(dfi__client_list(client, "x", soon(), &values, &count), 0);
	cr_assert_eq(count, 0);
	cr_assert_null(values);

	cr_assert_eq(dfi__client_delete(client, "b", 7, soon()), -ENOENT);
	cr_assert_eq(dfi__client_delete(client, "b", 1, soon()), 0);
	cr_assert_eq(dfi__client_delete(client, "b", 0, soon()), -ENOENT);
	cr_assert_eq(dfi__client_delete(client, "a", 0, soon()), 0);
	cr_assert_eq(dfi__client_get(client, "a", soon(), &value), -ENOENT);
	dfi__client_close(client);
	stop_loop(loop);
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

ParameterizedTestParameters(registry, a_lease_ends_with_its_client)
{
	return cr_make_param_array(struct transport, transports, N_TRANSPORTS);
}

ParameterizedTest(
    struct transport *transport, registry, a_lease_ends_with_its_client)
{
	struct dfi_registry *registry = start_over(transport);
	struct loop *loop = start_loop();
	struct registry_client *owner = open_client(loop, registry);
	struct registry_client *other = open_client(loop, registry);
	struct registry_watch *watch;
	struct registry_value value;
	struct ear ear;

	ear_init(&ear);
	cr_assert_eq(
	    dfi__client_put(owner, "p/b", "1", 1, CLIENT_LEASED, soon(), NULL),
	    0);
	cr_assert_eq(
	    dfi__client_put(owner, "p/kept", "2", 1, 0, soon(), NULL), 0);
	cr_assert_eq(
	    dfi__client_watch(other, "p/", ear_hear, &ear, soon(), &watch), 0);
	/* No waiting here: they were delivered before the call returned. */
	cr_assert_str_eq(ear.log, "+p/b=1 +p/kept=2 ");
	cr_assert_eq(dfi__client_create(
			 owner, "p/a", "3", 1, CLIENT_LEASED, soon(), NULL),
	    0);
	dfi__client_close(owner);
	cr_assert_eq(dfi__client_get(other, "p/a", soon(), &value), -ENOENT);
	ear_expect(&ear, "+p/b=1 +p/kept=2 +p/a=3 -p/a -p/b ");
	dfi__client_unwatch(watch);
	dfi__client_close(other);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

static struct dfi_registry *registry;
static struct loop *loop;
static struct registry_client *client;
static struct ear ear;

static void setup(void)
{
	registry = start_at(NULL);
	loop = start_loop();
	client = open_client(loop, registry);
	ear_init(&ear);
}

static void teardown(void)
{
	dfi__client_close(client);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

TestSuite(client, .init = setup, .fini = teardown);

static void put(const char *key, const char *value)
{
	cr_assert_eq(
	    dfi__client_put(client, key, value, strlen(value), 0, soon(), NULL),
	    0);
}

Test(client, a_watch_hears_all_changes_in_order)
{
	struct registry_watch *watch;
	char expected[sizeof(ear.log)] = "", value[16];
	size_t used = 0;
	int i;

	cr_assert_eq(
	    dfi__client_watch(client, "k", ear_hear, &ear, soon(), &watch), 0);
	for (i = 0; i < 200; i++) {
		snprintf(value, sizeof(value), "%d", i);
		put("k", value);
		put("other", value);
		used += (size_t)snprintf(
		    expected + used, sizeof(expected) - used, "+k=%d ", i);
	}
	ear_expect(&ear, expected);
	dfi__client_unwatch(watch);
}

Test(client, after_unwatch_nothing_is_heard)
{
	struct registry_watch *watch, *second;
	struct ear control;

	ear_init(&control);
	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &ear, soon(), &watch), 0);
	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &control, soon(), &second),
	    0);
	put("a", "");
	ear_expect(&control, "+a= ");
	dfi__client_unwatch(watch);
	put("b", "");
	ear_expect(&control, "+a= +b= ");
	cr_assert_str_eq(ear.log, "+a= ");
	dfi__client_unwatch(second);
	dfi__client_unwatch(NULL);
}

struct once {
	struct registry_watch *watch;
	struct ear *ear;
};

static void hear_once(void *arg, const struct registry_event *event)
{
	struct once *once = arg;

	ear_hear(once->ear, event);
	dfi__client_unwatch(once->watch);
}

Test(client, a_watch_can_end_itself)
{
	struct registry_watch *watch;
	struct once once = { .ear = &ear };
	struct ear control;

	ear_init(&control);
	cr_assert_eq(dfi__client_watch(
			 client, "", hear_once, &once, soon(), &once.watch),
	    0);
	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &control, soon(), &watch),
	    0);
	put("a", "1");
	put("a", "2");
	ear_expect(&control, "+a=1 +a=2 ");
	cr_assert_str_eq(ear.log, "+a=1 ");
}

Test(client, the_loss_of_the_registry_is_reported_once_and_stays)
{
	struct registry_watch *watch, *late;
	struct registry_value value;
	struct once once = { .ear = &ear };
	char address[128];

	snprintf(
	    address, sizeof(address), "%s", dfi_registry_address(registry));
	cr_assert_eq(dfi__client_watch(
			 client, "", hear_once, &once, soon(), &once.watch),
	    0);
	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &ear, soon(), &watch), 0);
	dfi_registry_stop(registry);
	ear_expect(&ear, "LOST LOST ");
	cr_assert_eq(dfi__client_get(client, "a", soon(), &value), -ENOTCONN);
	cr_assert_not_null(strstr(dfi_errmsg(), address));
	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &ear, soon(), &late),
	    -ENOTCONN);
	ear_expect(&ear, "LOST LOST ");
	dfi__client_unwatch(watch);
	registry = NULL;
}

Test(client, a_long_list_comes_whole_and_in_order)
{
	static char data[4096];
	struct registry_value *values;
	char key[32];
	size_t count, i;

	for (i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k/%03zu", 299 - i);
		cr_assert_eq(dfi__client_put(client, key, data, sizeof(data), 0,
				 soon(), NULL),
		    0);
	}
	put("l", "");
	cr_assert_eq(
	    dfi__client_list(client, "k/", soon(), &values, &count), 0);
	cr_assert_eq(count, 300);
	for (i = 0; i < count; i++) {
		snprintf(key, sizeof(key), "k/%03zu", i);
		cr_assert_str_eq(values[i].key, key);
		cr_assert_eq(values[i].size, sizeof(data));
	}
	dfi__registry_values_free(values, count);
}

Test(client, a_watch_of_many_keys_hears_them_first)
{
	struct registry_watch *watch;
	static char data[1 << 16];
	char key[32];
	size_t i;

	/* More than a socket's buffers, and more than the pause in reading. */
	memset(data, 'x', sizeof(data));
	for (i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "%02zu", i);
		cr_assert_eq(dfi__client_put(client, key, data, sizeof(data), 0,
				 soon(), NULL),
		    0);
	}
	cr_assert_eq(
	    dfi__client_watch(client, "99", ear_hear, &ear, soon(), &watch), 0);
	cr_assert_gt(ear.used, 0);
	dfi__client_unwatch(watch);
	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &ear, soon(), &watch), 0);
	dfi__client_unwatch(watch);
}

Test(client, sizes_are_limited)
{
	static char key[514], value[(64 << 10) + 1], huge[300 << 10];
	struct registry_value got;

	memset(key, 'k', 513);
	cr_assert_eq(
	    dfi__client_put(client, key, "", 0, 0, soon(), NULL), -EMSGSIZE);
	key[512] = '\0';
	cr_assert_eq(dfi__client_put(client, key, value, sizeof(value) - 1, 0,
			 soon(), NULL),
	    0);
	cr_assert_eq(dfi__client_get(client, key, soon(), &got), 0);
	cr_assert_eq(got.size, sizeof(value) - 1);
	dfi__registry_value_free(&got);
	cr_assert_eq(
	    dfi__client_put(client, key, value, sizeof(value), 0, soon(), NULL),
	    -EMSGSIZE);
	cr_assert_eq(
	    dfi__client_put(client, key, huge, sizeof(huge), 0, soon(), NULL),
	    -EMSGSIZE);
	cr_assert_eq(
	    dfi__client_put(client, "", "", 0, 0, soon(), NULL), -EINVAL);
	put("still", "there");
}

static int get_on_loop(void *arg)
{
	struct registry_value value;

	return dfi__client_get(arg, "a", soon(), &value);
}

Test(client, a_waiting_call_on_the_loops_thread_is_refused)
{
	cr_assert_eq(
	    dfi__loop_call(loop, get_on_loop, client, DEADLINE_NEVER), -EINVAL);
	cr_assert_not_null(strstr(dfi_errmsg(), "loop's thread"));
}

Test(client, a_deadline_that_is_past_is_etimedout)
{
	struct registry_value value;
	int ret;

	ret = dfi__client_get(client, "a", clock_now_ns() - 1, &value);
	cr_assert(ret == -ETIMEDOUT || ret == -ENOENT);
	put("a", "");
}

Test(client, keepalives_keep_a_lease)
{
	struct registry_client *living;
	struct registry_watch *watch;
	struct registry_value value;
	struct raw dying;

	cr_assert_eq(dfi__client_open(loop, dfi_registry_address(registry),
			 NULL, 3000, soon(), &living),
	    0);
	cr_assert_eq(dfi__client_put(
			 living, "living", "", 0, CLIENT_LEASED, soon(), NULL),
	    0);
	raw_connect(&dying, dfi_registry_address(registry));
	cr_assert_eq(raw_handshake(&dying, WIRE_VERSION), 0);
	cr_assert_eq(raw_grant(&dying, 6000), 0);
	cr_assert_eq(raw_put_leased(&dying, "dying"), 0);
	cr_assert_eq(
	    dfi__client_watch(client, "dying", ear_hear, &ear, soon(), &watch),
	    0);
	ear_expect(&ear, "+dying= -dying ");
	cr_assert_eq(dfi__client_get(client, "living", soon(), &value), 0);
	dfi__registry_value_free(&value);
	raw_expect_refusal(&dying, -ETIMEDOUT);
	raw_close(&dying);
	dfi__client_close(living);
}

/* ---- A client with several connections -------------------------------------
 */

static void join_at(
    struct raw *raw, const char *address, uint64_t id, uint64_t connection)
{
	raw_connect(raw, address);
	cr_assert_eq(raw_join(raw, id, connection), 0);
	cr_assert_eq(raw_grant(raw, 0), 0);
}

Test(client, gets_its_keys_back_when_it_comes_again)
{
	const char *address = dfi_registry_address(registry);
	struct registry_watch *watch;
	struct raw old, new, other;

	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &ear, soon(), &watch), 0);
	join_at(&old, address, 1, 1);
	cr_assert_eq(raw_reclaim(&old, "key"), 0);
	cr_assert_eq(raw_put_leased(&old, "old"), 0);
	join_at(&other, address, 2, 1);
	cr_assert_eq(raw_reclaim(&other, "key"), -EEXIST);
	join_at(&new, address, 1, 2);
	cr_assert_eq(raw_reclaim(&new, "key"), 0);
	raw_close(&old);
	ear_expect(&ear, "+key= +old= +key= -old ");
	raw_close(&new);
	ear_expect(&ear, "+key= +old= +key= -old -key ");
	raw_close(&other);
}

/* As if the network delivered old data after the connection was given up. */
Test(client, is_not_heard_any_more_on_earlier_connections)
{
	const char *address = dfi_registry_address(registry);
	struct registry_watch *watch;
	struct raw old, late, new;

	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &ear, soon(), &watch), 0);
	join_at(&old, address, 1, 1);
	cr_assert_eq(raw_put_leased(&old, "key"), 0);
	raw_connect(&late, address);
	join_at(&new, address, 1, 3);
	cr_assert_eq(raw_reclaim(&new, "key"), 0);
	raw_send_put(&old, "key", true);
	raw_send_put(&old, "key", false);
	raw_send_put(&old, "more", false);
	raw_close(&old);
	cr_assert_eq(raw_join(&late, 1, 2), -ESTALE);
	cr_assert_null(raw_read(&late));
	raw_close(&late);
	/* It has heard the others to their ends. */
	cr_assert_eq(raw_put_leased(&new, "end"), 0);
	ear_expect(&ear, "+key= +key= +end= ");
	raw_close(&new);
	ear_expect(&ear, "+key= +key= +end= -end -key ");
}

/* It is absent, though it comes back for longer than its old lease. */
Test(client, keeps_what_it_has_not_yet_reclaimed)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__LeaseKeepalive op = DFI__REGISTRY__LEASE_KEEPALIVE__INIT;
	const char *address = dfi_registry_address(registry);
	int64_t until = deadline_in_ms(9000);
	struct registry_watch *watch;
	struct raw old, new;

	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &ear, soon(), &watch), 0);
	raw_connect(&old, address);
	cr_assert_eq(raw_join(&old, 1, 1), 0);
	cr_assert_eq(raw_grant(&old, 6000), 0);
	cr_assert_eq(raw_put_leased(&old, "key"), 0);
	raw_connect(&new, address);
	cr_assert_eq(raw_join(&new, 1, 2), 0);
	cr_assert_eq(raw_grant(&new, 60000), 0);
	request.op_case = DFI__REGISTRY__REQUEST__OP_LEASE_KEEPALIVE;
	request.lease_keepalive = &op;
	while (clock_now_ns() < until) {
		cr_assert_eq(raw_ask(&new, &request), 0);
		usleep(10000);
	}
	cr_assert_eq(raw_reclaim(&new, "key"), 0);
	ear_expect(&ear, "+key= +key= ");
	raw_close(&old);
	raw_close(&new);
	ear_expect(&ear, "+key= +key= -key ");
}

static int raw_watch(struct raw *raw)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Watch op = DFI__REGISTRY__WATCH__INIT;

	request.op_case = DFI__REGISTRY__REQUEST__OP_WATCH;
	request.watch = &op;
	op.prefix = "watched/";
	return raw_ask(raw, &request);
}

Test(client, has_the_room_of_its_earlier_watches)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *small;
	struct raw old, new;

	attr.max_watches = 1;
	cr_assert_eq(dfi_registry_start(&attr, &small), 0, "%s", dfi_errmsg());
	join_at(&old, dfi_registry_address(small), 1, 1);
	cr_assert_eq(raw_watch(&old), 0);
	cr_assert_eq(raw_watch(&old), -ENOSPC);
	join_at(&new, dfi_registry_address(small), 1, 2);
	cr_assert_eq(raw_watch(&new), 0);
	raw_close(&old);
	raw_close(&new);
	dfi_registry_stop(small);
}

Test(client, can_end_what_its_earlier_connections_hold)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__LeaseRevoke revoke = DFI__REGISTRY__LEASE_REVOKE__INIT;
	const char *address = dfi_registry_address(registry);
	struct raw first, second, nameless, other, new;
	struct registry_watch *watch;

	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &ear, soon(), &watch), 0);
	join_at(&nameless, address, 0, 1);
	cr_assert_eq(raw_put_leased(&nameless, "nameless"), 0);
	join_at(&other, address, 2, 1);
	cr_assert_eq(raw_put_leased(&other, "other"), 0);
	join_at(&first, address, 1, 1);
	cr_assert_eq(raw_put_leased(&first, "first"), 0);
	cr_assert_eq(raw_put_leased(&first, "kept"), 0);
	join_at(&second, address, 1, 2);
	cr_assert_eq(raw_put_leased(&second, "second"), 0);
	join_at(&new, address, 1, 3);
	cr_assert_eq(raw_reclaim(&new, "kept"), 0);
	revoke.past = true;
	request.op_case = DFI__REGISTRY__REQUEST__OP_LEASE_REVOKE;
	request.lease_revoke = &revoke;
	cr_assert_eq(raw_ask(&new, &request), 0);
	cr_assert_null(raw_read(&first));
	cr_assert_null(raw_read(&second));
	cr_assert_eq(raw_put_leased(&new, "end"), 0);
	/* Of those that have none, nothing ends. */
	cr_assert_eq(raw_ask(&new, &request), 0);
	cr_assert_eq(raw_ask(&nameless, &request), 0);
	cr_assert_eq(raw_put_leased(&nameless, "end"), 0);
	cr_assert_eq(raw_put_leased(&other, "end"), 0);
	ear_expect(&ear,
	    "+nameless= +other= +first= +kept= +second= +kept= -first -second "
	    "+end= +end= +end= ");
	raw_close(&first);
	raw_close(&second);
	raw_close(&nameless);
	raw_close(&other);
	raw_close(&new);
}
