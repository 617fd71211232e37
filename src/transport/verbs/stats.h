/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of an instance for users: stats.c. */
#ifndef DFI_TRANSPORT_VERBS_STATS_H
#define DFI_TRANSPORT_VERBS_STATS_H

#include "transport/transport.h"

void dfi__verbs_describe(const struct transport *transport,
    const struct remote *remote, char text[TRANSPORT_WAY_SIZE]);

void dfi__verbs_query(
    struct transport *transport, struct dfi_transport_stats *stats);

#endif
