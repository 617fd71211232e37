/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of loads on the replicated store, as dfi-kv-run --json prints them. */
#ifndef DFI_BENCH_STORE_ROWS_H
#define DFI_BENCH_STORE_ROWS_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Add a row for each load to rows, with the medians of all runs, each an array
 * of the same loads. false after a complaint: they differ, or lack members.
 */
bool store_rows(const char *series, json_t *runs, json_t *rows);

#endif
