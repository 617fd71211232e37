/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuples through a flow: what the sending and the receiving half share.
 */
#ifndef DFI_BENCH_FLOW_JOB_H
#define DFI_BENCH_FLOW_JOB_H

#include <dfi/dfi.h>
#include "worker.h"

/* A schema of any tuple size: the key, perhaps a value, the rest as bytes. */
struct tuple_schema {
	struct dfi_field fields[3];
	struct dfi_schema schema;
};

/* Fill *schema, which must stay where it is. */
void tuple_schema_init(struct tuple_schema *schema, uint32_t tuple_size);

/* One source, sending plan->tuples tuples. */
struct sender {
	struct dfi_source *source;
	const struct plan *plan;
	uint64_t first_word;
	uint64_t
	    *scratch; /* room for a tuple that is too large for registers */
	char *table;
	uint64_t table_tuples;
};

/* The targets of one thread. */
struct receiver {
	struct dfi_target **targets;
	uint32_t n_targets;
	const struct plan *plan;
	uint32_t thread; /* its number; see receiver_target() */
	uint64_t *next;  /* checking: for each source of each target, the
			    number of the tuple after the last that came */
	uint64_t tuples;
	uint64_t bad;
	struct word_sum sum;
};

/* The flow's number of a receiver's target. */
static inline uint32_t receiver_target(
    const struct receiver *receiver, uint32_t index)
{
	return receiver->thread + index * receiver->plan->n_target_threads;
}

/*
 * Whether this is the tuple that must come next at the receiver's target
 * number index, from the source that its key names, and is whole.
 */
bool flow_check(struct receiver *receiver, uint32_t index, const char *tuple);

/* Send everything but the end. 0 or the library's error. */
int flow_send(struct sender *sender);

/* Receive until all targets' ends. 0 or the library's error. */
int flow_receive(struct receiver *receiver);

#endif
