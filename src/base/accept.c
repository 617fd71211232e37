/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libevent's own listener accepts connections until none waits. Under a flood
 * it never stops. Here the socket stays readable for the loop's next turn.
 */
#include "accept.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "files.h"

#define PAUSE_US 100000

struct acceptor {
	struct accept_hooks hooks;
	void *arg;
	int fd;
	struct event *readable;
	struct event *pause;
};

/* Without a free descriptor, accept() fails even if no connection waits. */
static bool somebody_waits(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) != 0;
}

/* Whether to accept further connections after an error of accept(). */
static bool go_on(struct acceptor *acceptor, int err)
{
	static const struct timeval pause = { .tv_usec = PAUSE_US };

	switch (err) {
	case EAGAIN:
		return false;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
		break;
	default:
		/* The error concerns one connection only, see accept(2). */
		return true;
	}
	if (!somebody_waits(acceptor->fd))
		return false;
	/*
	 * Go on in the loop's next turn: libevent frees descriptors only then.
	 */
	if (acceptor->hooks.failed(acceptor->arg, err))
		return false;
	/* The socket stays readable: without a pause this would spin. */
	event_del(acceptor->readable);
	evtimer_add(acceptor->pause, &pause);
	return false;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct acceptor *acceptor = arg;
	bool more = true;
	int i, new;

	(void)what;
	for (i = 0; i < ACCEPTS_PER_TURN && more; i++) {
		new = file_up(
		    accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (new < 0)
			more = go_on(acceptor, errno);
		else
			acceptor->hooks.accepted(acceptor->arg, new);
	}
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	struct acceptor *acceptor = arg;

	(void)fd;
	(void)what;
	if (acceptor->hooks.resumed)
		acceptor->hooks.resumed(acceptor->arg);
	event_add(acceptor->readable, NULL);
}

struct acceptor *dfi__accept_start(struct event_base *base, int fd,
    const struct accept_hooks *hooks, void *arg)
{
	struct acceptor *new = calloc(1, sizeof(*new));

	if (!new)
		return NULL;
	new->hooks = *hooks;
	new->arg = arg;
	new->fd = fd;
	new->readable = event_new(
	    base, fd, EV_READ | EV_PERSIST, on_readable, new);
	new->pause = evtimer_new(base, on_pause_over, new);
	if (new->readable &&new->pause && !event_add(new->readable, NULL))
		return new;
	dfi__accept_stop(new);
	return NULL;
}

void dfi__accept_stop(struct acceptor *acceptor)
{
	if (!acceptor)
		return;
	if (acceptor->readable)
		event_free(acceptor->readable);
	if (acceptor->pause)
		event_free(acceptor->pause);
	free(acceptor);
}
