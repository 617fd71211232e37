/* SPDX-License-Identifier: Apache-2.0 */
/* Between links.c, the owner's part, and link_opener.c, the helpers' part. */
#ifndef KV_LINKS_IMPL_H
#define KV_LINKS_IMPL_H

#include <dfi/dfi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "links.h"

struct opener;

/*
 * The time that a source has to connect to an attached target, and the time
 * that a lost datagram adds. Linux resends a request after the time for an
 * answer, 2^20 x 4.096 us (CMA_CM_RESPONSE_TIMEOUT), and twice that of a
 * packet, 2^18, in newer kernels 2^16 (CMA_IBOE_PACKET_LIFETIME), which it
 * rounds to 4096 + 2 x 1024 ms; an answer after 4096 ms.
 */
#define LINK_CONNECT_MS 3000
#define LINK_RESEND_MS (4096 + 2 * 1024)

/*
 * A link has one holder at a time: the owner while it is up, else its helper.
 * The queues hand it over, under their locks.
 */
struct link {
	struct link_setup setup;
	struct links *links;
	struct link *all_next, *all_prev; /* the owner's */
	struct link *queue_next; /* in a helper's queue, or in links->ready */
	struct link *dirty_next; /* the owner's */
	atomic_bool closing;     /* not to be opened again */
	/* Of the holder. */
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_span span;
	size_t room;   /* of a segment, if it is ordered */
	unsigned seat; /* if it is open, and its descriptor */
	int fd;
	bool gone; /* closed for good */
	/* The owner's. */
	bool up, broken, dirty;
	bool full; /* an open one has refused a message */
	bool idle; /* an open one had none, and its descriptor tells of more */
	uint64_t written; /* targets since the last flush, a bit each */
	/* The helper's. */
	bool created, logged;
	bool late; /* the last try to connect took all its time */
	uint64_t next_try, backoff;
	unsigned failures;
};

struct links {
	struct links_ops ops;
	void *arg;
	struct dfi *dfi;
	struct dfi_target_group *group;
	int group_fd, wake_fd, epoll_fd;
	/* The owner's. */
	struct link *all, *dirty;
	struct pollfd *fds; /* of each link, and three more */
	unsigned n, n_broken, n_polls;
	bool empty; /* the group has no target */
	struct links_stats stats;
	/* Both. */
	atomic_bool woken;
	pthread_mutex_t lock; /* of ready */
	struct link *ready;
	struct opener *openers;
	unsigned n_openers;
};

static inline bool link_is_open(const struct link *link)
{
	return link->setup.kind == LINK_OPEN_IN ||
	    link->setup.kind == LINK_OPEN_OUT;
}

/* link_flow.c: of all links, and of the flow of one. */
extern const struct dfi_schema link_schema;
void link_flow_attr(const struct link_setup *setup, struct dfi_flow_attr *attr);

int openers_start(struct links *links, unsigned n);
void openers_stop(struct links *links); /* all links are gone */

/*
 * The helper closes the link's ends, and opens them again unless it is closing.
 */
void opener_take(struct link *link);

/* The link, which may be held by its helper, is closing now. */
void opener_kick(struct link *link);

/* Forget a link that is gone. */
void link_drop(struct link *link);

#endif
