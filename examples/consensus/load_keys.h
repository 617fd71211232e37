/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a request: uniform, or YCSB's scrambled Zipfian distribution.
 * The same seed gives the same series. Nothing here allocates.
 */
#ifndef KV_LOAD_KEYS_H
#define KV_LOAD_KEYS_H

#include <stddef.h>
#include <stdint.h>

/* Random numbers (SplitMix64): any start is a good one. */
struct load_random {
	uint64_t state;
};

uint64_t load_random_next(struct load_random *random);

/* In [0, 1). */
double load_random_real(struct load_random *random);

/*
 * Ranks from 0, the i-th with a probability proportional to 1 / (i + 1)^theta,
 * by the method of Gray et al. (SIGMOD 1994) that YCSB uses. It is exact for
 * ranks 0 and 1, and approximate for the others.
 */
struct load_zipf {
	uint64_t n;
	double theta, zeta, alpha, eta, second;
};

/* theta from 0 to below 1. n at least 2. */
void load_zipf_init(struct load_zipf *zipf, uint64_t n, double theta);
uint64_t load_zipf_next(
    const struct load_zipf *zipf, struct load_random *random);

/* The sum of 1 / i^theta for i from 1 to n, to about 12 digits. */
double load_zeta(uint64_t n, double theta);

enum load_distribution {
	LOAD_UNIFORM,
	LOAD_ZIPF,
};

struct load_keys {
	enum load_distribution distribution;
	uint64_t n;
	struct load_zipf zipf;
	struct load_random random;
};

/*
 * Draw from the records 0 to n - 1. LOAD_ZIPF hashes a rank of 10^10 onto the
 * records, as YCSB does: popular records are spread among the others, and the
 * popularity of the first does not depend on n.
 */
void load_keys_init(struct load_keys *keys, enum load_distribution distribution,
    uint64_t n, double theta, uint64_t seed);
uint64_t load_keys_next(struct load_keys *keys);

#define LOAD_KEY_SIZE 16
#define LOAD_MAX_RECORDS UINT64_C(1000000000000)

/* "user" and 12 digits, without an end mark. record < LOAD_MAX_RECORDS. */
void load_key_text(char to[LOAD_KEY_SIZE], uint64_t record);

#endif
