/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources: where tuples enter a flow.
 *
 * A source belongs to one thread at a time; handing it to another thread needs
 * the application's own synchronisation. Tuples are built directly in the
 * target's ring, in segments. A bandwidth flow sends a segment when it is full,
 * on dfi_source_flush() and on close; a latency flow sends each tuple at once.
 *
 * Three ways in, from simple to fast:
 *   dfi_source_push()         one tuple, routed
 *   dfi_source_push_batch()   an array of tuples, routed
 *   a cursor, or claim/commit a run of tuples to one target, at memory speed
 *
 * Waiting: when the target's ring is full, a call waits (see enum dfi_wait) for
 * as long as the target lives, at most stall_timeout_ms if that is set. With
 * DFI_NONBLOCK it returns -EAGAIN instead and has taken nothing.
 *
 * Errors of all calls that move tuples, beside those they name:
 *   -ECONNRESET  a target died, or closed before the end of the flow; the text
 *                names it
 *   -EBADMSG     a target's ring makes no sense; the text names both ends
 *   -ETIMEDOUT   the ring stayed full for stall_timeout_ms; not sticky
 *   -EBUSY       a cursor is open; not sticky
 *   -EOWNERDEAD  the handle was inherited over fork()
 * Other errors are sticky: every later call returns the same, and so does
 * dfi_source_close(). A push that was refused (-EAGAIN, -ETIMEDOUT) makes
 * dfi_source_close() fail with its error, unless later a push or claim for that
 * target found room. So
 *
 *	for (i = 0; i < n; i++)
 *		if (dfi_source_push(source, &tuples[i]) < 0)
 *			break;
 *	return dfi_source_close(source);
 *
 * is complete: a stream that was cut short never looks whole.
 */
#ifndef DFI_SOURCE_H
#define DFI_SOURCE_H

#include <stdint.h>
#include <string.h>
#include <dfi/context.h>
#include <dfi/export.h>
#include <dfi/route.h>
#include <dfi/schema.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dfi_source;

struct dfi_source_attr {
	uint32_t size;
	uint32_t flags;                  /* DFI_NONBLOCK */
	const struct dfi_schema *schema; /* what the caller pushes; checked
					    against the flow's if given */
	/*
	 * For DFI_ROUTE_FUNCTION: the target of a tuple. Called in the pushing
	 * thread with route_arg; a number >= n_targets makes the push fail with
	 * -ERANGE.
	 */
	uint32_t (*route)(void *arg, const void *tuple, uint32_t n_targets);
	void *route_arg;
	uint32_t open_timeout_ms;  /* default the context's */
	uint32_t stall_timeout_ms; /* default 0: wait while the target lives */
	uint32_t wait;             /* enum dfi_wait */
	uint32_t reserved;         /* 0 */
};
#define DFI_SOURCE_ATTR_INIT DFI_INIT(struct dfi_source_attr)

/*
 * Attach as source number index (0 to n_sources - 1) of a flow. Waits until the
 * flow and all its targets are there, at most open_timeout_ms; so a thread that
 * is also a target of the flow opens the target first. Nothing is visible of an
 * open that failed. attr NULL means all defaults. The caller closes *source
 * with dfi_source_close().
 *
 * -EINVAL: an argument is not valid. -ERANGE: index is not below n_sources.
 * -EEXIST: another source attached with this index, now or before. -EPROTOTYPE:
 * the flow has another schema; the text names the field. -ETIMEDOUT: the text
 * says who is missing. -ECONNRESET: a target died meanwhile. -ENOTCONN: the
 * registry. -EACCES: a target belongs to another user. -EPROTO, -EBADMSG: what
 * the registry holds is of another version, or damaged. -ENOSPC: the registry
 * is full. -ENOMEM, -EMFILE, -EIO.
 */
DFI_API int dfi_source_open(struct dfi *dfi, const char *flow, uint32_t index,
    const struct dfi_source_attr *attr, struct dfi_source **source);

/*
 * End the source's part of the flow: sends what is buffered and then the end
 * mark with the tuple count. Never waits for a target: what was pushed is in
 * the targets' rings when it returns 0. Frees the source in any case. If the
 * stream is not whole (a hard error, a refused push, an open cursor, a target
 * that is gone), all targets get -ECANCELED instead of an end, and the first
 * such error is returned.
 */
DFI_API int dfi_source_close(struct dfi_source *source);

/*
 * End without an end: targets get -ECANCELED after what was sent. Frees the
 * source. Never waits.
 */
DFI_API void dfi_source_abort(struct dfi_source *source);

/*
 * Send what is buffered for all targets. Never waits. 0, or the source's hard
 * error.
 */
DFI_API int dfi_source_flush(struct dfi_source *source);

/* What a source has done so far. Owner thread only. */
struct dfi_source_stats {
	uint64_t tuples, bytes; /* sent */
	uint64_t segments;      /* sent, partial ones included */
	uint64_t partial_segments;
	uint64_t stalls;   /* waits for a full ring */
	uint64_t stall_ns; /* in those that outlast spinning */
};
DFI_API void dfi_source_query(
    const struct dfi_source *source, struct dfi_source_stats *stats);

/*
 * The first member of struct dfi_source, for the inline functions below only.
 * A lane is the open segment of one target: the next tuple goes to next, and
 * when next reaches end, dfi_source_lane_full() is due. A lane without an open
 * segment points to room for one tuple outside of the ring, so that a push
 * needs one comparison only; dfi_source_lane_full() then finds the tuple there.
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

struct dfi_source_head {
	struct dfi_source_lane only; /* the lane, if there is only one */
	struct dfi_source_lane *lanes;
	uint32_t n_lanes;
	uint32_t tuple_size;
	uint32_t inline_routing;
	uint32_t key_offset;
};

/* The slow paths of the inline functions; not for direct use. */
DFI_API int dfi_source_push_slow(struct dfi_source *source, const void *tuple);
DFI_API int dfi_source_no_target(struct dfi_source *source, uint32_t target);
DFI_API int dfi_source_lane_full(struct dfi_source *source, uint32_t target);

/*
 * Copy size bytes, a constant multiple of 8 up to 64, by words.
 *
 * Words, not vectors: a tuple that was just built member by member can then go
 * from registers into the ring, where a vector load would wait for the stores.
 * And stores of a type, not of bytes: so the compiler knows that they leave the
 * lane alone. No loop: it would be unrolled too late for the compiler to see
 * that the tuple needs no memory.
 */
DFI_INLINE void dfi_copy_16(void *to, const void *from)
{
	uint64_t first, second;

	memcpy(&first, from, 8);
	memcpy(&second, (const char *)from + 8, 8);
	/* Nothing; but it keeps the two from becoming one vector load. */
	__asm__("" : "+r"(first), "+r"(second));
	((uint64_t *)to)[0] = first;
	((uint64_t *)to)[1] = second;
}

DFI_INLINE void dfi_copy_words(void *to, const void *from, size_t size)
{
	const char *in = (const char *)from;
	char *out = (char *)to;
	uint64_t word;

	if (size & 64) {
		dfi_copy_16(out, in);
		dfi_copy_16(out + 16, in + 16);
		dfi_copy_16(out + 32, in + 32);
		dfi_copy_16(out + 48, in + 48);
	}
	if (size & 32) {
		dfi_copy_16(out, in);
		dfi_copy_16(out + 16, in + 16);
	}
	if (size & 16)
		dfi_copy_16(out + (size & 32), in + (size & 32));
	if (size & 8) {
		memcpy(&word, in + (size & 48), 8);
		*(uint64_t *)(out + (size & 48)) = word;
	}
}

/*
 * Copy a larger tuple. Up to DFI_COPY_CALL bytes it goes by 16 bytes: memcpy()
 * would load 32 or 64 at once, and wait for a tuple that was just written by
 * smaller stores to leave the store buffer. Beyond, memcpy() is better, but as
 * a call: of a constant size, compilers make string instructions that start
 * slowly. The empty assembler statements keep them from either.
 */
#define DFI_COPY_CALL 2048

DFI_INLINE void dfi_copy_large(void *to, const void *from, size_t size)
{
	const char *in = (const char *)from;
	char *out = (char *)to, *end = out + (size & ~(size_t)63);

	if (size > DFI_COPY_CALL) {
		__asm__("" : "+r"(size));
		memcpy(to, from, size);
		return;
	}
	while (out != end) {
		memcpy(out, in, 16);
		memcpy(out + 16, in + 16, 16);
		memcpy(out + 32, in + 32, 16);
		memcpy(out + 48, in + 48, 16);
		in += 64;
		out += 64;
		__asm__("" : "+r"(out), "+r"(in));
	}
	memcpy(out, in, size & 63);
}

/*
 * The size of the object that a tuple is, if the compiler knows exactly one and
 * it is a small one of whole words, which may stay in registers; else 0.
 */
#define DFI_SMALL_TUPLE 64
#define DFI_KNOWN_SIZE(tuple)                                               \
	(__builtin_object_size((tuple), 0) ==                               \
			__builtin_object_size((tuple), 2) &&                \
		    __builtin_object_size((tuple), 0) <= DFI_SMALL_TUPLE && \
		    __builtin_object_size((tuple), 0) % 8 == 0              \
		? __builtin_object_size((tuple), 0)                         \
		: 0)

#define DFI_COPY_WORD(i)                       \
	if (known > 8 * (i) && size > 8 * (i)) \
		memcpy(&copy[i], from + 8 * (i), 8);

/*
 * The address of a tuple for code that needs one. For a small variable that is
 * a copy of its first size bytes, made only there, so that the variable itself
 * can stay in registers on the fast path.
 */
DFI_INLINE const void *dfi_tuple_address(const void *tuple,
    uint64_t copy[DFI_SMALL_TUPLE / 8], size_t known, size_t size)
{
	const char *from = (const char *)tuple;

	if (!known)
		return tuple;
	DFI_COPY_WORD(0)
	DFI_COPY_WORD(1)
	DFI_COPY_WORD(2)
	DFI_COPY_WORD(3)
	DFI_COPY_WORD(4)
	DFI_COPY_WORD(5)
	DFI_COPY_WORD(6)
	DFI_COPY_WORD(7)
	return copy;
}

DFI_INLINE void dfi_copy_tuple(void *to, const void *from, size_t size)
{
	const size_t known = DFI_KNOWN_SIZE(from);
	uint64_t copy[DFI_SMALL_TUPLE / 8];

	if (known && __builtin_expect(size == known, 1))
		dfi_copy_words(to, from, known);
	else if (known)
		memcpy(to, dfi_tuple_address(from, copy, known, size), size);
	else if (size == 16)
		dfi_copy_words(to, from, 16);
	else if (size == 8)
		dfi_copy_words(to, from, 8);
	else if (size == 32)
		dfi_copy_words(to, from, 32);
	else if (size == 64)
		dfi_copy_words(to, from, 64);
	else if (size < 64)
		memcpy(to, from, size);
	else
		dfi_copy_large(to, from, size);
}

/* Push to a target that exists; not for direct use. */
DFI_INLINE int dfi_source_push_lane(struct dfi_source *source,
    struct dfi_source_lane *lane, uint32_t target, const void *tuple)
{
	struct dfi_source_head *head = (struct dfi_source_head *)(void *)source;
	size_t size = head->tuple_size;
	char *next = lane->next;

	lane->next = next + size;
	dfi_copy_tuple(next, tuple, size);
	if (__builtin_expect(next + size == lane->end, 0))
		return dfi_source_lane_full(source, target);
	return 0;
}

/*
 * Copy a tuple into the ring of the given target. The caller may reuse the
 * tuple's memory at once. 0, or an error: -ERANGE: no such target.
 */
DFI_INLINE int dfi_source_push_to(
    struct dfi_source *source, uint32_t target, const void *tuple)
{
	struct dfi_source_head *head = (struct dfi_source_head *)(void *)source;

	if (__builtin_expect(target >= head->n_lanes, 0))
		return dfi_source_no_target(source, target);
	return dfi_source_push_lane(
	    source, &head->lanes[target], target, tuple);
}

/*
 * Route a tuple and copy it into its target's ring. The caller may reuse the
 * tuple's memory at once. 0, or an error: -EPROTOTYPE: the flow's routing is
 * DFI_ROUTE_DIRECT; -ERANGE: the routing function named no target.
 */
DFI_INLINE int dfi_source_push(struct dfi_source *source, const void *tuple)
{
	struct dfi_source_head *head = (struct dfi_source_head *)(void *)source;
	uint64_t key, copy[DFI_SMALL_TUPLE / 8];
	const void *address;
	uint32_t target;

	if (__builtin_expect(head->inline_routing == DFI_INLINE_ONE, 1))
		return dfi_source_push_lane(source, &head->only, 0, tuple);
	address = dfi_tuple_address(
	    tuple, copy, DFI_KNOWN_SIZE(tuple), head->tuple_size);
	if (head->inline_routing != DFI_INLINE_HASH64)
		return dfi_source_push_slow(source, address);
	memcpy(&key, (const char *)address + head->key_offset, sizeof(key));
	target = dfi_hash_partition(dfi_hash64(key), head->n_lanes);
	return dfi_source_push_lane(
	    source, &head->lanes[target], target, tuple);
}

/*
 * Route and copy n tuples that lie one behind the other. Returns how many were
 * taken: n, or with DFI_NONBLOCK the length (> 0) of the prefix for which there
 * was room; a negative error if none was taken. An error after a prefix was
 * taken comes with the next call. n is at most INT32_MAX (-EINVAL).
 * -EPROTOTYPE, -ERANGE as dfi_source_push().
 */
DFI_API int dfi_source_push_batch(
    struct dfi_source *source, const void *tuples, uint32_t n);

/* Room in a target's ring, lent to the caller to build tuples in. */
struct dfi_span {
	void *tuples;   /* one behind the other */
	uint32_t count; /* how many fit */
	uint32_t target;
};

/*
 * Lend the free rest of the target's open segment: at least one tuple. Valid
 * until the next call on this source. To write nothing, don't commit.
 * 0, or an error: -ERANGE: no such target; not sticky.
 */
DFI_API int dfi_source_claim(
    struct dfi_source *source, uint32_t target, struct dfi_span *span);

/*
 * Send the first count tuples of the span that the last dfi_source_claim()
 * lent. 0, or an error: -EINVAL: the span is not that one, or count is larger
 * than span->count; not sticky.
 */
DFI_API int dfi_source_commit(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count);

/*
 * A cursor: a target's open segment held in registers, for a run of pushes to
 * one target. Keep it in a local variable. Between open and close no other call
 * may use the source.
 *
 *	struct dfi_source_cursor c =
 *	    dfi_source_cursor_open(source, 0, sizeof(tuples[0]));
 *	for (i = 0; i < n; i++)
 *		if (dfi_source_cursor_push(&c, &tuples[i], sizeof(tuples[i])))
 *			break;
 *	ret = dfi_source_cursor_close(c);
 *
 * The inline function's slow path takes and returns the cursor by value, so
 * that its address never escapes and it can live in registers.
 */
struct dfi_source_cursor {
	char *next;
	char *end;
	struct dfi_source *source;
	uint32_t target;
	int32_t status; /* 0, or the error of the last push */
};

/* Its slow path; not for direct use. */
DFI_API struct dfi_source_cursor dfi_source_cursor_slow(
    struct dfi_source_cursor cursor);

/*
 * Open a cursor on a target, for tuples of size bytes. Check .status only if a
 * wrong argument is possible: pushes do nothing once it is set, and close
 * returns it. -ERANGE: no such target. -EINVAL: size is not the flow's tuple
 * size.
 */
DFI_API struct dfi_source_cursor dfi_source_cursor_open(
    struct dfi_source *source, uint32_t target, size_t size);

/*
 * Copy a tuple into the cursor's target. size is the one that the cursor was
 * opened with; write it as a constant. 0, or an error, which is also in
 * .status: then the tuple was not taken; after -EAGAIN and -ETIMEDOUT it may be
 * tried again.
 */
DFI_INLINE int dfi_source_cursor_push(
    struct dfi_source_cursor *cursor, const void *tuple, size_t size)
{
	if (__builtin_expect(cursor->next == cursor->end, 0)) {
		*cursor = dfi_source_cursor_slow(*cursor);
		if (cursor->next == cursor->end)
			return cursor->status;
	}
	if (size <= DFI_SMALL_TUPLE && size % 8 == 0)
		dfi_copy_words(cursor->next, tuple, size);
	else if (size < 64)
		memcpy(cursor->next, tuple, size);
	else
		dfi_copy_large(cursor->next, tuple, size);
	cursor->next += size;
	return 0;
}

/*
 * Give the segment back to the source. A full one is sent; a partial one stays
 * open as after dfi_source_push(). Returns the cursor's .status.
 */
DFI_API int dfi_source_cursor_close(struct dfi_source_cursor cursor);

#ifdef __cplusplus
}
#endif

#endif
