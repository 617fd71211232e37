/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image is a memfd: a header with the place of each array, then the arrays.
 * It is sealed before anybody maps it, so it cannot change nor shrink.
 */
#include "image.h"
#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define IMAGE_MAGIC UINT64_C(0x31656764696d6a72)

/* Since Linux 6.3; headers may be older than the kernel. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

/* Where an array lies; offset 0: there is none. */
struct place {
	uint64_t offset;
	uint64_t size;
};

struct image_header {
	uint64_t magic;
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
		if (n <= 0)
			return complain("no memory for the tables: %s",
			    strerror(n < 0 ? errno : ENOSPC));
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
		return complain(
		    "no memory for the tables: %s", strerror(errno));
	return write_at(fd, &header, sizeof(header), 0);
}

/*
 * With vm.memfd_noexec=2, some kernels want to be told that the memory is never
 * executed; others don't know the flag, and refuse it.
 */
static int new_memfd(void)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("radix_join", flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("radix_join", flags);
	if (fd >= 0)
		return fd;
	return complain("no memory file for the tables: memfd_create: %s%s",
	    strerror(errno),
	    errno == EACCES ? " (see the setting vm.memfd_noexec)" : "");
}

int image_create(const struct image_side sides[N_RELATIONS])
{
	int fd;

	fd = new_memfd();
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
			tuples->key = dfi_hash_bytes(string, size, 0);
		}
		tuples->payload = i + 1;
	}
}
