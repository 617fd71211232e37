/* SPDX-License-Identifier: Apache-2.0 */
/* The parent's registry and flows. The parent moves no tuples. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/complain.h"
#include "combine_job.h"
#include "report.h"
#include "values.h"

bool session_open(const struct common_options *options, struct session *session)
{
	const char *address = options->registry;
	struct dfi_attr attr = DFI_ATTR_INIT;

	*session = (struct session){ .transport = options->transport };
	if (!address && dfi_registry_start(NULL, &session->registry) < 0) {
		complain("dfi_registry_start: %s", dfi_errmsg());
		return false;
	}
	session->address = address ? address
				   : dfi_registry_address(session->registry);
	attr.registry = session->address;
	attr.node_name = "dfi-bench";
	if (dfi_open(&attr, &session->dfi) < 0) {
		complain("dfi_open: %s", dfi_errmsg());
		session_close(session);
		return false;
	}
	if (options->role == BENCH_BOTH)
		return true;
	if (!peer_open(session->dfi, options->role == BENCH_SOURCE,
		options->timeout_s, &session->the_peer)) {
		session_close(session);
		return false;
	}
	session->peer = &session->the_peer;
	return true;
}

void session_close(struct session *session)
{
	if (session->peer)
		peer_close(session->peer);
	if (session->dfi && dfi_close(session->dfi) < 0)
		complain("dfi_close: %s", dfi_errmsg());
	if (session->registry && dfi_registry_stop(session->registry) < 0)
		complain("dfi_registry_stop: %s", dfi_errmsg());
	*session = (struct session){ 0 };
}

/* A flow's attributes, with what they point to. */
struct declaration {
	struct dfi_flow_attr attr;
	struct dfi_aggregate sum;
	struct tuple_schema schema;
};

/*
 * Declare the flow of a plan's tuples, or with `back` that of an echo's
 * responses.
 */
static void declare(const struct session *session, const struct plan *plan,
    const struct raw_geometry *asked, bool back, struct declaration *flow)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	flow->sum = (struct dfi_aggregate){ .function = DFI_SUM,
		.field = "value" };
	tuple_schema_init(&flow->schema, plan->tuple_size);
	attr.kind = plan->replicates && !back ? DFI_REPLICATE : DFI_SHUFFLE;
	if (plan->job == JOB_COMBINE) {
		value_schema_init(&flow->schema, plan->tuple_size);
		attr.kind = DFI_COMBINE;
		attr.combine.aggregates = &flow->sum;
		attr.combine.n_aggregates = 1;
		attr.combine.group_by = plan->n_groups ? "key" : NULL;
		attr.combine.max_groups = plan->n_groups;
		attr.combine.source_combining = plan->combining;
		attr.combine.fan_in = plan->fan_in;
	}
	attr.replicate.method = back ? 0 : plan->replication;
	attr.replicate.ordered = back ? 0 : plan->ordered;
	attr.schema = &flow->schema.schema;
	attr.n_sources = back ? plan->n_targets : plan->n_sources;
	attr.n_targets = back ? plan->n_sources : plan->n_targets;
	attr.goal = plan->job == JOB_ECHO_FLOW ? DFI_LATENCY : DFI_BANDWIDTH;
	attr.routing = plan->routing;
	if (plan->is_open) {
		attr.open.membership = DFI_MEMBERS_OPEN;
		attr.open.min_targets = attr.n_targets;
		/* A source finishes it. */
		attr.flags = DFI_FLOW_PERSISTENT;
	}
	attr.transport = session->transport;
	attr.segment_size = asked->segment_size;
	attr.segment_count = asked->segment_count;
	flow->attr = attr;
}

static bool create_flow(struct session *session, const struct plan *plan,
    const struct raw_geometry *asked, bool back, char *name)
{
	struct declaration flow;

	snprintf(name, PLAN_NAME_SIZE, "dfi-bench.%d.%lu", (int)getpid(),
	    (unsigned long)session->n_flows++);
	declare(session, plan, asked, back, &flow);
	if (dfi_flow_create(session->dfi, name, &flow.attr) < 0) {
		complain("dfi_flow_create: %s", dfi_errmsg());
		return false;
	}
	return true;
}

/* Bulk data beside an echo has a flow for bandwidth, as the library makes it.
 */
static struct plan bulk_plan(const struct plan *plan)
{
	struct plan bulk = *plan;

	bulk.job = JOB_FLOW;
	return bulk;
}

bool session_create_flows(struct session *session, struct plan *plan,
    const struct raw_geometry *asked)
{
	struct plan bulk = bulk_plan(plan);

	plan->back[0] = plan->bulk_flow[0] = '\0';
	if (!create_flow(session, plan, asked, false, plan->flow))
		return false;
	if (plan->job != JOB_ECHO_FLOW)
		return true;
	return create_flow(session, plan, asked, true, plan->back) &&
	    (!plan->bulk ||
		create_flow(session, &bulk, &(struct raw_geometry){ 0 }, false,
		    plan->bulk_flow));
}

/* Add what the ends of a flow in this invocation reserve. */
static bool add_needs(const struct session *session, const struct plan *plan,
    const struct raw_geometry *asked, bool back, uint64_t *bytes)
{
	struct dfi_flow_needs needs;
	struct declaration flow;
	uint64_t sources, targets;

	declare(session, plan, asked, back, &flow);
	if (dfi_flow_estimate(session->dfi, &flow.attr, &needs) < 0) {
		complain("dfi_flow_estimate: %s", dfi_errmsg());
		return false;
	}
	sources = flow.attr.n_sources * needs.source_bytes;
	targets = flow.attr.n_targets * needs.target_bytes +
	    needs.n_combiners * needs.combiner_bytes;
	if (!session->peer)
		*bytes += sources + targets;
	else
		*bytes += back ? targets : sources;
	return true;
}

bool session_needs(struct session *session, const struct plan *plan,
    const struct raw_geometry *asked, uint64_t *bytes)
{
	struct plan bulk = bulk_plan(plan);

	*bytes = 0;
	return add_needs(session, plan, asked, false, bytes) &&
	    (plan->job != JOB_ECHO_FLOW ||
		add_needs(session, plan, asked, true, bytes)) &&
	    (!plan->bulk ||
		add_needs(
		    session, &bulk, &(struct raw_geometry){ 0 }, false, bytes));
}

static void remove_flow(struct session *session, const char *name)
{
	if (*name && dfi_flow_remove(session->dfi, name) < 0)
		complain("dfi_flow_remove: %s", dfi_errmsg());
}

void session_remove_flows(struct session *session, const struct plan *plan)
{
	remove_flow(session, plan->flow);
	remove_flow(session, plan->back);
	remove_flow(session, plan->bulk_flow);
}

bool session_look_up(struct session *session, struct plan *plan,
    const struct raw_geometry *asked)
{
	struct plan copy = *plan;
	struct dfi_flow_info info;
	int ret;

	if (!session_create_flows(session, &copy, asked))
		return false;
	ret = dfi_flow_lookup(session->dfi, copy.flow, &info);
	if (ret < 0)
		complain("dfi_flow_lookup: %s", dfi_errmsg());
	session_remove_flows(session, &copy);
	if (ret < 0)
		return false;
	plan->geometry = (struct raw_geometry){
		.segment_size = info.segment_size,
		.segment_count = info.segment_count,
	};
	plan->datagrams = info.replication == DFI_REPLICATION_MULTICAST &&
	    info.transport == DFI_TRANSPORT_VERBS;
	return true;
}

bool session_needs_network(
    const struct session *session, const struct plan *plan)
{
	const char *set = getenv("DFI_TRANSPORT");

	if (session->peer || plan->datagrams)
		return true;
	if (session->transport)
		return session->transport == DFI_TRANSPORT_VERBS ||
		    session->transport == DFI_TRANSPORT_OFI;
	return set &&
	    (!strcmp(set, transport_name(DFI_TRANSPORT_VERBS)) ||
		!strcmp(set, transport_name(DFI_TRANSPORT_OFI)));
}
