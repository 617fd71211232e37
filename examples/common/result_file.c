/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces a regular file. The content goes to a file without a name in the
 * same folder, which at the end gets a name and is renamed. So no temporary
 * file stays, even if this process is killed. Where the file system has no such
 * files, the temporary file has a name, and the signals that end programs
 * remove it.
 */
#include "result_file.h"
#include "../../common/complain.h"
#include "../../common/output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/vfs.h>

#define PROC_FS 0x9fa0
#define MAX_LINKS 40
#define MAX_NAMES 100
#define BUFFER_SIZE 65536

/* For signal handlers: the files whose temporary file has a name. */
static struct result_file *first_named;
static pid_t owner; /* the process of these files, not a forked child */

static int fail(const struct result_file *file, const char *what)
{
	return complain(
	    "%s %s: %s%s", file->option, file->name, what, strerror(errno));
}

/* The folder of a path, in a buffer of PATH_MAX. */
static const char *folder_of(const char *path, char *buffer)
{
	snprintf(buffer, PATH_MAX, "%s", path);
	return dirname(buffer);
}

/* ---- Where the name leads --------------------------------------------------
 */

/* This process's descriptor that a link in /proc stands for; or -1. */
static int linked_descriptor(const char *path)
{
	const char *number = strrchr(path, '/');
	char buffer[PATH_MAX], real[PATH_MAX], own[64];
	char *end;
	long fd;

	if (!number || !realpath(folder_of(path, buffer), real))
		return -1;
	snprintf(own, sizeof(own), "/proc/%d/", (int)getpid());
	fd = strtol(number + 1, &end, 10);
	if (strncmp(real, own, strlen(own)) != 0 || end == number + 1 || *end)
		return -1;
	return (int)fd;
}

/* Follow one symbolic link. 0, or -1 and errno. */
static int follow(char path[PATH_MAX])
{
	char target[PATH_MAX], buffer[PATH_MAX], next[2 * PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	if (n < 0)
		return -1;
	target[n] = '\0';
	if (target[0] == '/')
		snprintf(next, sizeof(next), "%s", target);
	else
		snprintf(next, sizeof(next), "%s/%s", folder_of(path, buffer),
		    target);
	if (strlen(next) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(path, next, strlen(next) + 1);
	return 0;
}

/*
 * Follow the links of the last part of the name. Then path is the file itself,
 * or a link to an open file; *descriptor may then be its number.
 */
static int resolve(struct result_file *file, int *descriptor)
{
	struct statfs system;
	int i, fd, ret;

	*descriptor = -1;
	for (i = 0; i < MAX_LINKS; i++) {
		fd = open(file->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return errno == ENOENT ? 0 : -1;
		ret = fstat(fd, &file->old) || fstatfs(fd, &system);
		close(fd);
		if (ret)
			return -1;
		file->is_old = true;
		if (!S_ISLNK(file->old.st_mode)) {
			file->direct = !S_ISREG(file->old.st_mode);
			return 0;
		}
		if (system.f_type == PROC_FS) {
			file->direct = true;
			*descriptor = linked_descriptor(file->path);
			return stat(file->path, &file->old);
		}
		file->is_old = false;
		if (follow(file->path))
			return -1;
	}
	errno = ELOOP;
	return -1;
}

/* Devices other than terminals, as /dev/null, do not mix what they get. */
static bool is_stdout(const struct result_file *file)
{
	struct stat out;

	return file->is_old && fstat(STDOUT_FILENO, &out) == 0 &&
	    out.st_dev == file->old.st_dev && out.st_ino == file->old.st_ino &&
	    (!S_ISCHR(out.st_mode) || isatty(STDOUT_FILENO));
}

static int refuse_inputs(
    const struct result_file *file, const char *const *inputs, uint32_t n)
{
	mode_t type = file->old.st_mode & S_IFMT;
	struct stat status;
	uint32_t i;

	/* A terminal may be both an input and the output. */
	if (!file->is_old ||
	    (type != S_IFREG && type != S_IFIFO && type != S_IFBLK))
		return 0;
	for (i = 0; i < n; i++)
		if (stat(inputs[i], &status) == 0 &&
		    status.st_dev == file->old.st_dev &&
		    status.st_ino == file->old.st_ino)
			return complain("%s %s is the input %s, which "
					"would be lost: give another file",
			    file->option, file->name, inputs[i]);
	return 0;
}

/* ---- Temporary files -------------------------------------------------------
 */

static void on_signal(int number)
{
	const struct result_file *file;

	for (file = first_named; file && getpid() == owner; file = file->next)
		if (file->is_named)
			unlink(file->temporary);
	signal(number, SIG_DFL);
	raise(number);
}

static void remove_on_signals(struct result_file *file)
{
	static const int numbers[] = { SIGHUP, SIGINT, SIGQUIT, SIGPIPE,
		SIGTERM };
	struct sigaction action = { .sa_handler = on_signal }, old;
	size_t i;

	owner = getpid();
	file->next = first_named;
	first_named = file;
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (sigaction(numbers[i], NULL, &old) == 0 &&
		    old.sa_handler == SIG_DFL)
			sigaction(numbers[i], &action, NULL);
}

/* Whether the file can probably be replaced at the end. */
static int check_old(const struct result_file *file)
{
	char buffer[PATH_MAX];
	struct stat folder;
	struct statx place;

	/* Sandboxes of old containers refuse the first call: EPERM. */
	if (faccessat(AT_FDCWD, file->path, W_OK, AT_EACCESS) &&
	    (errno != EPERM || access(file->path, W_OK)))
		return fail(file, "");
	if (stat(folder_of(file->path, buffer), &folder))
		return fail(file, "");
	if ((folder.st_mode & S_ISVTX) && geteuid() != 0 &&
	    geteuid() != file->old.st_uid && geteuid() != folder.st_uid)
		return complain("%s %s: it belongs to another user, and "
				"so cannot be replaced in %s: give another "
				"file",
		    file->option, file->name, buffer);
	if (statx(AT_FDCWD, file->path, AT_SYMLINK_NOFOLLOW, 0, &place) == 0 &&
	    place.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return complain("%s %s: it is mounted by itself and so "
				"cannot be replaced: mount its folder, or give "
				"another file",
		    file->option, file->name);
	return 0;
}

static void forget(const struct result_file *file)
{
	struct result_file **at;

	for (at = &first_named; *at; at = &(*at)->next)
		if (*at == file) {
			*at = file->next;
			return;
		}
}

static int make_named(struct result_file *file, const char *folder)
{
	mode_t mask = umask(0);

	umask(mask);
	snprintf(file->temporary, sizeof(file->temporary), "%.*s/.%.32s.XXXXXX",
	    PATH_MAX - 64, folder, program_invocation_short_name);
	file->fd = mkostemp(file->temporary, O_CLOEXEC);
	if (file->fd < 0)
		return fail(file, "cannot write to its folder: ");
	file->is_named = true;
	remove_on_signals(file);
	return fchmod(file->fd, 0666 & ~mask) ? fail(file, "") : 0;
}

/* Give the temporary file a name beside the file that it will replace. */
static int name_it(struct result_file *file)
{
	char buffer[PATH_MAX], own[64];
	const char *folder = folder_of(file->path, buffer);
	int i;

	snprintf(own, sizeof(own), "/proc/self/fd/%d", file->fd);
	for (i = 0; i < MAX_NAMES; i++) {
		snprintf(file->temporary, sizeof(file->temporary),
		    "%.*s/.%.32s.%d.%d", PATH_MAX - 64, folder,
		    program_invocation_short_name, (int)getpid(), i);
		if (linkat(AT_FDCWD, own, AT_FDCWD, file->temporary,
			AT_SYMLINK_FOLLOW) == 0) {
			file->is_named = true;
			return 0;
		}
		if (errno != EEXIST)
			break;
	}
	return -1;
}

/* Whether the file can get a name. It cannot be named a second time. */
static bool can_be_named(struct result_file *file)
{
	sigset_t all, before;
	bool can;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	can = name_it(file) == 0;
	if (can)
		unlink(file->temporary);
	file->is_named = false;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return can;
}

static int open_unnamed(const char *folder)
{
	return open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

/*
 * Sandboxes, file systems and a missing /proc refuse names for files without
 * one. Try it before the whole computation.
 */
static int make_temporary(struct result_file *file)
{
	char buffer[PATH_MAX];
	const char *folder = folder_of(file->path, buffer);
	bool can;

	if (file->is_old && check_old(file))
		return -1;
	file->fd = open_unnamed(folder);
	if (file->fd < 0) {
		if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
			return fail(file, "cannot write to its folder: ");
		return make_named(file, folder);
	}
	can = can_be_named(file);
	close(file->fd);
	if (!can)
		return make_named(file, folder);
	file->fd = open_unnamed(folder);
	return file->fd < 0 ? fail(file, "cannot write to its folder: ") : 0;
}

/* Set the owner first: a new owner clears bits of the mode. */
static int keep_mode(const struct result_file *file)
{
	const struct stat *old = &file->old;
	mode_t mode = old->st_mode & 07777;

	/* Without the old owner, drop set-user-ID and set-group-ID. */
	if (fchown(file->fd, old->st_uid, old->st_gid))
		mode &= 0777;
	return fchmod(file->fd, mode);
}

/* Block signals between the naming and its record. */
static int replace(struct result_file *file)
{
	sigset_t all, before;
	int ret;

	if (file->is_old && keep_mode(file))
		return fail(file, "cannot give it its mode: ");
	if (fsync(file->fd))
		return fail(file, "");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = file->is_named ? 0 : name_it(file);
	if (ret == 0)
		ret = rename(file->temporary, file->path);
	if (ret)
		fail(file, "cannot put the result in its place: ");
	if (ret == 0)
		file->is_named = false;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}

/* ---- Writing ---------------------------------------------------------------
 */

static ssize_t write_stream(void *cookie, const char *data, size_t size)
{
	struct result_file *file = cookie;

	if (file->error)
		return 0;
	if (write_all(file->fd, data, size) == 0)
		return (ssize_t)size;
	file->error = errno;
	if (file->error == EPIPE)
		output_end_quietly();
	return 0;
}

static int open_direct(struct result_file *file, int descriptor)
{
	file->fd = descriptor >= 0
	    ? fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
	    : open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (file->fd < 0)
		return fail(file, "");
	if ((fcntl(file->fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
		errno = EBADF;
		return fail(file, "it is open for reading only: ");
	}
	return 0;
}

int result_file_open(struct result_file *file, const char *option,
    const char *name, const char *const *inputs, uint32_t n)
{
	static const cookie_io_functions_t functions = {
		.write = write_stream
	};
	size_t size = strlen(name);
	int descriptor;

	*file = (struct result_file){
		.option = option,
		.name = name,
		.fd = -1,
	};
	if (size == 0 || size >= PATH_MAX || name[size - 1] == '/')
		return complain("%s '%s': this names no file", option, name);
	memcpy(file->path, name, size + 1);
	if (resolve(file, &descriptor))
		return fail(file, "");
	file->is_stdout = is_stdout(file);
	if (refuse_inputs(file, inputs, n) ||
	    (file->direct ? open_direct(file, descriptor)
			  : make_temporary(file))) {
		result_file_close(file, false);
		return -1;
	}
	file->stream = fopencookie(file, "w", functions);
	if (!file->stream || setvbuf(file->stream, NULL, _IOFBF, BUFFER_SIZE)) {
		result_file_close(file, false);
		return complain("%s %s: no memory", option, name);
	}
	return 0;
}

int result_file_check(struct result_file *file)
{
	if (!file->error)
		return 0;
	errno = file->error;
	return fail(file, "");
}

int result_file_close(struct result_file *file, bool complete)
{
	int ret = 0;

	if (file->stream && complete)
		fflush(file->stream);
	if (complete)
		ret = result_file_check(file);
	if (complete && ret == 0 && !file->direct)
		ret = replace(file);
	/* The rest of the stream is dropped. */
	if (!complete || ret)
		file->error = ECANCELED;
	if (file->stream)
		fclose(file->stream);
	if (file->fd >= 0 && close(file->fd) && complete && ret == 0)
		ret = fail(file, "");
	if (file->is_named)
		unlink(file->temporary);
	forget(file);
	*file = (struct result_file){ .fd = -1 };
	return ret;
}
