/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what the stays of a run in an open flow have seen; see open_plan.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "open_plan.h"

struct judge {
	const struct open_plan *plan;
	const struct open_board *board;
	uint32_t volume;
	struct open_verdict *verdict;
};

static const char *const states[] = { "none", "opening", "open", "settling",
	"closing", "closed", "refused" };

static uint32_t actor_of(uint32_t id)
{
	return id / OPEN_STAYS;
}

static const struct stay_board *stay(const struct judge *judge, uint32_t id)
{
	return &judge->board->stays[id];
}

static bool is_source(const struct judge *judge, uint32_t id)
{
	return open_is_source(judge->plan, actor_of(id));
}

static bool has_been(const struct judge *judge, uint32_t id)
{
	return atomic_load(&stay(judge, id)->state) != STAY_NONE;
}

/* The first stay of targets, and behind the last. */
static uint32_t first_target(const struct judge *judge)
{
	return open_stay_id(judge->plan->n_source_actors, 0);
}

static uint32_t n_stays(const struct judge *judge)
{
	return open_stay_id(judge->plan->n_actors, 0);
}

static void blame_for(
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
	blame_for(judge, id, OPEN_HARMED, what);
}

static bool survived(const struct judge *judge, uint32_t id)
{
	return atomic_load(&stay(judge, id)->state) == STAY_CLOSED;
}

static bool is_excused(const struct judge *judge, uint32_t id)
{
	return atomic_load(&stay(judge, id)->excused);
}

bool open_is_whole(
    const struct open_plan *plan, const struct open_board *board, uint32_t id)
{
	const struct stay_board *at = &board->stays[id];

	return atomic_load(&at->state) == STAY_CLOSED &&
	    !atomic_load(&at->excused) && !at->ret && !at->close_ret &&
	    (open_is_source(plan, actor_of(id)) || at->ended);
}

static bool is_whole(const struct judge *judge, uint32_t id)
{
	return open_is_whole(judge->plan, judge->board, id);
}

/*
 * Whether b was lost while a was there, or before a failed. One that was
 * stopped beyond its lease may have been lost at any time since.
 */
static bool loses(const struct judge *judge, uint32_t a, uint32_t b)
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
		if (loses(judge, id, i) && !has_cancelled(judge, i))
			return true;
	return false;
}

/*
 * Whether an ordered flow may evict that one: a source that holds up the
 * others, or a target that lacks what others have of a source that was lost.
 */
static bool may_put_out(const struct judge *judge, uint32_t id)
{
	return is_source(judge, id) ? judge->plan->evict_after_ms != 0
				    : has_cause(judge, id);
}

/*
 * A target whose ring is full, or anybody while partitions move; or a source
 * that holds up a window.
 */
static bool may_be_evicted(const struct judge *judge, uint32_t id)
{
	if (judge->plan->combines && !is_source(judge, id))
		return false;
	return judge->plan->evict_after_ms &&
	    (!is_source(judge, id) || judge->plan->keyed ||
		judge->plan->combines);
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
	uint32_t actor = actor_of(id);
	struct stay_plan what = open_stay_plan(
	    judge->plan, judge->volume, actor, id % OPEN_STAYS);

	/* A close that waits for targets that are not there, or stopped. */
	if (judge->plan->replays && is_source(judge, id) && ret == -ETIMEDOUT)
		return true;
	if (judge->plan->replays && is_source(judge, id) && ret == -ECANCELED)
		return true;
	if (is_excused(judge, id) ||
	    (ret == -ECANCELED && what.act == OPEN_ABORT) ||
	    (ret == -ESTALE && may_be_evicted(judge, id)) ||
	    (ret == -ESTALE && judge->plan->ordered && may_put_out(judge, id)))
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

/* Whether tuple n of a source may be lost with a target. */
static bool may_lose(const struct judge *judge, uint32_t source, uint32_t n)
{
	uint32_t seat = judge->board->sent[source][n] - 1u, t;

	for (t = first_target(judge); t < n_stays(judge); t++)
		if (loses(judge, source, t) &&
		    (!judge->plan->names_seats ||
			stay(judge, t)->seat == DFI_ANY_SEAT ||
			stay(judge, t)->seat == seat))
			return true;
	return false;
}

static bool is_dead(const struct judge *judge, uint32_t id)
{
	return has_been(judge, id) &&
	    (!survived(judge, id) || is_excused(judge, id));
}

/*
 * What dfi_source_dropped() may count though it was received: the ring of a
 * target that was killed or evicted, else the segment that the target had
 * begun.
 */
static uint64_t most_unknown(const struct judge *judge, uint32_t source)
{
	const struct open_plan *plan = judge->plan;
	uint64_t of_segment = plan->segment_size
	    ? plan->segment_size / plan->tuple_size + 1
	    : 1;
	const char *transport = getenv("DFI_TRANSPORT");
	uint64_t n = 0;
	uint32_t t;

	for (t = first_target(judge); t < n_stays(judge); t++)
		if (loses(judge, source, t))
			n += of_segment *
			    (is_dead(judge, t) || transport ||
					judge->plan->evict_after_ms
				    ? plan->segment_count
				    : 1);
	return n;
}

static void judge_losses(struct judge *judge, uint32_t id)
{
	const struct stay_board *at = stay(judge, id);
	uint32_t n, missing = 0, pushed = atomic_load(&at->pushed);
	char text[200];

	for (n = 0; n < pushed; n++) {
		if (atomic_load(&judge->board->owner[id][n]))
			continue;
		if (!missing++ && !may_lose(judge, id, n)) {
			snprintf(text, sizeof(text),
			    "tuple %u is missing, and its target is whole", n);
			blame_for(judge, id, OPEN_LOST, text);
		}
	}
	if (!at->settled)
		return;
	snprintf(text, sizeof(text), "%u tuples are missing, dropped says %lu",
	    missing, (unsigned long)at->dropped);
	if (missing > at->dropped)
		blame_for(judge, id, OPEN_LOST, text);
	if (at->dropped > missing + most_unknown(judge, id))
		blame(judge, id, text);
}

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
		blame_for(judge, target, OPEN_LOST, text);
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
		blame_for(judge, t, OPEN_LOST, text);
	}
}

/* ---- All ----------------------------------------------------------------- */

static void judge_source(struct judge *judge, uint32_t id)
{
	if (judge->plan->replicates)
		judge_last(judge, id);
	else if (is_whole(judge, id) && !judge->plan->replays &&
	    !judge->plan->combines)
		judge_losses(judge, id);
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
			blame_for(&judge, id, stay(&judge, id)->harm,
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
