/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work that other threads give to a loop: posts, and calls, which are posts
 * whose callers wait.
 */
#include "loop_impl.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "atomic.h"
#include "cancel.h"
#include "clock.h"
#include "error.h"

static _Thread_local struct loop *current_loop;

void dfi__loop_set_current(struct loop *loop)
{
	current_loop = loop;
}

bool dfi__loop_run_posts(struct loop *loop)
{
	struct loop_post *post;
	void (*fn)(void *arg) = NULL;
	void *arg = NULL;
	bool stop;

	for (;;) {
		pthread_mutex_lock(&loop->lock);
		post = STAILQ_FIRST(&loop->posts);
		if (post) {
			STAILQ_REMOVE_HEAD(&loop->posts, link);
			post->queued = false;
			fn = post->fn;
			arg = post->arg;
		}
		loop->running = post;
		stop = loop->stop;
		pthread_mutex_unlock(&loop->lock);
		if (!post)
			return stop;
		/* A call's post may be gone by now: run_call() looks. */
		fn(arg);
	}
}

void dfi__loop_wake(struct loop *loop)
{
	uint64_t one = 1;
	ssize_t n;

	pthread_cond_signal(&loop->called);
	if (atomic_peek(&loop->broken))
		return;
	/*
	 * write() fails if the counter is full; then the loop is awake anyway.
	 */
	do
		n = write(loop->wake_fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}

bool dfi__loop_is_current(const struct loop *loop)
{
	return current_loop == loop;
}

bool dfi__loop_is_broken(const struct loop *loop)
{
	return atomic_peek(&loop->broken);
}

int dfi__loop_fail_stuck(const struct loop *loop)
{
	return dfi__fail(-ETIMEDOUT,
	    "thread '%s' has not run in time: real-time threads may take all "
	    "its processors (DFI_CONTROL_CPUS), the application's log "
	    "callback may hold it up, or this process was stopped meanwhile",
	    loop->name);
}

void dfi__loop_post(struct loop *loop, struct loop_post *post)
{
	CANCEL_OFF;

	pthread_mutex_lock(&loop->lock);
	if (!post->queued)
		STAILQ_INSERT_TAIL(&loop->posts, post, link);
	post->queued = true;
	pthread_mutex_unlock(&loop->lock);
	dfi__loop_wake(loop);
}

/* A post whose caller waits. It lies on the caller's stack. */
struct call {
	struct loop_post post;
	struct loop *loop;
	int (*fn)(void *arg);
	void *arg;
	int ret;
	bool done;
	char text[512];
	pthread_cond_t returned;
};

/*
 * The caller may stop waiting at any moment. Then running is NULL and call is
 * gone, so only the lock makes it safe to touch call.
 */
static void run_call(void *arg)
{
	struct loop *loop = current_loop;
	struct call *call = arg;
	int (*fn)(void *arg) = NULL;
	void *fn_arg = NULL;
	int ret;

	pthread_mutex_lock(&loop->lock);
	if (loop->running) {
		fn = call->fn;
		fn_arg = call->arg;
	}
	pthread_mutex_unlock(&loop->lock);
	if (!fn)
		return;
	ret = fn(fn_arg);
	pthread_mutex_lock(&loop->lock);
	if (loop->running) {
		if (ret < 0)
			snprintf(
			    call->text, sizeof(call->text), "%s", dfi_errmsg());
		call->ret = ret;
		call->done = true;
		/* Under the lock: the caller frees call when it sees done. */
		pthread_cond_signal(&call->returned);
	}
	pthread_mutex_unlock(&loop->lock);
}

/*
 * Wait until the call is done. false: it is not at the deadline. If it has not
 * begun, it never runs.
 */
static bool await(struct call *call, int64_t deadline)
{
	struct timespec when = deadline_timespec(deadline);
	struct loop *loop = call->loop;
	int err = 0;

	while (!call->done && !err)
		err = pthread_cond_clockwait(
		    &call->returned, &loop->lock, CLOCK_MONOTONIC, &when);
	if (call->done)
		return true;
	if (call->post.queued)
		STAILQ_REMOVE(&loop->posts, &call->post, loop_post, link);
	else
		loop->running = NULL;
	return false;
}

/* Post a call and await it. Not on the loop's thread. */
static bool run(struct call *call, int64_t deadline)
{
	bool done;

	call->post = (struct loop_post){ .fn = run_call, .arg = call };
	pthread_cond_init(&call->returned, NULL);
	dfi__loop_post(call->loop, &call->post);
	pthread_mutex_lock(&call->loop->lock);
	done = await(call, deadline);
	pthread_mutex_unlock(&call->loop->lock);
	pthread_cond_destroy(&call->returned);
	return done;
}

int dfi__loop_call(
    struct loop *loop, int (*fn)(void *arg), void *arg, int64_t deadline)
{
	struct call call = { .loop = loop, .fn = fn, .arg = arg };
	CANCEL_OFF;

	if (dfi__loop_is_current(loop))
		return fn(arg);
	if (!run(&call, deadline))
		return dfi__loop_fail_stuck(loop);
	if (call.ret < 0)
		return dfi__fail(call.ret, "%s", call.text);
	return call.ret;
}

void dfi__loop_unpost(struct loop *loop, struct loop_post *post)
{
	pthread_mutex_lock(&loop->lock);
	if (post->queued)
		STAILQ_REMOVE(&loop->posts, post, loop_post, link);
	post->queued = false;
	pthread_mutex_unlock(&loop->lock);
}

static int do_nothing(void *arg)
{
	(void)arg;
	return 0;
}

int dfi__loop_check(struct loop *loop, int64_t deadline)
{
	return dfi__loop_call(loop, do_nothing, NULL, deadline);
}

void dfi__loop_end(struct loop *loop, struct loop_post *post, int64_t deadline)
{
	/* It runs after the post. */
	struct call call = { .loop = loop, .fn = do_nothing };
	CANCEL_OFF;

	if (dfi__loop_is_current(loop)) {
		post->fn(post->arg);
		return;
	}
	dfi__loop_post(loop, post);
	(void)run(&call, deadline);
}
