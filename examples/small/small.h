/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first and last steps of each small program: a registry inside the
 * process, where most programs share a dfi-registry, and a context.
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
