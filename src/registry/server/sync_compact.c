/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction of the journal, in slices between which clients are served: the
 * table is frozen, and written down as it was then. Each slice syncs once. This
 * is also how a journal that could not be written is made anew.
 */
#include "sync_impl.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "server.h"
#include "session.h"

#define SLICE_BYTES ((size_t)256 << 10)
/* From a failure to the next attempt. */
#define RETRY_MS 1000

static void arm(struct sync *sync, uint32_t ms)
{
	struct timeval time = {
		.tv_sec = ms / 1000,
		.tv_usec = ms % 1000 * 1000,
	};

	if (sync->compact_timer && !sync->stopping)
		evtimer_add(sync->compact_timer, &time);
}

static void thaw(struct sync *sync)
{
	dfi__table_thaw(sync->frozen);
	sync->frozen = NULL;
}

/* With the text of the error. */
static void failed(struct sync *sync)
{
	dfi__log_seldom(&sync->refusal, DFI_LOG_ERROR, "%s", dfi_errmsg());
	dfi__journal_compact_abandon(sync->journal);
	thaw(sync);
	sync->retry_at = clock_now_ns() + RETRY_MS * (int64_t)NS_PER_MS;
	arm(sync, RETRY_MS);
}

/* What the table has beside its keys. */
static int add_leases(struct sync *sync)
{
	const struct server *server = sync->server;
	struct journal_change change = {
		.type = JOURNAL_COUNT,
		.revision = dfi__table_revision(server->table),
		.lease = dfi__table_last_lease(server->table),
	};
	const struct session *session;
	int ret = dfi__journal_compact_add(sync->journal, &change);

	TAILQ_FOREACH(session, &server->live, link)
	{
		if (ret || !session->lease)
			continue;
		change = dfi__sync_lease_of(session);
		ret = dfi__journal_compact_add(sync->journal, &change);
	}
	return ret;
}

static int begin(struct sync *sync)
{
	int ret;

	sync->mends = dfi__journal_check(sync->journal);
	ret = dfi__journal_compact_begin(sync->journal);
	if (!ret)
		ret = add_leases(sync);
	if (!ret)
		ret = dfi__table_freeze(sync->server->table, &sync->frozen);
	return ret;
}

void dfi__sync_consider_compaction(struct sync *sync)
{
	if (dfi__journal_is_compacting(sync->journal))
		return;
	/* A group that could not be stored has ended it. */
	thaw(sync);
	/* Leases without a session are not written down: they end first. */
	if (!dfi__journal_is_due(sync->journal) || sync->n_ended)
		return;
	if (clock_now_ns() < sync->retry_at) {
		arm(sync, RETRY_MS);
		return;
	}
	if (begin(sync))
		failed(sync);
	else
		arm(sync, 0);
}

static int add_item(struct sync *sync, const struct table_item *item)
{
	struct journal_change change = {
		.type = JOURNAL_PUT,
		.revision = item->revision,
		.lease = item->lease,
		.client = item->owner,
		.key = item->key,
		.key_size = strlen(item->key),
		.value = item->value,
		.size = item->size,
	};

	return dfi__journal_compact_add(sync->journal, &change);
}

static int write_slice(struct sync *sync)
{
	struct journal *journal = sync->journal;
	struct table_item item;
	int ret = 0;

	while (!ret && dfi__journal_compact_added(journal) < SLICE_BYTES) {
		if (!dfi__table_frozen_next(sync->frozen, &item)) {
			thaw(sync);
			return dfi__journal_compact_switch(journal);
		}
		ret = add_item(sync, &item);
	}
	return ret ? ret : dfi__journal_compact_write(journal);
}

void dfi__sync_compact_step(struct sync *sync)
{
	struct journal *journal = sync->journal;
	int ret;

	if (!dfi__journal_is_compacting(journal)) {
		dfi__sync_consider_compaction(sync);
		return;
	}
	if (dfi__journal_is_switching(journal)) {
		ret = dfi__journal_compact_finish(journal);
		if (!ret && sync->mends)
			dfi__log(DFI_LOG_WARN,
			    "registry %s: its state is stored again, and it "
			    "accepts changes",
			    sync->server->listen.text);
		dfi__sync_arm(sync);
	} else {
		ret = write_slice(sync);
		if (!ret)
			arm(sync, 0);
	}
	if (ret)
		failed(sync);
}

static void on_compact(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	dfi__sync_compact_step(arg);
}

int dfi__sync_compact_start(struct sync *sync, struct event_base *base)
{
	sync->compact_timer = evtimer_new(base, on_compact, sync);
	return sync->compact_timer ? 0 : -ENOMEM;
}

void dfi__sync_compact_stop(struct sync *sync)
{
	thaw(sync);
	if (sync->compact_timer)
		event_free(sync->compact_timer);
	sync->compact_timer = NULL;
}
