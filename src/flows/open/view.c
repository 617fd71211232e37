/* SPDX-License-Identifier: Apache-2.0 */
/* The decision at the end of a view, and its values: words of 8 bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "flows/open/bugs.h"
#include "flows/open/bytes.h"
#include "flows/open/view.h"

#define WORD sizeof(uint64_t)
#define SHARE_WORDS 4
#define REPORT_WORDS 2
#define VIEW_WORDS 4
#define KEPT_WORDS 2

/* ---- The decision ------------------------------------------------------- */

static struct open_kept *find_kept(struct open_view *view, uint64_t source)
{
	uint32_t i;

	for (i = 0; i < view->n_kept; i++)
		if (view->kept[i].source == source)
			return &view->kept[i];
	return NULL;
}

static const struct open_share *share_of(
    const struct open_report *report, uint64_t source)
{
	uint32_t i;

	for (i = 0; i < report->n_shares; i++)
		if (report->shares[i].source == source)
			return &report->shares[i];
	return NULL;
}

static bool is_lost(
    const struct open_reporter *reporters, uint32_t n, uint64_t source)
{
	const struct open_share *share;
	uint32_t i;

	for (i = 0; i < n; i++) {
		share = share_of(&reporters[i].report, source);
		if (share && share->lost)
			return true;
	}
	return false;
}

/*
 * What has arrived at a target. One that does not mention a source has all of
 * it, unless it has come in this view: it has not met a source that was gone by
 * then, and that may have sent to others since, as they heard of it later.
 */
static uint64_t arrived_at(
    const struct open_report *report, uint64_t source, bool lost)
{
	const struct open_share *share = share_of(report, source);

	if (share)
		return share->arrived;
	return report->joined && lost ? report->joined : UINT64_MAX;
}

/*
 * The largest end that somebody has delivered, and the least that has arrived
 * everywhere.
 */
static uint64_t end_of(
    const struct open_reporter *reporters, uint32_t n, uint64_t source)
{
	uint64_t delivered = 0, arrived = UINT64_MAX;
	const struct open_share *share;
	bool lost = is_lost(reporters, n, source);
	uint32_t i;

	for (i = 0; i < n; i++) {
		share = share_of(&reporters[i].report, source);
		if (share)
			delivered = max_u64(delivered, share->delivered);
		arrived = min_u64(
		    arrived, arrived_at(&reporters[i].report, source, lost));
	}
	return delivered > arrived && !OPEN_BUG(LEAST) ? delivered : arrived;
}

/* Whether a target has what the view keeps. */
static bool has_all(const struct open_reporter *reporters, uint32_t n,
    const struct open_report *report, const struct open_view *view)
{
	uint32_t i;

	for (i = 0; report->begun && i < view->n_kept; i++)
		if (arrived_at(report, view->kept[i].source,
			is_lost(reporters, n, view->kept[i].source)) <
		    view->kept[i].end)
			return OPEN_BUG(NO_EVICTION);
	return true;
}

bool dfi__open_view_decide(
    const struct open_reporter *reporters, uint32_t n, struct open_view *view)
{
	uint32_t i, j, most = 0;
	uint64_t source;

	for (i = 0; i < n; i++)
		most += reporters[i].report.n_shares;
	view->n_members = view->n_kept = 0;
	view->members = calloc(n + 1, sizeof(view->members[0]));
	view->kept = calloc(most + 1, sizeof(view->kept[0]));
	if (!view->members || !view->kept) {
		dfi__open_view_free(view);
		return false;
	}
	for (i = 0; i < n; i++) {
		for (j = 0; j < reporters[i].report.n_shares; j++) {
			source = reporters[i].report.shares[j].source;
			if (find_kept(view, source))
				continue;
			view->kept[view->n_kept++] = (struct open_kept){
				.source = source,
				.end = end_of(reporters, n, source),
			};
		}
	}
	for (i = 0; i < n; i++)
		if (has_all(reporters, n, &reporters[i].report, view))
			view->members[view->n_members++] = reporters[i].target;
	return true;
}

void dfi__open_view_free(struct open_view *view)
{
	free(view->members);
	free(view->kept);
	view->members = NULL;
	view->kept = NULL;
}

bool dfi__open_view_has(const struct open_view *view, uint64_t target)
{
	uint32_t i;

	for (i = 0; i < view->n_members; i++)
		if (view->members[i] == target)
			return true;
	return false;
}

uint64_t dfi__open_view_kept(
    const struct open_kept *kept, uint32_t n, uint64_t source)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (kept[i].source == source)
			return kept[i].end;
	return UINT64_MAX;
}

/* ---- Values ------------------------------------------------------------- */

static uint8_t *put(uint8_t *bytes, uint64_t word)
{
	open_put_number(bytes, word, WORD);
	return bytes + WORD;
}

static const uint8_t *get(const uint8_t *bytes, uint64_t *word)
{
	*word = open_get_number(bytes, WORD);
	return bytes + WORD;
}

uint8_t *dfi__open_report_encode(const struct open_report *report, size_t *size)
{
	uint8_t *bytes, *at;
	uint32_t i;

	*size = WORD * (REPORT_WORDS + SHARE_WORDS * (size_t)report->n_shares);
	at = bytes = malloc(*size);
	if (!bytes)
		return NULL;
	at = put(at, report->joined ? report->joined : report->begun);
	at = put(at, report->n_shares);
	for (i = 0; i < report->n_shares; i++) {
		at = put(at, report->shares[i].source);
		at = put(at, report->shares[i].delivered);
		at = put(at, report->shares[i].arrived);
		at = put(at, report->shares[i].lost);
	}
	return bytes;
}

bool dfi__open_report_decode(
    const uint8_t *bytes, size_t size, struct open_report *report)
{
	uint64_t begun, n, lost;
	uint32_t i;

	if (size < REPORT_WORDS * WORD)
		return false;
	bytes = get(bytes, &begun);
	bytes = get(bytes, &n);
	if (n > size || size != WORD * (REPORT_WORDS + SHARE_WORDS * n))
		return false;
	report->shares = calloc(n + 1, sizeof(report->shares[0]));
	if (!report->shares)
		return false;
	report->begun = begun > 0;
	report->joined = begun > 1 ? begun : 0;
	report->n_shares = (uint32_t)n;
	for (i = 0; i < n; i++) {
		bytes = get(bytes, &report->shares[i].source);
		bytes = get(bytes, &report->shares[i].delivered);
		bytes = get(bytes, &report->shares[i].arrived);
		bytes = get(bytes, &lost);
		report->shares[i].lost = lost > 0;
	}
	return true;
}

uint8_t *dfi__open_view_encode(const struct open_view *view, size_t *size)
{
	size_t head = WORD *
	    (VIEW_WORDS + view->n_members + KEPT_WORDS * (size_t)view->n_kept);
	uint8_t *bytes, *at;
	uint32_t i;

	*size = head + view->counter_size;
	at = bytes = malloc(*size);
	if (!bytes)
		return NULL;
	at = put(at, view->number);
	at = put(at, view->holder);
	at = put(at, view->n_members);
	at = put(at, view->n_kept);
	for (i = 0; i < view->n_members; i++)
		at = put(at, view->members[i]);
	for (i = 0; i < view->n_kept; i++) {
		at = put(at, view->kept[i].source);
		at = put(at, view->kept[i].end);
	}
	if (view->counter_size)
		memcpy(at, view->counter, view->counter_size);
	return bytes;
}

bool dfi__open_view_decode(
    const uint8_t *bytes, size_t size, struct open_view *view)
{
	uint64_t n_members, n_kept;
	uint32_t i;
	size_t head;

	if (size < VIEW_WORDS * WORD)
		return false;
	bytes = get(bytes, &view->number);
	bytes = get(bytes, &view->holder);
	bytes = get(bytes, &n_members);
	bytes = get(bytes, &n_kept);
	if (!view->number || n_members > size || n_kept > size)
		return false;
	head = WORD * (VIEW_WORDS + n_members + KEPT_WORDS * n_kept);
	if (head > size)
		return false;
	view->counter_size = size - head;
	/* The counter's bytes lie behind the members. */
	view->members = malloc(
	    (n_members + 1) * sizeof(view->members[0]) + view->counter_size);
	view->kept = calloc(n_kept + 1, sizeof(view->kept[0]));
	if (!view->members || !view->kept) {
		dfi__open_view_free(view);
		return false;
	}
	view->n_members = (uint32_t)n_members;
	view->n_kept = (uint32_t)n_kept;
	for (i = 0; i < n_members; i++)
		bytes = get(bytes, &view->members[i]);
	for (i = 0; i < n_kept; i++) {
		bytes = get(bytes, &view->kept[i].source);
		bytes = get(bytes, &view->kept[i].end);
	}
	view->counter = memcpy(
	    view->members + n_members + 1, bytes, view->counter_size);
	return true;
}
