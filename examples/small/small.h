/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common steps of the small programs. They have a registry inside the process,
 * where most programs share a dfi-registry.
 */
#ifndef SMALL_H
#define SMALL_H

#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <dfi/dfi.h>

static inline int check(int ret)
{
	if (ret < 0)
		errx(1, "%s", dfi_errmsg());
	return ret;
}

static inline struct dfi *start(struct dfi_registry **registry)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi;

	check(dfi_registry_start(NULL, registry));
	attr.registry = dfi_registry_address(*registry);
	check(dfi_open(&attr, &dfi));
	return dfi;
}

/* A flow of the simplest kind: each tuple of its source goes to its target. */
static inline void create_flow(
    struct dfi *dfi, const char *name, const struct dfi_schema *schema)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = schema;
	attr.n_sources = attr.n_targets = 1;
	check(dfi_flow_create(dfi, name, &attr));
}

static inline void stop(struct dfi *dfi, struct dfi_registry *registry)
{
	check(dfi_close(dfi));
	check(dfi_registry_stop(registry));
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
}

static inline pthread_t spawn(void *(*fn)(void *arg), void *arg)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, fn, arg);
	if (errno)
		err(1, "cannot start a thread");
	return thread;
}

#endif
