/* SPDX-License-Identifier: Apache-2.0 */
#include "mark_help.h"

#include <criterion/criterion.h>
#include <errno.h>

static uint64_t mark_value;
static int mark_ret;

static bool mark_has_room(void *source)
{
	mark_ret = dfi_source_mark(source, mark_value);
	return mark_ret != -EAGAIN;
}

void mark_soon(struct dfi_source *source, uint64_t value)
{
	mark_value = value;
	cr_assert(eventually(mark_has_room, source));
	cr_assert_eq(mark_ret, 0, "%s", dfi_errmsg());
}

uint64_t watermark_of(const struct dfi_target *target)
{
	uint64_t value = UINT64_MAX;

	cr_assert_eq(
	    dfi_target_watermark(target, &value), 0, "%s", dfi_errmsg());
	return value;
}

void expect_mark(struct dfi_target *target, uint64_t value)
{
	struct dfi_event event;
	const void *tuple;

	cr_assert_eq(consume_soon(target, &tuple), -ENOMSG, "%s", dfi_errmsg());
	/* It stays until it is taken. */
	cr_assert_eq(dfi_target_consume(target, &tuple), -ENOMSG);
	cr_assert_eq(dfi_target_event(target, &event), 0, "%s", dfi_errmsg());
	cr_assert_eq(event.type, DFI_MARK);
	cr_assert_eq(event.value, value, "%lu", (unsigned long)event.value);
	cr_assert_eq(watermark_of(target), value);
	assert_error(dfi_target_event(target, &event), -EAGAIN, "event");
}

struct dfi_event next_event(struct dfi_target *target, uint32_t type)
{
	struct dfi_event event;
	const void *tuple;

	do {
		cr_assert_eq(
		    consume_soon(target, &tuple), -ENOMSG, "%s", dfi_errmsg());
		cr_assert_eq(dfi_target_event(target, &event), 0);
	} while (event.type != type);
	return event;
}

void expect_open_mark(struct dfi_target *target, uint64_t value, uint64_t flags)
{
	struct dfi_event event = next_event(target, DFI_MARK);

	cr_assert_eq(event.value, value, "%lu", (unsigned long)event.value);
	cr_assert_eq(event.flags, flags, "%lu", (unsigned long)event.flags);
	cr_assert_eq(watermark_of(target), value);
}
