/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a result. A regular file, also behind symbolic links, gets its
 * content as a whole at the end and keeps its mode. Until then, or after a
 * crash, it is unchanged. Pipes, devices and names of open descriptors such as
 * /dev/stdout are written directly.
 */
#ifndef EXAMPLES_RESULT_FILE_H
#define EXAMPLES_RESULT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

struct result_file {
	const char *option, *name; /* as the user gave them */
	FILE *stream;
	int fd, error; /* of the first failed write: errno */
	bool direct;
	bool is_stdout; /* standard output leads to the same file */
	/* Of a regular file, from here on. */
	char path[PATH_MAX]; /* behind symbolic links */
	char temporary[PATH_MAX];
	bool is_named; /* the temporary file has its name already */
	bool is_old;   /* there was a file */
	struct stat old;
	struct result_file *next; /* whose temporary file has a name */
};

/*
 * Begin a result. It must be none of the n input files, by any name. option is
 * the user's, for messages ("--output"). The file stays unchanged until it is
 * closed. Returns 0, or -1 after a complaint.
 */
int result_file_open(struct result_file *file, const char *option,
    const char *name, const char *const *inputs, uint32_t n);

/*
 * Whether all output so far could be written. Returns 0, or -1 after a
 * complaint.
 */
int result_file_check(struct result_file *file);

/*
 * Put complete content in place, or drop it. Returns 0, or -1 after a
 * complaint.
 */
int result_file_close(struct result_file *file, bool complete);

#endif
