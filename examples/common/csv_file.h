/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a CSV file, read once from the start to the end. A regular file
 * gives the bytes that it had when it was opened: what others append meanwhile
 * is left out, and a file that changes in another way is an error. A pipe gives
 * all that comes. Files that are no text in UTF-8 are recognised and named.
 */
#ifndef EXAMPLES_CSV_FILE_H
#define EXAMPLES_CSV_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct csv_file {
	const char *name;
	int fd;
	struct stat status; /* when it was opened */
	bool has_size;      /* status.st_size is where it ends */
	uint64_t n_read;
	size_t room;   /* of each reading */
	uint64_t hash; /* of the bytes read, chained in pieces of room */
};

/*
 * Waits for a writer of a FIFO, and refuses the file that standard output goes
 * to. 0, or -1 after a complaint with the reason.
 */
int csv_file_open(const char *name, struct csv_file *file);
void csv_file_close(struct csv_file *file);

/*
 * The next bytes: as many as there is room for, unless the end comes before. 0
 * at the end; -1 after a complaint. Call it with the same room each time.
 */
ssize_t csv_file_read(struct csv_file *file, char *bytes, size_t room);

/*
 * At the end: whether all bytes that were read are of one moment. *grown: what
 * follows them now is no line end, so that the last line is not whole. 0, or -1
 * after a complaint.
 */
int csv_file_check(struct csv_file *file, bool *grown);

#endif
