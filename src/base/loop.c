/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One libevent base on one thread. Other threads reach it through a queue of
 * calls and an eventfd that wakes the base. They share nothing else, so the
 * base needs no locks, and libevent's process-wide thread support stays as the
 * application set it.
 */
#include "loop_impl.h"

#include <dlfcn.h>
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

#include "atomic.h"
#include "cancel.h"
#include "clock.h"
#include "error.h"
#include "files.h"
#include "log.h"
#include "thread.h"

/* The descriptors that libevent opens for a base, and our eventfd. */
#define BASE_FILES 3
#define LOOP_FILES (BASE_FILES + 1)

/* How often a loop checks that its descriptors are still open. */
#define LOOK_S 1

/* A loop is stuck if it has missed this many checks. */
#define STUCK_LOOKS INT64_C(2)

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	uint64_t count;

	(void)what;
	/* No error if there is nothing to read: only the posts count. */
	if (read(fd, &count, sizeof(count)) < 0)
		count = 0;
	if (dfi__loop_run_posts(loop))
		event_base_loopbreak(loop->base);
}

/*
 * The application may have closed a descriptor of the library, for example by
 * close_range(). Then nothing wakes the loop, and libevent gets no events.
 */
static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	atomic_set(&loop->ran_at, clock_now_ns());
	if (dfi__loop_run_posts(loop) || fcntl(loop->wake_fd, F_GETFD) < 0)
		event_base_loopbreak(loop->base);
}

/*
 * Serve a loop that has lost its descriptors: it still runs posts and calls, so
 * that threads can close what the loop served. It gets no events.
 */
static void serve_posts(struct loop *loop)
{
	atomic_set(&loop->broken, true);
	dfi__log(DFI_LOG_ERROR,
	    "thread '%s' has lost its file descriptors: the application has "
	    "closed them, as by close_range() or by closing a descriptor "
	    "twice; it can only close its flows and the context now",
	    loop->name);
	while (!dfi__loop_run_posts(loop)) {
		pthread_mutex_lock(&loop->lock);
		while (STAILQ_EMPTY(&loop->posts) && !loop->stop)
			pthread_cond_wait(&loop->called, &loop->lock);
		pthread_mutex_unlock(&loop->lock);
	}
}

static bool is_stopped(struct loop *loop)
{
	bool stop;

	pthread_mutex_lock(&loop->lock);
	stop = loop->stop && STAILQ_EMPTY(&loop->posts);
	pthread_mutex_unlock(&loop->lock);
	return stop;
}

bool dfi__loop_is_stuck(const struct loop *loop)
{
	return !atomic_peek(&loop->broken) &&
	    clock_now_ns() - atomic_peek(&loop->ran_at) >
	    STUCK_LOOKS * LOOK_S * NS_PER_S;
}

static void free_events(struct loop *loop)
{
	if (loop->wake_event)
		event_free(loop->wake_event);
	if (loop->look_event)
		event_free(loop->look_event);
}

static void destroy_base(struct loop *loop)
{
	free_events(loop);
	event_base_free(loop->base);
	close(loop->wake_fd);
}

static void free_memory(struct loop *loop)
{
	pthread_cond_destroy(&loop->end);
	pthread_cond_destroy(&loop->called);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

static void free_loop(struct loop *loop)
{
	destroy_base(loop);
	free_memory(loop);
}

static void *run_loop(void *arg)
{
	struct loop *loop = arg;
	bool abandoned;

	dfi__loop_set_current(loop);
	event_base_dispatch(loop->base);
	if (!is_stopped(loop))
		serve_posts(loop);
	/*
	 * A stream that was freed while its callback was pending closes its
	 * socket only after the turn of that callback.
	 */
	event_base_loop(loop->base, EVLOOP_NONBLOCK);
	pthread_mutex_lock(&loop->lock);
	loop->ended = true;
	abandoned = loop->abandoned;
	pthread_cond_signal(&loop->end);
	pthread_mutex_unlock(&loop->lock);
	if (abandoned)
		free_loop(loop);
	return NULL;
}

/*
 * libevent ends the process if it can open an epoll but no pair of sockets. So
 * check that all descriptors are free, while no other loop can take them.
 * Threads of the application may still take them in these microseconds.
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

/* Open the descriptors. One loop does so at a time. */
static int open_base(struct loop *loop)
{
	int ret;

	loop->wake_fd = file_up(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
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
	ret = dfi__fail(-ENOMEM, "thread '%s': out of memory", loop->name);

err_close:
	close(loop->wake_fd);
	return ret;
}

static int create_base(struct loop *loop)
{
	static const struct timeval period = { .tv_sec = LOOK_S };
	int ret;

	dfi__files_take_standard();
	ret = open_base(loop);
	dfi__files_free_standard();
	if (ret)
		return ret;
	loop->wake_event = event_new(
	    loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
	loop->look_event = event_new(loop->base, -1, EV_PERSIST, on_look, loop);
	if (loop->wake_event && loop->look_event &&
	    event_add(loop->wake_event, NULL) == 0 &&
	    event_add(loop->look_event, &period) == 0)
		return 0;
	destroy_base(loop);
	return dfi__fail(-ENOMEM, "no event for loop '%s'", loop->name);
}

int dfi__loop_start(const char *name, struct loop **loop)
{
	struct loop *new;
	int ret;

	if (strlen(name) > 15)
		return dfi__fail(-EINVAL,
		    "thread name '%s' is longer than 15 characters", name);
	new = calloc(1, sizeof(*new));
	if (!new)
		return dfi__fail(-ENOMEM, "no memory for loop '%s'", name);
	pthread_mutex_init(&new->lock, NULL);
	pthread_cond_init(&new->called, NULL);
	pthread_cond_init(&new->end, NULL);
	STAILQ_INIT(&new->posts);
	atomic_init(&new->ran_at, clock_now_ns());
	strcpy(new->name, name);
	ret = create_base(new);
	if (ret)
		goto err_free;
	ret = dfi__thread_start(new->name, run_loop, new, &new->thread);
	if (!ret) {
		*loop = new;
		return 0;
	}
	ret = dfi__thread_fail(new->name, ret);
	destroy_base(new);
err_free:
	free_memory(new);
	return ret;
}

struct event_base *dfi__loop_base(struct loop *loop)
{
	return loop->base;
}

/* An abandoned thread still runs our code, so the library must stay loaded. */
static void pin_library(void)
{
	static const char here;
	Dl_info info;

	if (dladdr(&here, &info))
		dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Wait until the thread has ended. false: the thread will free the loop. */
static bool await_end(struct loop *loop, int64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);
	bool ended;
	int err = 0;

	pthread_mutex_lock(&loop->lock);
	while (!loop->ended && !err)
		err = pthread_cond_clockwait(
		    &loop->end, &loop->lock, CLOCK_MONOTONIC, &until);
	ended = loop->ended;
	loop->abandoned = !ended;
	pthread_mutex_unlock(&loop->lock);
	return ended;
}

void dfi__loop_finish(
    struct loop *loop, void (*last)(void *arg), void *arg, int64_t deadline)
{
	pthread_t thread = loop->thread;
	CANCEL_OFF;

	if (last) {
		loop->last = (struct loop_post){ .fn = last, .arg = arg };
		dfi__loop_post(loop, &loop->last);
	}
	pthread_mutex_lock(&loop->lock);
	loop->stop = true;
	pthread_mutex_unlock(&loop->lock);
	dfi__loop_wake(loop);
	if (await_end(loop, deadline)) {
		pthread_join(thread, NULL);
		free_loop(loop);
	} else {
		pin_library();
		pthread_detach(thread);
	}
}

int dfi__loop_start_until(
    const char *name, int64_t deadline, struct loop **loop)
{
	struct loop *new;
	int ret = dfi__loop_start(name, &new);
	CANCEL_OFF;

	if (ret < 0)
		return ret;
	ret = dfi__loop_check(new, deadline);
	if (ret < 0)
		dfi__loop_finish(new, NULL, NULL, deadline);
	else
		*loop = new;
	return ret;
}
