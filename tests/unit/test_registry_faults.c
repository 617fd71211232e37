/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registry and client when the other side dies, stalls, lies, or is an
 * impostor; other clients do not suffer.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <event2/buffer.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dfi/error.h>

#include "../proc/descriptors.h"
#include "registry_help.h"

#include "registry/wire/address.h"

static struct dfi_registry *registry;
static struct loop *loop;
static struct registry_client *client;
static struct ear ear;

static void start_limited(uint32_t max_connections, uint32_t max_output)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;

	lines_collect();
	ear_init(&ear);
	attr.max_connections = max_connections;
	attr.max_output = max_output;
	cr_assert_eq(dfi_registry_start(&attr, &registry), 0);
	loop = start_loop();
	client = open_client(loop, registry);
}

static void setup(void)
{
	start_limited(0, 64 << 10);
}

static void teardown(void)
{
	dfi__client_close(client);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

TestSuite(server, .init = setup, .fini = teardown);
TestSuite(client);

static void connect_greeted(struct raw *raw)
{
	raw_connect(raw, dfi_registry_address(registry));
	cr_assert_eq(raw_handshake(raw, WIRE_VERSION), 0);
}

/* The registry still serves its good client. */
static void assert_served(void)
{
	cr_assert_eq(dfi__client_put(client, "served", "", 0, 0, soon(), NULL),
	    0, "%s", dfi_errmsg());
}

Test(server, the_keys_of_a_process_that_dies_vanish)
{
	struct registry_watch *watch;
	struct raw raw;

	connect_greeted(&raw);
	cr_assert_eq(raw_grant(&raw, 0), 0);
	cr_assert_eq(raw_put_leased(&raw, "p/1"), 0);
	cr_assert_eq(raw_put_leased(&raw, "p/2"), 0);
	cr_assert_eq(
	    dfi__client_watch(client, "p/", ear_hear, &ear, soon(), &watch), 0);
	raw_close(&raw);
	ear_expect(&ear, "+p/1= +p/2= -p/1 -p/2 ");
	cr_assert_eq(lines_count("\n"), 0);
}

Test(server, a_lease_without_keepalive_expires_and_is_reported)
{
	struct registry_watch *watch;
	struct raw quiet, endless;

	connect_greeted(&endless);
	cr_assert_eq(raw_grant(&endless, 0), 0);
	cr_assert_eq(raw_put_leased(&endless, "p/endless"), 0);
	connect_greeted(&quiet);
	cr_assert_eq(dfi__client_watch(
			 client, "p/silent", ear_hear, &ear, soon(), &watch),
	    0);
	cr_assert_eq(raw_grant(&quiet, 3000), 0);
	cr_assert_eq(raw_put_leased(&quiet, "p/silent"), 0);
	ear_expect(&ear, "+p/silent= -p/silent ");
	raw_expect_refusal(&quiet, -ETIMEDOUT);
	cr_assert_eq(lines_count("lease has expired"), 1);
	cr_assert_eq(lines_count("no sign of life for 3000 ms"), 1);
	cr_assert_eq(lines_count("raise DFI_LEASE"), 1);
	cr_assert_eq(raw_put_leased(&endless, "p/more"), 0);
	raw_close(&quiet);
	raw_close(&endless);
}

/*
 * For longer than its lease it sends messages, but no keepalive. The time is
 * played, and long beside the pauses, so that a busy machine does not end it.
 */
Test(server, any_request_is_a_sign_of_life)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Get get = DFI__REGISTRY__GET__INIT;
	struct raw raw;
	int64_t begin;

	get.key = "none";
	request.op_case = DFI__REGISTRY__REQUEST__OP_GET;
	request.get = &get;
	connect_greeted(&raw);
	cr_assert_eq(raw_grant(&raw, 3000), 0);
	for (begin = clock_now_ns();
	     clock_now_ns() - begin < INT64_C(4000000000);) {
		nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
		cr_assert_eq(raw_ask(&raw, &request), -ENOENT);
	}
	cr_assert_eq(raw_put_leased(&raw, "p/1"), 0);
	raw_close(&raw);
}

Test(server, a_connection_has_one_lease_of_a_sane_ttl)
{
	struct raw raw;

	connect_greeted(&raw);
	cr_assert_eq(raw_put_leased(&raw, "a"), -EINVAL);
	cr_assert_eq(raw_grant(&raw, 1), -EINVAL);
	cr_assert_eq(raw_grant(&raw, UINT32_MAX), -EINVAL);
	cr_assert_eq(raw_grant(&raw, 0), 0);
	cr_assert_eq(raw_grant(&raw, 0), -EEXIST);
	raw_close(&raw);
}

Test(server, garbage_costs_the_connection_and_one_log_line)
{
	static const char *const garbage[] = { "GET / HTTP/1.1\r\n\r\n",
		"\0\0\0\4\xff\xff\xff\xff", "\0\0\0\0", "\0\0\0\2\x0a\0" };
	static const size_t sizes[] = { 18, 8, 4, 6 };
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct raw raw;

		lines_collect();
		raw_connect(&raw, dfi_registry_address(registry));
		if (i % 2)
			cr_assert_eq(raw_handshake(&raw, WIRE_VERSION), 0);
		raw_send_bytes(&raw, garbage[i], sizes[i]);
		raw_expect_refusal(
		    &raw, i == 0 || i == 2 ? -EMSGSIZE : -EBADMSG);
		raw_close(&raw);
		/* Of those that have not greeted once a minute. */
		cr_assert_eq(lines_count("\n"), i == 2 ? 0 : 1);
		assert_served();
	}
}

Test(server, a_reply_or_an_event_from_a_client_is_garbage)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;
	struct raw raw;

	connect_greeted(&raw);
	reply.id = 1;
	raw_send_reply(&raw, &reply);
	raw_expect_refusal(&raw, -EBADMSG);
	raw_close(&raw);
	assert_served();
}

Test(server, a_message_that_claims_too_much_is_not_waited_for)
{
	static const unsigned char header[] = { 0x7f, 0xff, 0xff, 0xff };
	struct raw raw;

	connect_greeted(&raw);
	raw_send_bytes(&raw, header, sizeof(header));
	raw_expect_refusal(&raw, -EMSGSIZE);
	raw_close(&raw);
	assert_served();
}

Test(server, other_versions_and_no_handshake_are_refused)
{
	struct raw raw;

	raw_connect(&raw, dfi_registry_address(registry));
	cr_assert_eq(raw_grant(&raw, 0), -EPROTO);
	cr_assert_null(raw_read(&raw));
	raw_close(&raw);
	cr_assert_eq(lines_count("first request does not say its version"), 1);
	raw_connect(&raw, dfi_registry_address(registry));
	cr_assert_eq(raw_handshake(&raw, WIRE_VERSION + 1), -EPROTO);
	cr_assert_null(raw_read(&raw));
	raw_close(&raw);
	assert_served();
}

static void send_watch(struct raw *raw, const char *prefix)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Watch watch = DFI__REGISTRY__WATCH__INIT;

	watch.prefix = (char *)prefix;
	request.op_case = DFI__REGISTRY__REQUEST__OP_WATCH;
	request.watch = &watch;
	raw_send(raw, &request);
}

Test(server, a_watcher_that_does_not_read_is_disconnected)
{
	static char data[32 << 10];
	struct registry_watch *watch;
	Dfi__Registry__Message *message;
	struct raw raw;
	int i;

	connect_greeted(&raw);
	cr_assert_eq(raw_grant(&raw, 0), 0);
	cr_assert_eq(raw_put_leased(&raw, "slow"), 0);
	cr_assert_eq(
	    dfi__client_watch(client, "slow", ear_hear, &ear, soon(), &watch),
	    0);
	send_watch(&raw, "big");
	message = raw_read(&raw); /* it watches from here on */
	dfi__wire_free(message);
	for (i = 0; !lines_count("does not read"); i++) {
		cr_assert_lt(i, 10000);
		cr_assert_eq(dfi__client_put(client, "big", data, sizeof(data),
				 0, soon(), NULL),
		    0);
	}
	ear_expect(&ear, "+slow= -slow ");
	cr_assert_eq(lines_count("\n"), 1);
	while ((message = raw_read(&raw)))
		dfi__wire_free(message);
	raw_close(&raw);
}

static void put_big_ones(void)
{
	static char data[64 << 10];
	char key[32];
	int i;

	for (i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "big/%d", i);
		cr_assert_eq(dfi__client_put(client, key, data, sizeof(data), 0,
				 soon(), NULL),
		    0);
	}
}

/*
 * The registry reads no requests meanwhile, so that it can't learn of it
 * otherwise. The time is played: reading takes 6 s, twice the lease.
 */
Test(server, to_read_what_waits_is_a_sign_of_life)
{
	Dfi__Registry__Message *message;
	struct raw raw;
	int n_events;

	put_big_ones();
	connect_greeted(&raw);
	cr_assert_eq(raw_grant(&raw, 3000), 0);
	send_watch(&raw, "big/");
	for (n_events = 0; n_events < 40; n_events++) {
		nanosleep(&(struct timespec){ .tv_nsec = 150000000 }, NULL);
		message = raw_read(&raw);
		cr_assert_not_null(message);
		cr_assert_eq(
		    message->body_case, DFI__REGISTRY__MESSAGE__BODY_EVENT);
		dfi__wire_free(message);
	}
	dfi__wire_free(raw_read(&raw));
	cr_assert_eq(raw_put_leased(&raw, "p/1"), 0);
	cr_assert_eq(lines_count("\n"), 0);
	raw_close(&raw);
}

Test(server, a_first_snapshot_does_not_count_as_unread)
{
	Dfi__Registry__Message *message;
	struct raw raw;
	int n_events = 0;

	put_big_ones();
	connect_greeted(&raw);
	send_watch(&raw, "big/");
	cr_assert_eq(
	    dfi__client_put(client, "big/1", "", 0, 0, soon(), NULL), 0);
	while (n_events < 41) {
		message = raw_read(&raw);
		cr_assert_not_null(message);
		n_events += message->body_case ==
		    DFI__REGISTRY__MESSAGE__BODY_EVENT;
		dfi__wire_free(message);
	}
	cr_assert_eq(lines_count("\n"), 0);
	raw_close(&raw);
}

struct flood {
	struct raw *raw;
	int n;
};

static void *send_gets(void *arg)
{
	struct flood *flood = arg;
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Get get = DFI__REGISTRY__GET__INIT;
	int i;

	get.key = "big";
	request.op_case = DFI__REGISTRY__REQUEST__OP_GET;
	request.get = &get;
	for (i = 0; i < flood->n; i++)
		raw_send(flood->raw, &request);
	return NULL;
}

Test(server, requests_of_a_client_that_does_not_read_wait_and_are_answered)
{
	static char data[64 << 10];
	struct raw raw;
	struct flood flood = { .raw = &raw, .n = 2000 };
	Dfi__Registry__Message *message;
	pthread_t thread;
	int i;

	cr_assert_eq(
	    dfi__client_put(client, "big", data, sizeof(data), 0, soon(), NULL),
	    0);
	connect_greeted(&raw);
	/* 125 MiB of answers, which the registry must not hoard. */
	pthread_create(&thread, NULL, send_gets, &flood);
	for (i = 0; i < 50; i++)
		assert_served();
	for (i = 0; i < flood.n; i++) {
		message = raw_read(&raw);
		cr_assert_not_null(message);
		cr_assert_eq(message->reply->n_values, 1);
		dfi__wire_free(message);
	}
	pthread_join(thread, NULL);
	cr_assert_eq(lines_count("\n"), 0);
	raw_close(&raw);
}

/* Only this thread changes its user. */
static void *connect_as_nobody(void *arg)
{
	struct raw *raw = arg;

	if (syscall(SYS_setresuid, -1, 65534, -1))
		return NULL;
	raw_connect(raw, dfi_registry_address(registry));
	return raw;
}

Test(server, another_user_is_refused)
{
	struct raw raw;
	pthread_t thread;
	void *connected;

	if (geteuid() != 0)
		cr_skip_test("only root can become another user");
	pthread_create(&thread, NULL, connect_as_nobody, &raw);
	pthread_join(thread, &connected);
	if (!connected)
		cr_skip_test("not allowed to become another user");
	raw_expect_refusal(&raw, -EACCES);
	raw_close(&raw);
	cr_assert_eq(lines_count("\n"), 1);
	cr_assert_geq(lines_count("65534"), 1);
	assert_served();
}

#define N_STRANGERS 80

static int strangers[N_STRANGERS];

static void *flood_as_nobody(void *arg)
{
	struct address address;
	int i;

	if (syscall(SYS_setresuid, -1, 65534, -1))
		return NULL;
	dfi__address_parse(dfi_registry_address(registry), &address);
	for (i = 0; i < N_STRANGERS; i++) {
		strangers[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(strangers[i], &address.socket.any, address.size))
			return NULL;
	}
	return arg;
}

/* Each sends a byte now and then. Returns whether any is still connected. */
static bool trickle(void)
{
	bool connected = false;
	int i;

	for (i = 0; i < N_STRANGERS; i++)
		connected |= send(strangers[i], "", 1, MSG_NOSIGNAL) == 1;
	return connected;
}

Test(server_limits, other_users_cost_no_client_its_place)
{
	struct registry_client *second;
	int64_t deadline = soon();
	unsigned n_descriptors;
	pthread_t thread;
	void *connected;
	int i;

	if (geteuid() != 0)
		cr_skip_test("only root can become another user");
	start_limited(4, 0);
	n_descriptors = count_descriptors("");
	pthread_create(&thread, NULL, flood_as_nobody, &registry);
	pthread_join(thread, &connected);
	if (!connected)
		cr_skip_test("not allowed to become another user");
	for (i = 0; i < 3; i++) {
		trickle();
		second = open_client(loop, registry);
		dfi__client_close(second);
	}
	/* One for each of those that are told, and none for their processes. */
	while (count_descriptors("") > n_descriptors + N_STRANGERS + 64 &&
	    clock_now_ns() < deadline)
		poll(NULL, 0, 10);
	cr_assert_leq(count_descriptors(""), n_descriptors + N_STRANGERS + 64);
	while (trickle() && clock_now_ns() < deadline)
		poll(NULL, 0, 50);
	cr_assert_not(trickle());
	for (i = 0; i < N_STRANGERS; i++)
		close(strangers[i]);
	cr_assert_eq(lines_count("disconnects"), 1);
	cr_assert_eq(lines_count("\n"), 1);
	teardown();
}

Test(server_limits, another_user_is_served_if_it_is_named)
{
	static const uint32_t users[] = { 12345, 65534 };
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct raw raw;
	pthread_t thread;
	void *connected;

	if (geteuid() != 0)
		cr_skip_test("only root can become another user");
	attr.users = users;
	attr.n_users = 2;
	cr_assert_eq(dfi_registry_start(&attr, &registry), 0);
	pthread_create(&thread, NULL, connect_as_nobody, &raw);
	pthread_join(thread, &connected);
	if (!connected)
		cr_skip_test("not allowed to become another user");
	cr_assert_eq(raw_handshake(&raw, WIRE_VERSION), 0);
	raw_close(&raw);
	dfi_registry_stop(registry);
	attr.listen = "tcp:127.0.0.1:0";
	cr_assert_eq(dfi_registry_start(&attr, &registry), -EINVAL);
	attr.n_users = 33;
	cr_assert_eq(dfi_registry_start(&attr, &registry), -EINVAL);
}

/* As many as it may have of a kind; one that it ends leaves room. */
static void watch_as_much(struct raw *raw, bool follow)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Watch watch = DFI__REGISTRY__WATCH__INIT;
	Dfi__Registry__Unwatch unwatch = DFI__REGISTRY__UNWATCH__INIT;
	int i;

	watch.prefix = "none";
	watch.follow = follow;
	request.op_case = DFI__REGISTRY__REQUEST__OP_WATCH;
	request.watch = &watch;
	for (i = 0; i < 4096; i++)
		cr_assert_eq(raw_ask(raw, &request), 0);
	cr_assert_eq(raw_ask(raw, &request), -ENOSPC);
	unwatch.watch = request.id - 1;
	request.op_case = DFI__REGISTRY__REQUEST__OP_UNWATCH;
	request.unwatch = &unwatch;
	raw_send(raw, &request);
	request.op_case = DFI__REGISTRY__REQUEST__OP_WATCH;
	request.watch = &watch;
	cr_assert_eq(raw_ask(raw, &request), 0);
	cr_assert_eq(raw_ask(raw, &request), -ENOSPC);
}

Test(server, watches_of_one_client_are_limited)
{
	struct raw raw;

	connect_greeted(&raw);
	watch_as_much(&raw, true);
	watch_as_much(&raw, false);
	raw_close(&raw);
	assert_served();
}

Test(server_limits, keys_of_one_client_are_limited)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;

	attr.max_client_keys = 2;
	cr_assert_eq(dfi_registry_start(&attr, &registry), 0);
	loop = start_loop();
	client = open_client(loop, registry);
	cr_assert_eq(
	    dfi__client_put(client, "a", "", 0, CLIENT_LEASED, soon(), NULL),
	    0);
	cr_assert_eq(
	    dfi__client_put(client, "b", "", 0, CLIENT_LEASED, soon(), NULL),
	    0);
	cr_assert_eq(
	    dfi__client_put(client, "c", "", 0, CLIENT_LEASED, soon(), NULL),
	    -ENOSPC);
	cr_assert_not_null(strstr(dfi_errmsg(), "2 keys"), "%s", dfi_errmsg());
	assert_served();
	teardown();
}

Test(server_limits, connections_are_limited)
{
	struct registry_client *second, *third;
	int64_t deadline = soon();
	int ret;

	start_limited(2, 0);
	second = open_client(loop, registry);
	cr_assert_eq(dfi__client_open(loop, dfi_registry_address(registry),
			 NULL, 0, soon(), &third),
	    -ENOSPC, "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), "2 connections"));
	assert_served();
	dfi__client_close(second);
	/* Its place is free as soon as the registry has noticed. */
	do
		ret = dfi__client_open(loop, dfi_registry_address(registry),
		    NULL, 0, soon(), &third);
	while (ret == -ENOSPC && clock_now_ns() < deadline);
	cr_assert_eq(ret, 0);
	dfi__client_close(third);
	teardown();
}

#define N_QUIET 600

Test(server_limits, connections_that_have_not_greeted_do_not_count)
{
	static struct raw quiet[N_QUIET];
	struct registry_client *second;
	int i;

	start_limited(2, 0);
	for (i = 0; i < N_QUIET; i++)
		raw_connect(&quiet[i], dfi_registry_address(registry));
	second = open_client(loop, registry);
	assert_served();
	/* There are fewer places for one user. */
	lines_wait("it has not said its version");
	cr_assert_eq(lines_count("it has not said its version"), 1);
	dfi__client_close(second);
	for (i = 0; i < N_QUIET; i++)
		raw_close(&quiet[i]);
	teardown();
}

/* It gets in, but only learns that its process has no place. */
Test(server_limits, quiet_connections_give_their_descriptors_to_others)
{
	struct raw quiet[4], other, raw;
	int next = 0, n_ended = 0, i;
	struct rlimit before, low;
	char byte;

	start_limited(0, 0);
	for (i = 0; i < 4; i++)
		raw_connect(&quiet[i], dfi_registry_address(registry));
	connect_greeted(&other); /* so the others have been accepted */
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	raw.fd = socket(AF_UNIX, SOCK_STREAM, 0);
	low = before;
	while (fcntl(next, F_GETFD) >= 0)
		next++;
	low.rlim_cur = (rlim_t)next;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	raw_connect_with(&raw, raw.fd, dfi_registry_address(registry));
	cr_assert_eq(raw_handshake(&raw, WIRE_VERSION), -ENOSPC);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	raw_close(&raw);
	raw_close(&other);
	for (i = 0; i < 4; i++) {
		n_ended += recv(quiet[i].fd, &byte, 1, MSG_DONTWAIT) == 0;
		raw_close(&quiet[i]);
	}
	cr_assert_eq(n_ended, 1);
	teardown();
}

Test(server, what_comes_before_a_handshake_is_not_hoarded)
{
	static const char bytes[8192] = { 0, 1, 0, 0 };
	struct raw raw;

	raw_connect(&raw, dfi_registry_address(registry));
	raw_send_bytes(&raw, bytes, sizeof(bytes));
	raw_expect_refusal(&raw, -EMSGSIZE);
	raw_close(&raw);
	assert_served();
}

/* The registry's process has descriptors for this many connections only. */
Test(server_limits, a_client_is_not_served_without_a_watch_on_its_process)
{
	struct rlimit before, low;
	struct raw raw;
	int next = 0, n_free = 0;

	start_limited(0, 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	/* Ours for the test, and one more for the registry. */
	for (; n_free < 2; next++)
		n_free += fcntl(next, F_GETFD) < 0;
	low.rlim_cur = (rlim_t)next;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	raw_connect(&raw, dfi_registry_address(registry));
	cr_assert_eq(raw_handshake(&raw, WIRE_VERSION), -ENOSPC);
	cr_assert_null(raw_read(&raw));
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	raw_close(&raw);
	lines_wait("one more client needs 1 file descriptor");
	cr_assert_eq(lines_count("(ulimit -n)"), 1);
	connect_greeted(&raw);
	raw_close(&raw);
	teardown();
}

/* The client against registries that are not as they should be. */

/* As a registry crowded by strangers does: the third connection is served. */
static void *close_two(void *arg)
{
	struct fake *fake = arg;
	Dfi__Registry__Message *message;
	struct raw raw;
	int i;

	close(accept(fake->fd, NULL, NULL));
	close(accept(fake->fd, NULL, NULL));
	raw.fd = accept(fake->fd, NULL, NULL);
	raw.in = evbuffer_new();
	for (i = 0; i < 3; i++) { /* handshake, lease, and its end */
		message = fake_receive(&raw);
		fake_agree(&raw, message);
		dfi__wire_free(message);
	}
	cr_assert_null(raw_read(&raw));
	raw_close(&raw);
	return NULL;
}

static int open_fake(const struct fake *fake, uint32_t timeout_ms)
{
	int ret;

	loop = start_loop();
	ret = dfi__client_open(
	    loop, fake->address, NULL, 0, deadline_in_ms(timeout_ms), &client);
	return ret;
}

Test(client, tries_again_if_its_connection_is_closed_without_a_word)
{
	struct fake fake;
	pthread_t thread;

	fake_start(&fake, NULL, NULL);
	pthread_create(&thread, NULL, close_two, &fake);
	cr_assert_eq(open_fake(&fake, 60000), 0, "%s", dfi_errmsg());
	dfi__client_close(client);
	pthread_join(thread, NULL);
	stop_loop(loop);
	fake_stop(&fake);
}

Test(client, a_registry_that_never_answers_is_etimedout)
{
	struct fake fake;

	fake_start(&fake, NULL, NULL);
	cr_assert_eq(open_fake(&fake, 100), -ETIMEDOUT);
	cr_assert_not_null(strstr(dfi_errmsg(), fake.address));
	stop_loop(loop);
	fake_stop(&fake);
}

static void answer_garbage(struct raw *raw, void *arg)
{
	(void)arg;
	dfi__wire_free(fake_receive(raw));
	raw_send_bytes(raw, "HTTP/1.1 400 Bad Request\r\n", 26);
	cr_assert_null(raw_read(raw));
}

Test(client, what_is_no_registry_is_eproto)
{
	struct fake fake;

	fake_start(&fake, answer_garbage, NULL);
	cr_assert_eq(open_fake(&fake, 60000), -EPROTO);
	cr_assert_not_null(strstr(dfi_errmsg(), "no registry"));
	stop_loop(loop);
	fake_stop(&fake);
}

static void answer_newer(struct raw *raw, void *arg)
{
	Dfi__Registry__Message *message = fake_receive(raw);
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;

	(void)arg;
	reply.id = message->request->id;
	reply.version = 77;
	raw_send_reply(raw, &reply);
	dfi__wire_free(message);
	cr_assert_null(raw_read(raw));
}

Test(client, a_registry_of_another_version_is_eproto)
{
	struct fake fake;

	fake_start(&fake, answer_newer, NULL);
	cr_assert_eq(open_fake(&fake, 60000), -EPROTO);
	cr_assert_not_null(strstr(dfi_errmsg(), "version 77"));
	stop_loop(loop);
	fake_stop(&fake);
}

static void agree_to_opening(struct raw *raw)
{
	int i;

	for (i = 0; i < 2; i++) { /* handshake, lease */
		Dfi__Registry__Message *message = fake_receive(raw);

		fake_agree(raw, message);
		dfi__wire_free(message);
	}
}

static void answer_late(struct raw *raw, void *arg)
{
	Dfi__Registry__Message *first, *second;

	agree_to_opening(raw);
	first = fake_receive(raw);
	sem_wait(arg); /* until the caller has given up */
	second = fake_receive(raw);
	fake_agree(raw, first);
	fake_agree(raw, second);
	dfi__wire_free(first);
	dfi__wire_free(second);
	dfi__wire_free(raw_read(raw)); /* the lease is given back */
}

Test(client, an_answer_that_comes_too_late_is_dropped)
{
	struct fake fake;
	sem_t given_up;

	sem_init(&given_up, 0, 0);
	fake_start(&fake, answer_late, &given_up);
	cr_assert_eq(open_fake(&fake, 60000), 0);
	cr_assert_eq(
	    dfi__client_delete(client, "a", 0, deadline_in_ms(50)), -ETIMEDOUT);
	cr_assert_not_null(strstr(dfi_errmsg(), fake.address));
	sem_post(&given_up);
	cr_assert_eq(dfi__client_delete(client, "b", 0, soon()), 0);
	dfi__client_close(client);
	stop_loop(loop);
	fake_stop(&fake);
}

/* Late answers to two creations, one of which fails; then the question. */
struct late_creations {
	sem_t given_up, undone;
	char deleted[64];
	uint64_t revision;
};

static void create_late(struct raw *raw, void *arg)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;
	Dfi__Registry__Message *first, *second, *undo;
	struct late_creations *late = arg;

	agree_to_opening(raw);
	first = fake_receive(raw);
	second = fake_receive(raw);
	sem_wait(&late->given_up);
	reply.id = second->request->id;
	reply.error = -EEXIST;
	reply.text = "it exists";
	raw_send_reply(raw, &reply);
	reply.id = first->request->id;
	reply.error = 0;
	reply.text = "";
	reply.revision = 77;
	raw_send_reply(raw, &reply);
	undo = fake_receive(raw);
	if (undo->request->op_case == DFI__REGISTRY__REQUEST__OP_DELETE) {
		snprintf(late->deleted, sizeof(late->deleted), "%s",
		    undo->request->delete_->key);
		late->revision = undo->request->delete_->revision;
	}
	fake_agree(raw, undo);
	sem_post(&late->undone);
	dfi__wire_free(first);
	dfi__wire_free(second);
	dfi__wire_free(undo);
	dfi__wire_free(raw_read(raw)); /* the lease is given back */
}

Test(client, a_key_that_is_created_too_late_is_deleted)
{
	struct late_creations late = { .revision = 0 };
	struct fake fake;

	sem_init(&late.given_up, 0, 0);
	sem_init(&late.undone, 0, 0);
	fake_start(&fake, create_late, &late);
	cr_assert_eq(open_fake(&fake, 60000), 0);
	cr_assert_eq(dfi__client_create(client, "mine", "", 0, CLIENT_LEASED,
			 deadline_in_ms(50), NULL),
	    -ETIMEDOUT);
	cr_assert_eq(dfi__client_create(client, "another's", "", 0, 0,
			 deadline_in_ms(50), NULL),
	    -ETIMEDOUT);
	sem_post(&late.given_up);
	sem_wait(&late.undone);
	dfi__client_close(client);
	stop_loop(loop);
	fake_stop(&fake);
	cr_assert_str_eq(late.deleted, "mine");
	cr_assert_eq(late.revision, 77);
}

static void confirm_watch_late(struct raw *raw, void *arg)
{
	Dfi__Registry__Message *watch, *unwatch, *next;

	agree_to_opening(raw);
	watch = fake_receive(raw);
	sem_wait(arg);
	unwatch = fake_receive(raw);
	cr_assert_eq(
	    unwatch->request->op_case, DFI__REGISTRY__REQUEST__OP_UNWATCH);
	cr_assert_eq(unwatch->request->unwatch->watch, watch->request->id);
	raw_send_event(raw, watch->request->id, "k");
	fake_agree(raw, watch);
	fake_agree(raw, unwatch);
	next = fake_receive(raw);
	fake_agree(raw, next);
	dfi__wire_free(watch);
	dfi__wire_free(unwatch);
	dfi__wire_free(next);
	dfi__wire_free(raw_read(raw));
}

Test(client, a_watch_that_timed_out_hears_nothing)
{
	struct registry_watch *watch;
	struct fake fake;
	sem_t given_up;

	ear_init(&ear);
	sem_init(&given_up, 0, 0);
	fake_start(&fake, confirm_watch_late, &given_up);
	cr_assert_eq(open_fake(&fake, 60000), 0);
	cr_assert_eq(dfi__client_watch(client, "", ear_hear, &ear,
			 deadline_in_ms(50), &watch),
	    -ETIMEDOUT);
	sem_post(&given_up);
	cr_assert_eq(dfi__client_delete(client, "b", 0, soon()), 0);
	cr_assert_str_eq(ear.log, "");
	dfi__client_close(client);
	stop_loop(loop);
	fake_stop(&fake);
}

static void vanish(struct raw *raw, void *arg)
{
	(void)arg;
	agree_to_opening(raw);
	dfi__wire_free(fake_receive(raw));
}

Test(client, a_call_does_not_outlive_the_connection)
{
	struct registry_value value;
	struct fake fake;

	fake_start(&fake, vanish, NULL);
	cr_assert_eq(open_fake(&fake, 60000), 0);
	cr_assert_eq(
	    dfi__client_get(client, "a", DEADLINE_NEVER, &value), -ENOTCONN);
	cr_assert_not_null(strstr(dfi_errmsg(), fake.address));
	dfi__client_close(client);
	stop_loop(loop);
	fake_stop(&fake);
}

static void answer_nonsense(struct raw *raw, void *arg)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;
	Dfi__Registry__Message *message;

	(void)arg;
	agree_to_opening(raw);
	message = fake_receive(raw); /* get: success, but no value */
	fake_agree(raw, message);
	dfi__wire_free(message);
	message = fake_receive(raw); /* list: an empty page and more */
	reply.id = message->request->id;
	reply.more = true;
	raw_send_reply(raw, &reply);
	dfi__wire_free(message);
	message = fake_receive(raw); /* delete: an error that is none */
	reply.id = message->request->id;
	reply.error = 12345;
	raw_send_reply(raw, &reply);
	dfi__wire_free(message);
	dfi__wire_free(raw_read(raw));
}

Test(client, answers_that_make_no_sense_are_ebadmsg)
{
	struct registry_value value, *values;
	struct fake fake;
	size_t count;

	fake_start(&fake, answer_nonsense, NULL);
	cr_assert_eq(open_fake(&fake, 60000), 0);
	cr_assert_eq(dfi__client_get(client, "a", soon(), &value), -EBADMSG);
	cr_assert_eq(
	    dfi__client_list(client, "a", soon(), &values, &count), -EBADMSG);
	cr_assert_eq(dfi__client_delete(client, "a", 0, soon()), -EBADMSG);
	dfi__client_close(client);
	stop_loop(loop);
	fake_stop(&fake);
}

/* ---- Children of a client ------------------------------------------------ */

#define N_FDS 256

static int count_sockets(void)
{
	struct stat st;
	int fd, n = 0;

	for (fd = 0; fd < N_FDS; fd++)
		n += fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
	return n;
}

static int count_in_child(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(count_sockets());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* It will be so. */
static void await_count(int (*count)(void), int n)
{
	int64_t deadline = soon();

	while (count() != n)
		cr_assert_lt(clock_now_ns(), deadline, "%d", count());
}

/* An address that accepts no more connections: its backlog is full. */
static int listen_full(char address[64], int *filler)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), n;
	socklen_t size;

	n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "dfi-full-%d",
	    (int)getpid());
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
	    (size_t)n);
	cr_assert_eq(bind(fd, (struct sockaddr *)&un, size), 0);
	cr_assert_eq(listen(fd, 0), 0);
	*filler = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(*filler, (struct sockaddr *)&un, size), 0);
	snprintf(address, 64, "unix:@dfi-full-%d", (int)getpid());
	return fd;
}

static void *open_in_vain(void *arg)
{
	struct registry_client *none;

	return (void *)(intptr_t)dfi__client_open(
	    loop, arg, NULL, 0, soon(), &none);
}

/*
 * Otherwise the registry would not see this process die, if it connected next.
 */
Test(client, is_not_kept_connecting_by_a_forked_child)
{
	char address[64];
	pthread_t thread;
	int fd, filler, n;
	void *ret;

	loop = start_loop();
	fd = listen_full(address, &filler);
	n = count_sockets();
	cr_assert_eq(pthread_create(&thread, NULL, open_in_vain, address), 0);
	await_count(count_sockets, n + 1);
	/* Except for an instant, in which the socket is new. */
	await_count(count_in_child, n);
	cr_assert_eq(count_sockets(), n + 1);
	close(fd);
	pthread_join(thread, &ret);
	cr_assert_eq(
	    (int)(intptr_t)ret, -ECONNREFUSED, "%d", (int)(intptr_t)ret);
	close(filler);
	stop_loop(loop);
}
