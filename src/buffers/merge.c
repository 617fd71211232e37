/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The next list is a binary heap. This file only keeps the lists; the caller
 * looks into the rings.
 */
#include "merge.h"

#include <errno.h>
#include <stdlib.h>
#include "base/error.h"

int dfi__merge_init(struct merge *merge, uint32_t n, uint64_t first_position)
{
	uint32_t i;

	*merge = (struct merge){ .position = first_position, .n_waiting = n };
	merge->rings = calloc(n, sizeof(merge->rings[0]));
	merge->positions = calloc(n, sizeof(merge->positions[0]));
	if (!merge->rings || !merge->positions) {
		dfi__merge_free(merge);
		return dfi__fail(-ENOMEM, "out of memory");
	}
	for (i = 0; i < n; i++)
		merge->rings[i] = i;
	return 0;
}

void dfi__merge_free(struct merge *merge)
{
	free(merge->rings);
	free(merge->positions);
	merge->rings = NULL;
	merge->positions = NULL;
}

static void swap(struct merge *merge, uint32_t a, uint32_t b)
{
	uint32_t ring = merge->rings[a];

	merge->rings[a] = merge->rings[b];
	merge->rings[b] = ring;
}

/* Distance from the due position to that of the ring at this index. */
static uint64_t ahead(const struct merge *merge, uint32_t index)
{
	return merge->positions[merge->rings[index]] - merge->position;
}

static void sift_up(struct merge *merge, uint32_t at)
{
	uint32_t parent;

	for (; at; at = parent) {
		parent = (at - 1) / 2;
		if (ahead(merge, parent) <= ahead(merge, at))
			break;
		swap(merge, parent, at);
	}
}

static void sift_down(struct merge *merge, uint32_t at)
{
	uint32_t child;

	while ((child = 2 * at + 1) < merge->n_next) {
		if (child + 1 < merge->n_next &&
		    ahead(merge, child + 1) < ahead(merge, child))
			child++;
		if (ahead(merge, at) <= ahead(merge, child))
			break;
		swap(merge, at, child);
		at = child;
	}
}

bool dfi__merge_arrived(struct merge *merge, uint32_t index, uint64_t position)
{
	if (position - merge->position > INT64_MAX)
		return false;
	merge->positions[merge->rings[index]] = position;
	swap(merge, index, merge->n_next);
	merge->n_waiting--;
	sift_up(merge, merge->n_next++);
	return true;
}

void dfi__merge_ended(struct merge *merge, uint32_t index)
{
	swap(merge, index, merge->n_next + --merge->n_waiting);
}

void dfi__merge_delivered(struct merge *merge, uint32_t n)
{
	swap(merge, 0, --merge->n_next);
	merge->n_waiting++;
	sift_down(merge, 0);
	merge->position += n;
}
