/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send buffers: memory from which a writer's remotes send, whatever devices
 * these use. A buffer is registered once with each device, as long as a remote
 * there uses it.
 */

#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include "base/error.h"
#include "ring.h"
#include "transport/verbs/device/fail.h"

/* The registration of a buffer with an instance of the transport. */
struct verbs_stage_use {
	struct verbs_stage_use *next;
	struct verbs *verbs;
	struct ibv_mr *mr;
	uint32_t n_remotes;
};

struct verbs_stage {
	struct stage base;
	uint64_t size;
	pthread_mutex_t lock; /* after the uses of all instances */
	struct verbs_stage_use *uses;
	bool freed; /* its writer has freed it */
};

int dfi__verbs_stage_create(
    struct transport *transport, uint64_t size, struct stage **out)
{
	struct verbs *verbs = (struct verbs *)transport;
	struct verbs_stage *stage = calloc(1, sizeof(*stage));
	struct verbs_memory memory;
	int ret;

	if (!stage)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	ret = dfi__verbs_memory_create(verbs, size, 0, &memory);
	if (ret < 0)
		goto free_stage;
	stage->uses = calloc(1, sizeof(*stage->uses));
	if (!stage->uses) {
		dfi__verbs_memory_free(&memory);
		ret = dfi__fail(-ENOMEM, "verbs: out of memory");
		goto free_stage;
	}
	stage->uses->verbs = verbs;
	stage->uses->mr = memory.mr;
	stage->base.transport = transport;
	stage->base.at = memory.at;
	stage->size = memory.size;
	atomic_fetch_add(&verbs->n_stages, 1);
	pthread_mutex_init(&stage->lock, NULL);
	*out = &stage->base;
	return 0;

free_stage:
	free(stage);
	return ret;
}

static void free_stage(struct verbs_stage *stage)
{
	munmap(stage->base.at, stage->size);
	pthread_mutex_destroy(&stage->lock);
	free(stage);
}

/* Remove uses that no remote needs any more, once the buffer is freed. */
static void drop_unused(struct verbs_stage *stage)
{
	struct verbs_stage_use **at = &stage->uses, *use;

	while (*at) {
		use = *at;
		if (use->n_remotes || !stage->freed) {
			at = &use->next;
			continue;
		}
		*at = use->next;
		atomic_fetch_sub(&use->verbs->n_stages, 1);
		ibv_dereg_mr(use->mr);
		free(use);
	}
}

void dfi__verbs_stage_free(struct stage *base)
{
	struct verbs_stage *stage = (struct verbs_stage *)base;
	bool last;

	pthread_mutex_lock(&stage->lock);
	stage->freed = true;
	drop_unused(stage);
	last = !stage->uses;
	pthread_mutex_unlock(&stage->lock);
	if (last)
		free_stage(stage);
}

static struct verbs_stage_use *find(
    const struct verbs_stage *stage, const struct verbs *verbs)
{
	struct verbs_stage_use *use = stage->uses;

	while (use && use->verbs != verbs)
		use = use->next;
	return use;
}

/* Register the buffer with an instance that does not have it yet. */
static int add_use(struct verbs_stage *stage, struct verbs *verbs)
{
	struct verbs_stage_use *use;
	int ret = dfi__verbs_lock_room(verbs, stage->size);

	if (ret < 0)
		return ret;
	use = calloc(1, sizeof(*use));
	if (!use)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	use->verbs = verbs;
	use->mr = ibv_reg_mr(verbs->pd, stage->base.at, stage->size, 0);
	if (!use->mr) {
		ret = dfi__verbs_fail_register(
		    &verbs->device, stage->size, errno);
		free(use);
		return ret;
	}
	use->next = stage->uses;
	stage->uses = use;
	atomic_fetch_add(&verbs->n_stages, 1);
	return 0;
}

static int enter(struct verbs *verbs, struct verbs_remote *remote)
{
	struct verbs_stage *stage = (struct verbs_stage *)remote->base.stage;
	struct verbs_stage_use *use;
	int ret = 0;

	pthread_mutex_lock(&stage->lock);
	if (!find(stage, verbs))
		ret = add_use(stage, verbs);
	if (!ret) {
		use = find(stage, verbs);
		use->n_remotes++;
		remote->stage_key = use->mr->lkey;
	}
	pthread_mutex_unlock(&stage->lock);
	return ret;
}

static void leave(struct verbs_remote *remote)
{
	struct verbs_stage *stage = (struct verbs_stage *)remote->base.stage;
	bool last;

	pthread_mutex_lock(&stage->lock);
	find(stage, (struct verbs *)remote->base.transport)->n_remotes--;
	drop_unused(stage);
	last = !stage->uses && stage->freed;
	pthread_mutex_unlock(&stage->lock);
	if (last)
		free_stage(stage);
}

int dfi__verbs_create_shadow(struct verbs *verbs, struct verbs_remote *remote)
{
	int ret = 0;

	if (remote->base.stage)
		ret = enter(verbs, remote);
	if (ret < 0) {
		remote->base.stage = NULL;
		return ret;
	}
	ret = dfi__verbs_memory_create(verbs,
	    transport_shadow_size(&remote->layout, remote->base.stage != NULL),
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &remote->shadow);
	if (!ret)
		remote->base.ring = remote->shadow.at;
	return ret;
}

void dfi__verbs_free_shadow(struct verbs_remote *remote)
{
	if (remote->base.ring)
		dfi__verbs_memory_free(&remote->shadow);
	if (remote->base.stage)
		leave(remote);
}
