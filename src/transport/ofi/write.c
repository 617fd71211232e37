/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer's end of a ring: how its segments are sent, from a shadow ring or
 * a send buffer, and what is known of those that are under way. That a provider
 * has sent a write says nothing about its arrival. So an owner confirms the end
 * mark by a message, and, if asked, all that came before.
 */
#include "conn.h"

#include "base/bits.h"
#include "base/compiler.h"
#include "base/error.h"

/* Write a part of a payload. Returns 0, or -ECONNRESET without a text. */
static int write_part(struct ofi_remote *remote, const char *from,
    uint64_t offset, uint64_t size, uint64_t data, bool more)
{
	struct ofi_conn *conn = remote->conn;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)from,
		.iov_len = size };
	struct fi_rma_iov to = {
		.addr = remote->address + offset,
		.len = size,
		.key = remote->key,
	};
	struct fi_msg_rma message = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = &conn->writes,
		.data = data,
	};
	uint64_t flags = FI_REMOTE_CQ_DATA | (more ? FI_MORE : 0);
	ssize_t ret;

	if (unlikely(atomic_peek(&conn->broken)))
		return -ECONNRESET;
	if (++conn->posted % OFI_SIGNAL_INTERVAL == 0)
		flags |= FI_COMPLETION;
	/* Of a small payload the provider makes one piece with its header. */
	if (flags == FI_REMOTE_CQ_DATA && size <= conn->ofi->inject_size)
		ret = fi_inject_writedata(
		    conn->ep, from, size, data, 0, to.addr, to.key);
	else
		ret = fi_writemsg(conn->ep, &message, flags);
	if (likely(!ret))
		return 0;
	dfi__ofi_break(conn, fi_strerror((int)-ret));
	return -ECONNRESET;
}

static int write_segment(
    struct ofi_remote *remote, const struct transport_write *write)
{
	const char *from = remote->base.send_buffer
	    ? write->buffered
	    : remote->base.ring + write->payload_offset;
	uint64_t left = write->payload_size, at = write->payload_offset;
	uint64_t piece;
	int ret = 0;

	while (!ret && unlikely(left > OFI_PIECE)) {
		piece = OFI_PIECE;
		ret = write_part(remote, from, at, piece,
		    ofi_data(remote->to_link, OFI_DATA_PIECE, 0, 0), true);
		from += piece;
		at += piece;
		left -= piece;
	}
	return ret ? ret
		   : write_part(remote, from, at, left,
			 ofi_data(remote->to_link, OFI_DATA_SEGMENT, 0,
			     sent_bytes(write->payload_size, write->footer[1])),
			 write->more);
}

/* The owner writes the end mark, when this message tells it. */
static int write_end(
    struct ofi_remote *remote, const struct transport_write *write)
{
	struct ofi_message message = {
		.type = OFI_END,
		.to_link = remote->to_link,
		.key = write->footer[0],
		.key2 = write->footer[1],
		.count = remote->written + 1,
	};
	int ret = dfi__ofi_send(remote->conn, &message);

	if (!ret)
		remote->asked = message.count;
	return ret;
}

int dfi__ofi_write(struct remote *base, const struct transport_write *write)
{
	struct ofi_remote *remote = (struct ofi_remote *)base;
	struct ofi_conn *conn = remote->conn;
	struct transport_write mark;
	int ret;

	if (unlikely(footer_is_mark(write->footer[1]))) {
		mark = *write;
		mark.payload_size = mark_bytes(&remote->layout.shape);
		write = &mark;
	}
	ret = unlikely(!write->payload_size) ? write_end(remote, write)
					     : write_segment(remote, write);

	if (unlikely(ret)) {
		remote->unsent = true;
		return dfi__ofi_lost(remote);
	}
	remote->written++;
	atomic_fetch_add_explicit(&conn->sent, 1, memory_order_relaxed);
	ofi_count(&conn->ofi->counts.writes, 1);
	ofi_count(&conn->ofi->counts.bytes, write->payload_size);
	return 0;
}

/* Nothing is held. */
void dfi__ofi_post_remote(struct remote *base)
{
	(void)base;
}

/*
 * Tells whether the connection has room for all segments that its writer may
 * have open, so that sending one never fails.
 */
static bool has_room(const struct ofi_conn *conn)
{
	uint64_t under_way = conn->posted - atomic_peek(&conn->completed);
	uint64_t open = 2 * (uint64_t)conn->n_remotes;

	return under_way + min_u64(open, conn->ofi->max_sends / 2) <
	    conn->ofi->max_sends;
}

/* A slot that was given back has arrived, so nothing sends from it. */
int dfi__ofi_slot_is_free(struct remote *base)
{
	struct ofi_remote *remote = (struct ofi_remote *)base;
	struct ofi_conn *conn = remote->conn;
	bool broken = atomic_peek(&conn->broken);

	if (likely(!broken && has_room(conn)))
		return 1;
	if (broken)
		return dfi__ofi_lost(remote);
	dfi__ofi_progress(base->transport, 1);
	return has_room(conn);
}

int dfi__ofi_remote_progress(struct remote *base)
{
	struct ofi_remote *remote = (struct ofi_remote *)base;

	dfi__ofi_progress(base->transport, 1);
	return atomic_peek(&remote->conn->broken) ? dfi__ofi_lost(remote) : 0;
}

void dfi__ofi_arm_remote(struct remote *base)
{
	dfi__ofi_arm(base->transport);
}

int dfi__ofi_drained(struct remote *base)
{
	struct ofi_remote *remote = (struct ofi_remote *)base;
	struct ofi_message message = {
		.type = OFI_CONFIRM,
		.to_link = remote->to_link,
		.count = remote->written,
	};

	if (remote->unsent)
		return dfi__ofi_lost(remote);
	dfi__ofi_progress(base->transport, 1);
	if (atomic_observe(&remote->confirmed) == remote->written)
		return atomic_peek(&remote->owner_left)
		    ? dfi__fail(-ECONNRESET, "ofi: %s has closed the region",
			  remote->conn->peer)
		    : 1;
	if (atomic_observe(&remote->conn->broken) &&
	    atomic_observe(&remote->base.lost))
		return dfi__ofi_lost(remote);
	if (remote->asked != remote->written &&
	    !dfi__ofi_send(remote->conn, &message))
		remote->asked = remote->written;
	return 0;
}

const char *dfi__ofi_remote_why(const struct remote *remote)
{
	return dfi__ofi_why(((const struct ofi_remote *)remote)->conn);
}

/* ---- Words that many add to -------------------------------------------- */

int dfi__ofi_add(struct remote *base, uint64_t offset, uint64_t n)
{
	struct ofi_remote *remote = (struct ofi_remote *)base;
	struct ofi_message message = {
		.type = OFI_ADD,
		.to_link = remote->to_link,
		.address = offset,
		.count = n,
	};

	atomic_set(&remote->adding, true);
	return dfi__ofi_send(remote->conn, &message) ? dfi__ofi_lost(remote)
						     : 0;
}

int dfi__ofi_added(struct remote *base, uint64_t offset, uint64_t *before)
{
	struct ofi_remote *remote = (struct ofi_remote *)base;

	(void)offset;
	dfi__ofi_progress(base->transport, 1);
	/* Pairs with to_writer(): the value. */
	if (!atomic_observe(&remote->adding)) {
		*before = remote->before;
		return 1;
	}
	return atomic_peek(&remote->conn->broken) ? dfi__ofi_lost(remote) : 0;
}
