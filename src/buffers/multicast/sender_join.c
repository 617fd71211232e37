/* SPDX-License-Identifier: Apache-2.0 */
/* How targets join and leave the stream of a source of an open flow. */
#include "sender_state.h"

#include "base/atomic.h"
#include "base/clock.h"

static void send_join(struct multicast_sender *sender, uint32_t target)
{
	const struct sender_peer *peer = &sender->peers[target];
	struct datagram join = {
		.type = DATAGRAM_JOIN,
		.source = sender->config.source,
		.number = (uint32_t)peer->first,
		.pair = peer->pair,
		.total = peer->before,
		.first = peer->first,
		.mark = peer->mark,
		.target = target,
	};

	/* If it is lost, it is sent again. */
	(void)sender_send(sender, target, &join, 0);
	sender->counts.joins++;
}

void dfi__multicast_sender_joined(
    struct multicast_sender *sender, struct sender_peer *peer)
{
	sender->n_joining -= peer->joins;
	peer->joins = false;
}

void dfi__multicast_sender_join(struct multicast_sender *sender,
    uint32_t target, uint64_t pair, uint64_t first, uint64_t before,
    uint64_t mark, int64_t now)
{
	struct sender_peer *peer = &sender->peers[target];

	dfi__multicast_sender_joined(sender, peer);
	*peer = (struct sender_peer){
		.credit = peer->credit,
		.consumed = first - 1,
		.pair = pair,
		.first = first,
		.before = before,
		.mark = mark,
		.joins = true,
	};
	atomic_set(&peer->credit->closed, RING_OPEN);
	/* Pairs with dfi__writer_room(). */
	atomic_publish(&peer->credit->consumed, peer->consumed);
	sender->n_joining++;
	sender->joined_at = now;
	sender->join_ns = sender_probe_ns(sender);
	send_join(sender, target);
}

void dfi__multicast_sender_join_again(
    struct multicast_sender *sender, int64_t now)
{
	uint32_t i;

	if (now < dfi__multicast_sender_join_due(sender))
		return;
	for (i = 0; i < sender->config.flow.n_targets; i++)
		if (sender->peers[i].joins)
			send_join(sender, i);
	sender->joined_at = now;
	sender->join_ns = (int64_t)min_u64(
	    (uint64_t)sender->join_ns * 2, SENDER_PROBE_MAX_NS);
}

int64_t dfi__multicast_sender_join_due(const struct multicast_sender *sender)
{
	return sender->n_joining ? sender->joined_at + sender->join_ns
				 : DEADLINE_NEVER;
}

void dfi__multicast_sender_left(
    struct multicast_sender *sender, uint32_t target, uint64_t given_back)
{
	struct sender_peer *peer = &sender->peers[target];

	if (peer->pair && !peer->over &&
	    given_back - peer->consumed <=
		sender_sent_to(sender, peer) - peer->consumed) {
		peer->consumed = given_back;
		/* Pairs with dfi__writer_room(). */
		atomic_publish(&peer->credit->consumed, given_back);
	}
	/* Pairs with writer_closed(); protects the credit. */
	atomic_publish(&peer->credit->closed, RING_CLOSED);
	dfi__multicast_sender_leave(sender, target, MULTICAST_GONE);
}

void dfi__multicast_sender_abort(
    struct multicast_sender *sender, uint32_t target, uint32_t cause)
{
	struct sender_peer *peer = &sender->peers[target];
	struct datagram state = {
		.type = DATAGRAM_STATE,
		.source = sender->config.source,
		.number = (uint32_t)sender->next,
		.flags = DATAGRAM_ABORT,
		.total = cause,
	};
	int i;

	if (!peer->pair)
		return;
	dfi__multicast_sender_leave(sender, target, MULTICAST_GONE);
	/* If they are lost, the target hears of it from the registry. */
	for (i = 0; i < SENDER_ABORTS; i++)
		(void)sender_send(sender, target, &state, 0);
}

void dfi__multicast_sender_forget(
    struct multicast_sender *sender, uint32_t target)
{
	dfi__multicast_sender_leave(sender, target, MULTICAST_GONE);
	sender->peers[target].pair = 0;
}

uint64_t dfi__multicast_sender_unreturned(const struct multicast_sender *sender,
    uint32_t target, uint64_t end, uint64_t sets)
{
	const struct ring_geometry *g = &sender->config.flow.geometry;
	const struct sender_peer *peer = &sender->peers[target];
	/* For the target, a mark has the number before first. */
	uint64_t number = peer->consumed + (peer->consumed == peer->first - 1);
	uint64_t bytes = 0;
	uint32_t slot;

	for (; peer->pair && number < end; number++) {
		slot = (uint32_t)((number - sender->config.start) %
		    g->segment_count);
		if (!sets || sender_set_of(sender, slot) & sets)
			bytes += footer_tuple_bytes(atomic_peek(
			    &sender_footer_of(sender, slot)->state));
	}
	return bytes / g->tuple_size;
}
