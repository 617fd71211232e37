/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens targets with large rings from threads that begin when a file is there.
 * Each is open, or refused with -ENOMEM and a text that names the limit. All
 * stay as they are until another file is there.
 *
 * rooms NAME THREADS MIB LIMIT GO END
 *
 * NAME is the flow's, LIMIT a part of the text. Prints "opened N refused M".
 * Takes the registry from the environment.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker.h"

#define MOST 64

static struct dfi *dfi;
static const char *name, *limit, *go;

static void fail(const char *what)
{
	fprintf(stderr, "rooms: %s: %s\n", what, dfi_errmsg());
	exit(EXIT_FAILURE);
}

/* The script that starts this ends what hangs. */
static void await(const char *file)
{
	while (access(file, F_OK) < 0)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* NULL: refused. */
static void *open_target(void *arg)
{
	struct dfi_target *target = NULL;
	int ret;

	await(go);
	ret = dfi_target_open(
	    dfi, name, (uint32_t)(uintptr_t)arg, NULL, &target);
	if (ret < 0 && ret != -ENOMEM)
		fail("open");
	if (ret < 0 && !strstr(dfi_errmsg(), limit))
		fail("its text doesn't name the limit");
	return target;
}

int main(int argc, char **argv)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	unsigned i, n, n_open = 0;
	pthread_t threads[MOST];
	void *targets[MOST];

	if (argc != 7)
		return 2;
	name = argv[1];
	n = (unsigned)atoi(argv[2]);
	limit = argv[4];
	go = argv[5];
	if (dfi_open(NULL, &dfi) < 0)
		fail("dfi_open");
	attr.kind = DFI_SHUFFLE;
	attr.schema = &worker_schema;
	attr.n_sources = 1;
	attr.n_targets = n;
	attr.segment_size = 1 << 20;
	attr.segment_count = (uint32_t)atoi(argv[3]);
	if (n > MOST || dfi_flow_create(dfi, name, &attr) < 0)
		fail("create");
	for (i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, open_target,
			(void *)(uintptr_t)i) != 0)
			fail("pthread_create");
	for (i = 0; i < n; i++) {
		pthread_join(threads[i], &targets[i]);
		n_open += targets[i] != NULL;
	}
	printf("opened %u refused %u\n", n_open, n - n_open);
	fflush(stdout);
	await(argv[6]);
	for (i = 0; i < n; i++)
		if (targets[i])
			dfi_target_close(targets[i]);
	return dfi_close(dfi) < 0;
}
