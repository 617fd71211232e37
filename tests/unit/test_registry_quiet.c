/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that has lost its connection and can't get another one, because the
 * registry has died or its machine does not answer. connect() here fails as the
 * test says.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <dfi/dfi.h>

#include "registry_help.h"

#include "registry/wire/address.h"

/* So long that it does not end because this process did not run. */
#define LEASE_MS 2000

/* At this address no other program takes a port before it is bound again. */
#define OWN_ADDRESS "tcp:127.0.0.2:0"

/* The error of connect(), and how often it has failed; 0: no error. */
static _Atomic int fails_with, n_failed;

/* TCP_USER_TIMEOUT of the last socket that was given one. */
static _Atomic unsigned quiet_ms;

/* The type is glibc's, for any kind of address. */
int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t size)
{
	if (!fails_with)
		return (int)syscall(SYS_connect, fd, to.__sockaddr__, size);
	n_failed++;
	errno = fails_with;
	return -1;
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
	if (level == IPPROTO_TCP && option == TCP_USER_TIMEOUT)
		quiet_ms = *(const unsigned *)value;
	return (int)syscall(SYS_setsockopt, fd, level, option, value, size);
}

static char address[128];
static struct dfi_registry *registry;
static struct loop *loop;
static struct registry_client *client;
static struct ear ear;

static void open_with(const char *listen, uint32_t lease_ms)
{
	struct registry_watch *watch;

	registry = start_at(listen);
	snprintf(
	    address, sizeof(address), "%s", dfi_registry_address(registry));
	loop = start_loop();
	cr_assert_eq(dfi__client_open(
			 loop, address, &insecure, lease_ms, soon(), &client),
	    0, "%s", dfi_errmsg());
	ear_init(&ear);
	cr_assert_eq(
	    dfi__client_watch(client, "p/", ear_hear, &ear, soon(), &watch), 0);
}

static void lose_to(int err)
{
	fails_with = err;
	dfi_registry_stop(registry);
	registry = NULL;
}

/* This many more attempts have failed. */
static void await_attempts(int n)
{
	int until = n_failed + n;

	while (n_failed < until)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void close_all(void)
{
	dfi__client_close(client);
	stop_loop(loop);
	if (registry)
		dfi_registry_stop(registry);
}

TestSuite(quiet_time, .init = lines_collect, .fini = close_all, .timeout = 300);

Test(quiet_time, of_its_machine_for_as_long_as_the_lease_is_reported_once)
{
	int64_t begin;

	open_with(OWN_ADDRESS, LEASE_MS);
	cr_assert_eq(quiet_ms, LEASE_MS);
	begin = clock_now_ns();
	cr_assert_eq(
	    dfi__client_put(client, "heard", "", 0, 0, soon(), NULL), 0);
	lose_to(EHOSTUNREACH);
	ear_expect(&ear, "LOST CUT ");
	cr_assert_geq(clock_now_ns() - begin, LEASE_MS * NS_PER_MS);
	await_attempts(2);
	ear_expect(&ear, "LOST CUT ");
	fails_with = 0;
	registry = start_at(address);
	ear_expect(&ear, "LOST CUT BACK ");
}

Test(quiet_time, that_is_shorter_than_the_lease_is_not_reported)
{
	open_with(OWN_ADDRESS, 60000);
	lose_to(EHOSTUNREACH);
	await_attempts(5);
	ear_expect(&ear, "LOST ");
	fails_with = 0;
	registry = start_at(address);
	ear_expect(&ear, "LOST BACK ");
}

Test(quiet_time, is_not_that_of_a_registry_that_has_died)
{
	int64_t until;

	open_with(OWN_ADDRESS, LEASE_MS);
	lose_to(ECONNREFUSED);
	until = clock_now_ns() + 3 * LEASE_MS * INT64_C(1000000);
	while (clock_now_ns() < until)
		await_attempts(1);
	ear_expect(&ear, "LOST ");
	/* From here on. */
	fails_with = ENETUNREACH;
	ear_expect(&ear, "LOST CUT ");
	fails_with = 0;
	registry = start_at(address);
	ear_expect(&ear, "LOST CUT BACK ");
}

static int listen_at(const char *text)
{
	struct address parsed;
	int fd, one = 1;

	cr_assert_eq(dfi__address_parse(text, &parsed), 0);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	cr_assert_eq(bind(fd, &parsed.socket.any, parsed.size), 0);
	cr_assert_eq(listen(fd, 8), 0);
	return fd;
}

static void await_end(int fd)
{
	char byte;

	cr_assert_geq(fd, 0);
	while (recv(fd, &byte, 1, 0) > 0)
		;
	close(fd);
}

/* It takes connections, and says nothing, for longer than the lease. */
Test(quiet_time, is_not_that_of_a_registry_that_hangs)
{
	int listening, first, second;

	open_with(OWN_ADDRESS, 2 * LEASE_MS);
	lose_to(ECONNREFUSED);
	listening = listen_at(address);
	fails_with = 0;
	first = accept(listening, NULL, NULL);
	await_end(first);
	/* The attempt has failed by the time that the next begins. */
	second = accept(listening, NULL, NULL);
	ear_expect(&ear, "LOST ");
	/* Its machine has answered in that time. */
	fails_with = EHOSTUNREACH;
	await_end(second);
	await_attempts(2);
	ear_expect(&ear, "LOST ");
	ear_expect(&ear, "LOST CUT ");
	close(listening);
	fails_with = 0;
	registry = start_at(address);
	ear_expect(&ear, "LOST CUT BACK ");
}

Test(quiet_time, is_for_ever_without_a_lease)
{
	open_with(OWN_ADDRESS, 0);
	cr_assert_eq(quiet_ms, 0);
	lose_to(EHOSTUNREACH);
	await_attempts(4);
	fails_with = 0;
	registry = start_at(address);
	ear_expect(&ear, "LOST BACK ");
}

/* EAGAIN: the queue of who wants to connect is full. */
Test(quiet_time, is_none_at_a_socket_of_this_machine)
{
	open_with(fresh_address("socket"), LEASE_MS);
	cr_assert_eq(quiet_ms, 0);
	lose_to(EAGAIN);
	await_attempts(5);
	fails_with = 0;
	registry = start_at(address);
	ear_expect(&ear, "LOST BACK ");
}

/* A flow whose second source never comes. */
static struct dfi_target *open_target(struct dfi *dfi)
{
	static const struct dfi_field field = {
		.name = "n",
		.type = DFI_UINT64,
		.size = 8,
	};
	static const struct dfi_schema schema = {
		.fields = &field,
		.n_fields = 1,
		.tuple_size = 8,
	};
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_target *target;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.n_sources = 2;
	attr.n_targets = 1;
	cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0, "%s", dfi_errmsg());
	cr_assert_eq(
	    dfi_target_open(dfi, "f", 0, NULL, &target), 0, "%s", dfi_errmsg());
	return target;
}

/* The lease has ended for the isolated one as well: nobody will attach. */
Test(who_is_cut_off, waits_for_nobody_who_has_not_come, .init = lines_collect,
    .timeout = 300)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_sequencer *creator, *sequencer;
	struct dfi_barrier *barrier;
	struct dfi_target *target;
	struct dfi_source *source;
	uint64_t word = 7, first;
	const void *tuple;
	struct dfi *dfi;

	registry = start_at(OWN_ADDRESS);
	attr.registry = dfi_registry_address(registry);
	/* Or it would end before the registry is lost, if this stood still. */
	attr.lease_ttl_ms = 3 * LEASE_MS;
	attr.registry_flags = DFI_REGISTRY_INSECURE;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_barrier_open(dfi, "b", 2, 0, &barrier), 0);
	cr_assert_eq(dfi_sequencer_create(dfi, "s", 0, &creator), 0);
	cr_assert_eq(dfi_sequencer_open(dfi, "s", 0, &sequencer), 0);
	target = open_target(dfi);
	cr_assert_eq(dfi_source_open(dfi, "f", 0, NULL, &source), 0);
	cr_assert_eq(dfi_source_push(source, &word), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	fails_with = EHOSTUNREACH;
	dfi_registry_stop(registry);
	cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	cr_assert_eq(dfi_target_consume(target, &tuple), -ECONNRESET);
	cr_assert_str_eq(dfi_errmsg(),
	    "flow 'f': source 1 of 2 can't attach any more: the registry's "
	    "machine has not answered for as long as this process's lease "
	    "(DFI_LEASE, or dfi_attr.lease_ttl_ms), so that the others take "
	    "this process for dead: is the network there?");
	/* These know from before, and are not affected. */
	cr_assert_eq(dfi_barrier_wait(barrier, 10), -ENOTCONN);
	cr_assert_eq(dfi_sequencer_next(sequencer, 1, &first), 0);
	dfi_target_close(target);
	dfi_barrier_close(barrier);
	dfi_sequencer_close(sequencer);
	dfi_sequencer_close(creator);
	cr_assert_eq(dfi_close(dfi), 0);
}
