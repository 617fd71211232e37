/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares and finishes open flows, and assigns their partitions. Each refusal
 * says what to use instead.
 */
#include "open_flow.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/error_list.h"
#include "base/bits.h"
#include "base/schema.h"
#include "flows/context/context.h"
#include "flows/context/network.h"
#include "flows/descriptor/descriptor.h"
#include "flows/open/keys.h"
#include "flows/open/value.h"
#include "registry/client/client.h"
#include "route.h"

/* Members that only open flows have. */
static int check_closed(
    const struct flow *flow, const struct dfi_open_attr *attr)
{
	const char *member = attr->min_sources ? "min_sources"
	    : attr->min_targets                ? "min_targets"
	    : attr->on_loss                    ? "on_loss"
	    : attr->evict_after_ms             ? "evict_after_ms"
	    : attr->partitions                 ? "partitions"
	    : attr->hold_bytes                 ? "hold_bytes"
	    : attr->input_position             ? "input_position"
	    : attr->return_timeout_ms          ? "return_timeout_ms"
	    : attr->spill_dir                  ? "spill_dir"
					       : NULL;

	return member ? dfi__fail(-EINVAL,
			    "flow '%s': open.%s is for open flows: set "
			    "open.membership to DFI_MEMBERS_OPEN, or leave "
			    "it 0",
			    flow->name, member)
		      : 0;
}

/* The first segment of a ring is a mark (J1). */
#define REPLICATE_LEAST_SEGMENTS 3

/*
 * What targets report of all sources, and a view with all members, are values
 * of the registry (64 KiB).
 */
#define MOST_ORDERED 1000

static int check_order(
    const struct flow *flow, const struct dfi_flow_attr *attr)
{
	uint32_t most = flow->n_sources > flow->n_targets ? flow->n_sources
							  : flow->n_targets;

	if (attr->open.on_loss == DFI_ON_LOSS_REPLAY)
		return dfi__fail(-EINVAL,
		    "flow '%s': replicate.ordered 1: an ordered open flow "
		    "sends nothing again: set open.on_loss to "
		    "DFI_ON_LOSS_DROP or DFI_ON_LOSS_FAIL",
		    flow->name);
	if (most > MOST_ORDERED)
		return dfi__fail(-EINVAL,
		    "flow '%s': replicate.ordered 1: an ordered open flow has "
		    "at most %d seats of a role, not %u",
		    flow->name, MOST_ORDERED, most);
	return 0;
}

static int check_replicate(
    const struct flow *flow, const struct dfi_flow_attr *attr)
{
	if (flow->ordered && flow->replication != DFI_REPLICATION_NAIVE)
		return dfi__fail(-EOPNOTSUPP,
		    "flow '%s': replicate.method DFI_REPLICATION_MULTICAST: "
		    "in this version ordered open flows have neither "
		    "datagrams nor shared rings: set it to "
		    "DFI_REPLICATION_NAIVE, or use a closed flow",
		    flow->name);
	if (attr->segment_count &&
	    attr->segment_count < REPLICATE_LEAST_SEGMENTS)
		return dfi__fail(-EINVAL,
		    "flow '%s': segment_count %u: rings of an open replicate "
		    "flow need at least %d: one tells a target where it "
		    "begins, and one has the last mark",
		    flow->name, attr->segment_count, REPLICATE_LEAST_SEGMENTS);
	return flow->ordered ? check_order(flow, attr) : 0;
}

static int check_combine(
    const struct flow *flow, const struct dfi_open_attr *open)
{
	if (flow->fan_in)
		return dfi__fail(-EOPNOTSUPP,
		    "flow '%s': combine.fan_in %u: combiners of a tree can't "
		    "hand over what they hold, so an open flow has none: leave "
		    "it 0, or use a closed flow",
		    flow->name, flow->fan_in);
	if (flow->window_tuples != DFI_WINDOW_MARKED)
		return dfi__fail(-EINVAL,
		    "flow '%s': combine.window_tuples %lu: sources of an open "
		    "flow come and go where a window ends, and only marks say "
		    "where for all of them: set it to DFI_WINDOW_MARKED",
		    flow->name, (unsigned long)flow->window_tuples);
	if (open->min_targets && open->min_targets != flow->n_targets)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.min_targets %u: the targets of an open "
		    "combiner flow do not come and go, as each has its part of "
		    "the groups: leave it 0, which means all %u",
		    flow->name, open->min_targets, flow->n_targets);
	if (open->on_loss == DFI_ON_LOSS_REPLAY)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.on_loss DFI_ON_LOSS_REPLAY: a result of "
		    "many tuples has no input position to go back to: use "
		    "DFI_ON_LOSS_DROP, and repeat windows that are flagged "
		    "(dfi_target_window_flags())",
		    flow->name);
	return 0;
}

static int check_kind(const struct flow *flow, const struct dfi_flow_attr *attr)
{
	if ((flow->kind != DFI_SHUFFLE ||
		!dfi__routing_is_keyed(flow->routing)) &&
	    (attr->open.partitions || attr->open.hold_bytes))
		return dfi__fail(-EINVAL,
		    "flow '%s': open.partitions and open.hold_bytes are for "
		    "shuffle flows that route by keys: leave them 0",
		    flow->name);
	if (flow->kind == DFI_REPLICATE)
		return check_replicate(flow, attr);
	if (flow->kind == DFI_COMBINE)
		return check_combine(flow, &attr->open);
	if (!dfi__routing_is_keyed(flow->routing) &&
	    (attr->key || attr->splits || attr->radix_bits ||
		attr->radix_shift))
		return dfi__fail(-EINVAL,
		    "flow '%s': key, splits, radix_shift and radix_bits are "
		    "for routing by keys: leave them 0",
		    flow->name);
	return 0;
}

uint32_t dfi__open_ways(const struct dfi_flow_attr *attr)
{
	uint32_t n = attr->open.partitions;

	if (!attr->open.membership)
		return attr->n_targets;
	return !n ? DFI_DEFAULT_PARTITIONS
		  : (uint32_t)min_u64(n, DFI_MAX_PARTITIONS);
}

/* A table says of each partition who owns it, and fits one registry value. */
static int check_partitions(struct flow *flow, const struct dfi_flow_attr *attr)
{
	uint32_t n = attr->open.partitions;

	if (flow->kind != DFI_SHUFFLE || !dfi__routing_is_keyed(flow->routing))
		return 0;
	if (n > DFI_MAX_PARTITIONS ||
	    dfi__open_table_bytes(dfi__open_ways(attr), flow->n_targets) >
		TABLE_MAX_BYTES)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.partitions %u and n_targets %u: a flow "
		    "has at most %u partitions, and fewer with many targets: "
		    "a table of owners has at most %d bytes",
		    flow->name, dfi__open_ways(attr), flow->n_targets,
		    DFI_MAX_PARTITIONS, TABLE_MAX_BYTES);
	if (attr->open.hold_bytes &&
	    attr->open.hold_bytes < flow->schema->tuple_size)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.hold_bytes %lu has no room for a tuple, "
		    "of %u bytes: raise it, or leave it 0",
		    flow->name, (unsigned long)attr->open.hold_bytes,
		    flow->schema->tuple_size);
	flow->partitions = dfi__open_ways(attr);
	if (flow->routing == DFI_ROUTE_RADIX && !n && flow->radix_bits)
		flow->partitions = (uint32_t)min_u64(
		    flow->partitions, UINT64_C(1) << flow->radix_bits);
	flow->hold_bytes = attr->open.hold_bytes;
	return 0;
}

static int check_minimum(
    const struct flow *flow, const char *role, uint32_t minimum, uint32_t n)
{
	return minimum <= n ? 0
			    : dfi__fail(-EINVAL,
				  "flow '%s': open.min_%ss %u is more than "
				  "n_%ss, which is %u",
				  flow->name, role, minimum, role, n);
}

/* The field of the input position. */
static int check_input(struct flow *flow, const char *name)
{
	const struct dfi_field *field = name
	    ? dfi__schema_field(flow->schema, name, strlen(name))
	    : NULL;

	if (!name)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.input_position is NULL: "
		    "DFI_ON_LOSS_REPLAY needs a field of the schema, of type "
		    "DFI_UINT64, that rises from tuple to tuple of a source",
		    flow->name);
	if (!field)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.input_position '%s': the schema has no "
		    "such field",
		    flow->name, name);
	if (field->type != DFI_UINT64)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.input_position '%s': its type is not "
		    "DFI_UINT64",
		    flow->name, name);
	flow->input_position = 1 + (uint32_t)(field - flow->schema->fields);
	return 0;
}

static int check_replay(struct flow *flow, const struct dfi_flow_attr *attr)
{
	if (flow->kind != DFI_SHUFFLE)
		return dfi__fail(-EOPNOTSUPP,
		    "flow '%s': open.on_loss DFI_ON_LOSS_REPLAY: this version "
		    "sends tuples again in shuffle flows only: use "
		    "DFI_ON_LOSS_DROP, and repeat what is missing in the "
		    "application",
		    flow->name);
	if (flow->partitions > DFI_MAX_REPLAY_PARTITIONS)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.partitions %u: with DFI_ON_LOSS_REPLAY a "
		    "flow has at most %u",
		    flow->name, flow->partitions, DFI_MAX_REPLAY_PARTITIONS);
	return check_input(flow, attr->open.input_position);
}

/* Processes with other working directories open it. */
static int check_spill(struct flow *flow, const char *dir)
{
	if (!dir)
		return 0;
	if (dir[0] != '/' || strlen(dir) > DFI_MAX_SPILL_DIR)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.spill_dir '%s': it begins with '/', and "
		    "has at most %u bytes",
		    flow->name, dir, DFI_MAX_SPILL_DIR);
	flow->spill_dir = strdup(dir);
	return flow->spill_dir
	    ? 0
	    : dfi__fail(-ENOMEM, "flow '%s': out of memory", flow->name);
}

static int check_loss(struct flow *flow, const struct dfi_flow_attr *attr)
{
	const struct dfi_open_attr *open = &attr->open;

	if (open->on_loss > DFI_ON_LOSS_REPLAY)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.on_loss %u is no enum dfi_on_loss",
		    flow->name, open->on_loss);
	if (open->on_loss == DFI_ON_LOSS_REPLAY) {
		int ret = check_spill(flow, open->spill_dir);

		return ret < 0 ? ret : check_replay(flow, attr);
	}
	return open->input_position || open->return_timeout_ms ||
		open->spill_dir
	    ? dfi__fail(-EINVAL,
		  "flow '%s': open.input_position, open.spill_dir and "
		  "open.return_timeout_ms are for DFI_ON_LOSS_REPLAY: set "
		  "open.on_loss to that, or leave them NULL and 0",
		  flow->name)
	    : 0;
}

static int check_eviction(
    const struct flow *flow, const struct dfi_open_attr *open)
{
	if (open->evict_after_ms && open->on_loss == DFI_ON_LOSS_FAIL)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.evict_after_ms %u: with open.on_loss "
		    "DFI_ON_LOSS_FAIL an eviction would fail the others, as "
		    "any other loss: set open.on_loss to DFI_ON_LOSS_DROP or "
		    "DFI_ON_LOSS_REPLAY",
		    flow->name, open->evict_after_ms);
	return 0;
}

int dfi__open_declare(
    const struct dfi *dfi, struct flow *flow, const struct dfi_flow_attr *attr)
{
	static const struct dfi_open_attr none;
	const struct dfi_open_attr *open = &attr->open;
	int ret;

	if (open->unused ||
	    memcmp(open->reserved, none.reserved, sizeof(none.reserved)) != 0)
		return dfi__fail(-E2BIG,
		    "flow '%s': dfi_flow_attr.open.reserved is not 0: set it "
		    "to 0, or use a newer library that knows the member",
		    flow->name);
	if (open->membership > DFI_MEMBERS_OPEN)
		return dfi__fail(-EINVAL,
		    "flow '%s': open.membership %u is no enum dfi_membership",
		    flow->name, open->membership);
	if (!open->membership)
		return check_closed(flow, open);
	ret = check_kind(flow, attr);
	if (!ret)
		ret = check_partitions(flow, attr);
	if (!ret)
		ret = check_loss(flow, attr);
	if (!ret)
		ret = check_eviction(flow, open);
	if (!ret)
		ret = check_minimum(
		    flow, "source", open->min_sources, flow->n_sources);
	if (!ret)
		ret = check_minimum(flow, "target",
		    open->min_targets == DFI_NO_TARGETS ? 0 : open->min_targets,
		    flow->n_targets);
	/* It holds whatever DFI_TRANSPORT is in the endpoints' processes. */
	if (flow->ordered && !dfi__network_may_be_needed(dfi, flow))
		flow->transport = DFI_TRANSPORT_SHM;
	flow->membership = open->membership;
	flow->min_sources = open->min_sources;
	flow->min_targets = flow->kind == DFI_COMBINE ? flow->n_targets
	    : open->min_targets == DFI_NO_TARGETS     ? 0
	    : open->min_targets                       ? open->min_targets
						      : 1;
	flow->on_loss = open->on_loss;
	flow->evict_after_ms = open->evict_after_ms;
	flow->return_timeout_ms = open->return_timeout_ms;
	return ret;
}

int dfi__open_get_flow(
    struct dfi *dfi, const char *name, int64_t deadline, struct flow *flow)
{
	struct registry_value value;
	char key[KEY_SIZE];
	int ret;

	dfi__flow_key(key, name);
	ret = dfi__client_get(dfi->registry, key, deadline, &value);
	if (ret == -ENOENT)
		return dfi__fail(-ENOENT, "flow '%s' doesn't exist", name);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s'", name);
	ret = dfi__flow_decode(name, value.data, value.size, flow);
	dfi__registry_value_free(&value);
	return ret;
}

/* The key would go with this context, and the flow would go on. */
int dfi__open_check_creator(
    const struct dfi *dfi, const struct flow *flow, const char *does)
{
	if (flow->flags & DFI_FLOW_PERSISTENT ||
	    flow->creator.id == dfi->node.id)
		return 0;
	return dfi__fail(-EPERM,
	    "flow '%s': the context that has created it %s (node %s, host %s, "
	    "pid %u); any does if the flow is DFI_FLOW_PERSISTENT",
	    flow->name, does, flow->creator.name, flow->creator.host,
	    flow->creator.pid);
}

static int check_finish(const struct dfi *dfi, const struct flow *flow)
{
	if (!flow->membership)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s' is not open (open.membership): it ends when "
		    "all its sources have closed",
		    flow->name);
	return dfi__open_check_creator(dfi, flow, "finishes it");
}

static int finish(struct dfi *dfi, const struct flow *flow, int64_t deadline)
{
	bool persistent = flow->flags & DFI_FLOW_PERSISTENT;
	char key[KEY_SIZE];
	int ret;

	dfi__flow_finished_key(key, flow);
	ret = dfi__client_create(dfi->registry, key, "", 0,
	    persistent ? CLIENT_SHARED : CLIENT_SHARED | CLIENT_LEASED,
	    deadline, NULL);
	if (ret == -EEXIST)
		return 0;
	return ret < 0 ? dfi__fail_within(ret, "flow '%s'", flow->name) : 0;
}

int dfi_flow_finish(struct dfi *dfi, const char *name)
{
	struct flow flow;
	int64_t deadline;
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = dfi__flow_check_name(name);
	if (ret < 0)
		return ret;
	deadline = context_deadline(dfi, 0);
	ret = dfi__open_get_flow(dfi, name, deadline, &flow);
	if (ret < 0)
		return dfi__error_keep(ret);
	ret = check_finish(dfi, &flow);
	if (!ret)
		ret = finish(dfi, &flow, deadline);
	dfi__flow_free(&flow);
	return dfi__error_keep(ret);
}

/* ---- Owners of partitions ------------------------------------------------ */

static int check_assign(const struct dfi *dfi, const struct flow *flow,
    const uint32_t *owners, uint32_t n)
{
	uint32_t p;

	if (!flow->partitions)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s' has no partitions: only open shuffle flows "
		    "that route by keys have (open.partitions)",
		    flow->name);
	if (owners && n != flow->partitions)
		return dfi__fail(-EINVAL,
		    "flow '%s': %u owners: the flow has %u partitions "
		    "(open.partitions), and each gets one",
		    flow->name, n, flow->partitions);
	for (p = 0; owners && p < n; p++)
		if (owners[p] >= flow->n_targets && owners[p] != DFI_ANY_SEAT)
			return dfi__fail(-ERANGE,
			    "flow '%s': the owner of partition %u is %u: "
			    "targets have seats 0 to %u, and DFI_ANY_SEAT lets "
			    "the library choose",
			    flow->name, p, owners[p], flow->n_targets - 1);
	return dfi__open_check_creator(dfi, flow, "assigns its partitions");
}

/* As the value of the key: the caller frees it. NULL: no memory. */
static uint8_t *encode_owners(const uint32_t *owners, uint32_t n, size_t *size)
{
	uint16_t *seats = malloc(n * sizeof(seats[0]));
	uint8_t *bytes;
	uint32_t p;

	*size = dfi__open_assign_bytes(n);
	bytes = seats ? malloc(*size) : NULL;
	for (p = 0; bytes && p < n; p++)
		seats[p] = owners[p] == DFI_ANY_SEAT ? OPEN_NOBODY
						     : (uint16_t)owners[p];
	if (bytes)
		dfi__open_assign_encode(seats, n, bytes);
	free(seats);
	return bytes;
}

static int assign(struct dfi *dfi, const struct flow *flow,
    const uint32_t *owners, int64_t deadline)
{
	unsigned flags = flow->flags & DFI_FLOW_PERSISTENT ? 0 : CLIENT_LEASED;
	struct open_key open = { .kind = OPEN_KEY_ASSIGN };
	char key[KEY_SIZE];
	uint8_t *bytes;
	size_t size;
	int ret;

	dfi__flow_prefix(key, flow);
	dfi__open_key_write(key + strlen(key), &open);
	if (!owners) {
		ret = dfi__client_delete(dfi->registry, key, 0, deadline);
		return ret == -ENOENT ? 0 : ret;
	}
	bytes = encode_owners(owners, flow->partitions, &size);
	if (!bytes)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	ret = dfi__client_put(
	    dfi->registry, key, bytes, size, flags, deadline, NULL);
	free(bytes);
	return ret < 0 ? dfi__fail_within(ret, "flow '%s'", flow->name) : 0;
}

int dfi_flow_assign(
    struct dfi *dfi, const char *name, const uint32_t *owners, uint32_t n)
{
	struct flow flow;
	int64_t deadline;
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = dfi__flow_check_name(name);
	if (ret < 0)
		return ret;
	deadline = context_deadline(dfi, 0);
	ret = dfi__open_get_flow(dfi, name, deadline, &flow);
	if (ret < 0)
		return dfi__error_keep(ret);
	ret = check_assign(dfi, &flow, owners, n);
	if (!ret)
		ret = assign(dfi, &flow, owners, deadline);
	dfi__flow_free(&flow);
	return dfi__error_keep(ret);
}
