/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that takes a tombstone off the list ends it. That thread is the
 * control thread, in an event of the peers, or the thread that closes the
 * target or the context. None of them touches a tombstone that is off the list.
 */
#include "tombstone.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include "base/error.h"
#include "flows/context/context.h"
#include "peers.h"

struct tombstones {
	pthread_mutex_t lock;
	TAILQ_HEAD(tombstone_list, tombstone) list;
};

int dfi__tombstones_open(struct dfi *dfi)
{
	struct tombstones *all = calloc(1, sizeof(*all));

	if (!all)
		return dfi__fail(-ENOMEM, "dfi_open: out of memory");
	pthread_mutex_init(&all->lock, NULL);
	TAILQ_INIT(&all->list);
	dfi->tombstones = all;
	return 0;
}

void dfi__tombstones_close(struct dfi *dfi)
{
	struct tombstones *all = dfi->tombstones;
	struct tombstone *first;

	for (;;) {
		pthread_mutex_lock(&all->lock);
		first = TAILQ_FIRST(&all->list);
		if (first)
			TAILQ_REMOVE(&all->list, first, link);
		pthread_mutex_unlock(&all->lock);
		if (!first)
			break;
		first->end(first, false);
	}
	pthread_mutex_destroy(&all->lock);
	free(all);
}

/* End the tombstone of these peers, if it is listed and expects no peer. */
static void look(struct tombstones *all, const struct peers *peers)
{
	struct tombstone *found;

	pthread_mutex_lock(&all->lock);
	TAILQ_FOREACH(found, &all->list, link)
	{
		if (found->peers == peers)
			break;
	}
	if (found && dfi__peers_expected(found->peers))
		found = NULL;
	if (found)
		TAILQ_REMOVE(&all->list, found, link);
	pthread_mutex_unlock(&all->lock);
	if (found)
		found->end(found, true);
}

static void on_change(struct peers *peers)
{
	look(peers->dfi->tombstones, peers);
}

void dfi__tombstone_begin(struct tombstone *tombstone)
{
	struct peers *peers = tombstone->peers;
	struct tombstones *all = peers->dfi->tombstones;

	pthread_mutex_lock(&all->lock);
	TAILQ_INSERT_TAIL(&all->list, tombstone, link);
	pthread_mutex_unlock(&all->lock);
	dfi__peers_outlive(peers, on_change);
	/*
	 * From here on, another thread may free the tombstone. look() sees all
	 * earlier changes.
	 */
	look(all, peers);
}
