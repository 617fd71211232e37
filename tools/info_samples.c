/* SPDX-License-Identifier: Apache-2.0 */
/* dfi-info: counters of one list, for rates in the next. */
#include <stdlib.h>

#include "info.h"

struct samples {
	struct info_sample *at;
	size_t n, room;
};

static struct samples before, now;
/* Where the next endpoint's old sample probably is: lists keep their order. */
static size_t next;

struct info_sample info_sample(
    uint64_t node, const struct dfi_endpoint_stats *stats)
{
	return (struct info_sample){
		.node = node,
		.instance = stats->instance,
		.role = stats->role,
		.index = stats->index,
		.peer = stats->peer,
		.tuples = stats->tuples,
		.bytes = stats->bytes,
		.stall_ns = stats->stall_ns,
	};
}

void info_samples_next(void)
{
	struct samples spare = before;

	before = now;
	now = spare;
	now.n = 0;
	next = 0;
}

static bool is_same(const struct info_sample *a, const struct info_sample *b)
{
	return a->node == b->node && a->instance == b->instance &&
	    a->role == b->role && a->index == b->index && a->peer == b->peer;
}

const struct info_sample *info_sample_before(const struct info_sample *sample)
{
	const struct info_sample *found;
	size_t i;

	for (i = 0; i < before.n; i++) {
		found = &before.at[(next + i) % before.n];
		if (is_same(found, sample)) {
			next = (next + i + 1) % before.n;
			return found;
		}
	}
	return NULL;
}

void info_sample_keep(const struct info_sample *sample)
{
	struct info_sample *at;

	if (now.n == now.room) {
		at = reallocarray(now.at, now.room * 2 + 16, sizeof(*at));
		if (!at)
			return;
		now.at = at;
		now.room = now.room * 2 + 16;
	}
	now.at[now.n++] = *sample;
}
