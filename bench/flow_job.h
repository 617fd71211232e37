/* SPDX-License-Identifier: Apache-2.0 */
/* Tuples through a flow: shared by the senders and receivers. */
#ifndef DFI_BENCH_FLOW_JOB_H
#define DFI_BENCH_FLOW_JOB_H

#include <dfi/dfi.h>
#include "slow.h"
#include "worker.h"

/* A schema for any tuple size: the key, perhaps a value, and bytes. */
struct tuple_schema {
	struct dfi_field fields[3];
	struct dfi_schema schema;
};

/* Fill *schema, which must not move. */
void tuple_schema_init(struct tuple_schema *schema, uint32_t tuple_size);

/* A source that sends plan->tuples tuples. */
struct sender {
	struct dfi_source *source;
	const struct plan *plan;
	uint64_t first_word;
	uint64_t
	    *scratch; /* room for a tuple that is too large for registers */
	char *table;
	uint64_t table_tuples;
	struct link_word *link; /* modelled, or NULL */
	struct link_queue queue;
	struct slow slow;
};

/* The targets of one thread. */
struct receiver {
	struct dfi_target **targets;
	bool *ended; /* of each target: its flow has ended */
	uint32_t n_targets;
	const struct plan *plan;
	uint32_t thread; /* its number; see receiver_target() */
	uint64_t *next;  /* checking: for each source of each target, the number
			    after the last tuple that came */
	struct link_word *links; /* modelled, of all nodes, or NULL */
	struct slow slow;        /* target 0 */
	uint64_t tuples;
	uint64_t bad;
	struct word_sum sum;
};

/* The flow's target number of a receiver's target. */
static inline uint32_t receiver_target(
    const struct receiver *receiver, uint32_t index)
{
	return receiver->thread + index * receiver->plan->n_target_threads;
}

/* The source of a tuple that comes alone, from any of several sources. */
#define ANY_SOURCE UINT32_MAX

/*
 * Whether the tuple is whole, and the next one of its source at the receiver's
 * target number index. Its key names the source; that of a tuple below 8 bytes
 * does not, so one of any source is only looked at for being whole.
 */
bool flow_check(struct receiver *receiver, uint32_t index, const char *tuple,
    uint32_t source);

/* Send all tuples, but not the end. 0 or the library's error. */
int flow_send(struct sender *sender);

/* Receive until all targets have ended. 0 or the library's error. */
int flow_receive(struct receiver *receiver);

#endif
