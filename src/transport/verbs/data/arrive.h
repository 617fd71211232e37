/* SPDX-License-Identifier: Apache-2.0 */
/* What arrives on any connection, and the receives that it takes. */
#ifndef DFI_TRANSPORT_VERBS_DATA_ARRIVE_H
#define DFI_TRANSPORT_VERBS_DATA_ARRIVE_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include "transport/verbs/verbs.h"

struct verbs_link;

/* data/arrive.c */

/*
 * Take all segments of a link that were there at the call, if its footers have
 * checksums; and no more in all than the ring has slots. The poll lock is held.
 */
void dfi__verbs_take_ring(struct verbs *verbs, struct verbs_link *link);

int dfi__verbs_arrivals_start(struct verbs *verbs);
/* The control thread takes no more; connections may go. */
void dfi__verbs_arrivals_quiet(struct verbs *verbs);
void dfi__verbs_arrivals_stop(struct verbs *verbs);
/* Take the poll lock before all who only try. */
void dfi__verbs_lock_poll(struct verbs *verbs);
/* Take what is there; the poll lock is held, the table lock isn't. */
void dfi__verbs_take(struct verbs *verbs);
void dfi__verbs_progress(struct transport *transport, uint32_t looks);
/* Take some of what is there, unless another thread just does; who calls it is
 * not there to do it for others. */
void dfi__verbs_take_some(struct verbs *verbs);
void dfi__verbs_settle(struct transport *transport);
void dfi__verbs_arm(struct transport *transport);

/* data/receives.c */

int dfi__verbs_receives_start(struct verbs *verbs);
/* After all queue pairs are gone. */
void dfi__verbs_receives_stop(struct verbs *verbs);

/* Post receives of these numbers, not more than VERBS_REPOST; an errno value.
 */
int dfi__verbs_post_receives(
    struct verbs *verbs, const uint64_t *numbers, uint32_t n);

/* Change the number of receives by this many. Both locks are held. */
void dfi__verbs_receives_need(struct verbs *verbs, uint64_t n);
void dfi__verbs_receives_spare(struct verbs *verbs, uint64_t n);

#endif
