/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows: named, typed data movements between numbered sources and targets.
 *
 * A flow is declared once, in the registry, as pure data. Its sources
 * (source.h) and targets (target.h) attach from any thread of any process by
 * the flow's name and their number; they wait for its creation. flow_info.h
 * says what a flow takes and what is published about it.
 *
 * A flow is for one run: each source and each target attaches once. Another
 * round needs another flow, or this one removed and created again. The library
 * refuses a target while any source is open, because sources have waited for
 * all targets, and two endpoints of one number at the same time. It knows that
 * a source's number was used only while a target is open that it sent to; later
 * the application must not try.
 *
 * All calls here also return errors of the registry (error.h).
 */
#ifndef DFI_FLOW_H
#define DFI_FLOW_H

#include <stdint.h>
#include <dfi/aggregate.h>
#include <dfi/context.h>
#include <dfi/schema.h>

DFI_BEGIN_DECLS

enum dfi_flow_kind {
	DFI_SHUFFLE = 1, /* each tuple goes to one target */
	/*
	 * Each tuple goes to all targets, once, in the order of its source;
	 * tuples of several sources in one order only if the flow is ordered.
	 * Sources wait for the slowest target. routing stays 0 unless the flow
	 * has target sets (enum dfi_routing).
	 */
	DFI_REPLICATE,
	/*
	 * Targets get results of aggregates (aggregate.h), one for each group,
	 * when all sources have ended, or of each window. Sources push as in a
	 * shuffle flow. Each target has the groups whose keys hash to it
	 * (dfi_hash_partition()); routing stays 0. A target's schema is that of
	 * dfi_flow_result_schema().
	 */
	DFI_COMBINE,
};

enum dfi_goal {
	DFI_BANDWIDTH = 0, /* tuples travel in batches of a segment */
	DFI_LATENCY,       /* each tuple travels at once */
};

/* How a replicate flow brings a segment to all targets: docs/replicate.md. */
enum dfi_replication {
	/* Multicast if all endpoints share memory for certain, else naive. */
	DFI_REPLICATION_DEFAULT = 0,
	/* Built in the source, written to each target's ring: any transport. */
	DFI_REPLICATION_NAIVE,
	/*
	 * Built once, in a ring of the source. Over shared memory all targets
	 * read it there: transport becomes DFI_TRANSPORT_SHM. If transport is
	 * verbs, or the registry serves other hosts, it becomes
	 * DFI_TRANSPORT_VERBS: segments are datagrams to a multicast group, and
	 * must fit the MTU of the RDMA port, 4096 at most: -EMSGSIZE from
	 * dfi_flow_create() and where an endpoint is opened. Opening a source
	 * waits until each target has answered (-ETIMEDOUT), closing it until
	 * each has everything (dfi_source_attr.close_timeout_ms).
	 */
	DFI_REPLICATION_MULTICAST,
};

/*
 * What a replicate flow does about segments that a network loses. It can lose
 * datagrams only: multicast over RDMA.
 */
enum dfi_loss_policy {
	/* Send them again: each tuple comes once, in order of its source. */
	DFI_LOSS_RECOVER = 0,
	/*
	 * Send nothing again. A target reports each gap once (-ENODATA,
	 * dfi_target_gap()), in an ordered flow with its position, and goes on
	 * behind it. It asks the source for the position: a source that is
	 * stopped, not dead, may hold up all endpoints of the flow, for at most
	 * their stall_timeout_ms. -EINVAL where nothing can be lost: other
	 * kinds, DFI_REPLICATION_NAIVE, DFI_TRANSPORT_SHM; without effect where
	 * the library chooses one of these.
	 */
	DFI_LOSS_NOTIFY,
};

/*
 * Whether sources of a flow of kind DFI_COMBINE combine tuples of one group
 * before they send them. Only the rounding of floating-point sums depends on
 * it.
 */
enum dfi_source_combining {
	/*
	 * Adaptive in flows of goal DFI_BANDWIDTH with group_by, if a partial
	 * aggregate fits a segment, else off.
	 */
	DFI_COMBINING_DEFAULT = 0,
	DFI_COMBINING_OFF,
	/* As long as that halves what a source sends; it measures again. */
	DFI_COMBINING_ADAPTIVE,
	DFI_COMBINING_ALWAYS,
};

/*
 * Which target a tuple of a shuffle flow goes to. In a replicate flow 0 means
 * all targets; DFI_ROUTE_FUNCTION and DFI_ROUTE_DIRECT mean target sets, of at
 * most DFI_MAX_SET_TARGETS, by dfi_source_attr.route_set or
 * dfi_source_choose().
 */
enum dfi_routing {
	/* dfi_hash_partition() of the key fields' hash (route.h). Default. */
	DFI_ROUTE_HASH = 0,
	/* dfi_radix_partition() of an integer key (route.h). */
	DFI_ROUTE_RADIX,
	/*
	 * Target i takes keys below splits[i], the last one all others. The
	 * n_targets - 1 splits ascend, signed or unsigned as the key is.
	 */
	DFI_ROUTE_RANGE,
	/* Targets in turn, from each source's own number on. */
	DFI_ROUTE_ROUND_ROBIN,
	/* The function that each source gives in its attributes. */
	DFI_ROUTE_FUNCTION,
	/* The application names the target on each push. */
	DFI_ROUTE_DIRECT,
};

/* How tuples travel from a source to a target. */
enum dfi_transport {
	/* As DFI_TRANSPORT says where an endpoint is opened, else auto. */
	DFI_TRANSPORT_DEFAULT = 0,
	DFI_TRANSPORT_AUTO,  /* shared memory on one host, else RDMA */
	DFI_TRANSPORT_SHM,   /* shared memory: all endpoints on one host */
	DFI_TRANSPORT_VERBS, /* RDMA, also on one host */
};

/* What is checked of each segment, beside its size and its number of tuples. */
enum dfi_verify {
	/* As DFI_VERIFY says where the flow is created, else nothing. */
	DFI_VERIFY_DEFAULT = 0,
	DFI_VERIFY_NONE,
	/*
	 * A 64-bit checksum (XXH3), for which source and target read each
	 * segment once more. Data that has changed is -EBADMSG at the target.
	 */
	DFI_VERIFY_CHECKSUM,
};

/* What a target does when more groups come than it has room for. */
enum dfi_when_full {
	DFI_FULL_FAIL = 0, /* consuming fails: -ENOSPC */
	/*
	 * Give the results of all groups, forget them, go on. A group may come
	 * several times then, with what has come since: add counts and sums,
	 * take the least and the greatest. Averages can't be merged; take count
	 * and sum. DFI_AGGREGATE_CHECKED checks each part.
	 */
	DFI_FULL_EMIT,
};

enum {
	/* The flow outlives the context that created it. */
	DFI_FLOW_PERSISTENT = 1,
};

#define DFI_MAX_ENDPOINTS 4096 /* sources, and targets, of one flow */
#define DFI_MAX_SET_TARGETS 64 /* of a replicate flow with target sets */
#define DFI_MAX_FLOW_NAME 127
#define DFI_MAX_KEYS 8
#define DFI_MAX_SEGMENT_SIZE (1u << 26)
#define DFI_MAX_SEGMENT_COUNT (1u << 20)
#define DFI_MAX_GAP_TIMEOUT_US 10000000u
#define DFI_DEFAULT_GAP_TIMEOUT_US 10000u

/* More of a flow of kind DFI_REPLICATE (docs/replicate.md), in others all 0. */
struct dfi_replicate_attr {
	/*
	 * Of a multicast over RDMA: the IPv4 or IPv6 address of its group, such
	 * as "239.1.2.3" or "ff15::1:2". NULL: a random one of 239.192.0.0/14,
	 * or of ff15::/16 if the context's RDMA device has an IPv6 address.
	 * Flows may share a group: each has a key.
	 */
	const char *multicast_address;
	uint32_t method; /* enum dfi_replication */
	/*
	 * 1: all targets get the segments of all sources in one order. A source
	 * takes a segment's position when it sends it, from a counter in the
	 * process of target 0: by memory, or, if the flow may need RDMA, by
	 * target 0's device, which must have atomic operations. Else 0.
	 */
	uint32_t ordered;
	uint32_t loss_policy; /* enum dfi_loss_policy */
	/*
	 * Microseconds until an overtaken datagram counts as lost, at most
	 * DFI_MAX_GAP_TIMEOUT_US; 0: DFI_DEFAULT_GAP_TIMEOUT_US.
	 */
	uint32_t gap_timeout_us;
	uint64_t reserved[4]; /* 0 */
};

/* More of a flow of kind DFI_COMBINE (docs/combine.md), in others all 0. */
struct dfi_combine_attr {
	const struct dfi_aggregate *aggregates; /* must be given; are copied */
	/*
	 * Names of fields to group by, separated by commas: integers and byte
	 * arrays, at most DFI_MAX_KEYS, each once. NULL: all tuples are one
	 * group, of one target.
	 */
	const char *group_by;
	/*
	 * Groups that a target has room for, at most DFI_MAX_GROUPS; 0:
	 * DFI_DEFAULT_GROUPS. Each takes, when it comes, its key, 8 bytes an
	 * aggregate (up to 24 for an average), and 16 to 32 bytes.
	 */
	uint64_t max_groups;
	/*
	 * 0: results come at the end of the flow. Else each window has results
	 * (dfi_target_window()): this many tuples of each source, or, with
	 * DFI_WINDOW_MARKED, what a source pushes between two
	 * dfi_source_mark(). A target's window ends when each source has ended
	 * it or has closed; a source ahead waits when a ring is full. Tuples
	 * for a target that has cancelled count, unless refused by -EPIPE.
	 */
	uint64_t window_tuples;
	/*
	 * Bytes in which a source combines, for all targets, at most
	 * DFI_MAX_COMBINING_BYTES: 64 to 32768 groups a target. 0:
	 * DFI_DEFAULT_COMBINING_BYTES, for a second-level cache. When they are
	 * full it sends; if groups come again only later, combining is in vain.
	 */
	uint64_t combining_bytes;
	uint32_t n_aggregates; /* 1 to DFI_MAX_AGGREGATES */
	uint32_t when_full;    /* enum dfi_when_full */
	/*
	 * enum dfi_source_combining. -EINVAL with DFI_LATENCY, as each tuple is
	 * sent at once; -EMSGSIZE: a partial aggregate doesn't fit a segment.
	 */
	uint32_t source_combining;
	/*
	 * 0: each target takes from all sources. 2 or more: a tree of combiners
	 * in between, which the application runs (combiner.h). None takes from
	 * more than fan_in sources or combiners, no target from more than
	 * fan_in combiners. Source i has one target, combiner i / fan_in: calls
	 * that name a target name 0.
	 */
	uint32_t fan_in;
	uint64_t reserved[4]; /* 0 */
};

struct dfi_flow_attr {
	uint32_t size;
	uint32_t kind;                   /* enum dfi_flow_kind; must be given */
	const struct dfi_schema *schema; /* must be given; is copied */
	uint32_t n_sources;              /* must be given */
	uint32_t n_targets;              /* must be given */
	uint32_t goal;                   /* enum dfi_goal */
	uint32_t routing;                /* enum dfi_routing */
	/* These four only in shuffle flows, else 0. */
	const char *key;        /* field names to route by, separated by
				   commas; default the first field */
	uint32_t radix_shift;   /* lowest key bit that counts */
	uint32_t radix_bits;    /* number of key bits; 1..32 */
	const int64_t *splits;  /* n_targets - 1 of them; are copied */
	uint32_t segment_size;  /* payload bytes of a ring's segment */
	uint32_t segment_count; /* segments of a ring; default for both: the
				   geometry chosen from goal, tuple size, caches
				   and DFI_RING_MEMORY (dfi_flow_lookup()) */
	uint32_t flags;         /* DFI_FLOW_PERSISTENT */
	uint32_t transport;     /* enum dfi_transport; unless it is the default,
				   it counts more than DFI_TRANSPORT */
	uint32_t verify;        /* enum dfi_verify */
	uint32_t reserved;      /* 0 */
	struct dfi_replicate_attr replicate;
	struct dfi_combine_attr combine;
};
#define DFI_MAX_COMBINING_BYTES (UINT64_C(1) << 30)
#define DFI_DEFAULT_COMBINING_BYTES (UINT64_C(256) << 10)
#define DFI_WINDOW_MARKED UINT64_MAX
#define DFI_MAX_GROUPS (UINT64_C(1) << 31)
#define DFI_DEFAULT_GROUPS (UINT64_C(1) << 20)
#define DFI_FLOW_ATTR_INIT DFI_INIT(struct dfi_flow_attr)

/*
 * Publish a flow. name has 1 to DFI_MAX_FLOW_NAME characters of
 * [A-Za-z0-9._:-]. Everything in attr is copied. Unless persistent, the flow is
 * removed when the context closes or its process dies. Any thread.
 *
 * -EINVAL: the text names the attribute. -EEXIST: there is a flow of this name.
 * -EMSGSIZE: a tuple doesn't fit a segment, a segment doesn't fit a datagram,
 * or the description is too large. After -ENOTCONN a persistent flow may exist:
 * creating it again returns -EEXIST then, and dfi_flow_remove() removes it. A
 * flow that is not persistent ends with the lost connection.
 */
DFI_API int dfi_flow_create(
    struct dfi *dfi, const char *name, const struct dfi_flow_attr *attr);

/*
 * The schema of the results of a flow of kind DFI_COMBINE (aggregate.h).
 * *schema is one block, strings included, which the caller frees with free().
 * Any thread. -EPROTOTYPE: the flow is of another kind. -ENOENT: no such flow.
 */
DFI_API int dfi_flow_result_schema(
    struct dfi *dfi, const char *name, struct dfi_schema **schema);

/*
 * Withdraw a flow, whoever created it: nobody can attach any more, and the name
 * is free. Endpoints that are attached to each other go on; those that wait for
 * others get -ECONNRESET, as when the creator dies or closes its context. Any
 * thread. -ENOENT: no such flow.
 */
DFI_API int dfi_flow_remove(struct dfi *dfi, const char *name);

DFI_END_DECLS

#endif
