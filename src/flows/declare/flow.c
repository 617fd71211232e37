/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares flows: checks the declaration, chooses the geometry, publishes the
 * descriptor. A flow takes no memory until its endpoints open.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/attr.h"
#include "base/bits.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/schema.h"
#include "registry/client/client.h"
#include "multicast_flow.h"
#include "combine_flow.h"
#include "flows/context/context.h"
#include "declare.h"
#include "flows/descriptor/descriptor.h"
#include "geometry.h"
#include "open_flow.h"
#include "flows/context/network.h"
#include "transport/transports.h"
#include "route.h"

/* Only flows that can lose segments may notify of losses. */
static int check_loss(const char *name, const struct dfi_flow_attr *attr)
{
	if (attr->kind != DFI_REPLICATE &&
	    (attr->replicate.loss_policy || attr->replicate.gap_timeout_us))
		return dfi__fail(-EINVAL,
		    "flow '%s': %s is for flows of kind DFI_REPLICATE: others "
		    "lose nothing",
		    name,
		    attr->replicate.loss_policy ? "replicate.loss_policy"
						: "replicate.gap_timeout_us");
	if (attr->replicate.loss_policy > DFI_LOSS_NOTIFY)
		return dfi__fail(-EINVAL,
		    "flow '%s': replicate.loss_policy %u is no enum "
		    "dfi_loss_policy",
		    name, attr->replicate.loss_policy);
	if (attr->replicate.gap_timeout_us > DFI_MAX_GAP_TIMEOUT_US)
		return dfi__fail(-EINVAL,
		    "flow '%s': replicate.gap_timeout_us %u is more than %u",
		    name, attr->replicate.gap_timeout_us,
		    DFI_MAX_GAP_TIMEOUT_US);
	if (attr->replicate.loss_policy == DFI_LOSS_NOTIFY &&
	    (attr->replicate.method == DFI_REPLICATION_NAIVE ||
		attr->transport == DFI_TRANSPORT_SHM))
		return dfi__fail(-EINVAL,
		    "flow '%s': replicate.loss_policy DFI_LOSS_NOTIFY: %s "
		    "loses "
		    "nothing: leave replicate.loss_policy 0",
		    name,
		    attr->transport == DFI_TRANSPORT_SHM
			? "transport DFI_TRANSPORT_SHM"
			: "replicate.method DFI_REPLICATION_NAIVE");
	return 0;
}

static int check_replication(const char *name, const struct dfi_flow_attr *attr)
{
	if (attr->kind != DFI_REPLICATE)
		return attr->replicate.method || attr->replicate.ordered
		    ? dfi__fail(-EINVAL,
			  "flow '%s': %s is for flows of kind DFI_REPLICATE",
			  name,
			  attr->replicate.method ? "replicate.method"
						 : "replicate.ordered")
		    : 0;
	if (dfi__routing_attr(attr))
		return dfi__fail(-EINVAL,
		    "flow '%s': %s is not for flows of kind DFI_REPLICATE: "
		    "each tuple goes to all targets, or, with "
		    "DFI_ROUTE_FUNCTION and DFI_ROUTE_DIRECT, to a set",
		    name, dfi__routing_attr(attr));
	if (attr->routing && attr->n_targets > DFI_MAX_SET_TARGETS)
		return dfi__fail(-EINVAL,
		    "flow '%s': n_targets %u: a replicate flow with routing "
		    "has at most %d",
		    name, attr->n_targets, DFI_MAX_SET_TARGETS);
	if (attr->replicate.method > DFI_REPLICATION_MULTICAST)
		return dfi__fail(-EINVAL,
		    "flow '%s': replicate.method %u is no enum dfi_replication",
		    name, attr->replicate.method);
	if (attr->replicate.ordered > 1)
		return dfi__fail(-EINVAL,
		    "flow '%s': replicate.ordered %u is neither 0 nor 1", name,
		    attr->replicate.ordered);
	return 0;
}

/*
 * The default is multicast if all endpoints share memory, except in an open
 * flow in one order.
 */
static int choose_replication(
    const struct dfi *dfi, const struct dfi_flow_attr *attr, struct flow *flow)
{
	bool may_share = !dfi__network_may_be_needed(dfi, flow);
	uint32_t wanted = attr->replicate.method;

	if (flow->kind != DFI_REPLICATE)
		return 0;
	if (!wanted && attr->open.membership && attr->replicate.ordered)
		wanted = DFI_REPLICATION_NAIVE;
	if (wanted == DFI_REPLICATION_MULTICAST &&
	    dfi__network_choice(dfi, flow) == DFI_TRANSPORT_OFI)
		return dfi__fail(-EOPNOTSUPP,
		    "flow '%s': replicate.method DFI_REPLICATION_MULTICAST "
		    "needs RDMA or shared memory, but its transport is ofi "
		    "(libfabric): leave replicate.method 0",
		    flow->name);
	flow->replication = wanted;
	if (!wanted)
		flow->replication = may_share ? DFI_REPLICATION_MULTICAST
					      : DFI_REPLICATION_NAIVE;
	/*
	 * The choice holds whatever DFI_TRANSPORT is in the endpoints'
	 * processes.
	 */
	if (flow->replication == DFI_REPLICATION_MULTICAST)
		flow->transport = may_share ? DFI_TRANSPORT_SHM
					    : DFI_TRANSPORT_VERBS;
	return 0;
}

static int check_number(const char *name, const char *role, uint32_t n)
{
	if (!n)
		return dfi__fail(-EINVAL,
		    "flow '%s': n_%ss is 0: a flow has 1 to %d %ss", name, role,
		    DFI_MAX_ENDPOINTS, role);
	if (n > DFI_MAX_ENDPOINTS)
		return dfi__fail(-EINVAL,
		    "flow '%s': n_%ss is %u, but a flow has at most %d %ss: "
		    "open fewer, or divide them among several flows",
		    name, role, n, DFI_MAX_ENDPOINTS, role);
	return 0;
}

/* A program for a newer library may set members that are reserved here. */
static int check_reserved(const char *name, const struct dfi_flow_attr *attr)
{
	static const uint64_t none[4];

	if (attr->reserved)
		return dfi__fail(-E2BIG,
		    "flow '%s': dfi_flow_attr.reserved is not 0: set it to 0, "
		    "or use a newer library that knows the member",
		    name);
	if (memcmp(attr->replicate.reserved, none, sizeof(none)) == 0 &&
	    memcmp(attr->combine.reserved, none, sizeof(none)) == 0)
		return 0;
	return dfi__fail(-E2BIG,
	    "flow '%s': dfi_flow_attr.%s.reserved is not 0: set it to 0, or "
	    "use a newer library that knows the member",
	    name,
	    memcmp(attr->combine.reserved, none, sizeof(none)) == 0
		? "replicate"
		: "combine");
}

static int check_attr(const char *name, const struct dfi_flow_attr *attr)
{
	int ret;

	if (!dfi__kind_rules(attr->kind))
		return dfi__fail(-EINVAL,
		    "flow '%s': kind %u is no enum dfi_flow_kind", name,
		    attr->kind);
	ret = check_number(name, "source", attr->n_sources);
	if (!ret)
		ret = check_number(name, "target", attr->n_targets);
	if (ret < 0)
		return ret;
	if (attr->goal > DFI_LATENCY)
		return dfi__fail(-EINVAL,
		    "flow '%s': goal %u is no enum dfi_goal", name, attr->goal);
	if (attr->flags & ~(uint32_t)DFI_FLOW_PERSISTENT)
		return dfi__fail(-EINVAL,
		    "flow '%s': flags %#x are not all known", name,
		    attr->flags);
	if (attr->transport > DFI_TRANSPORT_OFI)
		return dfi__fail(-EINVAL,
		    "flow '%s': transport %u is no enum dfi_transport", name,
		    attr->transport);
	if (attr->verify > DFI_VERIFY_CHECKSUM)
		return dfi__fail(-EINVAL,
		    "flow '%s': verify %u is no enum dfi_verify", name,
		    attr->verify);
	ret = check_reserved(name, attr);
	if (ret < 0)
		return ret;
	ret = check_replication(name, attr);
	if (!ret)
		ret = check_loss(name, attr);
	return ret < 0 ? ret : dfi__schema_check(attr->schema);
}

static int check_geometry(const struct flow *flow)
{
	uint32_t tuple_size = flow->schema->tuple_size;

	if (flow->segment_size < tuple_size)
		return dfi__fail(-EMSGSIZE,
		    "flow '%s': a tuple of %u bytes doesn't fit a segment of "
		    "%u: raise segment_size",
		    flow->name, tuple_size, flow->segment_size);
	if (flow->segment_size > DFI_MAX_SEGMENT_SIZE)
		return dfi__fail(-EINVAL,
		    "flow '%s': segment_size %u is more than %u", flow->name,
		    flow->segment_size, DFI_MAX_SEGMENT_SIZE);
	if (flow->segment_count > DFI_MAX_SEGMENT_COUNT)
		return dfi__fail(-EINVAL,
		    "flow '%s': segment_count %u is more than %u", flow->name,
		    flow->segment_count, DFI_MAX_SEGMENT_COUNT);
	if (flow->goal == DFI_LATENCY && flow->segment_size != tuple_size)
		return dfi__fail(-EINVAL,
		    "flow '%s': segment_size %u: a latency flow's segment "
		    "holds one tuple; leave it 0",
		    flow->name, flow->segment_size);
	return 0;
}

static int copy_attr(struct flow *flow, const struct dfi_flow_attr *attr)
{
	size_t splits_size;
	uint32_t n_splits;

	flow->kind = attr->kind;
	flow->goal = attr->goal;
	flow->routing = attr->routing;
	flow->flags = attr->flags;
	flow->n_sources = attr->n_sources;
	flow->n_targets = attr->n_targets;
	flow->radix_shift = attr->radix_shift;
	flow->radix_bits = attr->radix_bits;
	flow->segment_size = attr->segment_size;
	flow->segment_count = attr->segment_count;
	flow->footer_side = dfi__footer_side;
	flow->transport = attr->transport;
	flow->ordered = attr->replicate.ordered;
	flow->loss_policy = attr->replicate.loss_policy;
	flow->gap_timeout_us = attr->replicate.gap_timeout_us;
	if (flow->kind == DFI_REPLICATE && !flow->gap_timeout_us)
		flow->gap_timeout_us = DFI_DEFAULT_GAP_TIMEOUT_US;
	flow->schema = dfi__schema_copy(attr->schema);
	if (!flow->schema)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	n_splits = dfi__open_ways(attr) - 1;
	if (!attr->splits || attr->routing != DFI_ROUTE_RANGE || !n_splits)
		return 0;
	splits_size = n_splits * sizeof(flow->splits[0]);
	flow->splits = malloc(splits_size);
	if (!flow->splits)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	memcpy(flow->splits, attr->splits, splits_size);
	return 0;
}

static int publish(struct dfi *dfi, const struct flow *flow)
{
	unsigned flags = CLIENT_SHARED;
	char key[KEY_SIZE];
	size_t size;
	void *data;
	int ret;

	if (!(flow->flags & DFI_FLOW_PERSISTENT))
		flags |= CLIENT_LEASED;
	data = dfi__flow_encode(flow, &size);
	if (!data)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	dfi__flow_key(key, flow->name);
	ret = dfi__client_create(dfi->registry, key, data, size, flags,
	    context_deadline(dfi, 0), NULL);
	free(data);
	if (ret == -EEXIST)
		dfi__fail(-EEXIST,
		    "flow '%s' exists already: remove it first, or choose "
		    "another name",
		    flow->name);
	else if (ret < 0)
		dfi__fail_within(ret, "flow '%s'", flow->name);
	return ret;
}

int dfi__flow_declare(struct dfi *dfi, const char *name,
    const struct dfi_flow_attr *user, struct flow *flow)
{
	struct dfi_flow_attr attr;
	uint32_t largest;
	int ret;

	memset(flow, 0, sizeof(*flow));
	if (!user)
		return dfi__fail(-EINVAL,
		    "flow '%s': attr is NULL: kind, schema, n_sources and "
		    "n_targets must be given",
		    name);
	ret = dfi__attr_load(&attr, sizeof(attr), user, "dfi_flow_attr");
	if (!ret)
		ret = check_attr(name, &attr);
	if (ret < 0)
		return ret;
	snprintf(flow->name, sizeof(flow->name), "%s", name);
	flow->creator = dfi->node;
	flow->verify = attr.verify ? attr.verify : dfi->settings.verify;
	ret = copy_attr(flow, &attr);
	if (!ret)
		ret = choose_replication(dfi, &attr, flow);
	if (!ret)
		ret = dfi__combine_declare(flow, &attr);
	if (!ret)
		ret = dfi__multicast_flow_declare(dfi, &attr, flow, &largest);
	if (!ret)
		ret = dfi__open_declare(dfi, flow, &attr);
	if (!ret && dfi__kind_rules(flow->kind)->routes)
		ret = dfi__route_declare(flow, attr.key);
	if (!ret) {
		dfi__geometry_choose(dfi, flow, largest);
		if (flow_moves(flow))
			flow->pair_segments = attr.segment_count
			    ? flow->segment_count
			    : dfi__geometry_pair_segments(flow->segment_count);
		ret = check_geometry(flow);
	}
	if (!ret && flow_is_multicast(flow))
		ret = dfi__multicast_flow_check(flow, largest);
	if (!ret)
		ret = dfi__combine_choose(flow, attr.combine.source_combining);
	if (ret < 0)
		dfi__flow_free(flow);
	return ret;
}

int dfi_flow_create(
    struct dfi *dfi, const char *name, const struct dfi_flow_attr *attr)
{
	struct flow flow;
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = dfi__flow_check_name(name);
	if (ret < 0)
		return ret;
	ret = dfi__flow_declare(dfi, name, attr, &flow);
	if (ret < 0)
		return dfi__error_keep(ret);
	if (getrandom(&flow.instance, sizeof(flow.instance), 0) !=
	    sizeof(flow.instance))
		ret = dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	else
		ret = publish(dfi, &flow);
	dfi__flow_free(&flow);
	return dfi__error_keep(ret);
}

void dfi__flow_forget_tables(
    struct dfi *dfi, const char *name, int64_t deadline)
{
	struct registry_value *values;
	char prefix[KEY_SIZE];
	bool used = false;
	size_t n, i;

	dfi__flow_key(prefix, name);
	strcat(prefix, "/");
	if (dfi__client_list(dfi->registry, prefix, deadline, &values, &n) < 0)
		return;
	for (i = 0; i < n; i++)
		used |= strstr(values[i].key, "/sources/") ||
		    strstr(values[i].key, "/targets/");
	for (i = 0; !used && i < n; i++)
		if (strstr(values[i].key, "/tables/"))
			(void)dfi__client_delete(dfi->registry, values[i].key,
			    values[i].revision, deadline);
	dfi__registry_values_free(values, n);
}

int dfi_flow_remove(struct dfi *dfi, const char *name)
{
	char key[KEY_SIZE];
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = dfi__flow_check_name(name);
	if (ret < 0)
		return ret;
	dfi__flow_key(key, name);
	ret = dfi__client_delete(
	    dfi->registry, key, 0, context_deadline(dfi, 0));
	/* Again after a member that was leaving is gone. */
	if (!ret || ret == -ENOENT)
		dfi__flow_forget_tables(dfi, name, context_deadline(dfi, 0));
	if (ret == -ENOENT)
		return dfi__fail(-ENOENT, "flow '%s' doesn't exist", name);
	return ret;
}
