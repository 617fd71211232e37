/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a source waits: for room in a ring, by itself or by a descriptor that its
 * owner polls; and when it closes, until its targets have received all.
 */
#include "source.h"

#include "base/counter.h"
#include "base/error.h"
#include "transport/transport.h"

/* ---- Room in a ring ---------------------------------------------------- */

static bool has_room_or_end(struct dfi_source *source, uint32_t target)
{
	return writer_credit(&source->rings[target]) != 0 ||
	    source_target_life(source, target) || source_aborted(source) ||
	    source_interrupted(source) ||
	    unlikely(source->replica_writer && dfi__replica_has_left(source));
}

static bool room_or_end(void *arg)
{
	const struct target_wait *wait = arg;
	bool there;

	source_lock(wait->source);
	there = has_room_or_end(wait->source, wait->target);
	source_unlock(wait->source);
	return there;
}

/* Arm the remote before the wait sleeps. */
static void arm_remote(void *arg)
{
	const struct target_wait *wait = arg;
	struct remote *remote = wait->source->rings[wait->target].remote;

	source_lock(wait->source);
	remote->transport->ops->ring.arm(remote);
	source_unlock(wait->source);
}

int dfi__source_await_room(struct dfi_source *source, uint32_t target)
{
	int64_t start = clock_now_ns();
	struct target_wait wait = { .source = source, .target = target };
	_Atomic uint32_t *word = dfi__writer_wait_word(&source->rings[target]);
	struct remote *remote = source->rings[target].remote;
	bool there;

	counter_add(&source->stalls, 1);
	atomic_set(&source->waits_for, target);
	source->wait.arm = remote->in_place ? NULL : arm_remote;
	/* Threads of this process see credits that come over a network. */
	source->wait.fenced = !remote->in_place;
	source->wait.arm_arg = &wait;
	/*
	 * Pairs with dfi__peers_wake(): orders the mapping that the word lies
	 * in.
	 */
	atomic_publish(&source->targets.sleeping, word);
	source_unlock(source);
	there = wait_until(&source->wait, word, &source->wait_time, room_or_end,
	    &wait, remote->in_place ? 1 : WAIT_QUEUE_COST);
	source_lock(source);
	atomic_set(&source->targets.sleeping, NULL);
	if (there)
		return 0;
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': %s %u: the ring of %s %u stayed full for %ld ms",
	    source->flow.name, SOURCE_ID(source),
	    PEER_ID(&source->targets, target),
	    /* The wait of a close may be shorter. */
	    (long)(min_u64((uint64_t)(clock_now_ns() - start),
		       (uint64_t)source->wait_time.timeout_ns) /
		NS_PER_MS));
}

/* Announce the source at rings without room; true: it was not announced. */
static bool announce(struct dfi_source *source)
{
	struct notify *notify = source->notify;
	bool fresh = dfi__notify_announce(notify, &notify->self.word);
	struct writer *writer;
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++) {
		writer = &source->rings[t];
		if (writer->wanted &&
		    dfi__notify_announce(notify, dfi__writer_wait_word(writer)))
			fresh = true;
	}
	return fresh;
}

static uint64_t segments_sent(const struct dfi_source *source)
{
	uint64_t n = 0;
	uint32_t t;

	for (t = 0; t < source->n_lanes; t++)
		n += atomic_peek(&source->writers[t].segments);
	return n;
}

bool dfi__source_arm(struct dfi_source *source, uint32_t target)
{
	struct notify *notify = source->notify;
	struct remote *remote;
	bool other = false;
	uint32_t t;

	dfi__notify_drain(notify);
	dfi__notify_sleep(notify, announce(source), false,
	    segments_sent(source), DEADLINE_NEVER);
	for (t = 0; t < source->n_remotes; t++) {
		if (!source->rings[t].wanted)
			continue;
		remote = source->rings[t].remote;
		if (!remote->in_place)
			remote->transport->ops->ring.arm(remote);
		if (t != target && has_room_or_end(source, t))
			other = true;
	}
	if (other)
		dfi__notify_kick(notify);
	return has_room_or_end(source, target);
}

int dfi_source_fd(struct dfi_source *source)
{
	CANCEL_POINT;
	SOURCE_CALL(source, SOURCE_SHARED(source));
	struct notify *notify;
	int ret = handle_check(
	    source, source ? &source->magic : NULL, SOURCE_MAGIC);

	if (ret < 0)
		return ret;
	if (!(source->flags & DFI_NONBLOCK))
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: a descriptor is for handles that "
		    "were opened with DFI_NONBLOCK",
		    source->flow.name, SOURCE_ID(source));
	if (source->notify)
		return source->notify->fd;
	ret = dfi__notify_new(&notify);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s': %s %u",
		    source->flow.name, SOURCE_ID(source));
	source->notify = notify;
	/* The control thread and dfi_source_abort() wake the owner by it. */
	atomic_publish(&source->targets.sleeping, &notify->self.word);
	return notify->fd;
}

/* ---- The end ----------------------------------------------------------- */

/*
 * The time to wait for a target that has left. It may have read everything, and
 * the proof may still come; but a target that has died may never send the proof
 * while its queue pair lives. The time is longer than a queue pair retries. A
 * cancelled target gets it as well: a ring that closes before its writes
 * complete costs its connection, which other sources could use.
 */
#define GONE_NS (INT64_C(4) * NS_PER_S)

/*
 * On a lost connection, only acknowledgements that the target sent before can
 * still come.
 */
#define LOST_NS (INT64_C(1) * NS_PER_S)

/*
 * What a closing source still expects of a target; a later state shortens the
 * wait.
 */
enum drain_state {
	TARGET_ANSWERS,
	TARGET_LEFT, /* or the source has aborted */
	TARGET_LOST,
};

struct drain_wait {
	struct target_wait base;
	enum drain_state drain_state;
};

static enum drain_state drain_state_of(
    struct dfi_source *source, uint32_t target)
{
	if (writer_lost(&source->rings[target]))
		return TARGET_LOST;
	return source_aborted(source) ||
		peers_state(&source->targets, target) == PEER_GONE ||
		source_target_life(source, target) == TARGET_CANCELLED
	    ? TARGET_LEFT
	    : TARGET_ANSWERS;
}

static bool drained_or_gone(void *arg)
{
	struct drain_wait *wait = arg;
	struct dfi_source *source = wait->base.source;
	uint32_t target = wait->base.target;

	source_look(source);
	return dfi__writer_drained(&source->rings[target]) != 0 ||
	    drain_state_of(source, target) > wait->drain_state;
}

/* After an abort, all targets share this time. */
static int64_t drain_deadline(
    struct dfi_source *source, enum drain_state drain_state, int64_t deadline)
{
	int64_t now = clock_now_ns();
	int64_t until = now + (drain_state == TARGET_LOST ? LOST_NS : GONE_NS);

	if (drain_state != TARGET_ANSWERS && until < deadline)
		deadline = until;
	if (!source_aborted(source))
		return deadline;
	if (!source->gives_up)
		source->gives_up = now + GONE_NS;
	return source->gives_up < deadline ? source->gives_up : deadline;
}

/* The target has not drained, or can't (-ECONNRESET). */
static int fail_drain(struct dfi_source *source, const struct drain_wait *wait,
    int ret, int64_t start)
{
	uint32_t target = wait->base.target;

	if (dfi__source_settled_life(source, target) == TARGET_CANCELLED)
		return 0;
	if (!ret && source_aborted(source) &&
	    peers_state(&source->targets, target) == PEER_PRESENT)
		return dfi__source_check_slow(source);
	if (ret < 0 || wait->drain_state != TARGET_ANSWERS)
		return dfi__peers_lost(&source->targets, target);
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': %s %u: closed, but after %ld ms it is not known "
	    "whether all has arrived at %s %u",
	    source->flow.name, SOURCE_ID(source),
	    (long)((clock_now_ns() - start) / NS_PER_MS),
	    PEER_ID(&source->targets, target));
}

int dfi__source_drain(
    struct dfi_source *source, uint32_t target, int64_t deadline)
{
	struct drain_wait wait = { .base = { source, target } };
	struct writer *writer = &source->rings[target];
	struct wait_time *time = &source->wait_time;
	int64_t start = clock_now_ns();
	_Atomic uint32_t *word;
	bool there = true;
	int ret;

	/* The target had cancelled before the source attached. */
	if (!writer->remote)
		return 0;
	source_look(source);
	word = dfi__writer_wait_word(writer);
	atomic_set(&source->waits_for, target);
	while ((ret = dfi__writer_drained(writer)) == 0 && there) {
		wait.drain_state = drain_state_of(source, target);
		time->deadline = drain_deadline(
		    source, wait.drain_state, deadline);
		source->wait.arm = arm_remote;
		source->wait.fenced = true;
		source->wait.arm_arg = &wait.base;
		/*
		 * Pairs with dfi__peers_wake(): orders the mapping that the
		 * word lies in.
		 */
		atomic_publish(&source->targets.sleeping, word);
		there = wait_until(
		    &source->wait, word, time, drained_or_gone, &wait, 1);
		atomic_set(&source->targets.sleeping, NULL);
	}
	return ret > 0 ? 0 : fail_drain(source, &wait, ret, start);
}
