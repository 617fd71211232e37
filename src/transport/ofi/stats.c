/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and descriptions for users. */
#include "conn.h"

#include <stdio.h>
#include <dfi/context.h>

void dfi__ofi_describe(const struct transport *transport,
    const struct remote *remote, char text[TRANSPORT_WAY_SIZE])
{
	const struct ofi *ofi = (const struct ofi *)transport;

	(void)remote;
	snprintf(text, TRANSPORT_WAY_SIZE, "provider %s at %s, plain text",
	    ofi->settings->ofi_provider, ofi->host);
}

void dfi__ofi_query(
    struct transport *transport, struct dfi_transport_stats *stats)
{
	struct ofi *ofi = (struct ofi *)transport;
	const struct ofi_export *export;
	const struct ofi_conn *conn;

	snprintf(stats->device, sizeof(stats->device), "%s",
	    ofi->settings->ofi_provider);
	snprintf(stats->address, sizeof(stats->address), "%s", ofi->host);
	pthread_mutex_lock(&ofi->table);
	for (conn = ofi->conns; conn; conn = conn->next) {
		stats->connections++;
		stats->receives += OFI_RECEIVES;
	}
	for (export = ofi->exports; export; export = export->next)
		stats->memory_regions += export->mr != NULL;
	pthread_mutex_unlock(&ofi->table);
	stats->broken_connections = atomic_peek(&ofi->n_broken);
	stats->writes = atomic_peek(&ofi->counts.writes);
	stats->bytes = atomic_peek(&ofi->counts.bytes);
	stats->credits = atomic_peek(&ofi->counts.credits);
	stats->messages = atomic_peek(&ofi->counts.messages);
	stats->completions = atomic_peek(&ofi->counts.completions);
}
