/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of a flow in the registry. Another version of this library, or any
 * process that can write to the registry, may have written it. So this file
 * checks every number that later code relies on.
 */
#include "descriptor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/schema.h"
#include "base/text.h"
#include "base/version.h"
#include "flows/aggregate/plan.h"
#include "flows/open/table.h"
#include "dfi_flow.pb-c.h"

/* Bit for flows with a tree, whose rings are at their combiners. */
#define TREE_LAYOUT 0x100
/* Bit for FOOTER_IN_FRONT. */
#define FRONT_LAYOUT 0x200
/* Bit for open flows, whose rings are at their pairs. */
#define OPEN_LAYOUT 0x400
/* Bit for those whose sources move between rings. */
#define MOVES_LAYOUT 0x800

/* Members that a flow and its message have under the same name. */
/* clang-format off */
#define EACH_COMMON_MEMBER(DO) \
	DO(instance) DO(kind) DO(goal) DO(routing) DO(flags) \
	DO(n_sources) DO(n_targets) DO(radix_shift) DO(radix_bits) \
	DO(segment_size) DO(segment_count) DO(transport) DO(ordered) \
	DO(replication) DO(loss_policy) DO(gap_timeout_us) \
	DO(max_groups) DO(window_tuples) DO(when_full) \
	DO(combining) DO(combining_bytes) DO(fan_in) \
	DO(membership) DO(min_sources) DO(min_targets) DO(on_loss) \
	DO(evict_after_ms) DO(partitions) DO(hold_bytes) \
	DO(input_position) DO(return_timeout_ms) DO(pair_segments)
/* clang-format on */

/* It also depends on the header that segments have. */
static uint32_t ring_layout_of(const struct flow *flow)
{
	return RING_LAYOUT + dfi__flow_segment_parts(flow) +
	    (flow->fan_in ? TREE_LAYOUT : 0) +
	    (flow->membership ? OPEN_LAYOUT : 0) +
	    (flow_moves(flow) ? MOVES_LAYOUT : 0) +
	    (flow->footer_side == FOOTER_IN_FRONT ? FRONT_LAYOUT : 0);
}

/*
 * Allocate an array of pointers to messages and the messages behind it, in one
 * block. They are many, and the stack may be small. NULL: no memory.
 */
static void *new_messages(size_t n, size_t size)
{
	return calloc(n ? n : 1, sizeof(void *) + size);
}

static bool fields_to_message(
    const struct dfi_schema *schema, DfiFlow__Flow *message)
{
	DfiFlow__Field **pointers = new_messages(
	    schema->n_fields, sizeof(**pointers));
	const struct dfi_field *field = schema->fields;
	DfiFlow__Field *to;
	uint32_t i;

	if (!pointers)
		return false;
	message->n_fields = schema->n_fields;
	message->fields = pointers;
	to = (void *)(pointers + schema->n_fields);
	for (i = 0; i < schema->n_fields; i++, field++) {
		dfi_flow__field__init(to);
		to->name = (char *)field->name;
		to->type_name = field->type_name ? (char *)field->type_name
						 : "";
		to->type = field->type;
		to->offset = field->offset;
		to->size = field->size;
		pointers[i] = to++;
	}
	return true;
}

static bool aggregates_to_message(
    const struct flow *flow, DfiFlow__Flow *message)
{
	DfiFlow__Aggregate **pointers = new_messages(
	    flow->n_aggregates, sizeof(**pointers));
	const struct dfi_aggregate *aggregate = flow->aggregates;
	DfiFlow__Aggregate *to;
	uint32_t i;

	if (!pointers)
		return false;
	message->n_aggregates = flow->n_aggregates;
	message->aggregates = pointers;
	to = (void *)(pointers + flow->n_aggregates);
	for (i = 0; i < flow->n_aggregates; i++, aggregate++) {
		dfi_flow__aggregate__init(to);
		to->function = aggregate->function;
		to->flags = aggregate->flags;
		if (aggregate->field)
			to->field = (char *)aggregate->field;
		if (aggregate->name)
			to->name = (char *)aggregate->name;
		pointers[i] = to++;
	}
	return true;
}

void *dfi__flow_encode(const struct flow *flow, size_t *size)
{
	DfiFlow__Flow message;
	DfiFlow__Node creator;
	void *data = NULL;

	dfi_flow__flow__init(&message);
#define COPY(member) message.member = flow->member;
	EACH_COMMON_MEMBER(COPY)
#undef COPY
	message.tuple_size = flow->schema->tuple_size;
	message.n_keys = flow->n_keys;
	message.keys = (uint32_t *)flow->keys;
	message.n_splits = flow->splits ? dfi__flow_ways(flow) - 1 : 0;
	message.splits = flow->splits;
	message.checksums = flow->verify == DFI_VERIFY_CHECKSUM;
	message.multicast_address = (char *)flow->multicast_address;
	if (flow->spill_dir)
		message.spill_dir = flow->spill_dir;
	message.layout = ring_layout_of(flow);
	dfi__node_to_message(&flow->creator, &creator);
	message.creator = &creator;
	if (fields_to_message(flow->schema, &message) &&
	    aggregates_to_message(flow, &message))
		data = dfi__message_pack(&message.base, size);
	free(message.aggregates);
	free(message.fields);
	return data;
}

static struct dfi_aggregate *aggregates_from_message(
    const DfiFlow__Flow *message)
{
	struct dfi_aggregate *aggregates = calloc(
	    message->n_aggregates, sizeof(*aggregates));
	struct dfi_aggregate *copy = NULL;
	const DfiFlow__Aggregate *from;
	size_t i;

	for (i = 0; aggregates && i < message->n_aggregates; i++) {
		from = message->aggregates[i];
		aggregates[i] = (struct dfi_aggregate){
			.function = from->function,
			.flags = from->flags,
			.field = *from->field ? from->field : NULL,
			.name = *from->name ? from->name : NULL,
		};
	}
	if (aggregates)
		copy = dfi__aggregates_copy(
		    aggregates, (uint32_t)message->n_aggregates);
	free(aggregates);
	return copy;
}

static void fields_from_message(
    const DfiFlow__Flow *message, struct dfi_field *fields)
{
	const DfiFlow__Field *from;
	size_t i;

	for (i = 0; i < message->n_fields; i++) {
		from = message->fields[i];
		fields[i] = (struct dfi_field){
			.name = from->name,
			.type_name = *from->type_name ? from->type_name : NULL,
			.type = from->type,
			.offset = from->offset,
			.size = from->size,
		};
	}
}

/* 0, -EBADMSG or -ENOMEM. */
static int schema_from_message(
    const DfiFlow__Flow *message, struct dfi_schema **copy)
{
	struct dfi_field *fields;
	struct dfi_schema schema = {
		.n_fields = (uint32_t)message->n_fields,
		.tuple_size = message->tuple_size,
	};
	int ret = 0;

	if (message->n_fields > DFI_MAX_FIELDS)
		return -EBADMSG;
	fields = calloc(message->n_fields + 1, sizeof(*fields));
	if (!fields)
		return -ENOMEM;
	fields_from_message(message, fields);
	schema.fields = fields;
	if (dfi__schema_check(&schema) < 0) {
		ret = -EBADMSG;
	} else {
		*copy = dfi__schema_copy(&schema);
		ret = *copy ? 0 : -ENOMEM;
	}
	free(fields);
	return ret;
}

static bool partitions_are_sane(const struct flow *flow)
{
	if (!flow_is_partitioned(flow))
		return !flow->partitions && !flow->hold_bytes;
	return flow->partitions && flow->partitions <= DFI_MAX_PARTITIONS &&
	    (!flow->hold_bytes ||
		flow->hold_bytes >= flow->schema->tuple_size) &&
	    dfi__open_table_bytes(flow->partitions, flow->n_targets) <=
	    TABLE_MAX_BYTES;
}

/* What dfi__open_declare() accepts. */
static bool replay_is_sane(const struct flow *flow)
{
	uint32_t field = flow->input_position;

	if (flow->on_loss != DFI_ON_LOSS_REPLAY)
		return flow->on_loss <= DFI_ON_LOSS_DROP && !field &&
		    !flow->return_timeout_ms && !flow->spill_dir;
	return flow->kind == DFI_SHUFFLE &&
	    flow->partitions <= DFI_MAX_REPLAY_PARTITIONS && field &&
	    field <= flow->schema->n_fields &&
	    flow->schema->fields[field - 1].type == DFI_UINT64;
}

static bool membership_is_sane(const struct flow *flow)
{
	if (flow->membership == DFI_MEMBERS_CLOSED)
		return !flow->min_sources && !flow->min_targets &&
		    !flow->on_loss && !flow->evict_after_ms &&
		    !flow->partitions && !flow->hold_bytes &&
		    !flow->input_position && !flow->return_timeout_ms &&
		    !flow->spill_dir;
	if (flow->membership != DFI_MEMBERS_OPEN ||
	    flow->min_targets > flow->n_targets ||
	    flow->min_sources > flow->n_sources || !replay_is_sane(flow))
		return false;
	if (!partitions_are_sane(flow) ||
	    (flow->evict_after_ms && flow->on_loss == DFI_ON_LOSS_FAIL))
		return false;
	if (flow->kind == DFI_REPLICATE)
		return (flow_moves(flow)
			       ? flow->pair_segments >= 2
			       : flow->replication == DFI_REPLICATION_NAIVE ||
				   flow_is_multicast(flow)) &&
		    flow->pair_segments <= flow->segment_count &&
		    flow->segment_count >= 2 &&
		    (!flow->ordered ||
			(flow->on_loss != DFI_ON_LOSS_REPLAY &&
			    !flow_is_multicast(flow)));
	if (flow->kind == DFI_COMBINE)
		return flow->window_tuples == DFI_WINDOW_MARKED &&
		    !flow->fan_in && flow->min_targets == flow->n_targets;
	return flow->kind == DFI_SHUFFLE;
}

/* Radix and range routing load one integer, whatever the key's type. */
static bool routing_is_sane(const struct flow *flow)
{
	if (flow->routing != DFI_ROUTE_RADIX &&
	    flow->routing != DFI_ROUTE_RANGE)
		return flow->routing <=
		    (flow->membership ? DFI_ROUTE_ANY : DFI_ROUTE_DIRECT);
	return flow->n_keys == 1 &&
	    dfi__type_is_integer(flow->schema->fields[flow->keys[0]].type) &&
	    (flow->routing == DFI_ROUTE_RADIX || flow->splits ||
		dfi__flow_ways(flow) == 1);
}

static bool groups_are_sane(const struct flow *flow)
{
	return (flow->routing == DFI_ROUTE_FUNCTION ||
		   flow->routing == DFI_ROUTE_DIRECT) &&
	    flow->n_targets <= DFI_MAX_SET_TARGETS;
}

static bool replication_is_sane(const struct flow *flow)
{
	if (flow->loss_policy > DFI_LOSS_NOTIFY || !flow->gap_timeout_us ||
	    flow->gap_timeout_us > DFI_MAX_GAP_TIMEOUT_US)
		return false;
	if (flow_is_multicast(flow))
		return flow->multicast_address[0] != '\0';
	return flow->replication == DFI_REPLICATION_NAIVE ||
	    flow_has_shared_ring(flow) || flow_moves(flow);
}

/* Making the plan checks the rest. */
static bool combiner_is_sane(const struct flow *flow)
{
	return flow->n_aggregates && flow->max_groups &&
	    flow->max_groups <= DFI_MAX_GROUPS &&
	    flow->when_full <= DFI_FULL_EMIT && !flow->routing &&
	    !flow->splits && !flow->replication && !flow->ordered &&
	    !flow->loss_policy && !flow->gap_timeout_us &&
	    (flow->n_keys || flow->n_targets == 1) && flow->combining &&
	    flow->combining <= DFI_COMBINING_ALWAYS && flow->fan_in != 1 &&
	    flow->fan_in <= DFI_MAX_ENDPOINTS &&
	    flow->combining_bytes <= DFI_MAX_COMBINING_BYTES &&
	    (flow->goal == DFI_BANDWIDTH || !dfi__flow_combines(flow));
}

static bool replicate_is_sane(const struct flow *flow)
{
	return replication_is_sane(flow) &&
	    (!flow->routing || groups_are_sane(flow)) && !flow->n_keys &&
	    !flow->splits;
}

static bool shuffle_is_sane(const struct flow *flow)
{
	return !flow->replication && !flow->ordered && !flow->loss_policy &&
	    !flow->gap_timeout_us && flow->n_keys >= 1 && routing_is_sane(flow);
}

static const struct kind_rules kinds[] = {
	[DFI_SHUFFLE] = { .routes = true, .is_sane = shuffle_is_sane },
	[DFI_REPLICATE] = { .is_sane = replicate_is_sane },
	[DFI_COMBINE] = { .aggregates = true, .is_sane = combiner_is_sane },
};

const struct kind_rules *dfi__kind_rules(uint32_t kind)
{
	return kind < sizeof(kinds) / sizeof(kinds[0]) && kinds[kind].is_sane
	    ? &kinds[kind]
	    : NULL;
}

static bool kind_is_sane(const struct flow *flow)
{
	const struct kind_rules *rules = dfi__kind_rules(flow->kind);

	if (!rules)
		return false;
	if (!rules->aggregates &&
	    (flow->n_aggregates || flow->max_groups || flow->window_tuples ||
		flow->when_full || flow->combining || flow->fan_in ||
		flow->combining_bytes))
		return false;
	if (flow->multicast_address[0] && !flow_is_multicast(flow))
		return false;
	return rules->is_sane(flow);
}

/*
 * Check what sources and targets rely on. The flow's creator checks the rest.
 */
static bool flow_is_sane(const struct flow *flow)
{
	uint32_t i;

	for (i = 0; i < flow->n_keys; i++)
		if (flow->keys[i] >= flow->schema->n_fields)
			return false;
	return kind_is_sane(flow) && membership_is_sane(flow) &&
	    flow->goal <= DFI_LATENCY && flow->n_sources >= 1 &&
	    flow->n_sources <= DFI_MAX_ENDPOINTS && flow->n_targets >= 1 &&
	    flow->n_targets <= DFI_MAX_ENDPOINTS &&
	    flow->segment_size >= flow->schema->tuple_size &&
	    flow->segment_size <= DFI_MAX_SEGMENT_SIZE &&
	    flow->segment_count >= 1 &&
	    flow->segment_count <= DFI_MAX_SEGMENT_COUNT &&
	    flow->radix_shift < 64 && flow->radix_bits <= 32 &&
	    flow->transport <= DFI_TRANSPORT_OFI;
}

static int splits_from_message(const DfiFlow__Flow *message, struct flow *flow)
{
	size_t size = message->n_splits * sizeof(flow->splits[0]);

	if (!message->n_splits)
		return 0;
	if (message->n_splits != (size_t)dfi__flow_ways(flow) - 1)
		return -EBADMSG;
	flow->splits = malloc(size);
	if (!flow->splits)
		return -ENOMEM;
	memcpy(flow->splits, message->splits, size);
	return 0;
}

/* Decode the members that are not common to message and flow. */
static int parts_from_message(const DfiFlow__Flow *message, struct flow *flow)
{
	int ret;

	if (strlen(message->multicast_address) >=
		sizeof(flow->multicast_address) ||
	    !dfi__text_is_plain(message->multicast_address) ||
	    strlen(message->spill_dir) > DFI_MAX_SPILL_DIR ||
	    !dfi__node_from_message(message->creator, &flow->creator) ||
	    message->n_keys > DFI_MAX_KEYS ||
	    message->n_aggregates > DFI_MAX_AGGREGATES)
		return -EBADMSG;
	strcpy(flow->multicast_address, message->multicast_address);
	flow->n_keys = (uint32_t)message->n_keys;
	if (message->n_keys)
		memcpy(flow->keys, message->keys,
		    message->n_keys * sizeof(flow->keys[0]));
	ret = schema_from_message(message, &flow->schema);
	if (ret < 0)
		return ret;
	flow->n_aggregates = (uint32_t)message->n_aggregates;
	if (message->n_aggregates) {
		flow->aggregates = aggregates_from_message(message);
		if (!flow->aggregates)
			return -ENOMEM;
	}
	ret = splits_from_message(message, flow);
	if (ret < 0)
		return ret;
	if (message->spill_dir[0]) {
		flow->spill_dir = strdup(message->spill_dir);
		if (!flow->spill_dir)
			return -ENOMEM;
	}
	return flow_is_sane(flow) ? 0 : -EBADMSG;
}

static int fail_layout(const DfiFlow__Flow *message, struct flow *flow)
{
	uint32_t theirs = message->layout, ours = ring_layout_of(flow);

	if (!message->creator ||
	    !dfi__node_from_message(message->creator, &flow->creator))
		return dfi__fail(-EBADMSG,
		    "registry: the entry of flow '%s' is damaged", flow->name);
	return dfi__fail(-EPROTO,
	    "flow '%s' has rings of layout %u, as node %s (host %s, pid %u) "
	    "created it, and this process knows layout %u: %s",
	    flow->name, theirs, flow->creator.name, flow->creator.host,
	    flow->creator.pid, ours, version_remedy(theirs, ours));
}

int dfi__flow_decode(
    const char *name, const void *data, size_t size, struct flow *flow)
{
	DfiFlow__Flow *message = dfi_flow__flow__unpack(NULL, size, data);
	int ret;

	memset(flow, 0, sizeof(*flow));
	if (!message)
		return dfi__fail(-EBADMSG,
		    "registry: the entry of flow '%s' is damaged", name);
	snprintf(flow->name, sizeof(flow->name), "%s", name);
#define COPY(member) flow->member = message->member;
	EACH_COMMON_MEMBER(COPY)
#undef COPY
	flow->verify = message->checksums ? DFI_VERIFY_CHECKSUM
					  : DFI_VERIFY_NONE;
	flow->footer_side = message->layout & FRONT_LAYOUT ? FOOTER_IN_FRONT
							   : FOOTER_BEHIND;
	if (message->layout != ring_layout_of(flow))
		ret = fail_layout(message, flow);
	else {
		ret = parts_from_message(message, flow);
		if (ret < 0)
			dfi__fail(ret,
			    ret == -ENOMEM
				? "flow '%s': out of memory"
				: "registry: the entry of flow '%s' is damaged",
			    name);
	}
	dfi_flow__flow__free_unpacked(message, NULL);
	if (ret < 0)
		dfi__flow_free(flow);
	return ret;
}
