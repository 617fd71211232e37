/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linger: the control thread sends the partial segments of a source whose owner
 * makes no calls.
 *
 * A lane that is open and has nothing unsent is parked: its end is one tuple
 * ahead, so that the next push makes a call, which starts the lane's time. When
 * the time is over, the control thread sends the tuples as a segment, and parks
 * the lane again. The owner may be in the middle of a push meanwhile. It
 * continues in the same memory, behind the bytes that were sent
 * (dfi__writer_publish_part()), so the control thread needn't stop it. The
 * owner changes its lanes under the source's lock, except by a push that fits.
 *
 * A source that doesn't linger has no lock, and none of its lanes is parked.
 */
#ifndef DFI_FLOWS_ENDPOINT_LINGER_H
#define DFI_FLOWS_ENDPOINT_LINGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "base/lock.h"

struct dfi;
struct dfi_source;
struct linger_clock;

/* The part of a source. */
struct source_linger {
	int64_t ns; /* 0: the source doesn't linger */
	/* Protects the writers and the lanes, except pushes that fit. */
	struct lock lock;
	bool armed;   /* the clock looks before any lane is due */
	int64_t wake; /* when it must look, unknown to the clock; or 0 */
	TAILQ_ENTRY(dfi_source) link; /* in the clock's list */
};

/* The clock of a context; flows/open_context.c opens it. */
int dfi__linger_clock_open(struct dfi *dfi);
void dfi__linger_clock_close(struct dfi *dfi);
/*
 * Call before adding the first source; opens a descriptor. -EMFILE, -ENOMEM,
 * -EIO.
 */
int dfi__linger_clock_start(struct linger_clock *clock);

/* Serve a source until it is removed. The clock must have been started. */
void dfi__linger_add(struct dfi_source *source);
/* From then on the owner may change its lanes without the lock. */
void dfi__linger_remove(struct dfi_source *source);

/* Make the clock look at this time or earlier. */
void dfi__linger_wake(struct dfi_source *source, int64_t at);

/* A parked lane got tuples: start its time. The caller holds the lock. */
void dfi__linger_start(struct dfi_source *source, uint32_t target);

/* The same for tuples that a lane holds, unless its time runs already. */
void dfi__linger_note(struct dfi_source *source, uint32_t target);

#endif
