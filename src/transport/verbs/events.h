/* SPDX-License-Identifier: Apache-2.0 */
/* Events that devices report: events.c. */
#ifndef DFI_TRANSPORT_VERBS_EVENTS_H
#define DFI_TRANSPORT_VERBS_EVENTS_H

#include <infiniband/verbs.h>

struct verbs;

int dfi__verbs_events_start(struct verbs *verbs);
/* Handle events from now on. -ENOMEM. On the control thread. */
int dfi__verbs_events_watch(struct verbs *verbs);
/* Call before any queue pair is destroyed. On the control thread if watched. */
void dfi__verbs_events_stop(struct verbs *verbs);

/* Add an instance to the list that events are handled for; for tests. */
void dfi__verbs_events_list(struct verbs *verbs);
void dfi__verbs_events_unlist(struct verbs *verbs);

/* Handle an event, which the caller acknowledges later; no lock is held. */
void dfi__verbs_event(
    const struct ibv_context *context, const struct ibv_async_event *event);

#endif
