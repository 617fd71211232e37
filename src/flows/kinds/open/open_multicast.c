/* SPDX-License-Identifier: Apache-2.0 */
/* See open_multicast.h. */
#include "open_multicast.h"

#include <stdlib.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/log.h"
#include "buffers/replica_writer.h"
#include "flows/context/context.h"
#include "flows/declare/declare.h"
#include "flows/declare/multicast_flow.h"
#include "flows/kinds/replicate/multicast.h"
#include "flows/kinds/replicate/state.h"
#include "flows/members/attach.h"
#include "flows/members/eviction.h"
#include "open_source.h"

/* Numbers travel with 32 bits, so each stream passes their end early. */
#define FIRST_SEGMENT (UINT32_MAX - UINT64_C(15))

struct open_multicast {
	struct shared_ring ring; /* its region has the slots */
	struct sender_ring sender;
};

/* ---- A source ----------------------------------------------------------- */

/* Its memory counts towards the bound of rings. */
static int take_memory(struct dfi_source *source)
{
	struct ring_geometry geometry = dfi__flow_slots_geometry(&source->flow);
	uint64_t bytes = dfi__replica_bytes(source->dfi->transport, &geometry);
	int ret = dfi__multicast_take_room(source->dfi, &source->flow,
	    source->index, false, &source->ring_memory);

	if (!ret)
		ret = dfi__ring_memory_take(
		    source->dfi, bytes, source->flow.name, SOURCE_ID(source));
	if (!ret)
		source->ring_memory += bytes;
	return ret;
}

int dfi__open_multicast_init(struct dfi_source *source)
{
	struct ring_geometry geometry = dfi__flow_slots_geometry(&source->flow);
	struct open_source *open = open_source(source);
	int ret = take_memory(source);

	if (ret < 0)
		return ret;
	open->multicast = calloc(1, sizeof(*open->multicast));
	if (!open->multicast)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	open->attr.route_arg = open->multicast;
	ret = dfi__shared_ring_init(&open->multicast->ring,
	    source->dfi->transport, &geometry, &source->writers[0], NULL, 0,
	    FIRST_SEGMENT);
	return ret < 0 ? dfi__fail_within(ret, "flow '%s': %s %u",
			     source->flow.name, SOURCE_ID(source))
		       : 0;
}

int dfi__open_multicast_begin(struct dfi_source *source, int64_t deadline)
{
	struct open_source *open = open_source(source);
	struct open_multicast *multicast = open->multicast;
	struct multicast_config config;
	int ret = dfi__multicast_configure(source->dfi, &source->flow, &config);

	if (ret < 0)
		return ret;
	config.flow.instance = open->pairs.seats.incarnation;
	ret = dfi__sender_ring_open(&multicast->sender, &config, 0,
	    source->flow.gap_timeout_us,
	    source->flow.loss_policy == DFI_LOSS_NOTIFY, multicast->ring.region,
	    FIRST_SEGMENT, deadline);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s': %s %u",
		    source->flow.name, SOURCE_ID(source));
	multicast->ring.multicast = &multicast->sender;
	return 0;
}

void dfi__open_multicast_free(struct open_source *open)
{
	struct open_multicast *multicast = open->multicast;

	if (!multicast)
		return;
	dfi__sender_ring_close(&multicast->sender);
	dfi__shared_ring_free(&multicast->ring);
	free(multicast);
	open->multicast = NULL;
}

int dfi__open_multicast_check(struct dfi_source *source)
{
	const char *why = dfi__sender_ring_broken(
	    &open_source(source)->multicast->sender);

	return why ? dfi__source_fail(source,
			 dfi__fail(-ECONNRESET, "flow '%s': %s %u: %s",
			     source->flow.name, SOURCE_ID(source), why))
		   : 0;
}

/* Whether the stream counts the target of this end. */
static bool has_joined(const struct dfi_source *end)
{
	return end->rings[0].seq != RING_FIRST_SEGMENT;
}

void dfi__open_multicast_greet(
    struct dfi_source *source, struct dfi_source *end)
{
	const struct writer *lane = &source->writers[0];
	struct writer *ring = &end->rings[0];

	if (has_joined(end))
		return;
	ring->segment = NULL;
	source_close_lane(end, 0);
	ring->seq = lane->seq;
	/* The mark that the target begins with takes room. */
	ring->consumed = lane->seq - 1;
	dfi__sender_ring_join(ring->remote, lane->seq,
	    atomic_peek(&lane->total), atomic_peek(&open_source(source)->mark));
}

/* Give up those that have left: 0, or a sticky error. */
static int drop_lost(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint32_t i;
	int ret = 0;

	for (i = 0; !ret && i < open_seats(source); i++)
		if (open->ends[i] && open_is_lost(open->ends[i]))
			ret = dfi__open_lose(source, i);
	return ret;
}

/* A segment of so many bytes of tuples goes to all that are attached. */
static void count(struct dfi_source *source, uint64_t bytes)
{
	struct open_source *open = open_source(source);
	uint32_t i;

	for (i = 0; i < open_seats(source); i++)
		if (open->ends[i])
			dfi__writer_count(&open->ends[i]->rings[0], bytes);
}

int dfi__open_multicast_send(struct dfi_source *source, uint64_t bytes)
{
	struct open_source *open = open_source(source);
	struct writer *lane = &source->writers[0];
	int ret = dfi__open_multicast_check(source);

	if (!ret)
		ret = drop_lost(source);
	if (ret < 0)
		return ret;
	open->held = open->n_ends || open->set ? 0 : bytes;
	if (open->held)
		return 0;
	if (unlikely(open->set && !open_set_is_there(open, open->set)))
		return dfi__open_replica_drop(source, bytes);
	lane->segment = writer_payload(lane);
	lane->targets = open->set;
	(void)dfi__writer_publish(lane, bytes);
	count(source, bytes);
	return 0;
}

int dfi__open_multicast_mark(struct dfi_source *source, uint64_t mark)
{
	struct open_source *open = open_source(source);
	int ret = dfi__open_multicast_check(source);

	if (!ret)
		ret = drop_lost(source);
	if (ret < 0)
		return ret;
	/* JOIN tells it to who comes from now on. */
	atomic_set(&open->mark, mark);
	if (!open->n_ends)
		return 0;
	(void)dfi__writer_publish_mark(&source->writers[0], mark);
	count(source, 0);
	return 0;
}

/* How long the registry may take to put a target out. */
#define EVICT_NS (INT64_C(2) * NS_PER_S)

int dfi__open_multicast_end(
    struct dfi_source *source, uint32_t seat, struct pair *pair)
{
	struct seat_watch *seats = &open_source(source)->pairs.seats;
	uint32_t evict_ms = source->flow.evict_after_ms;
	struct dfi_source *end = pair->end;
	struct eviction eviction = {
		.role = OPEN_TARGET,
		.seat = seat,
		.incarnation = pair->incarnation,
		.why = EVICTION_UNANSWERED,
	};
	int ret;

	if (evict_ms &&
	    (!end->close_timeout_ms || evict_ms < end->close_timeout_ms))
		end->close_timeout_ms = evict_ms;
	ret = dfi_source_close(end);
	if (ret == -ETIMEDOUT && evict_ms &&
	    dfi__evict(seats, &eviction, clock_now_ns() + EVICT_NS) < 0)
		dfi__log(DFI_LOG_WARN, "%s", dfi_errmsg());
	return ret;
}

/* ---- A source's end of a pair ------------------------------------------- */

static struct open_multicast *multicast_of(const struct dfi_source *end)
{
	return end->router.function_arg;
}

int dfi__open_multicast_open_end(struct dfi_source *end, int64_t deadline)
{
	(void)deadline;
	end->datagrams = &multicast_of(end)->sender.end.endpoint->address;
	return 0;
}

/* The target is known: its entry says where its datagrams go. */
struct remote *dfi__open_multicast_ring(struct dfi_source *end, uint32_t target)
{
	return dfi__sender_ring_take(&multicast_of(end)->sender,
	    end->flow.part.pair,
	    &end->targets.peer[target].endpoint.datagram_address);
}

/* What the registry says of the target. */
void dfi__open_multicast_look(struct dfi_source *end)
{
	const struct peer *peer = &end->targets.peer[0];
	struct remote *ring = end->rings[0].remote;

	if (peers_state(&end->targets, 0) != PEER_GONE)
		return;
	if (atomic_peek(&peer->left))
		dfi__sender_ring_left(ring, atomic_peek(&peer->given_back));
	else
		dfi__sender_ring_drop(ring,
		    atomic_peek(&peer->done) ? MULTICAST_DONE : MULTICAST_GONE);
}

uint64_t dfi__open_multicast_unreturned(struct dfi_source *end)
{
	if (!has_joined(end))
		return 0;
	dfi__open_multicast_look(end);
	return dfi__sender_ring_unreturned(end->rings[0].remote,
	    end->rings[0].seq,
	    end->flow.part.has_sets ? UINT64_C(1) << end->flow.part.first_target
				    : 0);
}

void dfi__open_multicast_drop(struct dfi_source *end)
{
	dfi__sender_ring_drop(end->rings[0].remote, MULTICAST_GONE);
}

/* ---- A target's end of a pair ------------------------------------------- */

static struct multicast_receiver *receiver_of(const struct dfi_target *end)
{
	return &replicate_of(end)->multicast->receivers[0];
}

uint64_t dfi__open_multicast_base(const struct dfi_target *end)
{
	/* Orders with the mark that was taken. */
	return receiver_of(end)->base;
}

uint64_t dfi__open_multicast_mark_before(const struct dfi_target *end)
{
	return receiver_of(end)->mark;
}

/*
 * Answer no more. The last REPORT may be lost, so the registry says what it
 * would have said: that the target has all, or what it has given back.
 */
void dfi__open_multicast_stop(struct dfi_target *end)
{
	const struct multicast_receiver *receiver;
	enum attach_end how;
	int ret;

	if (!end->datagrams)
		return;
	dfi__target_multicast_stop(end);
	receiver = receiver_of(end);
	/* The end was consumed, and was said; or the source is gone. */
	if (!end->n_open || receiver->state > RECEIVER_WHOLE)
		return;
	how = receiver->state == RECEIVER_WHOLE ? ATTACH_DONE : ATTACH_LEFT;
	ret = dfi__attach_end(end->dfi, &end->flow, end->index, end->region,
	    NULL, how,
	    receiver->begun ? receiver->consumed + receiver->base : 0,
	    context_deadline(end->dfi, 0));
	if (ret < 0)
		dfi__log(DFI_LOG_WARN, "%s", dfi_errmsg());
}

void dfi__open_multicast_close(struct dfi_target *end)
{
	free(end->state);
	end->state = NULL;
}
