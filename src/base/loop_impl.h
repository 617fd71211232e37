/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the loop: loop.c (its life) and loop_call.c (work from
 * other threads).
 */
#ifndef DFI_BASE_LOOP_IMPL_H
#define DFI_BASE_LOOP_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include "loop.h"

struct event;

struct loop {
	char name[16];
	struct event_base *base;
	struct event *wake_event;
	struct event *look_event;
	int wake_fd;
	pthread_t thread;
	/*
	 * Protects posts, running, stop, ended, abandoned, and each call's
	 * result.
	 */
	pthread_mutex_t lock;
	STAILQ_HEAD(post_queue, loop_post) posts;
	/* NULL: none, or a call whose caller has stopped waiting. */
	struct loop_post *running;
	struct loop_post last;
	bool stop;
	bool ended;          /* the thread has ended; join it */
	pthread_cond_t end;  /* ended is set */
	bool abandoned;      /* the thread is not joined: it frees the loop */
	_Atomic bool broken; /* see serve_posts() */
	_Atomic int64_t ran_at; /* shortly before its last turn */
	pthread_cond_t called;  /* wakes a broken loop */
};

/*
 * Run the pending posts in order. true: the loop is to stop; then none is left.
 */
bool dfi__loop_run_posts(struct loop *loop);

/* Wake the loop, so that it runs its posts. */
void dfi__loop_wake(struct loop *loop);

/* Note that the calling thread is the loop's. */
void dfi__loop_set_current(struct loop *loop);

#endif
