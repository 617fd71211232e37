/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry over TLS: which clients are served, and which are refused with
 * which error. The registry logs each reason once and still serves the others.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/error.h>

#include "registry/wire/address.h"
#include "registry/remote/enter.h"
#include "registry/remote/keys.h"
#include "registry/remote/state.h"
#include "registry_help.h"
#include "tls_help.h"

static struct dfi_registry *registry;
static struct loop *loop;
static struct registry_client *member; /* is served throughout */
static struct registry_security key = { .key = NULL };

static int open_at(
    const char *address, const struct registry_security *security)
{
	struct registry_client *client;
	int ret = dfi__client_open(loop, address, security, 0, soon(), &client);

	if (ret == 0)
		dfi__client_close(client);
	return ret;
}

static int open_with(const struct registry_security *security)
{
	return open_at(dfi_registry_address(registry), security);
}

static void expect_refusal(const struct registry_security *security, int err,
    const char *text, const char *logged)
{
	char line[128];
	int i;

	snprintf(line, sizeof(line), "refuses the client at tcp:");
	for (i = 0; i < 3; i++) {
		cr_assert_eq(open_with(security), err, "%s", dfi_errmsg());
		cr_assert_not_null(
		    strstr(dfi_errmsg(), text), "%s", dfi_errmsg());
		cr_assert_not_null(
		    strstr(dfi_errmsg(), dfi_registry_address(registry)));
	}
	lines_wait(logged);
	cr_assert_eq(lines_count(line), 1);
	cr_assert_eq(lines_count(logged), 1);
}

static void assert_served(void)
{
	cr_assert_eq(dfi__client_put(member, "served", "", 0, 0, soon(), NULL),
	    0, "%s", dfi_errmsg());
}

static void start_with(const struct dfi_registry_attr *attr,
    const struct registry_security *security)
{
	lines_collect();
	cr_assert_eq(
	    dfi_registry_start(attr, &registry), 0, "%s", dfi_errmsg());
	loop = start_loop();
	cr_assert_eq(dfi__client_open(loop, dfi_registry_address(registry),
			 security, 0, soon(), &member),
	    0, "%s", dfi_errmsg());
}

static void setup_key(void)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;

	key.key = attr.key = make_key("key");
	attr.listen = "tcp:127.0.0.1:0";
	attr.max_connections = 3;
	start_with(&attr, &key);
}

static void teardown(void)
{
	assert_served();
	dfi__client_close(member);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

TestSuite(registry_key, .init = setup_key, .fini = teardown);

Test(registry_key, who_has_it_is_served)
{
	static char data[64 << 10];
	struct registry_value *values, value;
	struct registry_client *client;
	struct registry_watch *watch;
	struct ear ear;
	size_t count, i;
	char name[16];

	ear_init(&ear);
	cr_assert_eq(dfi__client_open(loop, dfi_registry_address(registry),
			 &key, 60000, soon(), &client),
	    0, "%s", dfi_errmsg());
	cr_assert_eq(
	    dfi__client_watch(member, "w/", ear_hear, &ear, soon(), &watch), 0);
	cr_assert_eq(
	    dfi__client_put(client, "w/a", "1", 1, CLIENT_LEASED, soon(), NULL),
	    0);
	/* Both directions, more than any buffer on the way holds. */
	for (i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "big/%02zu", i);
		memset(data, (int)i, sizeof(data));
		cr_assert_eq(dfi__client_put(client, name, data, sizeof(data),
				 0, soon(), NULL),
		    0);
	}
	cr_assert_eq(
	    dfi__client_list(member, "big/", soon(), &values, &count), 0);
	cr_assert_eq(count, 100);
	for (i = 0; i < count; i++) {
		memset(data, (int)i, sizeof(data));
		cr_assert_eq(values[i].size, sizeof(data));
		cr_assert_eq(memcmp(values[i].data, data, sizeof(data)), 0);
	}
	dfi__registry_values_free(values, count);
	dfi__client_close(client);
	ear_expect(&ear, "+w/a=1 -w/a ");
	cr_assert_eq(dfi__client_get(member, "w/a", soon(), &value), -ENOENT);
	cr_assert_eq(lines_count("\n"), 0);
}

struct flood {
	sem_t begun;
	int n;
};

static int forget_a_lot(void *arg)
{
	struct flood *flood = arg;
	int i;

	sem_post(&flood->begun);
	for (i = 0; i < flood->n; i++) {
		dfi__client_enter(remote_of(member));
		dfi__client_send_withdrawal(remote_of(member), "nothing");
		dfi__client_exit(remote_of(member));
	}
	return 0;
}

static void *start_flood(void *arg)
{
	dfi__loop_call(loop, forget_a_lot, arg, DEADLINE_NEVER);
	return NULL;
}

/*
 * The loop writes only when the flood and the put are queued: nothing comes
 * after them that could wake the registry again.
 */
Test(registry_key, the_last_of_a_flood_of_small_requests_is_answered)
{
	/* In a short run, every sixth size. */
	int step = getenv("DFI_TEST_SHORT") ? 6 * 2111 : 2111;
	struct flood flood;
	pthread_t thread;

	sem_init(&flood.begun, 0, 0);
	for (flood.n = 20000; flood.n < 60000; flood.n += step) {
		pthread_create(&thread, NULL, start_flood, &flood);
		sem_wait(&flood.begun);
		assert_served();
		pthread_join(thread, NULL);
	}
}

Test(registry_key, another_one_is_refused)
{
	struct registry_security other = { .key = make_key("other") };

	expect_refusal(&other, -EACCES, "another key", "it has another key\n");
}

Test(registry_key, a_client_without_one_gets_an_error_at_once)
{
	int64_t start = clock_now_ns();

	expect_refusal(&insecure, -EACCES, "DFI_REGISTRY_KEY",
	    "neither key nor certificate");
	/* Not when its wait limit, a minute, is over. */
	cr_assert_lt(clock_now_ns() - start, INT64_C(20) * NS_PER_S);
}

Test(registry_key, a_client_with_certificates_is_refused)
{
	struct registry_security certs = { .key = NULL };

	make_ca("ca");
	certs.ca = file_named("ca.pem");
	expect_refusal(
	    &certs, -EACCES, "set DFI_REGISTRY_KEY", "it has no key");
}

Test(registry_key, of_a_limit_of_connections_the_client_learns)
{
	struct registry_client *second, *third;

	cr_assert_eq(dfi__client_open(loop, dfi_registry_address(registry),
			 &key, 0, soon(), &second),
	    0);
	cr_assert_eq(dfi__client_open(loop, dfi_registry_address(registry),
			 &key, 0, soon(), &third),
	    0);
	cr_assert_eq(open_with(&key), -ENOSPC, "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), "3 connections"));
	dfi__client_close(second);
	dfi__client_close(third);
}

/* A TLS client of OpenSSL's; the text of what ends its handshake. */
static int shake_hands(int version)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	struct raw raw;
	SSL *ssl;
	int ret;

	raw_connect(&raw, dfi_registry_address(registry));
	SSL_CTX_set_max_proto_version(ctx, version);
	ssl = SSL_new(ctx);
	SSL_set_fd(ssl, raw.fd);
	ret = SSL_connect(ssl);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	raw_close(&raw);
	return ret;
}

Test(registry_key, an_older_tls_is_refused)
{
	int i;

	for (i = 0; i < 3; i++)
		cr_assert_leq(shake_hands(TLS1_2_VERSION), 0);
	lines_wait("does not speak TLS 1.3");
	cr_assert_eq(lines_count("\n"), 1);
}

Test(registry_key, a_tls_client_without_one_is_refused)
{
	int i;

	for (i = 0; i < 3; i++)
		cr_assert_leq(shake_hands(TLS1_3_VERSION), 0);
	lines_wait("it has no key");
	cr_assert_eq(lines_count("\n"), 1);
}

/* Read until the registry closes. */
static void drain(struct raw *raw)
{
	char bytes[4096];
	ssize_t n;

	while ((n = recv(raw->fd, bytes, sizeof(bytes), 0)) > 0)
		;
	cr_assert(n == 0 || errno == ECONNRESET, "it was not closed in time");
}

static void send_and_drain(const void *bytes, size_t size)
{
	struct raw raw;

	raw_connect(&raw, dfi_registry_address(registry));
	raw_send_bytes(&raw, bytes, size);
	drain(&raw);
	raw_close(&raw);
}

Test(registry_key, garbage_is_logged_once_for_each_kind)
{
	static const char *const words[] = { "GET / HTTP/1.1\r\n\r\n", "\r\n",
		"\xff\xff\xff\xff" };
	unsigned seed = 2, n_late;
	char bytes[4096];
	size_t i, j;

	for (i = 0; i < 60; i++)
		send_and_drain(words[i % 3], strlen(words[i % 3]));
	cr_assert_eq(lines_count("not TLS"), 1);
	for (i = 0; i < 20; i++) {
		for (j = 0; j < sizeof(bytes); j++) {
			seed = seed * 1664525 + 1013904223;
			bytes[j] = (char)(seed >> 16);
		}
		/* A record of a handshake, of 3 bytes and of 4 KiB. */
		memcpy(bytes,
		    i % 2 ? "\x16\x03\x01\x00\x03" : "\x16\x03\x01\x0f\xfb", 5);
		send_and_drain(bytes, sizeof(bytes));
	}
	cr_assert_eq(lines_count("not of this handshake"), 1);
	/* One may look as if more were to come. */
	n_late = lines_count("has not finished");
	cr_assert_leq(n_late, 1);
	cr_assert_eq(lines_count("\n"), 2 + n_late);
}

/* The registry's sockets: how many, and how many an exec() would hand on. */
static int count_sockets(int *handed_on)
{
	struct address address, wanted;
	int fd, n = 0;

	cr_assert_eq(
	    dfi__address_parse(dfi_registry_address(registry), &wanted), 0);
	*handed_on = 0;
	for (fd = 0; fd < 256; fd++) {
		address.size = sizeof(address.socket);
		if (getsockname(fd, &address.socket.any, &address.size) ||
		    address.size != wanted.size ||
		    memcmp(&address.socket, &wanted.socket, wanted.size) != 0)
			continue;
		n++;
		*handed_on += !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	return n;
}

Test(registry_key, a_refused_client_is_not_handed_on_to_other_programs,
    .timeout = 300)
{
	struct raw raw;
	int handed_on;

	raw_connect(&raw, dfi_registry_address(registry));
	/* Free, so that a copy of a descriptor without care would get it. */
	cr_assert_eq(close(STDIN_FILENO), 0);
	raw_send_bytes(&raw, "\x16\x03\x01\x00\x08nonsense", 13);
	/* It gets the reason, and may still send something. */
	drain(&raw);
	/*
	 * To listen, the member's, and that; the one that this is a copy of may
	 * be closed somewhat later. The test's time is the deadline.
	 */
	while (count_sockets(&handed_on) != 3)
		usleep(1000);
	cr_assert_eq(handed_on, 0);
	cr_assert_eq(fcntl(STDIN_FILENO, F_GETFD), -1);
	raw_close(&raw);
}

/* Between a client and the registry: keeps what the client says. */
struct tap {
	char address[ADDRESS_TEXT_SIZE];
	int fd;
	pthread_t thread;
	char said[65536];
	size_t size;
};

static bool pass(int from, int to, struct tap *tap)
{
	char bytes[4096];
	ssize_t n = recv(from, bytes, sizeof(bytes), 0);

	if (n <= 0 || send(to, bytes, (size_t)n, MSG_NOSIGNAL) != n)
		return false;
	if (tap && tap->size + (size_t)n <= sizeof(tap->said)) {
		memcpy(tap->said + tap->size, bytes, (size_t)n);
		tap->size += (size_t)n;
	}
	return true;
}

static void *listen_in(void *arg)
{
	struct tap *tap = arg;
	struct raw raw;
	struct pollfd fds[2] = { { .events = POLLIN }, { .events = POLLIN } };

	fds[0].fd = accept(tap->fd, NULL, NULL);
	raw_connect(&raw, dfi_registry_address(registry));
	fds[1].fd = raw.fd;
	do
		poll(fds, 2, -1);
	while ((!fds[0].revents || pass(fds[0].fd, fds[1].fd, tap)) &&
	    (!fds[1].revents || pass(fds[1].fd, fds[0].fd, NULL)));
	close(fds[0].fd);
	raw_close(&raw);
	return NULL;
}

/* A listening socket that nobody serves, and its address. */
static int listen_tcp(char text[ADDRESS_TEXT_SIZE])
{
	struct address address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(dfi__address_parse("tcp:127.0.0.1:0", &address), 0);
	cr_assert_eq(bind(fd, &address.socket.any, address.size), 0);
	cr_assert_eq(listen(fd, 8), 0);
	getsockname(fd, &address.socket.any, &address.size);
	dfi__address_tcp_text(&address, text);
	return fd;
}

Test(registry_key, replayed_bytes_do_nothing)
{
	struct tap tap = { .size = 0 };
	struct registry_client *client;
	struct registry_value value;
	uint64_t revision;
	size_t i;

	tap.fd = listen_tcp(tap.address);
	pthread_create(&tap.thread, NULL, listen_in, &tap);
	cr_assert_eq(
	    dfi__client_open(loop, tap.address, &key, 0, soon(), &client), 0);
	cr_assert_eq(
	    dfi__client_put(client, "key", "a", 1, 0, soon(), &revision), 0);
	dfi__client_close(client);
	pthread_join(tap.thread, NULL);
	close(tap.fd);
	cr_assert_gt(tap.size, 300);
	cr_assert_lt(tap.size, sizeof(tap.said));
	lines_collect();
	for (i = 0; i < 3; i++)
		send_and_drain(tap.said, tap.size);
	lines_wait("not of this handshake");
	cr_assert_eq(lines_count("\n"), 1);
	cr_assert_eq(dfi__client_get(member, "key", soon(), &value), 0);
	cr_assert_eq(value.revision, revision);
	dfi__registry_value_free(&value);
}

/* Some say nothing, some a part of a handshake, and none goes on. */
Test(registry_key, half_open_connections_cost_no_member_its_place)
{
	static struct raw raws[700];
	size_t i;

	for (i = 0; i < 700; i++) {
		raw_connect(&raws[i], dfi_registry_address(registry));
		if (i % 2)
			raw_send_bytes(&raws[i], "\x16\x03\x01\x02\x00\x01", 6);
		if (i % 100 == 99)
			cr_assert_eq(open_with(&key), 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(lines_count("others are at it"), 1);
	lines_wait("has not finished the TLS handshake within 5 s");
	for (i = 0; i < 700; i++) {
		drain(&raws[i]);
		raw_close(&raws[i]);
	}
	cr_assert_eq(lines_count("\n"), 2);
}

/* Stop it, and start another one for teardown(). */
static void stop_and_start(void)
{
	dfi_registry_stop(registry);
	dfi__client_close(member);
	stop_loop(loop);
	unlink(key.key);
	setup_key();
}

/* Or its clients would go on waiting for it when the registry has ended. */
Test(registry_key, a_forked_child_keeps_no_handshake_open)
{
	struct raw raws[2];
	int hold[2], i;
	char byte;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		raw_connect(&raws[i], dfi_registry_address(registry));
		if (i)
			raw_send_bytes(&raws[i], "\x16\x03\x01\x02\x00\x01", 6);
	}
	/* Earlier connections have been accepted as well. */
	cr_assert_eq(open_with(&key), 0, "%s", dfi_errmsg());
	cr_assert_eq(pipe(hold), 0);
	pid = fork();
	if (!pid) {
		close(hold[1]);
		_exit(read(hold[0], &byte, 1) != 0);
	}
	stop_and_start();
	for (i = 0; i < 2; i++) {
		drain(&raws[i]);
		raw_close(&raws[i]);
	}
	close(hold[1]);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(registry_key, a_registry_may_stop_while_handshakes_are_under_way)
{
	struct raw raws[8];
	size_t i;

	for (i = 0; i < 8; i++) {
		raw_connect(&raws[i], dfi_registry_address(registry));
		if (i % 2)
			raw_send_bytes(&raws[i], "\x16\x03\x01\x02\x00\x01", 6);
		else if (i % 4)
			raw_send_bytes(&raws[i], "GET", 3);
	}
	assert_served();
	stop_and_start();
	for (i = 0; i < 8; i++) {
		drain(&raws[i]);
		raw_close(&raws[i]);
	}
}

Test(registry_key, a_registry_that_never_shakes_hands_is_etimedout)
{
	struct registry_client *client;
	char address[ADDRESS_TEXT_SIZE];
	int fd = listen_tcp(address);

	cr_assert_eq(dfi__client_open(
			 loop, address, &key, 0, deadline_in_ms(100), &client),
	    -ETIMEDOUT);
	close(fd);
}

Test(registry_key, is_for_tcp_and_not_needed_at_a_unix_socket)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct registry_security missing = { .key = "/nonexistent/key" };
	struct dfi_registry *local;

	cr_assert_eq(dfi_registry_start(NULL, &local), 0);
	cr_assert_eq(open_at(dfi_registry_address(local), &missing), 0, "%s",
	    dfi_errmsg());
	dfi_registry_stop(local);
	attr.key = key.key;
	cr_assert_eq(dfi_registry_start(&attr, &local), -EINVAL);
	cr_assert_not_null(strstr(dfi_errmsg(), "Unix socket"));
	attr.listen = "unix:@dfi-test-keyed";
	cr_assert_eq(dfi_registry_start(&attr, &local), -EINVAL);
	cr_assert_not_null(strstr(dfi_errmsg(), "Unix socket"));
}

Test(registry_key, does_not_fit_a_registry_without_one)
{
	struct dfi_registry *plain = start_at("tcp:127.0.0.1:0");

	cr_assert_eq(open_at(dfi_registry_address(plain), &key), -EPROTO);
	cr_assert_not_null(
	    strstr(dfi_errmsg(), "does not speak TLS"), "%s", dfi_errmsg());
	lines_wait("it speaks TLS");
	cr_assert_eq(lines_count("it speaks TLS"), 1);
	cr_assert_eq(open_at(dfi_registry_address(plain), &insecure), 0);
	dfi_registry_stop(plain);
}

Test(registry_key, makes_a_routable_address_fit_to_be_served)
{
	const char *ip = routable_address();
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *open;
	char text[96];

	if (!ip)
		cr_skip_test("this machine has no address but loopback");
	snprintf(text, sizeof(text), "tcp:%s:0", ip);
	attr.listen = text;
	attr.key = key.key;
	cr_assert_eq(dfi_registry_start(&attr, &open), 0, "%s", dfi_errmsg());
	cr_assert_eq(
	    open_at(dfi_registry_address(open), &key), 0, "%s", dfi_errmsg());
	cr_assert_eq(open_at(dfi_registry_address(open), NULL), -EPERM);
	cr_assert_not_null(strstr(dfi_errmsg(), "DFI_REGISTRY_KEY"));
	dfi_registry_stop(open);
	cr_assert_eq(lines_count("INSECURE"), 0);
}

/* Certificates */

static struct dfi_registry_attr certified = DFI_REGISTRY_ATTR_INIT;
static struct registry_security good;

static struct registry_security certificate(const char *name)
{
	struct registry_security security = { .ca = file_named("ca.pem") };
	static char files[8][32];
	static size_t n;

	snprintf(files[n], sizeof(files[n]), "%s.pem", name);
	security.cert = file_named(files[n++]);
	snprintf(files[n], sizeof(files[n]), "%s.key", name);
	security.private_key = file_named(files[n++]);
	return security;
}

static void start_certified(const char *name)
{
	struct registry_security files = certificate(name);

	certified.listen = "tcp:127.0.0.1:0";
	certified.cert = files.cert;
	certified.private_key = files.private_key;
	cr_assert_eq(
	    dfi_registry_start(&certified, &registry), 0, "%s", dfi_errmsg());
}

static void setup_certificates(void)
{
	lines_collect();
	make_ca("ca");
	make_ca("other");
	make_cert("server", "ca", "IP:127.0.0.1", "serverAuth", CERT_VALID);
	make_cert("client", "ca", NULL, "clientAuth", CERT_VALID);
	good = certificate("client");
	certified.ca = good.ca;
	start_certified("server");
	loop = start_loop();
	cr_assert_eq(dfi__client_open(loop, dfi_registry_address(registry),
			 &good, 0, soon(), &member),
	    0, "%s", dfi_errmsg());
}

TestSuite(registry_certificates, .init = setup_certificates, .fini = teardown);

Test(registry_certificates, prove_both_sides)
{
	cr_assert_eq(open_with(&good), 0, "%s", dfi_errmsg());
	cr_assert_eq(lines_count("\n"), 0);
}

Test(registry_certificates, a_client_without_one_is_refused)
{
	struct registry_security none = { .ca = good.ca };

	expect_refusal(
	    &none, -EACCES, "DFI_REGISTRY_CERT", "it shows no certificate");
}

Test(registry_certificates, an_expired_client_is_refused)
{
	struct registry_security expired;

	make_cert("old", "ca", NULL, NULL, CERT_EXPIRED);
	expired = certificate("old");
	expect_refusal(&expired, -EACCES, "certificate has expired",
	    "its certificate has expired");
}

Test(registry_certificates, a_client_of_another_authority_is_refused)
{
	struct registry_security foreign;

	make_cert("foreign", "other", NULL, NULL, CERT_VALID);
	foreign = certificate("foreign");
	expect_refusal(
	    &foreign, -EACCES, "does not know who signed", "authority signed");
}

Test(registry_certificates, a_certificate_for_servers_makes_no_client)
{
	struct registry_security server = certificate("server");

	expect_refusal(&server, -EACCES, "certificate", "authority signed");
}

Test(registry_certificates, a_client_with_a_key_is_refused)
{
	struct registry_security keyed = { .key = make_key("key") };

	expect_refusal(&keyed, -EACCES, "DFI_REGISTRY_CA",
	    "does not know who signed the registry's");
}

Test(registry_certificates, a_client_without_anything_is_refused)
{
	expect_refusal(&insecure, -EACCES, "DFI_REGISTRY_CA",
	    "neither key nor certificate");
}

/* The member of the first registry continues meanwhile. */
static void expect_unfit_server(const char *name, const char *text)
{
	struct dfi_registry *first = registry;
	int i;

	start_certified(name);
	for (i = 0; i < 3; i++) {
		cr_assert_eq(open_with(&good), -EACCES, "%s", dfi_errmsg());
		cr_assert_not_null(
		    strstr(dfi_errmsg(), text), "%s", dfi_errmsg());
	}
	lines_wait("refuses the client");
	dfi_registry_stop(registry);
	cr_assert_eq(lines_count("refuses the client"), 1);
	registry = first;
}

Test(registry_certificates, an_expired_registry_is_refused)
{
	make_cert("old", "ca", "IP:127.0.0.1", NULL, CERT_EXPIRED);
	expect_unfit_server("old", "its certificate has expired");
}

Test(registry_certificates, a_registry_of_the_future_is_refused)
{
	make_cert("new", "ca", "IP:127.0.0.1", NULL, CERT_FUTURE);
	expect_unfit_server("new", "not valid yet");
}

Test(registry_certificates, a_registry_of_another_authority_is_refused)
{
	make_cert("foreign", "other", "IP:127.0.0.1", NULL, CERT_VALID);
	expect_unfit_server("foreign", "authority signed");
}

Test(registry_certificates, a_registry_of_another_address_is_refused)
{
	make_cert(
	    "elsewhere", "ca", "IP:127.0.0.2,DNS:127.0.0.1", NULL, CERT_VALID);
	expect_unfit_server("elsewhere", "not for this address");
}

Test(registry_certificates, a_client_makes_no_registry)
{
	expect_unfit_server("client", "authority signed");
}

Test(registry_certificates, of_clients_may_be_left_out_if_that_is_said)
{
	struct dfi_registry_attr attr = certified;
	struct registry_security trusting = { .ca = good.ca };
	struct dfi_registry *one_sided;

	attr.ca = NULL;
	cr_assert_eq(dfi_registry_start(&attr, &one_sided), -EPERM);
	attr.flags = DFI_REGISTRY_INSECURE;
	cr_assert_eq(dfi_registry_start(&attr, &one_sided), 0);
	attr.flags = 0;
	cr_assert_eq(open_at(dfi_registry_address(one_sided), &trusting), 0,
	    "%s", dfi_errmsg());
	cr_assert_eq(open_at(dfi_registry_address(one_sided), &good), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(
	    open_at(dfi_registry_address(one_sided), &insecure), -EACCES);
	dfi_registry_stop(one_sided);
	attr.listen = "tcp:0.0.0.0:0";
	cr_assert_eq(dfi_registry_start(&attr, &one_sided), -EPERM);
	cr_assert_not_null(strstr(dfi_errmsg(), "authority"));
}

/* Invalid combinations, and unusable files. */

static int start_error(const struct dfi_registry_attr *attr)
{
	struct dfi_registry *started;
	int ret = dfi_registry_start(attr, &started);

	if (ret == 0)
		dfi_registry_stop(started);
	return ret;
}

Test(registry_certificates, and_keys_are_alternatives)
{
	struct dfi_registry_attr attr = certified;
	struct registry_security both = good, half = good;

	attr.key = both.key = make_key("key");
	cr_assert_eq(start_error(&attr), -EINVAL);
	cr_assert_not_null(strstr(dfi_errmsg(), "either"));
	cr_assert_eq(open_with(&both), -EINVAL);
	attr = certified;
	attr.private_key = NULL;
	cr_assert_eq(start_error(&attr), -EINVAL);
	attr = certified;
	attr.cert = NULL;
	cr_assert_eq(start_error(&attr), -EINVAL);
	attr.private_key = NULL;
	cr_assert_eq(start_error(&attr), -EINVAL);
	half.private_key = NULL;
	cr_assert_eq(open_with(&half), -EINVAL);
	half = good;
	half.ca = NULL;
	cr_assert_eq(open_with(&half), -EINVAL);
	cr_assert_not_null(strstr(dfi_errmsg(), "DFI_REGISTRY_CA"));
}

static void refuse_file(
    const struct dfi_registry_attr *attr, const char *path, const char *why)
{
	cr_assert_eq(start_error(attr), -EINVAL, "%s", path);
	cr_assert_not_null(strstr(dfi_errmsg(), path), "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), why), "%s", dfi_errmsg());
}

Test(registry_certificates, that_are_other_files_are_named)
{
	static const char der[] = { 0x30, (char)0x82, 1, 2, 3 };
	const char *empty = write_file("empty", "", 0, 0600);
	const char *binary = write_file("der", der, sizeof(der), 0600);
	struct dfi_registry_attr attr = certified;

	attr.cert = empty;
	refuse_file(&attr, empty, "it is empty");
	attr.cert = binary;
	refuse_file(&attr, binary, "it is in DER");
	attr.cert = certified.private_key;
	refuse_file(&attr, attr.cert, "it is a private key, and no cert");
	attr = certified;
	attr.private_key = empty;
	refuse_file(&attr, empty, "it is empty");
	attr.private_key = binary;
	refuse_file(&attr, binary, "it is in DER");
	attr.private_key = certified.cert;
	cr_assert_eq(chmod(attr.private_key, 0600), 0);
	refuse_file(&attr, attr.private_key, "it is a certificate, and no");
	attr = certified;
	attr.ca = empty;
	refuse_file(&attr, empty, "it is empty");
	attr.ca = certified.private_key;
	refuse_file(&attr, attr.ca, "it is a private key, and no cert");
}

/* One without an end would be read for hours. */
Test(registry_certificates, that_are_large_files_are_refused_at_once)
{
	const char *large = write_file("large", "", 0, 0600);
	struct dfi_registry_attr attr = certified;

	cr_assert_eq(truncate(large, (off_t)1 << 40), 0);
	attr.cert = large;
	refuse_file(&attr, large, "at most 16777216");
	attr = certified;
	attr.private_key = large;
	refuse_file(&attr, large, "at most 16777216");
	attr = certified;
	attr.ca = large;
	refuse_file(&attr, large, "at most 16777216");
}

Test(registry_certificates, are_files_whose_faults_are_named)
{
	/* An encrypted key: the passphrase is missing. */
	static const char encrypted[] =
	    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
	    "MIGjMF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBB1cTqTcGsLSbUhJlJT\n"
	    "NsGHAgIIADAMBggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBKgQQ2kVmW0hTT0RhS3hW\n"
	    "-----END ENCRYPTED PRIVATE KEY-----\n";
	const char *missing = file_named("missing"), *garbage, *locked;
	const char *fifo = file_named("fifo");
	struct dfi_registry_attr attr = certified;

	garbage = write_file("garbage", "nonsense\n", 9, 0600);
	locked = write_file("locked", encrypted, sizeof(encrypted) - 1, 0600);
	attr.cert = missing;
	refuse_file(&attr, missing, "No such file");
	attr.cert = garbage;
	refuse_file(&attr, garbage, "no PEM file");
	attr.cert = good.cert;
	refuse_file(&attr, attr.private_key, "not the certificate's");
	attr = certified;
	attr.private_key = missing;
	refuse_file(&attr, missing, "No such file");
	attr.private_key = garbage;
	refuse_file(&attr, garbage, "without a passphrase");
	attr.private_key = locked;
	refuse_file(&attr, locked, "it needs a passphrase");
	attr = certified;
	attr.ca = missing;
	refuse_file(&attr, missing, "No such file");
	attr.ca = garbage;
	refuse_file(&attr, garbage, "no PEM file");
	/* It has no writer to wait for. */
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	attr.ca = fifo;
	refuse_file(&attr, fifo, "no regular file");
	attr = certified;
	attr.cert = fifo;
	refuse_file(&attr, fifo, "no regular file");
	attr = certified;
	attr.private_key = fifo;
	refuse_file(&attr, fifo, "no regular file");
	attr = certified;
	cr_assert_eq(chmod(attr.private_key, 0644), 0);
	refuse_file(&attr, attr.private_key, "others than its owner");
	/* As Debian's group ssl-cert has it. */
	cr_assert_eq(chmod(attr.private_key, 0640), 0);
	cr_assert_eq(start_error(&attr), geteuid() == 0 ? 0 : -EINVAL);
}

/* Without any of it */

Test(registry_insecure, is_said_at_every_start_and_by_both_sides)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	const char *ip = routable_address();
	char text[96];
	unsigned i;

	if (!ip)
		cr_skip_test("this machine has no address but loopback");
	lines_collect();
	snprintf(text, sizeof(text), "tcp:%s:0", ip);
	attr.listen = text;
	cr_assert_eq(start_error(&attr), -EPERM);
	cr_assert_not_null(strstr(dfi_errmsg(), "keygen"));
	attr.flags = DFI_REGISTRY_INSECURE;
	loop = start_loop();
	for (i = 1; i < 4; i++) {
		cr_assert_eq(dfi_registry_start(&attr, &registry), 0, "%s",
		    dfi_errmsg());
		cr_assert_eq(lines_count("INSECURE"), i);
		cr_assert_eq(open_with(NULL), -EPERM);
		cr_assert_eq(open_with(&insecure), 0, "%s", dfi_errmsg());
		dfi_registry_stop(registry);
	}
	stop_loop(loop);
}

Test(registry_insecure, and_secure_at_once_makes_no_sense)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;

	attr.listen = "tcp:127.0.0.1:0";
	attr.flags = DFI_REGISTRY_INSECURE;
	attr.key = make_key("key");
	cr_assert_eq(start_error(&attr), -EINVAL);
	cr_assert_not_null(strstr(dfi_errmsg(), "insecure"));
	attr.key = NULL;
	lines_collect();
	cr_assert_eq(start_error(&attr), 0);
	cr_assert_eq(lines_count("INSECURE"), 1);
}
