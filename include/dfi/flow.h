/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows: named, typed data movements between numbered sources and targets.
 *
 * A flow is declared once, in the registry, as pure data. Sources (source.h)
 * and targets (target.h) attach from any thread of any process by the flow's
 * name and their number; they wait for its creation. flow_info.h says what a
 * flow takes and what is published about it.
 *
 * A flow is for one run, unless it is open (open_flow.h): each source and each
 * target attaches once. The library refuses two endpoints of one number at the
 * same time, and a target while any source is open. It notices that a source's
 * number was used before only while a target is open that the first source sent
 * to; later the application must not try (docs/endpoints.md, "Attaching").
 *
 * Any thread may make all calls here. They also return errors of the registry
 * (error.h) and, except dfi_flow_create(), -ENOENT: there is no such flow.
 */
#ifndef DFI_FLOW_H
#define DFI_FLOW_H

#include <stdint.h>
#include <dfi/aggregate.h>
#include <dfi/context.h>
#include <dfi/open_flow.h>
#include <dfi/schema.h>

DFI_BEGIN_DECLS

enum dfi_flow_kind {
	DFI_SHUFFLE = 1, /* each tuple goes to one target */
	/* Each goes to all targets, once, in the order of its source. */
	DFI_REPLICATE,
	/*
	 * Targets get results of aggregates, one for each group, at the end or
	 * of each window. Their schema is that of dfi_flow_result_schema().
	 */
	DFI_COMBINE,
};

enum dfi_goal {
	DFI_BANDWIDTH = 0, /* tuples travel in batches of a segment */
	DFI_LATENCY,       /* each tuple travels at once */
};

/* How a replicate flow brings a segment to all targets: docs/replicate.md. */
enum dfi_replication {
	/* Multicast if all share memory for certain, and not ordered open. */
	DFI_REPLICATION_DEFAULT = 0,
	/* Built in the source, written to each target's ring: any transport. */
	DFI_REPLICATION_NAIVE,
	/* Built once, in a ring that all read, or datagrams over RDMA. */
	DFI_REPLICATION_MULTICAST,
};

/*
 * What a replicate flow does about segments that a network loses. It can lose
 * datagrams only: multicast over RDMA.
 */
enum dfi_loss_policy {
	/* Send them again: each tuple comes once, in order of its source. */
	DFI_LOSS_RECOVER = 0,
	/* Report each gap once (-ENODATA, dfi_target_gap()), and go on. */
	DFI_LOSS_NOTIFY,
};

/* Whether sources of a combiner flow combine before they send. */
enum dfi_source_combining {
	DFI_COMBINING_DEFAULT = 0, /* docs/combine.md, "Attributes" */
	DFI_COMBINING_OFF,
	/* As long as that halves what a source sends; it measures again. */
	DFI_COMBINING_ADAPTIVE,
	DFI_COMBINING_ALWAYS,
};

/*
 * Which target a tuple of a shuffle flow goes to. In a replicate flow 0 means
 * all targets; DFI_ROUTE_FUNCTION and DFI_ROUTE_DIRECT mean target sets, of at
 * most DFI_MAX_SET_TARGETS, by dfi_source_attr.route_set or
 * dfi_source_choose(). Combiner flows have 0: groups go by their keys' hash.
 */
enum dfi_routing {
	DFI_ROUTE_HASH = 0, /* dfi_hash_partition() of key's hash (route.h) */
	DFI_ROUTE_RADIX,    /* dfi_radix_partition() of an integer key */
	/* Target i takes keys below splits[i], the last one all others. */
	DFI_ROUTE_RANGE,
	DFI_ROUTE_ROUND_ROBIN, /* in turn, from each source's number on */
	DFI_ROUTE_FUNCTION,    /* the function in each source's attributes */
	DFI_ROUTE_DIRECT,      /* the application names it on each push */
	DFI_ROUTE_ANY, /* open flows: each segment to who has most room */
};

/* How tuples travel from a source to a target: overrides DFI_TRANSPORT. */
enum dfi_transport {
	/* As DFI_TRANSPORT says where an endpoint is opened, else auto. */
	DFI_TRANSPORT_DEFAULT = 0,
	DFI_TRANSPORT_AUTO,  /* shm on one host, else verbs, else ofi */
	DFI_TRANSPORT_SHM,   /* shared memory: all endpoints on one host */
	DFI_TRANSPORT_VERBS, /* RDMA, also on one host */
	DFI_TRANSPORT_OFI,   /* libfabric (TCP), also on one host */
};

/* What is checked of each segment, beside its size and its number of tuples. */
enum dfi_verify {
	/* As DFI_VERIFY says where the flow is created, else nothing. */
	DFI_VERIFY_DEFAULT = 0,
	DFI_VERIFY_NONE,
	/* A 64-bit checksum: changed data is -EBADMSG at the target. */
	DFI_VERIFY_CHECKSUM,
};

/* What a target does when more groups come than it has room for. */
enum dfi_when_full {
	DFI_FULL_FAIL = 0, /* consuming fails: -ENOSPC */
	/* Give all results, forget them, go on (docs/combine.md, "Windows"). */
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

/*
 * Members for flows of kind DFI_REPLICATE; all 0 in other flows.
 * docs/replicate.md ("Attributes") explains each.
 */
struct dfi_replicate_attr {
	/*
	 * Of a multicast over RDMA: the IPv4 or IPv6 address of its group, such
	 * as "239.1.2.3" or "ff15::1:2". NULL: a random one.
	 */
	const char *multicast_address;
	uint32_t method; /* enum dfi_replication */
	/* 1: all targets get the segments of all sources in one order. */
	uint32_t ordered;
	uint32_t loss_policy; /* enum dfi_loss_policy */
	/* Until an overtaken datagram is lost; 0: the default above. */
	uint32_t gap_timeout_us;
	uint64_t reserved[4]; /* 0 */
};

/*
 * Members for flows of kind DFI_COMBINE; all 0 in other flows. docs/combine.md
 * ("Attributes") explains each, and what it costs.
 */
struct dfi_combine_attr {
	const struct dfi_aggregate *aggregates; /* must be given; are copied */
	/*
	 * Fields to group by, separated by commas: integers and byte arrays, at
	 * most DFI_MAX_KEYS, each once. NULL: one group, of one target.
	 */
	const char *group_by;
	/* Groups that a target has room for; 0: DFI_DEFAULT_GROUPS. */
	uint64_t max_groups;
	/*
	 * 0: results come at the end of the flow. Else each window has results
	 * (dfi_target_window()): this many tuples of each source, or, with
	 * DFI_WINDOW_MARKED, what it pushes between two dfi_source_mark().
	 */
	uint64_t window_tuples;
	/* Memory in which a source combines; 0: the default below. */
	uint64_t combining_bytes;
	uint32_t n_aggregates;     /* 1 to DFI_MAX_AGGREGATES */
	uint32_t when_full;        /* enum dfi_when_full */
	uint32_t source_combining; /* enum dfi_source_combining */
	/*
	 * 0: each target takes from all sources. 2 or more: a tree of combiners
	 * in between, which the application runs (combiner.h). Then each source
	 * has one target: calls that name one name 0.
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
	const char *key;       /* field names to route by, separated by
				  commas; default the first field */
	uint32_t radix_shift;  /* lowest key bit that counts */
	uint32_t radix_bits;   /* number of key bits; 1..32 */
	const int64_t *splits; /* n_targets - 1 of them (in open flows see
				  open_flow.h), which ascend, signed
				  or unsigned as the key is; are copied */
	/* 0: chosen from goal, tuple size, caches and DFI_RING_MEMORY. */
	uint32_t segment_size;  /* payload bytes of a ring's segment */
	uint32_t segment_count; /* segments of a ring */
	uint32_t flags;         /* DFI_FLOW_PERSISTENT */
	uint32_t transport;     /* enum dfi_transport */
	uint32_t verify;        /* enum dfi_verify */
	uint32_t reserved;      /* 0 */
	struct dfi_replicate_attr replicate;
	struct dfi_combine_attr combine;
	struct dfi_open_attr open;
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
 * removed when the context closes or its process dies. After -ENOTCONN a
 * persistent flow may exist: creating it again returns -EEXIST then, and
 * dfi_flow_remove() removes it. Any other ends with the lost connection.
 *
 * -EINVAL, -EOPNOTSUPP: the text names the attribute. -EEXIST: the name is in
 * use. -EMSGSIZE: a tuple or partial aggregate doesn't fit a segment, a segment
 * doesn't fit a datagram, or the description is too large.
 */
DFI_API int dfi_flow_create(
    struct dfi *dfi, const char *name, const struct dfi_flow_attr *attr);

/*
 * The schema of the results of a flow of kind DFI_COMBINE (aggregate.h).
 * The caller frees *schema, one block. -EPROTOTYPE: it is of another kind.
 */
DFI_API int dfi_flow_result_schema(
    struct dfi *dfi, const char *name, struct dfi_schema **schema);

/*
 * Withdraw a flow, whoever created it: its name is free, and nobody can attach
 * any more. Attached endpoints go on; those that wait for others get
 * -ECONNRESET, as when the creator dies or closes its context.
 */
DFI_API int dfi_flow_remove(struct dfi *dfi, const char *name);

DFI_END_DECLS

#endif
