/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing a context: the control thread, the context's own parts,
 * and then what the floors of src/flows keep in each context. This file stands
 * above all of them.
 */
#include <dfi/context.h>
#include "base/cancel.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/loop.h"
#include "flows/context/context.h"
#include "flows/endpoint/linger.h"
#include "flows/endpoint/stats.h"
#include "flows/members/tombstone.h"

/* Close all that is open, in reverse order; on the loop's thread. */
static void close_all(void *arg)
{
	struct dfi *dfi = arg;

	if (dfi->stats)
		dfi__stats_stop(dfi);
	if (dfi->tombstones)
		dfi__tombstones_close(dfi);
	if (dfi->linger)
		dfi__linger_clock_close(dfi);
	dfi__context_free(dfi);
}

static int open_all(
    struct dfi *dfi, const struct dfi_attr *attr, int64_t deadline)
{
	int ret = dfi__context_join(dfi, attr, deadline);

	if (!ret)
		ret = dfi__linger_clock_open(dfi);
	if (!ret)
		ret = dfi__tombstones_open(dfi);
	if (!ret)
		ret = dfi__stats_start(dfi);
	return ret ? ret : dfi__context_publish(dfi, deadline);
}

/* The extra time that dfi_open() waits for the cleanup after its timeout. */
#define GIVE_UP_MS 200

/*
 * On failure frees the context; the loop's thread does so if it is still busy.
 */
static int start(struct dfi *dfi, const struct dfi_attr *attr)
{
	int64_t deadline = deadline_in_ms(dfi->settings.open_timeout_ms), end;
	int ret;

	ret = dfi__loop_start_until("dfi-control", deadline, &dfi->loop);
	if (ret < 0) {
		dfi__handle_free(dfi, sizeof(*dfi));
		return ret;
	}
	ret = open_all(dfi, attr, deadline);
	if (ret < 0) {
		end = deadline_in_ms(GIVE_UP_MS);
		dfi__loop_finish(
		    dfi->loop, close_all, dfi, end > deadline ? end : deadline);
	}
	return ret;
}

int dfi_open(const struct dfi_attr *user, struct dfi **out)
{
	struct dfi_attr attr;
	struct dfi *dfi;
	int ret;
	CANCEL_POINT;

	if (!out)
		return dfi__fail(-EINVAL, "dfi_open: dfi is NULL");
	ret = dfi__context_new(user, &attr, &dfi);
	if (!ret)
		ret = dfi__error_keep(start(dfi, &attr));
	if (ret < 0)
		return ret;
	dfi->magic = CONTEXT_MAGIC;
	*out = dfi;
	return 0;
}

int dfi_close(struct dfi *dfi)
{
	int ret;
	CANCEL_POINT;

	if (!dfi)
		return 0;
	ret = dfi__context_retire(dfi);
	if (!ret)
		dfi__loop_finish(
		    dfi->loop, close_all, dfi, context_deadline(dfi, 0));
	return ret;
}
