/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding the registry's address. A Unix socket is bound under its own name:
 * /proc/net/unix then shows the path that users know, and cleaners of temporary
 * files see that the socket is in use. A stale socket is removed first, under
 * the lock of the path (path_lock.h), so that one of two registries that find
 * it wins. Without that lock a registry binds only a free path.
 */
#include "listen.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "registry/wire/path_lock.h"

#define BACKLOG 1024
#define LOCK_WAIT_MS 2000
#define LOCK_PAUSE_MS 10

static int fail_system(const char *text, const char *what, int err)
{
	switch (err) {
	case EADDRINUSE:
		return dfi__fail(-EEXIST,
		    "registry address '%s' is in use by another process", text);
	case EACCES:
	case EPERM:
		return dfi__fail(-EACCES,
		    "registry address '%s': %s: %s: choose a directory that "
		    "this user may write to",
		    text, what, strerrordesc_np(err));
	case ENOENT:
		return dfi__fail(-err,
		    "registry address '%s': %s: %s: create its directory, or "
		    "choose another one",
		    text, what, strerrordesc_np(err));
	default:
		return dfi__fail_files(
		    err, 1, what, "registry address '%s'", text);
	}
}

/* Returns a listening socket at address, or a negative errno value. */
static int listen_at(
    const char *text, const struct address *address, mode_t mode)
{
	int fd, one = 1, err;

	fd = file_up(socket(address->socket.any.sa_family,
	    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return fail_system(text, "socket", errno);
	if (!dfi__address_is_unix(address))
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &address->socket.any, address->size)) {
		err = errno;
		close(fd);
		return fail_system(text, "bind", err);
	}
	/* This comes before anybody can connect. */
	if (dfi__address_path(address) &&
	    chmod(dfi__address_path(address), mode)) {
		err = errno;
		goto err_unlink;
	}
	if (listen(fd, BACKLOG)) {
		err = errno;
		goto err_unlink;
	}
	return fd;

err_unlink:
	if (dfi__address_path(address))
		unlink(dfi__address_path(address));
	close(fd);
	return fail_system(text, "listen", err);
}

/* What is at a path. */
enum found {
	FOUND_NOTHING,
	FOUND_LEFTOVER, /* a socket that nobody has open any more */
};

/* Returns enum found; -EEXIST: a socket in use, or no socket; other errors. */
static int look(const char *text, const struct address *address)
{
	struct stat st;
	int fd, err;

	if (lstat(dfi__address_path(address), &st))
		return errno == ENOENT ? FOUND_NOTHING
				       : fail_system(text, "stat", errno);
	if (!S_ISSOCK(st.st_mode))
		return dfi__fail(-EEXIST,
		    "registry address '%s': the file exists and is no socket",
		    text);
	fd = file_up(
	    socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return fail_system(text, "socket", errno);
	err = connect(fd, &address->socket.any, address->size) ? errno : 0;
	close(fd);
	if (err == ENOENT)
		return FOUND_NOTHING;
	if (err == ECONNREFUSED)
		return FOUND_LEFTOVER;
	if (err == EACCES)
		return dfi__fail(-EEXIST,
		    "registry address '%s': a socket of user %lu is there, "
		    "which this user may not connect to",
		    text, (unsigned long)st.st_uid);
	return fail_system(text, "bind", EADDRINUSE);
}

/*
 * Returns the lock, or -1 if there is none, with the reason in dfi_errmsg(), or
 * -EEXIST or -EBUSY. A registry that is starting or ending holds it for a
 * moment.
 */
static int take_lock(const char *text, const struct address *address, int *lock)
{
	static const struct timespec pace = { .tv_nsec = LOCK_PAUSE_MS *
		    1000000 };
	const char *path = dfi__address_path(address);
	int ret, waited;

	for (waited = 0; waited <= LOCK_WAIT_MS; waited += LOCK_PAUSE_MS) {
		*lock = dfi__path_lock_try(path);
		if (*lock >= 0)
			return 0;
		if (*lock != -EAGAIN) {
			*lock = -1;
			return 0;
		}
		ret = look(text, address);
		if (ret < 0)
			return ret;
		nanosleep(&pace, NULL);
	}
	return dfi__fail(-EBUSY,
	    "registry address '%s': another process has held the lock of "
	    "'%s" PATH_LOCK_SUFFIX "' for %d s, and nobody answers: a registry "
	    "whose socket was removed, or that is stopped? 'fuser "
	    "%s" PATH_LOCK_SUFFIX "' names it: end it, or choose another path",
	    text, path, LOCK_WAIT_MS / 1000, path);
}

/* Make the path free, or fail; why: there is no lock. */
static int make_free(
    const char *text, const struct address *address, const char *why)
{
	int ret = look(text, address);

	if (ret != FOUND_LEFTOVER)
		return ret;
	if (why)
		return dfi__fail(-EEXIST,
		    "registry address '%s': a killed registry has left its "
		    "socket there, which can be replaced only under a lock, "
		    "and %s: remove the socket if no registry runs there",
		    text, why);
	if (unlink(dfi__address_path(address)) && errno != ENOENT)
		return fail_system(
		    text, "remove the socket that is there", errno);
	return 0;
}

static int listen_at_path(const char *text, const struct address *address,
    mode_t mode, struct listen_socket *listen)
{
	const char *path = dfi__address_path(address);
	char why[300] = "";
	struct stat st;
	int ret;

	ret = take_lock(text, address, &listen->lock);
	if (ret)
		return ret;
	if (listen->lock < 0)
		snprintf(why, sizeof(why), "%s", dfi_errmsg());
	ret = make_free(text, address, why[0] ? why : NULL);
	if (ret)
		goto err_lock;
	ret = listen_at(text, address, mode);
	if (ret < 0)
		goto err_lock;
	listen->fd = ret;
	if (stat(path, &st)) {
		ret = fail_system(text, "stat", errno);
		close(listen->fd);
		goto err_lock;
	}
	if (why[0])
		dfi__log(DFI_LOG_WARN,
		    "registry %s: has no lock: if it is killed, its socket has "
		    "to be removed by hand: %s",
		    text, why);
	strcpy(listen->path, path);
	listen->dev = st.st_dev;
	listen->ino = st.st_ino;
	return 0;

err_lock:
	if (listen->lock >= 0)
		dfi__path_lock_drop(path, listen->lock);
	return ret;
}

static int random_number(const char *text, uint64_t *number)
{
	if (getrandom(number, sizeof(*number), 0) == sizeof(*number))
		return 0;
	return fail_system(text, "getrandom", errno);
}

static int fresh_name(char text[ADDRESS_TEXT_SIZE])
{
	uint64_t number;
	int ret;

	ret = random_number("unix:@", &number);
	if (ret)
		return ret;
	snprintf(text, ADDRESS_TEXT_SIZE, "unix:@dfi-registry-%ld-%016" PRIx64,
	    (long)getpid(), number);
	return 0;
}

int dfi__listen_open(
    const char *text, mode_t mode, struct listen_socket *listen)
{
	struct listen_socket new = { .fd = -1, .lock = -1 };
	struct address address;
	int ret;

	if (!text) {
		ret = fresh_name(new.text);
		if (ret)
			return ret;
		text = new.text;
	}
	ret = dfi__address_parse(text, &address);
	if (ret)
		return ret;
	if (text != new.text)
		snprintf(new.text, sizeof(new.text), "%s", text);
	if (dfi__address_path(&address)) {
		ret = listen_at_path(text, &address, mode, &new);
	} else {
		new.fd = listen_at(text, &address, mode);
		ret = new.fd < 0 ? new.fd : 0;
	}
	if (ret)
		return ret;
	/* A child must not accept clients, which nobody would serve. */
	ret = dfi__fork_add(new.fd);
	if (ret) {
		dfi__listen_close(&new);
		return ret;
	}
	if (!dfi__address_is_unix(&address) &&
	    getsockname(new.fd, &address.socket.any, &address.size) == 0)
		dfi__address_tcp_text(&address, new.text);
	*listen = new;
	return 0;
}

void dfi__listen_close(struct listen_socket *listen)
{
	struct stat st;

	if (listen->path[0] && lstat(listen->path, &st) == 0 &&
	    st.st_dev == listen->dev && st.st_ino == listen->ino)
		unlink(listen->path);
	dfi__fork_remove(listen->fd);
	close(listen->fd);
	listen->fd = -1;
	if (listen->lock >= 0)
		dfi__path_lock_drop(listen->path, listen->lock);
	listen->lock = -1;
}
