/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the entries of flows and nodes, for programs such as dfi-info. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/schema.h"
#include "registry/client/client.h"
#include "combine_flow.h"
#include "flows/context/context.h"
#include "flows/descriptor/descriptor.h"
#include "present.h"
#include "tree.h"

static void fill_info(const struct flow *flow, struct dfi_flow_info *info)
{
	const char *field;
	size_t used = 0;
	uint32_t i;

	memset(info, 0, sizeof(*info));
	snprintf(info->name, sizeof(info->name), "%s", flow->name);
	snprintf(info->creator, sizeof(info->creator), "%s (host %s, pid %u)",
	    flow->creator.name, flow->creator.host, flow->creator.pid);
	info->instance = flow->instance;
	info->kind = flow->kind;
	info->goal = flow->goal;
	info->routing = flow->routing;
	info->flags = flow->flags;
	info->n_sources = flow->n_sources;
	info->n_targets = flow->n_targets;
	info->tuple_size = flow->schema->tuple_size;
	info->n_fields = flow->schema->n_fields;
	info->segment_size = flow->segment_size;
	info->segment_count = flow->segment_count;
	info->transport = flow->transport;
	info->verify = flow->verify;
	info->replication = flow->replication;
	info->ordered = flow->ordered;
	info->loss_policy = flow->loss_policy;
	info->gap_timeout_us = flow->gap_timeout_us;
	info->fan_in = flow->fan_in;
	info->n_combiners = dfi__tree_size(flow);
	info->membership = flow->membership;
	info->on_loss = flow->on_loss;
	info->min_sources = flow->min_sources;
	info->min_targets = flow->min_targets;
	info->ring_bytes = dfi__flow_slots_geometry(flow).ring_size;
	dfi__schema_text(flow->schema, info->schema, sizeof(info->schema));
	for (i = 0; i < flow->n_keys; i++) {
		field = flow->schema->fields[flow->keys[i]].name;
		if (used + strlen(field) + 2 > sizeof(info->key))
			break;
		used += (size_t)snprintf(info->key + used,
		    sizeof(info->key) - used, "%s%s", i ? "," : "", field);
	}
}

static void add_way(const char *role, const struct registry_value *value,
    struct dfi_flow_info *info)
{
	size_t used = strlen(info->devices);
	struct endpoint endpoint;
	uint32_t index;

	if (dfi__endpoint_decode(value->data, value->size, &endpoint) < 0 ||
	    !endpoint.device[0] || !dfi__endpoint_index(value->key, &index))
		return;
	snprintf(info->devices + used, sizeof(info->devices) - used,
	    "%s%s %u: %s", used ? "; " : "", role, index, endpoint.device);
}

/* The endpoints of a flow that have an entry. */
struct attached {
	struct present sources, targets, combiners;
};

/* Count an entry of a combiner: its own, or that of one of its inputs. */
static void count_in_tree(const struct flow *flow,
    const struct registry_value *value, const char *number,
    struct attached *attached, struct dfi_flow_info *info)
{
	char *end;
	unsigned long combiner = strtoul(number, &end, 10);
	uint32_t input;

	if (!strncmp(end, "/targets/", strlen("/targets/"))) {
		info->attached_combiners++;
		present_set(&attached->combiners, combiner);
		add_way("combiner", value, info);
	} else if (combiner < dfi__tree_size(flow) &&
	    dfi__tree_takes_sources(flow, (uint32_t)combiner)) {
		info->attached_sources++;
		if (dfi__endpoint_index(value->key, &input))
			present_set(&attached->sources,
			    combiner * flow->fan_in + input);
		add_way("source", value, info);
	}
}

static void add_present(struct present *present, const char *key)
{
	uint32_t index;

	if (dfi__endpoint_index(key, &index))
		present_set(present, index);
}

/* Count the flow's endpoint entries among values. */
static void count_endpoints(const struct flow *flow,
    const struct registry_value *values, size_t n, struct dfi_flow_info *info)
{
	char sources[KEY_SIZE], targets[KEY_SIZE], combiners[KEY_SIZE];
	struct attached attached = { 0 };
	char finished[KEY_SIZE];
	const char *key;
	size_t i;

	dfi__flow_finished_key(finished, flow);
	dfi__endpoint_prefix(sources, flow, "source");
	dfi__endpoint_prefix(targets, flow, "target");
	dfi__endpoint_prefix(combiners, flow, "combiner");
	for (i = 0; i < n; i++) {
		key = values[i].key;
		if (flow->membership && !strcmp(key, finished))
			info->finished = 1;
		if (!strncmp(key, targets, strlen(targets))) {
			info->attached_targets++;
			add_present(&attached.targets, key);
			add_way("target", &values[i], info);
		} else if (flow->fan_in &&
		    !strncmp(key, combiners, strlen(combiners))) {
			count_in_tree(flow, &values[i], key + strlen(combiners),
			    &attached, info);
		} else if (!flow->fan_in &&
		    !strncmp(key, sources, strlen(sources))) {
			info->attached_sources++;
			add_present(&attached.sources, key);
			add_way("source", &values[i], info);
		}
	}
	dfi__present_list(attached.sources.bits, flow->n_sources, false,
	    info->missing_sources, sizeof(info->missing_sources));
	dfi__present_list(attached.targets.bits, flow->n_targets, false,
	    info->missing_targets, sizeof(info->missing_targets));
	dfi__present_list(attached.combiners.bits, dfi__tree_size(flow), false,
	    info->missing_combiners, sizeof(info->missing_combiners));
}

/* The flow's name if the key is a flow's descriptor, else NULL. */
static const char *flow_name(const char *key)
{
	const char *name = key + strlen("flows/");

	return strchr(name, '/') ? NULL : name;
}

/* Decode the flow whose descriptor is one of these values. */
static int decode_from(const struct registry_value *values, size_t n,
    const char *key, const char *name, struct flow *flow)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(values[i].key, key))
			return dfi__flow_decode(
			    name, values[i].data, values[i].size, flow);
	return dfi__fail(-ENOENT, "flow '%s' doesn't exist", name);
}

int dfi_flow_lookup(
    struct dfi *dfi, const char *name, struct dfi_flow_info *info)
{
	struct registry_value *values;
	char key[KEY_SIZE];
	struct flow flow;
	size_t n;
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = dfi__flow_check_name(name);
	if (!ret && !info)
		ret = dfi__fail(-EINVAL, "dfi_flow_lookup: info is NULL");
	if (ret < 0)
		return ret;
	dfi__flow_key(key, name);
	ret = dfi__client_list(
	    dfi->registry, key, context_deadline(dfi, 0), &values, &n);
	if (ret < 0)
		return ret;
	ret = decode_from(values, n, key, name, &flow);
	if (!ret) {
		fill_info(&flow, info);
		count_endpoints(&flow, values, n, info);
		dfi__flow_free(&flow);
	}
	dfi__registry_values_free(values, n);
	return ret;
}

/* Read the descriptor of a flow. The caller frees it. */
static int get_flow(struct dfi *dfi, const char *name, struct flow *flow)
{
	struct registry_value *values;
	char key[KEY_SIZE];
	size_t n;
	int ret;

	dfi__flow_key(key, name);
	ret = dfi__client_list(
	    dfi->registry, key, context_deadline(dfi, 0), &values, &n);
	if (ret < 0)
		return ret;
	ret = decode_from(values, n, key, name, flow);
	dfi__registry_values_free(values, n);
	return ret;
}

static int copy_results(const struct flow *flow, struct dfi_schema **schema)
{
	struct plan *plan;
	int ret;

	if (flow->kind != DFI_COMBINE)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s' is not of kind DFI_COMBINE: it has no results",
		    flow->name);
	ret = dfi__combine_check(flow);
	if (!ret)
		ret = dfi__combine_plan(flow, &plan);
	if (ret < 0)
		return ret;
	*schema = dfi__schema_copy(plan->schema);
	dfi__plan_free(plan);
	return *schema
	    ? 0
	    : dfi__fail(-ENOMEM, "flow '%s': out of memory", flow->name);
}

int dfi_flow_result_schema(
    struct dfi *dfi, const char *name, struct dfi_schema **schema)
{
	struct flow flow;
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = dfi__flow_check_name(name);
	if (!ret && !schema)
		ret = dfi__fail(
		    -EINVAL, "dfi_flow_result_schema: schema is NULL");
	if (!ret)
		ret = get_flow(dfi, name, &flow);
	if (ret < 0)
		return ret;
	ret = copy_results(&flow, schema);
	dfi__flow_free(&flow);
	return ret;
}

/* info is reused for each flow: the stack may be small. */
static int list_flows(const struct registry_value *values, size_t n,
    struct dfi_flow_info *info,
    int (*fn)(void *arg, const struct dfi_flow_info *info), void *arg)
{
	struct flow flow;
	const char *name;
	int ret = 0;
	size_t i;

	for (i = 0; !ret && i < n; i++) {
		name = flow_name(values[i].key);
		if (!name || dfi__flow_check_name(name) < 0)
			continue;
		if (dfi__flow_decode(
			name, values[i].data, values[i].size, &flow) < 0) {
			dfi__log(DFI_LOG_WARN, "not listed: %s", dfi_errmsg());
			continue;
		}
		fill_info(&flow, info);
		count_endpoints(&flow, values, n, info);
		dfi__flow_free(&flow);
		ret = fn(arg, info);
	}
	return ret;
}

int dfi_flow_list(struct dfi *dfi,
    int (*fn)(void *arg, const struct dfi_flow_info *info), void *arg)
{
	struct registry_value *values;
	struct dfi_flow_info *info;
	size_t n;
	CONTEXT_USE(dfi, ret);

	if (!ret && !fn)
		ret = dfi__fail(-EINVAL, "dfi_flow_list: fn is NULL");
	if (ret < 0)
		return ret;
	info = malloc(sizeof(*info));
	if (!info)
		return dfi__fail(-ENOMEM, "dfi_flow_list: out of memory");
	ret = dfi__client_list(
	    dfi->registry, "flows/", context_deadline(dfi, 0), &values, &n);
	if (!ret) {
		ret = list_flows(values, n, info, fn, arg);
		dfi__registry_values_free(values, n);
	}
	free(info);
	return ret;
}

static void count_node(
    const struct registry_value *values, size_t n, struct dfi_node_info *info)
{
	struct endpoint endpoint;
	size_t i;

	for (i = 0; i < n; i++) {
		if (flow_name(values[i].key) ||
		    strstr(values[i].key, "/pairs/") ||
		    dfi__endpoint_decode(
			values[i].data, values[i].size, &endpoint) < 0 ||
		    endpoint.node.id != info->id)
			continue;
		if (strstr(values[i].key, "/sources/"))
			info->n_sources++;
		else
			info->n_targets++;
	}
}

void dfi__node_info(uint64_t own, const struct node *node,
    const struct node_entries *entries, struct dfi_node_info *info)
{
	memset(info, 0, sizeof(*info));
	memcpy(info->name, node->name, sizeof(info->name));
	memcpy(info->host, node->host, sizeof(info->host));
	info->id = node->id;
	info->pid = node->pid;
	info->is_own = node->id == own;
	count_node(entries->flows, entries->n_flows, info);
}

int dfi__node_entries(struct dfi *dfi, struct node_entries *entries)
{
	int64_t deadline = context_deadline(dfi, 0);
	int ret = dfi__client_list(dfi->registry, "nodes/", deadline,
	    &entries->nodes, &entries->n_nodes);

	if (ret < 0)
		return ret;
	ret = dfi__client_list(dfi->registry, "flows/", deadline,
	    &entries->flows, &entries->n_flows);
	if (ret < 0)
		dfi__registry_values_free(entries->nodes, entries->n_nodes);
	return ret;
}

void dfi__node_entries_free(struct node_entries *entries)
{
	dfi__registry_values_free(entries->nodes, entries->n_nodes);
	dfi__registry_values_free(entries->flows, entries->n_flows);
}

static int list_nodes(uint64_t own, const struct node_entries *entries,
    int (*fn)(void *arg, const struct dfi_node_info *info), void *arg)
{
	struct dfi_node_info info;
	struct node node;
	size_t i;
	int ret = 0;

	for (i = 0; !ret && i < entries->n_nodes; i++) {
		if (dfi__node_decode(entries->nodes[i].data,
			entries->nodes[i].size, &node, NULL) < 0 ||
		    !dfi__node_is_at(&node, entries->nodes[i].key))
			continue;
		dfi__node_info(own, &node, entries, &info);
		ret = fn(arg, &info);
	}
	return ret;
}

int dfi_node_list(struct dfi *dfi,
    int (*fn)(void *arg, const struct dfi_node_info *info), void *arg)
{
	struct node_entries entries;
	CONTEXT_USE(dfi, ret);

	if (!ret && !fn)
		ret = dfi__fail(-EINVAL, "dfi_node_list: fn is NULL");
	if (ret < 0)
		return ret;
	ret = dfi__node_entries(dfi, &entries);
	if (ret < 0)
		return ret;
	ret = list_nodes(dfi->node.id, &entries, fn, arg);
	dfi__node_entries_free(&entries);
	return ret;
}
