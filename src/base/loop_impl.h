/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the loop share: loop.c (its life) and loop_call.c (what
 * other threads ask of it).
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
	/* Protects posts, stop, ended, abandoned, and each call's result. */
	pthread_mutex_t lock;
	STAILQ_HEAD(post_queue, loop_post) posts;
	struct loop_post last;
	bool stop;
	bool ended;             /* the thread: nothing is left but to join it */
	pthread_cond_t end;     /* ended is set */
	bool abandoned;         /* nobody joins the thread: it frees the loop */
	_Atomic bool broken;    /* see serve_posts() */
	_Atomic int64_t ran_at; /* not long before its last turn */
	pthread_cond_t called;  /* for a loop that is broken */
};

/*
 * Run the posts that wait, in their order. Returns whether the loop is to stop,
 * which it may only with none left.
 */
bool dfi__loop_run_posts(struct loop *loop);

/* Have it do so. */
void dfi__loop_wake(struct loop *loop);

/* The calling thread is the loop's. */
void dfi__loop_set_current(struct loop *loop);

#endif
