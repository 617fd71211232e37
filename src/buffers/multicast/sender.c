/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a source of a multicast over datagrams sends, and when. Numbers have 64
 * bits here. Received numbers have 32 bits, and stand for the number within a
 * window of the one that they are compared with.
 */
#include "sender.h"

#include <stdlib.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "buffers/checksum.h"

/* Targets do not answer ABORT, so the source sends it several times. */
#define ABORTS 4

static const struct segment_footer *footer_of(
    const struct multicast_sender *stream, uint32_t slot)
{
	const struct ring_geometry *g = &stream->config.flow.geometry;

	return (const struct segment_footer *)(const void
		*)((const char *)stream->config.slots +
	    (uint64_t)g->slot_size * slot + g->footer_offset);
}

/* The slot of a segment that was sent at most a window ago. */
static uint32_t slot_of(const struct multicast_sender *stream, uint64_t number)
{
	uint32_t back = (uint32_t)(stream->next - number);

	return stream->slot >= back
	    ? stream->slot - back
	    : stream->slot + stream->config.flow.geometry.segment_count - back;
}

static int64_t first_probe_ns(const struct multicast_sender *stream)
{
	return (int64_t)min_u64(
	    (uint64_t)stream->config.gap_us * 1000, STREAM_PROBE_MAX_NS);
}

int dfi__multicast_sender_init(struct multicast_sender *stream,
    const struct multicast_sender_config *config)
{
	uint32_t i;

	*stream = (struct multicast_sender){
		.config = *config,
		.next = config->start,
		.peers = calloc(
		    config->flow.n_targets, sizeof(stream->peers[0])),
	};
	stream->probe_ns = first_probe_ns(stream);
	if (!stream->peers)
		return dfi__fail(-ENOMEM,
		    "multicast: out of memory for %u targets",
		    config->flow.n_targets);
	for (i = 0; i < config->flow.n_targets; i++)
		stream->peers[i].consumed = config->start;
	return 0;
}

void dfi__multicast_sender_free(struct multicast_sender *stream)
{
	free(stream->peers);
	stream->peers = NULL;
}

void dfi__multicast_sender_attach(struct multicast_sender *stream,
    uint32_t target, struct ring_credit *credit)
{
	stream->peers[target].credit = credit;
	atomic_set(&credit->consumed, stream->peers[target].consumed);
	atomic_set(&credit->closed, RING_OPEN);
}

static int send(struct multicast_sender *stream, uint32_t to,
    const struct datagram *datagram, size_t payload_size)
{
	const struct datagram_port *port = &stream->config.port;
	char header[DATAGRAM_HEADER_MAX];
	size_t size = dfi__datagram_encode(
	    &stream->config.flow, datagram, header);

	return port->send(port->arg, to, header, size,
	    payload_size ? datagram->payload : NULL, payload_size);
}

/*
 * Whether a slot still has the segment. Only leave() lets the writer overwrite
 * it.
 */
static bool is_kept(
    const struct multicast_sender *stream, uint64_t number, uint32_t slot)
{
	const struct segment_footer *footer = footer_of(stream, slot);

	return footer_seq(atomic_peek(&footer->state)) == (uint32_t)number;
}

/*
 * Send a segment of the ring, in DATA with the fields that all segments have.
 */
static int send_segment(struct multicast_sender *stream, uint32_t to,
    uint64_t number, uint32_t slot)
{
	const struct ring_geometry *g = &stream->config.flow.geometry;
	const struct segment_footer *footer = footer_of(stream, slot);
	uint64_t state = atomic_peek(&footer->state);
	struct datagram data = {
		.type = DATAGRAM_DATA,
		.source = stream->config.source,
		.number = (uint32_t)number,
		.total = atomic_peek(&footer->total),
		.used = (uint32_t)footer_used(state),
		.payload = (const char *)footer - g->footer_offset,
	};

	return send(stream, to, &data, g->payload_offset + data.used);
}

/* The position of a segment of the ring. */
static uint64_t place_of(const struct multicast_sender *stream, uint32_t slot)
{
	const struct ring_geometry *g = &stream->config.flow.geometry;
	const char *base = (const char *)footer_of(stream, slot) -
	    g->footer_offset;

	return segment_header(g, base + g->payload_offset)->global;
}

static int send_new(struct multicast_sender *stream, int64_t now)
{
	const struct ring_geometry *g = &stream->config.flow.geometry;
	const struct segment_footer *footer = footer_of(stream, stream->slot);
	int ret;

	stream->stuck = false;
	/*
	 * Pairs with the publish of the writer's remote (shared_ring.c). It
	 * protects the slot.
	 */
	while (footer_seq(atomic_observe(&footer->state)) ==
	    (uint32_t)stream->next) {
		ret = send_segment(
		    stream, DATAGRAM_ALL, stream->next, stream->slot);
		if (ret < 0) {
			stream->stuck = ret == -EAGAIN;
			stream->counts.stuck += stream->stuck;
			return stream->stuck ? 0 : ret;
		}
		stream->total = atomic_peek(&footer->total);
		stream->next++;
		stream->slot = next_slot(g, stream->slot);
		stream->sent_at = now;
		stream->counts.segments++;
		footer = footer_of(stream, stream->slot);
	}
	return 0;
}

/* A lost STATE does no harm: the next one repeats it. */
static void send_state(struct multicast_sender *stream, int64_t now)
{
	struct datagram state = {
		.type = DATAGRAM_STATE,
		.source = stream->config.source,
		.number = (uint32_t)stream->next,
		.flags = stream->ended ? stream->ends : 0,
		.total = stream->total,
	};

	(void)send(stream, DATAGRAM_ALL, &state, 0);
	stream->sent_at = now;
	stream->counts.states++;
}

static bool awaits(const struct multicast_sender *stream)
{
	uint32_t i;

	if (stream->ends == DATAGRAM_ABORT)
		return false;
	for (i = 0; i < stream->config.flow.n_targets; i++)
		if (!stream->peers[i].over &&
		    (stream->ended ||
			stream->peers[i].consumed != stream->next))
			return true;
	return false;
}

static void probe(struct multicast_sender *stream, int64_t now)
{
	if (now - stream->sent_at < stream->probe_ns || !awaits(stream))
		return;
	send_state(stream, now);
	stream->probe_ns = (int64_t)min_u64(
	    (uint64_t)stream->probe_ns * 2, STREAM_PROBE_MAX_NS);
}

/* Send the first STATE that tells of the end. */
static void end(struct multicast_sender *stream, int64_t now)
{
	int i;

	stream->ended = true;
	stream->probe_ns = first_probe_ns(stream);
	for (i = 0; i < (stream->ends == DATAGRAM_ABORT ? ABORTS : 1); i++)
		send_state(stream, now);
}

int dfi__multicast_sender_progress(struct multicast_sender *stream, int64_t now)
{
	bool aborts = stream->ends == DATAGRAM_ABORT;

	if (!stream->error && !(aborts && stream->ended))
		stream->error = send_new(stream, now);
	if (stream->ends && !stream->ended &&
	    (aborts || !(stream->stuck || stream->error)))
		end(stream, now);
	else
		probe(stream, now);
	return stream->error;
}

int dfi__multicast_sender_end(
    struct multicast_sender *stream, uint64_t flag, int64_t now)
{
	/* An abort may follow an end. */
	stream->ended = false;
	stream->ends = flag & FOOTER_FLAG_ABORT ? DATAGRAM_ABORT : DATAGRAM_END;
	return dfi__multicast_sender_progress(stream, now);
}

static int send_run(
    struct multicast_sender *stream, uint32_t to, const struct datagram *run)
{
	int ret = run->count ? send(stream, to, run, 0) : 0;

	if (!ret)
		stream->counts.places += run->count;
	return ret;
}

/*
 * Add a segment to a run of positions. If a segment of another source lies
 * between, send the run and begin a new one.
 */
static int add_place(struct multicast_sender *stream, uint32_t to,
    uint64_t number, uint32_t slot, struct datagram *run)
{
	uint64_t place = place_of(stream, slot);
	int ret;

	if (run->count && run->number + run->count == (uint32_t)number &&
	    run->place + run->count == place) {
		run->count++;
		return 0;
	}
	ret = send_run(stream, to, run);
	*run = (struct datagram){
		.type = DATAGRAM_PLACE,
		.source = stream->config.source,
		.number = (uint32_t)number,
		.place = place,
		.count = 1,
	};
	return ret;
}

/*
 * Send missing segments again. With notify, only their positions are sent, in
 * an ordered flow: the target needs them to tell of losses in order. false: the
 * port has no room for the rest; the target asks for it again.
 */
static bool resend(struct multicast_sender *stream, uint32_t target,
    const struct datagram_range *range)
{
	const struct stream_peer *peer = &stream->peers[target];
	const struct ring_geometry *g = &stream->config.flow.geometry;
	struct datagram run = { .count = 0 };
	uint32_t i, ahead, slot;
	int ret = 0;

	if (stream->config.notify && !(g->parts & SEGMENT_GLOBAL))
		return true;
	for (i = 0; !ret && i < range->count; i++) {
		ahead = range->first + i - (uint32_t)peer->consumed;
		if (ahead >= stream->next - peer->consumed ||
		    stream->next - peer->consumed - ahead > g->segment_count)
			continue;
		slot = slot_of(stream, peer->consumed + ahead);
		if (!is_kept(stream, peer->consumed + ahead, slot))
			continue;
		if (stream->config.notify) {
			ret = add_place(
			    stream, target, peer->consumed + ahead, slot, &run);
			continue;
		}
		ret = send_segment(
		    stream, target, peer->consumed + ahead, slot);
		stream->counts.resent += !ret;
	}
	return !ret && !send_run(stream, target, &run);
}

/* true: it was not known before. */
static bool set_over(struct stream_peer *peer, enum stream_over over)
{
	if (peer->over)
		return false;
	peer->over = over;
	/* Pairs with writer_closed(); protects nothing. */
	if (over == STREAM_CANCELLED)
		atomic_publish(&peer->credit->closed, RING_CANCELLED);
	return true;
}

bool dfi__multicast_sender_receive(
    struct multicast_sender *stream, const struct datagram *report)
{
	struct stream_peer *peer = &stream->peers[report->target];
	uint32_t i, d = report->number - (uint32_t)peer->consumed;
	bool news = d > 0;

	if (report->type != DATAGRAM_REPORT ||
	    report->source != stream->config.source || peer->over ||
	    d > stream->next - peer->consumed) {
		stream->counts.outdated++;
		return false;
	}
	stream->counts.reports++;
	peer->consumed += d;
	/*
	 * Pairs with dfi__writer_room(): all that was sent from the slots that
	 * become free was sent before this.
	 */
	if (news)
		atomic_publish(&peer->credit->consumed, peer->consumed);
	if (report->flags & DATAGRAM_CANCELLED)
		news |= set_over(peer, STREAM_CANCELLED);
	else if (report->flags & DATAGRAM_DONE && stream->ended &&
	    stream->ends == DATAGRAM_END)
		news |= set_over(peer, STREAM_DONE);
	for (i = 0; !peer->over && i < report->n_missing; i++)
		if (!resend(stream, report->target, &report->missing[i]))
			break;
	if (news)
		stream->probe_ns = first_probe_ns(stream);
	return news;
}

void dfi__multicast_sender_leave(
    struct multicast_sender *stream, uint32_t target, enum stream_over over)
{
	set_over(&stream->peers[target], over);
}

bool dfi__multicast_sender_is_over(const struct multicast_sender *stream)
{
	uint32_t i;

	for (i = 0; i < stream->config.flow.n_targets; i++)
		if (!stream->peers[i].over)
			return false;
	return true;
}

int64_t dfi__multicast_sender_due(const struct multicast_sender *stream)
{
	return awaits(stream) ? stream->sent_at + stream->probe_ns
			      : DEADLINE_NEVER;
}
