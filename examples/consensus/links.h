/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: one-way connections between two processes, restored whenever they
 * break. A link is a flow with one source and one target, whose tuples are 64
 * bytes; a message is a run of tuples in one segment, built in place at the
 * sender.
 *
 * Its receiver creates the flow and opens the target, its sender opens the
 * source. Helper threads do that, and close broken links, so the owner never
 * waits for the registry or a peer. A link that is up needs no registry.
 *
 * All calls but links_wake() are for one thread, the owner.
 */
#ifndef KV_LINKS_H
#define KV_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_TUPLE 64
#define LINK_MAX_NAME 120
#define LINK_ANY_SEAT UINT32_MAX

struct dfi;
struct links;
struct link;

enum link_kind {
	LINK_IN = 1, /* this process receives */
	LINK_OUT,
	/*
	 * An end of an open flow: one process, which creates it, has one end,
	 * and others come and go at the other ends. Theirs breaks when it goes.
	 * Nothing that breaks makes the others wait.
	 */
	LINK_OPEN_IN,
	LINK_OPEN_OUT,
	/*
	 * An end of an ordered flow: each end receives the messages of all
	 * ends, including its own, in one order. It lasts until one end is
	 * lost: use it once.
	 */
	LINK_ORDERED,
};

struct link_setup {
	enum link_kind kind;
	/*
	 * The helper thread that opens it, below links_setup.n_helpers. Opening
	 * a LINK_OUT waits for its receiver, so peers have one each.
	 */
	unsigned helper;
	char name[LINK_MAX_NAME];        /* of the flow */
	uint32_t segment_size, segments; /* of a ring; for the creator */
	/*
	 * LINK_ORDERED: over RDMA a segment is sent once, as a datagram to all
	 * ends; a lost one is reported as a gap. Then segment_size is not used:
	 * the device of the creating end limits the datagram, and link_room()
	 * is its room.
	 */
	bool multicast;
	/*
	 * LINK_ORDERED: how many there are, which one, who creates the flow,
	 * and how long its ends wait for each other.
	 */
	unsigned n_ends, end;
	bool create;
	unsigned open_ms;
	/*
	 * LINK_OPEN_IN and LINK_OPEN_OUT: end is which of the many, or
	 * LINK_ANY_SEAT. The creator sets how many there may be at once,
	 * whether each message goes to all targets, and after how long one is
	 * put out whose ring is full, or 0.
	 */
	unsigned n_sources, n_targets;
	bool replicate;
	unsigned evict_ms;
	bool once; /* when it breaks it is not made again: see closed() */
	void *arg; /* for the owner */
};

struct links_ops {
	/*
	 * The link has come up, or gone down. A link that is down takes
	 * nothing.
	 */
	void (*changed)(void *arg, struct link *link, bool up);
	/*
	 * Messages have come from a source: whole tuples, valid during the
	 * call. Each begins at a multiple of LINK_TUPLE, the first one at
	 * bytes.
	 */
	void (*receive)(void *arg, struct link *link, unsigned from,
	    const char *bytes, size_t size);
	/*
	 * LINK_OPEN_IN of the creator: a source has gone, and all of it came.
	 * LINK_OPEN_OUT that replicates: a target gets what is sent from now
	 * on, or has gone.
	 */
	void (*joined)(void *arg, struct link *link, unsigned to);
	void (*left)(void *arg, struct link *link, unsigned from);
	/*
	 * LINK_ORDERED: the next n segments are lost; receive() continues
	 * behind them. One call of receive() has one segment there.
	 */
	void (*gap)(void *arg, struct link *link, uint32_t n);
	/* A link that was closed or broke for good is gone. */
	void (*closed)(void *arg, struct link *link, void *link_arg);
};

struct links_setup {
	const char *registry;  /* NULL: DFI_REGISTRY */
	const char *node_name; /* shown to peers */
	unsigned n_helpers;
	unsigned open_timeout_ms; /* of joining the registry */
	struct links_ops ops;
	void *arg;
};

/* Join the registry and start the helpers. Errors are those of dfi_open(). */
int links_open(const struct links_setup *setup, struct links **links);

/* The context that the links use. */
struct dfi *links_dfi(const struct links *links);

/*
 * Add to a sum the memory that this process's ends of a link reserve with a
 * context's settings. 0, or an error of dfi_flow_estimate().
 */
int link_needs(
    struct dfi *dfi, const struct link_setup *setup, uint64_t *bytes);

/* Close all links, wait for the helpers, and leave the registry. */
void links_close(struct links *links);

/* Add a link, which comes up later. NULL: ENOMEM. */
struct link *links_add(struct links *links, const struct link_setup *setup);

/* Give a link up: closed() tells when it is gone. */
void link_close(struct link *link);

/* Take the link down as if it had broken, and restore it. */
void link_reset(struct link *link);

bool link_up(const struct link *link);
void *link_arg(const struct link *link);

/* Which end of a LINK_OPEN_IN or LINK_OPEN_OUT it is, while it is up. */
unsigned link_seat(const struct link *link);

/* The largest message that a LINK_ORDERED takes, while it is up. */
size_t link_room(const struct link *link);

/*
 * Room for a message of at most size bytes, or NULL: the link is down, or its
 * ring is full. Valid until the next call with this link. Never waits.
 */
void *link_begin(struct link *link, size_t size);

/* The same to one target of a LINK_OPEN_OUT that does not replicate. */
void *link_begin_to(struct link *link, unsigned target, size_t size);

/* Send the first size bytes of it, with the next links_flush(). */
void link_send(struct link *link, size_t size);

/* Send it now, in a segment of its own. */
void link_send_alone(struct link *link, size_t size);

/* Send all messages of link_send(): call it once for each turn of a loop. */
void links_flush(struct links *links);

/*
 * Take up to n segments, and changes of links. Returns the number of segments;
 * 0: no more for now.
 */
unsigned links_poll(struct links *links, unsigned n);

/* Wait for more, for links_wake(), or until the time (CLOCK_MONOTONIC). */
void links_wait(struct links *links, uint64_t until);

/* End the wait, or the next one. Any thread. */
void links_wake(struct links *links);

/* Becomes readable when a wait would end. */
int links_fd(struct links *links);

uint64_t now_ns(void); /* CLOCK_MONOTONIC */

/* How many flow segments were sent and received, and how often it slept. */
struct links_stats {
	uint64_t segments_in, segments_out, refused, waits;
};
void links_query(const struct links *links, struct links_stats *stats);

#endif
