/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding the registry's address. A Unix socket file appears under its name
 * only when it already answers and has its mode: the socket is bound and
 * listens under a name of its own, and is then linked to the path, which fails
 * if something is there. A leftover file is replaced by a rename under a lock
 * on the directory, so that of two registries that find it one wins.
 */
#include "listen.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"

#define BACKLOG 1024

static int fail_system(const char *text, const char *what, int err)
{
	switch (err) {
	case EADDRINUSE:
		return dfi__fail(-EEXIST,
		    "registry address '%s' is in use by another process", text);
	case EACCES:
		return dfi__fail(-err,
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

/* A listening socket at address, or a negative errno value. */
static int listen_at(
    const char *text, const struct address *address, mode_t mode)
{
	int fd, one = 1, err;

	fd = socket(address->socket.any.sa_family,
	    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail_system(text, "socket", errno);
	if (!dfi__address_is_unix(address))
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &address->socket.any, address->size)) {
		err = errno;
		close(fd);
		return fail_system(text, "bind", err);
	}
	/* Before anybody can connect. */
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

/* 1: somebody answers there, 0: a dead socket, or a negative errno value. */
static int probe(const char *text, const struct address *address)
{
	const char *path = dfi__address_path(address);
	struct stat st;
	int fd, ret;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : fail_system(text, "stat", errno);
	if (!S_ISSOCK(st.st_mode))
		return dfi__fail(-EEXIST,
		    "registry address '%s': the file exists and is no socket",
		    text);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail_system(text, "socket", errno);
	/* Only a refusal means that nobody has the socket open any more. */
	ret = connect(fd, &address->socket.any, address->size) == 0 ||
	    (errno != ECONNREFUSED && errno != ENOENT);
	close(fd);
	return ret;
}

/*
 * Lock a directory. Registries of other addresses in it lock it, too, for a
 * moment; but anybody may, so it is not waited for without end.
 */
static int lock_directory(int directory)
{
	static const struct timespec nap = { .tv_nsec = 10000000 };
	unsigned tries;

	for (tries = 0; flock(directory, LOCK_EX | LOCK_NB); tries++) {
		if (tries == 100)
			return -1;
		nanosleep(&nap, NULL);
	}
	return 0;
}

/* Put the socket file temporary in the place of a dead one. */
static int replace(const char *text, const struct address *address,
    const char *directory, const char *temporary)
{
	int lock, ret;

	lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0)
		return fail_system(text, "open directory", errno);
	if (lock_directory(lock)) {
		ret = dfi__fail(-EBUSY,
		    "registry address '%s': another process is replacing a "
		    "leftover socket there; try again",
		    text);
		goto out;
	}
	ret = probe(text, address);
	if (ret > 0)
		ret = fail_system(text, "bind", EADDRINUSE);
	else if (ret == 0 && rename(temporary, dfi__address_path(address)))
		ret = fail_system(text, "rename", errno);
out:
	close(lock);
	return ret;
}

static int random_number(const char *text, uint64_t *number)
{
	if (getrandom(number, sizeof(*number), 0) == sizeof(*number))
		return 0;
	return fail_system(text, "getrandom", errno);
}

/* A name beside path for the time of binding. */
static int temporary_address(const char *text, const char *path,
    char directory[108], struct address *temporary)
{
	const char *slash = strrchr(path, '/');
	uint64_t number;
	char name[160];
	int ret;

	ret = random_number(text, &number);
	if (ret)
		return ret;
	if (!slash)
		strcpy(directory, ".");
	else
		snprintf(directory, 108, "%.*s",
		    slash == path ? 1 : (int)(slash - path), path);
	snprintf(name, sizeof(name), "unix:%s/.%08" PRIx32, directory,
	    (uint32_t)number);
	if (dfi__address_parse(name, temporary))
		return dfi__fail(-EINVAL,
		    "registry address '%s': the path is too long", text);
	return 0;
}

static int listen_at_path(const char *text, const struct address *address,
    mode_t mode, struct listen_socket *listen)
{
	const char *path = dfi__address_path(address), *name;
	struct address temporary;
	char directory[108];
	struct stat st;
	int fd, ret;

	ret = temporary_address(text, path, directory, &temporary);
	if (ret)
		return ret;
	name = dfi__address_path(&temporary);
	fd = listen_at(text, &temporary, mode);
	if (fd < 0)
		return fd;
	if (stat(name, &st)) {
		ret = fail_system(text, "stat", errno);
		goto err;
	}
	if (link(name, path) == 0) {
		unlink(name);
	} else if (errno == EEXIST) {
		ret = replace(text, address, directory, name);
		if (ret)
			goto err;
	} else {
		ret = fail_system(text, "link", errno);
		goto err;
	}
	strcpy(listen->path, path);
	listen->dev = st.st_dev;
	listen->ino = st.st_ino;
	listen->fd = fd;
	return 0;

err:
	unlink(name);
	close(fd);
	return ret;
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
	struct listen_socket new = { .fd = -1 };
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
	/* A child must not accept clients, whom nobody would serve. */
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
}
