/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ends of a connection tell each other: that a ring is opened, and
 * where it is; its end mark; that all has arrived; and that it is left. Each
 * end has a link for it, which the other one names.
 */
#include "conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/compiler.h"
#include "base/log.h"

struct ofi_link *dfi__ofi_link(struct ofi *ofi, uint32_t name)
{
	uint32_t number = name & ((1u << OFI_LINK_BITS) - 1);
	struct ofi_link *link;

	if (unlikely(number >= ofi->n_links))
		return NULL;
	link = &ofi->links[number];
	return likely(link->conn && ofi_link_name(number, link->tag) == name)
	    ? link
	    : NULL;
}

uint32_t dfi__ofi_link_take(struct ofi *ofi, struct ofi_conn *conn)
{
	struct ofi_link *links;
	uint32_t i, n;

	for (i = 0; i < ofi->n_links; i++)
		if (!ofi->links[i].conn)
			break;
	if (i == ofi->n_links) {
		n = ofi->n_links ? 2 * ofi->n_links : 16;
		if (n > 1u << OFI_LINK_BITS)
			return NETWORK_NO_LINK;
		links = realloc(ofi->links, n * sizeof(*links));
		if (!links)
			return NETWORK_NO_LINK;
		memset(links + ofi->n_links, 0,
		    (n - ofi->n_links) * sizeof(*links));
		ofi->links = links;
		ofi->n_links = n;
	}
	ofi->links[i] = (struct ofi_link){
		.conn = conn,
		.tag = ofi->links[i].tag,
	};
	conn->n_links++;
	return ofi_link_name(i, ofi->links[i].tag);
}

void dfi__ofi_link_free(struct ofi_link *link)
{
	link->conn->n_links--;
	*link = (struct ofi_link){ .tag = link->tag + 1 };
}

void dfi__ofi_free_remote(struct ofi_remote *remote)
{
	struct ofi *ofi = (struct ofi *)remote->base.transport;
	struct ofi_link *link = dfi__ofi_link(ofi, remote->link);

	if (remote->link != NETWORK_NO_LINK && link)
		dfi__ofi_link_free(link);
	dfi__ofi_free_shadow(remote);
	free(remote);
}

int dfi__ofi_send(struct ofi_conn *conn, const struct ofi_message *message)
{
	ssize_t ret;

	if (atomic_peek(&conn->broken) || !conn->ep)
		return -ECONNRESET;
	ret = fi_inject(conn->ep, message, sizeof(*message), 0);
	if (ret) {
		dfi__ofi_break(conn, fi_strerror((int)-ret));
		return -ECONNRESET;
	}
	atomic_fetch_add(&conn->sent, 1);
	ofi_count(&conn->ofi->counts.messages, 1);
	return 0;
}

/* ---- The owner --------------------------------------------------------- */

/*
 * Tells whether the peer has words open over this connection. Many peers may
 * open them, but each has a connection for that alone, so one link is enough;
 * otherwise a peer could make us create links without end.
 */
static bool has_words(
    const struct ofi_conn *conn, const struct ofi_export *export)
{
	const struct ofi *ofi = conn->ofi;
	uint32_t i;

	for (i = 0; i < ofi->n_links; i++)
		if (ofi->links[i].conn == conn &&
		    ofi->links[i].export == export)
			return true;
	return false;
}

/* A ring that was written through memory has an end mark or a segment. */
static bool is_written(const struct ofi_export *export, uint32_t number)
{
	const struct ring_layout *layout = &export->layout;
	char *base = ofi_ring_base(export, number);
	const struct segment_footer *end =
	    (const struct segment_footer *)(const void *)(base +
		layout->end_footer);
	const struct segment_footer *first =
	    (const struct segment_footer *)(const void *)(base +
		layout_footer(layout, 0));

	return atomic_observe(&end->state) ||
	    footer_seq(atomic_observe(&first->state)) ==
	    footer_seq(layout->first_footer[1]) + 1;
}

/* From now on, arrivals for the link concern the ring. */
static void begin_ring(struct ofi_link *link, uint32_t name)
{
	struct ofi_export *export = link->export;
	struct network_ring *ring = &export->rings[link->ring];

	memcpy(link->footer, export->layout.first_footer, sizeof(link->footer));
	link->next_footer = ofi_footer_at(link, 0);
	ring->link = name;
	network_ring_open(ring);
	atomic_set(&export->base.queued, true);
}

/* A peer asks to write a ring. Returns 0, or why it may not. */
static int open_ring(struct ofi_conn *conn, const struct ofi_message *message,
    struct ofi_message *answer)
{
	struct ofi *ofi = conn->ofi;
	struct ofi_export *export;
	struct ofi_link *link;
	uint32_t name;
	bool words;

	for (export = ofi->exports; export; export = export->next)
		if (export->base.name.key == message->key)
			break;
	if (!export || export->closing)
		return -ECONNRESET;
	if (message->ring >= export->layout.n_rings ||
	    message->count != export->layout.ring_size)
		return -EBADMSG;
	words = !export->layout.n_slots;
	if (words && has_words(conn, export))
		return -EBUSY;
	if (!words &&
	    (atomic_peek(&export->rings[message->ring].used) ||
		is_written(export, message->ring)))
		return -EEXIST;
	name = dfi__ofi_link_take(ofi, conn);
	if (name == NETWORK_NO_LINK)
		return -ENOMEM;
	link = dfi__ofi_link(ofi, name);
	link->to_link = message->link;
	link->export = export;
	link->ring = message->ring;
	link->credit_key = message->key2;
	export->n_links++;
	if (!words)
		begin_ring(link, name);
	answer->link = name;
	answer->key2 = words ? 0 : fi_mr_key(export->mr);
	answer->address = export->layout.first_ring +
	    message->ring * export->layout.ring_size;
	return 0;
}

static void on_open(struct ofi_conn *conn, const struct ofi_message *message)
{
	struct ofi_message answer = {
		.type = OFI_OPENED,
		.to_link = message->link,
	};

	answer.error = open_ring(conn, message, &answer);
	(void)dfi__ofi_send(conn, &answer);           /* or it is broken */
	pthread_cond_broadcast(&conn->ofi->answered); /* see share() */
}

/* The writer has left, and all that it wrote has arrived. */
static void on_close(struct ofi_link *link)
{
	struct ofi_message answer = {
		.type = OFI_CLOSED,
		.to_link = link->to_link,
	};
	struct ofi_conn *conn = link->conn;

	(void)dfi__ofi_leave_export(link);
	dfi__ofi_link_free(link);
	(void)dfi__ofi_send(conn, &answer);
	if (ofi_conn_is_unused(conn))
		dfi__ofi_break(conn, NULL);
}

/* Nobody reads the ring of an owner that has left. */
static void confirm(
    const struct ofi_link *link, const struct ofi_message *message)
{
	struct ofi_message answer = {
		.type = OFI_CONFIRMED,
		.to_link = link->to_link,
		.error = link->export->closing ? -ECONNRESET : 0,
		.count = message->count,
	};

	(void)dfi__ofi_send(link->conn, &answer);
}

/* The end mark: its footer is in the message, and all segments precede it. */
static void on_end(struct ofi_link *link, const struct ofi_message *message)
{
	struct ofi_export *export = link->export;
	struct segment_footer *end;

	link->ended = link->written = true;
	if (!export->closing && export->layout.n_slots) {
		end = (struct segment_footer *)(void *)(ofi_ring_base(export,
							    link->ring) +
		    export->layout.end_footer);
		atomic_set(&end->total, message->key);
		/* Pairs with the reader's observe of this word (reader.h). */
		atomic_publish(&end->state, message->key2);
		dfi__ofi_wake_reader(export);
	}
	confirm(link, message);
}

/* All add here, so that each gets numbers of its own. */
static void on_add(struct ofi_link *link, const struct ofi_message *message)
{
	const struct ring_layout *layout = &link->export->layout;
	struct ofi_message answer = {
		.type = OFI_ADDED,
		.to_link = link->to_link,
	};
	_Atomic uint64_t *word;

	if (layout->n_slots || message->address % sizeof(*word) ||
	    message->address > layout->ring_size - sizeof(*word)) {
		dfi__ofi_break(link->conn, "it adds to what is no counter");
		return;
	}
	word = (_Atomic uint64_t *)(void *)(ofi_ring_base(
						link->export, link->ring) +
	    message->address);
	answer.count = atomic_fetch_add(word, message->count);
	(void)dfi__ofi_send(link->conn, &answer);
}

static void to_owner(struct ofi_link *link, const struct ofi_message *message)
{
	switch (message->type) {
	case OFI_CLOSE:
		on_close(link);
		break;
	case OFI_END:
		on_end(link, message);
		break;
	case OFI_CONFIRM:
		confirm(link, message);
		break;
	case OFI_ADD:
		on_add(link, message);
		break;
	}
}

/* ---- The writer -------------------------------------------------------- */

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

static void on_closed(struct ofi_remote *remote)
{
	struct ofi_conn *conn = remote->conn;

	if (!remote->closing)
		return;
	dfi__ofi_free_remote(remote);
	if (ofi_conn_is_unused(conn))
		dfi__ofi_break(conn, NULL);
}

/* The answer to a writer that has given up meanwhile. */
static void late_answer(
    struct ofi_remote *remote, const struct ofi_message *message)
{
	struct ofi_message close = {
		.type = OFI_CLOSE,
		.to_link = message->link,
	};

	remote->opened = -ETIMEDOUT;
	if (message->error)
		on_closed(remote);
	else
		(void)dfi__ofi_send(remote->conn, &close);
}

static void on_opened(
    struct ofi_remote *remote, const struct ofi_message *message)
{
	if (remote->opened)
		return;
	if (remote->closing) {
		late_answer(remote, message);
		return;
	}
	remote->to_link = message->link;
	remote->key = message->key2;
	remote->address = message->address;
	remote->opened = message->error ? error_of_answer(message->error) : 1;
	pthread_cond_broadcast(&remote->conn->ofi->answered);
}

static void to_writer(
    struct ofi_remote *remote, const struct ofi_message *message)
{
	switch (message->type) {
	case OFI_OPENED:
		on_opened(remote, message);
		break;
	case OFI_CLOSED:
		on_closed(remote);
		break;
	case OFI_CONFIRMED:
		/* Pairs with dfi__ofi_drained(): whether the owner is there. */
		atomic_set(&remote->owner_left, message->error != 0);
		atomic_publish(&remote->confirmed, message->count);
		dfi__ofi_wake_writer(remote);
		break;
	case OFI_ADDED:
		remote->before = message->count;
		/* Pairs with dfi__ofi_added(): the value. */
		atomic_publish(&remote->adding, false);
		dfi__ofi_wake_writer(remote);
		break;
	}
}

void dfi__ofi_message_arrived(
    struct ofi_conn *conn, const struct ofi_message *message)
{
	struct ofi *ofi = conn->ofi;
	struct ofi_link *link;

	if (message->type == OFI_BEAT)
		return;
	pthread_mutex_lock(&ofi->table);
	if (message->type == OFI_OPEN) {
		/* Only a member has proved itself. */
		if (conn->state == OFI_ESTABLISHED)
			on_open(conn, message);
	} else {
		link = dfi__ofi_link(ofi, message->to_link);
		if (link && link->conn == conn && link->export)
			to_owner(link, message);
		else if (link && link->conn == conn && link->remote)
			to_writer(link->remote, message);
	}
	pthread_mutex_unlock(&ofi->table);
}
