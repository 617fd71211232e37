/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer's side of passing regions, in the thread that opens a source: it
 * asks the owner for a region, or grants it one, and waits for the answer. A
 * connection that ends without an answer is made again: the owner had too many
 * peers at once.
 */
#include "shm.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "message.h"

#define BACKOFF_MAX_MS 16

static int no_answer(const char *address)
{
	return dfi__fail(-ETIMEDOUT,
	    "shared memory: the process at %s doesn't answer", address);
}

/* Returns 0 as long as an answer can still come, else an error. */
static int check_wait_limit(
    const char *address, const struct wait_limit *wait_limit)
{
	if (wait_limit_given_up(wait_limit))
		return dfi__fail(-ECONNRESET,
		    "shared memory: the process at %s is gone, as the registry "
		    "says",
		    address);
	return clock_now_ns() < wait_limit->deadline ? 0 : no_answer(address);
}

static int await(
    int socket, const char *address, const struct wait_limit *wait_limit)
{
	struct pollfd pollfd = { .fd = socket, .events = POLLIN };
	int n, ret;

	do {
		n = poll(&pollfd, 1, wait_limit_look_ms(wait_limit));
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return dfi__fail(-EIO, "poll: %s", strerror(errno));
		ret = check_wait_limit(address, wait_limit);
	} while (!ret);
	return ret;
}

/* Sleep before the next attempt: no event announces a free place. */
static void pace(int *length_ms)
{
	poll(NULL, 0, *length_ms);
	*length_ms = *length_ms < BACKOFF_MAX_MS ? 2 * *length_ms
						 : BACKOFF_MAX_MS;
}

int dfi__shm_pass_retry(int (*attempt)(void *arg), void *arg,
    const struct wait_limit *wait_limit, const char *address)
{
	int ret, length_ms = 1;

	for (;;) {
		ret = attempt(arg);
		if (ret != -EAGAIN)
			return ret;
		ret = check_wait_limit(address, wait_limit);
		if (ret < 0)
			return ret;
		pace(&length_ms);
	}
}

static int is_gone(int err, const char *address)
{
	return dfi__fail(-ECONNRESET,
	    "shared memory: the process at %s is gone (%s)", address,
	    strerror(err));
}

static int no_connection(int err, const char *address)
{
	if (err != EACCES && err != EPERM)
		return is_gone(err, address);
	return dfi__fail(-EACCES,
	    "shared memory: no permission to connect to the process at %s: a "
	    "sandbox or a security module forbids it",
	    address);
}

int dfi__shm_pass_connect(
    const char *address, const struct wait_limit *wait_limit, int *out)
{
	char who[TRANSPORT_ADDRESS_SIZE + 40];
	struct sockaddr_un name;
	struct ucred owner;
	socklen_t size = dfi__shm_message_address(address, &name);
	int ret, length_ms = 1, fd = dfi__shm_message_socket();

	if (fd < 0)
		return dfi__fail_files(errno, 2, "socket",
		    "shared memory: getting a region of the process at %s",
		    address);
	while (connect(fd, (struct sockaddr *)&name, size) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN) {
			ret = no_connection(errno, address);
			goto close_fd;
		}
		/* The owner's backlog is full. */
		ret = check_wait_limit(address, wait_limit);
		if (ret < 0)
			goto close_fd;
		pace(&length_ms);
	}
	snprintf(who, sizeof(who), "shared memory: the process at %s", address);
	ret = dfi__shm_message_check(fd, who, &owner);
	if (!ret) {
		*out = fd;
		return 0;
	}
close_fd:
	close(fd);
	return ret;
}

int dfi__shm_pass_ask(const char *address, const void *request, size_t size,
    int fd, const struct wait_limit *wait_limit, int *out)
{
	int socket, ret = dfi__shm_pass_connect(address, wait_limit, &socket);

	if (ret < 0)
		return ret;
	ret = dfi__shm_message_send(socket, request, size, fd, 0);
	/* After these errors, reading tells what happened to the connection. */
	if (ret < 0 && ret != -EPIPE && ret != -ECONNRESET)
		ret = is_gone(-ret, address);
	else
		ret = await(socket, address, wait_limit);
	if (ret < 0)
		close(socket);
	else
		*out = socket;
	return ret;
}

static int no_valid_answer(const struct region_name *name)
{
	return dfi__fail(-ECONNRESET,
	    "shared memory: the process at %s gave no valid answer",
	    name->address);
}

/*
 * Receive one reply, with the descriptor in *fd as dfi__shm_message_receive()
 * leaves it. A bare -EAGAIN if there is none: the process is gone, or had too
 * many peers.
 */
static int receive_reply(int socket, const struct region_name *name,
    struct shm_reply *reply, int *fd)
{
	struct shm_other_version other;
	ssize_t got = dfi__shm_message_receive(
	    socket, &other, sizeof(other), MSG_TRUNC, fd);

	*reply = other.base;
	if (got <= 0)
		return -EAGAIN;
	if (reply->magic != SHM_PASS_MAGIC)
		return no_valid_answer(name);
	if (got == sizeof(other) && reply->error == -EPROTO)
		return dfi__shm_fail_version(
		    name->address, other.version, SHM_PASS_VERSION);
	return got == sizeof(*reply) && reply->error != -EPROTO
	    ? 0
	    : no_valid_answer(name);
}

static int reply_error(
    const struct shm_reply *reply, const struct region_name *name)
{
	switch (reply->error) {
	case -EACCES:
		return dfi__fail(-EACCES,
		    "shared memory: the process at %s refused this one, as "
		    "another user's: run both as one user",
		    name->address);
	case -ENOMEM:
		return dfi__fail(-ENOMEM,
		    "shared memory: the process at %s has no address space, "
		    "mapping or memory left for the region that was granted to "
		    "it: raise its limit (ulimit -v, sysctl "
		    "vm.max_map_count), free memory, or make rings smaller "
		    "(segment_count, DFI_RING_MEMORY)",
		    name->address);
	case -EMFILE:
		return dfi__fail(-EMFILE,
		    "shared memory: the process at %s has no file descriptor "
		    "left for the region that was granted to it: raise its "
		    "limit "
		    "(ulimit -n)",
		    name->address);
	case -EBADMSG:
		return dfi__shm_fail_granted(name);
	default:
		return dfi__fail(-ECONNRESET,
		    "shared memory: the process at %s has closed the region",
		    name->address);
	}
}

/* A request to the owner of a region, with a descriptor, or -1. */
struct asking {
	const struct region_name *name;
	const struct wait_limit *wait_limit;
	const void *request;
	size_t size;
	int fd;
	int got; /* size of the answer */
};

static int attempt(void *arg)
{
	struct asking *asking = arg;
	const struct region_name *name = asking->name;
	struct shm_reply reply;
	int socket, ret;

	ret = dfi__shm_pass_ask(name->address, asking->request, asking->size,
	    asking->fd, asking->wait_limit, &socket);
	if (ret < 0)
		return ret;
	asking->got = -1;
	ret = receive_reply(socket, name, &reply, &asking->got);
	if (!ret && reply.error)
		ret = reply_error(&reply, name);
	if (ret < 0 && asking->got >= 0)
		close(asking->got);
	close(socket);
	return ret;
}

int dfi__shm_pass_fetch(const struct region_name *name,
    const struct wait_limit *wait_limit, int *out)
{
	struct shm_request request = {
		.magic = SHM_PASS_MAGIC,
		.version = SHM_PASS_VERSION,
		.key = name->key,
	};
	struct asking asking = {
		.name = name,
		.wait_limit = wait_limit,
		.request = &request,
		.size = sizeof(request),
		.fd = -1,
	};
	int ret = dfi__shm_pass_retry(
	    attempt, &asking, wait_limit, name->address);

	if (ret < 0)
		return ret;
	if (asking.got == -1)
		return no_valid_answer(name);
	if (asking.got < 0)
		return dfi__fail_files(EMFILE, 2, "recvmsg",
		    "shared memory: getting a region of the process at %s",
		    name->address);
	*out = asking.got;
	return 0;
}

int dfi__shm_pass_grant(const struct region_name *to,
    struct shm_grant_request *request, int fd,
    const struct wait_limit *wait_limit)
{
	struct asking asking = {
		.name = to,
		.wait_limit = wait_limit,
		.request = request,
		.size = sizeof(*request),
		.fd = fd,
	};
	int ret;

	request->base.magic = SHM_GRANT_MAGIC;
	request->base.version = SHM_PASS_VERSION;
	ret = dfi__shm_pass_retry(attempt, &asking, wait_limit, to->address);
	if (!ret && asking.got >= 0)
		close(asking.got);
	return ret;
}
