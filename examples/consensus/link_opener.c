/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper threads of links create flows, open and close their ends, and
 * retry failures for ever. All calls that may wait for the registry or for a
 * peer are here.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../common/complain.h"
#include "links_impl.h"

#define FIRST_BACKOFF_NS 1000000
#define LAST_BACKOFF_NS 200000000
#define OPEN_TIMEOUT_MS 250
/*
 * After this many conflicts with a flow that this process did not create, the
 * flow counts as left over: its process has ended, but the registry has not
 * noticed.
 */
#define FAILURES_MAX 12

struct opener {
	pthread_t thread;
	struct links *links;
	pthread_mutex_t lock; /* of the members below */
	pthread_cond_t changed;
	struct link *queue;
	bool stop;
};

/* Errors that time heals are not reported, as that there is no free seat. */
static void log_failure(struct link *link, int ret)
{
	if (link->logged || ret == -ETIMEDOUT || ret == -EEXIST ||
	    ret == -ECONNRESET || ret == -ENOTCONN || ret == -ENOENT ||
	    ret == -EBUSY || ret == -ESHUTDOWN)
		return;
	link->logged = true;
	complain("link %s: %s; trying again", link->setup.name, dfi_errmsg());
}

/*
 * Nothing waits here for the other ends of an ordered or open flow: their
 * processes may be closing them, and take nothing any more.
 */
static void close_ends(struct link *link)
{
	if (link->target)
		dfi_target_close(link->target);
	if (link->source &&
	    (link->setup.kind == LINK_ORDERED || link_is_open(link)))
		dfi_source_abort(link->source);
	if (link->source)
		dfi_source_close(link->source);
	if (link->created)
		dfi_flow_remove(link->links->dfi, link->setup.name);
	link->source = NULL;
	link->target = NULL;
	link->created = false;
}

static int create_flow(struct link *link)
{
	struct dfi *dfi = link->links->dfi;
	const struct link_setup *setup = &link->setup;
	struct dfi_flow_attr attr;
	int ret;

	link_flow_attr(setup, &attr);
	ret = dfi_flow_create(dfi, setup->name, &attr);
	if (ret == -EEXIST && link->failures >= FAILURES_MAX) {
		dfi_flow_remove(dfi, setup->name);
		ret = dfi_flow_create(dfi, setup->name, &attr);
	}
	link->created = ret >= 0;
	return ret;
}

static int open_target(struct link *link)
{
	const struct link_setup *setup = &link->setup;
	struct dfi_target_attr target = DFI_TARGET_ATTR_INIT;
	int ret;

	ret = create_flow(link);
	if (ret < 0)
		return ret;
	target.flags = DFI_NONBLOCK;
	return dfi_target_open(
	    link->links->dfi, setup->name, 0, &target, &link->target);
}

/*
 * A peer that is attached gets more time than an absent one, to connect over a
 * slow network or to a busy machine. After a try that was too short, or lost a
 * datagram, the next one outlasts a resend.
 */
static int open_source(struct link *link)
{
	struct dfi *dfi = link->links->dfi;
	const char *name = link->setup.name;
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_flow_info info;
	bool there = !dfi_flow_lookup(dfi, name, &info) &&
	    info.attached_targets;
	int ret;

	attr.flags = DFI_NONBLOCK;
	attr.schema = &link_schema;
	attr.open_timeout_ms = OPEN_TIMEOUT_MS;
	if (there)
		attr.open_timeout_ms = LINK_CONNECT_MS +
		    (link->late ? LINK_RESEND_MS : 0);
	attr.linger_us = DFI_NO_LINGER;
	ret = dfi_source_open(dfi, name, 0, &attr, &link->source);
	link->late = there && ret == -ETIMEDOUT;
	return ret;
}

/* Sources wait for all targets, so each end opens its target first. */
static int open_ordered(struct link *link)
{
	struct dfi *dfi = link->links->dfi;
	const struct link_setup *setup = &link->setup;
	struct dfi_target_attr target = DFI_TARGET_ATTR_INIT;
	struct dfi_source_attr source = DFI_SOURCE_ATTR_INIT;
	struct dfi_flow_info info;
	int ret;

	if (setup->create) {
		ret = create_flow(link);
		if (ret < 0)
			return ret;
	}
	target.flags = source.flags = DFI_NONBLOCK;
	target.open_timeout_ms = source.open_timeout_ms = setup->open_ms;
	source.linger_us = DFI_NO_LINGER;
	ret = dfi_target_open(
	    dfi, setup->name, setup->end, &target, &link->target);
	if (ret < 0)
		return ret;
	ret = dfi_source_open(
	    dfi, setup->name, setup->end, &source, &link->source);
	if (ret < 0)
		return ret;
	ret = dfi_flow_lookup(dfi, setup->name, &info);
	link->room = info.segment_size / LINK_TUPLE * LINK_TUPLE;
	return ret;
}

/* The creator has the first seat of its side, which has no other. */
static int open_member(struct link *link)
{
	struct dfi *dfi = link->links->dfi;
	const struct link_setup *setup = &link->setup;
	uint32_t seat = setup->create ? 0 : setup->end;
	struct dfi_target_attr target = DFI_TARGET_ATTR_INIT;
	struct dfi_source_attr source = DFI_SOURCE_ATTR_INIT;
	int ret = setup->create ? create_flow(link) : 0;

	if (ret < 0)
		return ret;
	target.flags = DFI_NONBLOCK | DFI_EVENTS;
	source.flags = DFI_NONBLOCK | (setup->replicate ? DFI_EVENTS : 0);
	target.schema = source.schema = &link_schema;
	target.open_timeout_ms = source.open_timeout_ms = OPEN_TIMEOUT_MS;
	source.linger_us = DFI_NO_LINGER;
	if (setup->kind == LINK_OPEN_IN) {
		ret = dfi_target_open(
		    dfi, setup->name, seat, &target, &link->target);
		if (ret < 0)
			return ret;
		link->seat = (unsigned)dfi_target_seat(link->target);
		link->fd = dfi_target_fd(link->target);
	} else {
		ret = dfi_source_open(
		    dfi, setup->name, seat, &source, &link->source);
		if (ret < 0)
			return ret;
		link->seat = (unsigned)dfi_source_seat(link->source);
		link->fd = dfi_source_fd(link->source);
	}
	return link->fd < 0 ? link->fd : 0;
}

static int open_end(struct link *link)
{
	if (link->setup.kind == LINK_IN)
		return open_target(link);
	if (link->setup.kind == LINK_ORDERED)
		return open_ordered(link);
	if (link_is_open(link))
		return open_member(link);
	return open_source(link);
}

static void give_to_owner(struct link *link)
{
	struct links *links = link->links;

	pthread_mutex_lock(&links->lock);
	link->queue_next = links->ready;
	links->ready = link;
	pthread_mutex_unlock(&links->lock);
	links_wake(links);
}

/* Try once. Returns whether the owner has the link now. */
static bool work(struct link *link)
{
	bool tried = link->created || link->source || link->target;
	int ret;

	close_ends(link);
	if (atomic_load(&link->closing) || (link->setup.once && tried)) {
		link->gone = true;
		give_to_owner(link);
		return true;
	}
	ret = open_end(link);
	if (!ret) {
		link->logged = false;
		link->failures = 0;
		link->backoff = 0;
		give_to_owner(link);
		return true;
	}
	log_failure(link, ret);
	close_ends(link);
	if (link->setup.once) {
		link->gone = true;
		give_to_owner(link);
		return true;
	}
	link->failures++;
	link->backoff = link->backoff ? link->backoff * 2 : FIRST_BACKOFF_NS;
	if (link->backoff > LAST_BACKOFF_NS)
		link->backoff = LAST_BACKOFF_NS;
	link->next_try = now_ns() + link->backoff;
	return false;
}

/* The link whose turn comes first, of equals the oldest; and when. Locked. */
static struct link *next_link(struct opener *opener, uint64_t *at)
{
	struct link *link, *first = NULL;

	for (link = opener->queue; link; link = link->queue_next)
		if (!first || link->next_try <= first->next_try)
			first = link;
	*at = first ? first->next_try : 0;
	return first;
}

static void unqueue(struct opener *opener, struct link *link)
{
	struct link **at;

	for (at = &opener->queue; *at != link; at = &(*at)->queue_next)
		;
	*at = link->queue_next;
}

static void enqueue(struct opener *opener, struct link *link)
{
	link->queue_next = opener->queue;
	opener->queue = link;
}

static void wait_until(struct opener *opener, uint64_t at)
{
	struct timespec until = {
		.tv_sec = (time_t)(at / 1000000000),
		.tv_nsec = (long)(at % 1000000000),
	};

	if (at)
		pthread_cond_timedwait(&opener->changed, &opener->lock, &until);
	else
		pthread_cond_wait(&opener->changed, &opener->lock);
}

static void *opener_main(void *arg)
{
	struct opener *opener = arg;
	struct link *link;
	uint64_t at;

	pthread_mutex_lock(&opener->lock);
	while (!opener->stop) {
		link = next_link(opener, &at);
		if (!link || at > now_ns()) {
			wait_until(opener, at);
			continue;
		}
		unqueue(opener, link);
		pthread_mutex_unlock(&opener->lock);
		if (work(link))
			link = NULL;
		pthread_mutex_lock(&opener->lock);
		if (!link)
			continue;
		if (atomic_load(&link->closing))
			link->next_try = 0;
		enqueue(opener, link);
	}
	pthread_mutex_unlock(&opener->lock);
	return NULL;
}

static struct opener *opener_of(struct link *link)
{
	return &link->links->openers[link->setup.helper];
}

void opener_take(struct link *link)
{
	struct opener *opener = opener_of(link);

	pthread_mutex_lock(&opener->lock);
	link->next_try = 0;
	enqueue(opener, link);
	pthread_cond_signal(&opener->changed);
	pthread_mutex_unlock(&opener->lock);
}

void opener_kick(struct link *link)
{
	struct opener *opener = opener_of(link);
	struct link *queued;

	pthread_mutex_lock(&opener->lock);
	for (queued = opener->queue; queued; queued = queued->queue_next)
		if (queued == link)
			queued->next_try = 0;
	pthread_cond_signal(&opener->changed);
	pthread_mutex_unlock(&opener->lock);
}

static int opener_start(struct opener *opener)
{
	sigset_t all, before;
	pthread_condattr_t attr;
	int ret;

	pthread_mutex_init(&opener->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&opener->changed, &attr);
	pthread_condattr_destroy(&attr);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&opener->thread, NULL, opener_main, opener);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -ret;
}

int openers_start(struct links *links, unsigned n)
{
	unsigned i;
	int ret;

	links->openers = calloc(n, sizeof(links->openers[0]));
	if (!links->openers)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		links->openers[i].links = links;
		ret = opener_start(&links->openers[i]);
		if (ret < 0) {
			openers_stop(links);
			return ret;
		}
		links->n_openers++;
	}
	return 0;
}

void openers_stop(struct links *links)
{
	struct opener *opener;
	unsigned i;

	for (i = 0; i < links->n_openers; i++) {
		opener = &links->openers[i];
		pthread_mutex_lock(&opener->lock);
		opener->stop = true;
		pthread_cond_signal(&opener->changed);
		pthread_mutex_unlock(&opener->lock);
		pthread_join(opener->thread, NULL);
	}
	free(links->openers);
}
