/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a target's readers and the multicast protocol: to the readers a
 * target that receives datagrams looks like one whose region a device writes.
 */
#include "receiver_ring.h"

#include <stddef.h>
#include <stdlib.h>
#include "base/atomic.h"
#include "base/error.h"
#include "base/wait.h"

/* ---- The protocol, under the lock -------------------------------------- */

static struct receiver_ring *target_of(struct multicast_end *end)
{
	return (struct receiver_ring *)(void *)end;
}

static void receive(
    struct multicast_end *end, const struct datagram *datagram, int64_t now)
{
	struct receiver_ring *target = target_of(end);

	/* The parser has checked the index of the source. */
	end->fresh |= dfi__multicast_receiver_receive(
	    &target->receivers[datagram->source], datagram, now);
}

/* Tell the ring's reader that nothing more arrives. */
static void lose(struct receiver_ring *target, uint32_t source)
{
	if (atomic_peek(&target->lost[source]))
		return;
	/* Pairs with ring_lost(): all that has arrived is in the ring. */
	atomic_publish(&target->lost[source], true);
	/*
	 * Pairs with target_changes() in flows/endpoint/await.h. It protects
	 * lost.
	 */
	atomic_publish(
	    &target->export.changes, atomic_peek(&target->export.changes) + 1);
	target->end.fresh = true;
}

static int64_t step(struct multicast_end *end, int64_t now)
{
	struct receiver_ring *target = target_of(end);
	int64_t due, first = DEADLINE_NEVER;
	struct multicast_receiver *receiver;
	uint32_t i;

	for (i = 0; i < target->n_receivers; i++) {
		receiver = &target->receivers[i];
		end->fresh |= dfi__multicast_receiver_progress(receiver, now);
		if (receiver->state == RECEIVER_CUT)
			lose(target, i);
		due = dfi__multicast_receiver_due(receiver);
		if (due < first)
			first = due;
	}
	return first;
}

static void fail(struct multicast_end *end)
{
	struct receiver_ring *target = target_of(end);
	uint32_t i;

	for (i = 0; i < target->n_receivers; i++)
		if (target->receivers[i].state == RECEIVER_OPEN)
			lose(target, i);
}

static void wake(struct multicast_end *end)
{
	wait_wake_fenced(
	    (_Atomic uint32_t *)(void *)((char *)target_of(end)->region->base +
		REGION_WAIT_OFFSET));
}

static const struct multicast_protocol protocol = {
	.receive = receive,
	.step = step,
	.fail = fail,
	.wake = wake,
};

/* ---- The export's transport -------------------------------------------- */

static struct receiver_ring *target_at(const struct transport *transport)
{
	return (struct receiver_ring *)(void *)((char *)(uintptr_t)transport -
	    offsetof(struct receiver_ring, transport));
}

static struct receiver_ring *target_with(const struct export *export)
{
	return target_at(export->transport);
}

static void free_target(struct receiver_ring *target)
{
	uint32_t i;

	dfi__multicast_end_close(&target->end);
	for (i = 0; target->receivers && i < target->n_receivers; i++)
		dfi__multicast_receiver_free(&target->receivers[i]);
	free(target->receivers);
	free(target->lost);
	free(target->looked);
	free(target);
}

static void unexport(struct export *export)
{
	struct receiver_ring *target = target_with(export);
	struct region *region = target->region;

	free_target(target);
	if (region_leave(region))
		region->transport->ops->region.destroy(region);
}

/*
 * The reader gives credit after each segment, so that every REPORT has its
 * current count, or it leaves. The receiver sends a REPORT unasked when a batch
 * of credit has gathered (T5).
 */
static int give_credit(struct region *region, struct export *export,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed)
{
	struct receiver_ring *target = target_with(export);
	struct ring_credit *credit =
	    (struct ring_credit *)(void *)((char *)region->base +
		layout->first_ring + ring * layout->ring_size);

	/* Both pair with look_at_reader() (receiver.c). */
	atomic_publish(&credit->consumed, consumed);
	if (closed)
		atomic_publish(&credit->closed, closed);
	else if (consumed - target->looked[ring] < target->credit_batch)
		return 1;
	target->looked[ring] = consumed;
	dfi__multicast_end_lock(&target->end);
	dfi__multicast_end_step(&target->end);
	dfi__multicast_end_unlock(&target->end);
	return 1;
}

static enum ring_loss ring_lost(
    const struct export *export, uint32_t ring, uint64_t node)
{
	(void)node;
	/* Pairs with lose(). */
	return atomic_observe(&target_with(export)->lost[ring]) ? RING_LOST
								: RING_KEPT;
}

static const char *ring_why(
    const struct export *export, uint32_t ring, uint64_t node)
{
	const struct multicast_end *end = &target_with(export)->end;

	(void)ring;
	(void)node;
	/* Pairs with the publish in end.c. It protects why. */
	return atomic_observe(&end->failed) ? end->why : NULL;
}

/*
 * dfi__multicast_end_poll() takes all datagrams that have arrived, so looks
 * does not matter.
 */
static void progress(struct transport *transport, uint32_t looks)
{
	(void)looks;
	dfi__multicast_end_poll(&target_at(transport)->end);
}

static void settle(struct transport *transport)
{
	struct multicast_end *end = &target_at(transport)->end;

	dfi__multicast_end_lock(end);
	dfi__multicast_end_step(end);
	dfi__multicast_end_unlock(end);
}

static void arm(struct transport *transport)
{
	dfi__multicast_end_arm(&target_at(transport)->end);
}

static void describe(const struct transport *transport,
    const struct remote *remote, char text[TRANSPORT_WAY_SIZE])
{
	(void)remote;
	dfi__multicast_end_describe(&target_at(transport)->end, text);
}

static const struct transport_ops export_ops = {
	.name = "multicast",
	.region.unexport = unexport,
	.ring.give_credit = give_credit,
	.ring.lost = ring_lost,
	.ring.writer_why = ring_why,
	.progress = progress,
	.settle = settle,
	.arm = arm,
	.describe = describe,
};

/* ---- Opening and closing ----------------------------------------------- */

static int create_receivers(struct receiver_ring *target,
    const struct multicast_config *config, uint32_t index, uint32_t gap_us,
    bool notify, uint64_t start)
{
	const struct ring_geometry *g = &config->flow.geometry;
	struct multicast_receiver_config receiver = {
		.output = { .send = dfi__multicast_end_send,
		    .arg = &target->end },
		.flow = config->flow,
		.target = index,
		.gap_us = gap_us,
		.notify = notify,
		.start = start,
	};
	uint32_t i;
	int ret = 0;

	target->receivers = calloc(
	    config->flow.n_sources, sizeof(target->receivers[0]));
	target->lost = calloc(config->flow.n_sources, sizeof(target->lost[0]));
	target->looked = calloc(
	    config->flow.n_sources, sizeof(target->looked[0]));
	if (!target->receivers || !target->lost || !target->looked)
		return dfi__fail(-ENOMEM,
		    "no memory to receive from %u sources",
		    config->flow.n_sources);
	target->n_receivers = config->flow.n_sources;
	target->credit_batch = credit_batch(g);
	for (i = 0; !ret && i < target->n_receivers; i++) {
		target->looked[i] = start;
		receiver.source = i;
		receiver.ring = (struct ring_header *)(void
			*)((char *)target->region->base + ring_offset(g, i));
		ret = dfi__multicast_receiver_init(
		    &target->receivers[i], &receiver);
	}
	return ret;
}

int dfi__receiver_ring_open(struct receiver_ring **out,
    const struct multicast_config *config, uint32_t index, uint32_t gap_us,
    bool notify, struct region *region, uint64_t start, int64_t deadline)
{
	struct multicast_config whole = *config;
	struct receiver_ring *target = calloc(1, sizeof(*target));
	int ret;

	if (!target)
		return dfi__fail(-ENOMEM, "no memory for a multicast");
	whole.member = true;
	whole.index = index;
	whole.n_peers = config->flow.n_sources;
	whole.receives = receiver_receives(
	    &config->flow.geometry, config->flow.n_sources);
	target->transport.ops = &export_ops;
	target->export.transport = &target->transport;
	target->region = region;
	ret = create_receivers(target, config, index, gap_us, notify, start);
	if (!ret)
		ret = dfi__multicast_end_open(
		    &target->end, &protocol, &whole, deadline);
	if (ret < 0) {
		free_target(target);
		return ret;
	}
	target->export.name.size = region->name.size;
	atomic_set(&target->export.queued, true);
	region_add_export(region, &target->export);
	*out = target;
	return 0;
}

void dfi__receiver_ring_stop(struct receiver_ring *target)
{
	dfi__multicast_end_close(&target->end);
}

void dfi__receiver_ring_source_gone(
    struct receiver_ring *target, uint32_t source)
{
	struct multicast_end *end = &target->end;

	dfi__multicast_end_lock(end);
	dfi__multicast_receiver_source_gone(
	    &target->receivers[source], clock_now_ns());
	dfi__multicast_end_step(end);
	dfi__multicast_end_unlock(end);
}
