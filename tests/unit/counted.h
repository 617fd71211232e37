/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of a replica writer whose tuples count, for the tests of its rings.
 */
#ifndef DFI_TESTS_COUNTED_H
#define DFI_TESTS_COUNTED_H

#include <criterion/criterion.h>
#include <string.h>

#include <dfi/error.h>

#include "buffers/reader.h"
#include "buffers/replica_writer.h"

enum {
	TUPLE = 8,
	SEGMENT_TUPLES = 5,
};

/* Numbers of the first segments. */
static const uint64_t starts[] = { 0, UINT32_MAX - 1, UINT64_MAX - 1 };

static inline uint32_t counted_tuples(uint64_t n)
{
	return n % 3 ? SEGMENT_TUPLES : 1 + (uint32_t)n % SEGMENT_TUPLES;
}

/* Send segment n: 1, or 0 without room. */
static inline int counted_send(
    struct replica_writer *replica_writer, uint64_t n, uint64_t *tuple)
{
	int ret = dfi__replica_open(replica_writer);
	uint32_t i;

	cr_assert_geq(ret, 0, "%s", dfi_errmsg());
	if (!ret)
		return 0;
	for (i = 0; i < counted_tuples(n); i++, ++*tuple)
		memcpy(replica_writer->lane.segment + (size_t)i * TUPLE, tuple,
		    TUPLE);
	cr_assert_eq(
	    dfi__replica_publish(replica_writer, (uint64_t)i * TUPLE), 0);
	return 1;
}

/* Take and give back one segment, which is ready. */
static inline void counted_take(
    struct reader *reader, uint32_t ring, uint64_t *taken)
{
	const char *payload;
	uint64_t bytes, at, tuple;

	cr_assert_eq(
	    reader_take(reader, &payload, &bytes), 0, "%s", dfi_errmsg());
	for (at = 0; at < bytes; at += TUPLE) {
		memcpy(&tuple, payload + at, TUPLE);
		cr_assert_eq(tuple, (*taken)++, "ring %u", ring);
	}
	cr_assert_eq(reader_release(reader), 0);
}

#endif
