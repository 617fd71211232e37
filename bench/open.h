/* SPDX-License-Identifier: Apache-2.0 */
/* What `dfi-bench open` measures. */
#ifndef DFI_BENCH_OPEN_H
#define DFI_BENCH_OPEN_H

#include "options.h"

enum open_measure {
	OPEN_PUSH = 0,  /* tuples one by one, to whoever has room */
	OPEN_KEYED,     /* tuples one by one, by key to two targets */
	OPEN_BATCH,     /* batches of tuples */
	OPEN_CLAIM,     /* tuples built in segments, and consumed in batches */
	OPEN_REPLICATE, /* the same to two targets, naive */
	OPEN_TRIPS,     /* round trips */
	N_OPEN_MEASURES,
};

/* NULL: no such value. */
const char *open_measure_name(uint32_t measure);

struct open_options {
	struct common_options common;
	uint32_t measures[N_OPEN_MEASURES]; /* enum open_measure */
	uint32_t n_measures;
	uint64_t iterations;
};

void open_options_parse(int argc, char **argv, struct open_options *options);

#endif
