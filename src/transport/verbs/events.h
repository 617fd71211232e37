/* SPDX-License-Identifier: Apache-2.0 */
/* What devices report of their own accord: events.c. */
#ifndef DFI_TRANSPORT_VERBS_EVENTS_H
#define DFI_TRANSPORT_VERBS_EVENTS_H

#include <infiniband/verbs.h>

struct verbs;

int dfi__verbs_events_start(struct verbs *verbs);
/* Before any queue pair is destroyed. */
void dfi__verbs_events_stop(struct verbs *verbs);

/* One of those whose devices' reports concern it; for tests. */
void dfi__verbs_events_list(struct verbs *verbs);
void dfi__verbs_events_unlist(struct verbs *verbs);

/* Handle a report, which is acknowledged after; no lock is held. */
void dfi__verbs_event(
    const struct ibv_context *context, const struct ibv_async_event *event);

#endif
