/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consuming: tuples are lent in the ring's memory, one by one, in batches, or
 * by a cursor.
 */
#include "target.h"

#include "base/error.h"

/* Check the handle, and that neither a batch nor a cursor is lent. */
static inline int check_free(struct dfi_target *target)
{
	int ret = target_check(target);

	return ret ? ret : target_check_lent(target);
}

/* The caller gave no memory for the result: nothing happens. */
static int no_output(const struct dfi_target *target, const char *what)
{
	return dfi__fail(-EINVAL, "flow '%s': %s %u: %s is NULL",
	    target->flow.name, TARGET_ID(target), what);
}

int dfi_target_consume_slow(struct dfi_target *target, const void **tuple)
{
	TARGET_CALL(target, TARGET_SHARED(target));
	int ret = check_free(target);

	if (!ret && !tuple)
		ret = no_output(target, "consume: tuple");
	if (!ret)
		ret = target_next(target);
	if (ret <= 0)
		return ret;
	*tuple = target->head.next;
	target->head.next += target->head.tuple_size;
	return 1;
}

int dfi_target_consume_batch(struct dfi_target *target, struct dfi_batch *batch)
{
	TARGET_CALL(target, TARGET_SHARED(target));
	struct dfi_target_head *head;
	int ret = check_free(target);

	if (ret < 0)
		return ret;
	if (!batch)
		return no_output(target, "consume_batch: batch");
	head = &target->head;
	if (head->next == head->end) {
		ret = target_next(target);
		if (ret <= 0)
			return ret;
	}
	*batch = (struct dfi_batch){
		.tuples = head->next,
		.count = (uint32_t)(head->end - head->next) / head->tuple_size,
		.stride = head->tuple_size,
		.source = head->source,
	};
	head->next = head->end;
	target->lends_batch = true;
	return (int)batch->count;
}

void dfi_target_release(struct dfi_target *target, struct dfi_batch *batch)
{
	HANDLE_VOID_CALL(TARGET_USER(target), TARGET_SHARED(target));
	/*
	 * A target that has failed, or was aborted meanwhile, releases as well.
	 */
	if (handle_check(target, target ? &target->magic : NULL, TARGET_MAGIC) <
		0 ||
	    !target->lends_batch)
		return;
	if (!batch) {
		no_output(target, "release: batch");
		return;
	}
	if (!batch->count)
		return;
	target->lends_batch = false;
	*batch = (struct dfi_batch){ .tuples = NULL };
	target_give_back(target);
}

void dfi__target_take_back(struct dfi_target *target)
{
	target->lends_batch = false;
	target_give_back(target);
}

static maybe_unused struct dfi_target_cursor failed_cursor(
    struct dfi_target_cursor cursor, int err)
{
	cursor.status = err;
	return cursor;
}

/* Move the position to the cursor: the handle has nothing left to read. */
static void load_cursor(struct dfi_target_cursor *cursor)
{
	struct dfi_target_head *head = &cursor->target->head;

	cursor->next = head->next;
	cursor->end = head->end;
	head->next = head->end;
}

struct dfi_target_cursor dfi_target_cursor_open(
    struct dfi_target *target, size_t size)
{
	struct dfi_target_cursor cursor = { .target = target };

	TARGET_CALL(target, failed_cursor(cursor, TARGET_SHARED(target)));
	cursor.status = check_free(target);
	if (cursor.status)
		return cursor;
	if (size != target->head.tuple_size) {
		cursor.status = dfi__fail(-EINVAL,
		    "flow '%s': a cursor for tuples of %zu bytes, but the "
		    "flow's have %u",
		    target->flow.name, size, target->head.tuple_size);
		return cursor;
	}
	target->cursor_open = true;
	load_cursor(&cursor);
	return cursor;
}

/* Whether the open of the cursor was refused. */
static bool cursor_is_dead(const struct dfi_target_cursor *cursor)
{
	return cursor->status == -EINVAL || cursor->status == -EBUSY;
}

struct dfi_target_cursor dfi_target_cursor_slow(struct dfi_target_cursor cursor)
{
	struct dfi_target *target = cursor.target;
	int ret;

	TARGET_CALL(target, failed_cursor(cursor, TARGET_SHARED(target)));
	if (cursor_is_dead(&cursor))
		return cursor;
	ret = target_check(target);
	if (!ret)
		ret = target_next(target);
	cursor.status = ret > 0 ? 0 : ret;
	cursor.next = cursor.end = NULL;
	if (ret > 0)
		load_cursor(&cursor);
	return cursor;
}

int dfi_target_cursor_close(struct dfi_target_cursor cursor)
{
	struct dfi_target *target = cursor.target;
	int ret;

	if (cursor_is_dead(&cursor))
		return cursor.status;
	TARGET_CALL(target, TARGET_SHARED(target));
	ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);
	if (ret < 0)
		return ret;
	target->cursor_open = false;
	if ((target->lends_segment ||
		(target->gives_results && target->head.end)) &&
	    cursor.next)
		target->head.next = cursor.next;
	return cursor.status;
}
