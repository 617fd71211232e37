/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long walks of a registry and its clients, one entry after the other: many
 * watches, many connections. With a walk over all of them for each one, a test
 * would take 10^9 steps. The limits are processor time of this thread.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>
#include <time.h>

#include "registry/remote/enter.h"
#include "registry/remote/state.h"
#include "registry/remote/watch.h"
#include "registry/server/server.h"
#include "registry/server/session.h"
#include "registry_help.h"

enum {
	N_WATCHES = 65536,
	N_CONNECTIONS = 16384,
	N_SIGNS = 65536, /* of life */
};

static int64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void expect_short(int64_t since)
{
	double ms = (double)(thread_ns() - since) / NS_PER_MS;

	cr_assert_lt(ms, 1000, "%.3f ms", ms);
}

/* ---- Watches of a client that has no connection -------------------------- */

struct watcher {
	struct remote_watch *watch;
	enum registry_event_type end_at; /* an event of this type ends */
	struct watcher *ends;            /* this one's watch */
	unsigned heard[REGISTRY_BACK + 1];
};

static struct watcher *watchers;
static struct loop *loop;
static struct remote_client *client;

static void hear(void *arg, const struct registry_event *event)
{
	struct watcher *watcher = arg, *ends = watcher->ends;

	watcher->heard[event->type]++;
	if (!ends || event->type != watcher->end_at)
		return;
	dfi__remote_unwatch(&ends->watch->base);
	ends->watch = NULL;
}

static void start_watching(void)
{
	struct registry_interest interest = { .prefix = "p/", .fn = hear };
	uint64_t i;

	loop = start_loop();
	cr_assert_eq(dfi__client_new(loop, "unix:@none", &client), 0);
	client->lost_err = -ENOTCONN;
	watchers = calloc(N_WATCHES, sizeof(*watchers));
	dfi__client_enter(client);
	for (i = 0; i < N_WATCHES; i++) {
		interest.arg = &watchers[i];
		watchers[i].watch = dfi__watch_follow(client, i + 1, &interest);
		cr_assert_not_null(watchers[i].watch);
	}
}

static void stop_watching(void)
{
	dfi__client_exit(client);
	dfi__client_destroy(client, soon());
	stop_loop(loop);
	free(watchers);
}

TestSuite(watches, .init = start_watching, .fini = stop_watching);

/* Each watch that is left hears of a key. */
static void put_for_each(void)
{
	Dfi__Registry__Event event = DFI__REGISTRY__EVENT__INIT;
	Dfi__Registry__Value value = DFI__REGISTRY__VALUE__INIT;
	uint64_t i;

	value.key = (char *)"p/1";
	event.type = DFI__REGISTRY__EVENT_TYPE__PUT;
	event.value = &value;
	for (i = 0; i < N_WATCHES; i++) {
		event.watch = i + 1;
		dfi__watch_deliver(client, &event);
	}
}

/* All have heard it, except one, which was ended before. */
static void expect_heard(
    enum registry_event_type type, unsigned n, const struct watcher *except)
{
	unsigned i;

	for (i = 0; i < N_WATCHES; i++)
		cr_assert_eq(watchers[i].heard[type],
		    &watchers[i] == except ? 0 : n, "watch %u", i);
}

static void end_at(
    enum registry_event_type type, unsigned who, unsigned whose_watch)
{
	watchers[who].end_at = type;
	watchers[who].ends = &watchers[whose_watch];
}

Test(watches, an_event_finds_its_watch)
{
	int64_t since = thread_ns();

	put_for_each();
	expect_short(since);
	expect_heard(REGISTRY_PUT, 1, NULL);
	dfi__remote_unwatch(&watchers[1].watch->base);
	put_for_each();
	cr_assert_eq(watchers[0].heard[REGISTRY_PUT], 2);
	cr_assert_eq(watchers[1].heard[REGISTRY_PUT], 1);
	cr_assert_eq(watchers[2].heard[REGISTRY_PUT], 2);
}

Test(watches, each_learns_of_a_loss_and_may_end_itself_and_others)
{
	int64_t since = thread_ns();

	end_at(REGISTRY_LOST, 0, 0);
	end_at(REGISTRY_LOST, 3, 4);
	end_at(REGISTRY_LOST, 7, 6);
	end_at(REGISTRY_LOST, N_WATCHES - 1, N_WATCHES - 1);
	dfi__watch_notify(client, REGISTRY_LOST);
	expect_short(since);
	expect_heard(REGISTRY_LOST, 1, &watchers[4]);
	dfi__watch_notify(client, REGISTRY_LOST);
	expect_heard(REGISTRY_LOST, 1, &watchers[4]);
	dfi__watch_notify(client, REGISTRY_BACK);
	cr_assert_eq(watchers[0].heard[REGISTRY_BACK], 0);
	cr_assert_eq(watchers[1].heard[REGISTRY_BACK], 1);
	cr_assert_eq(watchers[6].heard[REGISTRY_BACK], 0);
	cr_assert_eq(watchers[7].heard[REGISTRY_BACK], 1);
}

Test(watches, each_learns_of_missing_keys_and_may_end_itself_and_others)
{
	int64_t since;
	unsigned i;

	put_for_each();
	for (i = 0; i < N_WATCHES; i++)
		cr_assert_eq(
		    dfi__watch_renew(client, watchers[i].watch), -ENOTCONN);
	end_at(REGISTRY_DELETE, 0, 0);
	end_at(REGISTRY_DELETE, 3, 4);
	end_at(REGISTRY_DELETE, 7, 6);
	since = thread_ns();
	dfi__watch_expire_missing(client);
	expect_short(since);
	expect_heard(REGISTRY_DELETE, 1, &watchers[4]);
}

/* ---- Connections of a registry ------------------------------------------- */

#define TTL_NS (INT64_C(60) * NS_PER_S)

static void make_table(struct server *server)
{
	struct table_limits limits = { .max_leases = 2 };
	struct table_hooks hooks = { .arg = NULL };

	cr_assert_eq(dfi__table_create(&limits, &hooks, &server->table), 0);
}

static void greet(
    struct session *session, struct server *server, uint64_t connection)
{
	session->server = server;
	session->client = 7;
	session->connection = connection;
	session->paused = true;
	TAILQ_INSERT_TAIL(&server->live, session, link);
	cr_assert_eq(dfi__session_leave_behind(session), 0);
	cr_assert_eq(dfi__table_grant(
			 server->table, session, TTL_NS, 0, &session->lease),
	    0);
}

Test(connections, a_sign_of_life_walks_over_those_of_its_client_only)
{
	struct session *others = calloc(N_CONNECTIONS, sizeof(*others));
	struct session past = { .doomed = false }, now = { .doomed = false };
	struct event_base *base = event_base_new();
	static struct server server;
	int64_t since;
	unsigned i;

	TAILQ_INIT(&server.live);
	make_table(&server);
	past.stream = bufferevent_socket_new(base, -1, 0);
	greet(&past, &server, 1);
	for (i = 0; i < N_CONNECTIONS; i++)
		TAILQ_INSERT_TAIL(&server.live, &others[i], link);
	greet(&now, &server, 2);
	cr_assert(past.past);
	since = thread_ns();
	for (i = 0; i < N_SIGNS; i++)
		dfi__session_lives(&now);
	expect_short(since);
	/* Without a sign of life both leases would have expired. */
	cr_assert_eq(dfi__table_expire(server.table, TTL_NS), 0);
	dfi__session_leave_member(&past);
	dfi__session_leave_member(&now);
	cr_assert_eq(server.members.n_leaves, 0);
	dfi__table_destroy(server.table);
	bufferevent_free(past.stream);
	event_base_free(base);
	free(others);
}
