/* SPDX-License-Identifier: Apache-2.0 */
/* A network in virtual time; see multicast_net.h. */
#include "multicast_net.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "base/bits.h"
#include "base/clock.h"

#define US INT64_C(1000)
#define LIMIT_NS (INT64_C(60) * NS_PER_S)
#define INSTANCE UINT64_C(0x1122334455667788)
#define SEEN_ARRIVED 1
#define SEEN_DELIVERED 2
#define SEEN_LOST 4

struct net_datagram {
	struct net_datagram *next;
	int64_t arrives;
	bool to_source;
	uint32_t receiver;
	size_t header_size, payload_size;
	const void *late; /* gathered on arrival */
	char data[];
};

uint64_t net_draw(uint64_t *random)
{
	uint64_t z = *random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Up to twice the mean. */
static int64_t some_time(struct net *net, uint32_t mean_us)
{
	return 1 +
	    (int64_t)(net_draw(&net->random) % (2 * mean_us * 1000ull + 1));
}

static int create_region(
    struct transport *transport, uint64_t size, struct region **region)
{
	struct region *made = calloc(1, sizeof(*made));

	made->base = aligned_alloc(128, align_up(size, 128));
	cr_assert_not_null(made->base);
	memset(made->base, 0xa5, size);
	made->transport = transport;
	*region = made;
	return 0;
}

static void destroy_region(struct region *region)
{
	free(region->base);
	free(region);
}

static void wake(struct remote *remote)
{
	(void)remote;
}

static int give_credit(struct region *region, struct export *export,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed)
{
	struct ring_credit *credit =
	    (struct ring_credit *)(void *)((char *)region->base +
		layout->first_ring + ring * layout->ring_size);

	(void)export;
	atomic_publish(&credit->consumed, consumed);
	if (closed)
		atomic_publish(&credit->closed, closed);
	return 1;
}

static const struct transport_ops ops = {
	.name = "net",
	.region.create = create_region,
	.region.destroy = destroy_region,
	.ring.wake = wake,
	.ring.give_credit = give_credit,
};

static void enqueue(struct net *net, bool to_source, uint32_t receiver,
    const void *header, size_t header_size, const void *payload,
    size_t payload_size)
{
	struct net_datagram **at = &net->sent;
	struct net_datagram *made = malloc(
	    sizeof(*made) + header_size + payload_size);

	cr_assert_not_null(made);
	cr_assert_leq(header_size, DATAGRAM_HEADER_MAX);
	cr_assert_leq(
	    header_size + payload_size, datagram_size_max(&net->geometry));
	made->arrives = net->now + net->plan.distance_us * US +
	    some_time(net, net->plan.latency_us);
	made->to_source = to_source;
	made->receiver = receiver;
	made->header_size = header_size;
	made->payload_size = payload_size;
	made->late = net_draw(&net->random) % 4 ? NULL : payload;
	memcpy(made->data, header, header_size);
	if (payload_size)
		memcpy(made->data + header_size, payload, payload_size);
	while (*at && (*at)->arrives <= made->arrives)
		at = &(*at)->next;
	made->next = *at;
	*at = made;
	net->n_datagrams++;
}

static int send_from_source(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size)
{
	struct net_source *source = arg;
	struct net *net = source->net;
	uint32_t t;

	if (payload && to == DATAGRAM_ALL && net->plan.output_room) {
		if (!source->room)
			return -EAGAIN;
		source->room--;
	}
	for (t = 0; t < net->plan.n_targets; t++)
		if (to == DATAGRAM_ALL || to == t)
			enqueue(net, false, t, header, header_size, payload,
			    payload_size);
	return 0;
}

static int send_from_target(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size)
{
	struct net_target *target = arg;

	enqueue(
	    target->net, true, to, header, header_size, payload, payload_size);
	return 0;
}

static uint32_t tuples_of(const struct net *net, uint32_t segment)
{
	uint32_t most = net->plan.segment_tuples;

	return segment % 3 ? most : 1 + segment % most;
}

static uint64_t tuple_of(uint32_t source, uint64_t n)
{
	return (uint64_t)source << 56 | n;
}

static struct faults *start_faults(struct net *net, uint64_t salt)
{
	struct faults *faults = NULL;
	char text[256];

	if (!net->plan.faults)
		return NULL;
	snprintf(text, sizeof(text), "%s,seed=%lu", net->plan.faults,
	    (unsigned long)net->plan.seed);
	cr_assert_eq(
	    dfi__faults_parse(text, salt, &faults), 0, "%s", dfi_errmsg());
	return faults;
}

static int draw(void *arg, uint64_t *position)
{
	struct net_source *source = arg;
	struct net *net = source->net;

	cr_assert_lt(
	    net->n_positions, net->plan.n_sources * net->plan.n_segments);
	*position = MERGE_FIRST_POSITION + net->n_positions;
	net->positions[net->n_positions++] = (struct net_position){
		.source = source->index,
		.segment = source->sent,
	};
	return 1;
}

static void start_source(struct net *net, uint32_t index)
{
	struct ring_geometry apart = ring_geometry_apart(net->geometry);
	struct net_source *source = &net->sources[index];
	struct multicast_sender_config config = {
		.output = { send_from_source, source },
		.flow = net->flow,
		.source = index,
		.gap_us = net->plan.gap_us,
		.notify = net->plan.notify,
		.start = net->plan.start,
	};
	uint32_t t;

	source->net = net;
	source->index = index;
	source->there = true;
	source->left_at = DEADLINE_NEVER;
	source->headers = aligned_alloc(
	    128, net->plan.n_targets * sizeof(source->headers[0]));
	cr_assert_not_null(source->headers);
	memset(source->headers, 0,
	    net->plan.n_targets * sizeof(source->headers[0]));
	cr_assert_eq(dfi__replica_init(&source->replica_writer, source->rings,
			 net->plan.n_targets, &net->transport, &net->geometry,
			 net->plan.start),
	    0);
	source->replica_writer.draw = net->plan.ordered ? draw : NULL;
	source->replica_writer.draw_arg = source;
	config.slots = source->replica_writer.shared_ring.remote.ring +
	    net->geometry.first_slot;
	cr_assert_eq(dfi__multicast_sender_init(&source->protocol, &config), 0);
	for (t = 0; t < net->plan.n_targets; t++) {
		source->remotes[t].transport = &net->transport;
		source->remotes[t].ring = (char *)&source->headers[t];
		source->remotes[t].in_place = true;
		dfi__writer_init(&source->rings[t], &source->remotes[t], &apart,
		    net->plan.start);
		dfi__multicast_sender_attach(
		    &source->protocol, t, &source->headers[t].credit);
	}
	source->faults = start_faults(net, 100 + index);
	source->next_at = some_time(net, net->plan.push_us);
}

static void start_target(struct net *net, uint32_t index)
{
	struct net_target *target = &net->targets[index];
	uint64_t size = region_size(&net->geometry, net->plan.n_sources);
	struct net_view *view;
	uint32_t s;

	target->net = net;
	target->index = index;
	target->there = true;
	target->left_at = DEADLINE_NEVER;
	target->region.transport = &net->transport;
	target->region.base = aligned_alloc(128, size);
	cr_assert_not_null(target->region.base);
	memset(target->region.base, 0xa5, size);
	dfi__region_init(&target->region);
	cr_assert_eq(dfi__merge_init(&target->merge, net->plan.n_sources,
			 MERGE_FIRST_POSITION),
	    0);
	for (s = 0; s < net->plan.n_sources; s++) {
		struct multicast_receiver_config config = {
			.output = { send_from_target, target },
			.flow = net->flow,
			.source = s,
			.target = index,
			.gap_us = net->plan.gap_us,
			.notify = net->plan.notify,
			.ring = (struct ring_header *)(void
				*)((char *)target->region.base +
			    ring_offset(&net->geometry, s)),
			.start = net->plan.start,
		};

		view = &target->views[s];
		dfi__reader_init(&view->reader, &target->region, &net->geometry,
		    net->plan.n_sources, s, net->plan.start);
		view->reader.lossy = net->plan.notify;
		view->reader.batch = 1;
		view->seen = calloc(net->plan.n_segments + 1, 1);
		view->gone_at = DEADLINE_NEVER;
		cr_assert_not_null(view->seen);
		cr_assert_eq(
		    dfi__multicast_receiver_init(&view->protocol, &config), 0);
	}
	target->faults = start_faults(net, 200 + index);
	target->next_at = some_time(net, net->plan.consume_us);
}

void net_start(struct net *net, const struct net_plan *plan)
{
	uint32_t i;

	memset(net, 0, sizeof(*net));
	net->plan = *plan;
	net->transport.ops = &ops;
	net->random = plan->seed;
	net->geometry = ring_geometry_with(sizeof(uint64_t),
	    plan->segment_tuples * (uint32_t)sizeof(uint64_t),
	    plan->segment_count,
	    (plan->verified ? SEGMENT_CHECKSUM : 0) |
		(plan->ordered ? SEGMENT_GLOBAL : 0),
	    plan->footer_side);
	net->flow = (struct datagram_flow){
		.instance = INSTANCE + plan->seed,
		.n_sources = plan->n_sources,
		.n_targets = plan->n_targets,
		.geometry = net->geometry,
	};
	net->first_tuple = calloc(plan->n_segments + 1, sizeof(uint64_t));
	cr_assert_not_null(net->first_tuple);
	net->positions = calloc(
	    plan->n_sources * plan->n_segments + 1, sizeof(net->positions[0]));
	cr_assert_not_null(net->positions);
	for (i = 0; i < plan->n_segments; i++)
		net->first_tuple[i + 1] = net->first_tuple[i] +
		    tuples_of(net, i);
	for (i = 0; i < plan->n_sources; i++)
		start_source(net, i);
	for (i = 0; i < plan->n_targets; i++)
		start_target(net, i);
}

void net_stop(struct net *net)
{
	struct net_datagram *next;
	uint32_t i, s;

	for (i = 0; i < net->plan.n_sources; i++) {
		dfi__multicast_sender_free(&net->sources[i].protocol);
		dfi__replica_free(&net->sources[i].replica_writer);
		dfi__faults_close(net->sources[i].faults);
		free(net->sources[i].headers);
	}
	for (i = 0; i < net->plan.n_targets; i++) {
		for (s = 0; s < net->plan.n_sources; s++) {
			dfi__multicast_receiver_free(
			    &net->targets[i].views[s].protocol);
			free(net->targets[i].views[s].seen);
		}
		dfi__faults_close(net->targets[i].faults);
		dfi__merge_free(&net->targets[i].merge);
		free(net->targets[i].region.base);
	}
	for (; net->sent; net->sent = next) {
		next = net->sent->next;
		free(net->sent);
	}
	free(net->first_tuple);
	free(net->positions);
}

/* The datagrams that the network delivers to a source, and to a target. */
static void source_gets(void *arg, const void *data, size_t size)
{
	struct net_source *source = arg;
	struct net *net = source->net;
	struct datagram datagram;

	cr_assert(dfi__datagram_parse(&net->flow, data, size, &datagram));
	if (net->loses && net->loses(net, &datagram, source->index))
		return;
	dfi__multicast_sender_receive(&source->protocol, &datagram);
}

static void target_gets(void *arg, const void *data, size_t size)
{
	struct net_target *target = arg;
	struct net *net = target->net;
	struct datagram datagram;
	struct net_view *view;
	uint32_t segment;

	cr_assert(dfi__datagram_parse(&net->flow, data, size, &datagram));
	if (net->loses && net->loses(net, &datagram, target->index))
		return;
	view = &target->views[datagram.source];
	segment = datagram.number - (uint32_t)net->plan.start;
	if (datagram.type == DATAGRAM_DATA) {
		cr_assert_lt(segment, net->plan.n_segments);
		/* A segment reported as lost may still come. */
		if (segment >= view->protocol.expected - net->plan.start)
			view->seen[segment] |= SEEN_ARRIVED;
	}
	dfi__multicast_receiver_receive(&view->protocol, &datagram, net->now);
}

/* A slot that is read on arrival may have another segment by then. */
static void arrive(struct net *net, struct net_datagram *datagram)
{
	size_t size = datagram->header_size + datagram->payload_size;
	uint32_t i = datagram->receiver;

	if (datagram->late)
		memcpy(datagram->data + datagram->header_size, datagram->late,
		    datagram->payload_size);
	if (datagram->to_source && net->sources[i].there)
		dfi__faults_receive(net->sources[i].faults, datagram->data,
		    size, net->now, source_gets, &net->sources[i]);
	else if (!datagram->to_source && net->targets[i].there)
		dfi__faults_receive(net->targets[i].faults, datagram->data,
		    size, net->now, target_gets, &net->targets[i]);
	free(datagram);
}

/* false: there is no room, or nothing left. */
static bool push_segment(struct net_source *source)
{
	struct net *net = source->net;
	struct replica_writer *replica_writer = &source->replica_writer;
	uint32_t i, n;
	uint64_t tuple;
	int ret;

	if (source->sent == net->plan.n_segments)
		return false;
	ret = dfi__replica_open(replica_writer);
	cr_assert_geq(ret, 0, "%s", dfi_errmsg());
	if (!ret)
		return false;
	n = tuples_of(net, source->sent);
	for (i = 0; i < n; i++) {
		tuple = tuple_of(
		    source->index, net->first_tuple[source->sent] + i);
		memcpy(replica_writer->lane.segment + i * sizeof(tuple), &tuple,
		    sizeof(tuple));
	}
	cr_assert_eq(
	    dfi__replica_publish(replica_writer, n * sizeof(tuple)), 0);
	source->sent++;
	return true;
}

static void push(struct net_source *source)
{
	struct net *net = source->net;
	uint32_t i, n = 1 + (uint32_t)(net_draw(&net->random) % 4);

	source->room = net->plan.output_room;
	for (i = 0; i < n && push_segment(source); i++)
		;
	if (source->sent == net->plan.n_segments && !source->ended) {
		source->ended = true;
		cr_assert_eq(dfi__multicast_sender_end(
				 &source->protocol, FOOTER_FLAG_END, net->now),
		    0);
	}
	cr_assert_eq(
	    dfi__multicast_sender_progress(&source->protocol, net->now), 0);
}

static void took_gap(struct net *net, struct net_view *view)
{
	uint64_t i, segment = view->reader.gap_first - net->plan.start;

	cr_assert(net->plan.notify);
	cr_assert_eq(segment, view->next);
	cr_assert_gt(view->reader.gap_count, 0);
	for (i = segment; i < segment + view->reader.gap_count; i++) {
		cr_assert_lt(i, net->plan.n_segments);
		cr_assert_eq(view->seen[i], 0,
		    "seed %lu: segment %lu is told as lost, but was seen: %u",
		    (unsigned long)net->plan.seed, (unsigned long)i,
		    view->seen[i]);
		view->seen[i] |= SEEN_LOST;
	}
	view->next += view->reader.gap_count;
	view->n_lost += view->reader.gap_count;
	view->n_gaps++;
}

static void took_segment(
    struct net *net, struct net_view *view, const char *payload, uint64_t bytes)
{
	uint64_t i, tuple;

	cr_assert_lt(view->next, net->plan.n_segments);
	cr_assert_eq(view->seen[view->next] &
		(SEEN_ARRIVED | SEEN_DELIVERED | SEEN_LOST),
	    SEEN_ARRIVED);
	view->seen[view->next] |= SEEN_DELIVERED;
	cr_assert_eq(bytes, tuples_of(net, view->next) * sizeof(uint64_t));
	for (i = 0; i < bytes / sizeof(tuple); i++) {
		memcpy(&tuple, payload + i * sizeof(tuple), sizeof(tuple));
		cr_assert_eq(tuple,
		    tuple_of(view->protocol.config.source,
			net->first_tuple[view->next] + i),
		    "seed %lu: source %u, segment %u, tuple %lu: %#lx",
		    (unsigned long)net->plan.seed, view->protocol.config.source,
		    view->next, (unsigned long)i, (unsigned long)tuple);
	}
	view->next++;
}

static void look_at_end(struct net *net, struct net_view *view)
{
	cr_assert_eq(dfi__reader_check_end(&view->reader), 0, "seed %lu: %s",
	    (unsigned long)net->plan.seed, dfi_errmsg());
	if (view->reader.end == READER_ENDED)
		view->end = 1;
	else if (view->reader.end == READER_ABORTED)
		view->end = -ECANCELED;
	else if (view->protocol.state == RECEIVER_CUT &&
	    !reader_ready(&view->reader))
		view->end = -ECONNRESET;
}

static void take(struct net *net, struct net_view *view)
{
	const char *payload;
	uint64_t bytes;
	int ret;

	ret = reader_take(&view->reader, &payload, &bytes);
	if (ret == -ENODATA) {
		took_gap(net, view);
	} else {
		cr_assert_eq(ret, 0, "seed %lu: %s",
		    (unsigned long)net->plan.seed, dfi_errmsg());
		took_segment(net, view, payload, bytes);
	}
	cr_assert_eq(reader_release(&view->reader), 0);
}

static void consume_from(struct net *net, struct net_view *view)
{
	if (view->end)
		return;
	if (reader_ready(&view->reader))
		take(net, view);
	else
		look_at_end(net, view);
}

/* As flows/kinds/replicate/order.c does: arrivals go into the next list. */
static void look_at_rings(struct net *net, struct net_target *target)
{
	struct merge *merge = &target->merge;
	struct net_view *view;
	uint32_t i = merge->n_next;
	uint64_t position;

	while (i < merge->n_next + merge->n_waiting) {
		view = &target->views[merge->rings[i]];
		if (view->end) {
			dfi__merge_ended(merge, i);
			continue;
		}
		if (reader_ready(&view->reader)) {
			cr_assert_eq(
			    dfi__reader_global(&view->reader, &position), 0);
			cr_assert(dfi__merge_arrived(merge, i, position),
			    "seed %lu: position %lu",
			    (unsigned long)net->plan.seed,
			    (unsigned long)(position - MERGE_FIRST_POSITION));
			i++;
			continue;
		}
		look_at_end(net, view);
		target->lost |= view->end < 0;
		i += !view->end;
	}
}

/* At these positions are the segments that the source drew them for. */
static void check_positions(const struct net *net,
    const struct net_target *target, uint32_t source, uint32_t segment,
    uint32_t n)
{
	uint64_t position = target->merge.position - MERGE_FIRST_POSITION;
	uint32_t i;

	for (i = 0; i < n; i++) {
		cr_assert_lt(position + i, net->n_positions);
		cr_assert_eq(net->positions[position + i].source, source);
		cr_assert_eq(net->positions[position + i].segment, segment + i);
	}
}

static void consume_in_order(struct net *net, struct net_target *target)
{
	struct net_view *view;
	uint32_t ring, before, s;

	look_at_rings(net, target);
	cr_assert(!merge_is_late(&target->merge));
	if (merge_is_due(&target->merge)) {
		ring = merge_first(&target->merge);
		view = &target->views[ring];
		before = view->next;
		take(net, view);
		check_positions(net, target, ring, before, view->next - before);
		dfi__merge_delivered(&target->merge, view->next - before);
	} else if (target->lost) {
		for (s = 0; s < net->plan.n_sources; s++)
			if (!target->views[s].end)
				target->views[s].end = -ECONNRESET;
	}
}

static void consume(struct net_target *target)
{
	struct net *net = target->net;
	struct net_view *view;
	bool complete = true;
	uint32_t s;

	if (net->plan.ordered && !target->cancelled)
		consume_in_order(net, target);
	for (s = 0; s < net->plan.n_sources; s++) {
		view = &target->views[s];
		if (!net->plan.ordered)
			consume_from(net, view);
		dfi__multicast_receiver_progress(&view->protocol, net->now);
		complete &= view->end != 0;
	}
	/* It has all segments, and closes; others learn of it later. */
	if (complete && !target->complete) {
		target->complete = true;
		target->there = false;
		target->left_at = net->now;
	}
}

static bool has_all(const struct net_target *target)
{
	return target->complete && !target->lost;
}

/* The registry reports endpoints that died or left. */
static void hear_of_others(struct net *net)
{
	int64_t registry = net->plan.registry_us * US;
	struct net_source *source;
	struct net_target *target;
	uint32_t s, t;

	for (s = 0; s < net->plan.n_sources; s++) {
		source = &net->sources[s];
		for (t = 0; t < net->plan.n_targets; t++) {
			target = &net->targets[t];
			if (source->there && !source->knows_left[t] &&
			    target->left_at != DEADLINE_NEVER &&
			    target->left_at + registry <= net->now) {
				source->knows_left[t] = true;
				dfi__multicast_sender_leave(&source->protocol,
				    t,
				    target->cancelled     ? MULTICAST_CANCELLED
					: has_all(target) ? MULTICAST_DONE
							  : MULTICAST_GONE);
				if (!has_all(target))
					source->rings[t].cancelled = true;
			}
			if (target->there && !target->views[s].learns_gone &&
			    source->left_at != DEADLINE_NEVER &&
			    source->left_at + registry <= net->now) {
				target->views[s].learns_gone = true;
				dfi__multicast_receiver_source_gone(
				    &target->views[s].protocol, net->now);
			}
		}
	}
}

static void die(struct net *net)
{
	int64_t at = net->plan.death_us * US;
	struct net_target *target;
	struct net_source *source;
	uint32_t s;

	if (net->now < at)
		return;
	if (net->plan.dead_target) {
		target = &net->targets[net->plan.dead_target - 1];
		if (target->there && !target->complete) {
			target->there = false;
			target->left_at = net->now;
		}
	}
	if (net->plan.dead_source) {
		source = &net->sources[net->plan.dead_source - 1];
		if (source->there && !source->complete) {
			source->there = false;
			source->left_at = net->now;
		}
	}
	if (net->plan.cancels) {
		target = &net->targets[net->plan.cancels - 1];
		target->cancelled = target->there;
		for (s = 0; target->there && s < net->plan.n_sources; s++) {
			if (target->views[s].end)
				continue;
			dfi__reader_close(
			    &target->views[s].reader, RING_CANCELLED);
			target->views[s].end = -ECANCELED;
			dfi__multicast_receiver_progress(
			    &target->views[s].protocol, net->now);
		}
	}
	net->plan.dead_target = net->plan.dead_source = net->plan.cancels = 0;
}

static void run_source(struct net *net, struct net_source *source)
{
	if (!source->there)
		return;
	dfi__faults_progress(source->faults, net->now, source_gets, source);
	if (source->next_at <= net->now) {
		push(source);
		source->next_at = net->now + some_time(net, net->plan.push_us);
	}
	if (dfi__multicast_sender_due(&source->protocol) <= net->now)
		cr_assert_eq(
		    dfi__multicast_sender_progress(&source->protocol, net->now),
		    0);
	/* All may also have left because another source has died. */
	if (dfi__multicast_sender_is_over(&source->protocol)) {
		source->complete = source->ended;
		source->there = false;
		source->left_at = net->now;
	}
}

static void run_target(struct net *net, struct net_target *target)
{
	uint32_t s;

	if (!target->there)
		return;
	dfi__faults_progress(target->faults, net->now, target_gets, target);
	if (target->next_at <= net->now) {
		consume(target);
		target->next_at = net->now +
		    some_time(net, net->plan.consume_us);
	}
	for (s = 0; s < net->plan.n_sources; s++)
		if (dfi__multicast_receiver_due(&target->views[s].protocol) <=
		    net->now)
			dfi__multicast_receiver_progress(
			    &target->views[s].protocol, net->now);
}

static void earlier(int64_t *first, int64_t at)
{
	if (at < *first)
		*first = at;
}

/* The time of the next event. */
static int64_t next_time(const struct net *net)
{
	int64_t first = net->sent ? net->sent->arrives : DEADLINE_NEVER;
	uint32_t i, s;

	for (i = 0; i < net->plan.n_sources; i++) {
		if (!net->sources[i].there)
			continue;
		earlier(&first, net->sources[i].next_at);
		earlier(&first, dfi__faults_due(net->sources[i].faults));
		earlier(&first,
		    dfi__multicast_sender_due(&net->sources[i].protocol));
	}
	for (i = 0; i < net->plan.n_targets; i++) {
		if (!net->targets[i].there)
			continue;
		earlier(&first, net->targets[i].next_at);
		earlier(&first, dfi__faults_due(net->targets[i].faults));
		for (s = 0; s < net->plan.n_sources; s++)
			earlier(&first,
			    dfi__multicast_receiver_due(
				&net->targets[i].views[s].protocol));
	}
	return first;
}

static bool anybody_there(const struct net *net)
{
	uint32_t i;

	for (i = 0; i < NET_ENDPOINTS; i++)
		if (net->sources[i].there || net->targets[i].there)
			return true;
	return false;
}

void net_run(struct net *net)
{
	struct net_datagram *datagram;
	uint32_t i;

	while (anybody_there(net)) {
		net->now = (int64_t)max_u64(
		    (uint64_t)net->now, (uint64_t)next_time(net));
		cr_assert_lt(net->now, LIMIT_NS, "seed %lu: it stands still",
		    (unsigned long)net->plan.seed);
		while (net->sent && net->sent->arrives <= net->now) {
			datagram = net->sent;
			net->sent = datagram->next;
			arrive(net, datagram);
		}
		die(net);
		hear_of_others(net);
		for (i = 0; i < net->plan.n_sources; i++)
			run_source(net, &net->sources[i]);
		for (i = 0; i < net->plan.n_targets; i++)
			run_target(net, &net->targets[i]);
	}
}

struct net_plan net_any_plan(uint64_t seed, const char *faults)
{
	static const uint64_t starts[] = { 0, UINT32_MAX - 20,
		UINT64_MAX - 20 };
	uint64_t random = seed;
	struct net_plan plan = {
		.n_sources = 1 + (uint32_t)(net_draw(&random) % 3),
		.n_targets = 1 + (uint32_t)(net_draw(&random) % 3),
		.segment_count = 1 + (uint32_t)(net_draw(&random) % 12),
		.segment_tuples = 1 + (uint32_t)(net_draw(&random) % 5),
		.n_segments = 20 + (uint32_t)(net_draw(&random) % 60),
		.start = starts[net_draw(&random) % 3],
		.verified = net_draw(&random) % 2,
		.gap_us = 50 + (uint32_t)(net_draw(&random) % 1000),
		.faults = faults,
		.seed = seed,
		.push_us = 1 + (uint32_t)(net_draw(&random) % 20),
		.consume_us = 1 + (uint32_t)(net_draw(&random) % 20),
		.latency_us = 1 + (uint32_t)(net_draw(&random) % 10),
		.registry_us = 5000,
		.output_room = (uint32_t)(net_draw(&random) % 3),
		.footer_side = net_draw(&random) % 2 ? FOOTER_IN_FRONT
						     : FOOTER_BEHIND,
	};

	return plan;
}
