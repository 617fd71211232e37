/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library over links of this test. They are up at once, a replica at
 * the other end leads and answers, and events come in an order that is rare
 * with real links. Time passes while the client waits.
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
#define MAX_SENT 64
#define MS UINT64_C(1000000)

struct link {
	struct links *links;
	struct link_setup setup;
	bool reported, gone;
	_Alignas(struct kv_message) char room[KV_MAX_MESSAGE];
};

struct links {
	struct links_ops ops;
	void *arg;
	struct link all[MAX_LINKS];
	unsigned n;
	bool greet; /* the replica owes a handshake */
	bool owes;  /* an answer to the request that was asked */
	struct kv_command asked;
};

static bool touched_gone;
static bool no_random;
static uint64_t clock_now = 1000 * MS;
static unsigned n_refusals; /* that the replica answers first */
static bool majority_lost;  /* says the replica, which no longer leads */
static uint8_t last_status;
static uint64_t sent_at[MAX_SENT];
static unsigned n_sent;

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
	return clock_now;
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

unsigned link_seat(const struct link *link)
{
	touch(link);
	return 0;
}

void *link_begin(struct link *link, size_t size)
{
	touch(link);
	return size <= sizeof(link->room) ? link->room : NULL;
}

void link_send(struct link *link, size_t size)
{
	const struct kv_message *message = (const void *)link->room;

	struct links *links = link->links;

	touch(link);
	links->greet |= size && message->type == KV_HANDSHAKE;
	if (!size || message->type != KV_REQUEST)
		return;
	links->owes = true;
	memcpy(&links->asked, message->body, sizeof(links->asked));
	if (links->asked.op != KV_REGISTER && n_sent < MAX_SENT)
		sent_at[n_sent++] = clock_now;
}

void links_flush(struct links *links)
{
	(void)links;
}

/* The replica sends over the first link that receives here. */
static void say(struct links *links, const struct kv_message *message)
{
	unsigned i = 0;

	while (links->all[i].setup.kind != LINK_OPEN_IN)
		i++;
	links->ops.receive(links->arg, &links->all[i], 0,
	    (const char *)(const void *)message, sizeof(*message));
}

static void send_handshake(struct links *links)
{
	struct kv_message handshake = {
		.size = sizeof(handshake),
		.type = KV_HANDSHAKE,
		.ballot = 1,
		.argument = 1, /* replica 0 leads */
	};

	if (majority_lost) {
		handshake.argument = 0;
		handshake.status = KV_LOST;
	}

	say(links, &handshake);
}

/* A session, a refusal as long as there are some left, or success. */
static void answer(struct links *links)
{
	struct kv_message reply = {
		.size = sizeof(reply),
		.type = KV_REPLY,
		.number = links->asked.number,
		.session = links->asked.session,
		.lane = links->asked.lane,
		.status = KV_OK,
	};

	if (links->asked.op == KV_REGISTER) {
		reply.session = 1;
	} else if (majority_lost) {
		reply.status = KV_NO_QUORUM;
	} else if (n_refusals) {
		n_refusals--;
		reply.status = KV_BUSY;
	}
	say(links, &reply);
}

unsigned links_poll(struct links *links, unsigned n)
{
	unsigned i;

	(void)n;
	for (i = 0; i < links->n; i++) {
		if (links->all[i].reported)
			continue;
		links->all[i].reported = true;
		links->ops.changed(links->arg, &links->all[i], true);
	}
	if (links->greet)
		send_handshake(links);
	links->greet = false;
	if (links->owes) {
		links->owes = false;
		answer(links);
	}
	return 0;
}

void links_wait(struct links *links, uint64_t until)
{
	if (!links->owes && !links->greet && until > clock_now)
		clock_now = until;
}

int links_fd(struct links *links)
{
	(void)links;
	return -1;
}

/* Each sending link is gone before the receiving one is reported down. */
void links_close(struct links *links)
{
	unsigned i;

	if (!links)
		return;
	for (i = 0; i < links->n; i++)
		links->all[i].gone = links->all[i].setup.kind == LINK_OPEN_OUT;
	for (i = 0; i < links->n; i++)
		if (!links->all[i].gone)
			links->ops.changed(links->arg, &links->all[i], false);
	free(links);
}

static void on_answer(void *arg, const struct kv_client_answer *answer)
{
	(void)arg;
	last_status = answer->status;
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

Test(client, asks_a_busy_leader_again_after_1_to_8_ms)
{
	struct kv_client_options options = {
		.n_replicas = 1,
		.done = on_answer,
	};
	struct kv_client_command command = {
		.op = KV_GET,
		.key = "k",
		.key_size = 1,
	};
	struct kv_client *client;
	unsigned i;

	cr_assert_eq(kv_client_open(&options, &client), 0);
	n_refusals = 20;
	cr_assert_eq(kv_client_submit(client, 0, &command, 0), 0);
	cr_assert_eq(kv_client_wait(client, 1000 * MS), 1);
	cr_assert_eq(n_sent, 21);
	for (i = 1; i < n_sent; i++)
		cr_assert_eq(sent_at[i] - sent_at[i - 1], (i < 8 ? i : 8) * MS,
		    "pause %u: %ju ns", i,
		    (uintmax_t)(sent_at[i] - sent_at[i - 1]));
	kv_client_close(client);
}

Test(client, open_says_that_a_majority_has_lost_its_data)
{
	struct kv_client_options options = {
		.n_replicas = 1,
		.done = on_answer,
	};
	struct kv_client *client = NULL;

	majority_lost = true;
	cr_assert_eq(kv_client_open(&options, &client), -ENOTRECOVERABLE);
	cr_assert_null(client);
	cr_assert(strstr(kv_client_error(), KV_NO_QUORUM_TEXT), "%s",
	    kv_client_error());
}

/* From before the loss, and while the client knows no leader. */
Test(client, a_command_ends_as_the_loss_of_a_majority_s_data)
{
	struct kv_client_options options = {
		.n_replicas = 1,
		.done = on_answer,
	};
	struct kv_client_command command = {
		.op = KV_GET,
		.key = "k",
		.key_size = 1,
	};
	struct kv_client *client;
	unsigned i;

	cr_assert_eq(kv_client_open(&options, &client), 0);
	majority_lost = true;
	for (i = 0; i < 2; i++) {
		last_status = KV_OK;
		cr_assert_eq(kv_client_submit(client, 0, &command, 0), 0);
		cr_assert_eq(kv_client_wait(client, 60000 * MS), 1);
		cr_assert_eq(
		    last_status, KV_NO_QUORUM, "status %u", last_status);
	}
	cr_assert_eq(n_sent, 1);
	/* A leader is there again. */
	majority_lost = false;
	cr_assert_eq(kv_client_submit(client, 0, &command, 0), 0);
	cr_assert_eq(kv_client_wait(client, 60000 * MS), 1);
	cr_assert_eq(last_status, KV_OK, "status %u", last_status);
	kv_client_close(client);
}
