/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways into a source, from simple to fast:
 *   dfi_source_push()         one tuple, routed
 *   dfi_source_push_batch()   an array of tuples, routed, or all to one
 *                             target: dfi_source_push_batch_to()
 *   a cursor, or claim/commit a run of tuples to one target, at memory speed
 *
 * They return 0 or an error of source.h; a target that does not exist is
 * -ERANGE. Memory that tuples are copied from is the caller's again at once.
 * Owner thread only.
 */
#ifndef DFI_PUSH_H
#define DFI_PUSH_H

#include <stdint.h>
#include <string.h>
#include <dfi/copy.h>
#include <dfi/route.h>
#include <dfi/source.h>

DFI_BEGIN_DECLS

/*
 * For the inline functions only. A lane is the open segment of one target, or
 * of all in a replicate flow: the next tuple goes to next, and when next
 * reaches end, dfi_source_lane_full() is due. Without an open segment a lane
 * has room for one tuple outside of the ring, so that a push needs one
 * comparison. If the source lingers, another thread reads next, and may lower
 * end, even below next, to be told of the next tuple.
 */
struct dfi_source_lane {
	char *next;
	char *end;
};

enum {
	DFI_INLINE_NONE = 0, /* routing needs a call */
	DFI_INLINE_ONE,      /* one target */
	DFI_INLINE_HASH64,   /* hash of one 8-byte integer */
};

/* The first member of struct dfi_source. */
struct dfi_source_head {
	struct dfi_source_lane only; /* the lane, if there is only one */
	struct dfi_source_lane *lanes;
	uint32_t n_targets; /* that a call may name; 0 in a replicate flow */
	uint32_t tuple_size;
	uint32_t inline_routing;
	uint32_t key_offset;
	uint64_t targets; /* the set chosen last; 0: no target sets */
};

#define DFI_SOURCE_HEAD(source) \
	DFI_CAST(struct dfi_source_head *, DFI_CAST(void *, (source)))

/* The slow paths of the inline functions; not for direct use. */
DFI_API int dfi_source_push_slow(struct dfi_source *source, const void *tuple);
DFI_API int dfi_source_push_to_slow(
    struct dfi_source *source, uint32_t target, const void *tuple);
DFI_API int dfi_source_lane_full(struct dfi_source *source, uint32_t target);
DFI_API int dfi_source_choose_to_push(
    struct dfi_source *source, uint64_t targets);

/*
 * Move lane->next, and return whether dfi_source_lane_full() is due. Those who
 * see the new position (acquire) see the tuples. end is read after that store,
 * for a thread that lowers end and then makes all others pass a barrier
 * (membarrier(2)). x86 keeps the order of stores; the compiler is held to it
 * without a memory clobber, so that positions stay in registers.
 */
DFI_INLINE_PART int dfi_source_lane_advance(
    struct dfi_source_lane *lane, char *next)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	const struct dfi_source_lane *again = lane;

	/* A tuple of any size that begins there. */
	__asm__(""
		: "+r"(next)
		: "m"(*DFI_CAST(
		    const char(*)[1 << 30], DFI_CAST(void *, lane->next))));
	lane->next = next;
	__asm__("" : "+r"(again) : "m"(lane->next));
	return next >= again->end;
#else
	__atomic_store_n(&lane->next, next, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return next >= __atomic_load_n(&lane->end, __ATOMIC_RELAXED);
#endif
}

/* Push to a target that exists; not for direct use. */
DFI_INLINE_PART int dfi_source_push_lane(struct dfi_source *source,
    struct dfi_source_lane *lane, uint32_t target, const void *tuple)
{
	struct dfi_source_head *head = DFI_SOURCE_HEAD(source);
	size_t size = head->tuple_size;
	char *next = lane->next;

	dfi_copy_tuple(next, tuple, size);
	if (__builtin_expect(dfi_source_lane_advance(lane, next + size), 0))
		return dfi_source_lane_full(source, target);
	return 0;
}

/* Push a tuple to the given target. */
DFI_INLINE int dfi_source_push_to(
    struct dfi_source *source, uint32_t target, const void *tuple)
{
	struct dfi_source_head *head = DFI_SOURCE_HEAD(source);

	if (__builtin_expect(target >= head->n_targets, 0))
		return dfi_source_push_to_slow(source, target, tuple);
	return dfi_source_push_lane(
	    source, &head->lanes[target], target, tuple);
}

/*
 * In a replicate flow with target sets: send what follows, by any way in, to
 * these targets; at first everything goes to all. Another set sends what is
 * buffered, as a push that fills a segment does: runs of one set are fast. A
 * span that is lent ends. The set stays after -EINVAL (it is empty), -ERANGE (a
 * bit beyond the last target) and -EPROTOTYPE (the flow has no target sets).
 */
DFI_API int dfi_source_choose(struct dfi_source *source, uint64_t targets);

/* Choose a set and push a tuple to it. Errors of both. */
DFI_INLINE int dfi_source_push_set(
    struct dfi_source *source, uint64_t targets, const void *tuple)
{
	struct dfi_source_head *head = DFI_SOURCE_HEAD(source);
	int ret;

	if (__builtin_expect(targets != head->targets || !targets, 0)) {
		ret = dfi_source_choose_to_push(source, targets);
		if (ret < 0)
			return ret;
	}
	return dfi_source_push_lane(source, &head->only, 0, tuple);
}

/*
 * Push a tuple to the target of its routing. -EPROTOTYPE: the routing of a
 * shuffle flow is DFI_ROUTE_DIRECT. -ERANGE: the function named no target.
 */
DFI_INLINE int dfi_source_push(struct dfi_source *source, const void *tuple)
{
	struct dfi_source_head *head = DFI_SOURCE_HEAD(source);
	uint64_t key, copy[DFI_SMALL_TUPLE / 8];
	const void *address;
	uint32_t target;

	if (__builtin_expect(head->inline_routing == DFI_INLINE_ONE, 1))
		return dfi_source_push_lane(source, &head->only, 0, tuple);
	address = dfi_tuple_address(
	    tuple, copy, DFI_KNOWN_SIZE(tuple), head->tuple_size);
	if (head->inline_routing != DFI_INLINE_HASH64)
		return dfi_source_push_slow(source, address);
	memcpy(&key, DFI_CAST(const char *, address) + head->key_offset,
	    sizeof(key));
	target = dfi_hash64_partition(key, head->n_targets);
	return dfi_source_push_lane(
	    source, &head->lanes[target], target, tuple);
}

/*
 * Push n tuples, an array, as dfi_source_push(). Returns n, or with
 * DFI_NONBLOCK the number that found room (> 0). If it took none it returns the
 * error, else the next call does. After -EPIPE the target of the first tuple
 * has cancelled, after -ERANGE that tuple has no target: go on behind it.
 * -EINVAL: n is above INT32_MAX, or tuples is NULL and n is not 0.
 */
DFI_API int dfi_source_push_batch(
    struct dfi_source *source, const void *tuples, uint32_t n);

/*
 * The same to one target; in a replicate flow DFI_ALL_TARGETS, which means the
 * set that was chosen last if there are target sets.
 */
DFI_API int dfi_source_push_batch_to(
    struct dfi_source *source, uint32_t target, const void *tuples, uint32_t n);

/* Room in a target's ring, lent to the caller to build tuples in. */
struct dfi_span {
	void *tuples;   /* one behind the other */
	uint32_t count; /* how many fit */
	uint32_t target;
};

/*
 * Lend the free rest of the target's open segment, at least one tuple, until
 * the next call on this source. Without a commit nothing is sent.
 */
DFI_API int dfi_source_claim(
    struct dfi_source *source, uint32_t target, struct dfi_span *span);

/*
 * The same with room for at least n tuples, or nothing. They stay in one
 * segment: the target gets a message of n tuples in one batch, and -EAGAIN
 * never cuts it. Sends the open segment if it has less room. -EMSGSIZE: a
 * segment never has room for n; the text says for how many: 1 in flows for
 * latency, or whose windows end by themselves. -EINVAL: n is 0.
 */
DFI_API int dfi_source_claim_n(struct dfi_source *source, uint32_t target,
    uint32_t n, struct dfi_span *span);

/*
 * Send the first count tuples of the span that was lent last. -EINVAL: this is
 * not that span, or count is larger than span->count.
 */
DFI_API int dfi_source_commit(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count);

/*
 * The same by a source that has more to send at once (like MSG_MORE). Over RDMA
 * a full segment may wait for three more, to go out in one call of the driver:
 * at the latest with a successful dfi_source_commit(), dfi_source_push_batch()
 * or dfi_source_flush(), with dfi_source_close(), and before a call waits for
 * room or returns -EAGAIN or -EPIPE. dfi_source_push() and cursors don't send
 * it. So commit the last span without more, or flush.
 */
DFI_API int dfi_source_commit_more(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count);

/*
 * A cursor: a target's open segment held in registers, for a run of pushes to
 * one target. Keep it in a local variable. Between open and close no other call
 * may use the source. It is not valid in a forked child (context.h).
 *
 *	struct dfi_source_cursor c =
 *	    dfi_source_cursor_open(source, 0, sizeof(tuples[0]));
 *	for (i = 0; i < n; i++)
 *		if (dfi_source_cursor_push(&c, &tuples[i], sizeof(tuples[i])))
 *			break;
 *	ret = dfi_source_cursor_close(c);
 */
struct dfi_source_cursor {
	char *next;
	char *end;
	struct dfi_source *source;
	uint32_t lane;
	int32_t status; /* 0, or the error of the last push */
};

/* By value, so that a cursor's address never escapes; not for direct use. */
DFI_API struct dfi_source_cursor dfi_source_cursor_slow(
    struct dfi_source_cursor cursor);

/*
 * Open a cursor on a target, for tuples of size bytes. -EINVAL in .status: that
 * is not the flow's tuple size. With .status set, pushes do nothing and close
 * returns it: check it only if a wrong argument is possible.
 */
DFI_API struct dfi_source_cursor dfi_source_cursor_open(
    struct dfi_source *source, uint32_t target, size_t size);

/*
 * Push a tuple of size bytes, as at the open; write it as a constant. An error,
 * also in .status, has not taken it; after -EAGAIN, -ETIMEDOUT and -EINTR it
 * may be tried again.
 */
DFI_INLINE int dfi_source_cursor_push(
    struct dfi_source_cursor *cursor, const void *tuple, size_t size)
{
	if (__builtin_expect(cursor->next == cursor->end, 0)) {
		*cursor = dfi_source_cursor_slow(*cursor);
		if (cursor->next == cursor->end)
			return cursor->status;
	}
	if (size <= DFI_SMALL_TUPLE)
		dfi_copy_small(cursor->next, tuple, size);
	else
		dfi_copy_lines(cursor->next, tuple, size);
	cursor->next += size;
	return 0;
}

/*
 * Give the segment back to the source. A full one is sent; a partial one stays
 * open as after dfi_source_push(). Returns the cursor's .status.
 */
DFI_API int dfi_source_cursor_close(struct dfi_source_cursor cursor);

DFI_END_DECLS

#endif
