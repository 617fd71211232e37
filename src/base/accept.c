/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libevent's own listener accepts connections until none waits. Under a flood
 * it never stops. Here the socket stays readable for the loop's next turn.
 */
#include "accept.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "files.h"

#define PAUSE_US 100000

struct acceptor {
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

int dfi__accept_next(struct acceptor *acceptor)
{
	int i, new;

	for (i = 0; i < ACCEPTS_PER_TURN; i++) {
		new = file_up(accept4(
		    acceptor->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (new >= 0)
			return new;
		switch (errno) {
		case EAGAIN:
			return -EAGAIN;
		case EMFILE:
		case ENFILE:
		case ENOMEM:
		case ENOBUFS:
			new = -errno;
			return somebody_waits(acceptor->fd) ? new : -EAGAIN;
		}
		/* The error concerns one connection only, see accept(2). */
	}
	return -EAGAIN;
}

void dfi__accept_pause(struct acceptor *acceptor)
{
	static const struct timeval pause = { .tv_usec = PAUSE_US };

	event_del(acceptor->readable);
	evtimer_add(acceptor->pause, &pause);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	struct acceptor *acceptor = arg;

	(void)fd;
	(void)what;
	event_add(acceptor->readable, NULL);
}

struct acceptor *dfi__accept_start(
    struct event_base *base, int fd, event_callback_fn on_readable, void *arg)
{
	struct acceptor *new = calloc(1, sizeof(*new));

	if (!new)
		return NULL;
	new->fd = fd;
	new->readable = event_new(
	    base, fd, EV_READ | EV_PERSIST, on_readable, arg);
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
