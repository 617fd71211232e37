/* SPDX-License-Identifier: Apache-2.0 */
/* A memfd, sealed before another process gets it. */
#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/complain.h"
#include "../../common/memory.h"
#include "../../common/memory_file.h"

#define ALIGNMENT 64

/* The least memory that filling the rows takes besides the rows. */
#define WORK_SIZE (UINT64_C(1) << 20)

static uint64_t align(uint64_t size)
{
	return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void rows_place(struct rows_header *header)
{
	struct rows_column *column = header->columns;
	uint32_t i;

	header->size = align(sizeof(*header));
	for (i = 0; i < header->n_columns; i++, column++) {
		column->words_at = column->nulls_at = header->size;
		if (column->type != VALUE_NONE)
			column->nulls_at += align(
			    header->n_rows * sizeof(uint64_t));
		header->size = column->nulls_at;
		if (column->has_nulls)
			header->size += align(header->n_rows);
	}
}

static int map(struct rows *rows, size_t size, int protection)
{
	void *memory = mmap(NULL, size, protection, MAP_SHARED, rows->fd, 0);

	if (memory == MAP_FAILED)
		return complain(
		    "no memory for the file's rows: %s", strerror(errno));
	rows->header = memory;
	return 0;
}

int rows_create(struct rows *rows, const struct rows_header *wanted)
{
	struct rows_header header = *wanted;
	int err = 0;

	rows_place(&header);
	*rows = (struct rows){ .fd = -1 };
	if (memory_check("the file's rows, as numbers, need",
		header.size + WORK_SIZE,
		"have fewer rows, or name fewer columns"))
		return -1;
	rows->fd = memory_file_open("aggregate", "the file's rows");
	if (rows->fd < 0)
		return -1;
	/* Report missing memory here instead of by a signal later. */
	if (ftruncate(rows->fd, (off_t)header.size))
		err = errno;
	else
		err = posix_fallocate(rows->fd, 0, (off_t)header.size);
	if (err || map(rows, header.size, PROT_READ | PROT_WRITE)) {
		errno = err;
		if (err)
			memory_file_complain("the file's rows", header.size);
		rows_unmap(rows);
		return -1;
	}
	*rows->header = header;
	return 0;
}

int rows_seal(struct rows *rows)
{
	size_t size = rows->header->size;

	/* Only memory that nobody may write can be sealed. */
	munmap(rows->header, size);
	rows->header = NULL;
	if (fcntl(rows->fd, F_ADD_SEALS,
		F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		return complain("sealing the file's rows: %s", strerror(errno));
	/* Kernels before 6.7 refuse a shared read-only mapping. */
	rows->header = mmap(NULL, size, PROT_READ, MAP_PRIVATE, rows->fd, 0);
	if (rows->header == MAP_FAILED) {
		rows->header = NULL;
		return complain("mapping the file's rows: %s", strerror(errno));
	}
	return 0;
}

int rows_map(struct rows *rows, int fd)
{
	struct stat status;
	void *memory;

	*rows = (struct rows){ .fd = fd };
	if (fstat(fd, &status) || status.st_size < (off_t)sizeof(*rows->header))
		return complain("descriptor %d holds no rows", fd);
	memory = mmap(
	    NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (memory == MAP_FAILED)
		return complain("mapping the file's rows: %s", strerror(errno));
	rows->header = memory;
	return 0;
}

void rows_unmap(struct rows *rows)
{
	if (rows->header)
		munmap(rows->header, rows->header->size);
	if (rows->fd >= 0)
		close(rows->fd);
	*rows = (struct rows){ .fd = -1 };
}
