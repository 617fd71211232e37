/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices are empty datagrams between abstract Unix sockets. A name can lie in
 * shared memory and needs no descriptor in the waker's process, however many
 * peers there are. A stranger who guesses a name can only make a descriptor
 * readable without cause.
 */
#include "notify.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>
#include "cancel.h"
#include "clock.h"
#include "error.h"
#include "fence.h"
#include "files.h"
#include "fork.h"
#include "wait.h"

/*
 * No sleep is endless, as in wait.c. wait.h has the limit of sleeps without a
 * waker.
 */
int64_t dfi__notify_longest_ns = INT64_C(100) * NS_PER_MS;

/* Notices taken at once. If some are left, the descriptor stays readable. */
#define MAX_DRAINED 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static _Atomic int sender = -1;

/* A child starts without users: those that it inherits are its parent's. */
static void at_fork(enum fork_phase phase)
{
	if (phase == FORK_PREPARE) {
		pthread_mutex_lock(&lock);
		return;
	}
	if (phase == FORK_CHILD && users) {
		close(atomic_peek(&sender));
		atomic_set(&sender, -1);
		users = 0;
	}
	pthread_mutex_unlock(&lock);
}

static struct fork_hook hook = { .fn = at_fork };

static int open_socket(void)
{
	return file_up(
	    socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

static int fail_open(const char *call)
{
	return dfi__fail_files(errno, 3, call, "a descriptor to poll");
}

int dfi__notify_setup(void)
{
	int ret = 0;

	dfi__fork_follow(&hook);
	pthread_mutex_lock(&lock);
	if (!users)
		atomic_set(&sender, open_socket());
	if (atomic_peek(&sender) < 0)
		ret = dfi__fail_files(
		    errno, 1, "socket", "shared memory: waking others");
	else
		users++;
	pthread_mutex_unlock(&lock);
	return ret;
}

void dfi__notify_cleanup(void)
{
	pthread_mutex_lock(&lock);
	if (!--users) {
		close(atomic_peek(&sender));
		atomic_set(&sender, -1);
	}
	pthread_mutex_unlock(&lock);
}

/* Formats by itself, as it must work in signal handlers. */
static socklen_t fill_address(uint64_t name, struct sockaddr_un *address)
{
	static const char prefix[] = "dfi-wake-";
	char *at = address->sun_path + sizeof(prefix);
	int shift;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	/* An abstract name starts with a zero byte. */
	memcpy(address->sun_path + 1, prefix, sizeof(prefix) - 1);
	for (shift = 60; shift >= 0; shift -= 4)
		*at++ = "0123456789abcdef"[name >> shift & 15];
	return (socklen_t)(at - (const char *)address);
}

void dfi__notify_send(uint64_t name)
{
	struct sockaddr_un address;
	socklen_t size = fill_address(name, &address);
	int fd = atomic_peek(&sender);
	CANCEL_OFF;

	if (fd >= 0 &&
	    (sendto(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL,
		 (struct sockaddr *)&address, size) == 0 ||
		errno == ECONNREFUSED))
		return;
	/*
	 * The sender's buffer is full of notices that receivers have not taken.
	 * Or the receiver's queue is full, which does no harm. Another socket
	 * has a buffer of its own.
	 */
	fd = open_socket();
	if (fd < 0)
		return; /* the timer makes up for it */
	(void)sendto(fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL,
	    (struct sockaddr *)&address, size);
	close(fd);
}

static int bind_socket(struct notify *notify)
{
	struct sockaddr_un address;
	socklen_t size;

	if (getrandom(&notify->name, sizeof(notify->name), 0) !=
	    sizeof(notify->name))
		return fail_open("getrandom");
	notify->socket = open_socket();
	if (notify->socket < 0)
		return fail_open("socket");
	size = fill_address(notify->name, &address);
	if (bind(notify->socket, (struct sockaddr *)&address, size) < 0)
		return fail_open("bind");
	return 0;
}

static int watch(const struct notify *notify, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(notify->fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return fail_open("epoll_ctl");
	return 0;
}

int dfi__notify_open(struct notify *notify)
{
	int ret;
	CANCEL_OFF;

	*notify = (struct notify){ .fd = -1, .socket = -1, .timer = -1 };
	ret = bind_socket(notify);
	if (ret < 0)
		goto close_all;
	notify->timer = file_up(
	    timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	notify->fd = file_up(epoll_create1(EPOLL_CLOEXEC));
	ret = notify->timer < 0 || notify->fd < 0 ? fail_open("timer or epoll")
						  : 0;
	if (!ret)
		ret = watch(notify, notify->socket);
	if (!ret)
		ret = watch(notify, notify->timer);
	if (ret < 0)
		goto close_all;
	dfi__notify_kick(notify);
	return 0;

close_all:
	dfi__notify_close(notify);
	return ret;
}

void dfi__notify_close(struct notify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	if (notify->timer >= 0)
		close(notify->timer);
	if (notify->socket >= 0)
		close(notify->socket);
}

int dfi__notify_new(struct notify **notify)
{
	struct notify *new = malloc(sizeof(*new));
	int ret;

	if (!new)
		return dfi__fail(-ENOMEM, "descriptor to poll: out of memory");
	ret = dfi__notify_open(new);
	if (ret < 0) {
		free(new);
		return ret;
	}
	*notify = new;
	return 0;
}

void dfi__notify_free(struct notify *notify)
{
	if (!notify)
		return;
	dfi__notify_close(notify);
	free(notify);
}

static void set_timer(struct notify *notify, int64_t at)
{
	struct itimerspec spec = { .it_value = deadline_timespec(at) };

	/* This also clears an expiry. */
	timerfd_settime(notify->timer, TFD_TIMER_ABSTIME, &spec, NULL);
	notify->timer_at = at;
}

void dfi__notify_drain(struct notify *notify)
{
	char nothing;
	int i;
	CANCEL_OFF;

	for (i = 0; i < MAX_DRAINED; i++)
		if (recv(notify->socket, &nothing, 1, MSG_DONTWAIT) < 0)
			break;
}

bool dfi__notify_announce(struct notify *notify, _Atomic uint32_t *word)
{
	if (atomic_peek(word) == WAIT_BY_NOTICE)
		return false;
	atomic_set(wait_name(word), notify->name);
	/* Pairs with the exchange in dfi__wait_wake(). It protects the name. */
	atomic_publish(word, WAIT_BY_NOTICE);
	return true;
}

void dfi__notify_withdraw(_Atomic uint32_t *word)
{
	atomic_set(word, 0);
}

void dfi__notify_sleep(struct notify *notify, bool fresh, bool unwoken,
    uint64_t progress, int64_t deadline)
{
	int64_t now = clock_now_ns(), at = now + dfi__notify_longest_ns;

	if (!notify->quiet_since || progress != notify->progress) {
		notify->quiet_since = now;
		notify->progress = progress;
	}
	if (fresh)
		notify->unfenced = !dfi__fence_heavy();
	if (unwoken || notify->unfenced)
		at = now + wait_unwoken_ns(now - notify->quiet_since);
	if (deadline < at)
		at = deadline > now ? deadline : now + UNWOKEN_LEAST_NS;
	/* Keep a timer that fires in time, to save a system call. */
	if (notify->timer_at <= now || notify->timer_at > at)
		set_timer(notify, at);
}

void dfi__notify_kick(const struct notify *notify)
{
	dfi__notify_send(notify->name);
}
