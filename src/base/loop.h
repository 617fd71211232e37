/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread of a context: one libevent loop on one named thread with
 * all signals masked. The registry connection, watches and the passing of
 * shared-memory descriptors run on it; tuples never do.
 *
 * The event base has no locks. Only code on the loop's thread may use it, and
 * other threads get there by dfi__loop_call(). So the library never touches an
 * application's own use of libevent, with or without its thread support.
 */
#ifndef DFI_BASE_LOOP_H
#define DFI_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct event_base;
struct loop;

/* Work for the loop's thread. The caller owns it. Set fn and arg first. */
struct loop_post {
	void (*fn)(void *arg);
	void *arg;
	bool queued;
	STAILQ_ENTRY(loop_post) link;
};

/*
 * Start the thread, named name (at most 15 characters). -EINVAL for a longer
 * one, -ENOMEM, -EMFILE, or -EIO.
 */
int dfi__loop_start(const char *name, struct loop **loop);

/*
 * Run all pending posts, and then last(arg) unless last is NULL; there, calls
 * run at once. End the loop, join the thread, and free the loop. By then all
 * events on the base are freed, by a dfi__loop_call() or by last. The caller
 * waits until the deadline. After that, the thread does the rest when it runs,
 * and the library stays loaded. Not from the loop's own thread.
 */
void dfi__loop_finish(
    struct loop *loop, void (*last)(void *arg), void *arg, int64_t deadline);

/*
 * Start the thread and wait until it runs. -ETIMEDOUT: it has not run at the
 * deadline. Then the thread frees the loop when it runs, and the library stays
 * loaded.
 */
int dfi__loop_start_until(
    const char *name, int64_t deadline, struct loop **loop);

/* For adding events. Only on the loop's thread (see dfi__loop_call()). */
struct event_base *dfi__loop_base(struct loop *loop);

/*
 * Run fn(arg) on the loop's thread, and return its result afterwards. If that
 * is negative, fn's error text becomes the caller's. On the loop's thread, fn
 * runs at once. -ETIMEDOUT: fn has not returned at the deadline. If it has
 * begun, it goes on; otherwise it never runs. So free what fn uses only on the
 * loop's thread, by a later post, dfi__loop_end() or dfi__loop_finish().
 */
int dfi__loop_call(
    struct loop *loop, int (*fn)(void *arg), void *arg, int64_t deadline);

/*
 * Have the loop's thread run post->fn once, and return at once. A queued post
 * is not queued again. It runs before later calls.
 */
void dfi__loop_post(struct loop *loop, struct loop_post *post);

/* Withdraw a post. On the loop's thread. */
void dfi__loop_unpost(struct loop *loop, struct loop_post *post);

/*
 * Run post->fn on the loop's thread; it may free what post lies in. The caller
 * waits until the deadline. After that, the thread does it when it runs. On the
 * loop's thread, fn runs at once. Afterwards dfi_errmsg() is fn's text, or
 * unchanged.
 */
void dfi__loop_end(struct loop *loop, struct loop_post *post, int64_t deadline);

/* Check that the loop runs calls: 0, or -ETIMEDOUT as above. */
int dfi__loop_check(struct loop *loop, int64_t deadline);

/*
 * Whether the application has closed the loop's descriptors. Then calls still
 * run, but events don't. The loop notices within a second. Any thread.
 */
bool dfi__loop_is_broken(const struct loop *loop);

/*
 * Whether the loop's thread has not run for two seconds; and the error text for
 * that, with -ETIMEDOUT. Any thread.
 */
bool dfi__loop_is_stuck(const struct loop *loop);
int dfi__loop_fail_stuck(const struct loop *loop);

/* Whether the caller is on the loop's thread. */
bool dfi__loop_is_current(const struct loop *loop);

#endif
