/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values on the command line: sizes, numbers, lists and names. The parse
 * functions with an argp state end the process on an error, with a text that
 * names the option. The others return false.
 */
#ifndef DFI_BENCH_VALUES_H
#define DFI_BENCH_VALUES_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include "raw.h"

/* "64K" is 65536: digits and one of K, M, G. */
bool parse_size(const char *text, uint64_t *size);

/* "5s", "200ms", "2m"; a number alone is of seconds. */
bool parse_duration(const char *text, double *seconds);

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

/* The number below n that has this name; name() returns NULL for gaps. */
uint32_t parse_name(const struct argp_state *state, const char *option,
    const char *text, const char *(*name)(uint32_t), uint32_t n);

/* A list of such names, at most max. *n is their number. */
void parse_names(const struct argp_state *state, const char *option,
    const char *text, const char *(*name)(uint32_t), uint32_t *values,
    uint32_t max, uint32_t *n);

/* The destination of a list of numbers, and their limits. */
struct count_list {
	uint64_t *values, least, most;
	uint32_t max;
};
void parse_counts(const struct argp_state *state, const char *option,
    const char *text, const struct count_list *list, uint32_t *n);

/*
 * Names of enum api, enum dfi_wait and enum dfi_routing; NULL: no such value.
 */
const char *api_name(uint32_t api);
const char *wait_name(uint32_t wait);
const char *routing_name(uint32_t routing);

/* Names of enum how. */
const char *how_name(uint32_t how);

/* Names of enum replicate_mode. */
const char *mode_name(uint32_t mode);

/* Names of enum measure and enum rival_kind. */
const char *measure_name(uint32_t measure);
const char *rival_name(uint32_t rival);

/* The same for what `peers` and `tcp` have of them; NULL: not that. */
const char *peer_name(uint32_t rival);
const char *tcp_measure_name(uint32_t measure);
const char *peers_measure_name(uint32_t measure);

/* Names of enum dfi_source_combining; "on" is adaptive. */
const char *combining_name(uint32_t combining);

/*
 * Names of enum dfi_transport, enum bench_role, and enum notify, which is
 * "mixed" if several bits are set.
 */
const char *transport_name(uint32_t transport);
const char *role_name(uint32_t role);
const char *notify_name(uint32_t notify);

#endif
