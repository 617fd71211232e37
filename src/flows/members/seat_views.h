/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys by which the endpoints of an ordered open flow change the view
 * (flows/open/view.h). On the helper; each call may take until its deadline,
 * and may be repeated.
 */
#ifndef DFI_FLOWS_MEMBERS_SEAT_VIEWS_H
#define DFI_FLOWS_MEMBERS_SEAT_VIEWS_H

#include "seat_watch.h"

/*
 * For texts about a flow that has no view: ": the next view waits for the
 * registry, ...", or "" if that answers.
 */
const char *dfi__seat_views_why(struct seat_watch *watch);

/* End a view. */
int dfi__seat_views_cut(
    struct seat_watch *watch, uint64_t view, int64_t deadline);

/* Say where this source has ended in a view. */
int dfi__seat_views_flush(
    struct seat_watch *watch, uint64_t view, uint64_t end, int64_t deadline);

/* Say what this target has, as dfi__open_report_encode() has it. */
int dfi__seat_views_report(struct seat_watch *watch, uint64_t view,
    const uint8_t *value, size_t size, int64_t deadline);

/* Withdraw what this endpoint has said at the end of a view, without waiting.
 */
void dfi__seat_views_forget(struct seat_watch *watch, uint64_t view);

/*
 * Begin a view, unless another target has: -EEXIST. The key stays when this
 * endpoint leaves; those of the view before are deleted.
 */
int dfi__seat_views_begin(struct seat_watch *watch, uint64_t view,
    const uint8_t *value, size_t size, int64_t deadline);

#endif
