/* SPDX-License-Identifier: Apache-2.0 */
/* What is decided at the end of a view, and how the registry has it: O3, O4. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "flows/open/ordered.h"

#define FIRST open_view_first(1)

static struct open_share shares[3][2];
static struct open_reporter reporters[3];

/* Target 10 + t has delivered so much of source s, and so much has arrived. */
static void has(uint32_t t, uint32_t s, uint64_t delivered, uint64_t arrived)
{
	struct open_report *report = &reporters[t].report;

	reporters[t].target = 10 + t;
	report->begun = true;
	report->shares = shares[t];
	report->shares[report->n_shares++] = (struct open_share){
		.source = 100 + s,
		.delivered = delivered ? FIRST + delivered : 0,
		.arrived = arrived ? FIRST + arrived : 0,
	};
}

static struct open_view decide(uint32_t n)
{
	struct open_view view = { .number = 2, .holder = 10 };

	cr_assert(dfi__open_view_decide(reporters, n, &view));
	return view;
}

static void expect_kept(const struct open_view *view, uint32_t s, uint64_t end)
{
	cr_assert_eq(
	    dfi__open_view_kept(view->kept, view->n_kept, 100 + s), end);
}

Test(open_view, what_all_have_is_kept)
{
	struct open_view view;

	has(0, 0, 3, 7);
	has(1, 0, 5, 6);
	view = decide(2);
	expect_kept(&view, 0, FIRST + 6);
	expect_kept(&view, 1, UINT64_MAX);
	cr_assert(dfi__open_view_has(&view, 10));
	cr_assert(dfi__open_view_has(&view, 11));
	dfi__open_view_free(&view);
}

Test(open_view, what_one_has_delivered_is_kept_and_who_lacks_it_is_out)
{
	struct open_view view;

	has(0, 0, 8, 8);
	has(0, 1, 0, 4);
	has(1, 0, 5, 7);
	has(1, 1, 2, 4);
	has(2, 0, 0, 9);
	view = decide(3);
	expect_kept(&view, 0, FIRST + 8);
	/* Target 12 does not mention it, so it has all. */
	expect_kept(&view, 1, FIRST + 4);
	cr_assert(dfi__open_view_has(&view, 10));
	cr_assert_not(dfi__open_view_has(&view, 11));
	cr_assert(dfi__open_view_has(&view, 12));
	dfi__open_view_free(&view);
}

Test(open_view, a_target_that_has_not_begun_is_a_member)
{
	struct open_view view;

	has(0, 0, 8, 8);
	reporters[1] = (struct open_reporter){ .target = 11 };
	view = decide(2);
	cr_assert_eq(view.n_members, 2);
	expect_kept(&view, 0, FIRST + 8);
	dfi__open_view_free(&view);
}

/*
 * Target 12 came when source 100 was gone, which went on to send until the
 * others had heard of it.
 */
Test(open_view, a_target_that_has_come_later_lacks_what_it_has_not_met)
{
	struct open_view view;

	has(0, 0, 5, 8);
	has(1, 0, 3, 9);
	shares[0][0].lost = shares[1][0].lost = true;
	reporters[2] = (struct open_reporter){
		.target = 12,
		.report = { .begun = true, .joined = FIRST + 4 },
	};
	view = decide(3);
	expect_kept(&view, 0, FIRST + 5);
	cr_assert(dfi__open_view_has(&view, 10));
	cr_assert(dfi__open_view_has(&view, 11));
	cr_assert_not(dfi__open_view_has(&view, 12));
	dfi__open_view_free(&view);
	/* Behind all that, it lacks nothing. */
	reporters[2].report.joined = FIRST + 5;
	view = decide(3);
	expect_kept(&view, 0, FIRST + 5);
	cr_assert(dfi__open_view_has(&view, 12));
	dfi__open_view_free(&view);
}

/* It has ended for target 12, and has flushed for the others. */
Test(open_view, a_target_that_has_come_later_has_all_of_who_has_ended)
{
	struct open_view view;

	has(0, 0, 5, 8);
	reporters[1] = (struct open_reporter){
		.target = 11,
		.report = { .begun = true, .joined = FIRST + 4 },
	};
	view = decide(2);
	expect_kept(&view, 0, FIRST + 8);
	cr_assert(dfi__open_view_has(&view, 11));
	dfi__open_view_free(&view);
}

Test(open_view, nobody_reports_when_nobody_is_there)
{
	struct open_view view = decide(0);

	cr_assert_eq(view.n_members, 0);
	cr_assert_eq(view.n_kept, 0);
	dfi__open_view_free(&view);
}

static struct open_views views;

static void see(enum open_key_kind kind, uint64_t number, uint64_t incarnation,
    const uint8_t *value, size_t size)
{
	const struct open_key key = {
		.kind = kind,
		.number = number,
		.incarnation = incarnation,
	};

	dfi__open_views_see(&views, &key, value, size, 50 + number);
}

static void see_view(uint64_t number)
{
	uint64_t members[] = { 10, 12 };
	struct open_kept kept = { 100, FIRST + 8 };
	struct open_view view = {
		.number = number,
		.holder = 12,
		.n_members = 2,
		.n_kept = 1,
		.members = members,
		.kept = &kept,
		.counter = (const uint8_t *)"here",
		.counter_size = 4,
	};
	size_t size;
	uint8_t *value = dfi__open_view_encode(&view, &size);

	cr_assert_not_null(value);
	see(OPEN_KEY_VIEW, number, 0, value, size);
	free(value);
}

Test(open_view, keys_may_come_in_any_order)
{
	static const uint8_t end[8] = { 7 };
	const struct open_note *note;
	struct open_report report = { .n_shares = 0 };
	uint8_t *value;
	size_t size;

	has(0, 0, 8, 9);
	has(0, 1, 8, 9);
	shares[0][1].lost = true;
	reporters[0].report.joined = FIRST + 2;
	value = dfi__open_report_encode(&reporters[0].report, &size);
	see(OPEN_KEY_CUT, 3, 0, end, 0);
	see(OPEN_KEY_FLUSH, 3, 100, end, sizeof(end));
	see(OPEN_KEY_REPORT, 3, 10, value, size);
	cr_assert_not(open_views_is_cut(&views));
	see_view(3);
	cr_assert(open_views_is_cut(&views));
	cr_assert_eq(views.cut_revision, 53);
	cr_assert_eq(views.newest.holder, 12);
	cr_assert_eq(views.newest.n_members, 2);
	cr_assert_eq(views.newest.counter_size, 4);
	cr_assert_eq(memcmp(views.newest.counter, "here", 4), 0);
	note = dfi__open_views_note(&views, OPEN_KEY_FLUSH, 100);
	cr_assert_not_null(note);
	cr_assert_eq(note->end, 7);
	note = dfi__open_views_note(&views, OPEN_KEY_REPORT, 10);
	cr_assert_not_null(note);
	cr_assert(note->report.begun);
	cr_assert_eq(note->report.joined, FIRST + 2);
	cr_assert_eq(note->report.shares[0].arrived, FIRST + 9);
	cr_assert_not(note->report.shares[0].lost);
	cr_assert(note->report.shares[1].lost);
	cr_assert_null(dfi__open_views_note(&views, OPEN_KEY_REPORT, 100));
	/* An earlier view comes late, and is ignored. */
	see_view(2);
	cr_assert_eq(views.newest.number, 3);
	see_view(4);
	cr_assert_not(open_views_is_cut(&views));
	cr_assert_null(dfi__open_views_note(&views, OPEN_KEY_FLUSH, 100));
	cr_assert_not(dfi__open_report_decode(value, size - 1, &report));
	free(value);
	dfi__open_views_free(&views);
}

Test(open_view, a_value_of_another_form_is_none)
{
	struct open_view view;
	uint8_t value[64] = { 0 };

	cr_assert_not(dfi__open_view_decode(value, sizeof(value), &view));
	value[0] = 1;
	value[16] = 200; /* members */
	cr_assert_not(dfi__open_view_decode(value, sizeof(value), &view));
	cr_assert_not(dfi__open_view_decode(value, 31, &view));
}

/* O3: what it has reported is that it has nothing of this view. */
Test(
    open_view, a_target_that_has_not_begun_when_it_reports_begins_with_the_next)
{
	uint64_t members[] = { 10 };
	struct open_view view = {
		.number = 2,
		.n_members = 1,
		.members = members,
	};
	struct ordered_target target = {
		.view = 1,
		.counted = 1,
		.count = FIRST + 5,
	};

	dfi__ordered_reported(&target);
	dfi__ordered_begin(&target, true);
	cr_assert_not(target.begun);
	cr_assert_eq(dfi__ordered_see(&target, &view, 10), OPEN_TURN_ENTERED);
	cr_assert(target.begun);
	cr_assert_eq(target.due, open_view_first(2));
}

/* What it has sent to others by then may never come to this target. */
Test(open_view, a_source_that_was_lost_before_the_target_began_is_reported)
{
	const struct open_share lost = { .source = 100 };
	struct ordered_target target = {
		.view = 1,
		.counted = 1,
		.count = FIRST + 5,
	};
	struct open_share share;
	struct open_report report = { .shares = &share };

	cr_assert(dfi__ordered_lose(&target, &lost));
	dfi__ordered_begin(&target, true);
	dfi__ordered_report(&target, &report);
	cr_assert(report.begun);
	cr_assert_eq(report.joined, FIRST + 5);
	cr_assert_eq(report.n_shares, 1);
	cr_assert_eq(share.source, 100);
	cr_assert(share.lost);
	/* It lacks nothing of what came before it. */
	cr_assert_eq(share.arrived, FIRST + 5);
	dfi__ordered_free(&target);
}
