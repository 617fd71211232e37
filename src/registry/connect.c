/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's socket. Connecting blocks the calling thread, bounded by the
 * deadline; the socket is then handed to the loop. Says what is wrong in terms
 * of registries: who is not there, and what to do.
 */
#include "connect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/user.h"
#include "security.h"

static int connect_error(const char *address, int err)
{
	switch (err) {
	case ECONNREFUSED:
	case ENOENT:
	case ENOTDIR:
		return dfi__fail(-ECONNREFUSED,
		    "nobody answers at registry address '%s': start "
		    "dfi-registry there, or set DFI_REGISTRY to where it is",
		    address);
	case EAGAIN:
	case EINPROGRESS:
	case EALREADY:
	case ETIMEDOUT:
		return dfi__fail(
		    -ETIMEDOUT, "registry %s: no connection in time", address);
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENETDOWN:
	case EHOSTDOWN:
		return dfi__fail(-EHOSTUNREACH,
		    "registry %s: its machine can't be reached: %s: is the "
		    "network there?",
		    address, strerrordesc_np(err));
	case EACCES:
	case EPERM:
		return dfi__fail(
		    -EACCES, "registry %s: no permission to connect", address);
	default:
		return dfi__fail_files(
		    err, 1, "connect", "registry %s: a connection", address);
	}
}

/* A send timeout bounds connect(2), also where a Unix backlog is full. */
static int set_timeout(int fd, int64_t deadline)
{
	int left = deadline_left_ms(deadline);
	struct timeval timeout = { .tv_sec = left / 1000 };

	if (left == 0)
		return -1;
	if (left < 0)
		timeout.tv_sec = 0; /* never */
	else
		timeout.tv_usec = left % 1000 * 1000;
	return setsockopt(
	    fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
}

static int connect_until(
    int fd, const struct address *address, int64_t deadline)
{
	do {
		if (set_timeout(fd, deadline))
			return ETIMEDOUT;
		if (!connect(fd, &address->socket.any, address->size) ||
		    errno == EISCONN)
			return 0;
	} while (errno == EINTR);
	return errno;
}

/* Whether the process there is trusted. */
static int check_peer(
    const char *text, const struct address *address, uid_t user, int fd)
{
	char name[ADDRESS_TEXT_SIZE + 16];
	struct ucred peer;
	int ret;

	if (!dfi__address_is_unix(address)) {
		dfi__address_tune_tcp(fd);
		return 0;
	}
	snprintf(name, sizeof(name), "registry %s", text);
	ret = dfi__user_peer(fd, name, &peer);
	return ret ? ret : dfi__user_check(&peer, name, &user, user != NO_USER);
}

static int open_socket(
    const char *text, const struct address *address, int flags)
{
	int ret,
	    fd = socket(address->socket.any.sa_family,
		SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

	if (fd < 0)
		return connect_error(text, errno);
	ret = dfi__fork_add(fd);
	if (ret < 0) {
		close(fd);
		return ret;
	}
	return fd;
}

int dfi__connect_begin(const char *text, const struct address *address, int *fd)
{
	int new, ret;

	new = open_socket(text, address, SOCK_NONBLOCK);
	if (new < 0)
		return new;
	ret = connect(new, &address->socket.any, address->size) ? errno : 0;
	if (ret && ret != EINPROGRESS && ret != EINTR) {
		dfi__fork_close(new);
		return connect_error(text, ret);
	}
	*fd = new;
	return ret ? -EINPROGRESS : 0;
}

int dfi__connect_finish(
    const char *text, const struct address *address, uid_t user, int fd)
{
	socklen_t size = sizeof(int);
	int err = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size))
		err = errno;
	if (err)
		return connect_error(text, err);
	return check_peer(text, address, user, fd);
}

int dfi__connect(const char *text, const struct address *address, uid_t user,
    int64_t deadline)
{
	int fd, err, ret;

	fd = open_socket(text, address, 0);
	if (fd < 0)
		return fd;
	err = connect_until(fd, address, deadline);
	if (err) {
		ret = connect_error(text, err);
		goto err;
	}
	ret = check_peer(text, address, user, fd);
	if (ret)
		goto err;
	if (fcntl(fd, F_SETFL, O_NONBLOCK)) {
		ret = connect_error(text, errno);
		goto err;
	}
	return fd;

err:
	dfi__fork_close(fd);
	return ret;
}
