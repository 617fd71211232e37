/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport for tests: a network inside one process. Contexts of the process
 * reach each other over it as hosts do over RDMA: a writer fills a shadow ring
 * or a send buffer, and what it writes arrives later. Segments, completions,
 * credits and additions each travel for a random time, so that they overtake
 * each other; only the writes of one ring keep their order, as the seam
 * promises (transport.h).
 *
 * It is there if DFI_TEST_LOOPBACK has a seed, from which all that is random
 * follows. Threads still meet as the system has them meet, so a seed does not
 * repeat a run.
 *
 * loopback.c has the table, instances, and the owner of a ring; remote.c its
 * writer; wire.c what is under way between them.
 */
#ifndef DFI_TESTS_LOOPBACK_H
#define DFI_TESTS_LOOPBACK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "transport/transport.h"

struct loopback_remote;

struct loopback_ring {
	bool used;
	struct loopback_remote *writer; /* NULL: it has closed, or never came */
	/* Segments come without a footer: this one follows from the last. */
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

struct loopback_stage {
	struct stage base;
	uint32_t n_remotes;
	bool freed; /* by its writer */
};

/* A segment or an end mark, or of words an addition. */
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
	struct loopback_queue sent;    /* and not there yet */
	struct loopback_queue arrived; /* and not known here yet */
	uint32_t n_under_way;          /* in both */
	int64_t credit_due;            /* 0: none is under way */
	uint64_t consumed;
	enum ring_closed closed;
	uint64_t before; /* what the last addition has found */
	bool written;
	bool closing; /* it goes once nothing is under way */
};

extern const struct transport_ops loopback_ops;

/* Protects all of the above, of all contexts of the process. */
extern pthread_mutex_t loopback_lock;
extern struct loopback_remote *loopback_remotes;

extern struct loopback_export *loopback_exports;

/* loopback.c */

bool loopback_reaches(const struct transport *transport, const char *address);

/* Under the lock: free it if it is closing and has no remote any more. */
void loopback_put_export(struct loopback_export *export);

/*
 * remote.c: entries of the table; and, under the lock, the end of a remote that
 * is closing and of which nothing is under way.
 */

int loopback_remote_room(
    struct transport *transport, uint64_t size, uint64_t locked);
int loopback_stage_create(
    struct transport *transport, uint64_t size, struct stage **out);
void loopback_stage_free(struct stage *base);
int loopback_remote_open(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct stage *stage, const struct wait_limit *wait_limit,
    struct remote **out);
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

/* wire.c: the thread that has things arrive. The first start has the seed. */
int loopback_wire_start(uint64_t seed);
void loopback_wire_stop(void);

/* The rest under the lock. */
uint64_t loopback_random(void);
void loopback_send(
    struct loopback_remote *remote, struct loopback_request *request);
void loopback_send_credit(
    struct loopback_remote *remote, uint64_t consumed, enum ring_closed closed);

/* Drop what has not arrived, and tell the writer that its owner is gone. */
void loopback_cut(struct loopback_remote *remote);

/* Have all arrive whose time has come by then; without waiting for the lock. */
void loopback_deliver(int64_t now);
void loopback_look(void);

#endif
