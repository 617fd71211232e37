/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library over links that are made here: they are up at once, a
 * replica at their other end says hello, and they go in an order that real ones
 * take only sometimes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "examples/consensus/client.h"
#include "examples/consensus/links.h"
#include "examples/consensus/wire.h"

#define MAX_LINKS 4

struct link {
	struct links *links;
	struct link_setup setup;
	bool told, gone;
	_Alignas(struct kv_message) char room[KV_MAX_MESSAGE];
};

struct links {
	struct links_ops ops;
	void *arg;
	struct link all[MAX_LINKS];
	unsigned n;
	bool greet; /* the replica owes a hello */
};

static bool touched_gone;
static bool no_random;

/* In place of the C library's. */
ssize_t getrandom(void *to, size_t size, unsigned flags)
{
	(void)flags;
	if (no_random) {
		errno = ENOSYS;
		return -1;
	}
	memset(to, 0x5a, size);
	return (ssize_t)size;
}

uint64_t now_ns(void)
{
	static uint64_t now = 1000000000;

	return now += 1000000;
}

int links_open(const struct links_setup *setup, struct links **out)
{
	struct links *links = calloc(1, sizeof(*links));

	if (!links)
		return -ENOMEM;
	links->ops = setup->ops;
	links->arg = setup->arg;
	*out = links;
	return 0;
}

struct link *links_add(struct links *links, const struct link_setup *setup)
{
	struct link *link;

	if (links->n == MAX_LINKS)
		return NULL;
	link = &links->all[links->n++];
	link->links = links;
	link->setup = *setup;
	return link;
}

static void touch(const struct link *link)
{
	touched_gone |= link->gone;
}

void link_reset(struct link *link)
{
	touch(link);
}

void link_close(struct link *link)
{
	touch(link);
}

void *link_arg(const struct link *link)
{
	touch(link);
	return link->setup.arg;
}

void *link_begin(struct link *link, size_t size)
{
	touch(link);
	return size <= sizeof(link->room) ? link->room : NULL;
}

void link_send(struct link *link, size_t size)
{
	const struct kv_message *message = (const void *)link->room;

	touch(link);
	link->links->greet |= size && message->type == KV_HELLO;
}

void links_flush(struct links *links)
{
	(void)links;
}

/* The replica says hello on the first link that this process receives by. */
static void say_hello(struct links *links)
{
	struct kv_message hello = {
		.size = sizeof(hello),
		.type = KV_HELLO,
	};
	unsigned i = 0;

	while (links->all[i].setup.kind != LINK_IN)
		i++;
	links->ops.receive(links->arg, &links->all[i],
	    (const char *)(const void *)&hello, sizeof(hello));
}

unsigned links_poll(struct links *links, unsigned n)
{
	unsigned i;

	(void)n;
	for (i = 0; i < links->n; i++) {
		if (links->all[i].told)
			continue;
		links->all[i].told = true;
		links->ops.changed(links->arg, &links->all[i], true);
	}
	if (links->greet)
		say_hello(links);
	links->greet = false;
	return 0;
}

void links_wait(struct links *links, uint64_t until)
{
	(void)links;
	(void)until;
}

int links_fd(struct links *links)
{
	(void)links;
	return -1;
}

/* Each link that sends is gone before the one that receives is told as down. */
void links_close(struct links *links)
{
	unsigned i;

	if (!links)
		return;
	for (i = 0; i < links->n; i++)
		links->all[i].gone = links->all[i].setup.kind == LINK_OUT;
	for (i = 0; i < links->n; i++)
		if (!links->all[i].gone)
			links->ops.changed(links->arg, &links->all[i], false);
	free(links);
}

static void on_answer(void *arg, const struct kv_client_answer *answer)
{
	(void)arg;
	(void)answer;
}

static struct kv_client_options options_of_observer(void)
{
	return (struct kv_client_options){
		.n_replicas = 1,
		.observe = true,
		.done = on_answer,
	};
}

Test(client, close_leaves_links_alone_that_are_gone)
{
	struct kv_client_options options = options_of_observer();
	struct kv_client_stats stats;
	struct kv_client *client;

	cr_assert_eq(kv_client_open(&options, &client), 0);
	kv_client_query(client, &stats);
	cr_assert_eq(stats.connected, 1);
	kv_client_close(client);
	cr_assert_not(touched_gone);
}

Test(client, open_without_random_numbers_says_so)
{
	struct kv_client_options options = options_of_observer();
	struct kv_client *client = NULL;

	no_random = true;
	cr_assert_eq(kv_client_open(&options, &client), -ENOSYS);
	cr_assert_null(client);
	cr_assert(strstr(kv_client_error(), "random"), "%s", kv_client_error());
}
