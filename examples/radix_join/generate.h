/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic relations. Each tuple is a function of the seed and its index, so
 * every worker makes its own slice.
 *
 * The keys of the inner relation are a permutation of 0 to n - 1. A share of
 * the outer tuples (the selectivity) has one of those keys, uniformly or by
 * Zipf's law; the others have keys that don't occur.
 */
#ifndef RADIX_JOIN_GENERATE_H
#define RADIX_JOIN_GENERATE_H

#include <stdint.h>
#include "relation.h"

/* Numbers 0 to n - 1 in another order. */
struct permutation {
	uint64_t n;
	uint64_t seed;
	uint32_t bits;
};

/* Zipf's law over ranks 1 to n: rank k as likely as 1 / k^exponent. */
struct zipf {
	double exponent;
	double n;
	double integral_first, integral_last;
	double squeeze;
};

struct generator {
	uint64_t n_inner, n_outer;
	uint64_t n_matches; /* outer tuples with a key of the inner relation */
	uint64_t seed;
	struct permutation inner_keys, ranks, matching;
	struct zipf zipf;
};

/* selectivity is 0 to 1; zipf 0 means uniform. */
void generator_init(struct generator *generator, uint64_t n_inner,
    uint64_t n_outer, double selectivity, double zipf, uint64_t seed);

/* Make the tuples begin to end - 1 of a relation. */
void generate(const struct generator *generator, enum relation relation,
    uint64_t begin, uint64_t end, struct tuple *tuples);

/*
 * The result of joining the whole inner relation with these outer tuples, by
 * the law of generation: every inner key occurs once, and its payload is a
 * function of the key. It uses no partition, table or flow.
 */
void generate_expect(const struct generator *generator,
    const struct tuple *outer, uint64_t n, struct result *expected);

#endif
