/* SPDX-License-Identifier: Apache-2.0 */
/* The log line that says how an endpoint is attached. */
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "flows/members/attach.h"
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

/* Whether an earlier ring is written through the same device. */
static bool is_listed(const struct dfi_source *source, uint32_t target)
{
	const struct transport *transport =
	    source->rings[target].remote->transport;
	uint32_t t;

	for (t = 0; t < target; t++)
		if (source->rings[t].remote &&
		    source->rings[t].remote->transport == transport)
			return true;
	return false;
}

const char *dfi__source_devices(
    const struct dfi_source *source, char text[TRANSPORT_WAY_SIZE])
{
	const struct remote *remote;
	uint32_t t;

	text[0] = '\0';
	for (t = 0; t < source->n_remotes; t++) {
		remote = source->rings[t].remote;
		if (remote && !remote->in_place && !is_listed(source, t))
			dfi__attach_describe(
			    remote->transport, remote, " and ", text);
	}
	return text;
}

/* "2 by shared memory, 1 by verbs (rxe0 port 1, ..., immediate data)" */
static void describe_ways(
    const struct dfi_source *source, char *text, size_t size)
{
	uint32_t t, n_shared = 0, n_others = 0;
	char way[TRANSPORT_WAY_SIZE];
	const struct remote *remote;
	const char *name = "";
	int used = 0;

	for (t = 0; t < source->n_remotes; t++) {
		remote = source->rings[t].remote;
		if (!remote)
			continue;
		if (remote->in_place)
			n_shared++;
		else if (!n_others++)
			name = remote->transport->ops->name;
		else if (strcmp(name, remote->transport->ops->name) != 0)
			name = "networks";
	}
	if (n_shared || !n_others)
		used = snprintf(text, size, "%u by shared memory%s", n_shared,
		    n_others ? ", " : "");
	if (n_others)
		snprintf(text + used, size - (size_t)used, "%u by %s (%s)",
		    n_others, name, dfi__source_devices(source, way));
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
	const struct export *export = target->region->exports;
	const char *name = export ? export->transport->ops->name : "";
	const struct flow *flow = &target->flow;
	char way[TRANSPORT_WAY_SIZE] = "", of[16];
	bool all = !flow->part.combiner;

	for (; export; export = export->next) {
		if (strcmp(name, export->transport->ops->name) != 0)
			name = "networks";
		dfi__attach_describe(export->transport, NULL, " and ", way);
	}
	dfi__log(DFI_LOG_INFO,
	    "flow '%s': %s %u%s is attached: %u %ss by %s%s%s%s%s%s; rings of "
	    "%u "
	    "segments of %u bytes, tuples of %u, for %s; %s",
	    flow->name, TARGET_ID(target), of_all(all, flow->n_targets, of),
	    flow->n_sources, flow_source_word(flow),
	    target->datagrams ? "" : "shared memory",
	    target->datagrams || !name[0] ? "" : " or ", name,
	    name[0] ? " (" : "", way, name[0] ? ")" : "", flow->segment_count,
	    flow->segment_size, flow->schema->tuple_size, goal(flow),
	    target->flags & DFI_NONBLOCK ? "doesn't block"
					 : waiting(&target->wait));
}
