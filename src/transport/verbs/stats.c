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

/* Count a ring that is open now, at this end or the other. */
static void add_link(
    const struct verbs_link *link, struct dfi_context_stats *stats)
{
	uint32_t notify = 0;

	if (link->export)
		notify = link->export->rings[link->ring].notify;
	else if (link->remote && link->remote->opened == 1)
		notify = link->remote->notify;
	stats->footer_rings += notify == VERBS_NOTIFY_FOOTER;
	stats->checksum_rings += notify == VERBS_NOTIFY_CHECKSUM;
	stats->imm_rings += notify == VERBS_NOTIFY_IMM;
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

void dfi__verbs_query(
    struct transport *transport, struct dfi_context_stats *stats)
{
	struct verbs *verbs = (struct verbs *)transport;
	const struct verbs_export *export;
	const struct verbs_conn *conn;
	uint32_t i, receives;

	/* A context with several devices has one for its targets: name that. */
	if (!stats->device[0]) {
		stats->port = verbs->device.port;
		snprintf(stats->device, sizeof(stats->device), "%s",
		    verbs->device.name);
		snprintf(stats->address, sizeof(stats->address), "%s",
		    verbs->device.address_text);
	}
	stats->broken_connections += atomic_peek(&verbs->n_broken);
	stats->fatal_events += atomic_peek(&verbs->fatal_events);
	stats->port_downs += atomic_peek(&verbs->port_downs);
	receives = atomic_peek(&verbs->n_receives);
	stats->receives += receives;
	/* Regions for messages. */
	stats->memory_regions += (receives + VERBS_RECEIVES - 1) /
	    VERBS_RECEIVES;
	pthread_mutex_lock(&verbs->table);
	dfi__verbs_query_counts(&verbs->retired, stats);
	for (conn = verbs->conns; conn; conn = conn->next) {
		dfi__verbs_query_counts(&conn->counts, stats);
		stats->queue_pairs++;
		stats->thread_domains += conn->domain != NULL;
	}
	for (export = verbs->exports; export; export = export->next)
		stats->memory_regions++;
	stats->memory_regions += atomic_peek(&verbs->n_stages);
	for (i = 0; i < verbs->n_links; i++)
		if (verbs->links[i].conn)
			add_link(&verbs->links[i], stats);
	pthread_mutex_unlock(&verbs->table);
	dfi__verbs_query_ports(verbs, stats);
}
