/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting connections on a loop, a bounded number in each turn: strangers
 * that connect at full speed can't keep the loop from its other events.
 */
#ifndef DFI_BASE_ACCEPT_H
#define DFI_BASE_ACCEPT_H

#include <stdbool.h>

struct acceptor;
struct event_base;

/* A fraction of a millisecond, also if each of them is refused. */
#define ACCEPTS_PER_TURN 64

struct accept_hooks {
	/* A connection, non-blocking and closed by exec(), which it owns. */
	void (*accepted)(void *arg, int fd);
	/*
	 * accept() failed with err: no descriptors, or no memory. true: there
	 * is room in the loop's next turn; false: pause.
	 */
	bool (*failed)(void *arg, int err);
	/* A pause is over; NULL is allowed. */
	void (*resumed)(void *arg);
};

/*
 * Accept what comes at fd, which listens, does not block, and stays the
 * caller's. NULL: no memory. All calls on the loop's thread, and none from
 * within a hook.
 */
struct acceptor *dfi__accept_start(struct event_base *base, int fd,
    const struct accept_hooks *hooks, void *arg);

/* NULL is allowed. */
void dfi__accept_stop(struct acceptor *acceptor);

#endif
