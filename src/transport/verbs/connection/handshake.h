/* SPDX-License-Identifier: Apache-2.0 */
/* What two processes tell each other while they connect: handshake.c. */
#ifndef DFI_TRANSPORT_VERBS_CONNECTION_HANDSHAKE_H
#define DFI_TRANSPORT_VERBS_CONNECTION_HANDSHAKE_H

#include <rdma/rdma_cma.h>
#include <stdint.h>
#include "transport/handshake.h"
#include "transport/verbs/verbs.h"

/* What two processes agree on before they have a queue pair. */
#define VERBS_HANDSHAKE_MAGIC UINT32_C(0x56494644) /* "DFIV" */
#define VERBS_HANDSHAKE_VERSION 5

/* rdma_cm has room for 56 bytes of the connecting side. */
_Static_assert(sizeof(struct handshake) <= 56, "private data");

/* Our half of the handshake, once the id has its addresses. -EIO. */
int dfi__verbs_send_handshake(const struct verbs *verbs, struct rdma_cm_id *id,
    struct handshake *handshake);

/* The answer to the peer that sent this nonce. -EIO. */
int dfi__verbs_answer(const struct verbs *verbs, struct rdma_cm_id *id,
    uint64_t nonce, struct handshake *handshake);

struct handshake dfi__verbs_refusal(
    const struct verbs *verbs, uint16_t refusal);

/*
 * Check the handshake of a peer that connects: 0, and what it has proved; or a
 * positive errno value to refuse with.
 */
uint16_t dfi__verbs_check_handshake(const struct verbs *verbs,
    struct rdma_cm_id *id, const struct rdma_conn_param *param,
    struct handshake *proved);

/*
 * Check that the accepting process is a member: another process may have taken
 * the port of a member that died.
 */
int dfi__verbs_accepted(const struct verbs *verbs,
    const struct rdma_cm_event *event, uint64_t nonce, const char *peer);

/* The error that a rejection by peer means. */
int dfi__verbs_refused(const struct verbs *verbs,
    const struct rdma_cm_event *event, const char *peer);

#endif
