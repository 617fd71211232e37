/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two halves of the shared-memory transport share: regions (shm.c) and
 * the passing of their file descriptors (shm_pass.c).
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
	struct event *pause;     /* of the listener, after an error */
	struct shm_pass *passes; /* on the control thread only */
};

struct shm_region {
	struct region base;
	struct shm_region *next;
	int fd;
	unsigned
	    refs; /* the owner's, and one for each remote of this context */
};

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
