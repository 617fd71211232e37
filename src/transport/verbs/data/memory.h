/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is registered, for a device to send from and to write to. */
#ifndef DFI_TRANSPORT_VERBS_DATA_MEMORY_H
#define DFI_TRANSPORT_VERBS_DATA_MEMORY_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include "transport/send_memory.h"
#include "transport/verbs/verbs.h"

struct reservation;
struct verbs_remote;

/* Registered memory of this process to send from. */
struct verbs_memory {
	struct send_memory base;
	struct ibv_mr *mr;
};

/* Check that this many more bytes may be locked: 0, or -ENOMEM. */
int dfi__verbs_lock_room(const struct verbs *verbs, uint64_t size);

/*
 * Check that devices can have size more bytes, and that this process may lock
 * locked more bytes: 0, or -ENOMEM with need, limit and remedy. huge_pages: as
 * in the settings.
 */
int dfi__verbs_room(const struct verbs *verbs, uint64_t size, uint64_t locked,
    uint32_t huge_pages);

/*
 * The same for ordinary pages, which the caller fills before it ends the
 * reservation (base/reservation.h).
 */
int dfi__verbs_reserve(const struct verbs *verbs, uint64_t size,
    uint64_t locked, struct reservation *reservation);

/* Reserve and register memory, with pages as the settings say. */
int dfi__verbs_memory_create(const struct verbs *verbs, uint64_t size,
    unsigned access, struct verbs_memory *memory);
void dfi__verbs_memory_free(const struct verbs_memory *memory);

/* data/send_buffer.c: the transport's operations, and: */

int dfi__verbs_send_buffer_create(struct transport *transport, uint64_t size,
    struct send_buffer **send_buffer);
void dfi__verbs_send_buffer_free(struct send_buffer *send_buffer);

/* Make the shadow ring of a remote's ring, and use its send buffer, if any. */
int dfi__verbs_create_shadow(struct verbs *verbs, struct verbs_remote *remote);
/* Call once no queue pair sends from these any more. */
void dfi__verbs_free_shadow(struct verbs_remote *remote);

#endif
