/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The implementation of a source:
 *
 *	source.c		opens and closes it
 *	source_rings.c		opens the rings of its targets
 *	source_room.c		reserves the memory of the rings
 *	source_share.c		sources that share connections
 *	send.c			opens and sends segments
 *	source_span.c		lends room in them
 *	source_mark.c		sends marks
 *	source_wait.c		waits for room, and for the end
 *	source_status.c		reports its errors
 *	replica_writer.c	handles targets that all get each tuple
 *
 * The tables in kind.h have what a kind of flow adds. Only this header and
 * source.c call their entries. This folder includes no file of kinds/.
 */
#ifndef DFI_FLOWS_ENDPOINT_SOURCE_H
#define DFI_FLOWS_ENDPOINT_SOURCE_H

#include <dfi/push.h>
#include "base/notify.h"
#include "base/wait.h"
#include "buffers/replica_writer.h"
#include "buffers/writer.h"
#include "flows/context/context.h"
#include "flows/context/network.h"
#include "flows/descriptor/descriptor.h"
#include "kind.h"
#include "linger.h"
#include "flows/members/peers.h"
#include "flows/declare/route.h"
#include "stall.h"
#include "stats.h"

/* clang-format off */
/*
 * A shuffle flow has a lane and a ring for each target. A replicate flow has
 * one lane, whose segments go to the rings of all (replica_writer).
 *
 * A lane is two words, lanes[t].next and lanes[t].end, between which a push
 * writes without a call, and a writer, writers[t]. It is in one of three
 * states:
 *
 *	state		writers[t].segment	next		end
 *	-----------------------------------------------------------------
 *	open		its start		in it		see below
 *	closed		NULL			spare		spare + 1 tuple
 *	with a cursor	its start, or NULL	spare		spare + 1 tuple
 *
 * While it is open:
 *  - segment <= next < writers[t].end, unless a call is about to send it;
 *  - the bytes from segment to next are filled and not sent;
 *  - writers[t].end is the segment's end, or lower in a flow with windows
 *    (kinds/combine/window.h);
 *  - end is writers[t].end, or lower while the source lingers (linger.h).
 *
 * A lane with a cursor looks closed, and the cursor has its next and its end.
 *
 * If the source lingers, the control thread sends as well. All changes to a
 * lane, except pushes that fit, then hold source_lock().
 */
/* clang-format on */
struct dfi_source {
	struct dfi_source_head head; /* first: see dfi/push.h */
	uint32_t magic;
	_Atomic uint32_t aborters; /* see handle.h */
	int status;  /* the first hard error; all lanes are then empty */
	int refusal; /* 0, or an error that is not sticky; see
			dfi__source_refuse() */
	uint64_t refusal_taken; /* dfi__source_taken() at the refusal */
	struct source_share *share;
	_Atomic bool aborted;     /* by any thread */
	_Atomic bool interrupted; /* by any thread: its next wait ends */
	bool closing;             /* no wait is interrupted any more */
	bool cursor_open; /* its lane is closed, though a segment is open */
	uint32_t cursor_lane;
	char status_text[ERROR_TEXT_SIZE]; /* of status, or else of refusal */
	size_t size;                       /* of this handle's memory */
	struct dfi *dfi;
	struct flow flow;
	uint32_t index;
	uint32_t flags;
	uint32_t close_timeout_ms;
	struct notify *notify; /* dfi_source_fd(), or NULL */
	struct wait_policy wait;
	struct wait_time wait_time;
	struct source_linger linger;
	struct router router;
	struct peers targets;
	uint32_t n_lanes;
	struct writer *writers; /* of the lanes */
	struct writer *rings;   /* of the targets; in shuffle flows the same */
	struct write_batch batch; /* segments that are posted together */
	const struct kind *kind;
	const struct lane_ops *lane_ops;       /* NULL: lanes are segments */
	struct replica_writer *replica_writer; /* or NULL */
	const struct multicast_address *datagrams; /* of its sender; or NULL */
	void *state; /* of the kind, which alone uses it; or NULL */
	char *spare; /* room for one tuple, for lanes without a segment */
	uint64_t ring_memory; /* counted towards the context's bound */
	uint64_t unspent;   /* the part of it for rings that are not open yet */
	uint32_t n_remotes; /* opened so far */
	const void *claimed; /* start of the lent span, or NULL */
	uint32_t cause;      /* of an abort that a combiner passes on */
	uint64_t marked;     /* the last mark; 0: none */
	int mark_refused;    /* why the last call found no room for it, or 0 */
	/* Of a pair's source: the last segments in its ring that are marks. */
	uint64_t marks_from, marks_to;
	/* Any thread reads these: */
	struct stats_entry stats;
	_Atomic uint64_t stalls, long_stalls;
	_Atomic uint32_t waits_for; /* a target */
	int64_t gives_up; /* the deadline of a close after an abort, or 0 */
	struct stall *target_stalls; /* of each */
	struct dfi_source_lane lanes[];
};

_Static_assert(
    offsetof(struct dfi_source, magic) == HANDLE_MAGIC_OFFSET, "handle");
_Static_assert(
    offsetof(struct dfi_source, aborters) == HANDLE_ABORTERS_OFFSET, "handle");

/*
 * The sources that one thread at a time uses, as if they were one: a source, or
 * those that were opened with share_with. Its address is ring_ops.open()'s
 * writer.
 */
struct source_share {
	uint32_t n_sources;
	_Atomic uint32_t user; /* HANDLE_CALL() */
};

/* That of a source, or if it is NULL a new one; NULL: no memory. */
struct source_share *dfi__source_share_join(const struct dfi_source *with);
void dfi__source_share_leave(struct source_share *share);

/* Check the share_with of a source that is to be opened: -EINVAL, -EBADF ... */
int dfi__source_share_check(
    const struct dfi *dfi, const struct dfi_source *with);
/* -EOPNOTSUPP: another thread than the owner's sends for this source. */
int dfi__source_may_share(const struct dfi_source *source);

/*
 * Attach to a flow, or to a part of one. The call takes the flow over, and
 * frees it on failure. attr is complete and valid; the caller keeps the
 * context. The errors are those of dfi_source_open() except errors of its
 * arguments.
 */
int dfi__source_open(struct dfi *dfi, const struct kind *kind,
    struct flow *flow, uint32_t index, const struct dfi_source_attr *attr,
    const struct wait_policy *wait, int64_t deadline,
    struct dfi_source **source);

/*
 * Withdraw a source's entry, and free it, without a word to its targets: for
 * them it has died.
 */
void dfi__source_vanish(struct dfi_source *source);

/*
 * The memory of a source with this many lanes, as attr says; it has no rings
 * yet. The caller gives it the flow and a way to wait.
 */
int dfi__source_alloc(struct dfi *dfi, const struct kind *kind,
    const struct flow *flow, uint32_t index, uint32_t n_lanes,
    const struct dfi_source_attr *attr, struct dfi_source **source);

/* Close the rings of a source, and free it with its flow. */
void dfi__source_free(struct dfi_source *source);

/* Open the ring of each target that wants tuples. */
int dfi__source_open_rings(struct dfi_source *source, int64_t deadline);

/*
 * Errors that the end of a target's context can have caused. -EACCES: its proof
 * of membership came after the registry had reported that it is no member.
 */
static inline bool source_is_unreachable(int err)
{
	return err == -ECONNREFUSED || err == -ECONNRESET ||
	    err == -ETIMEDOUT || err == -EHOSTUNREACH || err == -EACCES;
}

/*
 * A target could not be reached (err). Return the error of the call:
 * -ECONNRESET if the target has gone meanwhile.
 */
int dfi__source_target_was_gone(
    struct dfi_source *source, uint32_t target, int err, int64_t deadline);

/* Transports to a target, the best first, and its region's name there. */
struct source_ways {
	struct {
		struct transport *transport;
		const struct region_name *name;
	} at[NETWORK_SERVES];
	unsigned n;
	const struct transport_row *last; /* their transport */
	bool more;                 /* a later one may have more of them */
	char why[ERROR_TEXT_SIZE]; /* why earlier ones have none, or "" */
};

/*
 * Find those of the best transport; after: of those behind it in the table, or
 * NULL. -EHOSTUNREACH, -EBADMSG, the errors of dfi__network_ways().
 */
int dfi__source_ways(const struct dfi_source *source, uint32_t target,
    const struct transport_row *after, struct source_ways *ways);

/*
 * Reserve the memory of all rings that the source opens, within the context's
 * bound: 0, or -ENOMEM. dfi__source_room_return() gives back what the open
 * rings did not use.
 */
int dfi__source_room(struct dfi_source *source);
void dfi__source_room_return(struct dfi_source *source);

/*
 * The send buffer for a ring that a device writes; *send_buffer may become
 * NULL. If the ring is not opened, return it.
 */
int dfi__source_take_shadow(struct dfi_source *source,
    struct transport *transport, struct send_buffer **send_buffer);
void dfi__source_return_shadow(
    struct dfi_source *source, const struct send_buffer *send_buffer);

int dfi__source_check_slow(const struct dfi_source *source);

/* The first line of each call of the owner. */
#define SOURCE_USER(source)                                                   \
	((source) && (source)->magic == SOURCE_MAGIC ? &(source)->share->user \
						     : NULL)
#define SOURCE_CALL(source, busy) HANDLE_CALL(SOURCE_USER(source), busy)
#define SOURCE_LAST_CALL(source, busy) \
	HANDLE_LAST_CALL(SOURCE_USER(source), busy)
#define SOURCE_SHARED(source)                              \
	dfi__handle_shared(call.other, "flow '%s': %s %u", \
	    (source)->flow.name, SOURCE_ID(source))

/* The arguments for "%s %u" that name a source. */
#define SOURCE_ID(source) flow_source_word(&(source)->flow), (source)->index

/* The index of this source's ring in each target's region. */
static inline uint32_t source_ring(const struct dfi_source *source)
{
	return source->index - source->flow.part.first_source;
}

/* Whether some thread has called dfi_source_abort(); orders no other memory. */
static inline bool source_aborted(const struct dfi_source *source)
{
	return unlikely(atomic_peek(&source->aborted));
}

/* Whether the owner must return from a wait; orders no other memory. */
static inline bool source_interrupted(const struct dfi_source *source)
{
	return unlikely(atomic_peek(&source->interrupted)) && !source->closing;
}

/* -EINTR, once for each dfi_source_interrupt(). */
int dfi__source_interrupted(struct dfi_source *source);

/* The sticky error with its text, or the error of an invalid handle. */
static inline int source_check(const struct dfi_source *source)
{
	if (likely(source && source->magic == SOURCE_MAGIC && !source->status &&
		!source_aborted(source)))
		return 0;
	return dfi__source_check_slow(source);
}

/* -ECANCELED, sticky: some thread has called dfi_source_abort(). */
int dfi__source_give_up(struct dfi_source *source);

/* Make err sticky, with the text that was just set, and close all segments. */
int dfi__source_fail(struct dfi_source *source, int err);

/*
 * A push, claim or commit was refused with err for an argument; the text was
 * just set. The source stays usable, but its stream is not whole unless it
 * takes another tuple. Returns err.
 */
int dfi__source_refuse(struct dfi_source *source, int err);

/* How many tuples the source has taken, delivered or not. For the owner. */
uint64_t dfi__source_taken(struct dfi_source *source);

/*
 * Find the lane of a target: the target's own, or in a replicate flow the only
 * one, for DFI_ALL_TARGETS. Returns whether there is such a lane.
 */
static inline bool source_find_lane(
    const struct dfi_source *source, uint32_t target, uint32_t *lane)
{
	*lane = target;
	if (likely(target < source->head.n_targets))
		return true;
	*lane = 0;
	return !source->head.n_targets && target == DFI_ALL_TARGETS;
}

/* -ERANGE, which is not sticky. */
int dfi__source_no_target(const struct dfi_source *source, uint32_t target);

/* source_check(), and -EBUSY if a cursor is open. */
int dfi__source_check_free(const struct dfi_source *source);

/* The state of a target. */
enum target_life {
	TARGET_STAYS = 0,
	TARGET_CANCELLED, /* it wants no more tuples: the source continues
			     without it */
	TARGET_GONE,      /* it died or left: the source fails */
};

static inline enum target_life source_target_life(
    struct dfi_source *source, uint32_t target)
{
	const struct writer *writer = &source->rings[target];
	/*
	 * Read this before the ring: a ring then has all that its target wrote
	 * before it left.
	 */
	uint32_t state = peers_state(&source->targets, target);
	uint32_t closed;

	if (unlikely(writer->cancelled || state == PEER_CANCELLED))
		return TARGET_CANCELLED;
	closed = writer_closed(writer);
	if (unlikely(closed == RING_CANCELLED))
		return TARGET_CANCELLED;
	if (unlikely(state == PEER_GONE || closed || writer_lost(writer)))
		return TARGET_GONE;
	return TARGET_STAYS;
}

/*
 * Take in what has arrived from a target, and return its life. A connection
 * that breaks shows before the last credit that came over it is taken, which
 * says whether the target has cancelled.
 */
enum target_life dfi__source_settled_life(
    struct dfi_source *source, uint32_t target);

/*
 * A target has left or can't be written any more. 0: the source continues
 * without it.
 */
int dfi__source_target_left(struct dfi_source *source, uint32_t target);

/*
 * For a replica writer. dfi__replica_has_left(): whether a target has left
 * without the source knowing yet. dfi__replica_left(): handle that after
 * sending; err is the error of sending, or 0. It returns 0 if the source
 * continues with the other targets.
 */
bool dfi__replica_has_left(struct dfi_source *source);
int dfi__replica_left(struct dfi_source *source, int err);
/* The target set of all n targets. */
static inline uint64_t dfi__replica_all_targets(uint32_t n_targets)
{
	return UINT64_MAX >> (DFI_MAX_SET_TARGETS - n_targets);
}

/*
 * A segment of the source may wait for its position, which comes over the
 * network: wait for the position and send the segment. The handle decides how
 * to wait: -EAGAIN (the descriptor then tells when to try again), -ETIMEDOUT.
 * Hard errors are made sticky. Returns 0 at once if no segment waits.
 */
static inline int source_settle(struct dfi_source *source)
{
	return unlikely(source->replica_writer &&
		   replica_waits(source->replica_writer))
	    ? source->kind->source.await_position(source)
	    : 0;
}

/* The same after a call that has waited, without a second wait. */
static inline int source_unsettled(struct dfi_source *source)
{
	if (likely(!source->replica_writer ||
		!replica_waits(source->replica_writer)))
		return 0;
	return source->flags & DFI_NONBLOCK
	    ? source->kind->source.await_position(source)
	    : source->kind->source.position_is_late(source);
}

/* Targets may have left. */
static inline void source_look(struct dfi_source *source)
{
	if (source->kind->source.look)
		source->kind->source.look(source);
}

/* The remote of a ring that the kind makes, or NULL. */
static inline struct remote *source_own_ring(
    struct dfi_source *source, uint32_t target)
{
	return source->kind->source.ring
	    ? source->kind->source.ring(source, target)
	    : NULL;
}

/* The source goes on without this target. */
static inline void source_forget(struct dfi_source *source, uint32_t target)
{
	if (source->kind->source.forget)
		source->kind->source.forget(source, target);
}

/* Whether the kind marks by itself, and how: struct source_ops. */
static inline bool source_has_own_marks(const struct dfi_source *source)
{
	return source->kind->source.mark;
}

static inline int source_own_mark(struct dfi_source *source, uint64_t value)
{
	return source->kind->source.mark(source, value);
}

/* Flush before the end; waits even if the handle is nonblocking. */
int dfi__source_finish(struct dfi_source *source, int64_t deadline);

/* -EPIPE if all targets that a tuple is for have cancelled, else 0. */
int dfi__replica_is_wanted(const struct dfi_source *source);

/*
 * Open a segment for a lane that has none: 1, 0 without credit, or a hard
 * error.
 */
int dfi__source_open_segment(struct dfi_source *source, uint32_t lane);

/*
 * Open a segment for a lane that has none, regardless of windows. Waits for
 * credit as the handle allows. -EAGAIN, -ETIMEDOUT, -EPIPE, -ECONNRESET.
 */
int dfi__source_make_room(struct dfi_source *source, uint32_t lane);

/*
 * lane_make_room() for a push. If it fails, the writer keeps the error in
 * refused, so that close() reports the tuple.
 */
int dfi__source_make_room_to_push(struct dfi_source *source, uint32_t lane);

/*
 * Send the open segment of a lane. The bytes up to lane->next are filled, and
 * the control thread may have sent them already. Opens the next segment if
 * there is credit.
 */
int dfi__source_send(struct dfi_source *source, uint32_t lane);

/* An error if the last mark was refused and not repeated. */
int dfi__source_mark_is_whole(const struct dfi_source *source);

/*
 * Wait, without the lock, until the target gives a segment back or is gone.
 * -ETIMEDOUT.
 */
int dfi__source_await_room(struct dfi_source *source, uint32_t target);

/*
 * This target had no room: make the descriptor readable once a target without
 * room has some. true: this one has room by now.
 */
bool dfi__source_arm(struct dfi_source *source, uint32_t target);

/*
 * Wait until a target has received all that was sent: -ECONNRESET, -ETIMEDOUT.
 */
int dfi__source_drain(
    struct dfi_source *source, uint32_t target, int64_t deadline);

/* The target that a lane waits for when it has no room. */
static inline uint32_t lane_waits_for(
    const struct dfi_source *source, uint32_t lane)
{
	return unlikely(source->replica_writer != NULL)
	    ? source->replica_writer->short_of
	    : lane;
}

/* The writer's functions (buffers/writer.h) for a lane without lane_ops. */
static inline int lane_open_ring(struct dfi_source *source, uint32_t lane)
{
	return unlikely(source->replica_writer != NULL)
	    ? dfi__replica_open(source->replica_writer)
	    : writer_open(&source->writers[lane]);
}

static inline int lane_publish_ring(
    struct dfi_source *source, uint32_t lane, uint64_t used)
{
	return unlikely(source->replica_writer != NULL)
	    ? dfi__replica_publish(source->replica_writer, used)
	    : dfi__writer_publish(&source->writers[lane], used);
}

/* The same for a lane of any kind. */
static inline int lane_open(struct dfi_source *source, uint32_t lane)
{
	return unlikely(source->lane_ops != NULL)
	    ? source->lane_ops->open(source, lane)
	    : lane_open_ring(source, lane);
}

static inline int lane_publish(
    struct dfi_source *source, uint32_t lane, uint64_t used)
{
	return unlikely(source->lane_ops != NULL)
	    ? source->lane_ops->publish(source, lane, used)
	    : lane_publish_ring(source, lane, used);
}

static inline int lane_publish_part(
    struct dfi_source *source, uint32_t lane, uint64_t used)
{
	if (unlikely(source->lane_ops != NULL))
		return source->lane_ops->publish_part(source, lane, used);
	return unlikely(source->replica_writer != NULL)
	    ? dfi__replica_publish_part(source->replica_writer, used)
	    : dfi__writer_publish_part(&source->writers[lane], used);
}

/* Drop the tuples that the lane holds. */
static inline void lane_forget(struct dfi_source *source, uint32_t lane)
{
	if (source->lane_ops && source->lane_ops->forget)
		source->lane_ops->forget(source, lane);
}

/* For a lane with lane_ops; send.c sends the full segments of others inline. */
static inline int lane_reached(struct dfi_source *source, uint32_t lane)
{
	return source->lane_ops->reached(source, lane);
}

static inline int lane_send(struct dfi_source *source, uint32_t lane)
{
	return unlikely(source->lane_ops != NULL)
	    ? source->lane_ops->send(source, lane)
	    : dfi__source_send(source, lane);
}

/* dfi__source_make_room() within the flow's windows. */
static inline int lane_make_room(struct dfi_source *source, uint32_t lane)
{
	return unlikely(source->lane_ops != NULL)
	    ? source->lane_ops->make_room(source, lane)
	    : dfi__source_make_room(source, lane);
}

/*
 * The most tuples that a segment ever has room for. If lanes of the kind take
 * fewer, *why says the reason and *instead what to do.
 */
static inline uint32_t lane_most_room(const struct dfi_source *source,
    uint32_t lane, const char **why, const char **instead)
{
	uint32_t n = source->writers[lane].geometry.segment_tuples;

	return source->lane_ops && source->lane_ops->most_room
	    ? source->lane_ops->most_room(source, n, why, instead)
	    : n;
}

static inline struct lane_counts lane_counts(const struct dfi_source *source)
{
	struct lane_counts counts = { .records = 0 };

	if (source->lane_ops && source->lane_ops->count)
		source->lane_ops->count(source, &counts);
	return counts;
}

/*
 * The bytes of tuples in all lanes that are neither counted nor in an open
 * segment.
 */
static inline uint64_t lane_waiting_bytes(const struct dfi_source *source)
{
	return source->lane_ops && source->lane_ops->waiting_bytes
	    ? source->lane_ops->waiting_bytes(source)
	    : 0;
}

/* Whether the lane has tuples that are neither sent nor in its segment. */
static inline bool lane_holds(const struct dfi_source *source, uint32_t lane)
{
	return unlikely(source->lane_ops && source->lane_ops->holds) &&
	    source->lane_ops->holds(source, lane);
}

static inline void source_lock(struct dfi_source *source)
{
	if (unlikely(source->linger.ns))
		dfi__lock_take(&source->linger.lock);
}

static inline void source_unlock(struct dfi_source *source)
{
	int64_t wake;

	if (likely(!source->linger.ns))
		return;
	wake = source->linger.wake;
	source->linger.wake = 0;
	lock_release(&source->linger.lock);
	if (wake)
		dfi__linger_wake(source, wake);
}

/*
 * The words of a lane. If the source lingers, both the owner and the control
 * thread access them. Only the owner moves next, so it may read next plainly.
 */
static inline char *lane_next(const struct dfi_source_lane *lane)
{
	/* Pairs with dfi_source_lane_advance(): orders the tuples before it. */
	return __atomic_load_n(&lane->next, __ATOMIC_ACQUIRE);
}

static inline char *lane_end(const struct dfi_source_lane *lane)
{
	return __atomic_load_n(&lane->end, __ATOMIC_RELAXED);
}

static inline void lane_set_end(struct dfi_source_lane *lane, char *end)
{
	__atomic_store_n(&lane->end, end, __ATOMIC_RELAXED);
}

/* Describe the devices that it writes through, for people; returns text. */
const char *dfi__source_devices(
    const struct dfi_source *source, char text[TRANSPORT_WAY_SIZE]);

/* Log at level info what the source has attached to, and how. */
void dfi__source_log_attached(const struct dfi_source *source);

/* Whether a segment of the lane waits for its position, sent or not. */
static inline bool lane_awaits_position(const struct dfi_source *source)
{
	return unlikely(source->replica_writer != NULL) &&
	    unlikely(source->replica_writer->asked);
}

/* The lane's segment is empty, so nothing in it is due. */
static inline void lane_reset_due(struct dfi_source *source, uint32_t lane)
{
	if (likely(!source->linger.ns))
		return;
	if (lane_holds(source, lane) || lane_awaits_position(source))
		dfi__linger_note(source, lane);
	else
		source->writers[lane].due = 0;
}

/*
 * Whether segments of one call, or of several calls in a row, may wait for each
 * other. They may not if the lane's sender has waits of its own, or if the
 * control thread sends as well.
 */
static inline bool source_may_hold(const struct dfi_source *source)
{
	return !source->replica_writer && !source->lane_ops &&
	    !source->linger.ns;
}

/* Post the segments that wait for each other. */
static inline void source_post(struct dfi_source *source)
{
	if (unlikely(source->batch.held))
		dfi__write_batch_post(&source->batch);
}

/* Point the lane to the spare room. */
static inline void source_close_lane(struct dfi_source *source, uint32_t target)
{
	struct dfi_source_lane *lane = &source->head.lanes[target];

	lane->next = source->spare;
	lane_set_end(lane, source->spare + source->head.tuple_size);
	lane_reset_due(source, target);
}

/* Whether the lane points to the spare room. For the owner. */
static inline bool source_lane_is_closed(
    const struct dfi_source *source, uint32_t target)
{
	return source->head.lanes[target].next == source->spare;
}

/*
 * The bytes of the open segment that are filled and not sent, without those of
 * a cursor.
 */
static inline uint64_t source_filled(
    const struct dfi_source *source, uint32_t target)
{
	const struct writer *writer = &source->writers[target];

	if (!writer->segment)
		return 0;
	return (
	    uint64_t)(lane_next(&source->head.lanes[target]) - writer->segment);
}

/* Whether its kind takes target sets by itself. */
static inline bool lane_chooses(const struct dfi_source *source)
{
	return source->lane_ops && source->lane_ops->choose;
}

static inline int lane_choose(struct dfi_source *source, uint64_t targets)
{
	return source->lane_ops->choose(source, targets);
}

/* Send all that a lane has. */
static inline int lane_flush(struct dfi_source *source, uint32_t lane)
{
	if (source->lane_ops)
		return source->lane_ops->flush(source, lane);
	return source_filled(source, lane) ? dfi__source_send(source, lane) : 0;
}

/* What a kind adds to the counters of dfi_stats_list(). */
static inline void source_describe(
    const struct dfi_source *source, struct dfi_endpoint_stats *stats)
{
	if (source->kind->source.describe)
		source->kind->source.describe(source, stats);
}

#endif
