/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors that the control thread sleeps on for the completion queue.
 * The queue has a list of them, for poll(2), and not one for all (FI_WAIT_FD):
 * that one is an epoll(7) set, which the kernel maintains with each packet,
 * also while endpoints look for completions themselves. A round trip takes a
 * fifth longer so. Here the list becomes such a set only while the control
 * thread watches.
 *
 * The provider changes the list inside its calls. So whoever has called it
 * while the control thread watches compares the two. All under the poll lock.
 */
#include "conn.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/error.h"
#include "base/files.h"
#include "fabric.h"

/* Of a new list; it doubles. */
#define FIRST_ROOM 8

static bool grow(struct ofi_descriptors *descriptors, uint32_t n)
{
	uint32_t room = descriptors->room ? descriptors->room : FIRST_ROOM;
	struct pollfd *listed, *watched;

	while (room < n)
		room *= 2;
	listed = realloc(descriptors->listed, room * sizeof(*listed));
	if (!listed)
		return false;
	descriptors->listed = listed;
	watched = realloc(descriptors->watched, room * sizeof(*watched));
	if (!watched)
		return false;
	descriptors->watched = watched;
	descriptors->room = room;
	return true;
}

/* The one descriptor of a queue that has no list. */
static int read_one(struct ofi *ofi)
{
	struct ofi_descriptors *descriptors = &ofi->descriptors;

	descriptors->listed[0] = (struct pollfd){ .events = POLLIN };
	descriptors->n_listed = 1;
	return fi_control(
	    &ofi->cq->fid, FI_GETWAIT, &descriptors->listed[0].fd);
}

/* What the queue waits for now. Returns 0 or a FI_ error. */
static int read_list(struct ofi *ofi)
{
	struct ofi_descriptors *descriptors = &ofi->descriptors;
	struct fi_wait_pollfd list;
	int ret;

	if (!descriptors->room && !grow(descriptors, FIRST_ROOM))
		return -FI_ENOMEM;
	if (!descriptors->has_list)
		return read_one(ofi);
	for (;;) {
		list = (struct fi_wait_pollfd){
			.nfds = descriptors->room,
			.fd = descriptors->listed,
		};
		ret = fi_control(&ofi->cq->fid, FI_GETWAIT, &list);
		if (ret != -FI_ETOOSMALL)
			break;
		if (!grow(descriptors, (uint32_t)list.nfds))
			return -FI_ENOMEM;
	}
	descriptors->n_listed = (uint32_t)list.nfds;
	return ret;
}

static bool is_same(const struct pollfd *a, const struct pollfd *b)
{
	return a->fd == b->fd && a->events == b->events;
}

bool dfi__ofi_descriptors_changed(struct ofi *ofi)
{
	struct ofi_descriptors *descriptors = &ofi->descriptors;
	uint32_t i;

	if (!descriptors->has_list)
		return false;
	if (read_list(ofi) || descriptors->n_listed != descriptors->n_watched)
		return true;
	for (i = descriptors->n_skipped; i < descriptors->n_listed; i++)
		if (!is_same(&descriptors->listed[i], &descriptors->watched[i]))
			return true;
	return false;
}

void dfi__ofi_descriptors_leave(struct ofi *ofi)
{
	struct ofi_descriptors *descriptors = &ofi->descriptors;
	uint32_t i;

	/* One that is closed has left by itself. */
	for (i = descriptors->n_skipped; i < descriptors->n_watched; i++)
		(void)epoll_ctl(descriptors->set, EPOLL_CTL_DEL,
		    descriptors->watched[i].fd, NULL);
	descriptors->n_watched = 0;
}

static bool watch_one(
    const struct ofi_descriptors *descriptors, const struct pollfd *listed)
{
	struct epoll_event event = {
		.events = (listed->events & POLLIN ? EPOLLIN : 0u) |
		    (listed->events & POLLOUT ? EPOLLOUT : 0u),
	};

	return epoll_ctl(descriptors->set, EPOLL_CTL_ADD, listed->fd, &event) ==
	    0 ||
	    errno == EBADF; /* it is closed */
}

bool dfi__ofi_descriptors_watch(struct ofi *ofi)
{
	struct ofi_descriptors *descriptors = &ofi->descriptors;
	uint32_t i;

	if (descriptors->n_watched && !dfi__ofi_descriptors_changed(ofi))
		return true;
	dfi__ofi_descriptors_leave(ofi);
	if (read_list(ofi))
		return false;
	for (i = descriptors->n_skipped; i < descriptors->n_listed; i++) {
		if (!watch_one(descriptors, &descriptors->listed[i]))
			break;
		descriptors->watched[i] = descriptors->listed[i];
		descriptors->n_watched = i + 1;
	}
	if (i == descriptors->n_listed)
		return true;
	dfi__ofi_descriptors_leave(ofi);
	return false;
}

/*
 * Nothing can have happened to a new queue. A descriptor at the start of its
 * list that is readable all the same never sleeps: libfabric 1.17 has one that
 * ends its own call of poll(2) when the list changes (ofi_pollfds_ctl() in
 * src/common.c), and resets it only in calls that may wait, of which this
 * transport makes none.
 */
static void skip_readable(struct ofi_descriptors *descriptors)
{
	uint32_t i;

	(void)poll(descriptors->listed, descriptors->n_listed, 0);
	for (i = 0; i < descriptors->n_listed; i++)
		if (!descriptors->listed[i].revents)
			break;
	descriptors->n_skipped = i;
}

int dfi__ofi_descriptors_open(struct ofi *ofi)
{
	struct ofi_descriptors *descriptors = &ofi->descriptors;
	enum fi_wait_obj object = FI_WAIT_FD;
	struct fi_cq_data_entry entry;
	int ret;

	(void)fi_control(&ofi->cq->fid, FI_GETWAITOBJ, &object);
	descriptors->has_list = object == FI_WAIT_POLLFD;
	descriptors->set = file_up(epoll_create1(EPOLL_CLOEXEC));
	if (descriptors->set < 0)
		return -errno;
	/* The first look completes the list. */
	(void)fi_cq_read(ofi->cq, &entry, 1);
	ret = read_list(ofi);
	if (!ret && descriptors->has_list)
		skip_readable(descriptors);
	return ret;
}

void dfi__ofi_descriptors_close(struct ofi *ofi)
{
	struct ofi_descriptors *descriptors = &ofi->descriptors;

	if (descriptors->set >= 0)
		close(descriptors->set);
	free(descriptors->listed);
	free(descriptors->watched);
	*descriptors = (struct ofi_descriptors){ .set = -1 };
}
