/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One libevent base on one thread. Other threads reach it through a queue of
 * calls and an eventfd that wakes the base; nothing else is shared, so the
 * base needs no locks and libevent's process-wide thread support stays as the
 * application set it.
 */
#include "loop.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "error.h"
#include "files.h"
#include "fork.h"
#include "lock.h"
#include "thread.h"

/* What libevent opens for a base, and our eventfd. */
#define BASE_FILES 3
#define LOOP_FILES (BASE_FILES + 1)

/* Lives on the stack of the waiting caller. */
struct call {
	int (*fn)(void *arg);
	void *arg;
	int ret;
	bool done;
	char text[512];
	pthread_cond_t returned;
	STAILQ_ENTRY(call) link;
};

struct loop {
	char name[16];
	struct event_base *base;
	struct event *wake_event;
	int wake_fd;
	pthread_t thread;
	pthread_mutex_t lock; /* protects calls, stop and each call's result */
	STAILQ_HEAD(call_queue, call) calls;
	bool stop;
};

static _Thread_local struct loop *current_loop;

/* Whoever has it makes a base. */
static struct lock base_lock;

/* What a child inherits of a base that was just being made is harmless. */
void dfi__loop_at_fork(enum fork_phase phase)
{
	if (phase == FORK_CHILD)
		atomic_set(&base_lock.state, LOCK_FREE);
}

static void run_call(struct loop *loop, struct call *call)
{
	int ret = call->fn(call->arg);

	if (ret < 0)
		snprintf(call->text, sizeof(call->text), "%s", dfi_errmsg());
	pthread_mutex_lock(&loop->lock);
	call->ret = ret;
	call->done = true;
	/* Under the lock: the caller frees call as soon as it sees done. */
	pthread_cond_signal(&call->returned);
	pthread_mutex_unlock(&loop->lock);
}

/* Returns whether the loop is to stop, which it may only with no call left. */
static bool run_calls(struct loop *loop)
{
	struct call *call;
	bool stop;

	for (;;) {
		pthread_mutex_lock(&loop->lock);
		call = STAILQ_FIRST(&loop->calls);
		if (call)
			STAILQ_REMOVE_HEAD(&loop->calls, link);
		stop = loop->stop;
		pthread_mutex_unlock(&loop->lock);
		if (!call)
			return stop;
		run_call(loop, call);
	}
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	uint64_t count;

	(void)what;
	/* Nothing to read is no error: the calls are what counts. */
	if (read(fd, &count, sizeof(count)) < 0)
		count = 0;
	if (run_calls(loop))
		event_base_loopbreak(loop->base);
}

static void wake(struct loop *loop)
{
	uint64_t one = 1;
	ssize_t n;

	/* Fails only if the counter is full: then the loop is awake anyway. */
	do
		n = write(loop->wake_fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}

static void *run_loop(void *arg)
{
	struct loop *loop = arg;

	current_loop = loop;
	event_base_dispatch(loop->base);
	/*
	 * A stream that was freed while a callback of it was pending closes its
	 * socket only after that callback's turn.
	 */
	event_base_loop(loop->base, EVLOOP_NONBLOCK);
	return NULL;
}

static int start_thread(struct loop *loop)
{
	int err = dfi__thread_start(loop->name, run_loop, loop, &loop->thread);

	return err ? dfi__thread_fail(loop->name, err) : 0;
}

/*
 * libevent ends the process if it gets an epoll, but no descriptors for a pair
 * of sockets. So it is asked only if there is room for all, under a lock, so
 * that no other loop takes it meanwhile. What the application's threads take in
 * these microseconds, they can't be kept from.
 */
static int check_room(int fd)
{
	int copies[BASE_FILES], n, err = 0;

	for (n = 0; n < BASE_FILES && !err; n++) {
		copies[n] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (copies[n] < 0)
			err = errno;
	}
	while (n--)
		if (copies[n] >= 0)
			close(copies[n]);
	return err;
}

/* The descriptors; base_lock is held. */
static int open_base(struct loop *loop)
{
	int ret;

	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wake_fd < 0)
		return dfi__fail_files(
		    errno, LOOP_FILES, "eventfd", "thread '%s'", loop->name);
	ret = check_room(loop->wake_fd);
	if (ret) {
		ret = dfi__fail_files(
		    ret, LOOP_FILES, "fcntl", "thread '%s'", loop->name);
		goto err_close;
	}
	loop->base = event_base_new();
	if (loop->base)
		return 0;
	ret = dfi__fail(-ENOMEM, "no event base for loop '%s'", loop->name);

err_close:
	close(loop->wake_fd);
	return ret;
}

static int create_base(struct loop *loop)
{
	int ret;

	dfi__lock_take(&base_lock);
	ret = open_base(loop);
	lock_release(&base_lock);
	if (ret)
		return ret;
	loop->wake_event = event_new(
	    loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
	if (loop->wake_event && event_add(loop->wake_event, NULL) == 0)
		return 0;
	if (loop->wake_event)
		event_free(loop->wake_event);
	event_base_free(loop->base);
	close(loop->wake_fd);
	return dfi__fail(-ENOMEM, "no event for loop '%s'", loop->name);
}

static void destroy_base(struct loop *loop)
{
	event_free(loop->wake_event);
	event_base_free(loop->base);
	close(loop->wake_fd);
}

int dfi__loop_start(const char *name, struct loop **loop)
{
	struct loop *new;
	int ret;

	if (strlen(name) > 15)
		return dfi__fail(-EINVAL,
		    "thread name '%s' is longer than 15 characters", name);
	new = dfi__fork_setup() ? calloc(1, sizeof(*new)) : NULL;
	if (!new)
		return dfi__fail(-ENOMEM, "no memory for loop '%s'", name);
	pthread_mutex_init(&new->lock, NULL);
	STAILQ_INIT(&new->calls);
	strcpy(new->name, name);
	ret = create_base(new);
	if (ret)
		goto err_free;
	ret = start_thread(new);
	if (ret)
		goto err_base;
	*loop = new;
	return 0;

err_base:
	destroy_base(new);
err_free:
	pthread_mutex_destroy(&new->lock);
	free(new);
	return ret;
}

void dfi__loop_stop(struct loop *loop)
{
	pthread_mutex_lock(&loop->lock);
	loop->stop = true;
	pthread_mutex_unlock(&loop->lock);
	wake(loop);
	pthread_join(loop->thread, NULL);
	destroy_base(loop);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

struct event_base *dfi__loop_base(struct loop *loop)
{
	return loop->base;
}

bool dfi__loop_is_current(const struct loop *loop)
{
	return current_loop == loop;
}

int dfi__loop_call(struct loop *loop, int (*fn)(void *arg), void *arg)
{
	struct call call = { .fn = fn, .arg = arg };

	if (dfi__loop_is_current(loop))
		return fn(arg);
	pthread_cond_init(&call.returned, NULL);
	pthread_mutex_lock(&loop->lock);
	STAILQ_INSERT_TAIL(&loop->calls, &call, link);
	pthread_mutex_unlock(&loop->lock);
	wake(loop);
	pthread_mutex_lock(&loop->lock);
	while (!call.done)
		pthread_cond_wait(&call.returned, &loop->lock);
	pthread_mutex_unlock(&loop->lock);
	pthread_cond_destroy(&call.returned);
	if (call.ret < 0)
		return dfi__fail(call.ret, "%s", call.text);
	return call.ret;
}
