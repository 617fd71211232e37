/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of dfi-info share. */
#ifndef DFI_TOOLS_INFO_H
#define DFI_TOOLS_INFO_H

#include <dfi/dfi.h>
#include <jansson.h>

/* What a row's function returns if there is no memory for its JSON. */
#define NO_JSON 1
/* What a list returns that is printed, but has something wrong in it. */
#define NOT_VALID 2

/* Room for a text of another process with its control bytes escaped. */
#define INFO_TEXT_SIZE 4096

/*
 * A text that came from another process. Other versions of the library may have
 * published what is not UTF-8, which JSON can't hold.
 */
json_t *info_text_json(const char *text);
/* The same, or null. */
json_t *info_optional_json(const char *text);

/* Takes row, which may be NULL: 0 or NO_JSON. */
int info_append(json_t *rows, json_t *row);

/*
 * "stat": counters of all contexts but the one that is given; rows NULL: as
 * text. What dfi_stats_list() returns, or NO_JSON. seconds: since the same was
 * printed last, for rates; 0: never.
 */
int info_list_stats(struct dfi *dfi, json_t *rows, double seconds);

#endif
