/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a new watch is told of first: the keys that are there. They go out page
 * by page, as the client takes them, so that many or large ones stop nobody
 * else and take no memory. A snapshot of one page is sent at once.
 *
 * The watch hears of changes from its making on, also meanwhile. So a page
 * leaves out the keys that were put after that, and the watch may hear of the
 * end of a key that it has not heard of.
 */
#ifndef DFI_REGISTRY_SERVER_SNAPSHOT_H
#define DFI_REGISTRY_SERVER_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

struct session;

/*
 * Begin the snapshot of a watch that was just made; exact: of the one key. 0:
 * it is complete. 1: the reply to request watch is sent with its end, and the
 * session reads no request until then. -ENOMEM: there is none.
 */
int dfi__snapshot_begin(
    struct session *session, uint64_t watch, const char *prefix, bool exact);

/* Send the next page, if there may be one now, and at last the reply. */
bool dfi__snapshot_go_on(struct session *session);

/* NULL is allowed, here and below. */
void dfi__snapshot_end(struct session *session);

#endif
