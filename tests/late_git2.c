/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of libgit2, which Criterion asks for the differences of two texts
 * when eq() of a test says that they are not the same, and for nothing else.
 * With its 15 libraries, and all public certificates, which it reads at the
 * start, it took three quarters of the time of a short test, each of which is a
 * process. Here it is loaded when there are differences.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* What the functions are passed matters to libgit2 alone: all are words. */
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
