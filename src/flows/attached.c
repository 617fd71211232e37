/* SPDX-License-Identifier: Apache-2.0 */
/* The line of the log that says how an endpoint is attached. */
#include <stdio.h>
#include "../base/log.h"
#include "../transport/transport.h"
#include "source.h"
#include "target.h"

static const char *goal(const struct flow *flow)
{
	return flow->goal == DFI_LATENCY ? "latency" : "bandwidth";
}

static const char *waiting(const struct wait_policy *wait)
{
	if (!wait->sleeps)
		return "spins";
	return wait->spins ? "spins, yields and sleeps" : "sleeps";
}

/* "2 x shared memory, 1 x verbs (rxe0 port 1, ..., immediate data)" */
static void describe_ways(
    const struct dfi_source *source, char *text, size_t size)
{
	uint32_t t, n_shared = 0, n_verbs = 0;
	char way[TRANSPORT_WAY_SIZE] = "";
	const struct remote *remote;
	int used = 0;

	for (t = 0; t < source->n_remotes; t++) {
		remote = source->rings[t].remote;
		if (!remote)
			continue;
		if (remote->in_place)
			n_shared++;
		else if (!n_verbs++)
			remote->transport->ops->describe(
			    remote->transport, remote, way);
	}
	if (n_shared || !n_verbs)
		used = snprintf(text, size, "%u by shared memory%s", n_shared,
		    n_verbs ? ", " : "");
	if (n_verbs)
		snprintf(text + used, size - (size_t)used, "%u by verbs (%s)",
		    n_verbs, way);
}

void dfi__source_log_attached(const struct dfi_source *source)
{
	const struct flow *flow = &source->flow;
	char ways[TRANSPORT_WAY_SIZE + 64];

	describe_ways(source, ways, sizeof(ways));
	dfi__log(DFI_LOG_INFO,
	    "flow '%s': source %u of %u is attached: targets: %s; rings of %u "
	    "segments of %u bytes, tuples of %u, for %s; %s",
	    flow->name, source->index, flow->n_sources, ways,
	    flow->segment_count, flow->segment_size, flow->schema->tuple_size,
	    goal(flow),
	    source->flags & DFI_NONBLOCK ? "doesn't block"
					 : waiting(&source->wait));
}

void dfi__target_log_attached(const struct dfi_target *target)
{
	const struct export *export = target->region->export;
	const struct flow *flow = &target->flow;
	char way[TRANSPORT_WAY_SIZE] = "";

	if (export)
		export->transport->ops->describe(export->transport, NULL, way);
	dfi__log(DFI_LOG_INFO,
	    "flow '%s': target %u of %u is attached: %u sources by %s%s%s; "
	    "rings of %u segments of %u bytes, tuples of %u, for %s; %s",
	    flow->name, target->index, flow->n_targets, flow->n_sources,
	    target->cast ? "datagrams ("
		: export ? "shared memory or verbs ("
			 : "shared memory",
	    way, export ? ")" : "", flow->segment_count, flow->segment_size,
	    flow->schema->tuple_size, goal(flow),
	    target->flags & DFI_NONBLOCK ? "doesn't block"
					 : waiting(&target->wait));
}
