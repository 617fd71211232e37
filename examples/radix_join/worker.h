/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker: the thread that sends its slices of both relations and, at the same
 * time, receives its range of their partitions and joins them.
 */
#ifndef RADIX_JOIN_WORKER_H
#define RADIX_JOIN_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <dfi/dfi.h>
#include "input.h"
#include "join.h"
#include "options.h"
#include "partition.h"
#include "protocol.h"

/*
 * Outer tuples that stay here and are joined at once: few enough for the cache.
 */
#define KEPT_TUPLES 512

struct kept {
	struct tuple tuples[KEPT_TUPLES];
	uint32_t n;
};

/* Claimed room in a ring, for the next lines. */
struct room {
	struct dfi_span span;
	uint32_t used; /* of its tuples, and not yet committed */
};

struct worker {
	const struct options *options;
	const struct input *input;
	struct dfi *dfi;
	uint32_t index;

	struct slices slices;
	struct lines lines; /* of all partitions, to be sent */
	struct dfi_source *sources[N_RELATIONS];
	struct room room;

	struct dfi_target *targets[N_RELATIONS];
	bool ended[N_RELATIONS]; /* all of the relation was received */
	uint64_t ended_ns[N_RELATIONS];
	struct lines strays[N_RELATIONS]; /* received, not yet stored */
	struct store stores[N_RELATIONS];

	struct join join;
	struct groups groups;
	bool built; /* its table, if the join is direct */
	struct kept kept;
	struct matcher matcher;
	struct dfi_source *rows; /* NULL: no rows are to be written */

	struct dfi_target *start;
	struct dfi_source *reports;
	struct worker_report report;
	uint64_t next_progress_ns;
};

/*
 * Do all of a worker's work. Returns 0, or -1 after a complaint; then its flows
 * tell its peers.
 */
int worker_run(const struct options *options, const struct input *input,
    struct dfi *dfi, uint32_t index);

/* exchange.c: move a relation. Each returns 0, or -1 after a complaint. */

/*
 * Send the worker's slice of a relation, and receive meanwhile. A direct join
 * joins outer tuples when they come.
 */
int exchange_send(struct worker *worker, enum relation relation);

/* Receive until both relations have ended. */
int exchange_finish(struct worker *worker);

/* worker.c, for exchange.c: complain about the library's last error. */
int worker_fail(const struct worker *worker, const char *what);

/*
 * Count n more tuples as sent, received or joined; reports them now and then.
 */
void worker_progress(struct worker *worker, uint64_t n);

#endif
