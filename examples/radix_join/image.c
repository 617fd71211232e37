/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image is a memfd: a header with the place of each array, then the arrays.
 * It is sealed before anybody maps it, so it cannot change nor shrink.
 */
#include "image.h"
#include "hash_table.h"
#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../common/memory_file.h"

#define IMAGE_MAGIC UINT64_C(0x31656764696d6a72)

/* Where an array lies; offset 0: there is none. */
struct place {
	uint64_t offset;
	uint64_t size;
};

struct image_header {
	uint64_t magic;
	uint64_t seed; /* of the hashes of strings, the same for all nodes */
	struct {
		uint64_t n;
		struct place integers, ends, bytes, values;
	} sides[N_RELATIONS];
};

static int write_at(int fd, const void *data, size_t size, uint64_t offset)
{
	const char *bytes = data;
	ssize_t n;

	while (size > 0) {
		n = pwrite(fd, bytes, size, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n < 0 ? errno : ENOSPC;
			return memory_file_complain("the tables", size);
		}
		bytes += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

/* Append an array, if there is one; *end moves behind it. */
static int write_array(int fd, const void *array, uint64_t size,
    struct place *place, uint64_t *end)
{
	if (!array)
		return 0;
	place->offset = *end;
	place->size = size;
	*end += (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	return write_at(fd, array, (size_t)size, place->offset);
}

static uint64_t string_bytes(const struct image_side *side)
{
	return side->n && side->ends ? side->ends[side->n - 1] : 0;
}

static int write_sides(int fd, const struct image_side sides[N_RELATIONS])
{
	struct image_header header = { .magic = IMAGE_MAGIC };
	uint64_t end = (sizeof(header) + CACHE_LINE - 1) / CACHE_LINE *
	    CACHE_LINE;
	const struct image_side *side;
	int i, ret;

	if (table_seed(&header.seed))
		return -1;
	for (i = 0; i < N_RELATIONS; i++) {
		side = &sides[i];
		header.sides[i].n = side->n;
		ret = write_array(fd, side->integers, side->n * 8,
		    &header.sides[i].integers, &end);
		if (ret == 0)
			ret = write_array(fd, side->ends, side->n * 8,
			    &header.sides[i].ends, &end);
		if (ret == 0)
			ret = write_array(fd, side->bytes, string_bytes(side),
			    &header.sides[i].bytes, &end);
		if (ret == 0)
			ret = write_array(fd, side->values, side->n * 8,
			    &header.sides[i].values, &end);
		if (ret)
			return ret;
	}
	if (ftruncate(fd, (off_t)end))
		return memory_file_complain("the tables", end);
	return write_at(fd, &header, sizeof(header), 0);
}

int image_create(const struct image_side sides[N_RELATIONS])
{
	int fd;

	fd = memory_file_open("radix_join", "the tables");
	if (fd < 0)
		return fd;
	if (write_sides(fd, sides)) {
		close(fd);
		return -1;
	}
	if (fcntl(fd, F_ADD_SEALS,
		F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)) {
		complain("memfd: %s", strerror(errno));
		close(fd);
		return -1;
	}
	return fd;
}

static const void *array_at(const struct image *image, struct place place)
{
	if (place.offset == 0)
		return NULL;
	return (const char *)image->memory + place.offset;
}

int image_map(int fd, struct image *image)
{
	const struct image_header *header;
	struct stat status;
	int i;

	memset(image, 0, sizeof(*image));
	if (fstat(fd, &status) || status.st_size < (off_t)sizeof(*header))
		return complain("descriptor %d holds no tables", fd);
	image->size = (size_t)status.st_size;
	image->memory = mmap(NULL, image->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image->memory == MAP_FAILED)
		return complain("cannot map the tables: %s", strerror(errno));
	header = image->memory;
	if (header->magic != IMAGE_MAGIC) {
		image_unmap(image);
		return complain("descriptor %d holds no tables", fd);
	}
	image->seed = header->seed;
	for (i = 0; i < N_RELATIONS; i++) {
		image->sides[i].n = header->sides[i].n;
		image->sides[i].integers = array_at(
		    image, header->sides[i].integers);
		image->sides[i].ends = array_at(image, header->sides[i].ends);
		image->sides[i].bytes = array_at(image, header->sides[i].bytes);
		image->sides[i].values = array_at(
		    image, header->sides[i].values);
	}
	return 0;
}

void image_unmap(struct image *image)
{
	if (image->memory)
		munmap(image->memory, image->size);
	memset(image, 0, sizeof(*image));
}

void image_tuples(const struct image *image, enum relation relation,
    uint64_t begin, uint64_t end, struct tuple *tuples)
{
	const struct image_side *side = &image->sides[relation];
	const char *string;
	size_t size;
	uint64_t i;

	for (i = begin; i < end; i++, tuples++) {
		if (side->integers) {
			tuples->key = dfi_hash64((uint64_t)side->integers[i]);
		} else {
			string = image_string(side, i, &size);
			tuples->key = dfi_hash_bytes(string, size, image->seed);
		}
		tuples->payload = i + 1;
	}
}
