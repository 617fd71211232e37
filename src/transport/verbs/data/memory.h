/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is registered, for a device to send from and to write to. */
#ifndef DFI_TRANSPORT_VERBS_DATA_MEMORY_H
#define DFI_TRANSPORT_VERBS_DATA_MEMORY_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include "transport/verbs/verbs.h"

struct reservation;
struct verbs_remote;

/* Memory of this process to send from, registered. */
struct verbs_memory {
	void *at;
	uint64_t size;
	struct ibv_mr *mr;
};

/* Whether this many more bytes may be locked: 0, or -ENOMEM. */
int dfi__verbs_lock_room(const struct verbs *verbs, uint64_t size);

/*
 * Whether size bytes more can be had for devices, and so many of this process
 * be locked: 0, or -ENOMEM with need, limit and remedy. huge_pages: of such as
 * in the settings.
 */
int dfi__verbs_room(const struct verbs *verbs, uint64_t size, uint64_t locked,
    uint32_t huge_pages);

/*
 * The same of ordinary pages, which the caller is to fill before it ends the
 * reservation (base/reservation.h).
 */
int dfi__verbs_reserve(const struct verbs *verbs, uint64_t size,
    uint64_t locked, struct reservation *reservation);

/* Reserve and register memory, with pages as the settings say. */
int dfi__verbs_memory_create(const struct verbs *verbs, uint64_t size,
    unsigned access, struct verbs_memory *memory);
void dfi__verbs_memory_free(const struct verbs_memory *memory);

/* data/send_buffer.c: the transport's operations, and: */

int dfi__verbs_stage_create(
    struct transport *transport, uint64_t size, struct stage **stage);
void dfi__verbs_stage_free(struct stage *stage);

/* Make the image of a remote's ring, and use its stage, if it has one. */
int dfi__verbs_create_shadow(struct verbs *verbs, struct verbs_remote *remote);
/* No queue pair may send from these any more. */
void dfi__verbs_free_shadow(struct verbs_remote *remote);

#endif
