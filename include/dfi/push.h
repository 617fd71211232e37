/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways into a source, from simple to fast:
 *   dfi_source_push()         one tuple, routed
 *   dfi_source_push_batch()   an array, routed, or with _to() all to one target
 *   a cursor, or claim/commit a run of tuples to one target, at memory speed
 *
 * Memory that tuples are copied from is the caller's again at once. Owner
 * thread only. They return 0 or an error of source.h; here these two mean:
 *   -ERANGE      no such target, or bit of a set; also of a route function
 *   -EPROTOTYPE  a routed push in a shuffle flow of DFI_ROUTE_DIRECT, or a set
 *                in a flow without target sets
 */
#ifndef DFI_PUSH_H
#define DFI_PUSH_H

#include <stdint.h>
#include <string.h>
#include <dfi/copy.h>
#include <dfi/lane.h>
#include <dfi/route.h>
#include <dfi/source.h>

DFI_BEGIN_DECLS

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
 * buffered, as a push that fills a segment does. A span that is lent ends. The
 * set stays after -EINVAL (it is empty), -ERANGE and -EPROTOTYPE. In an open
 * flow bits are seats: a tuple goes to those of its set that are attached, and
 * pushes return -ENXIO, not sticky, when none is.
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

/* Push a tuple to the target of its routing. */
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
	if (__builtin_expect(head->inline_routing != DFI_INLINE_HASH64, 0))
		return head->inline_routing == DFI_INLINE_TABLE64
		    ? dfi_source_push_table(source, address, tuple)
		    : dfi_source_push_slow(source, address);
	memcpy(&key, DFI_CAST(const char *, address) + head->key_offset,
	    sizeof(key));
	target = dfi_hash64_partition(key, head->n_targets);
	return dfi_source_push_lane(
	    source, &head->lanes[target], target, tuple);
}

/*
 * Push n tuples, an array, as dfi_source_push(), or all to one target: in a
 * replicate flow DFI_ALL_TARGETS, which means the set that was chosen last if
 * there are target sets. Return n, or with DFI_NONBLOCK the number that found
 * room (> 0). If that is none they return the error, else the next call does.
 * -EPIPE and -ERANGE are about the first tuple: go on behind it. -EINVAL: n is
 * above INT32_MAX, or tuples is NULL and n is not 0.
 */
DFI_API int dfi_source_push_batch(
    struct dfi_source *source, const void *tuples, uint32_t n);
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
 * the next call on this source. Without a commit nothing is sent. _n() lends
 * room for n > 0 tuples or nothing, and sends an open segment with less: the
 * target gets the n in one batch, uncut by -EAGAIN. -EMSGSIZE: a segment never
 * has room for n; the text says for how many. A wrong argument is as in a push.
 */
DFI_API int dfi_source_claim(
    struct dfi_source *source, uint32_t target, struct dfi_span *span);
DFI_API int dfi_source_claim_n(struct dfi_source *source, uint32_t target,
    uint32_t n, struct dfi_span *span);

/*
 * Send the first count tuples of the span that was lent last. _more() announces
 * another span (like MSG_MORE), so commit the last one without it, or flush
 * (docs/endpoints.md). -EINVAL: another span, or count is above span->count.
 */
DFI_API int dfi_source_commit(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count);
DFI_API int dfi_source_commit_more(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count);

/*
 * A cursor: a target's open segment in registers, for a run of pushes. Keep it
 * in a local variable. Until its close no other call may use the source.
 *
 *	c = dfi_source_cursor_open(source, 0, sizeof(*tuples));
 *	for (i = 0; i < n; i++)
 *		if (dfi_source_cursor_push(&c, &tuples[i], sizeof(*tuples)))
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
 * Open a cursor for tuples of size bytes. -EINVAL in .status: that is not the
 * flow's tuple size. With .status set, pushes do nothing and close returns it.
 */
DFI_API struct dfi_source_cursor dfi_source_cursor_open(
    struct dfi_source *source, uint32_t target, size_t size);

/*
 * Push a tuple of size bytes, as at the open; write it as a constant. An error,
 * also in .status, has not taken it. Retry on -EAGAIN, -ETIMEDOUT and -EINTR.
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

/* Give the segment back, open as after dfi_source_push(). Returns .status. */
DFI_API int dfi_source_cursor_close(struct dfi_source_cursor cursor);

DFI_END_DECLS

#endif
