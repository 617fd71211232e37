/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accept connections on a loop, a bounded number in each turn, so that a flood
 * of connections can't keep the loop from its other events.
 */
#ifndef DFI_BASE_ACCEPT_H
#define DFI_BASE_ACCEPT_H

#include <stdbool.h>

struct acceptor;
struct event_base;

/*
 * This many take a fraction of a millisecond, even if the hook refuses each of
 * them.
 */
#define ACCEPTS_PER_TURN 64

struct accept_hooks {
	/*
	 * A connection. The socket is non-blocking and closed by exec(); the
	 * hook owns it.
	 */
	void (*accepted)(void *arg, int fd);
	/*
	 * accept() failed with err, for want of descriptors or memory. Return
	 * true to accept again in the loop's next turn, false to pause.
	 */
	bool (*failed)(void *arg, int err);
	/* A pause is over. May be NULL. */
	void (*resumed)(void *arg);
};

/*
 * Accept connections at fd, a listening, non-blocking socket that the caller
 * keeps. NULL: no memory. Make all calls on the loop's thread, and none from
 * within a hook.
 */
struct acceptor *dfi__accept_start(struct event_base *base, int fd,
    const struct accept_hooks *hooks, void *arg);

/* acceptor may be NULL. */
void dfi__accept_stop(struct acceptor *acceptor);

#endif
