/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what has happened in which cell; see open_cover.h. */
#include "open_cover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	JOIN,
	LEAVE,
	KILL,
	STOP,
	EVENTS,
};

static const char *const events[EVENTS] = { "join", "leave", "kill", "stop" };
static const char *const goals[2] = { "bandwidth", "latency" };
static const char *const roles[2] = { "sources", "targets" };

/* By cell, goal, event and role: in how many runs. */
static unsigned seen[OPEN_MAX_CELLS][2][EVENTS][2];

static int64_t opened(const struct stay_board *at)
{
	return atomic_load(&at->opened_ns);
}

/* Whether some member of the other role was there at that time. */
static bool others_at(const struct open_plan *plan,
    const struct open_board *board, bool source, int64_t at_ns)
{
	const struct stay_board *at;
	int64_t gone;
	uint32_t id;

	for (id = 0; id < open_stay_id(plan->n_actors, 0); id++) {
		at = &board->stays[id];
		gone = atomic_load(&at->gone_ns);
		if (open_is_source(plan, id / OPEN_STAYS) != source &&
		    opened(at) && opened(at) < at_ns && (!gone || gone > at_ns))
			return true;
	}
	return false;
}

/* Some pair had been there before. */
static bool joins(
    const struct open_plan *plan, const struct open_board *board, uint32_t id)
{
	bool source = open_is_source(plan, id / OPEN_STAYS);
	int64_t at = opened(&board->stays[id]), before;
	uint32_t i;

	for (i = 0; i < open_stay_id(plan->n_actors, 0); i++) {
		before = opened(&board->stays[i]);
		if (i != id && before && before < at &&
		    open_is_source(plan, i / OPEN_STAYS) == source &&
		    others_at(plan, board, source, at))
			return true;
	}
	return false;
}

static bool leaves(
    const struct open_plan *plan, const struct open_board *board, uint32_t id)
{
	const struct stay_board *at = &board->stays[id];

	return atomic_load(&at->state) == STAY_CLOSED && !at->ended &&
	    (!at->ret || at->aborted) &&
	    others_at(plan, board, open_is_source(plan, id / OPEN_STAYS),
		atomic_load(&at->gone_ns));
}

static bool is_killed(const struct stay_board *at)
{
	uint32_t state = atomic_load(&at->state);

	return state >= STAY_OPEN && state < STAY_CLOSED;
}

void open_cover_count(
    const struct open_plan *plan, const struct open_board *board)
{
	unsigned(*of)[2] = seen[plan->cell.number][plan->goal == DFI_LATENCY];
	bool has[EVENTS][2] = { { false } };
	const struct stay_board *at;
	uint32_t id;
	int role, e;

	for (id = 0; id < open_stay_id(plan->n_actors, 0); id++) {
		at = &board->stays[id];
		role = !open_is_source(plan, id / OPEN_STAYS);
		if (!opened(at))
			continue;
		has[JOIN][role] |= joins(plan, board, id);
		has[LEAVE][role] |= leaves(plan, board, id);
		has[KILL][role] |= is_killed(at);
		has[STOP][role] |= atomic_load(&at->n_stops) != 0;
	}
	for (e = 0; e < EVENTS; e++)
		for (role = 0; role < 2; role++)
			of[e][role] += has[e][role];
}

/* Targets of a combiner flow stay. */
static bool is_due(const struct open_cell *cell, int event, int role)
{
	return cell->kind != DFI_COMBINE || !role || event == STOP;
}

/* A short run misses most. */
#define MOST_NAMED 10

static bool is_empty(
    const struct open_cell *cell, int goal, int event, int role)
{
	return is_due(cell, event, role) &&
	    !seen[cell->number][goal][event][role];
}

unsigned open_cover_look(const char *only, bool prints)
{
	uint32_t n = open_n_cells(only), i;
	unsigned all = 0, empty = 0;
	struct open_cell cell;
	int goal, e, role;

	for (i = 0; i < n; i++) {
		cell = open_choose_cell(i, only);
		for (goal = 0; goal < 2; goal++)
			for (e = 0; e < EVENTS; e++)
				for (role = 0; role < 2; role++) {
					all += is_due(&cell, e, role);
					if (!is_empty(&cell, goal, e, role))
						continue;
					empty++;
					if (!prints || empty > MOST_NAMED)
						continue;
					printf("nothing seen: %s, %s: %s of "
					       "%s\n",
					    cell.name, goals[goal], events[e],
					    roles[role]);
				}
	}
	if (prints)
		printf("covered: %u of %u (cell, goal, event, role)\n",
		    all - empty, all);
	return empty;
}

uint64_t open_cover_seed(uint64_t from, const char *only)
{
	uint64_t seed = from;
	struct open_cell cell;
	int goal, e, role;

	for (;; seed++) {
		cell = open_choose_cell(seed, only);
		goal = open_forced_goal(seed, only);
		for (e = 0; goal >= 0 && e < EVENTS; e++)
			for (role = 0; role < 2; role++)
				if (is_empty(
					&cell, goal == DFI_LATENCY, e, role))
					return seed;
	}
}

uint32_t open_cover_runs(void)
{
	const char *transport = getenv("DFI_TRANSPORT");

	return transport && !strcmp(transport, "verbs") ? 100
	    : transport                                 ? 300
							: 1000;
}
