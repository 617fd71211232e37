/* SPDX-License-Identifier: Apache-2.0 */
/* What arrives on any connection, and the receives that arrivals use. */
#ifndef DFI_TRANSPORT_VERBS_DATA_ARRIVE_H
#define DFI_TRANSPORT_VERBS_DATA_ARRIVE_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include "transport/verbs/verbs.h"

struct verbs_link;

/* data/arrive.c */

/*
 * If the link's footers have checksums, take all of its segments that were
 * there at the call, at most as many as the ring has slots. The poll lock is
 * held.
 */
void dfi__verbs_take_ring(struct verbs *verbs, struct verbs_link *link);

int dfi__verbs_arrivals_start(struct verbs *verbs);
/*
 * watch(): from now on the control thread takes arrivals. quiet(): it takes no
 * more, so connections may be destroyed. Call both on that thread. After
 * -ENOMEM of watch(), call quiet() as well.
 */
int dfi__verbs_arrivals_watch(struct verbs *verbs);
void dfi__verbs_arrivals_quiet(struct verbs *verbs);
void dfi__verbs_arrivals_stop(struct verbs *verbs);
/* Take the poll lock, before all threads that only try to. */
void dfi__verbs_lock_poll(struct verbs *verbs);
/* Take arrivals; the poll lock is held, the table lock is not. */
void dfi__verbs_take(struct verbs *verbs);
void dfi__verbs_progress(struct transport *transport, uint32_t looks);
/*
 * Take some arrivals unless another thread does so now. The caller does not
 * stay to serve other endpoints.
 */
void dfi__verbs_take_some(struct verbs *verbs);
void dfi__verbs_settle(struct transport *transport);
void dfi__verbs_arm(struct transport *transport);

/* data/receives.c */

int dfi__verbs_receives_start(struct verbs *verbs);
/* Call after all queue pairs are destroyed. */
void dfi__verbs_receives_stop(struct verbs *verbs);

/* Post receives of these numbers, not more than VERBS_REPOST; an errno value.
 */
int dfi__verbs_post_receives(
    struct verbs *verbs, const uint64_t *numbers, uint32_t n);

/*
 * So many more receives are needed: post them, if memory and the device allow.
 * Any thread that holds neither lock; blocks as dfi__reservation_begin() does.
 */
void dfi__verbs_receives_need(struct verbs *verbs, uint64_t n);

/* So many are not needed any more. Any thread. */
void dfi__verbs_receives_spare(struct verbs *verbs, uint64_t n);

#endif
