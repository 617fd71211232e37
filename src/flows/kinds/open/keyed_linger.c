/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of open flows that linger: the helper sends what has been in an open
 * segment for linger_us. A lane whose segment is empty is parked: its end is
 * one tuple ahead, so that the first tuple makes a call, which notes the time.
 * Owner and helper are at the lanes one at a time, by the latch, so nothing is
 * sent under the owner's hands, or to a target that it has given up.
 */
#include "keyed.h"

#include <stdlib.h>
#include "base/clock.h"
#include "base/error.h"

int dfi__keyed_linger_init(struct dfi_source *source, uint32_t linger_us)
{
	struct keyed *keyed = open_source(source)->keyed;

	/* Each tuple is sent at once. */
	if (source->writers[0].geometry.segment_tuples == 1)
		return 0;
	keyed->due = calloc(source->flow.n_targets, sizeof(keyed->due[0]));
	if (!keyed->due)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	keyed->linger_ns = (int64_t)linger_us * (NS_PER_MS / 1000);
	return 0;
}

static int64_t *due_of(const struct keyed *keyed, const struct dfi_source *end)
{
	return &keyed->due[end->head.lanes - keyed->of_seats];
}

void dfi__keyed_linger_start(struct dfi_source *source, struct dfi_source *end)
{
	struct seat_watch *seats = &open_source(source)->pairs.seats;
	struct keyed *keyed = open_source(source)->keyed;
	int64_t *due = due_of(keyed, end);

	lane_set_end(end->head.lanes, end->writers[0].end);
	if (*due)
		return;
	*due = clock_now_ns() + keyed->linger_ns;
	/* Otherwise the helper comes at an earlier time, and looks at all. */
	if (keyed->armed)
		return;
	keyed->armed = true;
	pthread_mutex_lock(&seats->lock);
	seat_watch_call(seats);
	pthread_mutex_unlock(&seats->lock);
}

void dfi__keyed_park(struct keyed *keyed, struct dfi_source *end)
{
	char *segment = end->writers[0].segment;

	*due_of(keyed, end) = 0;
	if (segment && !source_filled(end, 0))
		lane_set_end(end->head.lanes, segment + end->head.tuple_size);
}

int64_t dfi__keyed_linger(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	int64_t now, next = DEADLINE_NEVER;
	uint32_t i;

	if (!keyed->linger_ns || source->status || source_aborted(source))
		return next;
	now = clock_now_ns();
	for (i = 0; i < open_seats(source); i++) {
		if (!open->ends[i] || !keyed->due[i])
			continue;
		if (keyed->due[i] > now) {
			next = keyed->due[i] < next ? keyed->due[i] : next;
			continue;
		}
		dfi__keyed_send_end(source, open->ends[i]);
		dfi__keyed_park(keyed, open->ends[i]);
	}
	keyed->armed = next != DEADLINE_NEVER;
	return next;
}
