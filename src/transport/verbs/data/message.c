/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ends of a connection tell each other: that a ring is opened, and
 * where it is, and that it is left. Each end has a link for it, whose number
 * the other one puts into immediate data.
 */

#include "message.h"

#include <stdlib.h>
#include <string.h>
#include "arrive.h"
#include "base/atomic.h"
#include "checksum.h"

uint32_t dfi__verbs_link_take(struct verbs *verbs, struct verbs_conn *conn)
{
	struct verbs_link *links;
	uint32_t i, n;

	for (i = 0; i < verbs->n_links; i++)
		if (!verbs->links[i].conn)
			break;
	if (i == verbs->n_links) {
		n = verbs->n_links ? 2 * verbs->n_links : 16;
		links = realloc(verbs->links, n * sizeof(*links));
		if (!links)
			return NETWORK_NO_LINK;
		memset(links + verbs->n_links, 0,
		    (n - verbs->n_links) * sizeof(*links));
		verbs->links = links;
		verbs->n_links = n;
	}
	verbs->links[i] = (struct verbs_link){ .conn = conn };
	return i;
}

void dfi__verbs_free_remote(struct verbs_remote *remote)
{
	struct verbs *verbs = (struct verbs *)remote->base.transport;

	if (remote->link != NETWORK_NO_LINK) {
		verbs->links[remote->link] = (struct verbs_link){
			.conn = NULL,
		};
		dfi__verbs_receives_spare(verbs, TRANSPORT_RING_RECEIVES);
	}
	dfi__verbs_free_shadow(remote);
	free(remote);
}

/*
 * The largest segment with a checksum where devices promise no order. For so
 * many bytes before the footer a checksum costs no more than a completion, and
 * XXH3 has a slower method beyond
 * (docs/decisions/0027-footers-with-checksums.md).
 */
#define CHECKSUM_BYTES 240
#define CHECKSUM_RINGS 16

static enum verbs_notify choose_notify(const struct verbs *verbs,
    const struct verbs_conn *conn, const struct verbs_export *export)
{
	if (verbs->settings->verbs_notify != VERBS_NOTIFY_AUTO)
		return verbs->settings->verbs_notify;
	if (ibv_query_qp_data_in_order(conn->qp, IBV_WR_RDMA_WRITE, 0))
		return VERBS_NOTIFY_FOOTER;
	/* Only completions wake a sleeping reader. */
	return atomic_peek(&export->base.spins) &&
		export->layout.shape.footer_offset <= CHECKSUM_BYTES &&
		verbs->n_polled < CHECKSUM_RINGS
	    ? VERBS_NOTIFY_CHECKSUM
	    : VERBS_NOTIFY_IMM;
}

/*
 * Tells whether the peer has words open over this connection. Many peers may
 * open them, but each has a connection for that alone, so one link is enough;
 * otherwise a peer could make us create links without end.
 */
static bool has_words(const struct verbs_conn *conn,
    const struct verbs_export *export, uint32_t ring)
{
	const struct verbs *verbs = conn->verbs;
	const struct verbs_link *link;
	uint32_t i;

	for (i = 0; i < verbs->n_links; i++) {
		link = &verbs->links[i];
		if (link->conn == conn && link->export == export &&
		    link->ring == ring)
			return true;
	}
	return false;
}

/* A peer asks to add to words of ours. */
static int open_words(struct verbs_conn *conn, struct verbs_export *export,
    const struct verbs_message *message, struct verbs_message *answer)
{
	struct verbs_link *link;
	uint32_t number;

	if (has_words(conn, export, message->ring))
		return -EBUSY;
	number = dfi__verbs_link_take(conn->verbs, conn);
	if (number == NETWORK_NO_LINK)
		return -ENOMEM;
	link = &conn->verbs->links[number];
	link->to_link = message->link;
	link->export = export;
	link->ring = message->ring;
	export->n_links++;
	answer->link = number;
	answer->address = (uintptr_t)verbs_ring_base(export, message->ring);
	answer->rkey = export->mr->rkey;
	return 0;
}

/* From now on, arrivals for the link concern the ring. */
static void begin_ring(struct verbs_link *link, enum verbs_notify notify)
{
	struct verbs_export *export = link->export;
	struct network_ring *ring = &export->rings[link->ring];

	memcpy(link->footer, export->layout.first_footer, sizeof(link->footer));
	link->next_footer = verbs_footer_at(link, 0);
	if (notify == VERBS_NOTIFY_CHECKSUM)
		dfi__verbs_blank_new(link);
	link->first_state = atomic_peek(&link->next_footer[1]);
	export->n_links++;
	ring->notify = notify;
	network_ring_open(ring);
	if (notify != VERBS_NOTIFY_IMM)
		atomic_set(&export->base.unwoken, true);
	if (notify != VERBS_NOTIFY_FOOTER)
		atomic_set(&export->base.queued, true);
}

/* A peer asks to write a ring. Returns 0, or why it may not. */
static int open_ring(struct verbs_conn *conn,
    const struct verbs_message *message, struct verbs_message *answer)
{
	struct verbs *verbs = conn->verbs;
	struct verbs_export *export;
	struct verbs_link *link;
	uint32_t number;

	for (export = verbs->exports; export; export = export->next)
		if (export->base.name.key == message->key)
			break;
	if (!export || export->closing)
		return -ECONNRESET;
	if (message->ring >= export->layout.n_rings ||
	    message->size != export->layout.ring_size)
		return -EBADMSG;
	if (!export->layout.n_slots)
		return open_words(conn, export, message, answer);
	if (atomic_peek(&export->rings[message->ring].used) ||
	    dfi__verbs_is_written(export, message->ring))
		return -EEXIST;
	number = dfi__verbs_link_take(verbs, conn);
	if (number == NETWORK_NO_LINK)
		return -ENOMEM;
	link = &verbs->links[number];
	answer->notify = choose_notify(verbs, conn, export);
	if (answer->notify == VERBS_NOTIFY_CHECKSUM &&
	    dfi__verbs_poll_ring(verbs, number) < 0) {
		link->conn = NULL;
		return -ENOMEM;
	}
	link->to_link = message->link;
	link->export = export;
	link->ring = message->ring;
	link->credit_address = message->address;
	link->credit_rkey = message->rkey;
	export->rings[message->ring].link = number;
	begin_ring(link, answer->notify);
	answer->link = number;
	answer->address = (uintptr_t)verbs_ring_base(export, message->ring);
	answer->rkey = export->mr->rkey;
	return 0;
}

static void on_open(
    struct verbs_conn *conn, const struct verbs_message *message)
{
	struct verbs_message answer = {
		.type = VERBS_OPENED,
		.to_link = message->link,
	};

	answer.error = open_ring(conn, message, &answer);
	(void)dfi__verbs_send(conn, &answer, false); /* or it is broken */
}

/*
 * The error of an answer, one that open_ring() can return. Other values could
 * be mistaken for errors of this end, such as -ETIMEDOUT for an answer that did
 * not come.
 */
static int error_of_answer(int32_t error)
{
	return error == -ECONNRESET || error == -EBADMSG || error == -EEXIST ||
		error == -EBUSY || error == -ENOMEM
	    ? error
	    : -EBADMSG;
}

static void on_opened(
    struct verbs_link *link, const struct verbs_message *message)
{
	struct verbs_remote *remote = link->remote;

	if (!remote || remote->opened)
		return;
	remote->to_link = message->link;
	remote->address = message->address;
	remote->rkey = message->rkey;
	if (remote->layout.n_slots)
		remote->notify = message->notify == VERBS_NOTIFY_FOOTER ||
			message->notify == VERBS_NOTIFY_CHECKSUM
		    ? message->notify
		    : VERBS_NOTIFY_IMM;
	remote->opened = message->error ? error_of_answer(message->error) : 1;
	pthread_cond_broadcast(&link->conn->verbs->answered);
}

/* The writer has left, and all that it wrote has arrived. */
static void on_close(struct verbs_link *link)
{
	if (link->export)
		(void)dfi__verbs_leave_export(link);
	link->export = NULL;
	dfi__verbs_say_closed(link);
}

static void on_closed(struct verbs_link *link)
{
	if (link->remote && link->remote->closing)
		dfi__verbs_free_remote(link->remote);
}

void dfi__verbs_message_arrived(
    struct verbs_conn *conn, const struct verbs_message *message)
{
	struct verbs *verbs = conn->verbs;
	struct verbs_link *link;

	pthread_mutex_lock(&verbs->table);
	if (message->type == VERBS_OPEN) {
		/* Only the writer may post to a connection that we made. */
		if (conn->accepted)
			on_open(conn, message);
	} else {
		link = verbs_link_at(verbs, message->to_link, conn->qp->qp_num);
		if (link && message->type == VERBS_OPENED)
			on_opened(link, message);
		else if (link && link->export && message->type == VERBS_CLOSE)
			on_close(link);
		else if (link && message->type == VERBS_CLOSED)
			on_closed(link);
	}
	pthread_mutex_unlock(&verbs->table);
}
