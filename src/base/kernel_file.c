/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts are on the heap, since they may be long and the calling thread's stack
 * small.
 */
#include "kernel_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "files.h"

/* Longer files are cut. A list of 100,000 mounts has 16 MiB. */
#define FIRST_SIZE 2048
#define MAX_SIZE (16 << 20)

/* The whole text, or NULL. */
static char *read_all(int fd)
{
	size_t size = FIRST_SIZE, length = 0;
	char *text = malloc(size), *longer;
	ssize_t got;

	while (text) {
		got = read(fd, text + length, size - length - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			break;
		length += (size_t)got;
		text[length] = '\0';
		if (!got)
			return text;
		if (length < size - 1)
			continue;
		if (size == MAX_SIZE)
			return text;
		size *= 2;
		longer = realloc(text, size);
		if (!longer)
			break;
		text = longer;
	}
	free(text);
	return NULL;
}

static char *read_text(const char *path, va_list args)
{
	char *name, *text = NULL;
	int fd;

	if (vasprintf(&name, path, args) < 0)
		return NULL;
	fd = file_up(open(name, O_RDONLY | O_CLOEXEC));
	free(name);
	if (fd < 0)
		return NULL;
	text = read_all(fd);
	close(fd);
	return text;
}

char *dfi__kernel_text(const char *path, ...)
{
	va_list args;
	char *text;

	va_start(args, path);
	text = read_text(path, args);
	va_end(args);
	return text;
}

/* "max" and other words are no number. */
static bool parse_number(const char *text, uint64_t *number)
{
	unsigned long long value;

	text += strspn(text, " \t");
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoull(text, NULL, 10);
	if (errno)
		return false;
	*number = value;
	return true;
}

bool dfi__kernel_number(uint64_t *number, const char *path, ...)
{
	va_list args;
	char *text;
	bool is;

	va_start(args, path);
	text = read_text(path, args);
	va_end(args);
	is = text && parse_number(text, number);
	free(text);
	return is;
}

bool dfi__kernel_field(const char *text, const char *name, uint64_t *number)
{
	size_t length = strlen(name);

	while (text) {
		if (!strncmp(text, name, length) &&
		    strchr(": \t", text[length]))
			return text[length] &&
			    parse_number(text + length + 1, number);
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return false;
}
