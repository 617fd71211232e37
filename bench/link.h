/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modelled link of a node: a word that says until when the link is busy
 * with what was sent so far. Threads of the node wait their turn, so all of
 * them together send at the rate of the link. What a thread was late is made up
 * for, up to a limit, as a token bucket does. What is through arrives after the
 * link's latency: it waits at the sender, who goes on meanwhile.
 */
#ifndef DFI_BENCH_LINK_H
#define DFI_BENCH_LINK_H

#include <dfi/flow.h>
#include <stdatomic.h>
#include "plan.h"

/* A link has two directions. */
enum direction {
	LINK_OUT = 0,
	LINK_IN,
	N_DIRECTIONS,
};

/* A node's word; zero at the start of a round. */
struct link_word {
	_Alignas(64) _Atomic uint64_t busy_until;
};

/* The node of an end, by the plan: all sources are on one, without nodes. */
static inline uint32_t link_source_node(
    const struct plan *plan, uint32_t source)
{
	return plan->n_nodes ? source % plan->n_nodes : 0;
}

static inline uint32_t link_target_node(
    const struct plan *plan, uint32_t target)
{
	return plan->n_nodes ? target % plan->n_nodes : target;
}

/* How often a tuple of a source crosses its link. */
static inline uint32_t link_copies(const struct plan *plan)
{
	return plan->replicates && plan->replication == DFI_REPLICATION_NAIVE
	    ? plan->n_targets
	    : 1;
}

/* The tuples that cross a link at a time. */
static inline uint32_t link_batch(uint32_t tuple_size)
{
	return tuple_size < 8192 ? 8192 / tuple_size : 1;
}

/* The bytes a second that all links together carry at most, each tuple once. */
double link_limit(const struct plan *plan);

/* Send bytes: returns when the link is through with them. */
void link_pay(struct link_word *word, const struct plan *plan, uint64_t bytes);

/* When batches arrive that are on their way, the oldest first. */
struct link_queue {
	uint64_t *due;
	uint64_t size, in, out;
};

/*
 * As many batches may be on their way as the rings of all lanes hold. The
 * caller frees queue->due; NULL: no memory.
 */
void link_queue_init(struct link_queue *queue, const struct plan *plan);

/* Sleep, or yield for a short time, until a time of now_ns(). */
void link_wait(uint64_t end);

#endif
