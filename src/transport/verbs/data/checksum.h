/* SPDX-License-Identifier: Apache-2.0 */
/* Footers that say whether their segment is whole: data/checksum.c. */
#ifndef DFI_TRANSPORT_VERBS_DATA_CHECKSUM_H
#define DFI_TRANSPORT_VERBS_DATA_CHECKSUM_H

#include <stdbool.h>
#include <stdint.h>
#include "ring.h"

/* Of a segment with that payload, make its footer the one that travels. */
void dfi__verbs_seal(const void *payload, uint64_t bytes, uint64_t footer[2]);

/* The low half of footer[1] on its way, of the segment of that number: all top
 * bits are set, the others inverted. */
static inline uint32_t verbs_sealed_number(uint32_t number)
{
	return ~number | UINT32_C(0x80808080);
}

/*
 * Whether the link's next segment is there, whose footer[1] on its way was
 * observed to be this; how many bytes its payload has, and the flags of its
 * footer[1].
 */
bool dfi__verbs_is_whole(const struct verbs_link *link, uint64_t sealed,
    uint64_t *bytes, uint64_t *flags);

/*
 * Make the slots of a ring ready for such footers that nobody has written; and
 * later so many more, which were given back, from the one behind those that
 * are.
 */
void dfi__verbs_blank_new(struct verbs_link *link);
void dfi__verbs_blank(struct verbs_link *link, uint64_t n);

/* Whether somebody has written a ring, through memory or else. */
bool dfi__verbs_is_written(const struct verbs_export *export, uint32_t ring);

/* Links whose rings have such footers: -ENOMEM. Both locks are held. */
int dfi__verbs_poll_ring(struct verbs *verbs, uint32_t link);
void dfi__verbs_unpoll_ring(struct verbs *verbs, const struct verbs_link *link);

#endif
