/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ends of a connection tell each other about rings, as messages
 * and as immediate data, and the links that these name.
 */
#ifndef DFI_TRANSPORT_VERBS_DATA_MESSAGE_H
#define DFI_TRANSPORT_VERBS_DATA_MESSAGE_H

#include <stdint.h>
#include "conn.h"
#include "ring.h"

/* A message between the two ends of a connection. Little-endian. */
enum verbs_message_type {
	VERBS_OPEN = 1, /* writer: may I write the ring? */
	VERBS_OPENED,   /* owner: yes, at address with rkey; or error */
	VERBS_CLOSE,    /* writer: no more writes */
	VERBS_CLOSED,   /* owner: no more credits */
};

struct verbs_message {
	uint32_t type;
	uint32_t link;    /* the sender's, for immediate data and answers */
	uint32_t to_link; /* the receiver's; not in OPEN */
	int32_t error;    /* OPENED: 0, or a negative errno value */
	uint64_t key;     /* OPEN: the region's capability */
	uint64_t address; /* OPEN: of the credit; OPENED: of the ring */
	uint64_t size;    /* OPEN: of the ring */
	uint32_t rkey;    /* for address */
	uint32_t ring;    /* OPEN: its number */
	uint32_t notify;  /* OPENED: enum verbs_notify */
	uint32_t reserved[3];
};
_Static_assert(sizeof(struct verbs_message) == 64, "verbs message");

/* Immediate data: a link of the receiver, and what has arrived for it. */
enum verbs_imm {
	VERBS_IMM_SEGMENT,
	VERBS_IMM_END,
	VERBS_IMM_CREDIT,
	VERBS_IMM_MARK, /* a segment that is a mark */
};
#define VERBS_IMM_BITS 2

/* data/message.c */

/* Take a free link; NETWORK_NO_LINK: no memory. Both locks are held. */
uint32_t dfi__verbs_link_take(struct verbs *verbs, struct verbs_conn *conn);

/* Returns the link with this number if it belongs to that connection. */
static inline struct verbs_link *verbs_link_at(
    struct verbs *verbs, uint32_t number, uint32_t qp_num)
{
	struct verbs_link *link;

	if (number >= verbs->n_links)
		return NULL;
	link = &verbs->links[number];
	if (!link->conn || link->conn->qp->qp_num != qp_num)
		return NULL;
	return link;
}

/* Free what a remote holds; both locks are held. */
void dfi__verbs_free_remote(struct verbs_remote *remote);

/* The poll lock is held, the table lock isn't. */
void dfi__verbs_message_arrived(
    struct verbs_conn *conn, const struct verbs_message *message);

#endif
