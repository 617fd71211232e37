/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Footers with checksums (docs/decisions/0027-footers-with-checksums.md). A
 * device may write the bytes of a segment in any order until it reports the
 * write's completion, and waiting for that costs more than reading a small
 * segment. So another footer travels with the segment: a checksum of its
 * payload, and its number and size. The thread that takes arrivals checks such
 * footers, and publishes those whose segment is whole.
 *
 * The real footer may replace the sealed one only after the device has written
 * each of its bytes. So each sealed byte has its top bit set (footer.h), and
 * the bytes of slots that wait for a segment have not. The other bits of the
 * number's bytes are inverted: whichever bytes have arrived, the reader doesn't
 * see the number that it waits for.
 *
 * The idea of objects that tell whether they are read whole is that of Pilaf
 * (Mitchell, Geng, Li: Using One-Sided RDMA Reads to Build a Fast,
 * CPU-Efficient Key-Value Store, USENIX ATC 2013).
 */

/* XXH3, compiled in. It comes first: our names for attributes break it. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include "base/bits.h"
#include "checksum.h"

/* footer[1] of a slot before its first segment: of the lap before. */
static uint64_t unwritten(const struct ring_layout *layout, uint32_t slot)
{
	return (uint32_t)layout->first_footer[1] + 1 - layout->n_slots + slot;
}

void dfi__verbs_seal(
    const void *payload, uint64_t bytes, uint64_t state, uint64_t footer[2])
{
	footer[1] = footer_sealed(footer_seq(state), sent_bytes(bytes, state));
	footer[0] = XXH3_64bits(payload, bytes) | FOOTER_SEALED_BITS;
}

bool dfi__verbs_is_whole(const struct verbs_link *link, uint64_t sealed,
    uint64_t *bytes, uint64_t *flags)
{
	uint64_t room = (uint64_t)link->export->layout.shape.footer_offset;
	uint64_t size, at;
	uint64_t sum = atomic_peek(&link->next_footer[0]);

	if ((sealed & sum & FOOTER_SEALED_BITS) != FOOTER_SEALED_BITS)
		return false;
	*bytes = footer_sealed_used(sealed);
	*flags = 0;
	size = *bytes & ~SENT_MARK;
	/* More than the slot has room for: its reader reports that. */
	if (unlikely(size > room))
		return true;
	at = verbs_payload_at(room, size);
	if (unlikely(at))
		*flags = FOOTER_FLAG_SHIFTED;
	return (XXH3_64bits((const char *)link->next_footer - room + at, size) |
		   FOOTER_SEALED_BITS) == sum;
}

/*
 * A source in shared memory may begin to write the ring now, because the
 * registry will refuse the peer: segments that it has published must stay.
 */
void dfi__verbs_blank_new(struct verbs_link *link)
{
	const struct ring_layout *layout = &link->export->layout;
	_Atomic uint64_t *footer = verbs_footer_at(link, 0);
	uint32_t slot = 0, i;
	uint64_t was;

	for (i = 0; i < layout->n_slots; i++) {
		was = unwritten(layout, i);
		atomic_compare_exchange_strong(
		    &footer[1], &was, was & ~FOOTER_SEALED_BITS);
		footer = verbs_footer_behind(link, footer, &slot);
	}
}

void dfi__verbs_blank(struct verbs_link *link, uint64_t n)
{
	_Atomic uint64_t *footer = verbs_footer_at(link, link->blank_slot);

	for (n = min_u64(n, link->export->layout.n_slots); n; n--) {
		atomic_set(
		    &footer[0], atomic_peek(&footer[0]) & ~FOOTER_SEALED_BITS);
		atomic_set(
		    &footer[1], atomic_peek(&footer[1]) & ~FOOTER_SEALED_BITS);
		footer = verbs_footer_behind(link, footer, &link->blank_slot);
	}
}

bool dfi__verbs_is_written(const struct verbs_export *export, uint32_t ring)
{
	const struct ring_layout *layout = &export->layout;
	const struct ring_credit *credit = (const void *)verbs_ring_base(
	    export, ring);
	uint64_t first = verbs_footer_state(
	    export, ring, layout_footer(layout, 0));
	uint64_t was = unwritten(layout, 0);

	return (first != was && first != (was & ~FOOTER_SEALED_BITS)) ||
	    verbs_footer_state(export, ring, layout->end_footer) ||
	    (uint32_t)atomic_peek(&credit->consumed) !=
	    (uint32_t)layout->first_footer[1] + 1;
}

int dfi__verbs_poll_ring(struct verbs *verbs, uint32_t link)
{
	uint32_t *polled = realloc(
	    verbs->polled, (verbs->n_polled + 1) * sizeof(polled[0]));

	if (!polled)
		return -ENOMEM;
	verbs->polled = polled;
	polled[verbs->n_polled++] = link;
	return 0;
}

void dfi__verbs_unpoll_ring(struct verbs *verbs, const struct verbs_link *link)
{
	uint32_t i;

	for (i = 0; i < verbs->n_polled; i++)
		if (&verbs->links[verbs->polled[i]] == link)
			break;
	if (i < verbs->n_polled)
		verbs->polled[i] = verbs->polled[--verbs->n_polled];
}
