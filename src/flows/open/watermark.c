/* SPDX-License-Identifier: Apache-2.0 */
/* A target's watermark: the least of the marks of the sources that count. */
#include <string.h>

#include "base/bits.h"
#include "flows/open/bugs.h"
#include "flows/open/watermark.h"

void dfi__open_watermark_init(struct open_watermark *watermark, uint32_t n,
    bool align, bool replay, int64_t idle_ns, struct open_marker *memory)
{
	memset(watermark, 0, sizeof(*watermark));
	memset(memory, 0, n * sizeof(*memory));
	watermark->markers = memory;
	watermark->n = n;
	watermark->align = align;
	watermark->replay = replay;
	watermark->idle_ns = idle_ns;
}

static bool counts(const struct open_marker *marker)
{
	return marker->state == OPEN_MARKER_COUNTS;
}

static bool raise_value(struct open_watermark *watermark)
{
	uint64_t last = watermark->value, least = UINT64_MAX;
	uint32_t i;

	if (!watermark->n_counting)
		return false;
	for (i = 0; i < watermark->n; i++)
		if (counts(&watermark->markers[i]))
			least = OPEN_BUG(GREATEST) && least != UINT64_MAX
			    ? max_u64(least, watermark->markers[i].value)
			    : min_u64(least, watermark->markers[i].value);
	watermark->value = least;
	return least != last;
}

/* The source has another state now. Its value, if it counts, is set before. */
static bool set_state(struct open_watermark *watermark, uint32_t source,
    enum open_marker_state state)
{
	struct open_marker *marker = &watermark->markers[source];

	watermark->n_counting -= counts(marker);
	marker->state = (uint8_t)state;
	watermark->n_counting += counts(marker);
	return raise_value(watermark);
}

bool dfi__open_watermark_join(
    struct open_watermark *watermark, uint32_t source, int64_t now)
{
	struct open_marker *marker = &watermark->markers[source];

	marker->quiet_since = now;
	marker->n_pairs++;
	if (marker->state == OPEN_MARKER_IDLE)
		return false; /* it has returned, and is late until its mark */
	if (marker->state == OPEN_MARKER_ABSENT) {
		marker->value = OPEN_BUG(JOIN_AT_0) ? 0 : watermark->value;
		marker->late = false;
	}
	return set_state(watermark, source, OPEN_MARKER_COUNTS);
}

bool dfi__open_watermark_mark(struct open_watermark *watermark, uint32_t source,
    uint64_t value, int64_t now)
{
	struct open_marker *marker = &watermark->markers[source];

	marker->quiet_since = now;
	if (marker->state == OPEN_MARKER_ABSENT ||
	    (counts(marker) && value <= marker->value))
		return false; /* K5 */
	/* That of an idle source may be below the watermark. */
	if (value >= watermark->value)
		marker->late = false;
	marker->value = OPEN_BUG(IDLE_MARK) ? value
					    : max_u64(value, watermark->value);
	return set_state(watermark, source, OPEN_MARKER_COUNTS);
}

bool dfi__open_watermark_ended(
    struct open_watermark *watermark, uint32_t source)
{
	if (--watermark->markers[source].n_pairs)
		return false;
	return set_state(watermark, source, OPEN_MARKER_ABSENT);
}

bool dfi__open_watermark_lost(struct open_watermark *watermark, uint32_t source)
{
	if (!watermark->replay || OPEN_BUG(LOST_AT_ONCE))
		return dfi__open_watermark_ended(watermark, source);
	watermark->markers[source].n_pairs--;
	return false;
}

bool dfi__open_watermark_given_up(
    struct open_watermark *watermark, uint32_t source)
{
	if (watermark->markers[source].n_pairs || OPEN_BUG(HELD))
		return false;
	return set_state(watermark, source, OPEN_MARKER_ABSENT);
}

bool dfi__open_watermark_quiet(
    struct open_watermark *watermark, uint32_t source, int64_t now)
{
	struct open_marker *marker = &watermark->markers[source];

	if (!watermark->idle_ns || !marker->n_pairs || !counts(marker) ||
	    now - marker->quiet_since < watermark->idle_ns)
		return false;
	marker->late = true;
	return set_state(watermark, source, OPEN_MARKER_IDLE);
}

void dfi__open_watermark_suspend(struct open_watermark *watermark, bool moving)
{
	watermark->suspended = moving && !OPEN_BUG(NO_SUSPEND);
}
