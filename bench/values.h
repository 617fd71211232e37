/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values on the command line: sizes, numbers, lists and names. The parse
 * functions that take an argp state end the process with a text that names the
 * option; the others return false.
 */
#ifndef DFI_BENCH_VALUES_H
#define DFI_BENCH_VALUES_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include "raw.h"

/* "64K" is 65536: digits and one of K, M, G. */
bool parse_size(const char *text, uint64_t *size);

/* "8,64,8K" */
bool parse_size_list(
    const char *text, uint64_t *sizes, uint32_t max, uint32_t *n);

/* "0,2-3" */
bool parse_cpu_list(const char *text, int32_t *cpus, uint32_t max, uint32_t *n);

/* "8Kx32" */
bool parse_geometry(const char *text, struct raw_geometry *geometry);

/* A whole number from min to max. */
int64_t parse_number(const struct argp_state *state, const char *option,
    const char *text, int64_t min, int64_t max);

/* The number below n whose name this is; name() returns NULL for gaps. */
uint32_t parse_name(const struct argp_state *state, const char *option,
    const char *text, const char *(*name)(uint32_t), uint32_t n);

/* A list of such names, at most max of them, which is how many there are. */
void parse_names(const struct argp_state *state, const char *option,
    const char *text, const char *(*name)(uint32_t), uint32_t *values,
    uint32_t max, uint32_t *n);

/* Where a list of numbers goes, and from which to which they are. */
struct count_list {
	uint64_t *values, least, most;
	uint32_t max;
};
void parse_counts(const struct argp_state *state, const char *option,
    const char *text, const struct count_list *list, uint32_t *n);

/* Names of enum api, enum dfi_wait and enum dfi_routing; NULL: not here. */
const char *api_name(uint32_t api);
const char *wait_name(uint32_t wait);
const char *routing_name(uint32_t routing);

/* The same of enum how. */
const char *how_name(uint32_t how);

/* The same of enum replicate_mode. */
const char *mode_name(uint32_t mode);

/* The same of enum dfi_source_combining; on is adaptive. */
const char *combining_name(uint32_t combining);

/* The same of enum dfi_transport, enum bench_role, and enum notify, which is
 * "mixed" where several are together. */
const char *transport_name(uint32_t transport);
const char *role_name(uint32_t role);
const char *notify_name(uint32_t notify);

#endif
