/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into dfi-bench, it damages what flows bring: of each batch that is
 * pushed, PLANTED=swapped exchanges the first two tuples, and `changed`
 * adds 1 to the second word of the first one. Tuples have 16 B.
 */
#include <dfi/dfi.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define TUPLE 16

typedef int push_batch(struct dfi_source *, const void *, uint32_t);

static void plant(char *tuples, const char *what)
{
	char first[TUPLE];
	uint64_t word;

	if (strcmp(what, "swapped") == 0) {
		memcpy(first, tuples, TUPLE);
		memcpy(tuples, tuples + TUPLE, TUPLE);
		memcpy(tuples + TUPLE, first, TUPLE);
		return;
	}
	memcpy(&word, tuples + 8, 8);
	word++;
	memcpy(tuples + 8, &word, 8);
}

int dfi_source_push_batch(
    struct dfi_source *source, const void *tuples, uint32_t count)
{
	void *symbol = dlsym(RTLD_NEXT, "dfi_source_push_batch");
	const char *what = getenv("PLANTED");
	push_batch *real;
	char *copy;
	int ret;

	memcpy(&real, &symbol, sizeof(real));
	if (!what || count < 2)
		return real(source, tuples, count);
	copy = malloc((size_t)count * TUPLE);
	if (!copy)
		return -1;
	memcpy(copy, tuples, (size_t)count * TUPLE);
	plant(copy, what);
	ret = real(source, copy, count);
	free(copy);
	return ret;
}
