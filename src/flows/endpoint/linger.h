/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending partial segments of sources whose owners stay away.
 *
 * A lane that is open and has nothing unsent is parked: its end is one tuple
 * ahead, so that the next push calls in, and starts the lane's time. When that
 * is over, the control thread sends what is there as a segment, and parks the
 * lane again. The owner may be in the middle of a push: it goes on in the same
 * memory, behind what was sent (dfi__writer_publish_part()), so nothing has to
 * stop it. Of all that the owner does to its lanes, only the pushes that fit
 * are done without the source's lock.
 *
 * While the source doesn't linger, there is no lock, and no lane is parked.
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

/* A source's part. */
struct source_linger {
	int64_t ns; /* 0: the source doesn't linger */
	/* Protects the writers and the lanes, except pushes that fit. */
	struct lock lock;
	bool armed;   /* the clock will look before any lane is due */
	int64_t wake; /* when it must look, which it was not told yet; or 0 */
	TAILQ_ENTRY(dfi_source) link; /* of the clock's list */
};

/* A context's: see struct context_part. */
int dfi__linger_clock_open(struct dfi *dfi);
void dfi__linger_clock_close(struct dfi *dfi);
/* Before the first source: takes a descriptor. -EMFILE, -ENOMEM, -EIO. */
int dfi__linger_clock_start(struct linger_clock *clock);

/* Look after a source, until it is removed. The clock has been started. */
void dfi__linger_add(struct dfi_source *source);
/* Its owner may do without the lock from now on. */
void dfi__linger_remove(struct dfi_source *source);

/* Have the clock look at this time, or before. */
void dfi__linger_wake(struct dfi_source *source, int64_t at);

/*
 * Tuples were added to a lane that was parked: have them sent in time. The lock
 * is held.
 */
void dfi__linger_start(struct dfi_source *source, uint32_t target);

/* The same of tuples that a lane holds, if its time has not begun. */
void dfi__linger_note(struct dfi_source *source, uint32_t target);

#endif
