/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a source of a multicast over datagrams sends, and when. Numbers have 64
 * bits here. Received numbers have 32 bits, and stand for the number within a
 * window of the one that they are compared with.
 */
#include "sender_state.h"

#include <stdlib.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "buffers/layout/checksum.h"

/* The slot of a segment that was sent at most a window ago. */
static uint32_t slot_of(const struct multicast_sender *sender, uint64_t number)
{
	uint32_t back = (uint32_t)(sender->next - number);

	return sender->slot >= back
	    ? sender->slot - back
	    : sender->slot + sender->config.flow.geometry.segment_count - back;
}

int dfi__multicast_sender_init(struct multicast_sender *sender,
    const struct multicast_sender_config *config)
{
	uint32_t i;

	*sender = (struct multicast_sender){
		.config = *config,
		.next = config->start,
		.peers = calloc(
		    config->flow.n_targets, sizeof(sender->peers[0])),
	};
	sender->probe_ns = sender_probe_ns(sender);
	if (!sender->peers)
		return dfi__fail(-ENOMEM,
		    "multicast: out of memory for %u targets",
		    config->flow.n_targets);
	for (i = 0; i < config->flow.n_targets; i++) {
		sender->peers[i].consumed = sender->peers[i].first =
		    config->start;
		/* In an open flow nobody has joined yet. */
		if (config->flow.open)
			sender->peers[i].over = MULTICAST_GONE;
	}
	return 0;
}

void dfi__multicast_sender_free(struct multicast_sender *sender)
{
	free(sender->peers);
	sender->peers = NULL;
}

void dfi__multicast_sender_attach(struct multicast_sender *sender,
    uint32_t target, struct ring_credit *credit)
{
	sender->peers[target].credit = credit;
	atomic_set(&credit->consumed, sender->peers[target].consumed);
	atomic_set(&credit->closed, RING_OPEN);
}

/*
 * Whether a slot still has the segment. Only leave() lets the writer overwrite
 * it.
 */
static bool is_kept(
    const struct multicast_sender *sender, uint64_t number, uint32_t slot)
{
	const struct segment_footer *footer = sender_footer_of(sender, slot);

	return footer_seq(atomic_peek(&footer->state)) == (uint32_t)number;
}

/*
 * Send a segment of the ring, in DATA with the fields that all segments have.
 */
static int send_segment(struct multicast_sender *sender, uint32_t to,
    uint64_t number, uint32_t slot)
{
	const struct ring_geometry *g = &sender->config.flow.geometry;
	const struct segment_footer *footer = sender_footer_of(sender, slot);
	uint64_t state = atomic_peek(&footer->state);
	struct datagram data = {
		.type = DATAGRAM_DATA,
		.source = sender->config.source,
		.number = (uint32_t)number,
		.total = atomic_peek(&footer->total),
		.used = (uint32_t)footer_used(state),
		.payload = (const char *)footer - g->footer_offset,
	};

	return sender_send(sender, to, &data, datagram_payload(g, data.used));
}

/* The position of a segment of the ring. */
static uint64_t position_of(
    const struct multicast_sender *sender, uint32_t slot)
{
	const struct ring_geometry *g = &sender->config.flow.geometry;
	const char *base = (const char *)sender_footer_of(sender, slot) -
	    g->footer_offset;

	return segment_header(g, base + g->payload_offset)->global;
}

static int send_new(struct multicast_sender *sender, int64_t now)
{
	const struct ring_geometry *g = &sender->config.flow.geometry;
	const struct segment_footer *footer = sender_footer_of(
	    sender, sender->slot);
	int ret;

	sender->stuck = false;
	/*
	 * Pairs with the publish of the writer's remote (shared_ring.c). It
	 * protects the slot.
	 */
	while (footer_seq(atomic_observe(&footer->state)) ==
	    (uint32_t)sender->next) {
		ret = send_segment(
		    sender, DATAGRAM_ALL, sender->next, sender->slot);
		if (ret < 0) {
			sender->stuck = ret == -EAGAIN;
			sender->counts.stuck += sender->stuck;
			return sender->stuck ? 0 : ret;
		}
		sender->total = atomic_peek(&footer->total);
		sender->next++;
		sender->slot = next_slot(g, sender->slot);
		sender->sent_at = now;
		sender->counts.segments++;
		footer = sender_footer_of(sender, sender->slot);
	}
	return 0;
}

/* A lost STATE does no harm: the next one repeats it. */
static void send_state(struct multicast_sender *sender, int64_t now)
{
	struct datagram state = {
		.type = DATAGRAM_STATE,
		.source = sender->config.source,
		.number = (uint32_t)sender->next,
		.flags = sender->ended ? sender->ends : 0,
		.total = sender->total,
	};

	(void)sender_send(sender, DATAGRAM_ALL, &state, 0);
	sender->sent_at = now;
	sender->counts.states++;
}

/* One that joins is asked by JOIN. */
static bool awaits(const struct multicast_sender *sender)
{
	const struct sender_peer *peer = sender->peers;
	uint32_t i;

	if (sender->ends == DATAGRAM_ABORT)
		return false;
	for (i = 0; i < sender->config.flow.n_targets; i++, peer++)
		if (!peer->over && !peer->joins &&
		    (sender->ended ||
			peer->consumed != sender_sent_to(sender, peer)))
			return true;
	return false;
}

static void probe(struct multicast_sender *sender, int64_t now)
{
	if (now - sender->sent_at < sender->probe_ns || !awaits(sender))
		return;
	send_state(sender, now);
	sender->probe_ns = (int64_t)min_u64(
	    (uint64_t)sender->probe_ns * 2, SENDER_PROBE_MAX_NS);
}

/* Send the first STATE that tells of the end. */
static void end(struct multicast_sender *sender, int64_t now)
{
	int i;

	sender->ended = true;
	sender->probe_ns = sender_probe_ns(sender);
	for (i = 0; i < (sender->ends == DATAGRAM_ABORT ? SENDER_ABORTS : 1);
	     i++)
		send_state(sender, now);
}

int dfi__multicast_sender_progress(struct multicast_sender *sender, int64_t now)
{
	bool aborts = sender->ends == DATAGRAM_ABORT;

	if (!sender->error && !(aborts && sender->ended))
		sender->error = send_new(sender, now);
	if (sender->ends && !sender->ended &&
	    (aborts || !(sender->stuck || sender->error)))
		end(sender, now);
	else
		probe(sender, now);
	dfi__multicast_sender_join_again(sender, now);
	return sender->error;
}

int dfi__multicast_sender_end(
    struct multicast_sender *sender, uint64_t flag, int64_t now)
{
	/* An abort may follow an end. */
	sender->ended = false;
	sender->ends = flag & FOOTER_FLAG_ABORT ? DATAGRAM_ABORT : DATAGRAM_END;
	return dfi__multicast_sender_progress(sender, now);
}

static int send_run(
    struct multicast_sender *sender, uint32_t to, const struct datagram *run)
{
	int ret = run->count ? sender_send(sender, to, run, 0) : 0;

	if (!ret)
		sender->counts.positions += run->count;
	return ret;
}

/*
 * Add a segment to a run of positions. If a segment of another source lies
 * between, send the run and begin a new one.
 */
static int add_position(struct multicast_sender *sender, uint32_t to,
    uint64_t number, uint32_t slot, struct datagram *run)
{
	uint64_t position = position_of(sender, slot);
	int ret;

	if (run->count && run->number + run->count == (uint32_t)number &&
	    run->position + run->count == position) {
		run->count++;
		return 0;
	}
	ret = send_run(sender, to, run);
	*run = (struct datagram){
		.type = DATAGRAM_POSITION,
		.source = sender->config.source,
		.number = (uint32_t)number,
		.position = position,
		.count = 1,
	};
	return ret;
}

/*
 * Send missing segments again. With notify, only their positions are sent, in
 * an ordered flow: the target needs them to tell of losses in order. false: the
 * endpoint has no room for the rest; the target asks for it again.
 */
static bool resend(struct multicast_sender *sender, uint32_t target,
    const struct datagram_range *range)
{
	const struct sender_peer *peer = &sender->peers[target];
	const struct ring_geometry *g = &sender->config.flow.geometry;
	struct datagram run = { .count = 0 };
	uint32_t i, ahead, slot;
	int ret = 0;

	if (sender->config.notify && !(g->parts & SEGMENT_GLOBAL))
		return true;
	for (i = 0; !ret && i < range->count; i++) {
		ahead = range->first + i - (uint32_t)peer->consumed;
		if (ahead >= sender_sent_to(sender, peer) - peer->consumed ||
		    sender->next - peer->consumed - ahead > g->segment_count)
			continue;
		slot = slot_of(sender, peer->consumed + ahead);
		if (!is_kept(sender, peer->consumed + ahead, slot))
			continue;
		if (sender->config.notify) {
			ret = add_position(
			    sender, target, peer->consumed + ahead, slot, &run);
			continue;
		}
		ret = send_segment(
		    sender, target, peer->consumed + ahead, slot);
		sender->counts.resent += !ret;
	}
	return !ret && !send_run(sender, target, &run);
}

bool dfi__multicast_sender_receive(
    struct multicast_sender *sender, const struct datagram *report)
{
	struct sender_peer *peer = &sender->peers[report->target];
	uint32_t i, d = report->number - (uint32_t)peer->consumed;
	bool news = d > 0;

	if (report->type != DATAGRAM_REPORT ||
	    report->source != sender->config.source || peer->over ||
	    (sender->config.flow.open && report->pair != peer->pair) ||
	    d > sender_sent_to(sender, peer) - peer->consumed) {
		sender->counts.outdated++;
		return false;
	}
	sender->counts.reports++;
	dfi__multicast_sender_joined(sender, peer);
	peer->consumed += d;
	/*
	 * Pairs with dfi__writer_room(): all that was sent from the slots that
	 * become free was sent before this.
	 */
	if (news)
		atomic_publish(&peer->credit->consumed, peer->consumed);
	if (report->flags & DATAGRAM_CANCELLED)
		news |= sender_set_over(peer, MULTICAST_CANCELLED);
	else if (report->flags & DATAGRAM_DONE && sender->ended &&
	    sender->ends == DATAGRAM_END)
		news |= sender_set_over(peer, MULTICAST_DONE);
	for (i = 0; !peer->over && i < report->n_missing; i++)
		if (!resend(sender, report->target, &report->missing[i]))
			break;
	if (news)
		sender->probe_ns = sender_probe_ns(sender);
	return news;
}

void dfi__multicast_sender_leave(
    struct multicast_sender *sender, uint32_t target, enum multicast_over over)
{
	dfi__multicast_sender_joined(sender, &sender->peers[target]);
	sender_set_over(&sender->peers[target], over);
}

bool dfi__multicast_sender_is_over(const struct multicast_sender *sender)
{
	uint32_t i;

	for (i = 0; i < sender->config.flow.n_targets; i++)
		if (!sender->peers[i].over)
			return false;
	return true;
}

int64_t dfi__multicast_sender_due(const struct multicast_sender *sender)
{
	int64_t probe = awaits(sender) ? sender->sent_at + sender->probe_ns
				       : DEADLINE_NEVER;
	int64_t join = dfi__multicast_sender_join_due(sender);

	return join < probe ? join : probe;
}
