/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a flow takes, and what the registry knows of flows and processes. Calls
 * that list or look up return errors of the registry (error.h).
 */
#ifndef DFI_FLOW_INFO_H
#define DFI_FLOW_INFO_H

#include <stdint.h>
#include <dfi/flow.h>

DFI_BEGIN_DECLS

/*
 * What a flow takes, without handles (about 2.5 KiB a ring at either end). It
 * takes less if the context has memory of closed targets (DFI_SPARE_MEMORY). If
 * DFI_HUGE_PAGES is try and the system has free huge pages, target_bytes,
 * shadow_bytes and send_buffer_bytes go up to the next 2 MiB.
 */
struct dfi_flow_needs {
	uint32_t segment_size, segment_count; /* as given, or chosen */
	/* One for each source and target; in a multicast, for each source. */
	uint64_t rings;
	uint64_t ring_payload_bytes; /* room for tuples in a ring */
	uint64_t ring_bytes;         /* all of a ring */
	/* What each target reserves for rings; locked if they go over RDMA. */
	uint64_t target_bytes;
	/*
	 * What each source reserves and locks for the shadow ring of each
	 * target that it reaches over RDMA: as much as a ring, or little with
	 * send_buffer_bytes. 0 if replication is multicast.
	 */
	uint64_t shadow_bytes;
	uint32_t transport; /* enum dfi_transport that applies */
	/*
	 * Files that each target keeps open; target 0 of an ordered flow keeps
	 * one more. A descriptor to poll (_fd()) takes three.
	 */
	uint32_t target_descriptors;
	/*
	 * The most queue pairs that a source takes: one for each process that
	 * it reaches over RDMA, and one for an ordered flow, counted at both
	 * ends; if replication is multicast, one and one for each target.
	 */
	uint32_t source_queue_pairs;
	/* Most files by which a context watches its peers' processes. */
	uint32_t process_descriptors;
	/*
	 * What each source reserves. In a replicate flow: its ring if
	 * replication is multicast (in an open flow also its segment), else
	 * its segment if it reaches no target
	 * over RDMA. In a combiner flow: room for partial aggregates, if it
	 * combines.
	 */
	uint64_t source_bytes;
	uint32_t replication; /* enum dfi_replication that applies, or 0 */
	/*
	 * With fan_in, else 0: combiners, which count in rings; and what each
	 * takes at most, as target_bytes, and as shadow_bytes (and a queue
	 * pair) for each that it sends to. ring_bytes is of a source's ring
	 * then, target_bytes for the rings of combiners.
	 */
	uint32_t n_combiners;
	uint64_t combiner_bytes, combiner_shadow_bytes;
	/*
	 * What each source of a naive replicate flow reserves instead of
	 * source_bytes if it reaches a target over RDMA: as many segments as a
	 * ring has, from which it sends to all. It counts as locked once for
	 * each device.
	 */
	uint64_t send_buffer_bytes;
	/*
	 * Of an ordered flow, else 0, outside of DFI_RING_MEMORY_LIMIT: what
	 * target 0 reserves for the sequencer, and locks if sources may be on
	 * other hosts, and each source that takes numbers over RDMA.
	 */
	uint64_t sequencer_bytes, sequencer_shadow_bytes;
	/*
	 * Receives over RDMA that a context needs for each target (4 more for
	 * target 0 of an ordered flow), source, and, at most, combiner.
	 */
	uint64_t target_receives, source_receives, combiner_receives;
	/*
	 * If replication is multicast over RDMA, else 0: what datagrams take of
	 * target_bytes, which locks only this, and of source_bytes, which locks
	 * all. Less if the device takes fewer receives.
	 */
	uint64_t target_datagram_bytes, source_datagram_bytes;
	/* Files that each source keeps open; two more while it attaches. */
	uint32_t source_descriptors;
	/*
	 * Over how many devices of this context others reach a target or a
	 * combiner, at most: each locks its rings, and posts its receives.
	 */
	uint32_t devices;
	/*
	 * Of an open flow, else 0: what a target reserves for each source that
	 * is attached; if replication is multicast, with a queue pair.
	 * target_bytes, target_descriptors and target_receives are for sources
	 * in all seats.
	 */
	uint64_t pair_bytes;
};

/*
 * Compute what a flow of these attributes would take, with the settings of this
 * context; nothing is created or reserved. Rings, shadow rings, send buffers
 * and source_bytes count towards DFI_RING_MEMORY_LIMIT. Any thread. Errors of
 * attributes are those of dfi_flow_create(). -ENODEV: of a multicast, the
 * library's part for RDMA is missing. examples/small/estimate.c.
 */
DFI_API int dfi_flow_estimate(struct dfi *dfi, const struct dfi_flow_attr *attr,
    struct dfi_flow_needs *estimate);

/* What is published about a flow. */
struct dfi_flow_info {
	char name[DFI_MAX_FLOW_NAME + 1];
	char creator[160]; /* "node-name (host H, pid P)" */
	uint64_t instance; /* unique for each creation */
	uint32_t kind, goal, routing, flags;
	uint32_t n_sources, n_targets;
	uint32_t attached_sources, attached_targets;
	uint32_t tuple_size, n_fields;
	uint32_t segment_size, segment_count;
	uint64_t ring_bytes;  /* memory of one ring, all included */
	char schema[1024];    /* "key:uint64@0 val:uint64@8", cut if longer */
	char key[256];        /* the routing key's field names */
	uint32_t transport;   /* enum dfi_transport, as declared */
	uint32_t verify;      /* enum dfi_verify, never its default */
	uint32_t replication; /* enum dfi_replication; 0: not replicate */
	uint32_t ordered;     /* as declared */
	/*
	 * What endpoints reach other hosts by, cut if longer: "source 0: mlx5_0
	 * port 1, GID 3 ::ffff:10.0.0.1, immediate data; target 0: ...". The
	 * last is how a source's first target learns of segments: "immediate
	 * data" or "footers are polled", the latter also "with checksums".
	 */
	char devices[1024];
	uint32_t loss_policy;    /* enum dfi_loss_policy */
	uint32_t gap_timeout_us; /* of a replicate flow, never 0; or 0 */
	uint32_t fan_in;         /* of a combiner flow with a tree; or 0 */
	uint32_t n_combiners;    /* of that (combiner.h); or 0 */
	uint32_t attached_combiners;
	uint32_t reserved;
	/* Not attached: "0, 2-5", or "" for none; long ones end in "...". */
	char missing_sources[128];
	char missing_targets[128];
	char missing_combiners[128];
	/*
	 * Of an open flow, else 0: what was declared (open_flow.h), and 1 after
	 * dfi_flow_finish(). dfi_member_list() says who is there.
	 */
	uint32_t membership, on_loss, min_sources, min_targets;
	uint32_t finished, reserved_2;
};

/* Look a flow up. Any thread. -ENOENT: no such flow. */
DFI_API int dfi_flow_lookup(
    struct dfi *dfi, const char *name, struct dfi_flow_info *info);

/*
 * Call fn for each flow, in the order of names. Any thread. Flows that this
 * version can't read are left out, with a log line.
 */
DFI_API int dfi_flow_list(struct dfi *dfi,
    int (*fn)(void *arg, const struct dfi_flow_info *info), void *arg);

/* A process that is a member of the registry. */
struct dfi_node_info {
	char name[64];
	char host[64];
	uint64_t id; /* unique for each context */
	uint32_t pid;
	/* Attached through this context; a combiner is one of each. */
	uint32_t n_sources, n_targets;
	/* 1 for the context that was asked. pids may be of other namespaces. */
	uint32_t is_own;
};

/* As dfi_flow_list(), for the contexts that are open, in the order of ids. */
DFI_API int dfi_node_list(struct dfi *dfi,
    int (*fn)(void *arg, const struct dfi_node_info *info), void *arg);

DFI_END_DECLS

#endif
