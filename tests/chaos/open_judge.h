/* SPDX-License-Identifier: Apache-2.0 */
/* What the judges of runs in open flows share; see open_plan.h. */
#ifndef DFI_TESTS_CHAOS_OPEN_JUDGE_H
#define DFI_TESTS_CHAOS_OPEN_JUDGE_H

#include "open_plan.h"

struct judge {
	const struct open_plan *plan;
	const struct open_board *board;
	uint32_t volume;
	struct open_verdict *verdict;
};

static inline uint32_t actor_of(uint32_t id)
{
	return id / OPEN_STAYS;
}

static inline const struct stay_board *stay(
    const struct judge *judge, uint32_t id)
{
	return &judge->board->stays[id];
}

static inline bool is_source(const struct judge *judge, uint32_t id)
{
	return open_is_source(judge->plan, actor_of(id));
}

static inline bool has_been(const struct judge *judge, uint32_t id)
{
	return atomic_load(&stay(judge, id)->state) != STAY_NONE;
}

/* The first stay of targets, and behind the last. */
static inline uint32_t first_target(const struct judge *judge)
{
	return open_stay_id(judge->plan->n_source_actors, 0);
}

static inline uint32_t n_stays(const struct judge *judge)
{
	return open_stay_id(judge->plan->n_actors, 0);
}

static inline bool survived(const struct judge *judge, uint32_t id)
{
	return atomic_load(&stay(judge, id)->state) == STAY_CLOSED;
}

static inline bool is_excused(const struct judge *judge, uint32_t id)
{
	return atomic_load(&stay(judge, id)->excused);
}

static inline bool is_whole(const struct judge *judge, uint32_t id)
{
	return open_is_whole(judge->plan, judge->board, id);
}

/*
 * Whether b was lost while a was there, or before a failed. One that was
 * stopped beyond its lease may have been lost at any time since.
 */
bool open_loses(const struct judge *judge, uint32_t a, uint32_t b);

/* Print what a stay did, and add it to the verdict. */
void open_blame(
    struct judge *judge, uint32_t id, enum open_harm harm, const char *what);

/* Of a source's tuples, the missing ones are a lost target's share. */
void open_judge_losses(struct judge *judge, uint32_t source);
void open_judge_copies(struct judge *judge, uint32_t source);

#endif
