/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that name rows, in tables and in drawings. */
#ifndef DFI_BENCH_LABELS_H
#define DFI_BENCH_LABELS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A number of a member as people write it: bytes as 64K, or with their unit as
 * 64 KiB.
 */
void label_number(
    const char *member, json_int_t number, bool unit, char *text, size_t size);

/*
 * The text of some of a row's members, with blanks between them, and of its
 * modelled link, if it has one.
 */
void label_row(const json_t *row, const char *members, char *text, size_t size);

/* "100 MiB/s, 20 us": a row's modelled link; "" if it has none. */
void label_link(const json_t *row, char *text, size_t size);

/*
 * Set the member "label" of all rows of an experiment: what tells each one from
 * the others.
 */
void labels_set(json_t *rows);

#endif
