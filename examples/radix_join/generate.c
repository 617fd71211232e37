/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generator of synthetic relations. A permutation is an invertible mix of
 * the bits of n, repeated until the value is below n. Zipf ranks come from
 * rejection-inversion sampling (Hoermann and Derflinger, 1996), which needs no
 * table and holds for any exponent.
 */
#include "generate.h"

#include <math.h>
#include <string.h>

/* Where the streams of random numbers of one seed start. */
#define STREAM_MATCHING UINT64_C(0x3c6ef372fe94f82b)
#define STREAM_RANKS UINT64_C(0xa54ff53a5f1d36f1)
#define STREAM_KEYS UINT64_C(0x510e527fade682d1)
#define STREAM_INNER_PAYLOAD UINT64_C(0x9b05688c2b3e6c1f)
#define STREAM_OUTER_PAYLOAD UINT64_C(0x1f83d9abfb41bd6b)

static uint64_t mix(uint64_t x)
{
	return dfi_hash64(x + UINT64_C(0x9e3779b97f4a7c15));
}

static void permutation_init(
    struct permutation *permutation, uint64_t n, uint64_t seed)
{
	permutation->n = n;
	permutation->seed = seed;
	permutation->bits = 2;
	while (permutation->bits < 63 && n > UINT64_C(1) << permutation->bits)
		permutation->bits++;
}

static uint64_t permute(const struct permutation *permutation, uint64_t x)
{
	uint64_t mask = (UINT64_C(1) << permutation->bits) - 1;
	uint32_t half = permutation->bits / 2;
	uint64_t seed;
	int round;

	do {
		seed = permutation->seed;
		for (round = 0; round < 3; round++) {
			/* Adding, multiplying by an odd number and this
			   shift are invertible modulo 2^bits. */
			x = (x + seed) * (seed | 1) & mask;
			x ^= x >> half;
			seed = seed >> 21 | seed << 43;
		}
	} while (x >= permutation->n);
	return x;
}

/* A number below n from a random x, without division. */
static uint64_t scale(uint64_t x, uint64_t n)
{
	__extension__ unsigned __int128 product = x;

	return (uint64_t)((product * n) >> 64);
}

/* The integral of 1 / x^exponent, and its inverse. */
static double zipf_integral(double exponent, double x)
{
	double log_x = log(x);
	double t = (1 - exponent) * log_x;

	/* (e^t - 1) / t * log(x); the quotient tends to 1 for small t. */
	return (fabs(t) > 1e-8 ? expm1(t) / t : 1 + t / 2) * log_x;
}

static double zipf_inverse(double exponent, double x)
{
	double t = x * (1 - exponent);

	if (t < -1)
		t = -1;
	return exp((fabs(t) > 1e-8 ? log1p(t) / t : 1 - t / 2) * x);
}

static void zipf_init(struct zipf *zipf, double exponent, uint64_t n)
{
	double e = exponent;

	zipf->exponent = exponent;
	zipf->n = (double)n;
	zipf->integral_first = zipf_integral(e, 1.5) - 1;
	zipf->integral_last = zipf_integral(e, (double)n + 0.5);
	zipf->squeeze = 2 -
	    zipf_inverse(e, zipf_integral(e, 2.5) - exp(-e * log(2)));
}

/* A rank from 1 to n, from as many numbers after x as needed. */
static uint64_t zipf_rank(const struct zipf *zipf, uint64_t x)
{
	double e = zipf->exponent;
	double u, position, rank;

	for (;;) {
		x = mix(x);
		u = (double)(x >> 11) * 0x1p-53;
		u = zipf->integral_last +
		    u * (zipf->integral_first - zipf->integral_last);
		position = zipf_inverse(e, u);
		rank = floor(position + 0.5);
		if (rank < 1)
			rank = 1;
		else if (rank > zipf->n)
			rank = zipf->n;
		if (rank - position <= zipf->squeeze ||
		    u >= zipf_integral(e, rank + 0.5) - exp(-e * log(rank)))
			return (uint64_t)rank;
	}
}

void generator_init(struct generator *generator, uint64_t n_inner,
    uint64_t n_outer, double selectivity, double zipf, uint64_t seed)
{
	double matches = floor(selectivity * (double)n_outer + 0.5);

	memset(generator, 0, sizeof(*generator));
	generator->n_inner = n_inner;
	generator->n_outer = n_outer;
	if (n_inner > 0)
		generator->n_matches = matches < (double)n_outer
		    ? (uint64_t)matches
		    : n_outer;
	generator->seed = mix(seed);
	permutation_init(&generator->inner_keys, n_inner, mix(seed));
	permutation_init(&generator->ranks, n_inner, mix(seed + STREAM_RANKS));
	permutation_init(
	    &generator->matching, n_outer, mix(seed + STREAM_MATCHING));
	if (zipf > 0 && n_inner > 0)
		zipf_init(&generator->zipf, zipf, n_inner);
}

static uint64_t inner_payload(const struct generator *generator, uint64_t key)
{
	return mix(key ^ (generator->seed + STREAM_INNER_PAYLOAD));
}

static uint64_t outer_key(const struct generator *generator, uint64_t index)
{
	uint64_t n = generator->n_inner;
	uint64_t random = mix(index ^ (generator->seed + STREAM_KEYS));

	/* Exactly n_matches indexes permute to a number below it. */
	if (permute(&generator->matching, index) >= generator->n_matches)
		return n + scale(random, n ? n : generator->n_outer);
	if (generator->zipf.exponent <= 0)
		return scale(random, n);
	/* Permute, so that the frequent keys are not neighbours. */
	return permute(
	    &generator->ranks, zipf_rank(&generator->zipf, random) - 1);
}

void generate(const struct generator *generator, enum relation relation,
    uint64_t begin, uint64_t end, struct tuple *tuples)
{
	uint64_t i;

	for (i = begin; i < end; i++, tuples++) {
		if (relation == INNER) {
			tuples->key = permute(&generator->inner_keys, i);
			tuples->payload = inner_payload(generator, tuples->key);
		} else {
			tuples->key = outer_key(generator, i);
			tuples->payload = mix(
			    i ^ (generator->seed + STREAM_OUTER_PAYLOAD));
		}
	}
}

void generate_expect(const struct generator *generator,
    const struct tuple *outer, uint64_t n, struct result *expected)
{
	uint64_t i;

	for (i = 0; i < n; i++) {
		if (outer[i].key >= generator->n_inner)
			continue;
		expected->matches++;
		expected->checksum += inner_payload(generator, outer[i].key) *
		    outer[i].payload;
	}
}
