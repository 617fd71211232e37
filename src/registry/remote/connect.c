/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's socket. Connecting blocks the calling thread until the deadline
 * at most; the loop then gets the socket. Error texts speak of registries:
 * which one does not answer, and what to do.
 */
#include "connect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "registry/wire/address.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/user.h"
#include "registry/wire/path_lock.h"
#include "security/security.h"

/* How long a registry takes from removing a socket to listening. */
#define START_WAIT_MS 1000
#define START_LOOK_MS 5
/*
 * The kernel repeats a lost packet of a TCP handshake only after a second. On
 * this host the answer takes no time.
 */
#define TCP_TRY_MS 300
#define LOOPBACK_TRY_MS 20
#define LOOPBACK_TRY_MAX_MS 80

bool dfi__connect_is_mounted(const struct address *address)
{
	const char *path = dfi__address_path(address);
	struct statx st;

	return path && statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, 0, &st) == 0 &&
	    st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* What lies at a path instead of a socket; NULL: nothing, or a socket. */
static const char *other_file(const struct address *address)
{
	const char *path = dfi__address_path(address);
	struct stat st;

	if (!path || stat(path, &st) < 0 || S_ISSOCK(st.st_mode))
		return NULL;
	return S_ISDIR(st.st_mode) ? "directory"
	    : S_ISREG(st.st_mode)  ? "regular file"
				   : "special file";
}

static int connect_error(
    const char *text, const struct address *address, int err)
{
	const char *other;

	switch (err) {
	case EPROTOTYPE:
		return dfi__fail(-ECONNREFUSED,
		    "registry address '%s': the socket there is no stream "
		    "socket, so no registry's: set DFI_REGISTRY to where one "
		    "is",
		    text);
	case ECONNREFUSED:
		other = other_file(address);
		if (other)
			return dfi__fail(-ECONNREFUSED,
			    "registry address '%s': a %s is there, no socket: "
			    "name the socket of a registry, such as "
			    "unix:/run/dfi.sock",
			    text, other);
		if (dfi__connect_is_mounted(address))
			return dfi__fail(-ECONNREFUSED,
			    "nobody answers at registry address '%s': the "
			    "socket alone is mounted there, and stays the one "
			    "of a registry that has ended: mount its directory "
			    "instead, where a registry that is started again "
			    "puts its new socket",
			    text);
		/* fall through */
	case ENOENT:
	case ENOTDIR:
		return dfi__fail(-ECONNREFUSED,
		    "nobody answers at registry address '%s': start "
		    "dfi-registry there, or set DFI_REGISTRY to where it is",
		    text);
	case EAGAIN:
	case EINPROGRESS:
	case EALREADY:
	case ETIMEDOUT:
		return dfi__fail(
		    -ETIMEDOUT, "registry %s: no connection in time", text);
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENETDOWN:
	case EHOSTDOWN:
		return dfi__fail(-EHOSTUNREACH,
		    "registry %s: its machine can't be reached: %s: is the "
		    "network there?",
		    text, strerrordesc_np(err));
	case EACCES:
	case EPERM:
		return dfi__fail(
		    -EACCES, "registry %s: no permission to connect", text);
	default:
		return dfi__fail_files(
		    err, 1, "connect", "registry %s: a connection", text);
	}
}

/* A send timeout bounds connect(2), even if a Unix backlog is full. */
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

/* Add what to do about another user; root is always trusted. */
static void say_how_to_trust(const struct ucred *peer, char *text, size_t size)
{
	unsigned long self = geteuid();
	int used = snprintf(text, size,
	    ": to trust that user, set DFI_REGISTRY_USER=%lu",
	    (unsigned long)peer->uid);

	if (self)
		snprintf(text + used, size - (size_t)used,
		    ", and start the registry with --allow-user=%lu", self);
}

/* Tells whether the process there is trusted. */
static int check_peer(
    const char *text, const struct address *address, uid_t user, int fd)
{
	char name[ADDRESS_TEXT_SIZE + 16], advice[160] = "";
	struct ucred peer;
	int ret;

	if (!dfi__address_is_unix(address)) {
		dfi__address_tune_tcp(fd);
		return 0;
	}
	snprintf(name, sizeof(name), "registry %s", text);
	ret = dfi__user_peer(fd, name, &peer);
	if (ret)
		return ret;
	say_how_to_trust(&peer, advice, sizeof(advice));
	return dfi__user_check(&peer, name, &user, user != NO_USER, advice);
}

static int open_socket(
    const char *text, const struct address *address, int flags)
{
	int ret,
	    fd = file_up(socket(address->socket.any.sa_family,
		SOCK_STREAM | SOCK_CLOEXEC | flags, 0));

	if (fd < 0)
		return connect_error(text, address, errno);
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
		return connect_error(text, address, ret);
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
		return connect_error(text, address, err);
	return check_peer(text, address, user, fd);
}

/* Tells whether a registry may be at the path, start there, or be dead. */
static bool may_start(const struct address *address, int err)
{
	const char *path = dfi__address_path(address);

	return path && (err == ECONNREFUSED || err == ENOENT) &&
	    dfi__path_lock_exists(path);
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/*
 * Returns the socket, or a negative errno value. It repeats a TCP handshake
 * that lost a packet, and tries a path again where a registry may be starting.
 */
static int connect_socket(
    const char *text, const struct address *address, int64_t deadline)
{
	int64_t started = earlier(deadline, deadline_in_ms(START_WAIT_MS));
	bool tcp = !dfi__address_is_unix(address);
	bool far = dfi__address_is_routable(address);
	uint32_t try_ms = far ? TCP_TRY_MS : LOOPBACK_TRY_MS;
	int fd, err;

	for (;;) {
		int64_t until = earlier(deadline, deadline_in_ms(try_ms));

		fd = open_socket(text, address, 0);
		if (fd < 0)
			return fd;
		err = connect_until(fd, address, tcp ? until : deadline);
		if (!err)
			return fd;
		dfi__fork_close(fd);
		if (may_start(address, err) && clock_now_ns() < started)
			poll(NULL, 0, START_LOOK_MS);
		else if (!tcp || until == deadline ||
		    (err != ETIMEDOUT && err != EINPROGRESS && err != EALREADY))
			return connect_error(text, address, err);
		else if (far || try_ms < LOOPBACK_TRY_MAX_MS)
			try_ms *= 2;
	}
}

int dfi__connect(const char *text, const struct address *address, uid_t user,
    int64_t deadline)
{
	int fd, ret;

	fd = connect_socket(text, address, deadline);
	if (fd < 0)
		return fd;
	ret = check_peer(text, address, user, fd);
	if (!ret && fcntl(fd, F_SETFL, O_NONBLOCK))
		ret = connect_error(text, address, errno);
	if (!ret)
		return fd;
	dfi__fork_close(fd);
	return ret;
}
