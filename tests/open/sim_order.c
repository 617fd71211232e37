/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan and the verdict of an ordered flow. Each position of a view is
 * delivered by all that go on with the next one, or a gap for all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static uint64_t from_to(struct sim *sim, uint64_t least, uint64_t most)
{
	return least + sim_below(sim, most - least + 1);
}

void sim_order_plan(struct sim *sim)
{
	struct sim_plan *plan = &sim->plan;

	memset(plan, 0, sizeof(*plan));
	plan->ordered = true;
	plan->routing = SIM_ANY; /* no partitions */
	plan->n_sources = (unsigned)from_to(sim, 1, SIM_SOURCES);
	plan->n_targets = (unsigned)from_to(sim, 2, SIM_TARGETS);
	plan->n_input = (unsigned)from_to(sim, 5, SIM_INPUT);
	plan->room = (unsigned)from_to(sim, 3, SIM_SLOTS);
	plan->lag = from_to(sim, 5, 100);
	plan->step = from_to(sim, 5, 50);
	plan->far = sim_chance(sim, 50);
	plan->breaks = sim_chance(sim, 30);
	plan->fault_pause = from_to(sim, 50, 1000);
	plan->calm_at = from_to(sim, 500, 8000);
	plan->evict = sim_chance(sim, 70);
	plan->deadline = plan->calm_at + 400000;
}

struct sim_view *sim_order_view(struct sim *sim, uint64_t view)
{
	return &sim->views[view % SIM_VIEWS];
}

void sim_order_begin_view(struct sim *sim, uint64_t view)
{
	struct sim_view *at = sim_order_view(sim, view);

	if (view >= SIM_VIEWS) {
		sim_fail(sim, "views change without end");
		return;
	}
	memset(at, 0, sizeof(*at));
	at->counter = open_view_first(SIM_BUG(SAME_NUMBERS) ? 1 : view);
	sim->newest_view = view;
	sim->counts.views++;
}

static void settle(
    struct sim_end *end, uint64_t position, uint8_t fate, bool all)
{
	uint64_t view = end->ot.core.view;
	uint8_t *known = &sim_order_view(end->sim, view)->fate[position];

	if (*known && *known != fate)
		sim_fail(end->sim,
		    "%s %s position %llu of view %llu, and another target "
		    "does not%s",
		    sim_end_name(end),
		    fate == SIM_GAP ? "passes over" : "delivers",
		    (unsigned long long)position, (unsigned long long)view,
		    all ? "" : ", which goes on");
	*known = fate;
}

void sim_order_compare(struct sim_end *end)
{
	const struct ordered_target *core = &end->ot.core;
	uint64_t i = core->begin % OPEN_VIEW_POSITIONS;

	for (; i < SIM_POSITIONS; i++)
		settle(end, i, end->ot.got[i] ? SIM_DELIVERED : SIM_GAP, true);
}

void sim_order_compare_part(struct sim_end *end)
{
	uint64_t i;

	if (!sim_is_attached(end->sim, end) ||
	    end->ot.reported != end->ot.core.view)
		return;
	for (i = 0; i < SIM_POSITIONS; i++)
		if (end->ot.got[i])
			settle(end, i, SIM_DELIVERED, false);
}

bool sim_order_is_drained(struct sim *sim)
{
	unsigned i;

	for (i = 0; i < sim->n_ends; i++) {
		struct sim_end *end = sim->ends[i];

		if (end->role != OPEN_TARGET || end->life == SIM_OVER)
			continue;
		if (!end->created || end->change < sim->n_changes ||
		    !sim_order_target_is_drained(end))
			return false;
	}
	return true;
}

/* A source that has ended as it should. */
static bool has_ended(const struct sim *sim, uint64_t incarnation)
{
	unsigned i;

	for (i = 0; i < sim->n_ends; i++)
		if (sim->ends[i]->incarnation == incarnation)
			return sim->ends[i]->done;
	return false;
}

void sim_order_judge(struct sim *sim)
{
	uint64_t view, i;
	unsigned t;

	for (t = 0; t < sim->n_ends; t++) {
		struct sim_end *end = sim->ends[t];

		if (end->role == OPEN_TARGET && end->life != SIM_OVER &&
		    sim_is_attached(sim, end) && end->ot.core.begun &&
		    end->ot.core.view == sim->newest_view)
			sim_order_compare(end);
	}
	for (view = 1; view <= sim->newest_view; view++)
		for (i = 0; i < SIM_POSITIONS; i++) {
			const struct sim_view *at = sim_order_view(sim, view);

			if (at->fate[i] != SIM_GAP || !at->sender[i])
				continue;
			sim->counts.gaps++;
			if (has_ended(sim, at->sender[i]))
				sim_fail(sim,
				    "segment %llu of source (%llu) is lost, "
				    "though that has ended",
				    (unsigned long long)at->segment[i],
				    (unsigned long long)at->sender[i]);
		}
}
