/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's end of a ring: how its segments are sent, from a shadow ring or
 * a send buffer, and what is known of those that are under way.
 */
#include "arrive.h"
#include "checksum.h"
#include "message.h"
#include "ring.h"

#include <endian.h>
#include "base/atomic.h"
#include "base/compiler.h"

/* A part of the shadow ring, to be sent. */
static struct ibv_sge part_of(
    const struct verbs_remote *remote, uint64_t offset, uint64_t size)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)remote->base.ring + offset,
		.length = (uint32_t)size,
		.lkey = remote->shadow.mr->lkey,
	};
}

/* The payload of a segment, and maybe bytes after it, to be sent. */
static struct ibv_sge payload_of(const struct verbs_remote *remote,
    const struct transport_write *write, uint64_t size)
{
	if (!remote->base.send_buffer)
		return part_of(remote, write->payload_offset, size);
	return (struct ibv_sge){
		.addr = (uintptr_t)write->buffered,
		.length = (uint32_t)size,
		.lkey = remote->send_buffer_key,
	};
}

/* Post and count a write of parts of the shadow ring. */
static always_inline int post_write(struct verbs_remote *remote,
    uint64_t offset, struct ibv_sge *parts, int n, const enum verbs_imm *imm,
    bool more)
{
	struct verbs_conn *conn = remote->conn;
	struct ibv_send_wr *wr = &remote->request;
	uint64_t size = parts[0].length + (n > 1 ? parts[1].length : 0);

	wr->sg_list = parts;
	wr->num_sge = n;
	wr->opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	if (imm)
		wr->imm_data = htobe32(
		    remote->to_link << VERBS_IMM_BITS | *imm);
	wr->wr.rdma.remote_addr = remote->address + offset;
	wr->wr.rdma.rkey = remote->rkey;
	wr->send_flags = 0;
	verbs_count(&conn->counts.writes, 1);
	verbs_count(&conn->counts.bytes, size);
	if (size <= conn->max_inline) {
		wr->send_flags = IBV_SEND_INLINE;
		verbs_count(&conn->counts.inline_writes, 1);
	}
	if (unlikely(more))
		return dfi__verbs_post_later(conn, wr);
	return verbs_post(conn, wr, imm && *imm == VERBS_IMM_END);
}

/* With immediate data, only the payload has to travel. */
static int post_payload(
    struct verbs_remote *remote, const struct transport_write *write)
{
	static const enum verbs_imm imm = VERBS_IMM_SEGMENT;
	struct ibv_sge part = payload_of(remote, write, write->payload_size);

	return post_write(
	    remote, write->payload_offset, &part, 1, &imm, write->more);
}

/* Where the footer of a segment lies to be sent: each has its own place. */
static uint64_t footer_in_shadow(
    const struct verbs_remote *remote, uint64_t offset)
{
	const struct ring_layout *layout = &remote->layout;

	if (!remote->base.send_buffer || offset < layout->first_slot)
		return offset;
	return layout->first_slot +
	    (offset - layout->first_slot) / layout->slot_size *
	    sizeof(struct segment_footer);
}

/* Put a footer into the shadow ring. Returns its offset there. */
static uint64_t put_footer(const struct verbs_remote *remote,
    const struct transport_write *write, uint64_t state)
{
	uint64_t offset = footer_in_shadow(remote, write->footer_offset);
	uint64_t *footer = (uint64_t *)(void *)(remote->base.ring + offset);

	footer[0] = write->footer[0];
	footer[1] = state;
	return offset;
}

/* The same for a segment, with a checksum if the ring uses checksums. */
static inline uint64_t put_segment_footer(const struct verbs_remote *remote,
    const struct transport_write *write, uint64_t flags)
{
	uint64_t offset = put_footer(remote, write, write->footer[1] | flags);

	if (remote->notify == VERBS_NOTIFY_CHECKSUM)
		dfi__verbs_seal(remote->base.send_buffer
			? write->buffered
			: remote->base.ring + write->payload_offset,
		    write->payload_size, write->footer[1],
		    (uint64_t *)(void *)(remote->base.ring + offset));
	return offset;
}

/*
 * A target that polls footers needs payload and footer in one work request, as
 * devices keep the order within one write only
 * (docs/decisions/0018-partial-segments.md). So the payload of a partial
 * segment moves to its footer on the way; some bytes after it fill the last
 * cache line.
 */
static always_inline int post_with_footer(
    struct verbs_remote *remote, const struct transport_write *write)
{
	uint64_t room = write->footer_offset - write->payload_offset;
	uint64_t at = verbs_payload_at(room, write->payload_size);
	uint64_t footer = put_segment_footer(
	    remote, write, unlikely(at) ? FOOTER_FLAG_SHIFTED : 0);
	struct ibv_sge parts[2];
	int n = 2;

	parts[0] = payload_of(remote, write, room - at);
	if (likely(!at && !remote->base.send_buffer)) {
		parts[0].length += sizeof(write->footer);
		n = 1;
	} else {
		parts[1] = part_of(remote, footer, sizeof(write->footer));
	}
	return post_write(
	    remote, write->payload_offset + at, parts, n, NULL, write->more);
}

/* A mark travels as a segment does. */
static rarely int post_mark(
    struct verbs_remote *remote, const struct transport_write *write)
{
	static const enum verbs_imm imm = VERBS_IMM_MARK;
	struct transport_write mark = *write;
	struct ibv_sge part;

	mark.payload_size = mark_bytes(&remote->layout.shape);
	if (remote->notify != VERBS_NOTIFY_IMM)
		return post_with_footer(remote, &mark);
	part = payload_of(remote, &mark, mark.payload_size);
	return post_write(
	    remote, mark.payload_offset, &part, 1, &imm, mark.more);
}

/* The end mark always has immediate data: it overtakes no segment. */
static int post_end(
    struct verbs_remote *remote, const struct transport_write *write)
{
	static const enum verbs_imm imm = VERBS_IMM_END;
	struct ibv_sge part = part_of(remote,
	    put_footer(remote, write, footer_hold(write->footer[1])),
	    sizeof(write->footer));

	return post_write(remote, write->footer_offset, &part, 1, &imm, false);
}

/* A writer takes some arrivals once in this many writes. */
#define TAKE_WRITES 16

int dfi__verbs_write(struct remote *base, const struct transport_write *write)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;
	int ret;

	if (unlikely(!write->payload_size))
		ret = footer_is_mark(write->footer[1])
		    ? post_mark(remote, write)
		    : post_end(remote, write);
	else if (remote->notify == VERBS_NOTIFY_IMM)
		ret = post_payload(remote, write);
	else
		ret = post_with_footer(remote, write);
	if (unlikely(ret)) {
		remote->unsent = true;
		return dfi__verbs_lost(remote);
	}
	remote->last = remote->conn->posted;
	/* Credits that no source waits for also use up receives. */
	if (remote->last % TAKE_WRITES == 0)
		dfi__verbs_take_some((struct verbs *)base->transport);
	return 0;
}

void dfi__verbs_post_remote(struct remote *base)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;

	if (dfi__verbs_post_held(remote->conn))
		remote->unsent = true;
}

/*
 * The returned slot proves that its write arrived, before the write's
 * completion does. If the acknowledgement is lost, the queue pair sends the
 * slot's new content again, but the target's queue pair drops repeated packets
 * (InfiniBand C9-105), and so does TCP below iWARP.
 */
int dfi__verbs_slot_is_free(struct remote *base)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;
	struct verbs_conn *conn = remote->conn;
	bool broken = atomic_peek(&conn->broken);

	if (likely(!broken && verbs_has_room(conn)))
		return 1;
	if (broken || dfi__verbs_poll_sends(conn))
		return dfi__verbs_lost(remote);
	return verbs_has_room(conn);
}

/*
 * A wait for a word's number shows by itself whether the peer is there. A probe
 * would do harm: whenever something is acknowledged, soft-RoCE postpones the
 * repetition of what is not (the kernel's rxe_comp.c, retrans_timer), and
 * nothing else acknowledges a number. So once the answer is lost twice, probes
 * would postpone it for ever.
 */
static void probe(struct verbs_remote *remote)
{
	if (remote->layout.n_slots)
		dfi__verbs_probe(remote->conn);
}

void dfi__verbs_arm_remote(struct remote *base)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;

	ibv_req_notify_cq(remote->conn->sends, 0);
	probe(remote);
	dfi__verbs_arm(base->transport);
}

/* A spinning thread reads the clock once in this many looks. */
#define PROBE_WAITS 4096

int dfi__verbs_remote_progress(struct remote *base)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;

	dfi__verbs_progress(base->transport, 1);
	if (++remote->waits % PROBE_WAITS == 0)
		probe(remote);
	if (atomic_peek(&remote->conn->broken) ||
	    dfi__verbs_poll_sends(remote->conn))
		return dfi__verbs_lost(remote);
	return 0;
}

int dfi__verbs_drained(struct remote *base)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;
	int ret;

	/*
	 * If the end mark was posted, it is signalled; otherwise the requests
	 * before it may never complete.
	 */
	if (remote->unsent)
		return dfi__verbs_lost(remote);
	ret = dfi__verbs_poll_sends(remote->conn);
	/* The failed request may be of another ring, or a later one. */
	if (remote->conn->completed >= remote->last)
		return 1;
	/* After a failure of a device or queue, nothing completes any more. */
	return ret || dfi__verbs_why(remote->conn) ? dfi__verbs_lost(remote)
						   : 0;
}

const char *dfi__verbs_remote_why(const struct remote *remote)
{
	return dfi__verbs_why(((const struct verbs_remote *)remote)->conn);
}
