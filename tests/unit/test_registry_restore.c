/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry that goes and returns at the same address: the keys that its
 * clients set again, and the events of their watches.
 */
#include <criterion/criterion.h>
#include <event2/buffer.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <dfi/error.h>

#include "registry_help.h"

static const char *address;
static struct dfi_registry *registry;
static struct loop *loop;
static struct registry_client *owner, *watcher;
static struct registry_watch *watch;
static struct ear owner_ear, ear;

static void setup(void)
{
	lines_collect();
	address = fresh_address("socket");
	registry = start_at(address);
	loop = start_loop();
	owner = open_client(loop, registry);
	watcher = open_client(loop, registry);
	watch = ears_watch(owner, &owner_ear, watcher, &ear);
}

static void teardown(void)
{
	dfi__client_close(owner);
	dfi__client_close(watcher);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

TestSuite(restore, .init = setup, .fini = teardown, .timeout = 300);

/* Stop the registry; the owner knows it. */
static void lose(void)
{
	dfi_registry_stop(registry);
	ear_expect(&owner_ear, "LOST ");
}

static void bring_back(void)
{
	registry = start_at(address);
}

Test(restore, keys_and_watches_are_there_again_and_nothing_is_heard_of_it)
{
	create_text(owner, "p/1", "a", CLIENT_LEASED);
	create_text(owner, "p/2", "b", CLIENT_LEASED);
	ear_expect(&ear, "+p/1=a +p/2=b ");
	lose();
	bring_back();
	ear_expect(&owner_ear, "LOST BACK ");
	ear_expect(&ear, "+p/1=a +p/2=b LOST BACK ");
	expect_text(watcher, "p/1", "a");
	expect_text(watcher, "p/2", "b");
	/* The watch lives, and so does the lease. */
	cr_assert_eq(dfi__client_delete(owner, "p/1", 0, soon()), 0);
	ear_expect(&ear, "+p/1=a +p/2=b LOST BACK -p/1 ");
	dfi__client_close(owner);
	ear_expect(&ear, "+p/1=a +p/2=b LOST BACK -p/1 -p/2 ");
	owner = open_client(loop, registry);
	lines_wait("is back");
}

Test(restore, a_registry_may_be_lost_many_times)
{
	char heard[256] = "+p/1=a ", by_owner[256] = "";
	int i;

	create_text(owner, "p/1", "a", CLIENT_LEASED);
	ear_expect(&ear, heard);
	for (i = 0; i < 5; i++) {
		dfi_registry_stop(registry);
		strcat(heard, "LOST ");
		ear_expect(&ear, heard);
		strcat(by_owner, "LOST ");
		ear_expect(&owner_ear, by_owner);
		bring_back();
		strcat(heard, "BACK ");
		ear_expect(&ear, heard);
		strcat(by_owner, "BACK ");
		ear_expect(&owner_ear, by_owner);
		expect_text(watcher, "p/1", "a");
	}
}

Test(restore, more_keys_than_are_sent_at_once)
{
	struct registry_value *values;
	char key[32];
	size_t n;
	int i;

	for (i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "many/%03d", i);
		create_text(owner, key, key, CLIENT_LEASED);
	}
	lose();
	bring_back();
	ear_expect(&owner_ear, "LOST BACK ");
	ear_expect(&ear, "LOST BACK ");
	cr_assert_eq(
	    dfi__client_list(watcher, "many/", soon(), &values, &n), 0);
	cr_assert_eq(n, 300);
	cr_assert_str_eq(values[299].data, "many/299");
	dfi__registry_values_free(values, n);
}

Test(restore, who_does_not_come_back_is_gone_after_the_grace)
{
	int64_t begin;

	dfi__client_set_grace(watcher, 400);
	create_text(owner, "p/1", "a", CLIENT_LEASED);
	ear_expect(&ear, "+p/1=a ");
	lose();
	dfi__client_close(owner);
	/* The grace begins later than this, and ends before it is heard. */
	begin = clock_now_ns();
	bring_back();
	ear_expect(&ear, "+p/1=a LOST BACK -p/1 ");
	cr_assert_geq(clock_now_ns() - begin, 400 * NS_PER_MS);
	owner = open_client(loop, registry);
}

#define N_GONE 10000

/* How long the loop's thread took from the first deletion to the last. */
struct gone {
	_Atomic unsigned n;
	int64_t first, last;
	struct registry_watch *watch; /* ended by the last deletion but one */
};

static int64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void count_gone(void *arg, const struct registry_event *event)
{
	struct gone *gone = arg;

	if (event->type != REGISTRY_DELETE)
		return;
	if (gone->n == 0)
		gone->first = thread_ns();
	gone->last = thread_ns();
	/* An event that is still due is freed with its watch. */
	if (gone->n == N_GONE - 2)
		dfi__client_unwatch(gone->watch);
	gone->n++;
}

/* Each by itself would take a walk over all of them. */
Test(restore, many_that_do_not_come_back_are_gone_at_once)
{
	int64_t deadline;
	struct gone gone = { .n = 0 };
	char key[32];
	int i;

	dfi__client_set_grace(watcher, 400);
	for (i = 0; i < N_GONE; i++) {
		snprintf(key, sizeof(key), "gone/%05d", i);
		create_text(owner, key, "", CLIENT_LEASED);
	}
	cr_assert_eq(dfi__client_watch(watcher, "gone/", count_gone, &gone,
			 soon(), &gone.watch),
	    0);
	lose();
	dfi__client_close(owner);
	bring_back();
	deadline = soon();
	while (gone.n < N_GONE - 1)
		cr_assert_lt(clock_now_ns(), deadline);
	cr_assert_lt(gone.last - gone.first, 2000 * NS_PER_MS);
	owner = open_client(loop, registry);
}

Test(restore, a_key_of_another_value_is_another_one)
{
	struct registry_client *other;

	create_text(owner, "p/1", "a", CLIENT_LEASED);
	ear_expect(&ear, "+p/1=a ");
	lose();
	dfi__client_close(owner);
	owner = NULL;
	bring_back();
	other = open_client(loop, registry);
	ear_expect(&ear, "+p/1=a LOST BACK ");
	create_text(other, "p/1", "b", CLIENT_LEASED);
	ear_expect(&ear, "+p/1=a LOST BACK -p/1 +p/1=b ");
	owner = other;
}

Test(restore, what_was_deleted_meanwhile_stays_deleted)
{
	struct registry_value value;

	create_text(owner, "own", "a", CLIENT_LEASED);
	create_text(owner, "forgotten", "a", CLIENT_LEASED);
	create_text(owner, "shared", "a", CLIENT_LEASED | CLIENT_SHARED);
	create_text(owner, "lasting", "a", CLIENT_SHARED);
	cr_assert_eq(dfi__client_delete(owner, "own", 0, soon()), 0);
	cr_assert_eq(dfi__client_delete(watcher, "shared", 0, soon()), 0);
	/* Events come before answers: after this the owner knows. */
	expect_text(watcher, "lasting", "a");
	cr_assert_eq(dfi__client_get(owner, "shared", soon(), &value), -ENOENT);
	lose();
	dfi__client_forget(owner, "forgotten");
	bring_back();
	ear_expect(&owner_ear, "LOST BACK ");
	ear_expect(&ear, "LOST BACK ");
	cr_assert_eq(dfi__client_get(watcher, "own", soon(), &value), -ENOENT);
	cr_assert_eq(
	    dfi__client_get(watcher, "shared", soon(), &value), -ENOENT);
	cr_assert_eq(
	    dfi__client_get(watcher, "forgotten", soon(), &value), -ENOENT);
	expect_text(watcher, "lasting", "a");
}

Test(restore, calls_are_refused_with_the_reason_meanwhile)
{
	struct registry_watch *late;
	int64_t wait_limit = soon();
	int ret;

	lose();
	do
		ret = dfi__client_put(owner, "a", "", 0, 0, soon(), NULL);
	while (ret == -ENOTCONN && !strstr(dfi_errmsg(), "nobody answers") &&
	    clock_now_ns() < wait_limit);
	cr_assert_eq(ret, -ENOTCONN);
	cr_assert_not_null(strstr(dfi_errmsg(), address));
	cr_assert_not_null(
	    strstr(dfi_errmsg(), "nobody answers"), "%s", dfi_errmsg());
	cr_assert_eq(
	    dfi__client_watch(owner, "", ear_hear, &ear, soon(), &late),
	    -ENOTCONN);
	bring_back();
	ear_expect(&owner_ear, "LOST BACK ");
	cr_assert_eq(dfi__client_put(owner, "a", "", 0, 0, soon(), NULL), 0);
}

Test(restore, a_watch_can_be_ended_and_a_client_closed_meanwhile)
{
	create_text(owner, "p/1", "a", CLIENT_LEASED);
	ear_expect(&ear, "+p/1=a ");
	lose();
	ear_expect(&ear, "+p/1=a LOST ");
	dfi__client_unwatch(watch);
	dfi__client_close(watcher);
	bring_back();
	ear_expect(&owner_ear, "LOST BACK ");
	cr_assert_str_eq(ear.log, "+p/1=a LOST ");
	watcher = open_client(loop, registry);
	expect_text(watcher, "p/1", "a");
}

Test(restore, a_value_that_nobody_waited_for_is_there_again)
{
	create_text(owner, "p/1", "a", CLIENT_LEASED);
	create_text(watcher, "other", "a", CLIENT_LEASED);
	dfi__client_renew(owner, "p/1", "b", 1);
	dfi__client_renew(owner, "other", "b", 1);
	ear_expect(&ear, "+p/1=a +p/1=b ");
	lose();
	bring_back();
	ear_expect(&owner_ear, "LOST BACK ");
	ear_expect(&ear, "+p/1=a +p/1=b LOST BACK ");
	expect_text(watcher, "p/1", "b");
	expect_text(watcher, "other", "a");
}

/* ---- A registry that is lost again while a client is at it --------------- */

TestSuite(restore_again, .timeout = 300);

struct play {
	struct fake fake;
	struct ear ear;
	bool in_watches; /* lost there, else in KEYS */
	bool taken;      /* the key, by somebody else */
	bool answered;   /* before it changes */
	uint32_t lease_ms;
	Dfi__Registry__Request__OpCase next;
	sem_t greeting, forgotten, back;
};

static void accept_next(struct play *play, struct raw *raw)
{
	struct timeval wait_limit = { .tv_sec = 20 };

	raw->fd = accept(play->fake.fd, NULL, NULL);
	cr_assert_geq(raw->fd, 0);
	setsockopt(
	    raw->fd, SOL_SOCKET, SO_RCVTIMEO, &wait_limit, sizeof(wait_limit));
	raw->in = evbuffer_new();
	raw->last_id = 0;
}

/* Grant all requests up to one of this kind, which stays unanswered. */
static Dfi__Registry__Message *agree_until(
    struct raw *raw, Dfi__Registry__Request__OpCase kind)
{
	Dfi__Registry__Message *message;

	for (;;) {
		message = fake_receive(raw);
		if (message->request->op_case == kind)
			return message;
		fake_agree(raw, message);
		dfi__wire_free(message);
	}
}

static void agree_once(struct raw *raw, Dfi__Registry__Request__OpCase kind)
{
	Dfi__Registry__Message *message = agree_until(raw, kind);

	fake_agree(raw, message);
	dfi__wire_free(message);
}

static void refuse_put(struct raw *raw, Dfi__Registry__Message *message)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;

	reply.id = message->request->id;
	reply.error = -EEXIST;
	raw_send_reply(raw, &reply);
	dfi__wire_free(message);
}

/* Only the request of list_nothing() is on its way. */
static void agree_list(struct raw *raw)
{
	Dfi__Registry__Message *message = fake_receive(raw);

	cr_assert_eq(
	    message->request->op_case, DFI__REGISTRY__REQUEST__OP_LIST);
	fake_agree(raw, message);
	dfi__wire_free(message);
}

static void list_nothing(void)
{
	struct registry_value *values;
	size_t n;

	cr_assert_eq(dfi__client_list(owner, "none/", soon(), &values, &n), 0);
	dfi__registry_values_free(values, n);
}

static void lose_again(struct raw *first, void *arg)
{
	struct play *play = arg;
	Dfi__Registry__Message *message;
	struct raw raw;

	/* The client opens, sets a key, and watches two prefixes. */
	agree_once(first, DFI__REGISTRY__REQUEST__OP_PUT);
	agree_once(first, DFI__REGISTRY__REQUEST__OP_WATCH);
	agree_once(first, DFI__REGISTRY__REQUEST__OP_WATCH);
	ear_expect(&play->ear, "");
	shutdown(first->fd, SHUT_RDWR);

	accept_next(play, &raw);
	dfi__wire_free(agree_until(&raw,
	    play->in_watches ? DFI__REGISTRY__REQUEST__OP_WATCH
			     : DFI__REGISTRY__REQUEST__OP_PUT));
	raw_close(&raw);

	accept_next(play, &raw);
	message = fake_receive(&raw);
	sem_post(&play->greeting);
	sem_wait(&play->forgotten);
	fake_agree(&raw, message);
	dfi__wire_free(message);
	agree_once(&raw, DFI__REGISTRY__REQUEST__OP_WATCH);
	agree_once(&raw,
	    play->in_watches ? DFI__REGISTRY__REQUEST__OP_PUT
			     : DFI__REGISTRY__REQUEST__OP_WATCH);
	sem_wait(&play->back);
	raw_close(&raw);
}

/* The owner has a key at it. */
static void start_play(
    struct play *play, void (*script)(struct raw *first, void *arg))
{
	lines_collect();
	ear_init(&play->ear);
	sem_init(&play->greeting, 0, 0);
	sem_init(&play->forgotten, 0, 0);
	sem_init(&play->back, 0, 0);
	fake_start(&play->fake, script, play);
	loop = start_loop();
	cr_assert_eq(dfi__client_open(loop, play->fake.address, NULL,
			 play->lease_ms, soon(), &owner),
	    0, "%s", dfi_errmsg());
	create_text(owner, "key", "value", CLIENT_LEASED);
}

static void end_play(struct play *play)
{
	sem_post(&play->back);
	dfi__client_close(owner);
	fake_stop(&play->fake);
	stop_loop(loop);
}

static void lose_and_forget(bool in_watches)
{
	struct play play = { .in_watches = in_watches };
	struct registry_watch *kept_watch, *ended;

	start_play(&play, lose_again);
	cr_assert_eq(dfi__client_watch(
			 owner, "a/", ear_hear, &play.ear, soon(), &kept_watch),
	    0);
	cr_assert_eq(
	    dfi__client_watch(owner, "b/", ear_hear, &play.ear, soon(), &ended),
	    0);
	sem_wait(&play.greeting);
	if (in_watches)
		dfi__client_unwatch(ended);
	else
		dfi__client_forget(owner, "key");
	sem_post(&play.forgotten);
	lines_wait("is back");
	end_play(&play);
}

Test(restore_again, a_key_that_was_sent_can_be_forgotten)
{
	lose_and_forget(false);
}

Test(restore_again, a_watch_that_was_sent_can_be_ended)
{
	lose_and_forget(true);
}

/* ---- Keys that are retired while their owner is unknown ------------------ */

/* The key is set again, and retired before that is answered. */
static void answer_late(struct raw *first, void *arg)
{
	struct play *play = arg;
	Dfi__Registry__Message *message;
	struct raw raw;

	agree_once(first, DFI__REGISTRY__REQUEST__OP_PUT);
	shutdown(first->fd, SHUT_RDWR);
	accept_next(play, &raw);
	message = agree_until(&raw, DFI__REGISTRY__REQUEST__OP_PUT);
	sem_post(&play->greeting);
	sem_wait(&play->forgotten);
	if (play->taken) {
		refuse_put(&raw, message);
	} else {
		fake_agree(&raw, message);
		dfi__wire_free(message);
	}
	/* The client's report of it, if any. */
	message = fake_receive(&raw);
	play->next = message->request->op_case;
	if (play->next == DFI__REGISTRY__REQUEST__OP_DELETE) {
		cr_assert_str_eq(message->request->delete_->key, "key");
		dfi__wire_free(message);
		message = fake_receive(&raw);
	}
	cr_assert_eq(
	    message->request->op_case, DFI__REGISTRY__REQUEST__OP_LEASE_REVOKE);
	cr_assert(message->request->lease_revoke->past);
	fake_agree(&raw, message);
	dfi__wire_free(message);
	agree_list(&raw);
	sem_wait(&play->back);
	raw_close(&raw);
}

static void retire_early(bool taken, Dfi__Registry__Request__OpCase next)
{
	struct play play = { .taken = taken };

	start_play(&play, answer_late);
	sem_wait(&play.greeting);
	dfi__client_retire(owner, "key", "last", 4);
	sem_post(&play.forgotten);
	lines_wait("is back");
	list_nothing();
	cr_assert_eq(play.next, next);
	/* It is nobody's now: nothing is done. */
	dfi__client_retire(owner, "key", "last", 4);
	end_play(&play);
}

Test(restore_again, a_key_that_was_retired_goes_if_it_is_ours)
{
	retire_early(false, DFI__REGISTRY__REQUEST__OP_DELETE);
}

Test(restore_again, a_key_that_was_retired_stays_if_it_is_somebody_elses)
{
	retire_early(true, DFI__REGISTRY__REQUEST__OP_LEASE_REVOKE);
}

/* ---- Keys that are somebody else's --------------------------------------- */

/* Set again, it is refused; the test handles the client's next message. */
static void take_key(struct raw *first, void *arg)
{
	struct play *play = arg;
	Dfi__Registry__Message *message;
	const Dfi__Registry__Put *put;
	struct raw raw;

	agree_once(first, DFI__REGISTRY__REQUEST__OP_PUT);
	agree_once(first, DFI__REGISTRY__REQUEST__OP_WATCH);
	shutdown(first->fd, SHUT_RDWR);
	accept_next(play, &raw);
	refuse_put(&raw, agree_until(&raw, DFI__REGISTRY__REQUEST__OP_PUT));
	agree_once(&raw, DFI__REGISTRY__REQUEST__OP_LEASE_REVOKE);

	message = fake_receive(&raw);
	cr_assert_eq(message->request->op_case, DFI__REGISTRY__REQUEST__OP_PUT);
	put = message->request->put;
	cr_assert(put->create && put->reclaim && put->leased);
	refuse_put(&raw, message);
	message = fake_receive(&raw);
	cr_assert_eq(
	    message->request->op_case, DFI__REGISTRY__REQUEST__OP_UNWATCH);
	dfi__wire_free(message);
	agree_list(&raw);
	sem_wait(&play->back);
	raw_close(&raw);
}

Test(restore_again, a_key_that_is_somebody_elses_is_neither_changed_nor_deleted)
{
	struct play play = { .taken = false };
	struct registry_watch *own;

	start_play(&play, take_key);
	cr_assert_eq(
	    dfi__client_watch(owner, "a/", ear_hear, &play.ear, soon(), &own),
	    0);
	lines_wait("is back");
	cr_assert_eq(
	    dfi__client_change(owner, "key", "last", 4, soon()), -EEXIST);
	dfi__client_forget(owner, "key");
	dfi__client_leave(own, "key");
	list_nothing();
	end_play(&play);
}

/* ---- Keys that change while they are set again --------------------------- */

/* It changes while it is unanswered, or when only another one still is. */
static void hear_change(struct raw *first, void *arg)
{
	struct play *play = arg;
	Dfi__Registry__Message *message, *other, *late;
	const Dfi__Registry__Put *put;
	struct raw raw;

	agree_once(first, DFI__REGISTRY__REQUEST__OP_PUT);
	agree_once(first, DFI__REGISTRY__REQUEST__OP_PUT);
	shutdown(first->fd, SHUT_RDWR);
	accept_next(play, &raw);
	message = agree_until(&raw, DFI__REGISTRY__REQUEST__OP_PUT);
	cr_assert_str_eq(message->request->put->key, "key");
	other = fake_receive(&raw);
	if (play->answered)
		fake_agree(&raw, message);
	sem_post(&play->greeting);
	sem_wait(&play->forgotten);
	if (!play->answered)
		fake_agree(&raw, message);
	late = agree_until(&raw, DFI__REGISTRY__REQUEST__OP_PUT);
	put = late->request->put;
	cr_assert_str_eq(put->key, "key");
	cr_assert(put->create && put->reclaim);
	cr_assert_eq(put->value.len, 5);
	cr_assert_arr_eq(put->value.data, "later", 5);
	fake_agree(&raw, other);
	fake_agree(&raw, late);
	dfi__wire_free(message);
	dfi__wire_free(other);
	dfi__wire_free(late);
	sem_wait(&play->back);
	raw_close(&raw);
}

static void change_early(bool answered)
{
	struct play play = { .answered = answered };

	start_play(&play, hear_change);
	create_text(owner, "other", "value", CLIENT_LEASED);
	sem_wait(&play.greeting);
	dfi__client_renew(owner, "key", "later", 5);
	sem_post(&play.forgotten);
	lines_wait("is back");
	end_play(&play);
}

Test(restore_again, a_key_that_changes_before_its_answer_is_sent_once_more)
{
	change_early(false);
}

Test(restore_again, a_key_that_changes_after_its_answer_is_sent_once_more)
{
	change_early(true);
}

/* ---- A registry that takes its time ------------------------------------- */

static void expect_keepalive(struct raw *raw)
{
	Dfi__Registry__Message *message = fake_receive(raw);

	cr_assert_eq(message->request->op_case,
	    DFI__REGISTRY__REQUEST__OP_LEASE_KEEPALIVE);
	fake_agree(raw, message);
	dfi__wire_free(message);
}

/* Also after an unanswered one, when another message comes. */
static void agree_late(struct raw *raw, Dfi__Registry__Request__OpCase kind)
{
	Dfi__Registry__Message *message = agree_until(raw, kind), *unanswered;

	expect_keepalive(raw);
	unanswered = agree_until(
	    raw, DFI__REGISTRY__REQUEST__OP_LEASE_KEEPALIVE);
	raw_send_event(raw, UINT64_MAX, "a/1");
	expect_keepalive(raw);
	fake_agree(raw, message);
	dfi__wire_free(unanswered);
	dfi__wire_free(message);
}

static void take_time(struct raw *first, void *arg)
{
	struct play *play = arg;
	struct raw raw;

	agree_once(first, DFI__REGISTRY__REQUEST__OP_PUT);
	agree_once(first, DFI__REGISTRY__REQUEST__OP_WATCH);
	shutdown(first->fd, SHUT_RDWR);
	accept_next(play, &raw);
	agree_late(&raw, DFI__REGISTRY__REQUEST__OP_WATCH);
	agree_late(&raw, DFI__REGISTRY__REQUEST__OP_PUT);
	sem_wait(&play->back);
	raw_close(&raw);
}

/* Its lease runs, though it has not everything back. */
Test(restore_again, signs_of_life_are_sent_meanwhile)
{
	struct play play = { .lease_ms = 150 };
	struct registry_watch *kept_watch;

	start_play(&play, take_time);
	cr_assert_eq(dfi__client_watch(
			 owner, "a/", ear_hear, &play.ear, soon(), &kept_watch),
	    0);
	lines_wait("is back");
	end_play(&play);
}

/*
 * The time is played: 7 s in all, where an answer may take 5, and half a second
 * from one event to the next.
 */
static void notify_slowly(struct raw *first, void *arg)
{
	struct play *play = arg;
	Dfi__Registry__Message *message;
	struct raw raw;
	int i;

	agree_once(first, DFI__REGISTRY__REQUEST__OP_PUT);
	agree_once(first, DFI__REGISTRY__REQUEST__OP_WATCH);
	shutdown(first->fd, SHUT_RDWR);
	accept_next(play, &raw);
	message = agree_until(&raw, DFI__REGISTRY__REQUEST__OP_WATCH);
	for (i = 0; i < 14; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 500000000 }, NULL);
		raw_send_event(&raw, message->request->id, "a/1");
	}
	fake_agree(&raw, message);
	dfi__wire_free(message);
	agree_once(&raw, DFI__REGISTRY__REQUEST__OP_PUT);
	sem_wait(&play->back);
	raw_close(&raw);
}

Test(restore_again, the_keys_of_a_watch_may_come_slowly)
{
	struct play play = { .lease_ms = 0 };
	struct registry_watch *kept_watch;

	start_play(&play, notify_slowly);
	cr_assert_eq(dfi__client_watch(
			 owner, "a/", ear_hear, &play.ear, soon(), &kept_watch),
	    0);
	lines_wait("is back");
	end_play(&play);
}

/* ---- A registry that is at a limit --------------------------------------- */

/* First a required request; then a refusal. */
static Dfi__Registry__Message *expect_watch(
    struct raw *raw, const char *key, bool follow)
{
	Dfi__Registry__Message *message = agree_until(
	    raw, DFI__REGISTRY__REQUEST__OP_WATCH);

	cr_assert_str_eq(message->request->watch->prefix, key);
	cr_assert_eq(message->request->watch->follow, follow);
	return message;
}

static void refuse(struct raw *raw, Dfi__Registry__Message *message)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;

	reply.id = message->request->id;
	reply.error = -ENOSPC;
	reply.text = "the limit";
	raw_send_reply(raw, &reply);
	dfi__wire_free(message);
}

static void expect_put(struct raw *raw, const char *key)
{
	Dfi__Registry__Message *message = fake_receive(raw);

	cr_assert_eq(message->request->op_case, DFI__REGISTRY__REQUEST__OP_PUT,
	    "%d", message->request->op_case);
	cr_assert_str_eq(message->request->put->key, key);
	fake_agree(raw, message);
	dfi__wire_free(message);
}

static void be_short_of_watches(struct raw *first, void *arg)
{
	struct play *play = arg;
	Dfi__Registry__Message *message;
	struct raw raw;

	agree_once(first, DFI__REGISTRY__REQUEST__OP_PUT);
	agree_once(first, DFI__REGISTRY__REQUEST__OP_PUT);
	agree_once(first, DFI__REGISTRY__REQUEST__OP_WATCH);
	ear_expect(&play->ear, "");
	shutdown(first->fd, SHUT_RDWR);

	/* One that is needed: no key has been set. */
	accept_next(play, &raw);
	refuse(&raw, expect_watch(&raw, "a/", false));
	cr_assert_null(raw_read(&raw));
	raw_close(&raw);

	/* All that there is. */
	accept_next(play, &raw);
	message = expect_watch(&raw, "a/", false);
	raw_send_event(&raw, message->request->id, "a/1");
	fake_agree(&raw, message);
	dfi__wire_free(message);
	expect_put(&raw, "key");
	expect_put(&raw, "shared");
	message = expect_watch(&raw, "shared", true);
	raw_send_event(&raw, message->request->id, "shared");
	fake_agree(&raw, message);
	dfi__wire_free(message);
	ear_expect(&play->ear, "LOST +a/1= BACK ");
	raw_close(&raw);

	/* An optional one. Others' changes to its key are unknown. */
	accept_next(play, &raw);
	message = expect_watch(&raw, "a/", false);
	fake_agree(&raw, message);
	dfi__wire_free(message);
	expect_put(&raw, "key");
	expect_put(&raw, "shared");
	refuse(&raw, expect_watch(&raw, "shared", true));
	ear_expect(&play->ear, "LOST +a/1= BACK LOST BACK -a/1 ");
	raw_close(&raw);

	/* So it is set again until another answer comes. */
	accept_next(play, &raw);
	message = expect_watch(&raw, "a/", false);
	fake_agree(&raw, message);
	dfi__wire_free(message);
	expect_put(&raw, "key");
	expect_put(&raw, "shared");
	sem_wait(&play->back);
	raw_close(&raw);
}

Test(restore_again, a_watch_that_is_not_needed_may_be_refused)
{
	struct play play = { .lease_ms = 0 };
	struct registry_watch *needed;

	start_play(&play, be_short_of_watches);
	dfi__client_set_grace(owner, 100);
	create_text(owner, "shared", "value", CLIENT_SHARED);
	cr_assert_eq(dfi__client_watch(
			 owner, "a/", ear_hear, &play.ear, soon(), &needed),
	    0);
	sem_post(&play.back);
	pthread_join(play.fake.thread, NULL);
	play.fake.script = NULL;
	end_play(&play);
}

/* ---- A connection that breaks before the registry notices ---------------- */

struct relay {
	struct play play;
	const char *address; /* of the registry */
};

static void pass_on(struct raw *client, struct raw *to, bool answers)
{
	Dfi__Registry__Message *request = fake_receive(client), *reply;

	to->last_id = request->request->id - 1;
	raw_send(to, request->request);
	reply = raw_read(to);
	cr_assert_not_null(reply);
	if (answers)
		raw_send_reply(client, reply->reply);
	dfi__wire_free(request);
	dfi__wire_free(reply);
}

static void break_before_an_answer(struct raw *first, void *arg)
{
	struct relay *relay = arg;
	struct raw old, new, raw;
	int i;

	/* A handshake, a lease, a key, and the key once more. */
	raw_connect(&old, relay->address);
	for (i = 0; i < 4; i++)
		pass_on(first, &old, i < 3);
	sem_wait(&relay->play.forgotten);
	cr_assert_eq(raw_put_leased(&old, "old"), 0);
	shutdown(first->fd, SHUT_RDWR);

	accept_next(&relay->play, &raw);
	raw_connect(&new, relay->address);
	for (i = 0; i < 3; i++)
		pass_on(&raw, &new, true);
	raw_close(&old);
	sem_wait(&relay->play.back);
	raw_close(&raw);
	raw_close(&new);
}

/* Up to where it has a client at the relay, which itself watches. */
static struct registry_client *start_relay(
    struct relay *relay, void (*script)(struct raw *first, void *arg))
{
	struct registry_client *client;

	relay->address = fresh_address("socket");
	lines_collect();
	ear_init(&ear);
	sem_init(&relay->play.greeting, 0, 0);
	sem_init(&relay->play.forgotten, 0, 0);
	sem_init(&relay->play.back, 0, 0);
	registry = start_at(relay->address);
	fake_start(&relay->play.fake, script, relay);
	loop = start_loop();
	watcher = open_client(loop, registry);
	cr_assert_eq(
	    dfi__client_watch(watcher, "", ear_hear, &ear, soon(), &watch), 0);
	cr_assert_eq(dfi__client_open(loop, relay->play.fake.address, NULL, 0,
			 soon(), &client),
	    0, "%s", dfi_errmsg());
	return client;
}

static void end_relay(struct relay *relay, struct registry_client *client)
{
	sem_post(&relay->play.back);
	dfi__client_close(client);
	fake_stop(&relay->play.fake);
	dfi__client_close(watcher);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

/*
 * A put was given up, the registry has its value, and a lease that has not
 * ended. The key still belongs to its setter, with the value that it assumes.
 */
Test(restore_again, a_key_whose_last_put_was_not_answered_stays)
{
	struct relay relay = { .address = NULL };
	struct registry_client *client;

	client = start_relay(&relay, break_before_an_answer);
	create_text(client, "key", "a", CLIENT_LEASED);
	cr_assert_eq(dfi__client_put(client, "key", "b", 1, CLIENT_LEASED,
			 deadline_in_ms(100), NULL),
	    -ETIMEDOUT);
	ear_expect(&ear, "+key=a +key=b ");
	sem_post(&relay.play.forgotten);
	lines_wait("is back");
	ear_expect(&ear, "+key=a +key=b +old= +key=a -old ");
	expect_text(watcher, "key", "a");
	cr_assert_eq(lines_count("somebody else's"), 0);
	end_relay(&relay, client);
}

static void keep_the_old_one(struct raw *first, void *arg)
{
	struct relay *relay = arg;
	struct raw old, new, raw;
	int i;

	/* A handshake, a lease, and two keys. */
	raw_connect(&old, relay->address);
	for (i = 0; i < 4; i++)
		pass_on(first, &old, true);
	sem_wait(&relay->play.greeting);
	shutdown(first->fd, SHUT_RDWR);

	accept_next(&relay->play, &raw);
	raw_connect(&new, relay->address);
	sem_wait(&relay->play.forgotten);
	/* A handshake, a lease, a key, that this is all, and the other key. */
	for (i = 0; i < 5; i++)
		pass_on(&raw, &new, true);
	cr_assert_null(raw_read(&old));
	sem_wait(&relay->play.back);
	raw_close(&old);
	raw_close(&raw);
	raw_close(&new);
}

/* The registry lives, and has not noticed that the old connection is gone. */
Test(restore_again, a_key_that_was_given_up_meanwhile_goes)
{
	struct relay relay = { .address = NULL };
	struct registry_client *client;

	client = start_relay(&relay, keep_the_old_one);
	create_text(client, "kept", "a", CLIENT_LEASED);
	create_text(client, "closed", "a", CLIENT_LEASED);
	sem_post(&relay.play.greeting);
	lines_wait("is lost");
	dfi__client_retire(client, "closed", "last", 4);
	sem_post(&relay.play.forgotten);
	lines_wait("is back");
	ear_expect(&ear, "+kept=a +closed=a +kept=a -closed ");
	/* It can be had again at once. */
	create_text(client, "closed", "b", CLIENT_LEASED);
	ear_expect(&ear, "+kept=a +closed=a +kept=a -closed +closed=b ");
	end_relay(&relay, client);
}
