/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distributions of keys; see load_keys.h. The names of variables in load_zipf
 * are those of Gray et al., "Quickly generating billion-record synthetic
 * databases", and of YCSB's ZipfianGenerator.
 */
#include "load_keys.h"

#include <math.h>
#include <string.h>

/* YCSB's ScrambledZipfianGenerator draws from as many ranks. */
#define SCRAMBLED_RANKS UINT64_C(10000000000)

/*
 * load_zeta() adds this many terms one by one, and the others by their
 * integral.
 */
#define ZETA_TERMS 1000

uint64_t load_random_next(struct load_random *random)
{
	uint64_t x = random->state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

double load_random_real(struct load_random *random)
{
	return (double)(load_random_next(random) >> 11) * 0x1p-53;
}

double load_zeta(uint64_t n, double theta)
{
	uint64_t first = n < ZETA_TERMS ? n : ZETA_TERMS, i;
	double sum = 0, a, b;

	for (i = first; i >= 1; i--)
		sum += pow((double)i, -theta);
	if (first == n)
		return sum;
	/* Euler-Maclaurin for the terms from first + 1 to n. */
	a = (double)first;
	b = (double)n;
	sum += (pow(b, 1 - theta) - pow(a, 1 - theta)) / (1 - theta);
	sum += (pow(b, -theta) - pow(a, -theta)) / 2;
	sum += theta * (pow(a, -theta - 1) - pow(b, -theta - 1)) / 12;
	return sum;
}

void load_zipf_init(struct load_zipf *zipf, uint64_t n, double theta)
{
	double zeta = load_zeta(n, theta);

	*zipf = (struct load_zipf){
		.n = n,
		.theta = theta,
		.zeta = zeta,
		.alpha = 1 / (1 - theta),
		.eta = (1 - pow(2.0 / (double)n, 1 - theta)) /
		    (1 - load_zeta(2, theta) / zeta),
		.second = 1 + pow(0.5, theta),
	};
}

uint64_t load_zipf_next(
    const struct load_zipf *zipf, struct load_random *random)
{
	double u = load_random_real(random), uz = u * zipf->zeta;
	uint64_t rank;

	if (uz < 1)
		return 0;
	if (uz < zipf->second)
		return 1;
	rank = (uint64_t)((double)zipf->n *
	    pow(zipf->eta * u - zipf->eta + 1, zipf->alpha));
	return rank < zipf->n ? rank : zipf->n - 1;
}

/* YCSB's Utils.fnvhash64(). */
static uint64_t scramble(uint64_t rank)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	int i;

	for (i = 0; i < 8; i++, rank >>= 8)
		hash = (hash ^ (rank & 0xff)) * UINT64_C(1099511628211);
	return hash >> 63 ? -hash : hash;
}

void load_keys_init(struct load_keys *keys, enum load_distribution distribution,
    uint64_t n, double theta, uint64_t seed)
{
	*keys = (struct load_keys){
		.distribution = distribution,
		.n = n,
		.random = { .state = seed },
	};
	if (distribution == LOAD_ZIPF)
		load_zipf_init(&keys->zipf, SCRAMBLED_RANKS, theta);
}

uint64_t load_keys_next(struct load_keys *keys)
{
	if (keys->distribution == LOAD_ZIPF)
		return scramble(load_zipf_next(&keys->zipf, &keys->random)) %
		    keys->n;
	return (uint64_t)(load_random_real(&keys->random) * (double)keys->n);
}

void load_key_text(char to[LOAD_KEY_SIZE], uint64_t record)
{
	int i;

	memcpy(to, "user", 4);
	for (i = LOAD_KEY_SIZE - 1; i >= 4; i--, record /= 10)
		to[i] = (char)('0' + record % 10);
}
