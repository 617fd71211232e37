/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of a load; see load.h. Latencies cover every request. In an open
 * loop they begin when the request is due, even if it is sent later. A request
 * that has not ended by the end of the run counts with its time so far. Only
 * refused requests are left out, and counted by themselves.
 */
#include "load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../../common/complain.h"

#define LONGEST_WAIT_NS 1000000
#define DRAIN_NS UINT64_C(2000000000) /* for what is outstanding at the end */
#define FILL_NS UINT64_C(60000000000) /* without any progress */

struct lane {
	uint64_t begin_ns;
	uint64_t record;
	bool busy, update;
};

/* A client that runs. Its backend tells it of requests by request_done(). */
struct client {
	const struct load_plan *plan;
	struct load_board *board;
	struct load_share *share;
	void *store; /* of the back-end */
	struct load_keys keys;
	struct load_random random;
	struct lane *lanes;
	uint32_t *free; /* lanes without a request, a stack */
	uint32_t n_free;
	char *value;
	uint64_t values; /* written so far: makes each one different */
	uint64_t now;
	uint64_t start, end;    /* of the measured time; end 0: filling */
	double due_ns, step_ns; /* open loop: of the next request */
	uint64_t cpu_begin;
	uint64_t progress_ns; /* when a request last ended, while filling */
};

static const struct load_mix mixes[] = {
	{ "a", 0.5, LOAD_ZIPF },
	{ "b", 0.95, LOAD_ZIPF },
	{ "c", 1, LOAD_ZIPF },
	{ "95/5", 0.95, LOAD_UNIFORM },
};

const struct load_mix *load_mix_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(mixes) / sizeof(*mixes); i++)
		if (strcmp(mixes[i].name, name) == 0)
			return &mixes[i];
	return NULL;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t load_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static bool measured(const struct client *client, uint64_t when)
{
	return when >= client->start && when < client->end;
}

/* Each value begins with its key, so that a wrong one is noticed. */
static bool value_right(const struct client *client, const struct lane *lane,
    const char *value, size_t size)
{
	char key[LOAD_KEY_SIZE];

	load_key_text(key, lane->record);
	return size == client->plan->value_size &&
	    memcmp(value, key, size < sizeof(key) ? size : sizeof(key)) == 0;
}

static void count_outcome(struct client *client, const struct lane *lane,
    enum load_outcome outcome, const char *value, size_t size)
{
	struct load_share *share = client->share;

	switch (outcome) {
	case LOAD_OK:
		if (!lane->update && !value_right(client, lane, value, size))
			share->wrong++;
		break;
	case LOAD_MISSING:
		share->missing++;
		break;
	case LOAD_UNKNOWN:
		share->unknown++;
		break;
	case LOAD_REFUSED:
		share->refused++;
		break;
	}
}

static void count_latency(struct client *client, const struct lane *lane)
{
	if (measured(client, lane->begin_ns))
		histogram_add(&client->share->latency[lane->update],
		    client->now - lane->begin_ns);
}

static void count_completion(struct client *client)
{
	struct load_share *share = client->share;
	_Atomic uint32_t *slot;

	if (!measured(client, client->now))
		return;
	share->completed++;
	/* Only this client writes; its leader reads meanwhile. */
	slot = &share->slots[(client->now - client->start) / LOAD_SLOT_NS];
	atomic_store_explicit(slot,
	    atomic_load_explicit(slot, memory_order_relaxed) + 1,
	    memory_order_relaxed);
}

static void request_done(void *arg, uint32_t number, enum load_outcome outcome,
    const char *value, size_t size)
{
	struct client *client = arg;
	struct lane *lane = &client->lanes[number];

	client->now = load_now();
	client->progress_ns = client->now;
	lane->busy = false;
	client->free[client->n_free++] = number;
	count_outcome(client, lane, outcome, value, size);
	if (!client->end || outcome == LOAD_REFUSED)
		return;
	/* A request without an answer has been waited for as well. */
	count_latency(client, lane);
	if (outcome != LOAD_UNKNOWN)
		count_completion(client);
}

/* Begin a request on a free lane. Returns as the back-end's submit(). */
static int begin(
    struct client *client, uint64_t record, bool update, uint64_t begin_ns)
{
	char key[LOAD_KEY_SIZE];
	uint32_t number = client->free[client->n_free - 1];
	struct lane *lane = &client->lanes[number];
	struct load_request request = { .key = key, .key_size = sizeof(key) };
	size_t size = client->plan->value_size;
	int ret;

	load_key_text(key, record);
	if (update) {
		memcpy(client->value, key,
		    size < sizeof(key) ? size : sizeof(key));
		client->values++;
		if (size >= sizeof(key) + sizeof(client->values))
			memcpy(client->value + sizeof(key), &client->values,
			    sizeof(client->values));
		request.value = client->value;
		request.value_size = size;
	}
	ret = client->plan->backend->submit(client->store, number, &request);
	if (ret <= 0)
		return ret;
	client->n_free--;
	*lane = (struct lane){
		.begin_ns = begin_ns,
		.record = record,
		.busy = true,
		.update = update,
	};
	return 1;
}

/* Write this client's part of the records: each n-th. */
static int fill(struct client *client, uint32_t number)
{
	const struct load_plan *plan = client->plan;
	uint64_t record = number;
	int ret;

	client->progress_ns = load_now();
	while (record < plan->records || client->n_free < plan->outstanding) {
		while (record < plan->records && client->n_free > 0) {
			ret = begin(client, record, true, load_now());
			if (ret < 0)
				return -1;
			if (ret == 0)
				break;
			record += plan->clients;
		}
		if (plan->backend->poll(client->store, LONGEST_WAIT_NS))
			return -1;
		if (load_now() > client->progress_ns + FILL_NS)
			return complain("no answer of the store for %d s while "
					"it is filled",
			    (int)(FILL_NS / 1000000000));
	}
	if (client->share->unknown || client->share->refused)
		return complain("the store could not be filled: of %ju "
				"writes, %ju were refused and %ju got no "
				"answer",
		    (uintmax_t)(plan->records / plan->clients),
		    (uintmax_t)client->share->refused,
		    (uintmax_t)client->share->unknown);
	return 0;
}

/* Begin the requests that are due and have a lane. 0, or -1. */
static int begin_all(struct client *client, bool more)
{
	const struct load_plan *plan = client->plan;
	uint64_t when;
	int ret;

	while (client->n_free > 0) {
		when = client->now;
		if (plan->rate > 0) {
			when = (uint64_t)client->due_ns;
			/*
			 * Requests that were due before the end are still sent.
			 */
			if (when > client->now || when >= client->end)
				return 0;
		} else if (!more) {
			return 0;
		}
		ret = begin(client, load_keys_next(&client->keys),
		    load_random_real(&client->random) >= plan->mix.reads, when);
		if (ret <= 0)
			return ret;
		client->due_ns += client->step_ns;
	}
	return 0;
}

static uint64_t wait_of(const struct client *client)
{
	double wait = LONGEST_WAIT_NS;

	if (client->step_ns > 0 && client->n_free > 0)
		wait = client->due_ns - (double)client->now;
	if (wait < 0)
		return 0;
	return wait < LONGEST_WAIT_NS ? (uint64_t)wait : LONGEST_WAIT_NS;
}

static bool all_done(const struct client *client)
{
	return client->n_free == client->plan->outstanding &&
	    (client->step_ns <= 0 || client->due_ns >= (double)client->end);
}

/* Before the measured time, in it, and after it until all have ended. */
static int make_requests(struct client *client)
{
	bool begun = false, ended = false;

	client->now = load_now();
	while (!ended || !all_done(client)) {
		if (!begun && client->now >= client->start) {
			begun = true;
			client->cpu_begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		}
		if (!ended && client->now >= client->end) {
			ended = true;
			client->share->cpu_ns = clock_ns(
						    CLOCK_PROCESS_CPUTIME_ID) -
			    client->cpu_begin;
		}
		if (client->now >= client->end + DRAIN_NS)
			break;
		if (begin_all(client, !ended) ||
		    client->plan->backend->poll(client->store, wait_of(client)))
			return -1;
		client->now = load_now();
	}
	return 0;
}

static void count_one_unfinished(
    struct client *client, bool update, uint64_t begin_ns)
{
	if (!measured(client, begin_ns))
		return;
	client->share->unfinished++;
	histogram_add(&client->share->latency[update], client->now - begin_ns);
}

static void count_unfinished(struct client *client)
{
	const struct load_plan *plan = client->plan;
	uint32_t i;

	for (i = 0; i < plan->outstanding; i++)
		if (client->lanes[i].busy)
			count_one_unfinished(client, client->lanes[i].update,
			    client->lanes[i].begin_ns);
	if (client->step_ns <= 0)
		return;
	for (; client->due_ns < (double)client->end;
	     client->due_ns += client->step_ns)
		count_one_unfinished(client,
		    load_random_real(&client->random) >= plan->mix.reads,
		    (uint64_t)client->due_ns);
}

/* Wait until the leader says when to start. */
static int await_start(struct client *client, uint32_t number)
{
	static const struct timespec interval = { .tv_nsec = 200000 };
	const struct load_plan *plan = client->plan;
	uint64_t start;

	atomic_store_explicit(
	    &client->share->state, LOAD_READY, memory_order_release);
	/* Pairs with the store in load_group.c. Sessions stay alive by poll. */
	while (!(start = atomic_load_explicit(
		     &client->board->start_ns, memory_order_acquire))) {
		if (plan->backend->poll(client->store, 0))
			return -1;
		nanosleep(&interval, NULL);
	}
	client->start = start + plan->warm_up_ns;
	client->end = client->start + plan->length_ns;
	if (plan->rate > 0) {
		client->step_ns = 1e9 * plan->clients / plan->rate;
		client->due_ns = (double)start +
		    client->step_ns * number / plan->clients;
	}
	return 0;
}

static int run(struct client *client, uint32_t number)
{
	const struct load_plan *plan = client->plan;
	uint32_t i;

	client->lanes = calloc(plan->outstanding, sizeof(*client->lanes));
	client->free = calloc(plan->outstanding, sizeof(*client->free));
	client->value = malloc(LOAD_MAX_VALUE);
	if (!client->lanes || !client->free || !client->value)
		return complain("no memory for %u lanes", plan->outstanding);
	memset(client->value, 'v', LOAD_MAX_VALUE);
	for (i = 0; i < plan->outstanding; i++)
		client->free[client->n_free++] = plan->outstanding - 1 - i;
	load_keys_init(&client->keys, plan->mix.distribution, plan->records,
	    plan->theta, plan->seed * 1000 + number);
	client->random.state = ~(plan->seed * 1000 + number);
	client->store = plan->backend->open(
	    plan->where, number, plan->outstanding, request_done, client);
	if (!client->store)
		return -1;
	if ((plan->fill && fill(client, number)) ||
	    await_start(client, number) || make_requests(client))
		return -1;
	count_unfinished(client);
	atomic_store_explicit(
	    &client->share->state, LOAD_ENDED, memory_order_release);
	return 0;
}

int load_client(
    const struct load_plan *plan, uint32_t number, struct load_board *board)
{
	struct client client = {
		.plan = plan,
		.board = board,
		.share = load_share_of(board, number),
	};
	int ret = run(&client, number);

	if (client.store)
		plan->backend->close(client.store);
	free(client.lanes);
	free(client.free);
	free(client.value);
	return ret;
}
