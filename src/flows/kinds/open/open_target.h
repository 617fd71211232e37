/* SPDX-License-Identifier: Apache-2.0 */
/* A target of an open flow; see open_target.c. */
#ifndef DFI_FLOWS_KINDS_OPEN_OPEN_TARGET_H
#define DFI_FLOWS_KINDS_OPEN_OPEN_TARGET_H

#include <dfi/event.h>
#include "flows/endpoint/target.h"
#include "keyed_target.h"
#include "pairs.h"

/* A pair that was taken. */
struct taken {
	struct dfi_target *end;
	struct pair *pair;
	uint32_t seat;
	bool joined;    /* the event was added */
	uint64_t table; /* of the last mark that is known */
};

struct open_target {
	struct pairs pairs;
	struct dfi_target *target;
	struct notify *notify; /* in which a handle that waits sleeps */
	struct taken *taken;   /* one behind the other */
	uint32_t n_taken, current, in_a_row;
	uint32_t seen;                 /* the last of pairs_changes() */
	bool ended;                    /* no source is there, and none comes */
	struct partitions *partitions; /* with routing by keys, or NULL */
	_Atomic(struct partitions *) helped; /* the same, for the helper */
	/* Not taken yet, the oldest first; only with DFI_EVENTS. */
	struct dfi_event *events;
	uint32_t n_events, first_event;
	struct dfi_target_attr attr; /* of the ends */
	struct wait_policy wait;
};

static inline struct open_target *open_target(const struct dfi_target *target)
{
	return target->state;
}

/* Whether that ring may be read: the flow isn't lost, or this came before. */
static inline bool open_may_read(
    const struct dfi_target *target, const struct reader *reader)
{
	return likely(!target->lost) || reader->seq != reader->stop;
}

/* Fail once what has come was consumed. */
void dfi__open_target_fail_later(
    struct dfi_target *target, int err, const char *text);

/* The same, as the seat was taken away (M3). */
void dfi__open_target_put_out(struct dfi_target *target);

/*
 * The most that one pass can add to no events, for each seat: its source may be
 * given up, the next one be taken, and end, and the watermark rise with each.
 */
#define OPEN_SEAT_EVENTS 6

/* Add one about a source, if it has joined by then. */
void dfi__open_add_event(struct open_target *open, uint32_t type,
    const struct taken *taken, uint64_t value);

/* Add one that the watermark has risen. */
void dfi__open_add_mark(struct open_target *open);

/* Take the next one; there is one. */
struct dfi_event dfi__open_pop_event(struct open_target *open);

/* Nothing is there: 0 to look again, or an error. */
int dfi__open_target_wait(struct dfi_target *target);

#endif
