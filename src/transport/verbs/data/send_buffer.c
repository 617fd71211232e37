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
struct verbs_send_buffer_use {
	struct verbs_send_buffer_use *next;
	struct verbs *verbs;
	struct ibv_mr *mr;
	uint32_t n_remotes;
};

struct verbs_send_buffer {
	struct send_buffer base;
	uint64_t size;
	pthread_mutex_t lock; /* after the uses of all instances */
	struct verbs_send_buffer_use *uses;
	bool freed; /* its writer has freed it */
};

int dfi__verbs_send_buffer_create(
    struct transport *transport, uint64_t size, struct send_buffer **out)
{
	struct verbs *verbs = (struct verbs *)transport;
	struct verbs_send_buffer *buffer = calloc(1, sizeof(*buffer));
	struct verbs_memory memory;
	int ret;

	if (!buffer)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	ret = dfi__verbs_memory_create(verbs, size, 0, &memory);
	if (ret < 0)
		goto free_send_buffer;
	buffer->uses = calloc(1, sizeof(*buffer->uses));
	if (!buffer->uses) {
		dfi__verbs_memory_free(&memory);
		ret = dfi__fail(-ENOMEM, "verbs: out of memory");
		goto free_send_buffer;
	}
	buffer->uses->verbs = verbs;
	buffer->uses->mr = memory.mr;
	buffer->base.transport = transport;
	buffer->base.at = memory.base.at;
	buffer->size = memory.base.size;
	atomic_fetch_add(&verbs->n_send_buffers, 1);
	pthread_mutex_init(&buffer->lock, NULL);
	*out = &buffer->base;
	return 0;

free_send_buffer:
	free(buffer);
	return ret;
}

static void free_send_buffer(struct verbs_send_buffer *buffer)
{
	munmap(buffer->base.at, buffer->size);
	pthread_mutex_destroy(&buffer->lock);
	free(buffer);
}

/* Remove uses that no remote needs any more, once the buffer is freed. */
static void drop_unused(struct verbs_send_buffer *buffer)
{
	struct verbs_send_buffer_use **at = &buffer->uses, *use;

	while (*at) {
		use = *at;
		if (use->n_remotes || !buffer->freed) {
			at = &use->next;
			continue;
		}
		*at = use->next;
		atomic_fetch_sub(&use->verbs->n_send_buffers, 1);
		ibv_dereg_mr(use->mr);
		free(use);
	}
}

void dfi__verbs_send_buffer_free(struct send_buffer *base)
{
	struct verbs_send_buffer *buffer = (struct verbs_send_buffer *)base;
	bool last;

	pthread_mutex_lock(&buffer->lock);
	buffer->freed = true;
	drop_unused(buffer);
	last = !buffer->uses;
	pthread_mutex_unlock(&buffer->lock);
	if (last)
		free_send_buffer(buffer);
}

static struct verbs_send_buffer_use *find(
    const struct verbs_send_buffer *buffer, const struct verbs *verbs)
{
	struct verbs_send_buffer_use *use = buffer->uses;

	while (use && use->verbs != verbs)
		use = use->next;
	return use;
}

/* Register the buffer with an instance that does not have it yet. */
static int add_use(struct verbs_send_buffer *buffer, struct verbs *verbs)
{
	struct verbs_send_buffer_use *use;
	int ret = dfi__verbs_lock_room(verbs, buffer->size);

	if (ret < 0)
		return ret;
	use = calloc(1, sizeof(*use));
	if (!use)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	use->verbs = verbs;
	use->mr = ibv_reg_mr(verbs->pd, buffer->base.at, buffer->size, 0);
	if (!use->mr) {
		ret = dfi__verbs_fail_register(
		    &verbs->device, buffer->size, errno);
		free(use);
		return ret;
	}
	use->next = buffer->uses;
	buffer->uses = use;
	atomic_fetch_add(&verbs->n_send_buffers, 1);
	return 0;
}

static int enter(struct verbs *verbs, struct verbs_remote *remote)
{
	struct verbs_send_buffer *buffer =
	    (struct verbs_send_buffer *)remote->base.send_buffer;
	struct verbs_send_buffer_use *use;
	int ret = 0;

	pthread_mutex_lock(&buffer->lock);
	if (!find(buffer, verbs))
		ret = add_use(buffer, verbs);
	if (!ret) {
		use = find(buffer, verbs);
		use->n_remotes++;
		remote->send_buffer_key = use->mr->lkey;
	}
	pthread_mutex_unlock(&buffer->lock);
	return ret;
}

static void leave(struct verbs_remote *remote)
{
	struct verbs_send_buffer *buffer =
	    (struct verbs_send_buffer *)remote->base.send_buffer;
	bool last;

	pthread_mutex_lock(&buffer->lock);
	find(buffer, (struct verbs *)remote->base.transport)->n_remotes--;
	drop_unused(buffer);
	last = !buffer->uses && buffer->freed;
	pthread_mutex_unlock(&buffer->lock);
	if (last)
		free_send_buffer(buffer);
}

int dfi__verbs_create_shadow(struct verbs *verbs, struct verbs_remote *remote)
{
	int ret = 0;

	if (remote->base.send_buffer)
		ret = enter(verbs, remote);
	if (ret < 0) {
		remote->base.send_buffer = NULL;
		return ret;
	}
	ret = dfi__verbs_memory_create(verbs,
	    transport_shadow_size(
		&remote->layout, remote->base.send_buffer != NULL),
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &remote->shadow);
	if (!ret)
		remote->base.ring = remote->shadow.base.at;
	return ret;
}

void dfi__verbs_free_shadow(struct verbs_remote *remote)
{
	if (remote->base.ring)
		dfi__verbs_memory_free(&remote->shadow);
	if (remote->base.send_buffer)
		leave(remote);
}
