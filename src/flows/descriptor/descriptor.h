/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published entries of nodes, flows and endpoints, as structs for the rest
 * of the library, and their encoding in the registry: flow_entry.c encodes
 * flows, entry.c nodes and endpoints; descriptor.c has the rest.
 */
#ifndef DFI_FLOWS_DESCRIPTOR_DESCRIPTOR_H
#define DFI_FLOWS_DESCRIPTOR_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <dfi/flow_info.h>
#include "base/host.h"
#include "base/ip.h"
#include "buffers/layout/ring.h"
#include "transport/multicast.h"
#include "transport/transports.h"

struct DfiFlow__Node;
struct ProtobufCMessage;

#define NODE_NAME_SIZE 64
#define KEY_SIZE 256 /* longest key in the registry, with its NUL */

struct node {
	uint64_t id;
	uint32_t pid;
	char name[NODE_NAME_SIZE];
	char host[NODE_NAME_SIZE];
	struct host at;
	/* See base/process.h; 0: unknown. */
	uint64_t pid_space, start;
};

/*
 * The part of a flow that an endpoint sees. In a flow with a tree (tree.h) the
 * inputs of one combiner, or those of the targets; in an open flow a pair, of
 * one source and one target. All zero for the whole flow.
 */
struct flow_part {
	uint32_t combiner;   /* its number + 1; 0: the inputs of the targets */
	bool from_combiners; /* the senders are combiners, not sources */
	bool has_sets;       /* of a pair: segments say for whom they are */
	uint32_t first_source; /* number of the first sender */
	uint32_t first_target; /* of a pair */
	uint64_t pair;         /* its id; 0: no pair */
	/* Of shared rings that the source of a pair may move to; 0: none. */
	uint32_t shared_segments;
	uint64_t incarnation; /* of its source */
};

/* A flow's descriptor. */
struct flow {
	char name[DFI_MAX_FLOW_NAME + 1];
	uint64_t instance;
	uint32_t kind, goal, routing, flags;
	uint32_t n_sources, n_targets;
	struct dfi_schema *schema;
	uint32_t n_keys;
	uint32_t keys[DFI_MAX_KEYS]; /* indexes into the schema's fields */
	uint32_t radix_shift, radix_bits;
	int64_t *splits;
	uint32_t segment_size, segment_count;
	enum footer_side footer_side;
	uint32_t transport; /* enum dfi_transport */
	uint32_t verify;    /* enum dfi_verify, resolved */
	/* enum dfi_replication, resolved; 0: not a replicate flow */
	uint32_t replication;
	bool ordered;         /* all targets deliver in one order */
	uint32_t loss_policy; /* enum dfi_loss_policy, resolved; 0: likewise */
	uint32_t gap_timeout_us; /* resolved; 0: likewise */
	uint32_t n_aggregates;   /* of a combiner flow, grouped by keys */
	struct dfi_aggregate *aggregates;
	uint64_t max_groups;    /* resolved; 0: likewise */
	uint64_t window_tuples; /* of a combiner flow, as declared */
	uint32_t when_full;     /* enum dfi_when_full; likewise */
	/* The address of a multicast over a network, or "". */
	char multicast_address[IP_TEXT_SIZE];
	uint32_t combining;       /* enum dfi_source_combining; likewise */
	uint32_t fan_in;          /* of a combiner flow; 0: no tree */
	uint64_t combining_bytes; /* for each source; 0: the default */
	uint32_t membership;      /* enum dfi_membership */
	/* Of an open flow, resolved; or 0. */
	uint32_t min_sources, min_targets, on_loss, evict_after_ms;
	uint32_t partitions; /* likewise; 0: it does not route by keys */
	uint64_t hold_bytes; /* likewise */
	/* Of a flow that moves: of the ring of a pair; or 0. */
	uint32_t pair_segments;
	/* With replay: 1 + the index of its field in the schema; or 0. */
	uint32_t input_position;
	uint32_t return_timeout_ms; /* likewise; 0: none */
	char *spill_dir;            /* likewise; NULL: none. Not of a part */
	struct node creator;
	/* The part that this struct describes. Not published. */
	struct flow_part part;
	/*
	 * In a part whose tuples are partial aggregates: the schema and keys of
	 * the flow's tuples. Else NULL.
	 */
	struct dfi_schema *tuples;
	uint32_t tuple_keys[DFI_MAX_KEYS];
};

/*
 * Whether a choice of enum dfi_transport means memory of one host; and whether
 * it means a network, even on one host.
 */
static inline bool transport_is_memory(uint32_t choice)
{
	return choice == DFI_TRANSPORT_SHM;
}

static inline bool transport_is_network(uint32_t choice)
{
	return choice == DFI_TRANSPORT_VERBS || choice == DFI_TRANSPORT_OFI;
}

/* Whether segments go to all targets as datagrams to a multicast group. */
static inline bool flow_is_multicast(const struct flow *flow)
{
	return flow->replication == DFI_REPLICATION_MULTICAST &&
	    transport_is_network(flow->transport);
}

/* Whether all targets read one ring, in memory of the source. */
static inline bool flow_has_shared_ring(const struct flow *flow)
{
	return flow->replication == DFI_REPLICATION_MULTICAST &&
	    transport_is_memory(flow->transport) && !flow->membership;
}

/*
 * The same of an open flow: a source moves between shared rings and the rings
 * of its pairs.
 */
static inline bool flow_moves(const struct flow *flow)
{
	return flow->replication == DFI_REPLICATION_MULTICAST &&
	    transport_is_memory(flow->transport) && flow->membership &&
	    !flow->ordered;
}

/*
 * The words for the ends of this part of the flow, and the number of its first
 * target.
 */
static inline const char *flow_source_word(const struct flow *flow)
{
	return flow->part.from_combiners ? "combiner" : "source";
}

static inline const char *flow_target_word(const struct flow *flow)
{
	return flow->part.combiner ? "combiner" : "target";
}

static inline uint32_t flow_first_target(const struct flow *flow)
{
	return flow->part.combiner ? flow->part.combiner - 1
				   : flow->part.first_target;
}

/* Size of the text why other hosts can't reach a region. */
#define ENDPOINT_WHY_SIZE 320

/* The address of a region for one transport, which this library has. */
struct region_address {
	const struct transport_row *transport;
	struct region_name name;
};

/* A region as published to peers. size 0: there is none. */
#define REGION_MAX_ADDRESSES 7 /* of its transport, and of exports */
#define REGION_FEW_ADDRESSES 2 /* most have no more */
#define REGION_MORE_ADDRESSES (REGION_MAX_ADDRESSES - REGION_FEW_ADDRESSES)
struct published_region {
	uint64_t size;
	uint32_t n_addresses;
	struct region_address addresses[REGION_FEW_ADDRESSES];
	char why[ENDPOINT_WHY_SIZE]; /* why other hosts can't reach it; or "" */
	bool has_unknown; /* it has an address for an unknown transport */
	/* The addresses behind those above; NULL: there is no room for any. */
	struct region_address *more;
};

/* The address of that number. */
static inline const struct region_address *region_address_at(
    const struct published_region *published, uint32_t i)
{
	return i < REGION_FEW_ADDRESSES
	    ? &published->addresses[i]
	    : &published->more[i - REGION_FEW_ADDRESSES];
}

/* The entry of a target or source. */
struct endpoint {
	struct node node;
	/* Targets only: */
	struct published_region region;
	bool cancelled; /* it takes no more tuples */
	/* The shared counter of an ordered flow, or of a sequencer. */
	struct published_region sequencer;
	bool done; /* it has received all tuples */
	/* Of a pair with datagrams: it has closed, as dfi_flow.proto has it. */
	bool left;
	uint64_t given_back;
	/* Targets and sources: */
	bool has_datagram_address; /* datagrams to it alone go there */
	struct multicast_address datagram_address;
	char device[TRANSPORT_WAY_SIZE]; /* it uses, for people; or "" */
	uint64_t incarnation;            /* of who holds a seat; or 0 */
	uint64_t store_epoch; /* the highest that the target's store knows */
};

/*
 * Fill in the addresses of a region: of its transport, and of its exports, as
 * many as there is room for (published->more).
 */
void dfi__region_publish(
    const struct region *region, struct published_region *published);

/* The name by which processes of its host map a region; NULL: not published. */
const struct region_name *dfi__region_memory(
    const struct published_region *published);

/* The first address by which other hosts reach a region; NULL: there is none.
 */
const struct region_address *dfi__region_network(
    const struct published_region *published);

/* Whether two entries are of the same region, or both have none. */
bool dfi__region_is_same(
    const struct published_region *a, const struct published_region *b);

/* Check a flow's name: 0 or -EINVAL. */
int dfi__flow_check_name(const char *name);

/* Check another published name; what says whose, such as "barrier". */
int dfi__check_name(const char *what, const char *name);

void dfi__flow_free(struct flow *flow);

/* Copy a combiner flow. -ENOMEM: there is nothing to free. */
int dfi__flow_copy(const struct flow *flow, struct flow *copy);

/*
 * The part of an open flow that is the pair of these two: a closed flow with
 * one ring. The incarnations give it an id; incarnation is the source's.
 * -ENOMEM: there is nothing to free.
 */
int dfi__flow_pair(const struct flow *flow, uint32_t source, uint32_t target,
    uint64_t pair, uint64_t incarnation, struct flow *part);

/* The geometry of the rings in the targets' regions. */
struct ring_geometry dfi__flow_geometry(const struct flow *flow);
/* Whether each tuple of a replicate flow is for a target set. */
static inline bool dfi__flow_has_groups(const struct flow *flow)
{
	return flow->kind == DFI_REPLICATE && flow->routing;
}

/* Whether a shuffle flow's routing is a function of keys. */
static inline bool dfi__routing_is_keyed(uint32_t routing)
{
	return routing <= DFI_ROUTE_RANGE;
}

/* The input position of a tuple, in a flow with replay. */
static inline uint64_t flow_input_position(
    const struct flow *flow, const char *tuple)
{
	uint64_t position;

	memcpy(&position,
	    tuple + flow->schema->fields[flow->input_position - 1].offset,
	    sizeof(position));
	return position;
}

/*
 * Whether sources of an open flow are those of kinds/open/keyed.h, which take
 * tuples one by one.
 */
static inline bool flow_holds_tuples(const struct flow *flow)
{
	return flow->partitions || flow->input_position;
}

/* Whether each tuple is for one seat, which the application chooses. */
static inline bool flow_names_seats(const struct flow *flow)
{
	return flow->kind != DFI_REPLICATE &&
	    (flow->routing == DFI_ROUTE_DIRECT ||
		flow->routing == DFI_ROUTE_FUNCTION);
}

/* Whether an open flow has partitions. */
static inline bool flow_is_partitioned(const struct flow *flow)
{
	return flow->membership && flow->kind == DFI_SHUFFLE &&
	    dfi__routing_is_keyed(flow->routing);
}

/* How many ways a routing by keys has: targets, or an open flow's partitions.
 */
static inline uint32_t dfi__flow_ways(const struct flow *flow)
{
	return flow->partitions ? flow->partitions : flow->n_targets;
}

/* A value of the registry has no more. */
#define TABLE_MAX_BYTES (64 << 10)

/* Whether sources of a combiner flow combine. */
static inline bool dfi__flow_combines(const struct flow *flow)
{
	return flow->combining > DFI_COMBINING_OFF;
}

/* The members of the segments' header: enum segment_parts. */
uint32_t dfi__flow_segment_parts(const struct flow *flow);
/* The geometry of rings with slots, whichever memory holds the slots. */
struct ring_geometry dfi__flow_slots_geometry(const struct flow *flow);
/* The same with a slot for one tuple, before the flow's sizes are known. */
struct ring_geometry dfi__flow_tuple_geometry(const struct flow *flow);

/* What a declaration and an entry of a kind may say. */
struct kind_rules {
	bool routes;     /* by the routing and the keys of a shuffle flow */
	bool aggregates; /* it has the members of a combiner flow */
	/* Whether an entry has the values that both ends rely on. */
	bool (*is_sane)(const struct flow *flow);
};

/* NULL: no enum dfi_flow_kind. */
const struct kind_rules *dfi__kind_rules(uint32_t kind);

/*
 * Version of the rings (buffers/layout/segment.h), of datagrams, and of the
 * entries of a flow and its endpoints. All of a flow have the same.
 * WIRE_VERSION stands for the other entries.
 */
#define RING_LAYOUT 6

/*
 * Encode into a block that the caller frees; NULL: no memory. Decoding checks
 * all values that later code relies on: -EBADMSG, -ENOMEM, or -EPROTO for
 * another version's ring layout.
 */
void *dfi__flow_encode(const struct flow *flow, size_t *size);
int dfi__flow_decode(
    const char *name, const void *data, size_t size, struct flow *flow);
void *dfi__endpoint_encode(const struct endpoint *endpoint, size_t *size);
int dfi__endpoint_decode(
    const void *data, size_t size, struct endpoint *endpoint);
/* The same with all addresses of the region: it points to more. */
int dfi__endpoint_decode_all(const void *data, size_t size,
    struct region_address more[REGION_MORE_ADDRESSES],
    struct endpoint *endpoint);
void *dfi__node_encode(const struct node *node,
    const uint8_t token[MEMBER_TOKEN_SIZE], const char *address, size_t *size);
/* token may be NULL. */
int dfi__node_decode(const void *data, size_t size, struct node *node,
    uint8_t token[MEMBER_TOKEN_SIZE]);
/* The address at which a node's process listens; "" if its entry has none. */
int dfi__node_decode_address(
    const void *data, size_t size, char address[TRANSPORT_ADDRESS_SIZE]);

/* Whether two contexts belong to one process, as far as they tell. */
bool dfi__node_is_process(const struct node *a, const struct node *b);

/* Pack a message into a block that the caller frees; NULL: no memory. */
void *dfi__message_pack(const struct ProtobufCMessage *message, size_t *size);

/* For a part of another entry. The message points to the node's texts. */
void dfi__node_to_message(
    const struct node *node, struct DfiFlow__Node *message);
/*
 * message may be NULL. false: a name has control characters; node has a '?' for
 * each of their bytes.
 */
bool dfi__node_from_message(
    const struct DfiFlow__Node *message, struct node *node);

struct dfi;
struct registry_value;

/* All values below "nodes/", and all below "flows/". */
struct node_entries {
	struct registry_value *nodes, *flows;
	size_t n_nodes, n_flows;
};

/* Ask the registry; the caller frees what entries holds (info.c). */
int dfi__node_entries(struct dfi *dfi, struct node_entries *entries);
void dfi__node_entries_free(struct node_entries *entries);

/* List a node, for the context of node own (info.c). */
void dfi__node_info(uint64_t own, const struct node *node,
    const struct node_entries *entries, struct dfi_node_info *info);

/*
 * Keys in the registry:
 *
 *	nodes/<id>
 *	flows/<name>
 *	flows/<name>/<instance>/sources/<i>
 *	flows/<name>/<instance>/targets/<j>
 *	flows/<name>/<instance>/combiners/<c>/sources/<i>
 *	flows/<name>/<instance>/combiners/<c>/targets/<c>
 *	flows/<name>/<instance>/pairs/<id>/sources/<i>	(open flows)
 *	flows/<name>/<instance>/pairs/<id>/targets/<j>
 *	flows/<name>/<instance>/finished
 *	barriers/<name>/<i>	(sync/barrier_members.h)
 *	sequencers/<name>/counter	(sync/sequencer.c)
 *
 * In a flow with a tree, the entries of senders are below the combiner to which
 * they send. A combiner is a target below itself, and a source below the next
 * one.
 *
 * The instance in the key separates entries left by an earlier flow of the same
 * name (docs/decisions/0003-instance-in-key.md).
 */

void dfi__node_key(char key[KEY_SIZE], uint64_t id);
/* Whether an entry of this node has the node's key. */
bool dfi__node_is_at(const struct node *node, const char *key);
void dfi__flow_key(char key[KEY_SIZE], const char *name);
void dfi__endpoint_key(char key[KEY_SIZE], const struct flow *flow,
    const char *role, uint32_t index);
/*
 * dfi__endpoint_key() without the index: the prefix of all endpoints of a role.
 */
void dfi__endpoint_prefix(
    char key[KEY_SIZE], const struct flow *flow, const char *role);
/* The prefix of all keys below a flow, and the key that says it is finished. */
void dfi__flow_prefix(char key[KEY_SIZE], const struct flow *flow);
void dfi__flow_finished_key(char key[KEY_SIZE], const struct flow *flow);
/* The number at the end of an endpoint's key. false: there is none. */
bool dfi__endpoint_index(const char *key, uint32_t *index);

#endif
