/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters for users. Each connection has its own, which only the posting
 * thread writes, so that counting costs no more than an addition; this file
 * adds them up when a user asks.
 */
#include "stats.h"

#include <stdio.h>
#include <dfi/context.h>
#include "data/ring.h"
#include "multicast/multicast.h"

/* How many rings that are open now have each way to notice a segment. */
struct rings {
	uint64_t footer, checksum, imm;
};

/* Count a ring that is open now, at this end or the other. */
static void add_link(const struct verbs_link *link, struct rings *rings,
    struct dfi_transport_stats *stats)
{
	uint32_t notify = 0;

	if (link->export)
		notify = link->export->rings[link->ring].notify;
	else if (link->remote && link->remote->opened == 1)
		notify = link->remote->notify;
	rings->footer += notify == VERBS_NOTIFY_FOOTER;
	rings->checksum += notify == VERBS_NOTIFY_CHECKSUM;
	rings->imm += notify == VERBS_NOTIFY_IMM;
	stats->memory_regions += link->remote != NULL;
}

static const char *way(enum verbs_notify notify)
{
	switch (notify) {
	case VERBS_NOTIFY_FOOTER:
		return ", footers are polled";
	case VERBS_NOTIFY_CHECKSUM:
		return ", footers are polled, with checksums";
	default:
		return ", immediate data";
	}
}

void dfi__verbs_describe(const struct transport *transport,
    const struct remote *base, char text[TRANSPORT_WAY_SIZE])
{
	const struct verbs_device *device =
	    &((const struct verbs *)transport)->device;
	const struct verbs_remote *remote = (const struct verbs_remote *)base;

	snprintf(text, TRANSPORT_WAY_SIZE, "%s port %u, GID %d %s%s",
	    device->name, device->port, device->gid_index, device->gid,
	    remote ? way(remote->notify) : "");
}

/* All connections and rings; returns the connections without locks. */
static uint32_t add_connections(struct verbs *verbs,
    struct verbs_counts *counts, struct rings *rings,
    struct dfi_transport_stats *stats)
{
	const struct verbs_export *export;
	const struct verbs_conn *conn;
	uint32_t i, n_domains = 0;

	pthread_mutex_lock(&verbs->table);
	dfi__verbs_add_counts(counts, &verbs->retired);
	for (conn = verbs->conns; conn; conn = conn->next) {
		dfi__verbs_add_counts(counts, &conn->counts);
		stats->connections++;
		n_domains += conn->domain != NULL;
	}
	for (export = verbs->exports; export; export = export->next)
		stats->memory_regions++;
	stats->memory_regions += atomic_peek(&verbs->n_send_buffers);
	for (i = 0; i < verbs->n_links; i++)
		if (verbs->links[i].conn)
			add_link(&verbs->links[i], rings, stats);
	pthread_mutex_unlock(&verbs->table);
	return n_domains;
}

void dfi__verbs_query(
    struct transport *transport, struct dfi_transport_stats *stats)
{
	struct verbs *verbs = (struct verbs *)transport;
	struct verbs_counts counts = { 0 };
	struct rings rings = { 0 };
	uint32_t n_domains;

	snprintf(
	    stats->device, sizeof(stats->device), "%s", verbs->device.name);
	snprintf(stats->address, sizeof(stats->address), "%s",
	    verbs->device.address_text);
	stats->broken_connections = atomic_peek(&verbs->n_broken);
	stats->receives = atomic_peek(&verbs->n_receives);
	/* Regions for messages. */
	stats->memory_regions = (stats->receives + VERBS_RECEIVES - 1) /
	    VERBS_RECEIVES;
	n_domains = add_connections(verbs, &counts, &rings, stats);
	dfi__verbs_query_endpoints(verbs, &counts, stats);
	stats->writes = atomic_peek(&counts.writes);
	stats->bytes = atomic_peek(&counts.bytes);
	stats->credits = atomic_peek(&counts.credits);
	stats->messages = atomic_peek(&counts.messages);
	stats->completions = atomic_peek(&counts.signalled);
	stats_count(stats, "port", verbs->device.port);
	stats_count(stats, "inline_writes", atomic_peek(&counts.inline_writes));
	stats_count(stats, "doorbells", atomic_peek(&counts.doorbells));
	stats_count(stats, "thread_domains", n_domains);
	stats_count(stats, "footer_rings", rings.footer);
	stats_count(stats, "checksum_rings", rings.checksum);
	stats_count(stats, "imm_rings", rings.imm);
	stats_count(stats, "fatal_events", atomic_peek(&verbs->fatal_events));
	stats_count(stats, "port_downs", atomic_peek(&verbs->port_downs));
}
