/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the shared-memory transport share: regions (shm.c), their
 * memory (memory.c), granted regions (share.c), spare regions (spare.c), the
 * passing of file descriptors (pass.c, ask.c), and reports over the same socket
 * (report.c).
 */
#ifndef DFI_TRANSPORT_SHM_SHM_H
#define DFI_TRANSPORT_SHM_SHM_H

#include <pthread.h>
#include <sys/queue.h>
#include "base/log.h"
#include "base/loop.h"
#include "transport/transport.h"

struct acceptor;
struct shm_pass;
struct shm_request;
struct shm_grant_request;
struct shm_view;

TAILQ_HEAD(shm_spares, shm_region);

struct shm {
	struct transport base;
	struct loop *loop;
	const struct settings *settings;
	struct loop_post end; /* frees it */
	/* Protects regions, their refs, spares, and report. */
	pthread_mutex_t lock;
	struct shm_region *regions;
	struct shm_spares spares; /* the newest first */
	uint64_t spare_bytes;
	uint32_t n_spares;
	int listener;
	struct acceptor *acceptor;
	bool paused; /* it accepts nothing for a while */
	/* On the control thread only: */
	int reserve; /* descriptor to close when a peer needs one, or -1 */
	TAILQ_HEAD(, shm_pass) passes; /* oldest first */
	unsigned n_passes;
	struct log_throttle strangers, nonsense, other_versions, failures;
	void *(*report)(void *arg, uint64_t after, size_t *size);
	void *report_arg;
};

struct shm_region {
	struct region base;
	struct shm_region *next;
	int fd;
	uint64_t page; /* size of a page of this memory */
	unsigned node; /* memory node of the processor that touched it first */
	/* References: the owner's, and one of each remote of this context. */
	unsigned refs;
	uint32_t n_passed; /* how often its descriptor was passed */
	/* A process of another user has it, or it was granted. */
	bool elsewhere;
	struct shm_view *views; /* granted for its rings; under the lock */
	bool closed;            /* by its owner: accepts no more grants */
	/* Only for a spare region: */
	TAILQ_ENTRY(shm_region) link;
	int64_t kept_at;
};

/* How many of the processes that got the region have released it. */
static inline _Atomic uint32_t *shm_released(void *base)
{
	return (
	    _Atomic uint32_t *)(void *)((char *)base + REGION_RELEASED_OFFSET);
}

/* Release a reference; the last one frees or spares the region. */
void dfi__shm_region_put(struct shm *shm, struct shm_region *region);

/* memory.c */

/*
 * Check that size bytes of address space are left: 0, or -ENOMEM with a remedy.
 * mmap() would not say why it fails.
 */
int dfi__shm_memory_room(uint64_t size);

/* How much memory create() takes, without optional huge pages. */
uint64_t dfi__shm_memory_bytes(uint64_t size, const struct settings *settings);

/* Give a region memory, touched by the calling thread. */
int dfi__shm_memory_create(
    struct shm_region *region, uint64_t size, const struct settings *settings);

/* Map all of a descriptor, writable or read-only. Bare errno values. */
int dfi__shm_memory_map(int fd, uint64_t size, bool writes,
    const struct settings *settings, void **base);

/* Make pages of such a mapping present, from the calling thread. */
void dfi__shm_memory_populate(
    void *base, uint64_t from, uint64_t size, bool writes);

/* Convert a bare errno value for size bytes to an error with a text. */
int dfi__shm_memory_fail(int err, uint64_t size);

/* Check that a descriptor from outside is a sealed memfd of name's size. */
int dfi__shm_memory_check(int fd, const struct region_name *name);

/* Unmap a region that is in no list. */
void dfi__shm_region_free(struct shm_region *region);

/* spare.c */

/* The memory node of the processor that runs the calling thread. */
unsigned dfi__shm_memory_node(void);

/*
 * Spare regions. take() returns one of size bytes, near the calling thread,
 * or NULL. keep() stores a region that is in no list; false: it can't. free()
 * frees all; returns whether there were any.
 */
struct shm_region *dfi__shm_spare_take(struct shm *shm, uint64_t size);
bool dfi__shm_spare_keep(struct shm *shm, struct shm_region *region);
bool dfi__shm_spares_free(struct shm *shm);

/* How long peers have to release a region; only tests change it. */
extern int64_t dfi__shm_wait_limit_ns;

/* ask.c */

/*
 * Connect to the process at an address, which runs as our user: -ECONNRESET,
 * also if the wait was given up, -EACCES, -ETIMEDOUT, -EMFILE, -EIO.
 */
int dfi__shm_pass_connect(
    const char *address, const struct wait_limit *wait_limit, int *socket);

/*
 * Connect, send a request with fd unless that is -1, and wait for an answer, a
 * refusal, or the end of the connection.
 */
int dfi__shm_pass_ask(const char *address, const void *request, size_t size,
    int fd, const struct wait_limit *wait_limit, int *socket);

/*
 * Call attempt(arg) until it returns something other than -EAGAIN, which says
 * that the connection ended without an answer. If the process is gone, the next
 * attempt can't connect; otherwise it had too many peers at once.
 */
int dfi__shm_pass_retry(int (*attempt)(void *arg), void *arg,
    const struct wait_limit *wait_limit, const char *address);

/*
 * Ask the owner for a region's file descriptor. On success *fd is the
 * caller's.
 */
int dfi__shm_pass_fetch(const struct region_name *name,
    const struct wait_limit *wait_limit, int *fd);

/* Grant a region, by its descriptor, to the owner of another one. */
int dfi__shm_pass_grant(const struct region_name *to,
    struct shm_grant_request *request, int fd,
    const struct wait_limit *wait_limit);

/* share.c */

/*
 * region_ops.grant(), granted() and forget(), and the side that serves a grant.
 * The latter runs on the control thread, returns a bare negative errno value,
 * and leaves fd to the caller: -EMFILE if there was no room for the descriptor
 * that came, -1 if none came.
 */
int dfi__shm_grant(struct region *granted, const struct region_name *to,
    uint32_t ring, const struct wait_limit *wait_limit);
const void *dfi__shm_granted(
    struct region *region, uint32_t ring, uint64_t key, uint64_t *size);
void dfi__shm_forget(struct region *region, uint32_t ring);
int dfi__shm_grant_serve(
    struct shm *shm, const struct shm_grant_request *request, int fd);
/* -EBADMSG: the region that was granted for another one does not fit it. */
int dfi__shm_fail_granted(const struct region_name *to);
void dfi__shm_views_free(struct shm *shm, struct shm_region *region);

/* report.c */

/* Answer a request for a report; on the control thread, never waits. */
void dfi__shm_report_serve(
    struct shm *shm, int socket, const struct shm_request *request);

/* pass.c */

/* How long a peer may take to send its request; only tests change it. */
extern int dfi__shm_pass_timeout_s;

/* Listen on a new abstract socket and serve file descriptors. */
int dfi__shm_pass_start(struct shm *shm, int64_t deadline);
/* On the control thread, also after a failed start. */
void dfi__shm_pass_stop(struct shm *shm);

/* report_ops.serve() and fetch(). */
void dfi__shm_report(struct transport *transport,
    void *(*report)(void *arg, uint64_t after, size_t *size), void *arg);
int dfi__shm_report_fetch(const char *address, uint64_t after, int64_t deadline,
    void **data, size_t *size);

#endif
