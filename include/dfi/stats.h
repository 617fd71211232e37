/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters, seen from outside: what each source and target of each process has
 * done, for who operates a job. "dfi-info stat" shows it. A thread asks its own
 * handle more simply: dfi_source_query(), dfi_target_query().
 *
 * Each context answers on its control thread, to processes of the same host and
 * user (or to root's), so that no thread that moves tuples takes part; what is
 * read may be some operations behind.
 */
#ifndef DFI_STATS_H
#define DFI_STATS_H

#include <stdint.h>
#include <dfi/context.h>
#include <dfi/error.h>
#include <dfi/export.h>
#include <dfi/flow.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dfi_role {
	DFI_ROLE_SOURCE = 1,
	DFI_ROLE_TARGET,
	/* Of a combiner (combiner.h), by its number: what it takes, as a target
	   does, and what it sends, as a source. */
	DFI_ROLE_COMBINER_INPUT,
	DFI_ROLE_COMBINER_OUTPUT,
};

/* An open source or target, or one side of a combiner, since it was opened. */
struct dfi_endpoint_stats {
	char flow[DFI_MAX_FLOW_NAME + 1];
	uint64_t instance; /* of the flow: see dfi_flow_info */
	uint32_t role;     /* enum dfi_role */
	uint32_t index;
	/*
	 * Sent by a source, once to however many targets; or taken by a target,
	 * with all of the segment that it is reading.
	 */
	uint64_t tuples, bytes, segments;
	uint64_t partial_segments; /* of a source */
	/* As in dfi_source_stats and dfi_target_stats. */
	uint64_t stalls, stall_ns, polls, yields, sleeps, long_stalls;
	/*
	 * How long the wait lasts in which a call is now, of a target also one
	 * on its group; 0: in none. Spinning of the first microseconds is not
	 * seen.
	 */
	uint64_t waiting_ns;
	uint32_t waits_for; /* the target that such a source waits for, or in
			       a flow with fan_in maybe the combiner */
	uint32_t reserved;
	uint64_t copied_bytes;        /* of a source: as in dfi_source_stats */
	uint64_t gaps, lost_segments; /* of a target: as in dfi_target_stats */
};

/* A context, and what it told. */
struct dfi_node_stats {
	struct dfi_node_info node;
	/*
	 * Why it told nothing, such as that it is not on this host, or that it
	 * doesn't answer, as a stopped process; or NULL. Then the rest is zero.
	 */
	const char *error;
	const struct dfi_endpoint_stats
	    *endpoints;                      /* in the order of opening */
	const struct dfi_error_info *errors; /* of its process */
	uint32_t n_endpoints, n_errors;
	struct dfi_context_stats context; /* what it did over RDMA */
};

/*
 * Ask all contexts of the registry, in the order of ids, and call fn for each.
 * Waits up to two seconds for each that doesn't answer. A non-zero return of fn
 * ends the call, which returns it. stats and what it points to are valid during
 * the call of fn only. Any thread. -EINVAL: fn is NULL. -ENOTCONN, -ETIMEDOUT:
 * the registry. -ENOMEM.
 */
DFI_API int dfi_stats_list(struct dfi *dfi,
    int (*fn)(void *arg, const struct dfi_node_stats *stats), void *arg);

#ifdef __cplusplus
}
#endif

#endif
