/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is published about nodes, flows and endpoints, as the rest of the
 * library uses it, and its encoding in the registry: flow_entry.c has that of
 * flows, entry.c that of nodes and endpoints, and descriptor.c the rest.
 */
#ifndef DFI_FLOWS_DESCRIPTOR_DESCRIPTOR_H
#define DFI_FLOWS_DESCRIPTOR_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dfi/flow_info.h>
#include "base/host.h"
#include "base/ip.h"
#include "buffers/ring.h"
#include "transport/multicast.h"
#include "transport/transport.h"

struct DfiFlow__Node;
struct ProtobufCMessage;

#define NODE_NAME_SIZE 64
#define KEY_SIZE 256 /* longest key in the registry, the end included */

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
 * What an endpoint of a flow with a tree (tree.h) sees of it: the inputs of one
 * combiner, or those of the targets. All zero in other flows: then it is all of
 * the flow.
 */
struct flow_part {
	uint32_t combiner; /* whose inputs: its number and 1; 0: the targets' */
	bool from_combiners;   /* not from sources */
	uint32_t first_source; /* the number of the first of these */
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
	uint32_t transport; /* enum dfi_transport */
	uint32_t verify;    /* enum dfi_verify, not its default */
	/* enum dfi_replication, not its default; 0: not a replicate flow */
	uint32_t replication;
	bool ordered;            /* all targets deliver in one order */
	uint32_t loss_policy;    /* enum dfi_loss_policy; 0: likewise */
	uint32_t gap_timeout_us; /* not its default; 0: likewise */
	uint32_t n_aggregates; /* of a combiner flow, whose keys are groups' */
	struct dfi_aggregate *aggregates;
	uint64_t max_groups;    /* not its default; 0: likewise */
	uint64_t window_tuples; /* of a combiner flow: as declared */
	uint32_t when_full;     /* enum dfi_when_full; likewise */
	/* Of a multicast over a network, else "". */
	char multicast_address[IP_TEXT_SIZE];
	uint32_t combining;       /* enum dfi_source_combining; likewise */
	uint32_t fan_in;          /* of a combiner flow; 0: it has no tree */
	uint64_t combining_bytes; /* of each source; 0: the default */
	struct node creator;
	/* What is meant; not published. */
	struct flow_part part;
	/* Of a part whose tuples are records: of what is made of, else NULL. */
	struct dfi_schema *tuples;
	uint32_t tuple_keys[DFI_MAX_KEYS];
};

/*
 * What an enum dfi_transport says: all goes through memory of one host, or all
 * goes through a network, also on one host.
 */
static inline bool transport_is_memory(uint32_t choice)
{
	return choice == DFI_TRANSPORT_SHM;
}

static inline bool transport_is_network(uint32_t choice)
{
	return choice == DFI_TRANSPORT_VERBS;
}

/* Whether segments go to all targets as datagrams to a group. */
static inline bool flow_is_cast(const struct flow *flow)
{
	return flow->replication == DFI_REPLICATION_MULTICAST &&
	    transport_is_network(flow->transport);
}

/* Whether all targets read one ring, in memory of the source. */
static inline bool flow_is_broadcast(const struct flow *flow)
{
	return flow->replication == DFI_REPLICATION_MULTICAST &&
	    transport_is_memory(flow->transport);
}

/* What the ends of this part of the flow are called, and their numbers. */
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
	return flow->part.combiner ? flow->part.combiner - 1 : 0;
}

/* Room for why other hosts can't reach a region. */
#define ENDPOINT_WHY_SIZE 320

/* How a region is reached by one transport: of those that this library has. */
struct region_address {
	const struct transport_ops *transport;
	struct region_name name;
};

/* A region as peers find it; size 0: there is none. */
#define REGION_MAX_ADDRESSES 2 /* its maker's, and who exports it */
struct published_region {
	uint64_t size;
	uint32_t n_addresses;
	struct region_address addresses[REGION_MAX_ADDRESSES];
	bool has_unknown; /* an address of a transport that is not here */
	char why[ENDPOINT_WHY_SIZE]; /* other hosts can't reach it; or "" */
};

/* A target's or source's entry. */
struct endpoint {
	struct node node;
	/* Targets only: */
	struct published_region region;
	bool cancelled; /* it wants no more tuples */
	/* Of an ordered flow's numbers, or of a sequencer. */
	struct published_region sequencer;
	bool done; /* it has all that there was */
	/* Sources, too: */
	bool has_port; /* where datagrams to it alone go */
	struct multicast_address port;
	char device[TRANSPORT_WAY_SIZE]; /* that it uses, for people; or "" */
};

/* Publish a region by its maker's address, and that of who exports it. */
void dfi__region_publish(
    const struct region *region, struct published_region *published);

/* How the memory of a region is mapped on its host; NULL: it isn't said. */
const struct region_name *dfi__region_memory(
    const struct published_region *published);

/* How other hosts reach a region; NULL: they don't. */
const struct region_address *dfi__region_network(
    const struct published_region *published);

/* Whether two entries mean one region; or have none. */
bool dfi__region_is_same(
    const struct published_region *a, const struct published_region *b);

/* Whether it can be a flow's name: 0 or -EINVAL. */
int dfi__flow_check_name(const char *name);

/* The same of a name of what else is published ("barrier"). */
int dfi__check_name(const char *what, const char *name);

void dfi__flow_free(struct flow *flow);

/* -ENOMEM, then there is nothing to free. Of a combiner flow. */
int dfi__flow_copy(const struct flow *flow, struct flow *copy);

/* Of the rings in the targets' regions. */
struct ring_geometry dfi__flow_geometry(const struct flow *flow);
/* Whether each tuple of a replicate flow is for a set of targets. */
static inline bool dfi__flow_has_groups(const struct flow *flow)
{
	return flow->kind == DFI_REPLICATE && flow->routing;
}

/* Whether sources of a combiner flow combine. */
static inline bool dfi__flow_combines(const struct flow *flow)
{
	return flow->combining > DFI_COMBINING_OFF;
}

/* What its segments have beside tuples: enum segment_parts. */
uint32_t dfi__flow_segment_parts(const struct flow *flow);
/* The geometry of rings with slots, whichever memory holds the slots. */
struct ring_geometry dfi__flow_slots_geometry(const struct flow *flow);

/*
 * Encode into a block that the caller frees; NULL: no memory. Decoding checks
 * everything that later code relies on: -EBADMSG, -EPROTO for another version's
 * ring layout, -ENOMEM.
 */
void *dfi__flow_encode(const struct flow *flow, size_t *size);
int dfi__flow_decode(
    const char *name, const void *data, size_t size, struct flow *flow);
void *dfi__endpoint_encode(const struct endpoint *endpoint, size_t *size);
int dfi__endpoint_decode(
    const void *data, size_t size, struct endpoint *endpoint);
void *dfi__node_encode(const struct node *node,
    const uint8_t token[MEMBER_TOKEN_SIZE], const char *address, size_t *size);
/* token may be NULL. */
int dfi__node_decode(const void *data, size_t size, struct node *node,
    uint8_t token[MEMBER_TOKEN_SIZE]);
/* Where a node's process listens; "" if its entry doesn't say. */
int dfi__node_decode_address(
    const void *data, size_t size, char address[TRANSPORT_ADDRESS_SIZE]);

/* Whether two contexts are the same process's, which they may not tell. */
bool dfi__node_is_process(const struct node *a, const struct node *b);

/* A message in a block that the caller frees; NULL: no memory. */
void *dfi__message_pack(const struct ProtobufCMessage *message, size_t *size);

/* As a part of another entry; the message's texts are the node's. */
void dfi__node_to_message(
    const struct node *node, struct DfiFlow__Node *message);
/*
 * message may be NULL. False: a name has control characters; in the node there
 * is a '?' for each byte of them.
 */
bool dfi__node_from_message(
    const struct DfiFlow__Node *message, struct node *node);

/*
 * What is listed of a node by the context of node own; flows: all values below
 * "flows/" (info.c).
 */
struct registry_value;
void dfi__node_info(uint64_t own, const struct node *node,
    const struct registry_value *flows, size_t n, struct dfi_node_info *info);

/*
 * Keys in the registry:
 *	nodes/<id>
 *	flows/<name>
 *	flows/<name>/<instance>/sources/<i>
 *	flows/<name>/<instance>/targets/<j>
 *	flows/<name>/<instance>/combiners/<c>/sources/<i>
 *	flows/<name>/<instance>/combiners/<c>/targets/<c>
 *	barriers/<name>/<i>	(member.h)
 *	sequencers/<name>/counter	(sequencer.c)
 * In a flow with a tree, sources and combiners are with the combiner that takes
 * what they send, and combiners are targets there and sources elsewhere.
 * The instance in the key keeps leftovers of an earlier flow of the same name
 * apart (docs/decisions/0003-instance-in-key.md).
 */
void dfi__node_key(char key[KEY_SIZE], uint64_t id);
/* Whether an entry that says it is the node's has the key for it. */
bool dfi__node_is_at(const struct node *node, const char *key);
void dfi__flow_key(char key[KEY_SIZE], const char *name);
void dfi__endpoint_key(char key[KEY_SIZE], const struct flow *flow,
    const char *role, uint32_t index);
/* The same without the index: the prefix of all endpoints of a role. */
void dfi__endpoint_prefix(
    char key[KEY_SIZE], const struct flow *flow, const char *role);
/* The number at the end of an endpoint's key; false if there is none. */
bool dfi__endpoint_index(const char *key, uint32_t *index);

#endif
