/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few distinct errors of the process. Each code and text is kept once, with
 * its count and times. The latest ones stay.
 */
#include "error_list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cancel.h"
#include "clock.h"
#include "compiler.h"
#include "error.h"
#include "fork.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dfi_error_info errors[DFI_MAX_ERRORS]; /* count 0: free */

/* The errors belong to the parent; the child starts without any. */
static void at_fork(enum fork_phase phase)
{
	if (phase == FORK_PREPARE) {
		pthread_mutex_lock(&lock);
		return;
	}
	if (phase == FORK_CHILD)
		memset(errors, 0, sizeof(errors));
	pthread_mutex_unlock(&lock);
}

static struct fork_hook hook = { .fn = at_fork };

static int64_t wall_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static bool is_worth_it(int err)
{
	switch (err) {
	case -EINVAL:
	case -EBADF:
	case -E2BIG:
	case -ERANGE:
	case -EBUSY:
	case -EAGAIN:
	case -EINTR:
	case -EPIPE:
	case -ENODATA:
		return false;
	default:
		return err < 0;
	}
}

/* The entry of the same error, or the one to replace. Under the lock. */
static struct dfi_error_info *find(int err, const char *text)
{
	struct dfi_error_info *oldest = errors, *at;

	for (at = errors; at < errors + DFI_MAX_ERRORS; at++) {
		if (at->count && at->code == err && !strcmp(at->text, text))
			return at;
		if (at->last_ns < oldest->last_ns)
			oldest = at;
	}
	memset(oldest, 0, sizeof(*oldest));
	return oldest;
}

static void keep(int err)
{
	struct dfi_error_info *error;
	char text[sizeof(error->text)];
	int64_t now = wall_clock_ns();

	/* A long text is cut before the comparison. */
	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	dfi__fork_follow(&hook);
	pthread_mutex_lock(&lock);
	error = find(err, text);
	if (!error->count) {
		error->code = err;
		error->first_ns = now;
		memcpy(error->text, text, sizeof(text));
	}
	error->count++;
	error->last_ns = now;
	pthread_mutex_unlock(&lock);
}

int dfi__error_keep(int err)
{
	if (unlikely(is_worth_it(err)))
		keep(err);
	return err;
}

/* The oldest error, by its last time, among those not given yet. */
static const struct dfi_error_info *next_after(
    const struct dfi_error_info *list, const bool *given)
{
	const struct dfi_error_info *next = NULL;
	int i;

	for (i = 0; i < DFI_MAX_ERRORS; i++)
		if (list[i].count && !given[i] &&
		    (!next || list[i].last_ns < next->last_ns))
			next = &list[i];
	return next;
}

int dfi_error_list(
    int (*fn)(void *arg, const struct dfi_error_info *info), void *arg)
{
	bool given[DFI_MAX_ERRORS] = { false };
	const struct dfi_error_info *info;
	struct dfi_error_info *list;
	int ret = 0;
	CANCEL_POINT;

	if (!fn)
		return dfi__fail(-EINVAL, "dfi_error_list: fn is NULL");
	/* A thread's stack may be small. */
	list = malloc(sizeof(errors));
	if (!list)
		return dfi__fail(-ENOMEM, "dfi_error_list: out of memory");
	dfi__fork_follow(&hook);
	pthread_mutex_lock(&lock);
	memcpy(list, errors, sizeof(errors));
	pthread_mutex_unlock(&lock);
	while (!ret && (info = next_after(list, given))) {
		given[info - list] = true;
		ret = fn(arg, info);
	}
	free(list);
	return ret;
}
