/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows in memory: their names, rings and copies, and the keys of their entries
 * in the registry.
 */
#include "descriptor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/schema.h"
#include "flows/aggregate/plan.h"

int dfi__check_name(const char *what, const char *name)
{
	static const char allowed[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "0123456789._:-";
	size_t length = name ? strnlen(name, DFI_MAX_FLOW_NAME + 1) : 0;

	if (!name)
		return dfi__fail(-EINVAL, "the %s name is NULL", what);
	if (!length || length > DFI_MAX_FLOW_NAME ||
	    strspn(name, allowed) != length)
		return dfi__fail(-EINVAL,
		    "%s name '%.*s': use 1 to %d characters of "
		    "[A-Za-z0-9._:-]",
		    what, DFI_MAX_FLOW_NAME, name, DFI_MAX_FLOW_NAME);
	return 0;
}

int dfi__flow_check_name(const char *name)
{
	return dfi__check_name("flow", name);
}

void dfi__flow_free(struct flow *flow)
{
	free(flow->schema);
	free(flow->spill_dir);
	free(flow->splits);
	free(flow->aggregates);
	free(flow->tuples);
	flow->aggregates = NULL;
	flow->schema = NULL;
	flow->spill_dir = NULL;
	flow->splits = NULL;
	flow->tuples = NULL;
}

int dfi__flow_copy(const struct flow *flow, struct flow *copy)
{
	*copy = *flow;
	copy->spill_dir = NULL;
	copy->splits = NULL;
	copy->tuples = NULL;
	copy->schema = dfi__schema_copy(flow->schema);
	copy->aggregates = dfi__aggregates_copy(
	    flow->aggregates, flow->n_aggregates);
	if (copy->schema && copy->aggregates)
		return 0;
	dfi__flow_free(copy);
	return dfi__fail(-ENOMEM, "flow '%s': out of memory", flow->name);
}

int dfi__flow_pair(const struct flow *flow, uint32_t source, uint32_t target,
    uint64_t pair, uint64_t incarnation, struct flow *part)
{
	*part = *flow;
	part->spill_dir = NULL;
	part->splits = NULL;
	part->tuples = NULL;
	part->aggregates = NULL;
	part->schema = dfi__schema_copy(flow->schema);
	if (flow->n_aggregates)
		part->aggregates = dfi__aggregates_copy(
		    flow->aggregates, flow->n_aggregates);
	if (!part->schema || (flow->n_aggregates && !part->aggregates)) {
		dfi__flow_free(part);
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	}
	if (dfi__flow_combines(flow))
		part->combining_bytes = (flow->combining_bytes
						? flow->combining_bytes
						: DFI_DEFAULT_COMBINING_BYTES) /
		    flow->n_targets;
	part->part.has_sets = dfi__flow_has_groups(flow);
	part->n_sources = part->n_targets = 1;
	part->kind = DFI_SHUFFLE;
	if (flow_moves(flow)) {
		part->part.shared_segments = flow->segment_count;
		part->segment_count = flow->pair_segments;
	}
	/* Its segments may come as datagrams. */
	if (!flow_is_multicast(flow))
		part->replication = part->gap_timeout_us = 0;
	part->routing = DFI_ROUTE_DIRECT;
	part->membership = DFI_MEMBERS_CLOSED;
	part->part.first_source = source;
	part->part.first_target = target;
	part->part.pair = pair;
	part->part.incarnation = incarnation;
	return 0;
}

uint32_t dfi__flow_segment_parts(const struct flow *flow)
{
	return (flow->verify == DFI_VERIFY_CHECKSUM ? SEGMENT_CHECKSUM : 0) |
	    (flow->ordered ? SEGMENT_GLOBAL : 0) |
	    (dfi__flow_has_groups(flow) || flow->part.has_sets ? SEGMENT_TARGETS
							       : 0) |
	    (flow->window_tuples ? SEGMENT_MARK : 0) |
	    (dfi__flow_combines(flow) ? SEGMENT_RECORDS : 0) |
	    (flow->partitions || flow->input_position ? SEGMENT_TABLES : 0) |
	    (flow->input_position ? SEGMENT_INPUTS : 0);
}

static struct ring_geometry geometry_of(
    const struct flow *flow, uint32_t segment_size, uint32_t segment_count)
{
	return ring_geometry_with(flow->schema->tuple_size, segment_size,
	    segment_count, dfi__flow_segment_parts(flow), flow->footer_side);
}

struct ring_geometry dfi__flow_slots_geometry(const struct flow *flow)
{
	return geometry_of(flow, flow->segment_size, flow->segment_count);
}

struct ring_geometry dfi__flow_tuple_geometry(const struct flow *flow)
{
	return geometry_of(flow, flow->schema->tuple_size, 1);
}

struct ring_geometry dfi__flow_geometry(const struct flow *flow)
{
	struct ring_geometry geometry = dfi__flow_slots_geometry(flow);

	return flow_has_shared_ring(flow) ? ring_geometry_apart(geometry)
					  : geometry;
}

bool dfi__node_is_process(const struct node *a, const struct node *b)
{
	return a->pid_space && a->pid == b->pid && a->start == b->start &&
	    a->pid_space == b->pid_space &&
	    dfi__host_distance(&a->at, &b->at) == HOST_SAME;
}

void dfi__node_key(char key[KEY_SIZE], uint64_t id)
{
	snprintf(key, KEY_SIZE, "nodes/%016" PRIx64, id);
}

bool dfi__node_is_at(const struct node *node, const char *key)
{
	char own_key[KEY_SIZE];

	dfi__node_key(own_key, node->id);
	return !strcmp(own_key, key);
}

void dfi__flow_key(char key[KEY_SIZE], const char *name)
{
	snprintf(key, KEY_SIZE, "flows/%s", name);
}

void dfi__endpoint_prefix(
    char key[KEY_SIZE], const struct flow *flow, const char *role)
{
	char part[32] = "";

	if (flow->part.combiner)
		snprintf(part, sizeof(part), "combiners/%u/",
		    flow->part.combiner - 1);
	else if (flow->part.pair)
		snprintf(part, sizeof(part), "pairs/%016" PRIx64 "/",
		    flow->part.pair);
	snprintf(key, KEY_SIZE, "flows/%s/%016" PRIx64 "/%s%ss/", flow->name,
	    flow->instance, part, role);
}

void dfi__flow_prefix(char key[KEY_SIZE], const struct flow *flow)
{
	snprintf(key, KEY_SIZE, "flows/%s/%016" PRIx64 "/", flow->name,
	    flow->instance);
}

void dfi__flow_finished_key(char key[KEY_SIZE], const struct flow *flow)
{
	snprintf(key, KEY_SIZE, "flows/%s/%016" PRIx64 "/finished", flow->name,
	    flow->instance);
}

void dfi__endpoint_key(char key[KEY_SIZE], const struct flow *flow,
    const char *role, uint32_t index)
{
	size_t length;

	dfi__endpoint_prefix(key, flow, role);
	length = strlen(key);
	snprintf(key + length, KEY_SIZE - length, "%u", index);
}

bool dfi__endpoint_index(const char *key, uint32_t *index)
{
	const char *slash = strrchr(key, '/');
	unsigned long number;
	char *end;

	if (!slash || slash[1] < '0' || slash[1] > '9')
		return false;
	number = strtoul(slash + 1, &end, 10);
	if (*end || number > UINT32_MAX)
		return false;
	*index = (uint32_t)number;
	return true;
}
