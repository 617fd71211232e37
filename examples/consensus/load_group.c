/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients of a load as processes; see load_group.h. The leader forks them
 * before it opens a context. It waits for their end: each client limits its own
 * waits (load.c).
 */
#include "load_group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "../../common/complain.h"

#define STEP_NS 5000000
#define START_NS 20000000 /* from the word until all begin */

struct group {
	const struct load_plan *plan;
	struct load_board *board;
	size_t size; /* of the board */
	struct children children;
	uint32_t next; /* client to be forked */
};

static int child_main(void *arg)
{
	struct group *group = arg;

	return load_client(group->plan, group->next, group->board)
	    ? EXIT_FAILURE
	    : EXIT_SUCCESS;
}

static uint32_t slots_of(const struct load_plan *plan)
{
	return (uint32_t)(plan->length_ns / LOAD_SLOT_NS + 1);
}

/* Of a client, in whole cache lines. */
static size_t share_size(const struct load_plan *plan)
{
	size_t size = sizeof(struct load_share) +
	    slots_of(plan) * sizeof(uint32_t);

	return (size + 63) & ~(size_t)63;
}

uint64_t load_needs(const struct load_plan *plan)
{
	/* A request is kept until its answer, and its answer until votes. */
	const uint64_t request = 2 * (uint64_t)plan->value_size + 1024;

	return sizeof(struct load_board) +
	    plan->clients * (share_size(plan) + plan->outstanding * request) +
	    slots_of(plan) * sizeof(uint32_t);
}

static int make_board(struct group *group)
{
	const struct load_plan *plan = group->plan;
	size_t share = share_size(plan);

	group->size = sizeof(struct load_board) + share * plan->clients;
	group->board = mmap(NULL, group->size, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (group->board == MAP_FAILED) {
		group->board = NULL;
		return complain("no memory for the results of %u clients: %s",
		    plan->clients, strerror(errno));
	}
	group->board->share_size = share;
	group->board->n_slots = slots_of(plan);
	return 0;
}

static bool all_in(const struct group *group, enum load_state state)
{
	uint32_t i;

	/* Pairs with the stores in load.c. */
	for (i = 0; i < group->plan->clients; i++)
		if (atomic_load_explicit(&load_share_of(group->board, i)->state,
			memory_order_acquire) < state)
			return false;
	return true;
}

static void sleep_briefly(void)
{
	static const struct timespec step = { .tv_nsec = STEP_NS };

	nanosleep(&step, NULL);
}

static int start(struct group *group)
{
	char name[32];

	for (group->next = 0; group->next < group->plan->clients;
	     group->next++) {
		snprintf(name, sizeof(name), "client %u", group->next);
		if (children_fork(&group->children, name, child_main, group))
			return -1;
	}
	while (!all_in(group, LOAD_READY)) {
		if (children_check(&group->children))
			return -1;
		sleep_briefly();
	}
	return 0;
}

uint32_t load_slot(
    const struct load_plan *plan, struct load_board *board, uint32_t slot)
{
	uint32_t i, sum = 0;

	for (i = plan->apart ? 1 : 0; i < plan->clients; i++)
		sum += atomic_load_explicit(
		    &load_share_of(board, i)->slots[slot],
		    memory_order_relaxed);
	return sum;
}

/* Update *progress. next: the first slot that is not yet added. */
static void advance(const struct group *group, uint64_t begin, uint32_t *next,
    struct load_progress *progress)
{
	uint64_t now = load_now();
	uint64_t slot;

	if (now < begin)
		return;
	progress->elapsed_ns = now - begin;
	slot = progress->elapsed_ns / LOAD_SLOT_NS;
	for (; *next < slot && *next < group->board->n_slots; ++*next)
		progress->completed += load_slot(
		    group->plan, group->board, *next);
}

/* From the start until all clients have ended. */
static int follow(struct group *group,
    int (*watch)(void *arg, const struct load_progress *progress), void *arg,
    struct load_counts *counts)
{
	struct load_progress progress = { .board = group->board,
		.clients = &group->children };
	uint64_t begin = load_now() + START_NS, end;
	bool counting = false, counted = counts == NULL;
	uint32_t next = 0;

	atomic_store_explicit(
	    &group->board->start_ns, begin, memory_order_release);
	begin += group->plan->warm_up_ns;
	end = begin + group->plan->length_ns;
	while (!all_in(group, LOAD_ENDED)) {
		sleep_briefly();
		advance(group, begin, &next, &progress);
		if (!counted && !counting && load_now() >= begin) {
			load_counts_begin(counts);
			counting = true;
		}
		if (counting && !counted && load_now() >= end) {
			load_counts_end(counts);
			counted = true;
		}
		if (children_check(&group->children) ||
		    (watch && watch(arg, &progress)))
			break;
	}
	if (counting && !counted)
		load_counts_end(counts);
	return all_in(group, LOAD_ENDED) ? 0 : -1;
}

static int add_up(const struct group *group, struct load_result *result)
{
	struct load_board *board = group->board;
	const struct load_plan *plan = group->plan;
	uint32_t i, kind;

	result->n_slots = board->n_slots - 1;
	result->slots = calloc(board->n_slots, sizeof(*result->slots));
	if (!result->slots)
		return complain("no memory for %u slots", board->n_slots);
	for (i = 0; i < result->n_slots; i++)
		result->slots[i] = load_slot(plan, board, i);
	for (i = 0; i < plan->clients; i++) {
		struct load_share *share = load_share_of(board, i);

		for (kind = 0; kind < LOAD_KINDS; kind++) {
			histogram_merge(
			    &result->latency[kind], &share->latency[kind]);
			histogram_merge(&result->all, &share->latency[kind]);
		}
		result->completed += share->completed;
		result->missing += share->missing;
		result->unknown += share->unknown;
		result->refused += share->refused;
		result->wrong += share->wrong;
		result->unfinished += share->unfinished;
		result->client_cpu_ns += share->cpu_ns;
	}
	result->seconds = (double)plan->length_ns / 1e9;
	result->throughput = (double)result->completed / result->seconds;
	return 0;
}

int load_run(const struct load_plan *plan,
    int (*watch)(void *arg, const struct load_progress *progress), void *arg,
    struct load_counts *counts, struct load_result *result)
{
	struct group group = { .plan = plan };
	int ret = -1;

	memset(result, 0, sizeof(*result));
	if (make_board(&group))
		return -1;
	if (start(&group) == 0)
		ret = follow(&group, watch, arg, counts);
	/* Clients that have ended need a moment to close their connections. */
	if (children_end(&group.children, ret ? 0 : 10000))
		ret = -1;
	if (ret == 0)
		ret = add_up(&group, result);
	munmap(group.board, group.size);
	return ret;
}

void load_result_free(struct load_result *result)
{
	free(result->slots);
	result->slots = NULL;
}

int load_result_check(const struct load_result *result, bool faults)
{
	int ret = 0;

	if (result->wrong)
		ret = complain("%ju reads gave a value of another key or size: "
			       "the store or its records are wrong",
		    (uintmax_t)result->wrong);
	if (result->missing)
		ret = complain("%ju reads found no value: fill the store with "
			       "as many records first",
		    (uintmax_t)result->missing);
	if (!faults && (result->refused || result->unknown))
		ret = complain("%ju requests were refused, %ju got no answer",
		    (uintmax_t)result->refused, (uintmax_t)result->unknown);
	if (!faults && result->completed == 0)
		ret = complain("no request has ended in the measured time");
	return ret;
}
