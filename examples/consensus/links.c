/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's part of links: send, receive, wait. It never waits for the
 * registry or a peer: link_opener.c makes those calls in helper threads. A link
 * belongs to one side at a time, and changes sides through queues.
 */
#include "links.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "links_impl.h"

#define LOOK_EVERY 4 /* polls */

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int open_context(struct links *links, const struct links_setup *setup)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_target_group_attr group = DFI_TARGET_GROUP_ATTR_INIT;
	int ret;

	attr.registry = setup->registry;
	attr.node_name = setup->node_name;
	attr.open_timeout_ms = setup->open_timeout_ms;
	ret = dfi_open(&attr, &links->dfi);
	if (ret < 0)
		return ret;
	group.flags = DFI_NONBLOCK | DFI_TELL_ENDS;
	ret = dfi_target_group_open(links->dfi, &group, &links->group);
	if (ret < 0)
		goto close_context;
	ret = links->group_fd = dfi_target_group_fd(links->group);
	if (ret < 0)
		goto close_group;
	ret = links->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ret >= 0)
		return 0;
	ret = -errno;
close_group:
	dfi_target_group_close(links->group);
close_context:
	dfi_close(links->dfi);
	return ret;
}

int links_open(const struct links_setup *setup, struct links **out)
{
	struct links *links = calloc(1, sizeof(*links));
	int ret;

	if (!links)
		return -ENOMEM;
	links->ops = setup->ops;
	links->arg = setup->arg;
	links->epoll_fd = -1;
	links->fds = calloc(3, sizeof(links->fds[0]));
	if (!links->fds) {
		free(links);
		return -ENOMEM;
	}
	pthread_mutex_init(&links->lock, NULL);
	ret = open_context(links, setup);
	if (ret < 0)
		goto free_links;
	ret = openers_start(links, setup->n_helpers);
	if (ret < 0)
		goto close_context;
	*out = links;
	return 0;
close_context:
	dfi_target_group_close(links->group);
	close(links->wake_fd);
	dfi_close(links->dfi);
free_links:
	free(links->fds);
	free(links);
	return ret;
}

struct dfi *links_dfi(const struct links *links)
{
	return links->dfi;
}

struct link *links_add(struct links *links, const struct link_setup *setup)
{
	struct pollfd *fds = realloc(
	    links->fds, (links->n + 4) * sizeof(links->fds[0]));
	struct link *link = fds ? calloc(1, sizeof(*link)) : NULL;

	if (fds)
		links->fds = fds;
	if (!link)
		return NULL;
	link->setup = *setup;
	link->links = links;
	link->all_next = links->all;
	if (links->all)
		links->all->all_prev = link;
	links->all = link;
	links->n++;
	opener_take(link);
	return link;
}

static bool is_open_in(const struct link *link)
{
	return link->setup.kind == LINK_OPEN_IN;
}

/* For those who poll links_fd(). */
static int poll_target(const struct link *link, bool come)
{
	struct epoll_event event = { .events = EPOLLIN };

	return link->links->epoll_fd < 0
	    ? 0
	    : epoll_ctl(link->links->epoll_fd,
		  come ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, link->fd, &event);
}

/* A target comes or goes. Those of open flows can't be in the group. */
static int watch(struct link *link, bool come)
{
	struct dfi_target_group *group = link->links->group;

	if (!link->target)
		return 0;
	if (is_open_in(link))
		return poll_target(link, come);
	return come ? dfi_target_group_add(group, link->target, link)
		    : dfi_target_group_remove(group, link->target);
}

/* Pass the link to its helper, to be closed and perhaps opened again. */
static void take_down(struct link *link)
{
	struct links *links = link->links;

	watch(link, false);
	link->up = link->broken = link->dirty = false;
	link->full = link->idle = false;
	link->written = 0;
	link->span = (struct dfi_span){ .tuples = NULL };
	links->ops.changed(links->arg, link, false);
	opener_take(link);
}

static void note_broken(struct link *link)
{
	if (link->broken)
		return;
	link->broken = true;
	link->links->n_broken++;
}

void link_reset(struct link *link)
{
	if (link->up)
		note_broken(link);
}

void link_close(struct link *link)
{
	atomic_store(&link->closing, true);
	if (link->up)
		note_broken(link);
	else
		opener_kick(link);
}

bool link_up(const struct link *link)
{
	return link->up && !link->broken;
}

void *link_arg(const struct link *link)
{
	return link->setup.arg;
}

unsigned link_seat(const struct link *link)
{
	return link->seat;
}

size_t link_room(const struct link *link)
{
	return link->room;
}

/* -ENXIO: nobody has that end of an open flow. */
static bool is_hard(int ret)
{
	return ret != -EAGAIN && ret != -EINTR && ret != -ETIMEDOUT &&
	    ret != -ENXIO;
}

void *link_begin(struct link *link, size_t size)
{
	bool to_all = link->setup.kind == LINK_ORDERED || link->setup.replicate;

	return link_begin_to(link, to_all ? DFI_ALL_TARGETS : 0, size);
}

void *link_begin_to(struct link *link, unsigned target, size_t size)
{
	uint32_t n = (uint32_t)((size + LINK_TUPLE - 1) / LINK_TUPLE);
	int ret;

	if (!link->up || link->broken || !link->source)
		return NULL;
	ret = dfi_source_claim_n(link->source, target, n, &link->span);
	if (ret >= 0)
		return link->span.tuples;
	link->span.tuples = NULL;
	link->links->stats.refused++;
	link->full = ret == -EAGAIN && link_is_open(link);
	if (is_hard(ret))
		note_broken(link);
	return NULL;
}

static void flush_later(struct link *link)
{
	if (link->dirty)
		return;
	link->dirty = true;
	link->dirty_next = link->links->dirty;
	link->links->dirty = link;
}

void link_send(struct link *link, size_t size)
{
	uint32_t n = (uint32_t)((size + LINK_TUPLE - 1) / LINK_TUPLE);

	if (!link->span.tuples)
		return;
	link->written |= UINT64_C(1) << link->span.target % 64;
	if (dfi_source_commit_more(link->source, &link->span, n) < 0)
		note_broken(link);
	link->span.tuples = NULL;
	if (!link->broken)
		flush_later(link);
}

void link_send_alone(struct link *link, size_t size)
{
	uint32_t n = (uint32_t)((size + LINK_TUPLE - 1) / LINK_TUPLE);
	int ret = dfi_source_commit(link->source, &link->span, n);

	link->span.tuples = NULL;
	if (!ret)
		ret = dfi_source_flush(link->source);
	link->links->stats.segments_out++;
	if (ret == -EAGAIN)
		flush_later(link);
	else if (ret < 0 && is_hard(ret))
		note_broken(link);
}

/*
 * A segment of an ordered flow may wait for its position. It holds up all ends
 * of the flow, so it is flushed again until it is sent.
 */
void links_flush(struct links *links)
{
	struct link *link, *next, *late = NULL;
	int ret;

	for (link = links->dirty; link; link = next) {
		next = link->dirty_next;
		if (!link->dirty)
			continue;
		link->dirty = false;
		if (!link->source || link->broken)
			continue;
		links->stats.segments_out += (unsigned)__builtin_popcountll(
		    link->written);
		link->written = 0;
		ret = dfi_source_flush(link->source);
		if (ret == -EAGAIN) {
			link->dirty = true;
			link->dirty_next = late;
			late = link;
		} else if (ret < 0 && is_hard(ret)) {
			note_broken(link);
		}
	}
	links->dirty = late;
}

/* woken has the cause of the event, or will have it. */
static void clear_wake(struct links *links)
{
	uint64_t count;

	if (read(links->wake_fd, &count, sizeof(count)) > 0)
		atomic_store(&links->woken, true);
}

/* Links that the helpers have opened, or closed for good. */
static void take_ready(struct links *links)
{
	struct link *link, *next;

	if (links->epoll_fd >= 0)
		clear_wake(links);
	if (!atomic_exchange(&links->woken, false))
		return;
	pthread_mutex_lock(&links->lock);
	link = links->ready;
	links->ready = NULL;
	pthread_mutex_unlock(&links->lock);
	for (; link; link = next) {
		next = link->queue_next;
		if (link->gone) {
			link_drop(link);
			continue;
		}
		link->up = true;
		if (watch(link, true) < 0)
			note_broken(link);
		if (atomic_load(&link->closing))
			note_broken(link);
		links->ops.changed(links->arg, link, true);
	}
}

void link_drop(struct link *link)
{
	struct links *links = link->links;

	if (link->all_next)
		link->all_next->all_prev = link->all_prev;
	if (link->all_prev)
		link->all_prev->all_next = link->all_next;
	else
		links->all = link->all_next;
	links->n--;
	links->ops.closed(links->arg, link, link->setup.arg);
	free(link);
}

static void give(struct link *link, const struct dfi_batch *batch)
{
	struct links *links = link->links;

	links->ops.receive(links->arg, link, batch->source, batch->tuples,
	    (size_t)batch->count * LINK_TUPLE);
}

static void take_broken(struct links *links)
{
	struct link *link, *next;

	if (!links->n_broken)
		return;
	links_flush(links); /* its list must have no closed link */
	links->n_broken = 0;
	for (link = links->all; link; link = next) {
		next = link->all_next;
		if (link->up && link->broken)
			take_down(link);
	}
}

static unsigned take_group(struct links *links, unsigned n)
{
	struct dfi_target_group_batch batch = { .target = NULL };
	struct dfi_gap gap;
	struct link *link;
	unsigned taken = 0;
	int ret;

	while (taken < n) {
		ret = dfi_target_group_consume_batch(links->group, &batch);
		links->empty = !batch.target && !ret;
		if (!batch.target)
			break;
		link = batch.arg;
		if (ret > 0) {
			taken++;
			if (!link->broken)
				give(link, &batch.batch);
			dfi_target_group_release(links->group, &batch);
		} else if (ret == -ENODATA) {
			if (!dfi_target_gap(batch.target, &gap))
				links->ops.gap(links->arg, link, gap.count);
		} else if (!ret || is_hard(ret)) {
			note_broken(link);
		}
	}
	return taken;
}

static void take_event(struct link *link)
{
	struct links *links = link->links;
	struct dfi_event event;

	if (dfi_target_event(link->target, &event) < 0 ||
	    event.type == DFI_JOINED)
		return;
	if (link->setup.create)
		links->ops.left(links->arg, link, event.seat);
	else
		note_broken(link);
}

/* Who gets what is sent from now on. */
static void take_targets(struct link *link)
{
	struct links *links = link->links;
	struct dfi_event event;

	while (!dfi_source_event(link->source, &event))
		if (event.type == DFI_JOINED)
			links->ops.joined(links->arg, link, event.seat);
		else
			links->ops.left(links->arg, link, event.seat);
}

static unsigned take_open(struct link *link, unsigned n)
{
	struct dfi_batch batch;
	unsigned taken = 0;
	int ret;

	while (taken < n && link->up && !link->broken) {
		ret = dfi_target_consume_batch(link->target, &batch);
		if (ret > 0) {
			taken++;
			give(link, &batch);
			dfi_target_release(link->target, &batch);
		} else if (ret == -ENOMSG) {
			take_event(link);
		} else {
			link->idle = true;
			if (!ret || is_hard(ret))
				note_broken(link);
			break;
		}
	}
	return taken;
}

/*
 * Looking at an open target that has nothing costs system calls, so an owner
 * that is too busy to wait does it seldom. Who polls links_fd() does not wait.
 */
static bool is_due(const struct links *links, const struct link *link)
{
	return !link->idle || links->epoll_fd >= 0 ||
	    links->n_polls % LOOK_EVERY == 0;
}

unsigned links_poll(struct links *links, unsigned n)
{
	struct link *link;
	unsigned taken;

	take_ready(links);
	links->n_polls++;
	taken = take_group(links, n);
	for (link = links->all; link; link = link->all_next)
		if (is_open_in(link) && is_due(links, link))
			taken += take_open(link, n - taken);
		else if (link->up && link->setup.replicate && link->source)
			take_targets(link);
	links->stats.segments_in += taken;
	take_broken(links);
	return taken;
}

/*
 * What a wait looks at. A link that was full is tried again after the wait, so
 * that it says when it has room.
 */
static unsigned list_fds(struct links *links)
{
	struct pollfd *fds = links->fds;
	struct link *link;
	unsigned n = 0;

	fds[n++] = (struct pollfd){ .fd = links->wake_fd, .events = POLLIN };
	for (link = links->all; link; link = link->all_next)
		if (link->up && is_open_in(link))
			fds[n++] = (struct pollfd){ link->fd, POLLIN, 0 };
	/* It stays readable as long as there is no target. */
	if (!links->empty)
		fds[n++] = (struct pollfd){ links->group_fd, POLLIN, 0 };
	/* For the rest of links_flush(): an owner has one such flow. */
	if (links->dirty)
		fds[n++] = (struct pollfd){ dfi_source_fd(links->dirty->source),
			POLLIN, 0 };
	for (link = links->all; link; link = link->all_next) {
		if (link->up && link->full)
			fds[n++] = (struct pollfd){ link->fd, POLLIN, 0 };
		link->full = false;
	}
	return n;
}

/* After a wait. */
static void take_readable(struct links *links)
{
	const struct pollfd *fds = links->fds;
	struct link *link;

	if ((fds++)->revents)
		clear_wake(links);
	for (link = links->all; link; link = link->all_next)
		if (link->up && is_open_in(link) && (fds++)->revents)
			link->idle = false;
}

void links_wait(struct links *links, uint64_t until)
{
	uint64_t now = now_ns(), ns;
	struct timespec timeout;

	if (until <= now || links->n_broken || atomic_load(&links->woken))
		return;
	ns = until - now;
	timeout.tv_sec = (time_t)(ns / 1000000000);
	timeout.tv_nsec = (long)(ns % 1000000000);
	links->stats.waits++;
	if (ppoll(links->fds, list_fds(links), &timeout, NULL) > 0)
		take_readable(links);
}

void links_wake(struct links *links)
{
	uint64_t one = 1;

	if (atomic_exchange(&links->woken, true))
		return;
	while (write(links->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

int links_fd(struct links *links)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct link *link;

	if (links->epoll_fd >= 0)
		return links->epoll_fd;
	links->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (links->epoll_fd < 0)
		return -errno;
	epoll_ctl(links->epoll_fd, EPOLL_CTL_ADD, links->group_fd, &event);
	epoll_ctl(links->epoll_fd, EPOLL_CTL_ADD, links->wake_fd, &event);
	for (link = links->all; link; link = link->all_next)
		if (link->up && is_open_in(link))
			poll_target(link, true);
	return links->epoll_fd;
}

void links_query(const struct links *links, struct links_stats *stats)
{
	*stats = links->stats;
}

void links_close(struct links *links)
{
	struct link *link;

	if (!links)
		return;
	for (link = links->all; link; link = link->all_next)
		link_close(link);
	while (links->n) {
		links_poll(links, UINT32_MAX);
		if (links->n)
			links_wait(links, now_ns() + 100000000);
	}
	openers_stop(links);
	dfi_target_group_close(links->group);
	dfi_close(links->dfi);
	close(links->wake_fd);
	if (links->epoll_fd >= 0)
		close(links->epoll_fd);
	pthread_mutex_destroy(&links->lock);
	free(links->fds);
	free(links);
}
