/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges a run. Each error needs a real cause: the peer that the text names
 * must have died, left or failed, and not long before. Each clean end needs all
 * tuples.
 */
#include "verdict.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "lateness.h"

struct trial {
	const struct plan *plan;
	const struct board *board;
	const struct outcome *outcome;
	struct latest *latest;
	unsigned violations;
};

__attribute__((format(printf, 2, 3))) static void violation(
    struct trial *trial, const char *format, ...)
{
	va_list ap;

	printf("VIOLATION seed %lu: ", (unsigned long)trial->plan->seed);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("\n");
	trial->violations++;
}

static const char *role(const struct trial *trial, uint32_t e)
{
	return trial->plan->ends[e].is_source ? "source" : "target";
}

static uint32_t state(const struct trial *trial, uint32_t e)
{
	return atomic_load(&trial->board->ends[e].state);
}

/* When a process died, or 0; for a hung one it is unknown. */
static int64_t died_ns(const struct trial *trial, uint32_t process)
{
	int64_t at = atomic_load(&trial->board->processes[process].died_ns);

	return at ? at : trial->outcome->killed_ns[process];
}

/*
 * The latest time at which its peers see it dead, or 0. Its lease counts as
 * well, of which a third may have passed when it was stopped.
 */
static int64_t gone_ns(const struct trial *trial, uint32_t process)
{
	int64_t died = died_ns(trial, process);
	int64_t expired = trial->outcome->expired_ns[process];

	return died && (!expired || died < expired) ? died : expired;
}

static int64_t end_died_ns(const struct trial *trial, uint32_t e)
{
	return gone_ns(trial, trial->plan->ends[e].process);
}

/* The earliest end of its lease, or 0. */
static int64_t expired_soonest_ns(const struct trial *trial, uint32_t process)
{
	int64_t expired = trial->outcome->expired_ns[process];

	return expired ? expired - (int64_t)trial->plan->lease_ms * 1000000 / 3
		       : 0;
}

/* The earliest time at which its peers see it dead, or 0. */
static int64_t gone_soonest_ns(const struct trial *trial, uint32_t process)
{
	int64_t died = died_ns(trial, process);
	int64_t expired = expired_soonest_ns(trial, process);

	return died && (!expired || died < expired) ? died : expired;
}

/* A stop lasted so long that the registry forgot its process. */
static bool forgotten(const struct trial *trial, uint32_t e)
{
	return trial->outcome->expired_ns[trial->plan->ends[e].process] != 0;
}

/* It came only after its process had been stopped, so nobody forgot it. */
static bool came_late(const struct trial *trial, uint32_t e)
{
	int64_t stopped =
	    trial->outcome->expired_ns[trial->plan->ends[e].process] -
	    (int64_t)trial->plan->lease_ms * 1000000;

	return forgotten(trial, e) && trial->board->ends[e].opened_ns > stopped;
}

/* The latest time at which its peers see it dead, or 0. */
static int64_t peer_gone_ns(const struct trial *trial, uint32_t e)
{
	return came_late(trial, e)
	    ? died_ns(trial, trial->plan->ends[e].process)
	    : end_died_ns(trial, e);
}

/* It closed before the end of its flow, by plan or because of an error. */
static bool left(const struct trial *trial, uint32_t e)
{
	const struct end_board *at = &trial->board->ends[e];

	if (state(trial, e) < END_CLOSING || state(trial, e) == END_REFUSED ||
	    at->cancelled)
		return false;
	return at->ret < 0 || at->close_ret < 0 ||
	    (at->acted_ns && trial->plan->ends[e].act == ACT_LEAVE);
}

static bool aborted(const struct trial *trial, uint32_t e)
{
	enum act act = trial->plan->ends[e].act;

	return trial->board->ends[e].acted_ns &&
	    (act == ACT_ABORT || act == ACT_ABORT_OTHER);
}

/* The number of the endpoint that a text names after a word, or n_ends. */
static uint32_t named_peer(
    const struct trial *trial, uint32_t e, const char *before)
{
	bool is_source = trial->plan->ends[e].is_source;
	uint32_t n = is_source ? trial->plan->n_targets
			       : trial->plan->n_sources;
	const char *text = trial->board->ends[e].text;
	char words[64];
	unsigned long index;
	const char *at;
	char *end;

	snprintf(words, sizeof(words), "%s%s ", before,
	    is_source ? "target" : "source");
	at = strstr(text, words);
	if (!at || !strstr(text, "flow '" FLOW "'"))
		return trial->plan->n_ends;
	index = strtoul(at + strlen(words), &end, 10);
	if (end == at + strlen(words) || index >= n)
		return trial->plan->n_ends;
	return (uint32_t)index + (is_source ? trial->plan->n_sources : 0);
}

static bool names_pid(const struct trial *trial, uint32_t e, uint32_t peer)
{
	char words[32];

	snprintf(words, sizeof(words), "pid %u)", trial->board->ends[peer].pid);
	return strstr(trial->board->ends[e].text, words) != NULL;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The longest pause until a client is connected to a restarted registry. */
#define RECONNECT_NS INT64_C(1250000000)

/* The time from which it learns what only the registry knows. */
static int64_t registry_reported_ns(
    const struct outcome *outcome, int64_t cause_ns)
{
	int64_t from = later(cause_ns, outcome->continued_ns[REGISTRY]);

	if (outcome->registry_back_ns)
		from = later(from,
		    outcome->registry_back_ns + outcome->grace_ns +
			RECONNECT_NS);
	return from;
}

/* It was stopped at some time between these. */
static bool was_stopped(
    const struct trial *trial, uint32_t process, int64_t from_ns, int64_t to_ns)
{
	const struct outcome *outcome = trial->outcome;
	const struct stop *stop;
	uint32_t i;

	for (i = 0; i < outcome->n_stops; i++) {
		stop = &outcome->stops[i];
		if (stop->process == process && stop->from_ns <= to_ns &&
		    (!stop->to_ns || stop->to_ns >= from_ns))
			return true;
	}
	return false;
}

/* Long enough ago that everybody must know. */
static bool was_before(int64_t cause_ns, int64_t at_ns, int64_t limit_ns)
{
	return cause_ns + limit_ns + lateness_between(cause_ns, at_ns) < at_ns;
}

/* At some time between these, no registry knew all. */
static bool lacked_registry(
    const struct trial *trial, int64_t from_ns, int64_t to_ns)
{
	int64_t down = trial->outcome->registry_down_ns;
	int64_t back = trial->outcome->registry_back_ns;

	if (was_stopped(trial, REGISTRY, from_ns, to_ns))
		return true;
	return down && down <= to_ns &&
	    (!back || !was_before(back, from_ns, RECONNECT_NS));
}

/*
 * An error comes soon after its cause, or after its endpoint began: other work
 * of the endpoint takes little time.
 */
static void check_time(struct trial *trial, uint32_t e, int64_t cause_ns)
{
	const struct outcome *outcome = trial->outcome;
	const struct end_board *at = &trial->board->ends[e];
	int64_t from = later(
	    cause_ns, at->opened_ns ? at->opened_ns : at->opening_ns);
	int64_t took, late;

	from = later(from, outcome->continued_ns[trial->plan->ends[e].process]);
	took = at->failed_ns - from;
	late = lateness_between(from, at->failed_ns);
	if (took - late > trial->latest->took_ns - trial->latest->late_ns) {
		trial->latest->took_ns = took;
		trial->latest->late_ns = late;
	}
	if (took - late > outcome->limit_ns)
		violation(trial,
		    "%s %u was told after %" PRId64 " ms, of which this "
		    "machine was late for %" PRId64 ": %s",
		    role(trial, e), trial->plan->ends[e].index, took / 1000000,
		    late / 1000000, at->text);
}

static void unjustified(struct trial *trial, uint32_t e, const char *why)
{
	const struct end_board *at = &trial->board->ends[e];

	violation(trial,
	    "%s %u (state %u): %s (this machine was late for %" PRId64
	    " ms meanwhile): %d %s",
	    role(trial, e), trial->plan->ends[e].index, state(trial, e), why,
	    lateness_between(at->opening_ns, at->failed_ns) / 1000000, at->ret,
	    at->text);
}

/* All tuples that a source flushed before it left were received. */
static void check_flushed(struct trial *trial, uint32_t target, uint32_t source)
{
	const struct end_board *to = &trial->board->ends[target];
	const struct end_board *from = &trial->board->ends[source];
	uint64_t flushed = atomic_load(
	    &from->flushed[trial->plan->ends[target].index]);
	uint64_t got = atomic_load(&to->tuples[source]);

	/*
	 * In an ordered flow, others' sends may come first; and results come
	 * when all sources have ended.
	 */
	if (got < flushed && !trial->plan->ordered &&
	    trial->plan->kind != DFI_COMBINE)
		violation(trial,
		    "target %u: %" PRIu64 " tuples of source %u, which had "
		    "flushed %" PRIu64,
		    trial->plan->ends[target].index, got, source, flushed);
}

/* The flow's creator died before all had attached. */
static void check_creator(struct trial *trial, uint32_t e)
{
	const struct end_board *at = &trial->board->ends[e];
	bool lacked = lacked_registry(trial, at->opening_ns, at->failed_ns);
	int64_t died = gone_ns(trial, CREATOR);
	char words[32];

	snprintf(words, sizeof(words), "pid %u)",
	    trial->board->processes[CREATOR].pid);
	if (!strstr(at->text, words))
		unjustified(trial, e, "the text names another creator");
	else if (!died && !lacked)
		unjustified(trial, e, "the creator has not died");
	else if (trial->plan->flags & DFI_FLOW_PERSISTENT && !lacked)
		unjustified(trial, e, "the flow needs no creator");
	if (died)
		check_time(
		    trial, e, registry_reported_ns(trial->outcome, died));
}

/*
 * A process whose lease ended while it was stopped is alive to itself: its
 * contexts come back together, and continue. News about its endpoints is only
 * what they have done since.
 */
static bool came_back_together(
    const struct trial *trial, uint32_t e, uint32_t peer)
{
	uint32_t process = trial->plan->ends[e].process;

	return trial->plan->ends[peer].process == process &&
	    !died_ns(trial, process) && left(trial, peer);
}

static bool over_network(void)
{
	const char *transport = getenv("DFI_TRANSPORT");

	return transport &&
	    (!strcmp(transport, "verbs") || !strcmp(transport, "ofi"));
}

/* Another target than the holder of the sequencer wanted tuples until then. */
static bool has_other_target(const struct trial *trial, int64_t at_ns)
{
	const struct end_board *target;
	uint32_t t;

	for (t = trial->plan->n_sources + 1; t < trial->plan->n_ends; t++) {
		target = &trial->board->ends[t];
		if (!target->cancelled ||
		    !was_before(
			target->acted_ns, at_ns, trial->outcome->limit_ns))
			return true;
	}
	return false;
}

/*
 * Returns when the sequencer of an ordered flow went that the text of a source
 * names, or 0. Over a network it goes with the context of target 0, even if
 * that has cancelled (docs/replicate.md).
 */
static int64_t sequencer_gone_ns(const struct trial *trial, uint32_t e)
{
	const struct end_board *at = &trial->board->ends[e];
	uint32_t holder = trial->plan->n_sources;
	const struct end_plan *plan = &trial->plan->ends[holder];

	if (!trial->plan->ordered || !over_network() ||
	    !trial->board->ends[holder].cancelled ||
	    !strstr(at->text, "the flow's sequencer, with target 0 ") ||
	    !strstr(at->text, "has cancelled and closed its context") ||
	    !has_other_target(trial, at->failed_ns))
		return 0;
	return trial->board->processes[plan->process]
	    .closed_ns[plan->second_context];
}

static void check_reset(struct trial *trial, uint32_t e)
{
	const struct end_board *at = &trial->board->ends[e];
	uint32_t peer = named_peer(trial, e, "");
	int64_t died;

	if (strstr(at->text, "its creator (")) {
		check_creator(trial, e);
		return;
	}
	if (peer == trial->plan->n_ends || !names_pid(trial, e, peer)) {
		unjustified(trial, e, "the text names no peer");
		return;
	}
	died = peer_gone_ns(trial, peer);
	if (!died && trial->plan->ends[e].is_source)
		died = sequencer_gone_ns(trial, e);
	if (trial->plan->ends[e].is_source) {
		if (!died && !left(trial, peer))
			unjustified(trial, e, "that target has not left");
	} else {
		if (!died && state(trial, peer) != END_REFUSED)
			unjustified(trial, e, "that source has not died");
		else if (state(trial, peer) == END_CLOSED &&
		    trial->board->ends[peer].close_ret == 0)
			unjustified(trial, e, "that source had closed");
		check_flushed(trial, e, peer);
	}
	if (!died)
		died = state(trial, peer) == END_REFUSED
		    ? trial->board->ends[peer].failed_ns
		    : trial->board->ends[peer].closed_ns;
	else if (came_back_together(trial, e, peer))
		died = later(died, trial->board->ends[peer].closed_ns);
	check_time(trial, e, died);
}

static void check_canceled(struct trial *trial, uint32_t e)
{
	uint32_t peer;

	if (aborted(trial, e))
		return;
	peer = named_peer(trial, e, "");
	if (trial->plan->ends[e].is_source || peer == trial->plan->n_ends) {
		unjustified(trial, e, "nobody has aborted it");
		return;
	}
	/* Its close may have failed when its process died. */
	if (!aborted(trial, peer) && !left(trial, peer) &&
	    !(end_died_ns(trial, peer) && state(trial, peer) == END_CLOSING))
		unjustified(trial, e, "that source has not aborted");
	check_flushed(trial, e, peer);
	check_time(trial, e,
	    aborted(trial, peer) ? trial->board->ends[peer].acted_ns
				 : trial->board->ends[peer].closed_ns);
}

/* The longest time until a change is known, at the end of a wait for it. */
#define REPORTED_NS INT64_C(500000000)

/* How long a process was stopped in this time. */
static int64_t stopped_ns(
    const struct trial *trial, uint32_t process, int64_t from_ns, int64_t to_ns)
{
	const struct outcome *outcome = trial->outcome;
	const struct stop *stop;
	int64_t sum = 0, begin, end;
	uint32_t i;

	for (i = 0; i < outcome->n_stops; i++) {
		stop = &outcome->stops[i];
		if (stop->process != process)
			continue;
		begin = later(stop->from_ns, from_ns);
		end = stop->to_ns ? earlier(stop->to_ns, to_ns) : to_ns;
		sum += later(end - begin, 0);
	}
	return sum;
}

/*
 * A running process can't overlook an endpoint that was attached all this time.
 */
static bool is_long(
    const struct trial *trial, uint32_t process, int64_t from_ns, int64_t to_ns)
{
	return was_before(from_ns, to_ns,
	    REPORTED_NS + stopped_ns(trial, process, from_ns, to_ns));
}

/* While it waited, the flow did not exist, or not for long. */
static bool was_not_created(const struct trial *trial, uint32_t e)
{
	const struct end_board *at = &trial->board->ends[e];
	int64_t from = atomic_load(&trial->board->processes[CREATOR].ready_ns);
	int64_t to = at->failed_ns, gone = gone_soonest_ns(trial, CREATOR);

	if (!from)
		return true;
	if (!trial->plan->flags && gone)
		to = earlier(to, gone);
	return !is_long(trial, trial->plan->ends[e].process,
	    later(from, at->opening_ns), to);
}

/*
 * An awaited peer was absent, or not there for long: it had not come, or had
 * left again. News of peers starts at its open; for a source, which opens only
 * then, soon after it found the flow.
 */
static bool was_missing(const struct trial *trial, uint32_t e, uint32_t peer)
{
	const struct end_board *at = &trial->board->ends[e];
	const struct end_board *of = &trial->board->ends[peer];
	uint32_t process = trial->plan->ends[peer].process;
	int64_t gone = gone_soonest_ns(trial, process);
	int64_t from, to = at->failed_ns;

	if (!of->opened_ns)
		return true;
	from = later(at->opening_ns,
	    atomic_load(&trial->board->processes[CREATOR].ready_ns));
	from = later(from, later(at->opened_ns, of->opened_ns));
	if (gone)
		to = earlier(to, gone);
	if (of->closing_ns)
		to = earlier(to, of->closing_ns);
	return !is_long(trial, trial->plan->ends[e].process, from, to);
}

/*
 * Its process was stopped when others asked for its region, and not known to be
 * gone.
 */
static bool gave_no_answer(const struct trial *trial, uint32_t e)
{
	const struct end_board *at = &trial->board->ends[e];
	uint32_t peer = named_peer(trial, e, "");
	int64_t gone;

	if (peer == trial->plan->n_ends || !names_pid(trial, e, peer) ||
	    !strstr(at->text, "doesn't answer"))
		return false;
	gone = end_died_ns(trial, peer);
	return was_stopped(trial, trial->plan->ends[peer].process,
		   at->opening_ns, at->failed_ns) &&
	    (!gone ||
		!was_before(gone, at->failed_ns, trial->outcome->limit_ns));
}

/* It had found the flow, and nobody else could attach any more. */
static void check_lost_creator(struct trial *trial, uint32_t e)
{
	int64_t gone = gone_ns(trial, CREATOR);

	if (!trial->plan->flags && gone &&
	    was_before(gone, trial->board->ends[e].failed_ns,
		trial->outcome->limit_ns))
		unjustified(trial, e, "nobody told it of the creator");
}

/* Until this time tuples came to a target that misses no source meanwhile. */
static int64_t busy_until_ns(const struct trial *trial, uint32_t e)
{
	const struct end_board *ends = trial->board->ends;
	int64_t until = 0;

	if (trial->plan->ends[e].is_source)
		return 0;
	for (uint32_t i = 0; i < trial->plan->n_ends; i++)
		if (trial->plan->ends[i].is_source && ends[i].opened_ns)
			until = later(until, atomic_load(&ends[i].entered_ns));
	return earlier(until, ends[e].failed_ns);
}

static void check_timed_out(struct trial *trial, uint32_t e)
{
	const struct end_board *at = &trial->board->ends[e];
	int64_t timeout_ns = (int64_t)trial->outcome->open_timeout_ms * 1000000;
	uint32_t peer = named_peer(trial, e, "waiting for ");
	/* An open target waits this long for its sources. */
	int64_t from = at->opened_ns ? at->opened_ns : at->opening_ns;
	bool lacks = lacked_registry(trial, at->opening_ns, at->failed_ns);

	if (at->failed_ns < at->opening_ns + timeout_ns)
		unjustified(trial, e, "it gave up early");
	if (peer < trial->plan->n_ends && !lacks) {
		if (!was_missing(trial, e, peer))
			unjustified(trial, e, "that peer was there");
		check_lost_creator(trial, e);
	} else if (strstr(at->text, "nobody has created it") && !lacks) {
		if (!was_not_created(trial, e))
			unjustified(trial, e, "the flow was there");
	} else if (!lacks && !gave_no_answer(trial, e) &&
	    !strstr(at->text, "no time was left to ask") &&
	    !was_stopped(
		trial, trial->plan->ends[e].process, from, at->failed_ns)) {
		/* One that was stopped, or starved, has no time left. */
		unjustified(trial, e, "the text gives no reason");
	}
	check_time(trial, e, later(from + timeout_ns, busy_until_ns(trial, e)));
}

/* At some time between these, its registry had died or had declared it dead. */
static bool was_disconnected(
    const struct trial *trial, uint32_t process, int64_t from_ns, int64_t to_ns)
{
	int64_t expired = expired_soonest_ns(trial, process);

	return (trial->outcome->registry_down_ns &&
		   lacked_registry(trial, from_ns, to_ns)) ||
	    (expired && expired <= to_ns);
}

static void check_error(struct trial *trial, uint32_t e)
{
	const struct end_board *at = &trial->board->ends[e];

	if (at->ret == -ECONNRESET)
		check_reset(trial, e);
	else if (at->ret == -ECANCELED)
		check_canceled(trial, e);
	else if (at->ret == -ETIMEDOUT)
		check_timed_out(trial, e);
	else if ((at->ret != -ENOTCONN && at->ret != -ECONNREFUSED) ||
	    !was_disconnected(trial, trial->plan->ends[e].process,
		at->opening_ns, at->failed_ns))
		unjustified(trial, e, "this error can't be");
}

/*
 * Over a network a source that closes writes its end marks, and only then
 * learns that a target has died meanwhile. The others have all of theirs.
 */
static bool lost_a_target_at_its_end(const struct trial *trial, uint32_t e)
{
	const struct end_board *at = &trial->board->ends[e];

	return over_network() && at->closing_ns &&
	    at->failed_ns >= at->closing_ns && at->close_ret == -ECONNRESET;
}

/* It has all tuples that each source has pushed for it. */
static void check_whole(struct trial *trial, uint32_t target)
{
	const struct end_board *to = &trial->board->ends[target];
	uint32_t index = trial->plan->ends[target].index, s;
	const struct end_board *from;
	uint64_t got, pushed;

	for (s = 0; s < trial->plan->n_sources; s++) {
		from = &trial->board->ends[s];
		got = atomic_load(&to->tuples[s]);
		pushed = atomic_load(&from->tuples[index]);
		if (state(trial, s) != END_CLOSED &&
		    state(trial, s) != END_CLOSING)
			violation(trial,
			    "target %u ended clean, but source %u never closed",
			    index, s);
		else if (left(trial, s) && !lost_a_target_at_its_end(trial, s))
			violation(trial,
			    "target %u ended clean, but source %u did not: %d "
			    "%s",
			    index, s, from->ret, from->text);
		else if (got != pushed)
			violation(trial,
			    "target %u ended clean with %" PRIu64 " of %" PRIu64
			    " tuples of source %u",
			    index, got, pushed, s);
	}
}

/* No target that wanted tuples left before it closed. */
static void check_readers(struct trial *trial, uint32_t source)
{
	const struct end_board *at = &trial->board->ends[source];
	int64_t continued =
	    trial->outcome->continued_ns[trial->plan->ends[source].process];
	int64_t closed = at->closing_ns, gone;
	uint32_t t;

	for (t = trial->plan->n_sources; t < trial->plan->n_ends; t++) {
		gone = peer_gone_ns(trial, t);
		if (trial->board->ends[t].cancelled)
			gone = 0;
		/* Only the registry reports an endpoint that has left. */
		if (!gone && left(trial, t) &&
		    !lacked_registry(trial, at->opening_ns, at->closed_ns))
			gone = trial->board->ends[t].closed_ns;
		/* A target that had read to the end is no loss. */
		if (state(trial, t) == END_CLOSED && !left(trial, t))
			gone = 0;
		/* A stopped one learned of it only when it continued. */
		if (gone)
			gone = later(gone, continued);
		if (gone && was_before(gone, closed, trial->outcome->limit_ns))
			violation(trial,
			    "source %u ended clean, but target %u had gone",
			    source, trial->plan->ends[t].index);
	}
}

static void check_refusals(struct trial *trial, uint32_t source)
{
	uint32_t refused = trial->board->ends[source].refused_by, t;

	for (t = 0; t < trial->plan->n_targets; t++)
		if (refused & 1u << t &&
		    !trial->board->ends[trial->plan->n_sources + t].cancelled)
			violation(trial,
			    "source %u: -EPIPE from target %u, which had not "
			    "cancelled",
			    source, t);
}

static void judge_end(struct trial *trial, uint32_t e)
{
	const struct end_board *at = &trial->board->ends[e];
	const struct end_plan *plan = &trial->plan->ends[e];
	uint32_t life = state(trial, e);

	if (at->damaged)
		violation(trial, "%s %u: wrong: %s", role(trial, e),
		    plan->index, at->text);
	if (plan->is_source)
		check_refusals(trial, e);
	if (life != END_CLOSED && life != END_REFUSED) {
		if (!end_died_ns(trial, e) &&
		    !trial->outcome->hung[plan->process] &&
		    !trial->board->processes[plan->process].ret)
			violation(trial, "%s %u did not end", role(trial, e),
			    plan->index);
		return;
	}
	if (at->ret < 0)
		check_error(trial, e);
	else if (plan->is_source)
		check_readers(trial, e);
	else if (!at->cancelled && !left(trial, e))
		check_whole(trial, e);
}

static void judge_process(struct trial *trial, uint32_t process)
{
	const struct outcome *outcome = trial->outcome;
	const struct process_board *at;
	int status = outcome->status[process];

	if (outcome->hung[process])
		violation(trial, "process %u hung", process);
	if (process == REGISTRY) {
		if (status && !trial->plan->loses_registry)
			violation(trial, "the registry ended with %#x", status);
		return;
	}
	at = &trial->board->processes[process];
	if (status && !outcome->hung[process] && !died_ns(trial, process))
		violation(trial, "process %u ended with %#x: %s", process,
		    status, WIFSIGNALED(status) ? "a signal" : "an exit");
	if (at->ret && !outcome->registry_down_ns &&
	    !was_stopped(trial, REGISTRY, 0, INT64_MAX) &&
	    !outcome->expired_ns[process])
		violation(
		    trial, "process %u: %d %s", process, at->ret, at->text);
}

/* Any two targets have the same order as far as both have noted it. */
static void judge_order(struct trial *trial)
{
	const struct end_board *ends = trial->board->ends, *a, *b;
	uint32_t first = trial->plan->n_sources, e, f, i, n;

	for (e = first; e < trial->plan->n_ends; e++)
		for (f = first; f < e; f++) {
			a = &ends[e];
			b = &ends[f];
			n = atomic_load(&a->n_order);
			if (atomic_load(&b->n_order) < n)
				n = atomic_load(&b->n_order);
			for (i = 0; i < n && a->order[i] == b->order[i]; i++)
				;
			if (i < n)
				violation(trial,
				    "tuple %u of the order is of source %u at "
				    "target %u, of source %u at target %u",
				    i, a->order[i], e - first, b->order[i],
				    f - first);
		}
}

/* The barrier was over for a process while this one was missing. */
static bool kept_waiting(
    const struct trial *trial, uint32_t process, uint32_t waiting)
{
	const struct process_board *at = &trial->board->processes[process];
	const struct process_board *of = &trial->board->processes[waiting];

	/*
	 * It came last, or never, or had given up before, or was stopped
	 * meanwhile, or died there.
	 */
	return !at->meeting_ns ||
	    (at->met && at->meet_ret && at->met_ns < of->met_ns) ||
	    !is_long(trial, waiting, at->meeting_ns, of->met_ns) ||
	    was_stopped(trial, process, at->meeting_ns, of->met_ns) ||
	    (gone_ns(trial, process) && !at->met);
}

/* Somebody kept it waiting, or it could not know of the others. */
static bool waited_in_vain(const struct trial *trial, uint32_t process)
{
	const struct process_board *at = &trial->board->processes[process];
	uint32_t p;

	if (lacked_registry(trial, at->meeting_ns, at->met_ns))
		return true;
	for (p = 0; p < trial->plan->n_processes; p++)
		if (kept_waiting(trial, p, process))
			return true;
	return false;
}

/* The member that the text names, if it is gone, or heard of one that is. */
static bool names_gone_member(const struct trial *trial, const char *text)
{
	const struct process_board *at;
	char words[32];
	uint32_t p;

	for (p = 0; p < trial->plan->n_processes; p++) {
		at = &trial->board->processes[p];
		snprintf(words, sizeof(words), "pid %u)", at->pid);
		if (strstr(text, words))
			return gone_ns(trial, p) || (at->met && at->meet_ret) ||
			    trial->outcome->registry_down_ns;
	}
	return false;
}

static void judge_meeting(struct trial *trial, uint32_t process)
{
	const struct process_board *at = &trial->board->processes[process];
	int64_t timeout_ns = (int64_t)trial->outcome->open_timeout_ms * 1000000;
	bool ok;

	if (!at->met)
		return;
	if (at->meet_ret == -ETIMEDOUT)
		ok = waited_in_vain(trial, process);
	else if (at->meet_ret == -ECONNRESET)
		ok = names_gone_member(trial, at->meet_text);
	else
		ok = !at->meet_ret ||
		    was_disconnected(
			trial, process, at->meeting_ns, at->met_ns);
	if (!ok)
		violation(trial, "process %u at the barrier: %d %s", process,
		    at->meet_ret, at->meet_text);
	/* Opening takes at most as long as waiting. */
	if (!was_stopped(trial, process, at->meeting_ns, at->met_ns) &&
	    was_before(at->meeting_ns, at->met_ns,
		trial->outcome->limit_ns + 2 * timeout_ns))
		violation(trial, "process %u was %" PRId64 " ms at the barrier",
		    process, (at->met_ns - at->meeting_ns) / 1000000);
}

unsigned judge(const struct plan *plan, const struct board *board,
    const struct outcome *outcome, struct latest *latest)
{
	struct trial trial = {
		.plan = plan,
		.board = board,
		.outcome = outcome,
		.latest = latest,
	};
	uint32_t i;

	for (i = 0; i < plan->n_processes; i++)
		judge_process(&trial, i);
	for (i = 0; i < plan->n_processes; i++)
		judge_meeting(&trial, i);
	judge_process(&trial, CREATOR);
	judge_process(&trial, REGISTRY);
	for (i = 0; i < plan->n_ends; i++)
		judge_end(&trial, i);
	judge_order(&trial);
	return trial.violations;
}

void print_board(const struct plan *plan, const struct board *board,
    const struct outcome *outcome)
{
	struct trial trial = {
		.plan = plan,
		.board = board,
		.outcome = outcome,
	};
	const struct end_board *at;
	int64_t start = 0;
	uint32_t e, i;

	for (e = 0; e < plan->n_ends; e++)
		if (board->ends[e].opening_ns &&
		    (!start || board->ends[e].opening_ns < start))
			start = board->ends[e].opening_ns;
	if (atomic_load(&board->processes[CREATOR].ready_ns))
		printf("  the flow was created at %.1f ms\n",
		    (double)(atomic_load(&board->processes[CREATOR].ready_ns) -
			start) /
			1e6);
	for (e = 0; e < plan->n_ends; e++) {
		at = &board->ends[e];
		printf("  %s %u (pid %u) state %u ret %d close %d opened %.1f "
		       "entered %.1f failed %.1f closed %.1f died %.1f ms;",
		    role(&trial, e), plan->ends[e].index, at->pid,
		    state(&trial, e), at->ret, at->close_ret,
		    (double)(at->opened_ns - start) / 1e6,
		    (double)(atomic_load(&at->entered_ns) - start) / 1e6,
		    (double)(at->failed_ns - start) / 1e6,
		    (double)(at->closed_ns - start) / 1e6,
		    (double)(end_died_ns(&trial, e) - start) / 1e6);
		for (i = 0; i < MAX_ENDS / 2; i++)
			printf(" %" PRIu64 "/%" PRIu64,
			    atomic_load(&at->tuples[i]),
			    atomic_load(&at->flushed[i]));
		printf(" %s\n", at->text);
	}
}
