/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining and leaving: requests that go out together, requests without a reply,
 * and keys that their owners also watch.
 */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include <dfi/error.h>

#include "registry_help.h"

static struct dfi_registry *registry;
static struct loop *loop;
static struct registry_client *client, *other;
static struct ear ear;

static void setup(void)
{
	ear_init(&ear);
	cr_assert_eq(dfi_registry_start(NULL, &registry), 0);
	loop = start_loop();
	client = open_client(loop, registry);
	other = open_client(loop, registry);
}

static void teardown(void)
{
	dfi__client_close(client);
	dfi__client_close(other);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

TestSuite(join, .init = setup, .fini = teardown);
TestSuite(join_faults);
TestSuite(wire_join, .init = setup, .fini = teardown);

static void put(const char *key, const char *value)
{
	cr_assert_eq(
	    dfi__client_put(other, key, value, strlen(value), 0, soon(), NULL),
	    0);
}

static int join(
    const char *key, int64_t deadline, struct registry_watch **watch)
{
	struct registry_entry entry = { .key = key, .value = "me", .size = 2 };
	struct registry_interest interest = {
		.prefix = "p/",
		.fn = ear_hear,
		.arg = &ear,
	};
	int ret = dfi__client_join(client, &interest, 1, &entry, deadline);

	if (!ret)
		*watch = interest.watch;
	return ret;
}

Test(join, whoever_joins_may_watch_one_key_besides)
{
	struct registry_entry entry = {
		.key = "p/2", .value = "me", .size = 2
	};
	struct ear key_ear;
	struct registry_interest interests[] = {
		{ .prefix = "p/", .fn = ear_hear, .arg = &ear },
		{ .prefix = "p",
		    .exact = true,
		    .fn = ear_hear,
		    .arg = &key_ear },
	};

	ear_init(&key_ear);
	put("p", "a");
	cr_assert_eq(dfi__client_join(client, interests, 2, &entry, soon()), 0);
	ear_expect(&key_ear, "+p=a ");
	cr_assert_eq(dfi__client_delete(other, "p", 0, soon()), 0);
	ear_expect(&key_ear, "+p=a -p ");
	ear_expect(&ear, "+p/2=me ");
	/* The key is taken: then there is neither watch. */
	cr_assert_eq(
	    dfi__client_join(client, interests, 2, &entry, soon()), -EEXIST);
	put("p", "b");
	ear_expect(&key_ear, "+p=a -p +p=b ");
	dfi__client_unwatch(interests[0].watch);
	dfi__client_unwatch(interests[1].watch);
}

Test(join, whoever_joins_hears_of_those_before_and_after)
{
	struct registry_watch *watch;
	struct registry_value value;

	put("p/1", "a");
	cr_assert_eq(join("p/2", soon(), &watch), 0, "%s", dfi_errmsg());
	put("p/3", "b");
	ear_expect(&ear, "+p/1=a +p/2=me +p/3=b ");
	cr_assert_eq(dfi__client_get(other, "p/2", soon(), &value), 0);
	dfi__registry_value_free(&value);
	dfi__client_leave(watch, "p/2");
	/* Of the same client: in order. */
	cr_assert_eq(dfi__client_get(client, "p/2", soon(), &value), -ENOENT);
	put("p/4", "");
	cr_assert_eq(dfi__client_get(client, "p/4", soon(), &value), 0);
	dfi__registry_value_free(&value);
	cr_assert_str_eq(ear.log, "+p/1=a +p/2=me +p/3=b ");
}

Test(join, who_finds_his_key_taken_does_not_watch)
{
	struct registry_watch *watch = NULL, *control;
	struct registry_value value;
	struct ear all;

	ear_init(&all);
	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &all, soon(), &control), 0);
	put("p/1", "a");
	cr_assert_eq(join("p/1", soon(), &watch), -EEXIST);
	cr_assert_not_null(strstr(dfi_errmsg(), "p/1"), "%s", dfi_errmsg());
	cr_assert_null(watch);
	put("p/2", "b");
	ear_expect(&all, "+p/1=a +p/2=b ");
	cr_assert_str_eq(ear.log, "+p/1=a ");
	cr_assert_eq(dfi__client_get(client, "p/1", soon(), &value), 0);
	cr_assert_str_eq(value.data, "a");
	dfi__registry_value_free(&value);
	dfi__client_unwatch(control);
}

Test(join, a_key_that_is_refused_leaves_no_watch)
{
	static char key[600];
	struct registry_watch *watch = NULL;

	memset(key, 'k', sizeof(key) - 1);
	cr_assert_eq(join(key, soon(), &watch), -EMSGSIZE);
	cr_assert_null(watch);
	put("p/1", "a");
	cr_assert_eq(dfi__client_delete(client, "p/1", 0, soon()), 0);
	cr_assert_str_eq(ear.log, "");
}

Test(join, without_a_registry_neither_is_made)
{
	struct registry_watch *watch = NULL, *lasting;
	struct ear loss;

	ear_init(&loss);
	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &loss, soon(), &lasting),
	    0);
	dfi_registry_stop(registry);
	registry = NULL;
	ear_expect(&loss, "LOST ");
	cr_assert_eq(join("p/1", soon(), &watch), -ENOTCONN);
	cr_assert_null(watch);
	cr_assert_str_eq(ear.log, "");
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

struct late_join {
	sem_t given_up, undone;
	uint64_t unwatched;
	char deleted[64];
	bool unanswered;
};

static void agree_late(struct raw *raw, void *arg)
{
	struct late_join *late = arg;
	Dfi__Registry__Message *watch, *create, *unwatch, *undo;

	agree_to_opening(raw);
	watch = fake_receive(raw);
	create = fake_receive(raw);
	sem_wait(&late->given_up);
	unwatch = fake_receive(raw);
	if (unwatch->request->op_case == DFI__REGISTRY__REQUEST__OP_UNWATCH &&
	    unwatch->request->unwatch->watch == watch->request->id)
		late->unwatched = unwatch->request->unwatch->watch;
	fake_agree(raw, watch);
	fake_agree(raw, create);
	undo = fake_receive(raw);
	if (undo->request->op_case == DFI__REGISTRY__REQUEST__OP_DELETE) {
		snprintf(late->deleted, sizeof(late->deleted), "%s",
		    undo->request->delete_->key);
		late->unanswered = undo->request->delete_->unanswered;
	}
	sem_post(&late->undone);
	dfi__wire_free(watch);
	dfi__wire_free(create);
	dfi__wire_free(unwatch);
	dfi__wire_free(undo);
	dfi__wire_free(raw_read(raw)); /* the lease is given back */
}

Test(join_faults, what_is_answered_too_late_is_taken_back)
{
	struct late_join late = { .unwatched = 0 };
	struct registry_watch *watch = NULL;
	struct fake fake;

	ear_init(&ear);
	sem_init(&late.given_up, 0, 0);
	sem_init(&late.undone, 0, 0);
	fake_start(&fake, agree_late, &late);
	loop = start_loop();
	cr_assert_eq(
	    dfi__client_open(loop, fake.address, NULL, 0, soon(), &client), 0);
	cr_assert_eq(join("p/late", deadline_in_ms(50), &watch), -ETIMEDOUT);
	cr_assert_null(watch);
	sem_post(&late.given_up);
	sem_wait(&late.undone);
	dfi__client_close(client);
	stop_loop(loop);
	fake_stop(&fake);
	cr_assert_neq(late.unwatched, 0);
	cr_assert_str_eq(late.deleted, "p/late");
	cr_assert(late.unanswered);
}

static void connect_greeted(struct raw *raw)
{
	raw_connect(raw, dfi_registry_address(registry));
	cr_assert_eq(raw_handshake(raw, WIRE_VERSION), 0);
}

static void expect_event(struct raw *raw, uint64_t watch,
    Dfi__Registry__EventType type, const char *key)
{
	Dfi__Registry__Message *message = raw_read(raw);

	cr_assert_not_null(message);
	cr_assert_eq(message->body_case, DFI__REGISTRY__MESSAGE__BODY_EVENT);
	cr_assert_eq(message->event->watch, watch);
	cr_assert_eq(message->event->type, type);
	cr_assert_str_eq(message->event->value->key, key);
	dfi__wire_free(message);
}

/* The reply to what comes next is the next message: there was none before. */
Test(wire_join, unwatch_and_an_unanswered_delete_have_no_reply)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Unwatch unwatch = DFI__REGISTRY__UNWATCH__INIT;
	Dfi__Registry__Delete delete = DFI__REGISTRY__DELETE__INIT;
	Dfi__Registry__Get get = DFI__REGISTRY__GET__INIT;
	struct raw raw;

	connect_greeted(&raw);
	put("key", "");
	unwatch.watch = 77;
	request.op_case = DFI__REGISTRY__REQUEST__OP_UNWATCH;
	request.unwatch = &unwatch;
	raw_send(&raw, &request);
	delete.key = "key";
	delete.unanswered = true;
	request.op_case = DFI__REGISTRY__REQUEST__OP_DELETE;
	request.delete_ = &delete;
	raw_send(&raw, &request);
	raw_send(&raw, &request); /* an error, this time */
	get.key = "key";
	request.op_case = DFI__REGISTRY__REQUEST__OP_GET;
	request.get = &get;
	cr_assert_eq(raw_ask(&raw, &request), -ENOENT);
	raw_close(&raw);
}

Test(wire_join, a_key_can_be_put_and_followed)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Put op = DFI__REGISTRY__PUT__INIT;
	struct raw raw;
	uint64_t id;

	connect_greeted(&raw);
	op.key = "key";
	op.create = op.follow = true;
	request.op_case = DFI__REGISTRY__REQUEST__OP_PUT;
	request.put = &op;
	cr_assert_eq(raw_ask(&raw, &request), 0);
	id = request.id;
	/* Neither a longer key nor a failed put is followed. */
	put("key/more", "");
	cr_assert_eq(raw_ask(&raw, &request), -EEXIST);
	put("key", "");
	expect_event(&raw, id, DFI__REGISTRY__EVENT_TYPE__PUT, "key");
	cr_assert_eq(dfi__client_delete(other, "key", 0, soon()), 0);
	expect_event(&raw, id, DFI__REGISTRY__EVENT_TYPE__DELETE, "key");
	raw_close(&raw);
}

Test(wire_join, a_watch_of_one_key_begins_with_that_key)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Watch op = DFI__REGISTRY__WATCH__INIT;
	Dfi__Registry__Message *message;
	struct raw raw;

	connect_greeted(&raw);
	put("key", "");
	put("key/more", "");
	op.prefix = "key";
	op.exact = true;
	request.op_case = DFI__REGISTRY__REQUEST__OP_WATCH;
	request.watch = &op;
	raw_send(&raw, &request);
	expect_event(&raw, request.id, DFI__REGISTRY__EVENT_TYPE__PUT, "key");
	message = raw_read(&raw);
	cr_assert_not_null(message);
	cr_assert_eq(message->body_case, DFI__REGISTRY__MESSAGE__BODY_REPLY);
	cr_assert_eq(message->reply->error, 0);
	dfi__wire_free(message);
	raw_close(&raw);
}
