/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the shared-memory transport share: regions (shm.c), their
 * memory (memory.c), what peers are shown (share.c), spare ones (spare.c), the
 * passing of their file descriptors (pass.c, ask.c), and reports over the same
 * socket (report.c).
 */
#ifndef DFI_TRANSPORT_SHM_SHM_H
#define DFI_TRANSPORT_SHM_SHM_H

#include <pthread.h>
#include <sys/queue.h>
#include "base/log.h"
#include "transport/transport.h"

struct acceptor;
struct shm_pass;
struct shm_request;
struct shm_show_request;
struct shm_view;

TAILQ_HEAD(shm_spares, shm_region);

struct shm {
	struct transport base;
	struct loop *loop;
	const struct settings *settings;
	pthread_mutex_t lock; /* protects regions, their refs, and spares */
	struct shm_region *regions;
	struct shm_spares spares; /* the newest first */
	uint64_t spare_bytes;
	uint32_t n_spares;
	int listener;
	struct acceptor *acceptor;
	/* On the control thread only: */
	int reserve; /* a descriptor to give up for a peer's, or -1 */
	TAILQ_HEAD(, shm_pass) passes; /* the longest there comes first */
	unsigned n_passes;
	struct log_throttle strangers, nonsense, failures;
	void *(*report)(void *arg, uint64_t after, size_t *size);
	void *report_arg;
};

struct shm_region {
	struct region base;
	struct shm_region *next;
	int fd;
	uint64_t page; /* bytes of a page of this memory */
	unsigned node; /* of the processor that touched it first */
	/* The owner's, and one for each remote of this context. */
	unsigned refs;
	uint32_t n_passed; /* how often its descriptor was */
	/* A process of another user has got it, or it was shown. */
	bool elsewhere;
	struct shm_view *views; /* shown for its rings; under the lock */
	bool closed;            /* by its owner: nothing is shown any more */
	/* Of a spare one: */
	TAILQ_ENTRY(shm_region) link;
	int64_t kept_at;
};

/* How many of those that it was passed to have let go of a region. */
static inline _Atomic uint32_t *shm_let_go(void *base)
{
	return (
	    _Atomic uint32_t *)(void *)((char *)base + REGION_LET_GO_OFFSET);
}

/* Drop a hold on a region: the last one frees it, or keeps it as a spare. */
void dfi__shm_region_put(struct shm *shm, struct shm_region *region);

/* memory.c */

/*
 * Whether so many bytes of address space are left, without which mmap() would
 * not say why it fails: 0, or -ENOMEM with a remedy.
 */
int dfi__shm_memory_room(uint64_t size);

/* What create() takes for size bytes, without huge pages it need not have. */
uint64_t dfi__shm_memory_bytes(uint64_t size, const struct settings *settings);

/* Give a region memory, touched by the calling thread. */
int dfi__shm_memory_create(
    struct shm_region *region, uint64_t size, const struct settings *settings);

/* Map all of a descriptor, to write to or only to read. Bare errno values. */
int dfi__shm_memory_map(int fd, uint64_t size, bool writes,
    const struct settings *settings, void **base);

/* The error that a bare errno value for size bytes means. */
int dfi__shm_memory_fail(int err, uint64_t size);

/* A descriptor that came from outside is of a sealed memfd of name's size. */
int dfi__shm_memory_check(int fd, const struct region_name *name);

/* Unmap a region that is in no list. */
void dfi__shm_region_free(struct shm_region *region);

/* spare.c */

/* The memory node of the processor that the calling thread is on. */
unsigned dfi__shm_memory_node(void);

/*
 * Spare regions. Take one of so many bytes, near the calling thread, or NULL.
 * Keep one that is in no list: false if it can't be. Free all: whether there
 * were any.
 */
struct shm_region *dfi__shm_spare_take(struct shm *shm, uint64_t size);
bool dfi__shm_spare_keep(struct shm *shm, struct shm_region *region);
bool dfi__shm_spares_free(struct shm *shm);

/*
 * How long peers have to let go, before they are taken for dead; only tests
 * change it.
 */
extern int64_t dfi__shm_wait_limit_ns;

/* ask.c */

/*
 * A connection with the process at an address, which runs as our user:
 * -ECONNRESET, also if it was given up, -EACCES, -ETIMEDOUT, -EMFILE, -EIO.
 */
int dfi__shm_pass_connect(
    const char *address, const struct wait_limit *wait_limit, int *socket);

/*
 * Connect, send a request with fd, or -1, and wait for an answer, a refusal, or
 * the end of the connection.
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

/* Show a region by its descriptor to the owner of another one. */
int dfi__shm_pass_show(const struct region_name *to,
    struct shm_show_request *request, int fd,
    const struct wait_limit *wait_limit);

/* share.c */

/*
 * The transport's show() and shown(). Serving: on the control
 * thread, a bare negative errno value, and fd stays the caller's. It is -EMFILE
 * if one came for which there was no room, -1 if none came.
 */
int dfi__shm_show(struct region *shown, const struct region_name *to,
    uint32_t ring, const struct wait_limit *wait_limit);
const void *dfi__shm_shown(
    struct region *region, uint32_t ring, uint64_t key, uint64_t *size);
int dfi__shm_show_serve(
    struct shm *shm, const struct shm_show_request *request, int fd);
/* -EBADMSG: what was shown for a region is not what its owner wants. */
int dfi__shm_fail_shown(const struct region_name *to);
void dfi__shm_views_free(struct shm *shm, struct shm_region *region);

/* report.c */

/* Answer a request for a report; on the control thread, never waits. */
void dfi__shm_report_serve(
    struct shm *shm, int socket, const struct shm_request *request);

/* pass.c */

/* How long a peer has for asking; only tests change it. */
extern int dfi__shm_pass_timeout_s;

/* Listen on a fresh abstract socket and serve file descriptors. */
int dfi__shm_pass_start(struct shm *shm);
void dfi__shm_pass_stop(struct shm *shm);

/* report_ops.serve() and fetch(). */
int dfi__shm_report(struct transport *transport,
    void *(*report)(void *arg, uint64_t after, size_t *size), void *arg);
int dfi__shm_report_fetch(const char *address, uint64_t after, int64_t deadline,
    void **data, size_t *size);

#endif
