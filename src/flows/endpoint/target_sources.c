/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a target's sources: they end, abort, die, or never attach.
 * The registry, the connections and the rings report it.
 */
#include "target.h"

#include <stddef.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "await.h"
#include "flows/declare/tree.h"
#include "transport/transport.h"

/*
 * End the flow with err, whose text was just set, after the application has
 * consumed what has arrived by now from all sources.
 */
static void lose(struct dfi_target *target, int err)
{
	uint32_t i;

	snprintf(target->status_text, sizeof(target->status_text), "%s",
	    dfi_errmsg());
	for (i = 0; i < target->n_readers; i++) {
		/* A ring whose slots can't be found ends here as well. */
		if (!target->readers[i].slots &&
		    reader_ready(&target->readers[i]))
			(void)dfi__reader_find_slots(&target->readers[i]);
		target->readers[i].stop = dfi__reader_arrived(
		    &target->readers[i]);
	}
	atomic_publish(&target->lost, err);
}

/* What became of the ring's writer; *at: the export that knows it. */
static enum ring_loss loss_of(
    const struct dfi_target *target, uint32_t source, const struct export **at)
{
	const struct export *export = target->region->exports;
	uint64_t node = peers_node(&target->sources, source);
	enum ring_loss loss = RING_KEPT, here;

	for (; export; export = export->next) {
		here = export->transport->ops->ring.lost(export, source, node);
		if (here <= loss)
			continue;
		loss = here;
		*at = export;
	}
	return loss;
}

/* Whether the target has lost any writer; a look at all sources asks often. */
static inline bool has_losses(const struct dfi_target *target)
{
	const struct export *export = target->region->exports;

	while (export && !atomic_observe(&export->changes))
		export = export->next;
	return export;
}

/* Whether the connection is lost. state: the registry's state, read before. */
static bool is_lost(
    const struct dfi_target *target, uint32_t source, uint32_t state)
{
	const struct export *at;
	enum ring_loss loss;

	if (likely(!has_losses(target)))
		return false;
	loss = loss_of(target, source, &at);
	/* A peer may go before it attached, and another may come. */
	return loss == RING_LOST ||
	    (loss == RING_LOST_UNWRITTEN && state != PEER_ABSENT);
}

const char *dfi__target_why_lost(const struct peers *sources, uint32_t source)
{
	const struct dfi_target *target =
	    (const struct dfi_target *)(const void *)((const char *)sources -
		offsetof(struct dfi_target, sources));
	const struct export *at = target->region->exports;

	(void)loss_of(target, source, &at);
	return at ? at->transport->ops->ring.writer_why(
			at, source, peers_node(sources, source))
		  : NULL;
}

static bool is_gone(struct dfi_target *target, uint32_t source)
{
	uint32_t state = peers_state(&target->sources, source);
	bool gone = state == PEER_GONE;

	/* Segments of the source may still come. */
	if (gone && target_follows(target, source))
		gone = false;
	return gone || is_lost(target, source, state);
}

void dfi__target_settle(const struct dfi_target *target)
{
	const struct export *export = target->region->exports;

	for (; export; export = export->next)
		export->transport->ops->settle(export->transport);
}

/* A source has aborted; a combiner may have done so because of another's. */
static int aborted(struct dfi_target *target, uint32_t source)
{
	const struct reader *reader = &target->readers[source];
	char name[256], culprit[32];
	enum tree_fate fate = target->flow.part.from_combiners
	    ? dfi__tree_fate(reader->cause)
	    : TREE_UNKNOWN;

	dfi__peers_name(&target->sources, source, name, sizeof(name));
	if (fate == TREE_UNKNOWN) {
		target->cause = dfi__tree_cause(
		    &target->flow, source, TREE_ABORTED);
		return dfi__fail(-ECANCELED,
		    "flow '%s': %s aborted the flow after %lu tuples",
		    target->flow.name, name,
		    (unsigned long)atomic_peek(&reader->total));
	}
	target->cause = reader->cause;
	dfi__tree_culprit(reader->cause, culprit, sizeof(culprit));
	if (fate == TREE_DIED)
		return dfi__fail(-ECONNRESET,
		    "flow '%s': %s died or closed before the end of the flow, "
		    "says %s",
		    target->flow.name, culprit, name);
	if (fate == TREE_NEVER_CAME)
		return dfi__fail(-ECONNRESET,
		    "flow '%s': %s never attached, and nobody can any more, "
		    "says %s",
		    target->flow.name, culprit, name);
	return dfi__fail(-ECANCELED, "flow '%s': %s aborted the flow, says %s",
	    target->flow.name, culprit, name);
}

void dfi__target_put_out(struct dfi_target *target, int err)
{
	dfi__target_settle(target);
	if (dfi__reader_fate(&target->readers[0]) != READER_OPEN)
		return;
	lose(target, err);
	target->look_again |= LOOK_AT_SOURCES;
}

static void lose_dead(struct dfi_target *target, uint32_t source)
{
	target->cause = dfi__tree_cause(&target->flow, source, TREE_DIED);
	lose(target, dfi__peers_lost(&target->sources, source));
}

/*
 * A source that is held back. A combiner judges it later. Otherwise others may
 * never come as far, so that it is gone, or has aborted, is reported at once;
 * what lies behind its mark is not taken.
 */
static void check_held(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];
	enum reader_end fate;
	bool gone;

	if (!target->marks)
		return;
	/* In this order, as in check_source(). */
	gone = is_gone(target, source);
	if (gone)
		dfi__target_settle(target);
	fate = dfi__reader_fate(reader);
	if (fate == READER_ABORTED) {
		reader->end = READER_ABORTED;
		lose(target, aborted(target, source));
	} else if (fate == READER_OPEN && gone) {
		lose_dead(target, source);
	}
}

/*
 * A ring without a segment: its source may have ended. If it has aborted or is
 * gone, that ends the flow (target_lost()). Returns 0, or an error that ends
 * the flow at once.
 */
static int check_source(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];
	bool gone;
	int ret;

	if (reader->end)
		return 0;
	if (reader->held) {
		check_held(target, source);
		return 0;
	}
	/*
	 * Read this before the ring: the ring then has all that a dead source
	 * wrote.
	 */
	gone = is_gone(target, source);
	if (gone)
		dfi__target_settle(target);
	if (reader_ready(reader)) {
		target->look_again |= gone ? LOOK_AT_SOURCES : 0;
		return 0;
	}
	ret = dfi__reader_check_end(reader);
	if (ret < 0)
		return dfi__target_damaged(target, source, ret);
	if (reader->end == READER_ENDED) {
		target->n_open--;
		if (target->marks)
			dfi__marks_ended(target, source);
		return 0;
	}
	if (reader->end == READER_ABORTED)
		lose(target, aborted(target, source));
	else if (gone && !reader_ready(reader))
		lose_dead(target, source);
	return 0;
}

/*
 * A poll of more rings than this looks at the end marks only this often. They
 * lie in lines of their own, so looking at all of them takes as long as looking
 * for segments, and a source ends once.
 */
#define ENDS_RINGS 16
#define ENDS_NS (INT64_C(50) * 1000)

/* Whether it is time to look at the end marks. */
static bool ends_are_due(struct dfi_target *target)
{
	int64_t now;

	if (target->n_readers <= ENDS_RINGS)
		return true;
	now = clock_now_ns();
	if (now < target->ends_due)
		return false;
	target->ends_due = now + ENDS_NS;
	return true;
}

int dfi__target_check_ends(struct dfi_target *target)
{
	const struct reader *reader = target->readers;
	bool due = ends_are_due(target);
	uint32_t i;
	int ret = 0;

	if (unlikely(dfi__peers_cannot_attach(&target->sources)))
		return dfi__target_check_sources(target);
	for (i = 0;
	     due && !ret && !target_lost(target) && i < target->n_readers;
	     i++, reader++)
		if (unlikely(!reader->end && reader_end_marked(reader)))
			ret = check_source(target, i);
	return ret;
}

/* A source has not attached, and can't any more. */
static void lose_absent(struct dfi_target *target)
{
	uint32_t i = 0;

	while (i < target->n_readers &&
	    peers_state(&target->sources, i) != PEER_ABSENT)
		i++;
	if (i < target->n_readers)
		target->cause = dfi__tree_cause(
		    &target->flow, i, TREE_NEVER_CAME);
	lose(target, dfi__peers_flow_gone(&target->sources));
}

int dfi__target_check_sources(struct dfi_target *target)
{
	uint32_t i;
	int ret = 0;

	target->seen_changes = target_changes(target);
	target->look_again &= LOOK_FOR_IDLE;
	for (i = 0; !ret && !target_lost(target) && i < target->n_readers; i++)
		ret = check_source(target, i);
	if (!ret && !target_lost(target) &&
	    dfi__peers_cannot_attach(&target->sources))
		lose_absent(target);
	if (!ret && target->marks &&
	    (target->marks->risen || target->marks->has_gap)) {
		target->look_again |= LOOK_AT_SOURCES;
		return dfi__marks_event_is_next();
	}
	return ret;
}

int dfi__target_look(struct dfi_target *target)
{
	if (target->look_again & LOOK_FOR_IDLE)
		dfi__marks_look(target);
	return target_changes(target) != target->seen_changes ||
		target->look_again & LOOK_AT_SOURCES
	    ? dfi__target_check_sources(target)
	    : 0;
}
