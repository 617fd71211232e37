/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the shared-memory transport share: regions (shm.c), the
 * passing of their file descriptors (shm_pass.c), and reports over the same
 * socket (shm_report.c).
 */
#ifndef DFI_TRANSPORT_SHM_H
#define DFI_TRANSPORT_SHM_H

#include <pthread.h>
#include "transport.h"

struct evconnlistener;
struct event;
struct shm_pass;

struct shm {
	struct transport base;
	struct loop *loop;
	const struct settings *settings;
	pthread_mutex_t lock; /* protects regions and their refs */
	struct shm_region *regions;
	struct evconnlistener *listener;
	struct event *pause; /* of the listener, after an error */
	/* On the control thread only: */
	struct shm_pass *passes;
	void *(*report)(void *arg, uint64_t after, size_t *size);
	void *report_arg;
};

struct shm_region {
	struct region base;
	struct shm_region *next;
	int fd;
	unsigned
	    refs; /* the owner's, and one for each remote of this context */
};

/* What a peer asks for, and the start of the answer. */
struct shm_request {
	uint32_t magic;
	uint32_t version;
	uint64_t key; /* of a region, or what the report is about */
};

struct shm_reply {
	uint32_t magic;
	int32_t error; /* 0, or a negative errno value */
};

#define SHM_REPORT_MAGIC UINT32_C(0x44464953) /* "DFIS" */
#define SHM_REPORT_VERSION 1

/* Answer a request for a report; on the control thread, never waits. */
void dfi__shm_report_serve(
    struct shm *shm, int socket, const struct shm_request *request);

/*
 * A connection with the process at an address, which runs as our user:
 * -ECONNRESET, -EACCES, -ETIMEDOUT, -EMFILE, -EIO.
 */
int dfi__shm_pass_connect(const char *address, int64_t deadline, int *socket);

/* Wait for its answer. */
int dfi__shm_pass_await(int socket, const char *address, int64_t deadline);

/* Listen on a fresh abstract socket and serve file descriptors. */
int dfi__shm_pass_start(struct shm *shm);
void dfi__shm_pass_stop(struct shm *shm);

/*
 * Ask the owner for a region's file descriptor. On success *fd is the
 * caller's.
 */
int dfi__shm_pass_fetch(
    const struct region_name *name, int64_t deadline, int *fd);

#endif
