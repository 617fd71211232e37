/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run a fuzz target on files, without a fuzzer: replay DIRECTORY. Fails if the
 * directory has none.
 */
#include <dirent.h>
#include <string.h>

#include "fuzz.h"

#define INPUT_MAX (1 << 20)

static void replay(const char *directory, const char *name)
{
	uint8_t *data = malloc(INPUT_MAX), *exact;
	char path[4096];
	FILE *file;
	size_t size;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "re");
	fuzz_check(data && file);
	size = fread(data, 1, INPUT_MAX, file);
	fclose(file);
	/* A block of its size, so that a read behind it is noticed. */
	exact = malloc(size ? size : 1);
	fuzz_check(exact);
	memcpy(exact, data, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	free(data);
}

int main(int argc, char **argv)
{
	struct dirent *entry;
	unsigned n = 0;
	DIR *dir;

	dir = argc == 2 ? opendir(argv[1]) : NULL;
	if (!dir) {
		fprintf(stderr, "usage: replay DIRECTORY\n");
		return 1;
	}
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.') {
			replay(argv[1], entry->d_name);
			n++;
		}
	closedir(dir);
	printf("%u inputs\n", n);
	return !n;
}
