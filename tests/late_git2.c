/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces libgit2. Criterion uses it only to print the differences of two
 * texts when eq() fails. Loading its 15 libraries, and all public certificates,
 * took three quarters of the time of a short test, and each test is a process.
 * This loads it when there are differences.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* Only libgit2 reads the arguments: all are words. */
typedef int init_function(void);
typedef int diff_function(void *old, void *old_size, void *old_path, void *new,
    void *new_size, void *new_path, void *options, void *file, void *binary,
    void *hunk, void *line, void *payload);

init_function git_libgit2_init, git_libgit2_shutdown;
diff_function git_diff_buffers;

int git_libgit2_init(void)
{
	return 1;
}

int git_libgit2_shutdown(void)
{
	return 0;
}

static void *load(const char *name)
{
	void *library = dlopen(DFI_GIT2, RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, name) : NULL;

	if (!symbol) {
		/* Criterion would take a failure for a success. */
		fprintf(stderr, "%s: %s\n", DFI_GIT2, dlerror());
		abort();
	}
	return symbol;
}

int git_diff_buffers(void *old, void *old_size, void *old_path, void *new,
    void *new_size, void *new_path, void *options, void *file, void *binary,
    void *hunk, void *line, void *payload)
{
	init_function *init;
	diff_function *diff;

	*(void **)&init = load("git_libgit2_init");
	*(void **)&diff = load("git_diff_buffers");
	if (init() < 0)
		abort();
	return diff(old, old_size, old_path, new, new_size, new_path, options,
	    file, binary, hunk, line, payload);
}
