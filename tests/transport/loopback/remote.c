/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of a ring opens it, sends from its own memory, and leaves. */
#include "loopback.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/error.h"

/* A writer has at most this many requests under way. */
#define UNDER_WAY 32

int loopback_remote_room(
    struct transport *transport, uint64_t size, uint64_t locked)
{
	(void)transport;
	(void)size;
	(void)locked;
	return 0;
}

int loopback_send_buffer_create(
    struct transport *transport, uint64_t size, struct send_buffer **out)
{
	struct loopback_send_buffer *buffer = calloc(1, sizeof(*buffer));

	assert(buffer);
	buffer->base.transport = transport;
	buffer->base.at = aligned_alloc(CACHE_LINE, align_up(size, CACHE_LINE));
	assert(buffer->base.at);
	*out = &buffer->base;
	return 0;
}

/* Under the lock. */
static void put_send_buffer(struct loopback_send_buffer *buffer)
{
	if (!buffer->freed || buffer->n_remotes)
		return;
	free(buffer->base.at);
	free(buffer);
}

void loopback_send_buffer_free(struct send_buffer *base)
{
	struct loopback_send_buffer *buffer =
	    (struct loopback_send_buffer *)base;

	pthread_mutex_lock(&loopback_lock);
	buffer->freed = true;
	put_send_buffer(buffer);
	pthread_mutex_unlock(&loopback_lock);
}

/* A ring that was written through memory has an end mark or a segment. */
static bool is_written(const struct loopback_export *export, uint32_t number)
{
	const struct ring_layout *layout = &export->layout;
	const char *base = (const char *)export->region->base +
	    layout->first_ring + number * layout->ring_size;
	const struct segment_footer *end =
	    (const struct segment_footer *)(const void *)(base +
		layout->end_footer);
	const struct segment_footer *first =
	    (const struct segment_footer *)(const void *)(base +
		layout_footer(layout, 0));

	return atomic_observe(&end->state) ||
	    footer_seq(atomic_observe(&first->state)) ==
	    footer_seq(layout->first_footer[1]) + 1;
}

/* Under the lock: 0, or why a remote may not have its ring. */
static int enter(struct loopback_remote *remote, const struct region_name *name)
{
	struct loopback_export *export = loopback_exports;
	struct loopback_ring *ring;

	while (export && export->base.name.key != name->key)
		export = export->next;
	if (!export || export->closing)
		return -ECONNRESET;
	assert(remote->ring < export->layout.n_rings &&
	    remote->layout.ring_size == export->layout.ring_size);
	ring = &export->rings[remote->ring];
	if (export->layout.n_slots &&
	    (ring->used || is_written(export, remote->ring)))
		return -EEXIST;
	if (export->layout.n_slots) {
		ring->used = true;
		ring->writer = remote;
		ring->bare = loopback_random() % 2;
		memcpy(ring->footer, export->layout.first_footer,
		    sizeof(ring->footer));
	}
	remote->export = export;
	export->n_remotes++;
	if (remote->base.send_buffer)
		((struct loopback_send_buffer *)remote->base.send_buffer)
		    ->n_remotes++;
	remote->next = loopback_remotes;
	loopback_remotes = remote;
	return 0;
}

/* What a ring's header needs, as in mapped memory. */
#define RING_ALIGNMENT 4096

static struct loopback_remote *new_remote(const struct transport *transport,
    const struct ring_layout *layout, struct send_buffer *buffer)
{
	struct loopback_remote *remote = calloc(1, sizeof(*remote));
	uint64_t size = align_up(
	    transport_shadow_size(layout, buffer != NULL), RING_ALIGNMENT);

	assert(remote);
	remote->base.ring = aligned_alloc(RING_ALIGNMENT, size);
	assert(remote->base.ring);
	memset(remote->base.ring, 0, size);
	/* Of the other network, whose table has the same entries. */
	assert(!buffer || buffer->transport->ops == transport->ops);
	remote->base.send_buffer = buffer;
	remote->base.queue = remote;
	remote->layout = *layout;
	TAILQ_INIT(&remote->sent);
	TAILQ_INIT(&remote->arrived);
	return remote;
}

int loopback_refuses, loopback_detour_refuses;

int loopback_remote_open(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct send_buffer *buffer,
    const struct wait_limit *wait_limit, struct remote **out)
{
	struct loopback_remote *remote;
	int ret = transport->ops == &loopback_ops ? loopback_refuses
						  : loopback_detour_refuses;

	(void)writer;
	(void)wait_limit; /* the owner need not answer */
	if (!loopback_reaches(transport, name->address))
		return dfi__fail(-EHOSTUNREACH,
		    "loopback: %s is another process", name->address);
	if (ret)
		return dfi__fail(ret, "%s: %s does not answer",
		    transport->ops->name, name->address);
	remote = new_remote(transport, layout, buffer);
	remote->base.transport = transport;
	remote->ring = ring;
	pthread_mutex_lock(&loopback_lock);
	ret = enter(remote, name);
	pthread_mutex_unlock(&loopback_lock);
	if (!ret) {
		*out = &remote->base;
		return 0;
	}
	free(remote->base.ring);
	free(remote);
	return ret == -EEXIST
	    ? dfi__fail(ret, "loopback: ring %u has had a writer", ring)
	    : dfi__fail(
		  ret, "loopback: %s has closed the region", name->address);
}

void loopback_free_remote(struct loopback_remote *remote)
{
	struct loopback_remote **at = &loopback_remotes;

	while (*at != remote)
		at = &(*at)->next;
	*at = remote->next;
	if (remote->export) {
		remote->export->n_remotes--;
		loopback_put_export(remote->export);
	}
	if (remote->base.send_buffer) {
		((struct loopback_send_buffer *)remote->base.send_buffer)
		    ->n_remotes--;
		put_send_buffer(
		    (struct loopback_send_buffer *)remote->base.send_buffer);
	}
	free(remote->base.ring);
	free(remote);
}

/* Segments under way still arrive, but no more credit. */
void loopback_remote_close(struct remote *base)
{
	struct loopback_remote *remote = (struct loopback_remote *)base;
	struct loopback_ring *ring;

	pthread_mutex_lock(&loopback_lock);
	if (remote->export && remote->layout.n_slots) {
		ring = &remote->export->rings[remote->ring];
		ring->writer = NULL;
		ring->used = remote->written;
	}
	remote->credit_due = 0;
	remote->closing = true;
	if (!remote->n_under_way)
		loopback_free_remote(remote);
	pthread_mutex_unlock(&loopback_lock);
}

static int lost(void)
{
	return dfi__fail(-ECONNRESET, "loopback: the ring's owner has stopped");
}

/* Under the lock. */
static void count(const struct loopback_remote *remote,
    const struct loopback_request *request)
{
	struct loopback *loopback = (struct loopback *)remote->base.transport;

	if (!remote->layout.n_slots) {
		loopback->additions++;
		return;
	}
	loopback->writes++;
	loopback->bytes += request->write.payload_size;
}

static int send_request(
    struct loopback_remote *remote, const struct loopback_request *request)
{
	struct loopback_request *copy = malloc(sizeof(*copy));
	bool is_there;

	assert(copy);
	*copy = *request;
	pthread_mutex_lock(&loopback_lock);
	is_there = remote->export != NULL;
	if (is_there) {
		count(remote, request);
		remote->written = true;
		loopback_send(remote, copy);
	}
	pthread_mutex_unlock(&loopback_lock);
	if (is_there)
		return 0;
	free(copy);
	return lost();
}

int loopback_remote_write(
    struct remote *base, const struct transport_write *write)
{
	struct loopback_remote *remote = (struct loopback_remote *)base;
	struct loopback_request request = { .write = *write };

	assert(write->footer_offset + sizeof(struct segment_footer) <=
	    remote->layout.ring_size);
	if (footer_is_mark(write->footer[1]))
		request.write.payload_size = mark_bytes(&remote->layout.shape);
	return send_request(remote, &request);
}

/* Nothing is held. */
void loopback_remote_post(struct remote *remote)
{
	(void)remote;
}

/* Whether at most this many requests are under way: 1, 0 or an error. */
static int is_under_way(struct remote *base, uint32_t most)
{
	struct loopback_remote *remote = (struct loopback_remote *)base;
	bool is_there;
	int ret;

	loopback_look();
	pthread_mutex_lock(&loopback_lock);
	is_there = remote->export != NULL;
	ret = remote->n_under_way <= most;
	pthread_mutex_unlock(&loopback_lock);
	return is_there ? ret : lost();
}

int loopback_slot_is_free(struct remote *remote)
{
	return is_under_way(remote, UNDER_WAY - 1);
}

int loopback_drained(struct remote *remote)
{
	return is_under_way(remote, 0);
}

int loopback_remote_progress(struct remote *remote)
{
	loopback_look();
	return atomic_peek(&remote->lost) ? lost() : 0;
}

void loopback_remote_arm(struct remote *remote)
{
	(void)remote;
}

const char *loopback_owner_why(const struct remote *remote)
{
	return atomic_peek(&remote->lost) ? "its context was closed" : NULL;
}

int loopback_add(struct remote *base, uint64_t offset, uint64_t n)
{
	struct loopback_request request = { .offset = offset, .n = n };

	return send_request((struct loopback_remote *)base, &request);
}

int loopback_added(struct remote *base, uint64_t offset, uint64_t *before)
{
	int ret = loopback_drained(base);

	(void)offset;
	/* No other thread sends over this remote. */
	if (ret > 0)
		*before = ((struct loopback_remote *)base)->before;
	return ret;
}
