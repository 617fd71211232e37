/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread of a context: one libevent loop on one named thread with
 * all signals masked. The registry connection, watches and the passing of
 * shared-memory file descriptors run on it; no tuple ever does.
 *
 * The event base has no locks: whoever is on the loop's thread owns it, and
 * dfi__loop_call() is the only way there. Thus an application's own use of
 * libevent, with or without its thread support, is never touched.
 */
#ifndef DFI_BASE_LOOP_H
#define DFI_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct event_base;
struct loop;

/* Work for the loop's thread; the caller keeps it. Begins with fn, arg. */
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
 * Run what other threads have asked for, let the loop end, join the thread,
 * free. Events still on the base must be freed before, by a dfi__loop_call().
 * Not from the loop's own thread.
 */
void dfi__loop_stop(struct loop *loop);

/*
 * The same, but the thread first runs last(arg), if there is one, where calls
 * run at once. It is waited for until the deadline; behind that, the thread
 * does all of it when it runs, and the library stays loaded.
 */
void dfi__loop_finish(
    struct loop *loop, void (*last)(void *arg), void *arg, int64_t deadline);

/*
 * Start the thread and wait until it runs. -ETIMEDOUT: it has not run at the
 * deadline. Then it frees the loop when it runs, and the library stays loaded.
 */
int dfi__loop_start_until(
    const char *name, int64_t deadline, struct loop **loop);

/* For adding events; only on the loop's thread (see dfi__loop_call()). */
struct event_base *dfi__loop_base(struct loop *loop);

/*
 * Run fn(arg) on the loop's thread and return after it ran, with what it
 * returned. If that is negative, the error text that fn set becomes the
 * caller's. Called on the loop's thread, runs fn at once. There is no deadline:
 * for where dfi__loop_check() has just said that the thread runs.
 */
int dfi__loop_call(struct loop *loop, int (*fn)(void *arg), void *arg);

/*
 * The same, but -ETIMEDOUT if fn has not begun at the deadline; then it never
 * runs.
 */
int dfi__loop_call_until(
    struct loop *loop, int (*fn)(void *arg), void *arg, int64_t deadline);

/*
 * Have the loop's thread run post->fn once, and return at once. A post that is
 * queued already is not queued twice. It runs before calls that are made later.
 */
void dfi__loop_post(struct loop *loop, struct loop_post *post);

/* Withdraw it; on the loop's thread. */
void dfi__loop_unpost(struct loop *loop, struct loop_post *post);

/* Whether it runs calls: 0, or -ETIMEDOUT as above. */
int dfi__loop_check(struct loop *loop, int64_t deadline);

/*
 * Whether the application has closed the loop's descriptors. No event comes any
 * more; calls still run. It is noticed after a second at most. Any thread.
 */
bool dfi__loop_is_broken(const struct loop *loop);

/*
 * Whether its thread has not run for two seconds or more, for the text of an
 * error that comes of it; and that text, with -ETIMEDOUT. Any thread.
 */
bool dfi__loop_is_stuck(const struct loop *loop);
int dfi__loop_fail_stuck(const struct loop *loop);

/* Whether the caller is on the loop's thread. */
bool dfi__loop_is_current(const struct loop *loop);

#endif
