/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a source's writers and the multicast protocol: to the writers a
 * source that sends datagrams looks like one that has a ring in each target.
 */
#include "sender_ring.h"

#include <stdlib.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/wait.h"

/* ---- The protocol, under the lock -------------------------------------- */

/* The endpoint gets room soon, and may not announce it. */
#define STUCK_NS NS_PER_MS

static struct sender_ring *source_of(struct multicast_end *end)
{
	return (struct sender_ring *)(void *)end;
}

static void receive(
    struct multicast_end *end, const struct datagram *datagram, int64_t now)
{
	struct sender_ring *source = source_of(end);
	struct multicast_sender *sender = &source->sender;

	(void)now;
	if (datagram->type != DATAGRAM_REPORT ||
	    datagram->source != sender->config.source)
		return;
	if (!source->remotes[datagram->target].heard &&
	    !sender->config.flow.open) {
		source->remotes[datagram->target].heard = true;
		source->used |= sender->next == sender->config.start &&
		    datagram->flags & DATAGRAM_USED;
		end->fresh = true;
	}
	end->fresh |= dfi__multicast_sender_receive(sender, datagram);
}

static int64_t step(struct multicast_end *end, int64_t now)
{
	struct multicast_sender *sender = &source_of(end)->sender;
	int64_t due;

	/* The multicast end has noted the error of the datagram endpoint. */
	(void)dfi__multicast_sender_progress(sender, now);
	due = dfi__multicast_sender_due(sender);
	return sender->stuck && now + STUCK_NS < due ? now + STUCK_NS : due;
}

static void fail(struct multicast_end *end)
{
	struct sender_ring *source = source_of(end);
	uint32_t t;

	for (t = 0; t < end->config.n_peers; t++)
		atomic_set(&source->remotes[t].base.lost, true);
}

static void wake(struct multicast_end *end)
{
	struct sender_ring *source = source_of(end);
	uint32_t t;

	for (t = 0; t < end->config.n_peers; t++)
		wait_wake_fenced(&source->headers[t].writer_waits);
}

static const struct multicast_protocol protocol = {
	.receive = receive,
	.step = step,
	.fail = fail,
	.wake = wake,
};

/* ---- The rings' transport ---------------------------------------------- */

static struct sender_ring *owner(const struct remote *remote)
{
	return ((const struct sender_remote *)remote)->source;
}

static int broken(const struct sender_ring *source)
{
	return dfi__fail(-ECONNRESET, "%s", source->end.why);
}

static inline bool has_failed(const struct sender_ring *source)
{
	/* Pairs with the publish in end.c. It protects end.why. */
	return atomic_observe(&source->end.failed);
}

/*
 * The end mark. Each ring gets one, but the stream has one for all targets. In
 * an open flow an abort is of one target's ring: it has left, or its pair is
 * unmade.
 */
static int ring_write(
    struct remote *remote, const struct transport_write *write)
{
	struct sender_ring *source = owner(remote);
	uint64_t flag = write->footer[1] & FOOTER_FLAGS;
	uint8_t ends = flag & FOOTER_FLAG_ABORT ? DATAGRAM_ABORT : DATAGRAM_END;

	dfi__multicast_end_lock(&source->end);
	if (source->sender.config.flow.open && ends == DATAGRAM_ABORT) {
		/* The others go on. */
		dfi__multicast_sender_abort(&source->sender,
		    ((const struct sender_remote *)remote)->target,
		    (uint32_t)footer_used(write->footer[1]));
	} else if (source->sender.ends != ends) {
		(void)dfi__multicast_sender_end(
		    &source->sender, flag, clock_now_ns());
		dfi__multicast_end_step(&source->end);
	}
	dfi__multicast_end_unlock(&source->end);
	return has_failed(source) ? broken(source) : 0;
}

static int ring_progress(struct remote *remote)
{
	struct sender_ring *source = owner(remote);

	dfi__multicast_end_poll(&source->end);
	return has_failed(source) ? broken(source) : 0;
}

static int ring_slot_is_free(struct remote *remote)
{
	(void)remote;
	return 1;
}

static int ring_drained(struct remote *remote)
{
	struct sender_ring *source = owner(remote);
	const struct sender_remote *ring = (const struct sender_remote *)remote;
	enum multicast_over over;
	uint8_t ends;

	dfi__multicast_end_poll(&source->end);
	dfi__multicast_end_lock(&source->end);
	over = source->sender.peers[ring->target].over;
	ends = source->sender.ends;
	dfi__multicast_end_unlock(&source->end);
	/* Targets do not answer ABORT. */
	if (ends == DATAGRAM_ABORT || over == MULTICAST_DONE ||
	    over == MULTICAST_CANCELLED)
		return 1;
	if (has_failed(source))
		return broken(source);
	return over == MULTICAST_GONE
	    ? dfi__fail(-ECONNRESET, "the target has left before the end")
	    : 0;
}

static void ring_arm(struct remote *remote)
{
	dfi__multicast_end_arm(&owner(remote)->end);
}

static const char *ring_why(const struct remote *remote)
{
	return has_failed(owner(remote)) ? owner(remote)->end.why : NULL;
}

static void ring_close(struct remote *remote)
{
	struct sender_remote *ring = (struct sender_remote *)remote;
	struct sender_ring *source = ring->source;

	if (!source->sender.config.flow.open)
		return;
	dfi__multicast_end_lock(&source->end);
	dfi__multicast_sender_forget(&source->sender, ring->target);
	ring->taken = false;
	dfi__multicast_end_unlock(&source->end);
}

static void describe(const struct transport *transport,
    const struct remote *remote, char text[TRANSPORT_WAY_SIZE])
{
	(void)transport;
	dfi__multicast_end_describe(&owner(remote)->end, text);
}

static const struct transport_ops ring_ops = {
	.name = "multicast",
	.ring.close = ring_close,
	.ring.write = ring_write,
	.ring.slot_is_free = ring_slot_is_free,
	.ring.drained = ring_drained,
	.ring.owner_why = ring_why,
	.ring.progress = ring_progress,
	.ring.arm = ring_arm,
	.describe = describe,
};

void dfi__sender_ring_send(struct sender_ring *source)
{
	dfi__multicast_end_lock(&source->end);
	dfi__multicast_end_step(&source->end);
	dfi__multicast_end_unlock(&source->end);
}

/* ---- Opening and closing ----------------------------------------------- */

static int create_rings(struct sender_ring *source, uint32_t n)
{
	uint32_t t;

	source->headers = aligned_alloc(
	    2 * CACHE_LINE, n * sizeof(source->headers[0]));
	source->remotes = calloc(n, sizeof(source->remotes[0]));
	if (!source->headers || !source->remotes)
		return dfi__fail(
		    -ENOMEM, "no memory for the credits of %u targets", n);
	for (t = 0; t < n; t++) {
		ring_header_init(&source->headers[t], source->sender.next);
		source->remotes[t] = (struct sender_remote){
			.base = { .transport = &source->transport,
			    .ring = (char *)&source->headers[t] },
			.source = source,
			.target = t,
		};
		dfi__multicast_sender_attach(
		    &source->sender, t, &source->headers[t].credit);
	}
	return 0;
}

/* In an open flow; under the lock, as all that sends. */
static bool find_joined(
    void *arg, uint32_t target, struct multicast_address *address)
{
	const struct sender_ring *source = arg;

	*address = source->remotes[target].address;
	return source->remotes[target].taken;
}

int dfi__sender_ring_open(struct sender_ring *source,
    const struct multicast_config *config, uint32_t index, uint32_t gap_us,
    bool notify, const struct region *slots, uint64_t start, int64_t deadline)
{
	struct multicast_config whole = *config;
	struct multicast_sender_config sender = {
		.output = { .send = dfi__multicast_end_send,
		    .arg = &source->end },
		.flow = config->flow,
		.source = index,
		.gap_us = gap_us,
		.notify = notify,
		.slots = (const char *)slots->base +
		    ring_offset(&config->flow.geometry, 0) +
		    config->flow.geometry.first_slot,
		.start = start,
	};
	int ret;

	whole.index = index;
	whole.n_peers = config->flow.n_targets;
	if (config->flow.open) {
		whole.find = find_joined;
		whole.find_arg = source;
	}
	whole.memory = slots->base;
	whole.memory_size = slots->name.size;
	whole.receives = sender_receives(whole.n_peers);
	*source = (struct sender_ring){ .transport.ops = &ring_ops };
	ret = dfi__multicast_sender_init(&source->sender, &sender);
	if (!ret)
		ret = create_rings(source, whole.n_peers);
	if (!ret)
		ret = dfi__multicast_end_open(
		    &source->end, &protocol, &whole, deadline);
	if (ret < 0) {
		dfi__sender_ring_close(source);
		return ret;
	}
	return 0;
}

void dfi__sender_ring_stop(struct sender_ring *source)
{
	dfi__multicast_end_close(&source->end);
}

void dfi__sender_ring_close(struct sender_ring *source)
{
	dfi__multicast_end_close(&source->end);
	dfi__multicast_sender_free(&source->sender);
	free(source->remotes);
	free(source->headers);
	source->remotes = NULL;
	source->headers = NULL;
}

struct remote *dfi__sender_ring_ring(
    struct sender_ring *source, uint32_t target)
{
	return &source->remotes[target].base;
}

bool dfi__sender_ring_heard(struct sender_ring *source, uint32_t target)
{
	bool heard;

	dfi__multicast_end_poll(&source->end);
	dfi__multicast_end_lock(&source->end);
	heard = source->remotes[target].heard || source->used ||
	    source->end.why[0];
	dfi__multicast_end_unlock(&source->end);
	return heard;
}

int dfi__sender_ring_greet(struct sender_ring *source)
{
	const struct multicast_sender *sender = &source->sender;
	const struct datagram state = {
		.type = DATAGRAM_STATE,
		.source = sender->config.source,
		.number = (uint32_t)sender->config.start,
	};
	char header[DATAGRAM_HEADER_MAX];
	size_t size = dfi__datagram_encode(
	    &sender->config.flow, &state, header);
	bool used;

	dfi__multicast_end_lock(&source->end);
	if (!source->end.why[0])
		(void)dfi__multicast_end_send(
		    &source->end, DATAGRAM_ALL, header, size, NULL, 0);
	used = source->used;
	dfi__multicast_end_unlock(&source->end);
	if (has_failed(source))
		return broken(source);
	return used ? dfi__fail(-EEXIST, "a target has had this source before")
		    : 0;
}

void dfi__sender_ring_leave(
    struct sender_ring *source, uint32_t target, enum multicast_over over)
{
	dfi__multicast_end_lock(&source->end);
	dfi__multicast_sender_leave(&source->sender, target, over);
	dfi__multicast_end_step(&source->end);
	dfi__multicast_end_unlock(&source->end);
}

/* ---- Targets of open flows --------------------------------------------- */

struct remote *dfi__sender_ring_take(struct sender_ring *source, uint64_t pair,
    const struct multicast_address *address)
{
	uint32_t t, n = source->sender.config.flow.n_targets;
	struct sender_remote *ring = NULL;

	dfi__multicast_end_lock(&source->end);
	for (t = 0; t < n && source->remotes[t].taken; t++)
		;
	if (t < n) {
		ring = &source->remotes[t];
		ring_header_init(
		    &source->headers[t], source->sender.config.start);
		ring->taken = true;
		ring->pair = pair;
		ring->address = *address;
	}
	dfi__multicast_end_unlock(&source->end);
	return ring ? &ring->base : NULL;
}

void dfi__sender_ring_join(
    struct remote *remote, uint64_t first, uint64_t before, uint64_t mark)
{
	const struct sender_remote *ring = (const struct sender_remote *)remote;
	struct sender_ring *source = ring->source;

	dfi__multicast_end_lock(&source->end);
	dfi__multicast_sender_join(&source->sender, ring->target, ring->pair,
	    first, before, mark, clock_now_ns());
	dfi__multicast_end_step(&source->end);
	dfi__multicast_end_unlock(&source->end);
}

void dfi__sender_ring_left(struct remote *remote, uint64_t given_back)
{
	const struct sender_remote *ring = (const struct sender_remote *)remote;
	struct sender_ring *source = ring->source;

	dfi__multicast_end_lock(&source->end);
	dfi__multicast_sender_left(&source->sender, ring->target, given_back);
	dfi__multicast_end_unlock(&source->end);
}

void dfi__sender_ring_drop(struct remote *remote, enum multicast_over over)
{
	const struct sender_remote *ring = (const struct sender_remote *)remote;

	dfi__sender_ring_leave(ring->source, ring->target, over);
}

uint64_t dfi__sender_ring_unreturned(
    struct remote *remote, uint64_t end, uint64_t sets)
{
	const struct sender_remote *ring = (const struct sender_remote *)remote;
	struct sender_ring *source = ring->source;
	uint64_t n;

	dfi__multicast_end_poll(&source->end);
	dfi__multicast_end_lock(&source->end);
	n = dfi__multicast_sender_unreturned(
	    &source->sender, ring->target, end, sets);
	dfi__multicast_end_unlock(&source->end);
	return n;
}

const char *dfi__sender_ring_broken(const struct sender_ring *source)
{
	return has_failed(source) ? source->end.why : NULL;
}
