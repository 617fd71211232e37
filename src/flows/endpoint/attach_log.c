/* SPDX-License-Identifier: Apache-2.0 */
/* The log line that says how an endpoint is attached. */
#include <stdio.h>
#include "base/log.h"
#include "transport/transport.h"
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

/* "2 by shared memory, 1 by verbs (rxe0 port 1, ..., immediate data)" */
static void describe_ways(
    const struct dfi_source *source, char *text, size_t size)
{
	uint32_t t, n_shared = 0, n_others = 0;
	char way[TRANSPORT_WAY_SIZE] = "";
	const struct remote *remote;
	const char *name = "";
	int used = 0;

	for (t = 0; t < source->n_remotes; t++) {
		remote = source->rings[t].remote;
		if (!remote)
			continue;
		if (remote->in_place)
			n_shared++;
		else if (!n_others++) {
			name = remote->transport->ops->name;
			remote->transport->ops->describe(
			    remote->transport, remote, way);
		}
	}
	if (n_shared || !n_others)
		used = snprintf(text, size, "%u by shared memory%s", n_shared,
		    n_others ? ", " : "");
	if (n_others)
		snprintf(text + used, size - (size_t)used, "%u by %s (%s)",
		    n_others, name, way);
}

/* " of 4" if all of them are meant, else "". */
static const char *of_all(bool all, uint32_t n, char text[16])
{
	text[0] = '\0';
	if (all)
		snprintf(text, 16, " of %u", n);
	return text;
}

void dfi__source_log_attached(const struct dfi_source *source)
{
	const struct flow *flow = &source->flow;
	bool all = !flow->part.combiner && !flow->part.from_combiners;
	char ways[TRANSPORT_WAY_SIZE + 64], of[16];

	describe_ways(source, ways, sizeof(ways));
	dfi__log(DFI_LOG_INFO,
	    "flow '%s': %s %u%s is attached: %ss: %s; rings of %u segments of "
	    "%u bytes, tuples of %u, for %s; %s",
	    flow->name, SOURCE_ID(source), of_all(all, flow->n_sources, of),
	    flow_target_word(flow), ways, flow->segment_count,
	    flow->segment_size, flow->schema->tuple_size, goal(flow),
	    source->flags & DFI_NONBLOCK ? "doesn't block"
					 : waiting(&source->wait));
}

void dfi__target_log_attached(const struct dfi_target *target)
{
	const struct export *export = target->region->export;
	const struct flow *flow = &target->flow;
	char way[TRANSPORT_WAY_SIZE] = "", of[16];
	bool all = !flow->part.combiner;

	if (export)
		export->transport->ops->describe(export->transport, NULL, way);
	dfi__log(DFI_LOG_INFO,
	    "flow '%s': %s %u%s is attached: %u %ss by %s%s%s%s%s%s; rings of "
	    "%u "
	    "segments of %u bytes, tuples of %u, for %s; %s",
	    flow->name, TARGET_ID(target), of_all(all, flow->n_targets, of),
	    flow->n_sources, flow_source_word(flow),
	    target->multicast ? "" : "shared memory",
	    target->multicast || !export ? "" : " or ",
	    export ? export->transport->ops->name : "", export ? " (" : "", way,
	    export ? ")" : "", flow->segment_count, flow->segment_size,
	    flow->schema->tuple_size, goal(flow),
	    target->flags & DFI_NONBLOCK ? "doesn't block"
					 : waiting(&target->wait));
}
