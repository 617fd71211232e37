/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a CSV file, read once from start to end. A regular file gives
 * the bytes that it had at its opening: later appends are left out, and any
 * other change is an error. A pipe gives all its bytes. A file that is no UTF-8
 * text is an error that names its format.
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
 * Open the file. Waits for a writer of a FIFO. Refuses the file that standard
 * output goes to. Returns 0, or -1 after a complaint with the reason.
 */
int csv_file_open(const char *name, struct csv_file *file);
void csv_file_close(struct csv_file *file);

/*
 * Read the next bytes: they fill room except at the end of the file. Returns 0
 * at the end, -1 after a complaint. Each call must pass the same room.
 */
ssize_t csv_file_read(struct csv_file *file, char *bytes, size_t room);

/*
 * At the end, check that all bytes are of one moment. *grown: the file has
 * grown, and no line end follows the bytes, so the last line is incomplete.
 * Returns 0, or -1 after a complaint.
 */
int csv_file_check(struct csv_file *file, bool *grown);

#endif
