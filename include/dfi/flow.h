/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows: named, typed data movements between numbered sources and targets.
 *
 * A flow is declared once, in the registry, as pure data. Its sources
 * (source.h) and targets (target.h) then attach from any thread of any process
 * by the flow's name and their number. Attaching may come before the creation:
 * it waits.
 *
 * A flow is for one run: each source and each target attaches once, and another
 * round needs another flow, or this one removed and created again. The library
 * refuses two endpoints of one number at the same time, and nobody joins late:
 * a target is refused as long as any of the flow's sources is open, because
 * those have waited for all targets. That a source's number was used before, it
 * knows from the rings, which go with their target: a second source is refused
 * as long as the targets are open that the first one sent to. After that it is
 * the application that must not try.
 */
#ifndef DFI_FLOW_H
#define DFI_FLOW_H

#include <stdint.h>
#include <dfi/aggregate.h>
#include <dfi/export.h>
#include <dfi/context.h>
#include <dfi/schema.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dfi_flow_kind {
	DFI_SHUFFLE = 1, /* each tuple goes to one target */
	/*
	 * Each tuple goes to all targets, once, in the order of each source;
	 * that of several sources may differ from target to target, unless the
	 * flow is ordered. A target that is faster than another is ahead of it
	 * by at most a ring: sources wait for the slowest. key, radix_shift,
	 * radix_bits and splits stay 0, and routing, too, but for flows with
	 * groups: see enum dfi_routing.
	 */
	DFI_REPLICATE,
	/*
	 * Tuples are combined: targets get no tuples but the results of
	 * aggregates (aggregate.h), one for each group, when all sources have
	 * ended, or of each window by itself (window_tuples). With several
	 * targets each has the groups whose keys hash to it
	 * (dfi_hash_partition()). There is no other routing: routing, key,
	 * radix_shift, radix_bits and splits stay 0. Sources push tuples as in
	 * a shuffle flow. What a target gives is described by
	 * dfi_flow_result_schema(), which its attributes' schema is checked
	 * against, too.
	 */
	DFI_COMBINE,
};

enum dfi_goal {
	DFI_BANDWIDTH = 0, /* tuples travel in batches of a segment */
	DFI_LATENCY,       /* each tuple travels at once */
};

/* How a replicate flow brings a segment to all targets. */
enum dfi_replication {
	/* Multicast where all endpoints share memory for certain, else naive.
	 */
	DFI_REPLICATION_DEFAULT = 0,
	/*
	 * Tuples are built in memory of the source, and each segment is written
	 * to each target's ring: 1 + n_targets copies, on any transport.
	 */
	DFI_REPLICATION_NAIVE,
	/*
	 * Tuples are built in a ring in the source's process: one copy there,
	 * whatever the number of targets. Over shared memory all targets read
	 * it where it lies, and the flow's transport becomes DFI_TRANSPORT_SHM.
	 *
	 * If the flow may need RDMA, as its transport says so, or the registry
	 * serves other hosts, too, its transport becomes DFI_TRANSPORT_VERBS:
	 * each segment is sent once, as a datagram to a multicast group that
	 * all targets have joined, and what is lost is sent again. A segment
	 * must fit a datagram, whose size is the MTU of the RDMA device's port:
	 * -EMSGSIZE here, if the creator's device has smaller ones, or none has
	 * as large ones (4096 bytes), and where an endpoint is opened whose
	 * device has. Opening a source waits until each target has answered a
	 * datagram (-ETIMEDOUT), and closing it until each has all
	 * (dfi_source_attr.close_timeout_ms). See docs/replicate.md.
	 */
	DFI_REPLICATION_MULTICAST,
};

/*
 * What a replicate flow does about segments that a network loses. Only where
 * they are sent as datagrams (multicast over RDMA) any can be lost.
 */
enum dfi_loss_policy {
	/* They are sent again: each tuple comes once, in order of its source.
	 */
	DFI_LOSS_RECOVER = 0,
	/*
	 * Nothing is sent again: a target is told once of each gap (-ENODATA,
	 * dfi_target_gap()), and then gets what comes behind it. If the flow is
	 * ordered, it is told where the gap is in the order, which is the same
	 * at all targets; it asks the source for that. So while the process of
	 * a source is stopped but not dead, a target that lacks something of it
	 * waits, and when rings are full, all sources and targets of the flow
	 * do: stall_timeout_ms of sources and targets bounds that
	 * (-ETIMEDOUT). For programs that recover by themselves. -EINVAL with
	 * what loses nothing: other kinds of flows, replication
	 * DFI_REPLICATION_NAIVE, or transport DFI_TRANSPORT_SHM. Where the
	 * library chooses one of these, by where the endpoints are, there is
	 * just nothing to tell.
	 */
	DFI_LOSS_NOTIFY,
};

/*
 * Whether sources of a flow of kind DFI_COMBINE combine tuples of one group
 * before they send them, as partial aggregates: see source.h. Results are the
 * same, but for the rounding of floating-point sums.
 */
enum dfi_source_combining {
	/*
	 * DFI_COMBINING_ADAPTIVE in flows of goal DFI_BANDWIDTH with group_by,
	 * if a segment has room for a partial aggregate; else
	 * DFI_COMBINING_OFF.
	 */
	DFI_COMBINING_DEFAULT = 0,
	DFI_COMBINING_OFF,
	/*
	 * A source combines as long as that halves what it sends, at least, and
	 * else sends tuples as they are. It judges by the first tuples, and
	 * again later, at growing intervals.
	 */
	DFI_COMBINING_ADAPTIVE,
	DFI_COMBINING_ALWAYS,
};

/*
 * Which target a tuple of a shuffle flow goes to.
 *
 * In a replicate flow 0 means all targets. With DFI_ROUTE_FUNCTION or
 * DFI_ROUTE_DIRECT it has groups: each tuple goes to a set of targets, which
 * dfi_source_attr.route_set or dfi_source_choose() says (source.h). Such a flow
 * has at most DFI_MAX_SET_TARGETS targets.
 */
enum dfi_routing {
	/* dfi_hash_partition() of the key fields' hash (route.h). Default. */
	DFI_ROUTE_HASH = 0,
	/* dfi_radix_partition() of an integer key (route.h). */
	DFI_ROUTE_RADIX,
	/*
	 * Target i takes keys below splits[i], the last one all others. The
	 * n_targets - 1 splits ascend; they are compared as the key's type is,
	 * signed or unsigned.
	 */
	DFI_ROUTE_RANGE,
	/* Targets in turn, for each source starting at its own number. */
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
	 * A checksum of 64 bits (XXH3), which the source computes when it sends
	 * a segment, and the target before it lends it: memory and networks
	 * that change data are found. Target calls return -EBADMSG, which names
	 * both ends. Both read each segment once more for it.
	 */
	DFI_VERIFY_CHECKSUM,
};

/* What a target does when more groups come than it has room for. */
enum dfi_when_full {
	DFI_FULL_FAIL = 0, /* consuming fails: -ENOSPC */
	/*
	 * It gives the results of all groups as they are, forgets them, and
	 * goes on. So a group can come several times, each time with what has
	 * come since. Whoever wants one result of it merges them:
	 * adds counts and sums, and takes the least and the greatest. Averages
	 * can't be merged: let the flow compute count and sum. What is checked
	 * (DFI_AGGREGATE_CHECKED), is so in each part.
	 */
	DFI_FULL_EMIT,
};

enum {
	/* The flow outlives the context that created it. */
	DFI_FLOW_PERSISTENT = 1,
};

#define DFI_MAX_ENDPOINTS 4096 /* sources, and targets, of one flow */
#define DFI_MAX_SET_TARGETS 64 /* of a replicate flow with groups */
#define DFI_MAX_FLOW_NAME 127
#define DFI_MAX_KEYS 8
#define DFI_MAX_SEGMENT_SIZE (1u << 26)
#define DFI_MAX_SEGMENT_COUNT (1u << 20)
#define DFI_MAX_GAP_TIMEOUT_US 10000000u
#define DFI_DEFAULT_GAP_TIMEOUT_US 10000u

/*
 * What a flow of kind DFI_REPLICATE has beside; all 0 in other flows. The
 * protocols are in docs/replicate.md.
 */
struct dfi_replicate_attr {
	/*
	 * Of a multicast over RDMA: the IPv4 or IPv6 address of its group, such
	 * as "239.1.2.3" or "ff15::1:2"; NULL: one is chosen at random from
	 * 239.192.0.0/14, or from ff15::/16 where the context's RDMA device has
	 * an IPv6 address. Flows may share a group: each has a key.
	 */
	const char *multicast_address;
	uint32_t method; /* enum dfi_replication */
	/*
	 * 1: all targets get the segments of all sources in one order. A source
	 * takes the position of a segment when it sends that, by one atomic
	 * addition to a counter in the process of target 0: through memory, or,
	 * if the flow may need RDMA, all through target 0's device, which must
	 * have atomic operations. Else 0.
	 */
	uint32_t ordered;
	uint32_t loss_policy; /* enum dfi_loss_policy */
	/*
	 * Where segments are sent as datagrams: microseconds after which one
	 * that others have overtaken counts as lost. At most
	 * DFI_MAX_GAP_TIMEOUT_US; 0: DFI_DEFAULT_GAP_TIMEOUT_US.
	 */
	uint32_t gap_timeout_us;
	uint64_t reserved[4]; /* 0 */
};

/*
 * What a flow of kind DFI_COMBINE has beside; all 0 in other flows. Windows,
 * trees and combining at sources are explained in docs/combine.md.
 */
struct dfi_combine_attr {
	const struct dfi_aggregate *aggregates; /* must be given; are copied */
	/*
	 * Field names to group by, separated by commas: integers and byte
	 * arrays, at most DFI_MAX_KEYS, each once. NULL: all tuples are one
	 * group, which one target has.
	 */
	const char *group_by;
	/*
	 * How many groups a target has room for, at most DFI_MAX_GROUPS; 0:
	 * DFI_DEFAULT_GROUPS. Memory is taken as they come: for each its key
	 * and 8 bytes for each aggregate (up to 24 for an average), and 16 to
	 * 32 bytes more.
	 */
	uint64_t max_groups;
	/*
	 * 0: results come at the end of the flow. Else each window has results
	 * of its own (dfi_target_window()). A window is this many tuples of
	 * each source, or, with DFI_WINDOW_MARKED, what a source pushes between
	 * two calls of dfi_source_mark(). It ends at a target when each source
	 * has ended it, or has closed: results wait for the slowest source, and
	 * a source that is ahead waits when a target's ring is full. Tuples for
	 * a target that has cancelled count as long as the source takes them,
	 * but not if -EPIPE refuses them.
	 */
	uint64_t window_tuples;
	/*
	 * Bytes that each source takes for the groups that it combines, for all
	 * targets together, at most DFI_MAX_COMBINING_BYTES; 0:
	 * DFI_DEFAULT_COMBINING_BYTES, which fit a second-level cache. They
	 * hold 64 to 32768 groups of a target. A source sends a group when they
	 * are full. If groups come again only after that, it combines nothing,
	 * and DFI_COMBINING_ADAPTIVE stops for a while:
	 * dfi_source_stats.combining_stops.
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
	 * 0: each target takes what all sources send. 2 or more: a tree of
	 * combiners, which the application runs (combiner.h), takes tuples in
	 * between. No combiner takes from more than fan_in sources or
	 * combiners, and no target from more than fan_in combiners. Source i
	 * sends to combiner i / fan_in, which is its only target: calls that
	 * name a target name 0.
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
 * What a flow takes, in bytes. Memory beside rings, such as handles, is not
 * counted: about 2 KiB for each ring at either end. A target may take
 * what its context has kept of others that are closed (DFI_SPARE_MEMORY).
 */
struct dfi_flow_needs {
	uint32_t segment_size, segment_count; /* as given, or chosen */
	uint64_t rings;              /* one for each source and target, or, if
					replication is multicast, each source */
	uint64_t ring_payload_bytes; /* room for tuples in a ring */
	uint64_t ring_bytes;         /* all of a ring */
	/*
	 * What each target reserves for its rings, which it locks if sources
	 * reach it over RDMA. A source of another process on the same host maps
	 * the same memory. If DFI_HUGE_PAGES is try and the system has reserved
	 * huge pages to spare, up to the next 2 MiB.
	 */
	uint64_t target_bytes;
	/*
	 * What each source reserves and locks for each target that it reaches
	 * over RDMA: as much as a ring takes, or, of a replicate flow, little
	 * (see send_buffer_bytes). 0 over shared memory, and if replication is
	 * multicast. Huge pages as for target_bytes.
	 */
	uint64_t shadow_bytes;
	uint32_t transport; /* enum dfi_transport that applies */
	/*
	 * Files that each target keeps open, target 0 of an ordered flow one
	 * more; for sources see source_descriptors. What an application asks
	 * for itself to poll takes three each: dfi_target_fd(),
	 * dfi_source_fd(), dfi_combiner_fd(), and a group of targets.
	 */
	uint32_t target_descriptors;
	/*
	 * The most queue pairs that each source takes: one for each process
	 * with targets that it reaches over RDMA, and one for the sequencer of
	 * an ordered flow, counted at both ends; or one, and one for each
	 * target, if replication is multicast.
	 */
	uint32_t source_queue_pairs;
	/*
	 * The most files that a context with endpoints of the flow opens to
	 * watch the processes of its peers: one for each other process of its
	 * host, which stays open, for later flows, barriers and sequencers too,
	 * until that process ends.
	 */
	uint32_t process_descriptors;
	/*
	 * What each source of a replicate flow reserves: the segment that it
	 * builds, if it reaches no target over RDMA (else send_buffer_bytes),
	 * or if replication is multicast its ring, which targets map. What each
	 * source of a flow of kind DFI_COMBINE that combines reserves for
	 * partial aggregates. It counts towards DFI_RING_MEMORY_LIMIT, too.
	 */
	uint64_t source_bytes;
	uint32_t replication; /* enum dfi_replication that applies, or 0 */
	/*
	 * Of a flow with fan_in, 0 in others: how many combiners it has, which
	 * count in rings, too; what each reserves for its rings at most (as
	 * target_bytes); and, over RDMA, for each that it sends to (as
	 * shadow_bytes), with a queue pair each. Then ring_bytes and
	 * ring_payload_bytes are those of a source's ring; target_bytes is what
	 * a target reserves for the rings of combiners.
	 */
	uint32_t n_combiners;
	uint64_t combiner_bytes, combiner_shadow_bytes;
	/*
	 * What each source of a naive replicate flow that reaches any target
	 * over RDMA reserves, in place of source_bytes, and locks, once for
	 * each device that it uses: as many segments as a ring has, from which
	 * all targets are sent to. Huge pages as for target_bytes.
	 */
	uint64_t send_buffer_bytes;
	/*
	 * Of an ordered flow, 0 in others: what target 0 reserves for the
	 * sequencer, and locks if sources may be on other hosts; and what each
	 * source reserves and locks that takes numbers over RDMA. They don't
	 * count towards DFI_RING_MEMORY_LIMIT.
	 */
	uint64_t sequencer_bytes, sequencer_shadow_bytes;
	/*
	 * Over RDMA, how many receives a context needs for each target, source
	 * and, at most, combiner of the flow; for target 0 of an ordered flow 4
	 * more. It has 4096 for all of its endpoints as soon as it uses a
	 * device, and 4096 more, which lock 256 KiB, each time that these are
	 * not enough, until it closes; up to 16384, or what the device holds.
	 */
	uint64_t target_receives, source_receives, combiner_receives;
	/*
	 * If replication is multicast over RDMA, else 0: what each target
	 * receives datagrams in, and each source reports, with their headers.
	 * target_bytes and source_bytes have them, too; of target_bytes this
	 * part alone is locked, of source_bytes all. Less if a device takes
	 * fewer receives, which a context finds out that has one.
	 */
	uint64_t target_datagram_bytes, source_datagram_bytes;
	/*
	 * Files that each source keeps open: one if replication is multicast,
	 * and then three more over RDMA. Each opens up to two more while it
	 * attaches.
	 */
	uint32_t source_descriptors;
	uint32_t reserved; /* 0 */
};

/*
 * Compute what a flow of these attributes would take, with the settings of
 * this context; it need not be created, and nothing is reserved. A target's
 * rings, and over RDMA a source's shadow rings of them, count towards
 * DFI_RING_MEMORY_LIMIT. Any thread. Errors are those of the attributes: see
 * dfi_flow_create(). examples/small/estimate.c prints it.
 */
DFI_API int dfi_flow_estimate(struct dfi *dfi, const struct dfi_flow_attr *attr,
    struct dfi_flow_needs *estimate);

/*
 * Publish a flow. name has 1 to DFI_MAX_FLOW_NAME characters of
 * [A-Za-z0-9._:-]. Everything in attr is copied. Unless persistent, the flow is
 * removed when the context closes or its process dies. Any thread.
 *
 * -EINVAL: an argument or attribute is not valid; the text names it. -EEXIST: a
 * flow of this name exists. -EMSGSIZE: a tuple doesn't fit a segment, a segment
 * doesn't fit a datagram, or the description is too large. -ENOSPC, -ENOTCONN,
 * -ETIMEDOUT: the registry. -ENOMEM, -EIO.
 *
 * After -ENOTCONN a persistent flow may exist nevertheless: the connection may
 * have been lost between the request and its answer. Creating it again then
 * returns -EEXIST, and dfi_flow_remove() removes it. One that is not persistent
 * goes with the connection that was lost.
 */
DFI_API int dfi_flow_create(
    struct dfi *dfi, const char *name, const struct dfi_flow_attr *attr);

/*
 * The schema of the tuples that targets of a flow of kind DFI_COMBINE get: see
 * aggregate.h. *schema is one block, strings included, which the caller frees
 * with free(). Any thread. -EINVAL: schema is NULL. -EPROTOTYPE: the flow is of
 * another kind. -ENOENT: no such flow. -ENOTCONN, -ETIMEDOUT: the registry.
 * -EPROTO, -EBADMSG: what it holds is of another version, or damaged. -ENOMEM.
 */
DFI_API int dfi_flow_result_schema(
    struct dfi *dfi, const char *name, struct dfi_schema **schema);

/*
 * Withdraw a flow, whoever created it: nobody can attach any more, and the name
 * is free. Endpoints that are attached to each other go on undisturbed; those
 * that still wait for others are told -ECONNRESET, also when the creator has
 * died or closed its context. Any thread. -ENOENT: no such flow. -ENOTCONN,
 * -ETIMEDOUT: the registry.
 */
DFI_API int dfi_flow_remove(struct dfi *dfi, const char *name);

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
	uint64_t ring_bytes; /* memory of one ring, all included */
	char schema[1024];   /* "key:uint64@0 val:uint64@8", cut if longer */
	char key[256];       /* the routing key's field names */
	uint32_t transport;  /* enum dfi_transport, as declared */
	uint32_t verify;     /* enum dfi_verify, never its default */
	/* enum dfi_replication of a replicate flow, not its default; or 0 */
	uint32_t replication;
	uint32_t ordered; /* as declared */
	/*
	 * What the attached endpoints that can use RDMA use, cut if longer:
	 * "source 0: mlx5_0 port 1, GID 3 ::ffff:10.0.0.1, immediate data;
	 * target 0: ...". Of a source also how its first target that it
	 * reaches so learns of segments: "immediate data" (by a completion),
	 * "footers are polled", or that and "with checksums".
	 */
	char verbs[1024];
	uint32_t loss_policy;    /* enum dfi_loss_policy */
	uint32_t gap_timeout_us; /* of a replicate flow, never 0; or 0 */
	uint32_t fan_in;         /* of a combiner flow with a tree; or 0 */
	uint32_t n_combiners;    /* of that (combiner.h); or 0 */
	uint32_t attached_combiners;
	uint32_t reserved;
	/*
	 * The numbers of the endpoints that are not attached, "0, 2-5", or ""
	 * if there are none; a longer list ends in "...".
	 */
	char missing_sources[128];
	char missing_targets[128];
	char missing_combiners[128];
};

/*
 * Look a flow up; it need not be attached. Any thread. -ENOENT: no such flow.
 * -ENOTCONN, -ETIMEDOUT: the registry.
 */
DFI_API int dfi_flow_lookup(
    struct dfi *dfi, const char *name, struct dfi_flow_info *info);

/*
 * Call fn for each published flow, in the order of names. A non-zero return of
 * fn ends the call, which returns it. info is valid during the call of fn only.
 * Any thread. -EINVAL: fn is NULL. -ENOTCONN, -ETIMEDOUT: the registry.
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
	/*
	 * 1 for the context that was asked for the list, else 0. pid doesn't
	 * tell, as each process has it from its own PID namespace.
	 */
	uint32_t is_own;
};

/* As dfi_flow_list(), for the contexts that are open, in the order of ids. */
DFI_API int dfi_node_list(struct dfi *dfi,
    int (*fn)(void *arg, const struct dfi_node_info *info), void *arg);

#ifdef __cplusplus
}
#endif

#endif
