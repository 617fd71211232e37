/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The snapshot of a new watch: the keys that exist. It is sent page by page, as
 * the client takes them, so that many or large keys neither delay other clients
 * nor take memory. A snapshot of one page is sent at once.
 *
 * Meanwhile the watch already gets changes. So a page leaves out keys that were
 * put after the watch was made, and the watch may get the deletion of a key
 * that it has not seen.
 */
#ifndef DFI_REGISTRY_SERVER_SNAPSHOT_H
#define DFI_REGISTRY_SERVER_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

struct session;

/*
 * Begin the snapshot of a watch that was just made; exact: of one key. 0: it is
 * complete. 1: the reply to request watch is sent with its end, and until then
 * the session reads no request. -ENOMEM: it was not begun.
 */
int dfi__snapshot_begin(
    struct session *session, uint64_t watch, const char *prefix, bool exact);

/* Send the next page if one may be sent now, and finally the reply. */
bool dfi__snapshot_go_on(struct session *session);

/* NULL is allowed, here and below. */
void dfi__snapshot_end(struct session *session);

#endif
