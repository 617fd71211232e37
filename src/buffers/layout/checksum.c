/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3, compiled in. It reads memory about as fast as memory delivers. */
#include "checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Odd factors: different values give different seeds. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)
#define SPREAD_TARGETS UINT64_C(0xd6e8feb86659fd93)
#define SPREAD_MARK UINT64_C(0xa0761d6478bd642f)
#define SPREAD_RECORDS UINT64_C(0xe7037ed1a0b428db)
#define SPREAD_TABLE UINT64_C(0x8ebc6af09c88c6e3)
#define SPREAD_INPUT UINT64_C(0x589965cc75374cc3)
#define SPREAD_SETTLED UINT64_C(0x1d8e4e27c47d124f)

uint64_t dfi__segment_checksum(
    const struct ring_geometry *geometry, const char *payload, uint64_t state)
{
	uint64_t seed = state;

	if (geometry->parts & SEGMENT_GLOBAL)
		seed += SPREAD * segment_header(geometry, payload)->global;
	if (geometry->parts & SEGMENT_TARGETS)
		seed += SPREAD_TARGETS *
		    segment_header(geometry, payload)->targets;
	if (geometry->parts & SEGMENT_MARK ||
	    (geometry->parts & SEGMENT_GLOBAL && footer_is_mark(state)))
		seed += SPREAD_MARK * segment_header(geometry, payload)->mark;
	if (geometry->parts & SEGMENT_TABLES)
		seed += SPREAD_TABLE * segment_header(geometry, payload)->table;
	if (geometry->parts & SEGMENT_INPUTS)
		seed += SPREAD_INPUT *
			segment_header(geometry, payload)->input +
		    SPREAD_SETTLED * segment_header(geometry, payload)->settled;
	if (geometry->parts & (SEGMENT_RECORDS | SEGMENT_INPUTS))
		seed += SPREAD_RECORDS *
		    segment_header(geometry, payload)->records;
	return XXH3_64bits_withSeed(payload, footer_payload(state), seed);
}
