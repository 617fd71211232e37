/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the table of experiments; only experiments*.c use it. */
#ifndef DFI_BENCH_EXPERIMENTS_IMPL_H
#define DFI_BENCH_EXPERIMENTS_IMPL_H

#include "experiments.h"

#define BANDWIDTH_BY_SIZE(names)                                              \
	{                                                                     \
		.x = "tuple_size", .x_title = "tuple size [B]", .y = "value", \
		.y_title = "payload [GB/s]", .lines = names                   \
	}

/* How many times a peer's bandwidth a flow has, by tuple size. */
#define BESIDE_PEERS                                                          \
	{                                                                     \
		.x = "tuple_size", .x_title = "tuple size [B]", .y = "ratio", \
		.y_title = "times that of the peer", .lines = "baseline",     \
		.rows = "experiment=peers", .log_y = true                     \
	}

extern const struct experiment paper_experiments[];
extern const uint32_t n_paper_experiments;
extern const struct experiment case_experiments[];
extern const uint32_t n_case_experiments;
extern const struct experiment load_experiments[];
extern const uint32_t n_load_experiments;
extern const struct experiment limits_experiments[];
extern const uint32_t n_limits_experiments;
extern const struct experiment own_experiments[];
extern const uint32_t n_own_experiments;

#endif
