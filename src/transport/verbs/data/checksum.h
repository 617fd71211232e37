/* SPDX-License-Identifier: Apache-2.0 */
/* Footers that tell whether their segment is whole: data/checksum.c. */
#ifndef DFI_TRANSPORT_VERBS_DATA_CHECKSUM_H
#define DFI_TRANSPORT_VERBS_DATA_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>
#include "ring.h"

/*
 * Seal the footer of a segment with that payload. state: its second word,
 * which tells whether it is a mark.
 */
void dfi__verbs_seal(
    const void *payload, uint64_t bytes, uint64_t state, uint64_t footer[2]);

/*
 * Tells whether the link's next segment is whole, given its sealed
 * footer[1] as observed; sets the size of its payload, as sent_bytes() does,
 * and the flags of its footer[1].
 */
bool dfi__verbs_is_whole(const struct verbs_link *link, uint64_t sealed,
    uint64_t *bytes, uint64_t *flags);

/*
 * Prepare a ring for footers with checksums: blank_new() all slots, before
 * anybody writes, and blank() the next n slots that were given back.
 */
void dfi__verbs_blank_new(struct verbs_link *link);
void dfi__verbs_blank(struct verbs_link *link, uint64_t n);

/* Tells whether a ring was written, through memory or a device. */
bool dfi__verbs_is_written(const struct verbs_export *export, uint32_t ring);

/* Add a link with such footers: -ENOMEM. Both locks are held. */
int dfi__verbs_poll_ring(struct verbs *verbs, uint32_t link);
void dfi__verbs_unpoll_ring(struct verbs *verbs, const struct verbs_link *link);

#endif
