/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd as the registry: whom it is refused to, and what happens when members
 * end or hang, when a lease ends, and when etcd forgets old revisions. What it
 * has in common with other registries is in test_registry_each.c.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dfi/error.h>

#include "etcd_help.h"
#include "registry/etcd/endpoints.h"
#include "registry/etcd/state.h"
#include "registry_help.h"
#include "tls_help.h"

static struct etcd etcd;
static struct loop *loop, *other_loop;
static struct registry_client *client, *other;
static struct ear ear;

enum {
	TTL_MS = 3000, /* whole seconds, and no less than etcd's least one */
	MANY_KEYS = 300,
};

static struct registry_client *open_for(struct loop *at, uint32_t ttl_ms)
{
	struct registry_client *new = NULL;

	cr_assert_eq(
	    dfi__client_open(at, etcd.address, NULL, ttl_ms, soon(), &new), 0,
	    "%s", dfi_errmsg());
	return new;
}

static void begin(unsigned n, uint32_t ttl_ms)
{
	etcd_start(&etcd, n);
	ear_init(&ear);
	loop = start_loop();
	other_loop = start_loop();
	client = open_for(loop, ttl_ms);
	other = open_for(other_loop, 60000);
}

static void end(void)
{
	dfi__client_close(client);
	dfi__client_close(other);
	stop_loop(loop);
	stop_loop(other_loop);
	etcd_stop(&etcd);
}

static int put_leased(
    struct registry_client *by, const char *key, const char *value)
{
	return dfi__client_put(
	    by, key, value, strlen(value), CLIENT_LEASED, soon(), NULL);
}

static int put(struct registry_client *by, const char *key, const char *value)
{
	return dfi__client_put(by, key, value, strlen(value), 0, soon(), NULL);
}

static bool has(struct registry_client *by, const char *key, const char *text)
{
	struct registry_value value;
	bool same;

	if (dfi__client_get(by, key, soon(), &value))
		return false;
	same = !strcmp(value.data, text);
	dfi__registry_value_free(&value);
	return same;
}

static size_t count(struct registry_client *by, const char *prefix)
{
	struct registry_value *values;
	size_t n;

	cr_assert_eq(dfi__client_list(by, prefix, soon(), &values, &n), 0, "%s",
	    dfi_errmsg());
	dfi__registry_values_free(values, n);
	return n;
}

static void await_count(
    struct registry_client *by, const char *prefix, size_t n)
{
	while (count(by, prefix) != n)
		usleep(10000);
}

/* ---- Addresses and secrecy ------------------------------------------------
 */

static const struct {
	const char *address, *text;
} bad_addresses[] = {
	{ "etcd:", "https:// is missing" },
	{ "etcd:127.0.0.1:2379", "https:// is missing" },
	{ "etcd:http://127.0.0.1", "a port is missing" },
	{ "etcd:http://127.0.0.1:", "a port is not a number" },
	{ "etcd:http://127.0.0.1:70000", "a port is not a number" },
	{ "etcd:http://127.0.0.1:23x", "a port is not a number" },
	{ "etcd:http://:2379", "a host is neither" },
	{ "etcd:http://a b:2379", "a host is neither" },
	{ "etcd:http://user@127.0.0.1:2379", "a host is neither" },
	{ "etcd:http://::1:2379", "a host is neither" },
	{ "etcd:http://127.0.0.1:1,https://127.0.0.1:2", "http and https" },
	{ "etcd:http://127.0.0.1:1,", "a port is missing" },
};

Test(etcd_address, that_is_none_is_refused)
{
	struct etcd_endpoints endpoints;
	size_t i;

	for (i = 0; i < sizeof(bad_addresses) / sizeof(bad_addresses[0]); i++) {
		cr_assert_eq(dfi__etcd_endpoints_parse(
				 bad_addresses[i].address, &endpoints),
		    -EINVAL, "%s", bad_addresses[i].address);
		cr_assert(strstr(dfi_errmsg(), bad_addresses[i].text), "%s: %s",
		    bad_addresses[i].address, dfi_errmsg());
	}
}

Test(etcd_address, names_endpoints_and_a_prefix)
{
	struct etcd_endpoints endpoints;

	cr_assert_eq(
	    dfi__etcd_endpoints_parse(
		"etcd:https://a.example:2379,b:1,https://[fd00::1]:2/team/x/",
		&endpoints),
	    0, "%s", dfi_errmsg());
	cr_assert_eq(endpoints.n, 3);
	cr_assert_str_eq(endpoints.endpoint[0], "https://a.example:2379");
	cr_assert_str_eq(endpoints.endpoint[1], "https://b:1");
	cr_assert_str_eq(endpoints.endpoint[2], "https://[fd00::1]:2");
	cr_assert_str_eq(endpoints.prefix, "team/x");
	cr_assert(endpoints.tls && endpoints.routable);
	dfi__etcd_endpoints_free(&endpoints);
	cr_assert_eq(
	    dfi__etcd_endpoints_parse(
		"etcd:http://localhost:1,127.9.9.9:2,[::1]:3", &endpoints),
	    0, "%s", dfi_errmsg());
	cr_assert_str_eq(endpoints.prefix, "dfi");
	cr_assert(!endpoints.tls && !endpoints.routable);
	dfi__etcd_endpoints_free(&endpoints);
}

static int open_within(
    uint32_t ms, const char *address, const struct registry_security *security)
{
	struct registry_client *new = NULL;
	struct loop *at = start_loop();
	int ret = dfi__client_open(
	    at, address, security, 0, deadline_in_ms(ms), &new);

	if (!ret)
		dfi__client_close(new);
	stop_loop(at);
	return ret;
}

static int try_open(
    const char *address, const struct registry_security *security)
{
	return open_within(20000, address, security);
}

static void expect_refusal(const char *address,
    const struct registry_security *security, int err, const char *text)
{
	cr_assert_eq(try_open(address, security), err, "%s", dfi_errmsg());
	cr_assert(strstr(dfi_errmsg(), text), "%s", dfi_errmsg());
}

/* None of these sends anything: nothing listens there. */
Test(etcd_secrecy, needs_tls_and_a_user_off_loopback)
{
	const char *password = write_file("password", "secret\n", 7, 0600);
	struct registry_security user = {
		.etcd_user = "dfi",
		.etcd_password = password,
	};
	struct registry_security open = user;
	struct registry_security insecure_too = { .insecure = true };

	expect_refusal("etcd:http://192.0.2.1:1", &user, -EPERM, "https://");
	expect_refusal(
	    "etcd:https://192.0.2.1:1", NULL, -EPERM, "DFI_ETCD_USER");
	expect_refusal("etcd:https://127.0.0.1:1,192.0.2.1:1", &insecure_too,
	    -EPERM, "DFI_ETCD_USER");
	expect_refusal(
	    "etcd:https://a.example:1", NULL, -EPERM, "etcdctl auth enable");
	open.etcd_password = write_file("open", "secret\n", 7, 0644);
	expect_refusal("etcd:https://127.0.0.1:1", &open, -EINVAL, "open");
	open.etcd_password = write_file("empty", "\n", 1, 0600);
	expect_refusal("etcd:https://127.0.0.1:1", &open, -EINVAL,
	    "no password in its first line");
	open.etcd_password = NULL;
	expect_refusal("etcd:https://127.0.0.1:1", &open, -EINVAL,
	    "set both of DFI_ETCD_USER");
	user.key = password;
	expect_refusal(
	    "etcd:https://127.0.0.1:1", &user, -EINVAL, "for a dfi-registry");
	user.key = NULL;
	user.ca = password;
	expect_refusal("etcd:http://127.0.0.1:1", &user, -EINVAL, "http://");
}

Test(etcd, that_does_not_run_is_econnrefused)
{
	expect_refusal("etcd:http://127.0.0.1:1,127.0.0.1:2", NULL,
	    -ECONNREFUSED, "127.0.0.1");
}

Test(etcd, a_server_of_something_else_is_eproto)
{
	struct dfi_registry *registry = start_at("tcp:127.0.0.1:0");
	char address[128];

	snprintf(address, sizeof(address), "etcd:http://%s",
	    dfi_registry_address(registry) + strlen("tcp:"));
	cr_assert_lt(try_open(address, NULL), 0);
	dfi_registry_stop(registry);
}

/* ---- Members that end -----------------------------------------------------
 */

Test(etcd, the_end_of_any_member_is_not_noticed)
{
	struct registry_watch *watch;
	char expected[1024] = "", key[16];
	size_t used = 0;
	unsigned i, k, n = 0;

	begin(3, 30000);
	cr_assert_eq(
	    dfi__client_watch(other, "k", ear_hear, &ear, soon(), &watch), 0);
	for (i = 0; i < 3; i++) {
		etcd_kill(&etcd, i);
		for (k = 0; k < 10; k++) {
			snprintf(key, sizeof(key), "k%02u", n++);
			/* Nobody else has made it, however often it is sent. */
			cr_assert_eq(dfi__client_create(client, key, "1", 1,
					 CLIENT_LEASED, soon(), NULL),
			    0, "%s", dfi_errmsg());
			used += (size_t)snprintf(expected + used,
			    sizeof(expected) - used, "+%s=1 ", key);
		}
		etcd_restart(&etcd, i);
		ear_expect(&ear, expected);
		cr_assert_eq(count(other, "k"), n);
	}
	dfi__client_unwatch(watch);
	end();
}

static void stop_members(unsigned first, int number)
{
	for (; first < etcd.n; first++)
		etcd_signal(&etcd, first, number);
}

/* They still take connections, and answer nothing. */
Test(etcd, members_that_hang_cut_the_client_off)
{
	struct registry_value value;
	struct registry_watch *watch;
	int64_t start;

	begin(1, TTL_MS);
	cr_assert_eq(put_leased(client, "a", "1"), 0);
	cr_assert_eq(
	    dfi__client_watch(client, "a", ear_hear, &ear, soon(), &watch), 0);
	stop_members(0, SIGSTOP);
	start = clock_now_ns();
	cr_assert_eq(dfi__client_get(client, "a", deadline_in_ms(500), &value),
	    -ETIMEDOUT);
	cr_assert_lt(clock_now_ns() - start, 20 * (int64_t)NS_PER_S);
	ear_expect(&ear, "+a=1 LOST CUT ");
	cr_assert_eq(dfi__client_get(client, "a", soon(), &value), -ENOTCONN);
	stop_members(0, SIGCONT);
	/* As etcd ran on no one's time, the lease may have lived or ended. */
	while (!strstr(ear.log, "BACK"))
		usleep(10000);
	cr_assert(has(client, "a", "1"));
	end();
}

/* Others live, if slowly, and may be electing a leader. */
Test(etcd, a_member_that_has_ended_fails_no_open_while_others_live)
{
	begin(3, 60000);
	etcd_kill(&etcd, 0);
	stop_members(1, SIGSTOP);
	cr_assert_eq(open_within(10000, etcd.address, NULL), -ETIMEDOUT, "%s",
	    dfi_errmsg());
	stop_members(1, SIGCONT);
	etcd_restart(&etcd, 0);
	end();
}

/* It is refused, so the machine is there: nobody takes this client for dead. */
Test(etcd, that_ends_and_comes_back_in_time_keeps_leases)
{
	struct registry_watch *watch;

	begin(1, 2 * TTL_MS);
	cr_assert_eq(put_leased(client, "a", "1"), 0);
	cr_assert_eq(
	    dfi__client_watch(client, "a", ear_hear, &ear, soon(), &watch), 0);
	etcd_kill(&etcd, 0);
	ear_expect(&ear, "+a=1 LOST ");
	etcd_restart(&etcd, 0);
	ear_expect(&ear, "+a=1 LOST BACK ");
	cr_assert_eq(put_leased(client, "a", "2"), 0, "%s", dfi_errmsg());
	ear_expect(&ear, "+a=1 LOST BACK +a=2 ");
	end();
}

static bool is_over(void *arg)
{
	return ++*(int *)arg >= 2;
}

Test(etcd, a_put_ends_when_its_caller_does_not_want_it_any_more)
{
	int n = 0;

	begin(1, 60000);
	stop_members(0, SIGSTOP);
	cr_assert_eq(dfi__client_put_unless(client, "a", "1", 1, CLIENT_LEASED,
			 is_over, &n, soon()),
	    -ETIMEDOUT);
	stop_members(0, SIGCONT);
	end();
}

/* ---- Late requests --------------------------------------------------------
 */

Test(etcd, a_key_that_was_made_too_late_is_deleted)
{
	struct registry_value value;
	struct registry_watch *watch;

	begin(1, 60000);
	cr_assert_eq(
	    dfi__client_watch(other, "k", ear_hear, &ear, soon(), &watch), 0);
	stop_members(0, SIGSTOP);
	cr_assert_eq(dfi__client_create(client, "k", "1", 1, CLIENT_LEASED,
			 deadline_in_ms(200), NULL),
	    -ETIMEDOUT);
	stop_members(0, SIGCONT);
	/* It comes behind what the client has done about the key. */
	cr_assert_eq(dfi__client_get(client, "k", soon(), &value), -ENOENT);
	cr_assert_eq(put(other, "k", "2"), 0);
	cr_assert_eq(put(other, "k3", ""), 0);
	while (!strstr(ear.log, "+k3= "))
		usleep(1000);
	cr_assert(has(client, "k", "2"));
	end();
}

/*
 * The member that hangs has the first put in its socket, and carries it out
 * when it goes on: after the second one.
 */
Test(etcd, a_late_put_does_not_undo_a_later_one)
{
	struct etcd_client *state;
	unsigned i, n = 0, at;
	char value[16];
	int ret;

	begin(3, 60000);
	state = etcd_of(client);
	/* The client may have gone on to another member meanwhile. */
	for (i = 0; n < 6 && i < 60; i++) {
		at = state->endpoint;
		etcd_signal(&etcd, at, SIGSTOP);
		ret = dfi__client_put(
		    client, "k", "late", 4, 0, deadline_in_ms(100), NULL);
		n += ret == -ETIMEDOUT;
		snprintf(value, sizeof(value), "%u", i);
		cr_assert_eq(put(client, "k", value), 0, "%s", dfi_errmsg());
		etcd_signal(&etcd, at, SIGCONT);
		usleep(200000);
		cr_assert(has(other, "k", value), "round %u", i);
	}
	cr_assert_eq(n, 6);
	end();
}

/* ---- The end of a lease, and gaps -----------------------------------------
 */

struct pause {
	pthread_mutex_t lock;
	pthread_t thread;
};

static int wait_in_loop(void *arg)
{
	struct pause *pause = arg;

	pthread_mutex_lock(&pause->lock);
	pthread_mutex_unlock(&pause->lock);
	return 0;
}

static void *block_loop(void *arg)
{
	dfi__loop_call(loop, wait_in_loop, arg, DEADLINE_NEVER);
	return NULL;
}

/* The client's loop does nothing until it is resumed. */
static void pause_loop(struct pause *pause)
{
	pthread_mutex_init(&pause->lock, NULL);
	pthread_mutex_lock(&pause->lock);
	pthread_create(&pause->thread, NULL, block_loop, pause);
}

static void resume_loop(struct pause *pause)
{
	pthread_mutex_unlock(&pause->lock);
	pthread_join(pause->thread, NULL);
}

/* More keys than a transaction may have operations. */
Test(etcd, a_client_whose_lease_has_ended_sets_its_keys_again)
{
	struct registry_watch *watch, *own;
	struct pause pause;
	struct ear own_ear;
	char key[16];
	int i;

	begin(1, TTL_MS);
	ear_init(&own_ear);
	for (i = 0; i < MANY_KEYS; i++) {
		snprintf(key, sizeof(key), "k%03d", i);
		cr_assert_eq(put_leased(client, key, "1"), 0);
	}
	cr_assert_eq(dfi__client_create(client, "shared", "1", 1,
			 CLIENT_LEASED | CLIENT_SHARED, soon(), NULL),
	    0);
	cr_assert_eq(dfi__client_create(
			 client, "stays", "1", 1, CLIENT_SHARED, soon(), NULL),
	    0);
	cr_assert_eq(dfi__client_create(
			 client, "goes", "1", 1, CLIENT_SHARED, soon(), NULL),
	    0);
	cr_assert_eq(put_leased(client, "taken", "mine"), 0);
	cr_assert_eq(put_leased(other, "p", "1"), 0);
	cr_assert_eq(
	    dfi__client_watch(client, "p", ear_hear, &own_ear, soon(), &own),
	    0);
	cr_assert_eq(
	    dfi__client_watch(other, "k299", ear_hear, &ear, soon(), &watch),
	    0);
	pause_loop(&pause);
	ear_expect(&ear, "+k299=1 -k299 ");
	await_count(other, "k", 0);
	cr_assert_eq(dfi__client_delete(other, "goes", 0, soon()), 0);
	cr_assert_eq(put_leased(other, "taken", "theirs"), 0);
	dfi__client_forget(client, "k000");
	resume_loop(&pause);
	ear_expect(&ear, "+k299=1 -k299 +k299=1 ");
	/* Nothing has changed there. */
	ear_expect(&own_ear, "+p=1 LOST BACK ");
	await_count(other, "k", MANY_KEYS - 1);
	cr_assert_eq(count(other, "stays"), 1);
	cr_assert_eq(count(other, "shared"), 1);
	cr_assert_eq(count(other, "goes"), 0);
	cr_assert(has(other, "taken", "theirs"));
	/* The keys are bound to the new lease. */
	dfi__client_close(client);
	await_count(other, "k", 0);
	client = open_for(loop, 60000);
	end();
}

/* As if others had deleted it: the lease lives, so it is not set again. */
/* Wait until it has heard that. */
static void ear_await(struct ear *its, const char *part)
{
	struct timespec until = deadline_timespec(soon());
	bool heard;
	int err = 0;

	pthread_mutex_lock(&its->lock);
	while (!(heard = strstr(its->log, part)) && !err)
		err = pthread_cond_timedwait(&its->heard, &its->lock, &until);
	pthread_mutex_unlock(&its->lock);
	cr_assert(heard, "no '%s' in '%s'", part, its->log);
}

/* Others have seen that it has gone, so its owner learns that as well. */
Test(etcd, a_key_that_is_set_once_does_not_come_back)
{
	struct registry_watch *watch, *own;
	struct pause pause;
	struct ear own_ear;

	begin(1, TTL_MS);
	ear_init(&own_ear);
	cr_assert_eq(put_leased(client, "k/again", "1"), 0);
	cr_assert_eq(dfi__client_create(client, "k/once", "1", 1,
			 CLIENT_LEASED | CLIENT_ONCE, soon(), NULL),
	    0);
	cr_assert_eq(
	    dfi__client_watch(client, "k/", ear_hear, &own_ear, soon(), &own),
	    0);
	cr_assert_eq(
	    dfi__client_watch(other, "k/once", ear_hear, &ear, soon(), &watch),
	    0);
	pause_loop(&pause);
	ear_expect(&ear, "+k/once=1 -k/once ");
	await_count(other, "k/", 0);
	resume_loop(&pause);
	/* The stream may have told of the deletions before that. */
	await_count(other, "k/", 1);
	ear_await(&own_ear, "BACK ");
	ear_await(&own_ear, "-k/once ");
	cr_assert_eq(count(other, "k/once"), 0);
	/* Its name is free. */
	cr_assert_eq(dfi__client_create(client, "k/once", "2", 1,
			 CLIENT_LEASED | CLIENT_ONCE, soon(), NULL),
	    0);
	ear_expect(&ear, "+k/once=1 -k/once +k/once=2 ");
	end();
}

Test(etcd, a_shared_key_that_others_delete_is_not_kept)
{
	begin(1, TTL_MS);
	cr_assert_eq(dfi__client_create(client, "a", "1", 1,
			 CLIENT_LEASED | CLIENT_SHARED, soon(), NULL),
	    0);
	cr_assert_eq(dfi__client_delete(other, "a", 0, soon()), 0);
	while (!TAILQ_EMPTY(&etcd_of(client)->kept))
		usleep(10000);
	end();
}

/* The stream ends, and when it is wanted again, etcd has compacted. */
Test(etcd, a_gap_is_closed_by_reading_what_is_watched)
{
	struct registry_watch *watch, *many;
	struct registry_value value;
	struct ear all;
	struct pause pause;
	char revision[32];

	begin(1, 60000);
	ear_init(&all);
	cr_assert_eq(put(other, "a/gone", "1"), 0);
	cr_assert_eq(put(other, "a/same", "1"), 0);
	cr_assert_eq(put(other, "a/new", "1"), 0);
	cr_assert_eq(put(other, "a/other", "1"), 0);
	cr_assert_eq(
	    dfi__client_watch(client, "a/", ear_hear, &ear, soon(), &watch), 0);
	cr_assert_eq(dfi__client_watch_key(
			 client, "a/same", ear_hear, &all, soon(), &many),
	    0);
	pause_loop(&pause);
	etcd_restart(&etcd, 0);
	cr_assert_eq(dfi__client_delete(other, "a/gone", 0, soon()), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(put(other, "a/new", "2"), 0);
	cr_assert_eq(dfi__client_delete(other, "a/other", 0, soon()), 0);
	cr_assert_eq(put(other, "a/other", "3"), 0);
	cr_assert_eq(dfi__client_get(other, "a/other", soon(), &value), 0);
	snprintf(revision, sizeof(revision), "%llu",
	    (unsigned long long)value.revision);
	dfi__registry_value_free(&value);
	cr_assert_eq(
	    etcd_control(&etcd, NULL, "compaction", revision, (char *)NULL), 0);
	resume_loop(&pause);
	/* Nobody was lost: the lease is as it was. */
	ear_expect(&ear,
	    "+a/gone=1 +a/new=1 +a/other=1 +a/same=1 +a/new=2 -a/other "
	    "+a/other=3 -a/gone ");
	cr_assert_eq(put(other, "a/same", "2"), 0);
	ear_expect(&all, "+a/same=1 +a/same=2 ");
	end();
}

/* ---- TLS and users --------------------------------------------------------
 */

static void add_user(const struct etcd *at, const char *name)
{
	char password[64];

	snprintf(password, sizeof(password), "%s:secret", name);
	cr_assert_eq(
	    etcd_control(at, NULL, "user", "add", password, (char *)NULL), 0);
}

static void enable_users(const struct etcd *at)
{
	add_user(at, "root");
	cr_assert_eq(etcd_control(at, NULL, "user", "grant-role", "root",
			 "root", (char *)NULL),
	    0);
	add_user(at, "dfi");
	add_user(at, "stranger");
	cr_assert_eq(
	    etcd_control(at, NULL, "role", "add", "dfi", (char *)NULL), 0);
	cr_assert_eq(etcd_control(at, NULL, "role", "grant-permission", "dfi",
			 "--prefix=true", "readwrite", "dfi/", (char *)NULL),
	    0);
	cr_assert_eq(etcd_control(at, NULL, "user", "grant-role", "dfi", "dfi",
			 (char *)NULL),
	    0);
	cr_assert_eq(etcd_control(at, NULL, "auth", "enable", (char *)NULL), 0);
}

Test(etcd_tls, checks_both_sides_and_gets_tokens_again)
{
	struct registry_security security = { .etcd_user = "dfi" };
	struct registry_watch *watch;
	char cert[128], key[128], ca[128];

	etcd_need();
	make_ca("ca");
	make_ca("foreign");
	make_cert("member", "ca", "IP:127.0.0.1", NULL, CERT_VALID);
	snprintf(ca, sizeof(ca), "%s", file_named("ca.pem"));
	snprintf(cert, sizeof(cert), "%s", file_named("member.pem"));
	snprintf(key, sizeof(key), "%s", file_named("member.key"));
	etcd_start_tls(&etcd, 1, cert, key, ca);
	security.etcd_password = write_file("password", "secret", 6, 0600);
	expect_refusal(etcd.address, &security, -EACCES, "");
	security.ca = file_named("foreign.pem");
	expect_refusal(etcd.address, &security, -EACCES, "");
	security.ca = ca;
	expect_refusal(etcd.address, &security, -EACCES, "etcdctl auth enable");
	enable_users(&etcd);
	security.etcd_user = "stranger";
	expect_refusal(etcd.address, &security, -EACCES, "let user 'stranger'");
	security.etcd_user = "dfi";
	security.etcd_password = write_file("wrong", "wrong\n", 6, 0600);
	expect_refusal(etcd.address, &security, -EACCES, "DFI_ETCD_USER");
	security.etcd_user = security.etcd_password = NULL;
	expect_refusal(etcd.address, &security, -EACCES, "DFI_ETCD_USER");
	security.etcd_user = "dfi";
	security.etcd_password = file_named("password");

	ear_init(&ear);
	loop = start_loop();
	cr_assert_eq(dfi__client_open(
			 loop, etcd.address, &security, 30000, soon(), &client),
	    0, "%s", dfi_errmsg());
	cr_assert_eq(
	    dfi__client_watch(client, "a", ear_hear, &ear, soon(), &watch), 0);
	cr_assert_eq(put_leased(client, "a", "1"), 0);
	/* A member that begins again knows no token of before. */
	etcd_restart(&etcd, 0);
	cr_assert_eq(put_leased(client, "a", "2"), 0, "%s", dfi_errmsg());
	ear_expect(&ear, "+a=1 +a=2 ");
	dfi__client_close(client);
	stop_loop(loop);
	etcd_stop(&etcd);
}
