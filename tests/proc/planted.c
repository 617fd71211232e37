/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into dfi-bench, it damages what flows bring: of each batch that is
 * pushed, PLANTED=swapped exchanges the first two tuples, and `changed` changes
 * a byte of the first one, behind its first word if it has two. Tuples have
 * PLANTED_SIZE bytes, at most 64; 16 is the default.
 */
#include <dfi/dfi.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MOST 64

typedef int push_batch(struct dfi_source *, const void *, uint32_t);

static void plant(char *tuples, size_t size, const char *what)
{
	char first[MOST];

	if (strcmp(what, "swapped") == 0) {
		memcpy(first, tuples, size);
		memcpy(tuples, tuples + size, size);
		memcpy(tuples + size, first, size);
		return;
	}
	tuples[size / 16 * 8]++;
}

int dfi_source_push_batch(
    struct dfi_source *source, const void *tuples, uint32_t count)
{
	void *symbol = dlsym(RTLD_NEXT, "dfi_source_push_batch");
	const char *what = getenv("PLANTED"), *number = getenv("PLANTED_SIZE");
	size_t size = number ? strtoul(number, NULL, 10) : 16;
	push_batch *real;
	char *copy;
	int ret;

	memcpy(&real, &symbol, sizeof(real));
	if (!what || count < 2 || size > MOST)
		return real(source, tuples, count);
	copy = malloc((size_t)count * size);
	if (!copy)
		return -1;
	memcpy(copy, tuples, (size_t)count * size);
	plant(copy, size, what);
	ret = real(source, copy, count);
	free(copy);
	return ret;
}
