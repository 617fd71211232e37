/* SPDX-License-Identifier: Apache-2.0 */
/* Global order: the sources and targets of ordered flows. */
#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/compiler.h"
#include "base/counter.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/log.h"
#include "flows/context/shared_counter.h"
#include "state.h"

/* The target that has the sequencer. */
#define HOLDER 0

/* The states of a target and of a source. */
static inline struct merge *merge_of(const struct dfi_target *target)
{
	return &replicate_of(target)->merge;
}

struct order_source {
	struct shared_counter_user sequencer;
	int64_t lost_at; /* when its connection was found broken; 0: it isn't */
};

static inline struct order_source *order_of(const struct dfi_source *source)
{
	return source->state;
}

static inline struct shared_counter_user *sequencer_of(
    const struct dfi_source *source)
{
	return &order_of(source)->sequencer;
}

static int reserve_sequencer(struct dfi_target *target)
{
	char what[DFI_MAX_FLOW_NAME + 40];
	int ret;

	target->sequencer = calloc(1, sizeof(*target->sequencer));
	if (!target->sequencer)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", target->flow.name);
	snprintf(
	    what, sizeof(what), "flow '%s': its sequencer", target->flow.name);
	ret = dfi__shared_counter_create(target->dfi,
	    (enum dfi_transport)target->flow.transport, what,
	    MERGE_FIRST_POSITION, target->sequencer);
	if (ret < 0)
		return dfi__fail_within(ret,
		    "flow '%s': target %u: the sequencer", target->flow.name,
		    target->index);
	return 0;
}

int dfi__order_open_target(struct dfi_target *target)
{
	int ret = dfi__replicate_target(target);

	if (!ret)
		ret = dfi__merge_init(
		    merge_of(target), target->n_readers, MERGE_FIRST_POSITION);
	if (ret < 0)
		return dfi__fail(
		    ret, "flow '%s': out of memory", target->flow.name);
	target->in_order = true;
	return target->index == HOLDER ? reserve_sequencer(target) : 0;
}

void dfi__order_close_target(struct dfi_target *target)
{
	if (target->state)
		dfi__merge_free(merge_of(target));
	target->in_order = false;
	if (target->sequencer)
		dfi__shared_counter_destroy(target->sequencer);
	free(target->sequencer);
	target->sequencer = NULL;
}

/* As dfi_target_consume() counts: the first segment of a flow is at 0. */
static unsigned long position_of(uint64_t position)
{
	return (unsigned long)(position - MERGE_FIRST_POSITION);
}

static int fail_position(
    const struct dfi_target *target, uint32_t ring, uint64_t position)
{
	return dfi__fail(-EBADMSG,
	    "segment %lu: its position is %lu, but all below %lu are delivered",
	    (unsigned long)target->readers[ring].seq, position_of(position),
	    position_of(merge_of(target)->position));
}

/*
 * Move the next segment of a ring in the receive list to the next list: 1; 0:
 * there is none; or an error.
 */
static int look(struct dfi_target *target, uint32_t index)
{
	struct merge *merge = merge_of(target);
	uint32_t ring = merge->rings[index];
	struct reader *reader = &target->readers[ring];
	uint64_t position;
	int ret;

	if (!reader_ready(reader))
		return 0;
	if (unlikely(!reader->slots)) {
		ret = dfi__reader_find_slots(reader);
		if (ret < 0 || !reader_ready(reader))
			return ret;
	}
	ret = dfi__reader_global(reader, &position);
	if (ret < 0)
		return ret;
	return dfi__merge_arrived(merge, index, position)
	    ? 1
	    : fail_position(target, ring, position);
}

int dfi__order_find(struct dfi_target *target, uint32_t *ring)
{
	struct merge *merge = merge_of(target);
	uint32_t i = merge->n_next;
	int ret = 0;

	*ring = merge->rings[0];
	if (unlikely(merge_is_late(merge)))
		return fail_position(target, *ring, merge->positions[*ring]);
	while (!merge_is_due(merge) && i < merge->n_next + merge->n_waiting) {
		*ring = merge->rings[i];
		ret = look(target, i);
		if (ret < 0)
			return ret;
		if (!ret && target->readers[*ring].end)
			dfi__merge_ended(merge, i);
		else
			i++;
	}
	*ring = merge_is_due(merge) ? merge_first(merge) : target->n_readers;
	return 0;
}

uint64_t dfi__order_taken(struct dfi_target *target, uint32_t n)
{
	uint64_t position = merge_of(target)->position - MERGE_FIRST_POSITION;

	dfi__merge_delivered(merge_of(target), n);
	return position;
}

int dfi__order_position(const struct dfi_target *target, uint64_t *position)
{
	*position = merge_of(target)->position - MERGE_FIRST_POSITION;
	return 0;
}

bool dfi__order_changed(const struct dfi_target *target)
{
	const struct merge *merge = merge_of(target);
	uint32_t i, end = merge->n_next + merge->n_waiting;
	const struct reader *reader;

	if (merge_is_due(merge))
		return true;
	for (i = merge->n_next; i < end; i++) {
		reader = &target->readers[merge->rings[i]];
		if (reader_ready(reader) ||
		    (!reader->end && reader_end_marked(reader)))
			return true;
	}
	return false;
}

int dfi__order_check(const struct dfi_target *target)
{
	const struct merge *merge = merge_of(target);
	uint32_t ring;

	if (likely(merge->n_next < target->n_open || !merge->n_next ||
		merge_is_due(merge)))
		return 0;
	ring = merge_first(merge);
	return dfi__fail(-EBADMSG,
	    "flow '%s': target %u: no source has sent what belongs at position "
	    "%lu of the order: of all that have not ended, source %u is the "
	    "next, with its segment %lu at position %lu",
	    target->flow.name, target->index, position_of(merge->position),
	    ring, (unsigned long)target->readers[ring].seq,
	    position_of(merge->positions[ring]));
}

/* ---- A sequencer that is gone ------------------------------------------- */

/*
 * How long the news of its holder may come after the end of its connection: on
 * the connection of the holder's ring, or from the registry.
 */
#define NEWS_NS (NS_PER_S / 2)

/* Leave out the targets that have cancelled; returns whether others are left.
 */
static bool has_targets(struct dfi_source *source)
{
	bool others = false;
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++) {
		if (!source->rings[t].cancelled &&
		    source_target_life(source, t) == TARGET_CANCELLED)
			(void)dfi__source_target_left(source, t);
		others |= !source->rings[t].cancelled;
	}
	return others;
}

/* The connection broke, but it is not known yet how the holder has ended. */
static bool awaits_news(struct dfi_source *source)
{
	struct order_source *order = order_of(source);
	int64_t now = clock_now_ns();

	if (!order->lost_at)
		order->lost_at = now;
	return dfi__source_settled_life(source, HOLDER) == TARGET_STAYS &&
	    now - order->lost_at < NEWS_NS;
}

static int fail_holder(struct dfi_source *source, int err)
{
	bool cancelled = source_target_life(source, HOLDER) ==
		TARGET_CANCELLED &&
	    source_is_unreachable(err);
	char name[256];

	dfi__peers_name(&source->targets, HOLDER, name, sizeof(name));
	return dfi__fail_within(cancelled ? -ECONNRESET : err,
	    "flow '%s': source %u: the flow's sequencer, with %s%s",
	    source->flow.name, source->index, name,
	    cancelled ? ", which has cancelled and closed its context" : "");
}

/* The draw() of the replica writer. */
static int draw(void *arg, uint64_t *position)
{
	struct dfi_source *source = arg;
	int ret = shared_counter_take(sequencer_of(source), 1, position);

	if (likely(ret >= 0))
		return ret;
	if (awaits_news(source))
		return 0;
	/* The segment is for nobody, so its position does not matter. */
	*position = 0;
	return has_targets(source) ? fail_holder(source, ret) : 1;
}

/* ---- Positions that are on their way ------------------------------------ */

int dfi__order_late(const struct dfi_source *source)
{
	if (source->flags & DFI_NONBLOCK)
		return dfi__fail_text(-EAGAIN,
		    "the position in the order of the source's last segment is "
		    "on its way");
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': source %u: the flow's sequencer, with target %u, has "
	    "not said where in the order the last segment is",
	    source->flow.name, source->index, HOLDER);
}

/* A source that waits for a position; is_logged: the log has said so. */
struct position_wait {
	struct dfi_source *source;
	bool is_logged;
};

/* The control thread of a lingering source may have sent the segment. */
static bool is_drawn_or_end(struct dfi_source *source)
{
	return !replica_waits(source->replica_writer) ||
	    dfi__replica_drawn(source->replica_writer) ||
	    source_aborted(source) || source_interrupted(source) ||
	    dfi__replica_has_left(source) ||
	    (order_of(source)->lost_at && !source->wait.unwoken);
}

static bool position_or_end(void *arg)
{
	struct dfi_source *source = ((struct position_wait *)arg)->source;
	bool there;

	source_lock(source);
	there = is_drawn_or_end(source);
	source_unlock(source);
	return there;
}

/* Arm the sequencer before the wait sleeps. */
static void arm_sequencer(void *arg)
{
	struct dfi_source *source = ((struct position_wait *)arg)->source;

	source_lock(source);
	dfi__shared_counter_arm(sequencer_of(source));
	source_unlock(source);
}

static void log_wait(void *arg)
{
	struct position_wait *wait = arg;
	struct dfi_source *source = wait->source;
	char name[256];

	if (wait->is_logged)
		return;
	wait->is_logged = true;
	counter_add(&source->long_stalls, 1);
	dfi__peers_name(&source->targets, HOLDER, name, sizeof(name));
	dfi__log(DFI_LOG_INFO,
	    "flow '%s': source %u waits for its position in the order, which "
	    "the device of %s has not answered for a second",
	    source->flow.name, source->index, name);
}

/* Make the descriptor readable once the position arrives; true: it is there. */
static bool arm_descriptor(struct dfi_source *source)
{
	struct notify *notify = source->notify;
	_Atomic uint32_t *word = dfi__shared_counter_wait_word(
	    sequencer_of(source));
	bool fresh, there;

	dfi__notify_drain(notify);
	fresh = dfi__notify_announce(notify, &notify->self.word);
	fresh = dfi__notify_announce(notify, word) || fresh;
	source->wait.unwoken = order_of(source)->lost_at;
	dfi__notify_sleep(notify, fresh, source->wait.unwoken,
	    atomic_peek(&source->replica_writer->lane.segments),
	    DEADLINE_NEVER);
	dfi__shared_counter_arm(sequencer_of(source));
	there = is_drawn_or_end(source);
	source->wait.unwoken = false;
	return there;
}

/* Wait as long as the handle allows; releases the lock meanwhile. */
static bool await_position(struct dfi_source *source)
{
	struct position_wait wait = { .source = source };
	struct wait_time *time = &source->wait_time;
	_Atomic uint32_t *word = dfi__shared_counter_wait_word(
	    sequencer_of(source));
	void (*tick)(void *arg) = time->tick;
	bool there;

	counter_add(&source->stalls, 1);
	atomic_set(&source->waits_for, HOLDER);
	/* The usual tick reports a target's ring. */
	time->tick = log_wait;
	source->wait.arm = arm_sequencer;
	/* News of a lost holder wakes other words, or none. */
	source->wait.unwoken = order_of(source)->lost_at;
	source->wait.fenced = true;
	source->wait.arm_arg = &wait;
	/*
	 * Pairs with dfi__peers_wake(): orders the mapping that the word lies
	 * in.
	 */
	atomic_publish(&source->targets.sleeping, word);
	source_unlock(source);
	there = wait_until(
	    &source->wait, word, time, position_or_end, &wait, WAIT_QUEUE_COST);
	source_lock(source);
	atomic_set(&source->targets.sleeping, NULL);
	source->wait.unwoken = false;
	time->tick = tick;
	return there;
}

int dfi__order_wait(struct dfi_source *source)
{
	bool there;
	int ret;

	for (;;) {
		if (source_aborted(source))
			return dfi__source_give_up(source);
		/*
		 * Handle targets that have left first: if all have, don't wait.
		 */
		ret = dfi__replica_left(source, 0);
		if (ret < 0)
			return ret;
		ret = dfi__replica_go_on(source->replica_writer);
		ret = dfi__replica_left(source, ret < 0 ? ret : 0);
		if (ret < 0 || !replica_waits(source->replica_writer))
			return ret;
		if (source_interrupted(source))
			return dfi__source_interrupted(source);
		if (!(source->flags & DFI_NONBLOCK))
			there = await_position(source);
		else
			there = source->notify && arm_descriptor(source);
		if (!there)
			return dfi__order_late(source);
	}
}

static bool holder_is_gone(void *arg)
{
	struct dfi_source *source = arg;

	return peers_state(&source->targets, HOLDER) == PEER_GONE;
}

int dfi__order_open_source(struct dfi_source *source, int64_t deadline)
{
	struct wait_limit wait_limit = { deadline, holder_is_gone, source };
	const struct endpoint *holder = &source->targets.peer[HOLDER].endpoint;
	int ret;

	source->state = calloc(1, sizeof(struct order_source));
	if (!source->state)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	if (!has_targets(source))
		return 0;
	ret = dfi__shared_counter_open(source->dfi,
	    (enum dfi_transport)source->flow.transport, &holder->node,
	    &holder->sequencer, &wait_limit, sequencer_of(source));
	if (ret < 0) {
		ret = dfi__source_target_was_gone(
		    source, HOLDER, ret, deadline);
		if (!has_targets(source))
			return 0;
		return peers_state(&source->targets, HOLDER) == PEER_GONE
		    ? ret
		    : fail_holder(source, ret);
	}
	source->replica_writer->draw = draw;
	source->replica_writer->draw_arg = source;
	return 0;
}

void dfi__order_close_source(struct dfi_source *source)
{
	if (source->state)
		dfi__shared_counter_close(sequencer_of(source));
	free(source->state);
	source->state = NULL;
}
