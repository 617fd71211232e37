/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accept connections on a loop, a bounded number in each turn, so that a flood
 * of connections can't keep the loop from its other events.
 */
#ifndef DFI_BASE_ACCEPT_H
#define DFI_BASE_ACCEPT_H

#include <event2/event.h>

struct acceptor;

/*
 * This many take a fraction of a millisecond, even if each of them is refused.
 */
#define ACCEPTS_PER_TURN 64

/*
 * Have libevent call on_readable when connections wait at fd, a listening,
 * non-blocking socket that the caller keeps; it then calls dfi__accept_next()
 * until that has none, ACCEPTS_PER_TURN times at most. NULL: no memory. Make
 * all calls on the loop's thread.
 */
struct acceptor *dfi__accept_start(
    struct event_base *base, int fd, event_callback_fn on_readable, void *arg);

/*
 * The next connection: its socket is non-blocking and closed by exec(), and the
 * caller owns it. -EAGAIN: none waits. -EMFILE, -ENFILE, -ENOMEM, -ENOBUFS:
 * accept again in the loop's next turn, when libevent has freed descriptors, or
 * pause.
 */
int dfi__accept_next(struct acceptor *acceptor);

/* Accept nothing for 0.1 s. Otherwise a socket that stays readable spins. */
void dfi__accept_pause(struct acceptor *acceptor);

/* acceptor may be NULL. */
void dfi__accept_stop(struct acceptor *acceptor);

#endif
