/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a result. A regular file gets its content as a whole at the end,
 * with the mode it had, also behind symbolic links; until then, and if the
 * program fails or is killed, it stays as it was. Pipes and devices, and names
 * of open descriptors such as /dev/stdout, are written directly.
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
 * Begin a result, which must be none of the n input files, by whatever name.
 * option is the user's, for messages ("--output"). The file stays where it is
 * until it is closed. 0, or -1 after a complaint; nothing is changed then.
 */
int result_file_open(struct result_file *file, const char *option,
    const char *name, const char *const *inputs, uint32_t n);

/* Whether all that was printed so far could be written. 0, or -1, complains. */
int result_file_check(struct result_file *file);

/*
 * Put the content in place, if it is complete, or drop it. 0, or -1 after a
 * complaint.
 */
int result_file_close(struct result_file *file, bool complete);

#endif
