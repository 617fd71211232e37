/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what the stays of a run in an open flow have seen; see open_plan.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "open_judge.h"

static const char *const states[] = { "none", "opening", "open", "settling",
	"closing", "closed", "refused" };

void open_blame(
    struct judge *judge, uint32_t id, enum open_harm harm, const char *what)
{
	const struct stay_board *at = stay(judge, id);

	judge->verdict->n[harm]++;
	printf("seed %" PRIu64 ": %s, stay %u: %s (%d, close %d, \"%s\")\n",
	    judge->plan->seed, is_source(judge, id) ? "source" : "target", id,
	    what, at->ret, at->close_ret, at->text);
}

static void blame(struct judge *judge, uint32_t id, const char *what)
{
	open_blame(judge, id, OPEN_HARMED, what);
}

bool open_is_whole(
    const struct open_plan *plan, const struct open_board *board, uint32_t id)
{
	const struct stay_board *at = &board->stays[id];

	return atomic_load(&at->state) == STAY_CLOSED &&
	    !atomic_load(&at->excused) && !at->ret && !at->close_ret &&
	    (open_is_source(plan, actor_of(id)) || at->ended);
}

bool open_loses(const struct judge *judge, uint32_t a, uint32_t b)
{
	const struct stay_board *at = stay(judge, a), *lost = stay(judge, b);
	int64_t gone = atomic_load(&lost->gone_ns);
	int64_t out = atomic_load(&lost->out_ns);
	/* A close may fail late. */
	int64_t last = lost->closed_ns                  ? lost->closed_ns
	    : atomic_load(&lost->state) == STAY_CLOSING ? INT64_MAX
	    : out                                       ? out
							: gone;
	int64_t end = at->failed_ns ? at->failed_ns : at->closed_ns;

	if (is_source(judge, a) == is_source(judge, b) || !has_been(judge, b))
		return false;
	/* It had a ring, and then its open failed. */
	if (atomic_load(&lost->state) == STAY_REFUSED &&
	    lost->ret == -ECONNRESET)
		return lost->failed_ns >= atomic_load(&at->opening_ns) &&
		    (!end || atomic_load(&lost->opening_ns) <= end);
	if (is_excused(judge, b))
		return true;
	return !is_whole(judge, b) && gone &&
	    last >= atomic_load(&at->opening_ns) &&
	    (!end ||
		(at->failed_ns ? gone : atomic_load(&lost->opening_ns)) <= end);
}

/* One that has cancelled, and lived on until it was closed, fails nobody. */
static bool has_cancelled(const struct judge *judge, uint32_t id)
{
	return stay(judge, id)->cancelled && survived(judge, id) &&
	    !is_excused(judge, id);
}

static bool has_cause(const struct judge *judge, uint32_t id)
{
	uint32_t i;

	for (i = 0; i < n_stays(judge); i++)
		if (open_loses(judge, id, i) && !has_cancelled(judge, i))
			return true;
	return false;
}

/* It lacks what another target has of a source that was lost. */
static bool lacks_some(const struct judge *judge, uint32_t target)
{
	uint32_t s, t;

	for (s = 0; s < first_target(judge); s++)
		for (t = first_target(judge);
		     open_loses(judge, target, s) && t < n_stays(judge); t++)
			if (judge->board->last_of[t][s] >
			    judge->board->last_of[target][s])
				return true;
	return false;
}

/*
 * A target whose ring is full, or anybody while partitions move; a source that
 * holds up a window, or the others in an ordered flow.
 */
static bool holds_up(const struct judge *judge, uint32_t id)
{
	if (judge->plan->combines && !is_source(judge, id))
		return false;
	return judge->plan->evict_after_ms &&
	    (!is_source(judge, id) || judge->plan->keyed ||
		judge->plan->combines || judge->plan->ordered);
}

/*
 * Of a combiner flow: it waits for room at a target that waits for a source
 * which was stopped between its marks for two targets.
 */
static bool waits_for_stopped(const struct judge *judge, uint32_t source)
{
	uint32_t s;

	for (s = 0; judge->plan->combines && s < first_target(judge); s++)
		if (s != source && atomic_load(&stay(judge, s)->n_stops))
			return true;
	return false;
}

/*
 * Only who could not run for about that time, or is on a machine, which may be
 * cut off, or does not belong to an ordered flow's next view.
 */
static bool may_be_evicted(const struct judge *judge, uint32_t id)
{
	int64_t bound = judge->plan->evict_after_ms * INT64_C(1000000);

	if (holds_up(judge, id) &&
	    (judge->plan->harsh || judge->plan->n_machines ||
		stay(judge, id)->late_ns >= bound / 2 ||
		waits_for_stopped(judge, id)))
		return true;
	return judge->plan->ordered && !is_source(judge, id) &&
	    lacks_some(judge, id);
}

/* Of a combiner flow, whose targets have all to be there. */
static bool lacks_target(const struct judge *judge, uint32_t id)
{
	uint32_t t;

	for (t = first_target(judge); t < n_stays(judge); t++)
		if (has_been(judge, t) && !is_whole(judge, t) &&
		    atomic_load(&stay(judge, t)->gone_ns) &&
		    stay(judge, t)->ret < 0)
			return judge->plan->combines && is_source(judge, id);
	return false;
}

/* An error that the rules of the flow want. */
static bool is_allowed(const struct judge *judge, uint32_t id, int ret)
{
	/* A close that waits for targets that are cut off. */
	if (judge->plan->n_machines && judge->plan->replays &&
	    is_source(judge, id) && ret == -ETIMEDOUT)
		return true;
	if (is_excused(judge, id) ||
	    (ret == -ECANCELED && stay(judge, id)->aborted) ||
	    (ret == -ESTALE && may_be_evicted(judge, id)))
		return true;
	if (judge->plan->on_loss != DFI_ON_LOSS_FAIL)
		return false;
	return ((ret == -ECONNRESET || ret == -ECANCELED) &&
		   lacks_target(judge, id)) ||
	    ((ret == -ECONNRESET ||
		 (ret == -ECANCELED && !is_source(judge, id))) &&
		has_cause(judge, id));
}

/* Its store refused it before it had heard of its eviction. */
static bool was_fenced(const struct judge *judge, uint32_t id)
{
	return judge->plan->replays && !is_source(judge, id) &&
	    stay(judge, id)->ret == -ESTALE && !stay(judge, id)->close_ret;
}

static void judge_end(struct judge *judge, uint32_t id)
{
	const struct stay_board *at = stay(judge, id);

	if (at->ret && !is_allowed(judge, id, at->ret))
		blame(judge, id, "has an error without a cause");
	else if (at->ret && at->close_ret != at->ret &&
	    !is_excused(judge, id) && !was_fenced(judge, id))
		blame(judge, id, "its close tells another error");
	if (is_source(judge, id) && !at->ret && !judge->plan->replays &&
	    atomic_load(&at->pushed) !=
		open_stay_plan(
		    judge->plan, judge->volume, actor_of(id), id % OPEN_STAYS)
		    .n_tuples)
		blame(judge, id, "has not pushed all");
}

static void judge_refusal(struct judge *judge, uint32_t id)
{
	int ret = stay(judge, id)->ret;
	bool over = is_source(judge, id)
	    ? atomic_load(&judge->board->finished)
	    : atomic_load(&judge->board->no_more_sources);

	if (over &&
	    (ret == -ESHUTDOWN || ret == -EEXIST || ret == -EBUSY ||
		ret == -ETIMEDOUT || ret == -ENOTCONN || ret == -ECONNREFUSED))
		return;
	if (!is_allowed(judge, id, ret))
		blame(judge, id, "was refused without a cause");
}

/* ---- Tuples ------------------------------------------------------------ */

/* Of what was sent to a target's seat, it has all between first and last. */
static void judge_gaps(struct judge *judge, uint32_t source, uint32_t target)
{
	const _Atomic uint16_t *owner = judge->board->owner[source];
	uint32_t seat = stay(judge, target)->seat, n;
	uint32_t first = OPEN_TUPLES, last = 0;
	char text[100];

	for (n = 0; n < OPEN_TUPLES; n++) {
		if (atomic_load(&owner[n]) != target + 1)
			continue;
		if (first == OPEN_TUPLES)
			first = n;
		last = n;
	}
	for (n = first; n < last; n++) {
		if (judge->board->sent[source][n] != seat + 1 ||
		    atomic_load(&owner[n]) == target + 1)
			continue;
		snprintf(text, sizeof(text), "tuple %u of stay %u is skipped",
		    n, source);
		open_blame(judge, target, OPEN_LOST, text);
		return;
	}
}

/*
 * Its close failed as a target had left tuples behind: the others may have had
 * their end mark before.
 */
static bool failed_at_close(const struct stay_board *at)
{
	return at->ret == -ECONNRESET && at->close_ret == at->ret &&
	    at->failed_ns >= atomic_load(&at->gone_ns);
}

/* What a target's event said of a source. */
static void judge_fate(struct judge *judge, uint32_t target, uint32_t source)
{
	const struct stay_board *at = stay(judge, source);
	uint32_t fate = judge->board->fate[target][source];
	char text[100];
	bool ended = survived(judge, source) && !at->close_ret;

	/* For one that was evicted all sources are lost. */
	if (!fate || is_excused(judge, source) || is_excused(judge, target) ||
	    stay(judge, target)->ret == -ESTALE ||
	    (atomic_load(&at->state) == STAY_CLOSING) ||
	    (fate == DFI_ENDED && failed_at_close(at)) ||
	    ended == (fate == DFI_ENDED))
		return;
	snprintf(text, sizeof(text), "event %u of stay %u, which %s", fate,
	    source, ended ? "ended" : "was lost");
	blame(judge, target, text);
}

/* ---- Replicate flows ----------------------------------------------------- */

/*
 * Whether a target has all of a source that it was to have: it has seen the
 * source leave, or was there to the end.
 */
static bool has_rest(
    const struct judge *judge, uint32_t target, uint32_t source)
{
	return stay(judge, target)->ret != -ESTALE &&
	    !is_excused(judge, target) &&
	    judge->board->last_of[target][source] != 0 &&
	    (judge->board->fate[target][source] || is_whole(judge, target));
}

/*
 * Who is there at a source's end has its last tuple; in an ordered flow all
 * have the same last one of a source that was lost.
 */
static void judge_last(struct judge *judge, uint32_t source)
{
	uint32_t last = 0, t, own;
	char text[100];

	if (is_whole(judge, source))
		last = atomic_load(&stay(judge, source)->pushed);
	for (t = first_target(judge); t < n_stays(judge); t++) {
		if (!has_been(judge, t) || !has_rest(judge, t, source))
			continue;
		own = judge->board->last_of[t][source];
		if (!last && judge->plan->ordered &&
		    judge->plan->on_loss == DFI_ON_LOSS_DROP)
			last = own;
		if (!last || own == last)
			continue;
		snprintf(text, sizeof(text),
		    "of stay %u it has %u tuples, others %u", source, own,
		    last);
		open_blame(judge, t, OPEN_LOST, text);
	}
}

/* ---- All ----------------------------------------------------------------- */

static void judge_source(struct judge *judge, uint32_t id)
{
	if (judge->plan->replicates) {
		judge_last(judge, id);
		open_judge_copies(judge, id);
	} else if (!judge->plan->replays && !judge->plan->combines) {
		open_judge_losses(judge, id);
	} else if (stay(judge, id)->dropped &&
	    (judge->plan->replays || is_whole(judge, id))) {
		open_blame(judge, id, OPEN_HARMED, "it has dropped tuples");
	}
}

static void judge_target(struct judge *judge, uint32_t id)
{
	uint32_t source;

	for (source = 0; source < first_target(judge); source++) {
		if (!has_been(judge, source))
			continue;
		if (judge->plan->names_seats && !judge->plan->replays)
			judge_gaps(judge, source, id);
		judge_fate(judge, id, source);
	}
}

void open_judge(const struct open_plan *plan, const struct open_board *board,
    uint32_t volume, struct open_verdict *verdict)
{
	struct judge judge = { plan, board, volume, verdict };
	uint32_t id;

	for (id = 0; id < n_stays(&judge); id++) {
		if (!has_been(&judge, id))
			continue;
		if (stay(&judge, id)->wrong)
			open_blame(&judge, id, stay(&judge, id)->harm,
			    "saw what can't be");
		if (atomic_load(&stay(&judge, id)->state) == STAY_REFUSED)
			judge_refusal(&judge, id);
		if (survived(&judge, id))
			judge_end(&judge, id);
		if (is_source(&judge, id))
			judge_source(&judge, id);
		else
			judge_target(&judge, id);
	}
	if (plan->replays)
		open_replay_judge(plan, board, verdict);
	if (plan->combines)
		open_combine_judge(plan, board, verdict);
}

static long ms(int64_t from, int64_t to)
{
	return to ? (long)((to - from) / 1000000) : -1;
}

void open_print_board(const struct open_plan *plan,
    const struct open_board *board, uint32_t volume)
{
	static const char *const styles[] = { "single", "batch", "claim",
		"cursor" };
	static const char *const acts[] = { "stay", "leave", "abort", "exit",
		"die", "give", "cancel" };
	struct judge judge = { plan, board, volume, NULL };
	const struct stay_board *at;
	struct stay_plan what;
	int64_t start = INT64_MAX;
	uint32_t id;

	for (id = 0; id < n_stays(&judge); id++)
		if (has_been(&judge, id) &&
		    atomic_load(&stay(&judge, id)->opening_ns) < start &&
		    atomic_load(&stay(&judge, id)->opening_ns))
			start = atomic_load(&stay(&judge, id)->opening_ns);
	for (id = 0; id < n_stays(&judge); id++) {
		at = stay(&judge, id);
		if (!has_been(&judge, id))
			continue;
		what = open_stay_plan(
		    plan, volume, actor_of(id), id % OPEN_STAYS);
		printf("  %s stay %u, seat %d, %s%s%s, %s at %u: %s%s, "
		       "opened at %ld, gone %ld, failed %ld, closed %ld ms; ",
		    is_source(&judge, id) ? "source" : "target", id,
		    (int)at->seat, styles[what.style],
		    what.nonblock ? ", polls" : "",
		    what.events ? ", events" : "", acts[what.act], what.act_at,
		    states[atomic_load(&at->state)],
		    is_excused(&judge, id) ? ", excused" : "",
		    ms(start, atomic_load(&at->opened_ns)),
		    ms(start, atomic_load(&at->gone_ns)),
		    ms(start, at->failed_ns), ms(start, at->closed_ns));
		if (is_source(&judge, id))
			printf("%u of %u pushed, %u received, %lu dropped",
			    atomic_load(&at->pushed), what.n_tuples,
			    atomic_load(&at->received),
			    (unsigned long)at->dropped);
		else
			printf("%u taken%s", atomic_load(&at->taken),
			    at->ended ? ", ended" : "");
		printf("; %u events, %u repeats; %d %d %s\n", at->n_events,
		    at->n_repeats, at->ret, at->close_ret, at->text);
	}
}
