/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of each source and target of each process of this host, for those
 * who operate a job; "dfi-info stat" shows them. A thread asks its own handle
 * by dfi_source_query() or dfi_target_query().
 *
 * The control threads of contexts answer, to the same user or root, so that no
 * thread that moves tuples takes part. Counters may be some operations behind.
 */
#ifndef DFI_STATS_H
#define DFI_STATS_H

#include <stdint.h>
#include <dfi/context.h>
#include <dfi/error.h>
#include <dfi/flow_info.h>

DFI_BEGIN_DECLS

enum dfi_role {
	DFI_ROLE_SOURCE = 1,
	DFI_ROLE_TARGET,
	DFI_ROLE_COMBINER_INPUT,  /* what combiner index takes */
	DFI_ROLE_COMBINER_OUTPUT, /* what it sends, as a source does */
};

/* An open source or target, or one side of a combiner, since it was opened. */
struct dfi_endpoint_stats {
	char flow[DFI_MAX_FLOW_NAME + 1];
	uint64_t instance; /* of the flow: see dfi_flow_info */
	uint32_t role;     /* enum dfi_role */
	uint32_t index;
	/*
	 * Sent by a source, once for all targets; or taken by a target, with
	 * all of the segment that it is reading.
	 */
	uint64_t tuples, bytes, segments;
	uint64_t partial_segments; /* of a source */
	/* As in dfi_source_stats and dfi_target_stats. */
	uint64_t stalls, stall_ns, polls, yields, sleeps, long_stalls;
	/*
	 * How long the call in progress has waited, of a target also a call on
	 * its target group; 0: no call waits, or it spins for its first
	 * microseconds.
	 */
	uint64_t waiting_ns;
	/*
	 * The target, or combiner, a source waits for. UINT32_MAX: any, of an
	 * open flow.
	 */
	uint32_t waits_for;
	/*
	 * Of an open flow: 1 + the seat at the other end if this is the side of
	 * one ring. The endpoint itself has 0; its counters include those of
	 * its rings.
	 */
	uint32_t peer;
	uint64_t copied_bytes;        /* of a source: as in dfi_source_stats */
	uint64_t gaps, lost_segments; /* of a target: as in dfi_target_stats */
	/*
	 * Of an endpoint of an open flow (open_flow.h), else 0: its stay in the
	 * seat; of a source dfi_source_dropped(); how many others it has
	 * evicted; with partitions the epoch of the newest table that it knows,
	 * and of a target, those that it owns by that table, and those that it
	 * has yet to take or to release.
	 */
	uint64_t incarnation, dropped, evictions, epoch;
	uint32_t n_partitions, n_moving;
	uint64_t filtered; /* of a target: dfi_target_filtered() (replay.h) */
};

/* A context, and what it told. */
struct dfi_node_stats {
	struct dfi_node_info node;
	/* NULL, or why the rest is 0: another host, say, or no answer. */
	const char *error;
	/* In the order of opening. */
	const struct dfi_endpoint_stats *endpoints;
	const struct dfi_error_info *errors; /* of its process */
	uint32_t n_endpoints, n_errors;
	/* One of each device that it uses: see dfi_context_query(). */
	const struct dfi_transport_stats *transports;
	uint32_t n_transports, reserved;
};

/*
 * Ask all contexts of the registry, in the order of ids, and call fn for each.
 * Waits up to two seconds for one that doesn't answer. Any thread. Errors:
 * those of the registry (error.h).
 */
DFI_API int dfi_stats_list(struct dfi *dfi,
    int (*fn)(void *arg, const struct dfi_node_stats *stats), void *arg);

DFI_END_DECLS

#endif
