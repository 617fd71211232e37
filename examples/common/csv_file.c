/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process may write to the file during the read. If its times or size
 * differ at the end, the bytes are read and hashed again. An equal hash means
 * that the file had these bytes at one moment, and has only grown since.
 */
#include "csv_file.h"
#include "../../common/complain.h"

#include <dfi/dfi.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Kinds of files --------------------------------------------------------
 */

/* A format whose files have some bytes at the start, or a bit later. */
static const struct {
	const char *bytes;
	size_t size, at;
	const char *what, *remedy;
} kinds[] = {
#define KIND_AT(at, bytes, what, remedy)                   \
	{                                                  \
		bytes, sizeof(bytes) - 1, at, what, remedy \
	}
#define KIND(bytes, what, remedy) KIND_AT(0, bytes, what, remedy)
	KIND("\x1f\x8b", "compressed by gzip", "decompress it with gunzip"),
	KIND("\x28\xb5\x2f\xfd", "compressed by zstd",
	    "decompress it with unzstd"),
	KIND("\xfd"
	     "7zXZ\0",
	    "compressed by xz", "decompress it with unxz"),
	/* Behind "BZh" and a digit. */
	KIND_AT(
	    4, "1AY&SY", "compressed by bzip2", "decompress it with bunzip2"),
	KIND("\x1f\x9d", "compressed by compress",
	    "decompress it with uncompress"),
	KIND("\x04\x22\x4d\x18", "compressed by lz4",
	    "decompress it with unlz4"),
	KIND("7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first"),
	KIND("PK\x03\x04", "a zip archive, as spreadsheets (.xlsx, .ods) are",
	    "unpack it, or save the sheet as CSV"),
	KIND("\xd0\xcf\x11\xe0", "an old spreadsheet (.xls)",
	    "save the sheet as CSV"),
	KIND("PAR1\x15", "a Parquet file", "export it as CSV"),
	KIND("SQLite format 3", "an SQLite database", "export a table as CSV"),
	KIND("%PDF-", "a PDF file", "export its table as CSV"),
	/* UTF-32 first: its mark begins like that of UTF-16. */
	KIND("\xff\xfe\0\0", "in UTF-32", "convert it: iconv -f UTF-32"),
	KIND("\0\0\xfe\xff", "in UTF-32", "convert it: iconv -f UTF-32"),
	KIND("\xff\xfe", "in UTF-16", "convert it: iconv -f UTF-16"),
	KIND("\xfe\xff", "in UTF-16", "convert it: iconv -f UTF-16"),
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Most letters of a header are ASCII, which UTF-16 gives a zero byte each. */
static const char *utf16_without_mark(const char *bytes, size_t size)
{
	if (size < 4)
		return NULL;
	if (bytes[0] && !bytes[1] && bytes[2] && !bytes[3])
		return "UTF-16LE";
	if (!bytes[0] && bytes[1] && !bytes[2] && bytes[3])
		return "UTF-16BE";
	return NULL;
}

/* Refuse a file that begins with the bytes of another format. */
static int check_kind(const char *name, const char *bytes, size_t size)
{
	const char *encoding = utf16_without_mark(bytes, size);
	size_t i;

	if (encoding)
		return complain("%s: the file is in %s, not CSV in UTF-8: "
				"convert it: iconv -f %s",
		    name, encoding, encoding);
	for (i = 0; i < N_KINDS; i++)
		if (size >= kinds[i].at + kinds[i].size &&
		    memcmp(bytes + kinds[i].at, kinds[i].bytes,
			kinds[i].size) == 0)
			return complain(
			    "%s: the file is %s, not CSV in UTF-8: %s", name,
			    kinds[i].what, kinds[i].remedy);
	return 0;
}

/* ---- Reading ---------------------------------------------------------------
 */

/* The descriptor that a name stands for; -1: the name is no descriptor's. */
static int descriptor_of(const char *name)
{
	static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
	size_t i, n;

	if (strcmp(name, "/dev/stdin") == 0)
		return STDIN_FILENO;
	for (i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		n = strlen(folders[i]);
		if (strncmp(name, folders[i], n) == 0 && name[n] >= '0' &&
		    name[n] <= '9')
			return (int)strtol(name + n, NULL, 10);
	}
	return -1;
}

/* Programs reuse a closed descriptor 0 for writing: then it reads nothing. */
static int check_stdin(const char *name)
{
	int flags = fcntl(STDIN_FILENO, F_GETFL);

	if (descriptor_of(name) != STDIN_FILENO ||
	    (flags >= 0 && (flags & O_ACCMODE) != O_WRONLY))
		return 0;
	return complain("%s: standard input is closed, or open for writing "
			"only: give it a file or a pipe (< FILE)",
	    name);
}

/* Output would be appended to the input, or has replaced it. */
static int check_stdout(const struct csv_file *file)
{
	struct stat out;

	if (!S_ISREG(file->status.st_mode) || fstat(STDOUT_FILENO, &out) ||
	    out.st_dev != file->status.st_dev ||
	    out.st_ino != file->status.st_ino)
		return 0;
	return complain("%s: standard output is this file, which is read: "
			"print to another file",
	    file->name);
}

static bool is_socket(const char *name)
{
	struct stat status;

	return stat(name, &status) == 0 && S_ISSOCK(status.st_mode);
}

int csv_file_open(const char *name, struct csv_file *file)
{
	int fd;

	*file = (struct csv_file){ .name = name, .fd = -1 };
	if (check_stdin(name))
		return -1;
	file->fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	/* A socket can't be opened, but it may be standard input. */
	if (file->fd < 0 && errno == ENXIO) {
		fd = descriptor_of(name);
		if (fd < 0 && !is_socket(name))
			return complain("%s: %s", name, strerror(ENXIO));
		if (fd < 0)
			return complain("%s: a socket can't be opened as a "
					"file: give its data through a pipe",
			    name);
		file->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	}
	if (file->fd < 0)
		return complain("%s: %s", name, strerror(errno));
	if (fstat(file->fd, &file->status)) {
		complain("%s: %s", name, strerror(errno));
	} else if (S_ISDIR(file->status.st_mode)) {
		complain("%s: it is a directory: name a file in it", name);
	} else if (check_stdout(file) == 0) {
		/* Files of /proc have size 0, but are not empty. */
		file->has_size = S_ISREG(file->status.st_mode) &&
		    file->status.st_size > 0;
		return 0;
	}
	csv_file_close(file);
	return -1;
}

void csv_file_close(struct csv_file *file)
{
	close(file->fd);
	file->fd = -1;
}

/* Fill a buffer, or stop at the end of the file; -1: errno says why. */
static ssize_t fill(int fd, char *bytes, size_t room)
{
	struct pollfd more = { .fd = fd, .events = POLLIN };
	size_t n = 0;
	ssize_t got;

	while (n < room) {
		got = read(fd, bytes + n, room - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN) {
			(void)poll(&more, 1, -1);
			continue;
		}
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	return (ssize_t)n;
}

ssize_t csv_file_read(struct csv_file *file, char *bytes, size_t room)
{
	uint64_t left = (uint64_t)file->status.st_size - file->n_read;
	ssize_t n;

	file->room = room;
	if (file->has_size && left < room)
		room = (size_t)left;
	n = fill(file->fd, bytes, room);
	if (n < 0)
		return complain("%s: %s", file->name, strerror(errno));
	if (file->n_read == 0 && check_kind(file->name, bytes, (size_t)n))
		return -1;
	if (n == 0)
		return 0;
	file->n_read += (uint64_t)n;
	file->hash = dfi_hash_bytes(bytes, (size_t)n, file->hash);
	return n;
}

/* ---- Afterwards ------------------------------------------------------------
 */

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Whether the same bytes come again; -1: reading failed. */
static int comes_again(const struct csv_file *file)
{
	size_t room = file->room;
	char *bytes = malloc(room);
	uint64_t left = (uint64_t)file->status.st_size, hash = 0;
	ssize_t n = 0;

	if (!bytes)
		return complain("%s: no memory", file->name);
	if (lseek(file->fd, 0, SEEK_SET) < 0)
		n = -1;
	while (n >= 0 && left > 0) {
		n = fill(file->fd, bytes, left < room ? (size_t)left : room);
		if (n <= 0)
			break;
		hash = dfi_hash_bytes(bytes, (size_t)n, hash);
		left -= (uint64_t)n;
	}
	free(bytes);
	if (n < 0)
		return complain("%s: %s", file->name, strerror(errno));
	return left == 0 && hash == file->hash;
}

int csv_file_check(struct csv_file *file, bool *grown)
{
	struct stat now;
	char next;
	int same;

	*grown = false;
	if (!S_ISREG(file->status.st_mode))
		return 0;
	if (fstat(file->fd, &now))
		return complain("%s: %s", file->name, strerror(errno));
	if (now.st_size == file->status.st_size &&
	    same_time(now.st_mtim, file->status.st_mtim) &&
	    (!file->has_size || file->n_read == (uint64_t)file->status.st_size))
		return 0;
	same = file->has_size ? comes_again(file) : 0;
	if (same < 0)
		return -1;
	if (!same)
		return complain("%s: the file changed while it was read: run "
				"this again when nobody writes to it",
		    file->name);
	*grown = pread(file->fd, &next, 1, file->status.st_size) == 1 &&
	    next != '\n' && next != '\r';
	return 0;
}
