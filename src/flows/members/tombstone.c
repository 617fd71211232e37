/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who takes a target off the list frees it. That may be the control thread, in
 * an event of the target's peers, or the thread that closes the target or the
 * context: these don't touch what is not on the list any more.
 */
#include "tombstone.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include "base/error.h"
#include "flows/kinds/replicate/order.h"
#include "flows/endpoint/target.h"

struct farewells {
	pthread_mutex_t lock;
	TAILQ_HEAD(farewell_list, dfi_target) list;
};

int dfi__farewells_new(struct farewells **out)
{
	struct farewells *farewells = calloc(1, sizeof(*farewells));

	if (!farewells)
		return dfi__fail(-ENOMEM, "dfi_open: out of memory");
	pthread_mutex_init(&farewells->lock, NULL);
	TAILQ_INIT(&farewells->list);
	*out = farewells;
	return 0;
}

/* It was taken off the list. own_key NULL: the entry goes with the context. */
static void end(struct dfi_target *target, const char *own_key)
{
	dfi__peers_close(&target->sources, own_key);
	dfi__order_close_target(target);
	dfi__flow_free(&target->flow);
	dfi__handle_free(target, sizeof(*target));
}

void dfi__farewells_free(struct farewells *farewells)
{
	struct dfi_target *target;

	for (;;) {
		pthread_mutex_lock(&farewells->lock);
		target = TAILQ_FIRST(&farewells->list);
		if (target)
			TAILQ_REMOVE(&farewells->list, target, farewell);
		pthread_mutex_unlock(&farewells->lock);
		if (!target)
			break;
		end(target, NULL);
	}
	pthread_mutex_destroy(&farewells->lock);
	free(farewells);
}

/* End it, if it is on the list and no source is expected. */
static void look(struct farewells *farewells, const struct dfi_target *target)
{
	struct dfi_target *found;
	char key[KEY_SIZE];

	pthread_mutex_lock(&farewells->lock);
	TAILQ_FOREACH(found, &farewells->list, farewell)
	{
		if (found == target)
			break;
	}
	if (found && dfi__peers_expected(&found->sources))
		found = NULL;
	if (found)
		TAILQ_REMOVE(&farewells->list, found, farewell);
	pthread_mutex_unlock(&farewells->lock);
	if (!found)
		return;
	dfi__endpoint_key(key, &found->flow, "target", found->index);
	end(found, key);
}

static void on_change(struct peers *sources)
{
	struct dfi_target *target =
	    (struct dfi_target *)(void *)((char *)sources -
		offsetof(struct dfi_target, sources));

	look(target->dfi->farewells, target);
}

void dfi__farewell_begin(struct dfi_target *target)
{
	struct farewells *farewells = target->dfi->farewells;

	pthread_mutex_lock(&farewells->lock);
	TAILQ_INSERT_TAIL(&farewells->list, target, farewell);
	pthread_mutex_unlock(&farewells->lock);
	dfi__peers_outlive(&target->sources, on_change);
	/* From here on it may be gone. What changed before is seen here. */
	look(farewells, target);
}
