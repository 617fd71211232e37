/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport for tests: a network inside one process. Contexts of the process
 * reach each other over it as hosts do over RDMA: a writer fills a shadow ring
 * or a send buffer, and its writes arrive later. Segments, completions, credits
 * and additions each travel for a random time, so they overtake each other.
 * Only the writes of one ring keep their order, as the seam promises
 * (transport.h).
 *
 * The transport exists if DFI_TEST_LOOPBACK has a seed, which determines the
 * random times. The kernel still schedules the threads, so a seed does not
 * repeat a run. DFI_TEST_LOOPBACK_DEVICES is the number of its devices. If
 * DFI_TEST_DETOUR is set, there is another one of the same kind, with a name of
 * its own.
 *
 * loopback.c has the table, instances, and the owner of a ring; remote.c the
 * ring's writer; wire.c what is on its way between them.
 */
#ifndef DFI_TESTS_LOOPBACK_H
#define DFI_TESTS_LOOPBACK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "transport/transports.h"

struct loopback_remote;

/* The lock protects its counters. */
struct loopback {
	struct transport base;
	uint64_t writes, bytes, credits, additions;
};

struct loopback_ring {
	bool used;
	struct loopback_remote *writer; /* NULL: closed, or not connected yet */
	/* Segments arrive without a footer: this one follows from the last. */
	bool bare;
	uint64_t footer[2];
};

struct loopback_export {
	struct export base;
	struct loopback_export *next;
	struct region *region;
	struct ring_layout layout;
	struct loopback_ring *rings;
	uint32_t n_remotes;
	bool closing;
};

struct loopback_send_buffer {
	struct send_buffer base;
	uint32_t n_remotes;
	bool freed; /* by its writer */
};

/* A segment or an end mark; for words, an addition. */
struct loopback_request {
	TAILQ_ENTRY(loopback_request) link;
	int64_t due;
	struct transport_write write;
	uint64_t offset, n; /* of an addition */
};

TAILQ_HEAD(loopback_queue, loopback_request);

struct loopback_remote {
	struct remote base;
	struct loopback_remote *next;
	struct loopback_export *export; /* NULL: the owner has stopped */
	struct ring_layout layout;
	uint32_t ring;
	struct loopback_queue sent;    /* and has not arrived */
	struct loopback_queue arrived; /* and is not known here yet */
	uint32_t n_under_way;          /* in both */
	int64_t credit_due;            /* 0: none is on its way */
	uint64_t consumed;
	enum ring_closed closed;
	uint64_t before; /* the word before the last addition */
	bool written;
	bool closing; /* it is freed once nothing is on its way */
};

extern const struct transport_ops loopback_ops, loopback_detour_ops;

/* The error with which rings of that transport are not opened, or 0. */
extern int loopback_refuses, loopback_detour_refuses;

/* The number from 1 of its device that is missing; 0: none is. */
extern uint32_t loopback_missing;

/* Protects all of the above, for all contexts of the process. */
extern pthread_mutex_t loopback_lock;
extern struct loopback_remote *loopback_remotes;

extern struct loopback_export *loopback_exports;

/* loopback.c */

bool loopback_reaches(const struct transport *transport, const char *address);

/* Under the lock: free it if it is closing and has no remotes. */
void loopback_put_export(struct loopback_export *export);

/*
 * remote.c: entries of the table. Under the lock: free a remote that is closing
 * once nothing of it is on its way.
 */

int loopback_remote_room(
    struct transport *transport, uint64_t size, uint64_t locked);
int loopback_send_buffer_create(
    struct transport *transport, uint64_t size, struct send_buffer **out);
void loopback_send_buffer_free(struct send_buffer *base);
int loopback_remote_open(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct send_buffer *send_buffer,
    const struct wait_limit *wait_limit, struct remote **out);
void loopback_remote_close(struct remote *base);
int loopback_remote_write(
    struct remote *base, const struct transport_write *write);
void loopback_remote_post(struct remote *remote);
int loopback_slot_is_free(struct remote *remote);
int loopback_drained(struct remote *remote);
int loopback_remote_progress(struct remote *remote);
void loopback_remote_arm(struct remote *remote);
const char *loopback_owner_why(const struct remote *remote);
int loopback_add(struct remote *base, uint64_t offset, uint64_t n);
int loopback_added(struct remote *base, uint64_t offset, uint64_t *before);

void loopback_free_remote(struct loopback_remote *remote);

/* wire.c: the thread that delivers. The first start sets the seed. */
int loopback_wire_start(uint64_t seed);
void loopback_wire_stop(void);

/* The functions below require the lock. */
uint64_t loopback_random(void);
void loopback_send(
    struct loopback_remote *remote, struct loopback_request *request);
void loopback_send_credit(
    struct loopback_remote *remote, uint64_t consumed, enum ring_closed closed);

/*
 * Drop what has not arrived, and report to the writer that its owner is gone.
 */
void loopback_cut(struct loopback_remote *remote);

/* Deliver all that is due by then; doesn't wait for the lock. */
void loopback_deliver(int64_t now);
void loopback_look(void);

#endif
