/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for peers of a flow whose creator leaves meanwhile. From inside,
 * because nobody sees from outside when dfi_source_open() waits.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/dfi.h>

#include "base/clock.h"
#include "flows/members/attach.h"
#include "flows/context/context.h"
#include "flows/members/peers.h"
#include "registry/remote/watch.h"

static struct dfi_registry *registry;
static struct dfi *creator, *dfi;
static struct flow flow;
static struct peers targets;

static int64_t soon(void)
{
	return deadline_in_ms(60000);
}

/* Two targets are to come; nobody has opened them. */
static void setup(void)
{
	static const struct dfi_field fields[] = {
		{ "key", NULL, DFI_UINT64, 0, 8, 0 },
	};
	static const struct dfi_schema schema = {
		.fields = fields,
		.n_fields = 1,
		.tuple_size = 8,
	};
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_flow_attr flow_attr = {
		.size = sizeof(flow_attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = 1,
		.n_targets = 2,
	};

	cr_assert_eq(dfi_registry_start(NULL, &registry), 0);
	attr.registry = dfi_registry_address(registry);
	attr.node_name = "creator";
	cr_assert_eq(dfi_open(&attr, &creator), 0, "%s", dfi_errmsg());
	attr.node_name = "other";
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_flow_create(creator, "f", &flow_attr), 0);
	cr_assert_eq(
	    dfi__attach_find(dfi, "f", "source", 0, NULL, soon(), &flow), 0);
	cr_assert_eq(
	    dfi__peers_open(&targets, dfi, &flow, "target", soon()), 0);
}

static void teardown(void)
{
	dfi__peers_close(&targets, NULL);
	dfi__flow_free(&flow);
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(peers, .init = setup, .fini = teardown, .timeout = 300);

struct waiter {
	pthread_t thread;
	int ret;
	char text[512];
};

static void *await(void *arg)
{
	struct waiter *waiter = arg;

	waiter->ret = dfi__peers_await(&targets, soon());
	strncpy(waiter->text, dfi_errmsg(), sizeof(waiter->text) - 1);
	return NULL;
}

static void expect_gone_creator(int ret, const char *text)
{
	cr_assert_eq(ret, -ECONNRESET, "%s", text);
	cr_assert_not_null(
	    strstr(text, "flow 'f': its creator (node creator"), "%s", text);
	cr_assert_not_null(
	    strstr(text, "target 0 and 1 more of 2"), "%s", text);
}

Test(peers, are_not_waited_for_when_the_creator_has_gone)
{
	cr_assert_eq(dfi_close(creator), 0);
	expect_gone_creator(dfi__peers_await(&targets, soon()), dfi_errmsg());
}

Test(peers, are_not_waited_for_any_longer_when_the_creator_goes)
{
	struct waiter waiter = { .ret = 1 };

	cr_assert_eq(pthread_create(&waiter.thread, NULL, await, &waiter), 0);
	cr_assert_eq(dfi_close(creator), 0);
	pthread_join(waiter.thread, NULL);
	expect_gone_creator(waiter.ret, waiter.text);
}

/* The name is in use, but not by their flow. */
Test(peers, are_not_waited_for_when_another_flow_has_the_name)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = flow.schema,
		.n_sources = 1,
		.n_targets = 2,
	};

	cr_assert_eq(dfi_flow_remove(creator, "f"), 0);
	cr_assert_eq(dfi_flow_create(creator, "f", &attr), 0);
	expect_gone_creator(dfi__peers_await(&targets, soon()), dfi_errmsg());
	cr_assert_eq(dfi_close(creator), 0);
}

/* A received descriptor is used, though the flow may be gone by then. */
static void *find_other(void *arg)
{
	struct waiter *waiter = arg;
	struct flow found;

	waiter->ret = dfi__attach_find(
	    dfi, "g", "source", 0, NULL, soon(), &found);
	if (!waiter->ret)
		dfi__flow_free(&found);
	return NULL;
}

Test(peers, flow_that_lives_for_a_moment_is_found_by_who_waits)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = flow.schema,
		.n_sources = 1,
		.n_targets = 2,
	};
	struct waiter waiter = { .ret = 1 };

	cr_assert_eq(
	    pthread_create(&waiter.thread, NULL, find_other, &waiter), 0);
	while (pthread_tryjoin_np(waiter.thread, NULL) == EBUSY) {
		cr_assert_eq(dfi_flow_create(creator, "g", &attr), 0);
		cr_assert_eq(dfi_flow_remove(creator, "g"), 0);
	}
	cr_assert_eq(waiter.ret, 0);
	cr_assert_eq(dfi_close(creator), 0);
}

/* ---- Registries that were restarted -------------------------------------- */

static void notify_targets(const struct registry_event *event)
{
	struct remote_watch *watch = (struct remote_watch *)targets.watch;

	watch->fn(watch->arg, event);
}

/* The registry's news of target 0 while that is unknown, or unknown again. */
static void put_target(const struct endpoint *endpoint)
{
	struct registry_event event = { .type = REGISTRY_PUT };
	char key[KEY_SIZE];
	size_t size;
	void *data = dfi__endpoint_encode(endpoint, &size);

	cr_assert_not_null(data);
	dfi__endpoint_key(key, &flow, "target", 0);
	event.key = key;
	event.data = data;
	event.size = size;
	notify_targets(&event);
	free(data);
}

/* It was gone with the registry, and comes back with another value. */
static void put_replaced(const struct endpoint *endpoint)
{
	struct registry_event event = {
		.type = REGISTRY_DELETE,
		.replaced = true,
	};
	char key[KEY_SIZE];

	dfi__endpoint_key(key, &flow, "target", 0);
	event.key = key;
	notify_targets(&event);
	put_target(endpoint);
}

static struct endpoint make_target(void)
{
	return (struct endpoint){
		.node = dfi->node,
		.region = { .size = 4096,
		    .n_addresses = 1,
		    .addresses[0] = { &dfi__transports[0],
			{ "@x", 7, 4096 } } },
	};
}

Test(peers, one_that_changed_its_entry_meanwhile_is_not_gone)
{
	struct endpoint endpoint = make_target();

	put_target(&endpoint);
	cr_assert_eq(peers_state(&targets, 0), PEER_PRESENT);
	endpoint.done = true;
	put_replaced(&endpoint);
	cr_assert_eq(peers_state(&targets, 0), PEER_PRESENT);
	cr_assert(atomic_load(&targets.peer[0].done));
	endpoint.cancelled = true;
	put_replaced(&endpoint);
	cr_assert_eq(peers_state(&targets, 0), PEER_CANCELLED);
	cr_assert_eq(dfi_close(creator), 0);
}

Test(peers, one_in_whose_place_is_another_is_gone)
{
	struct endpoint endpoint = make_target();

	put_target(&endpoint);
	endpoint.region.addresses[0].name.key = 8;
	put_replaced(&endpoint);
	cr_assert_eq(peers_state(&targets, 0), PEER_GONE);
	cr_assert_eq(dfi_close(creator), 0);
}
