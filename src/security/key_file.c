/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and making files with secrets. The mode is checked on the open file,
 * so that the checked file is the one that is read. Memory that is freed must
 * not hold a key.
 *
 * A key file is one line of text: a word that distinguishes it from other
 * files, and 64 hexadecimal digits.
 */
#include "key_file.h"

#include <dfi/registry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/error.h"
#include "base/files.h"
#include "base/user.h"

#define MAGIC "dfi-registry-key-1 "
#define FAMILY "dfi-registry-key-"
#define NO_KEY "it is no key of 'dfi-registry keygen'"
#define MAGIC_SIZE (sizeof(MAGIC) - 1)
#define TEXT_SIZE (MAGIC_SIZE + 2 * REGISTRY_KEY_BYTES + 1)

static const char digits[] = "0123456789abcdef";

static int create_error(const char *path, int err)
{
	struct stat status;

	switch (err) {
	case EEXIST:
		if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode))
			return dfi__fail(-EEXIST,
			    "key file '%s': it exists and is no regular file: "
			    "name a new file",
			    path);
		return dfi__fail(-EEXIST,
		    "key file '%s' exists: a key is never overwritten", path);
	case EACCES:
	case EPERM:
	case EROFS:
		err = EACCES;
		break;
	case ENOENT:
	case ENOSPC:
		break;
	default:
		return dfi__fail_files(
		    err, 1, "writing", "key file '%s'", path);
	}
	return dfi__fail(-err, "key file '%s' can't be written: %s", path,
	    strerrordesc_np(err));
}

static int make_text(const char *path, char text[TEXT_SIZE])
{
	unsigned char key[REGISTRY_KEY_BYTES];
	size_t i;

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return create_error(path, EIO);
	memcpy(text, MAGIC, MAGIC_SIZE);
	for (i = 0; i < sizeof(key); i++) {
		text[MAGIC_SIZE + 2 * i] = digits[key[i] >> 4];
		text[MAGIC_SIZE + 2 * i + 1] = digits[key[i] & 15];
	}
	text[TEXT_SIZE - 1] = '\n';
	explicit_bzero(key, sizeof(key));
	return 0;
}

/* Returns 0, or the errno value of the call that failed. */
static int write_secret(int fd, const char text[TEXT_SIZE])
{
	ssize_t written;

	/* The umask may have removed the owner's rights. */
	if (fchmod(fd, 0600))
		return errno;
	written = write(fd, text, TEXT_SIZE);
	if (written < 0)
		return errno;
	if (written != TEXT_SIZE)
		return ENOSPC;
	return fsync(fd) ? errno : 0;
}

int dfi_registry_key_create(const char *path)
{
	char text[TEXT_SIZE];
	int fd, err, ret;
	CANCEL_POINT;

	if (!path)
		return dfi__fail(
		    -EINVAL, "dfi_registry_key_create: path is NULL");
	ret = make_text(path, text);
	if (ret)
		return ret;
	fd = file_up(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
	if (fd < 0) {
		ret = create_error(path, errno);
		goto out;
	}
	err = write_secret(fd, text);
	if (err) {
		unlink(path);
		ret = create_error(path, err);
	}
	close(fd);
out:
	explicit_bzero(text, sizeof(text));
	return ret;
}

static int bad_file(const char *what, const char *path, const char *why)
{
	return dfi__fail(-EINVAL, "%s '%s': %s", what, path, why);
}

/* Returns NULL, or why the file is not a secret of this user. */
static const char *exposure(const struct stat *st, enum secret_readers readers)
{
	mode_t allowed = S_IRWXU;
	const char *refusal;

	if (!S_ISREG(st->st_mode))
		return "it is no regular file";
	refusal = dfi__user_refusal(st->st_uid);
	if (refusal)
		return refusal;
	if (readers == SECRET_GROUP_FROM_ROOT && st->st_uid == 0)
		allowed |= S_IRGRP;
	if (st->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO) & ~allowed)
		return "others than its owner can read or write it, so it is "
		       "no secret: make a new one, with mode 0600";
	return NULL;
}

int dfi__secret_file_open(
    const char *path, const char *what, enum secret_readers readers)
{
	const char *why;
	struct stat st;
	/* O_NONBLOCK: opening a FIFO would wait for its writer. */
	int fd = file_up(
	    open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		return dfi__fail_files(errno, 1, "open", "%s '%s'", what, path);
	if (fd < 0)
		return bad_file(what, path, strerrordesc_np(errno));
	why = fstat(fd, &st) ? strerrordesc_np(errno) : exposure(&st, readers);
	if (why) {
		close(fd);
		return bad_file(what, path, why);
	}
	return fd;
}

static int digit_value(char digit)
{
	const char *at = digit ? strchr(digits, digit) : NULL;

	return at ? (int)(at - digits) : -1;
}

static bool begins_with(const char *text, size_t size, const char *word)
{
	return size >= strlen(word) && memcmp(text, word, strlen(word)) == 0;
}

/* Returns what a text is that does not begin as a key. */
static const char *other_file(const char *text, size_t size)
{
	if (size == 0)
		return NO_KEY ": it is empty";
	if (begins_with(text, size, FAMILY))
		return NO_KEY " of this version: make a new one";
	if (begins_with(text, size, "-----BEGIN"))
		return NO_KEY ": it is a PEM file: a registry takes it with "
			      "--cert or --private-key, its clients by "
			      "DFI_REGISTRY_CERT or DFI_REGISTRY_PRIVATE_KEY";
	if (begins_with(text, size, "\xef\xbb\xbf") ||
	    begins_with(text, size, "\xff\xfe") ||
	    begins_with(text, size, "\xfe\xff"))
		return NO_KEY ": it begins with the mark of an encoding, "
			      "which an editor has put there: copy the file "
			      "as it is";
	return NO_KEY;
}

/* Parse a key. Returns NULL, or why it is not one. */
static const char *parse_key(
    const char *text, size_t size, unsigned char key[REGISTRY_KEY_BYTES])
{
	size_t i;

	if (!begins_with(text, size, MAGIC))
		return other_file(text, size);
	/* An editor may have removed the newline, or written its own. */
	if (text[size - 1] == '\n')
		size--;
	if (text[size - 1] == '\r')
		size--;
	if (size < TEXT_SIZE - 1)
		return NO_KEY ": its end is missing: copy the file again";
	if (size > TEXT_SIZE - 1)
		return NO_KEY ": more follows behind its 64 digits";
	for (i = 0; i < REGISTRY_KEY_BYTES; i++) {
		int high = digit_value(text[MAGIC_SIZE + 2 * i]);
		int low = digit_value(text[MAGIC_SIZE + 2 * i + 1]);

		if (high < 0 || low < 0)
			return NO_KEY ": not all of its 64 digits are of 0 to "
				      "9 and a to f";
		key[i] = (unsigned char)(high << 4 | low);
	}
	return NULL;
}

int dfi__key_file_read(const char *path, unsigned char key[REGISTRY_KEY_BYTES])
{
	/* With a carriage return, and one byte too many. */
	char text[TEXT_SIZE + 2];
	const char *why;
	ssize_t size;
	int fd, ret = 0;

	fd = dfi__secret_file_open(path, "key file", SECRET_OWNER);
	if (fd < 0)
		return fd;
	size = read(fd, text, sizeof(text));
	why = size < 0 ? strerrordesc_np(errno)
		       : parse_key(text, (size_t)size, key);
	if (why)
		ret = bad_file("key file", path, why);
	if (ret)
		explicit_bzero(key, REGISTRY_KEY_BYTES);
	explicit_bzero(text, sizeof(text));
	close(fd);
	return ret;
}
