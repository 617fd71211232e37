/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk data beside round trips: another flow from the client to the server,
 * which both ends serve whenever they would wait for a request or a reply.
 */
#ifndef DFI_BENCH_ECHO_BULK_H
#define DFI_BENCH_ECHO_BULK_H

#include "flow_job.h"

struct echo_bulk {
	struct tuple_schema schema;
	const struct plan *plan;
	struct dfi_source *source; /* the client's, until its end */
	struct dfi_target *target; /* the server's */
	bool yields;               /* when there is nothing to do */
	bool refused;              /* some of the last push found no room */
	char *table;
	uint64_t tuples; /* that went this way */
	struct word_sum sum;
};

/* Open this end, if the plan has bulk data. 0 or worker_fail(). */
int echo_bulk_open(struct worker *worker, struct echo_bulk *bulk);

/* Push or take a part, if that needs no waiting. 0 or the library's error. */
int echo_bulk_turn(struct echo_bulk *bulk);

/*
 * After the last round trip: end the flow, or take the rest of it. *sum gets
 * the words that went this way. 0 or the library's error.
 */
int echo_bulk_end(struct echo_bulk *bulk, uint64_t *sum);

void echo_bulk_close(struct echo_bulk *bulk);

#endif
