/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds of several sides in turns. Each round uses a fresh flow, made and
 * removed outside of the timed part.
 */
#include "compare.h"

#include <string.h>

#include "values.h"

/* The volume of the first warm-up round, before anything is known. */
#define FIRST_BYTES (UINT64_C(64) << 20)

/* A rival may be slower by orders of magnitude, and need a round more. */
#define FIRST_BYTES_OF_RIVAL (UINT64_C(128) << 10)

double value_bandwidth(const struct side *side, const struct board *board,
    const struct outcome *outcome)
{
	(void)board;
	return (double)(outcome->tuples / plan_copies(&side->plan)) *
	    side->plan.tuple_size / outcome->seconds * 1e-9;
}

static json_t *per(uint64_t n, uint64_t of)
{
	return of ? report_number((double)n / (double)of) : json_null();
}

void compare_report_travel(
    json_t *row, const struct session *session, const struct side *side)
{
	bool device = side->device[0] && side->notify;

	json_object_set_new(row, "transport",
	    json_string(!device                   ? "shm"
		    : side->notify == NOTIFY_DATA ? "ofi"
						  : "verbs"));
	json_object_set_new(row, "split", json_boolean(session->peer != NULL));
	json_object_set_new(
	    row, "device", json_string(device ? side->device : "-"));
	json_object_set_new(
	    row, "notify", json_string(notify_name(side->notify)));
	json_object_set_new(
	    row, "queue_pairs", json_integer(side->queue_pairs));
	json_object_set_new(row, "requests_per_segment",
	    per(side->requests, device ? side->segments : 0));
	json_object_set_new(row, "completions_per_request",
	    per(side->completions, side->requests));
}

void compare_report_cpu(json_t *row, const struct side *side)
{
	json_object_set_new(row, "source_ns",
	    report_number(
		stats_summary(side->source_ns, side->n_values).median));
	json_object_set_new(row, "target_ns",
	    report_number(
		stats_summary(side->target_ns, side->n_values).median));
}

bool compare_uses_flows(const struct plan *plan)
{
	return plan->job == JOB_FLOW || plan->job == JOB_ECHO_FLOW ||
	    plan->job == JOB_IDLE || plan->job == JOB_COMBINE;
}

bool compare_round(struct comparison *comparison, struct side *side,
    bool counts, struct outcome *outcome)
{
	const struct board *board = comparison->runner->board;
	struct plan *plan = &side->plan;
	bool flows = compare_uses_flows(plan), done;
	double tuples = (double)plan->tuples * plan->n_sources;

	if (flows &&
	    !session_create_flows(comparison->session, plan, &side->asked))
		return false;
	done = runner_round(comparison->runner, plan, outcome);
	if (flows)
		session_remove_flows(comparison->session, plan);
	if (!done)
		return false;
	side->verified = side->verified && outcome->verified;
	side->ticks_per_ns = board->ticks_per_ns;
	if (counts && side->n_values < STATS_MAX_VALUES) {
		side->copied = outcome->tally.copied;
		side->received = outcome->tally.received;
		side->source_ns[side->n_values] =
		    (double)outcome->tally.cpu_ns / tuples;
		side->target_ns[side->n_values] =
		    (double)outcome->tally.target_cpu_ns / tuples;
		side->values[side->n_values++] = comparison->value(
		    side, board, outcome);
		side->preempted += outcome->preempted;
		side->seconds += outcome->seconds;
		side->tuples += outcome->tuples;
		side->bulk += outcome->tally.bulk;
		side->segments += outcome->tally.segments;
		side->requests += outcome->tally.requests;
		side->completions += outcome->tally.completions;
		side->queue_pairs = outcome->tally.queue_pairs;
		side->notify = outcome->tally.notify |
		    (plan->datagrams ? NOTIFY_DATAGRAM : NOTIFY_NONE);
		memcpy(
		    side->device, outcome->tally.device, sizeof(side->device));
		if (side->trips)
			histogram_merge(side->trips, &board->trips);
	}
	return true;
}

/* Run the rounds; a side that was wrong before stays wrong. */
static bool run_rounds(struct comparison *comparison)
{
	struct outcome outcome;
	uint32_t i, round;

	for (round = 0; round <= comparison->options->repeat; round++)
		for (i = 0; i < comparison->n_sides; i++)
			if (!compare_round(comparison, &comparison->sides[i],
				round > 0, &outcome))
				return false;
	return true;
}

static void begin_sides(struct comparison *comparison)
{
	uint32_t i;

	for (i = 0; i < comparison->n_sides; i++)
		comparison->sides[i].verified = true;
}

bool compare_rounds(struct comparison *comparison)
{
	begin_sides(comparison);
	return run_rounds(comparison);
}

void compare_set_volume(struct plan *plan, double bytes)
{
	plan->tuples = (uint64_t)(bytes / plan->tuple_size / plan->n_sources);
	if (plan->tuples < 1)
		plan->tuples = 1;
}

/* Set the volume to what the side moves in options->seconds. */
static bool find_volume(struct comparison *comparison, struct side *side)
{
	double wanted = comparison->options->seconds;
	struct outcome outcome;
	bool rival = side->plan.job == JOB_RIVAL || side->plan.link_bandwidth;
	double volume = rival ? (double)FIRST_BYTES_OF_RIVAL
			      : (double)FIRST_BYTES;
	int round;

	/*
	 * A short round is imprecise, so the second round uses the first one's
	 * result.
	 */
	for (round = 0; round < (rival ? 3 : 2); round++) {
		compare_set_volume(&side->plan, volume);
		if (!compare_round(comparison, side, false, &outcome))
			return false;
		volume = value_bandwidth(side, NULL, &outcome) * 1e9 * wanted;
		if (outcome.seconds > wanted / 4)
			break;
	}
	compare_set_volume(&side->plan, volume);
	return true;
}

static bool check_content(struct comparison *comparison, struct side *side)
{
	double bytes = (double)FIRST_BYTES;
	struct outcome outcome;
	bool done;

	if (comparison->options->bytes &&
	    (double)comparison->options->bytes < bytes)
		bytes = (double)comparison->options->bytes;
	if (side->plan.link_bandwidth &&
	    (double)side->plan.link_bandwidth / 4 < bytes)
		bytes = (double)side->plan.link_bandwidth / 4;
	side->plan.check = 1;
	compare_set_volume(&side->plan, bytes);
	done = compare_round(comparison, side, false, &outcome);
	side->plan.check = 0;
	return done;
}

static bool measure_bandwidths(struct comparison *comparison)
{
	const struct common_options *options = comparison->options;
	struct side *side;
	uint32_t i;

	begin_sides(comparison);
	for (i = 0; i < comparison->n_sides; i++) {
		side = &comparison->sides[i];
		if (options->verify &&
		    (side->plan.job == JOB_FLOW ||
			side->plan.job == JOB_COMBINE) &&
		    !check_content(comparison, side))
			return false;
		if (options->bytes)
			compare_set_volume(&side->plan, (double)options->bytes);
		else if (!find_volume(comparison, side))
			return false;
	}
	return run_rounds(comparison);
}

bool compare_bandwidths(
    struct comparison *comparison, const struct runner_attr *attr)
{
	struct runner runner;
	bool done;

	if (!compare_start(comparison, attr, &runner))
		return false;
	done = measure_bandwidths(comparison);
	runner_stop(&runner);
	return done;
}
