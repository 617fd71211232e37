/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of dfi-info share. */
#ifndef DFI_TOOLS_INFO_H
#define DFI_TOOLS_INFO_H

#include <dfi/dfi.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The result of a row's function without memory for its JSON. */
#define NO_JSON 1
/* The result of a list that is printed but has an invalid entry. */
#define NOT_VALID 2

/* Room for another process's text with its control bytes escaped. */
#define INFO_TEXT_SIZE 4096

/*
 * Convert a text of another process. Other versions of the library may have
 * published bytes that are not UTF-8, which JSON can't hold.
 */
json_t *info_text_json(const char *text);
/* The same, or null. */
json_t *info_optional_json(const char *text);

/* Append row and take it; row may be NULL. Returns 0 or NO_JSON. */
int info_append(json_t *rows, json_t *row);

/* The members of an open flow, or null. */
json_t *info_members_json(struct dfi *dfi, const struct dfi_flow_info *flow);
/* A line for each. Returns what dfi_member_list() does. */
int info_print_members(struct dfi *dfi, const struct dfi_flow_info *flow);

/*
 * "stat": list counters of all contexts except the given one; rows NULL: as
 * text. Returns what dfi_stats_list() does, or NO_JSON. seconds: since the
 * previous list, for rates; 0: there is none.
 */
int info_list_stats(struct dfi *dfi, json_t *rows, double seconds);

/*
 * "top": show flows with rates every so many seconds, until the user quits.
 * Returns the exit status.
 */
int info_top(struct dfi *dfi, const char *registry, double seconds);

/* Whether top can show anything here; if not, it complains. */
bool info_top_has_screen(void);

/* ---- Samples, for rates ------------------------------------------------- */

/* The counters of an endpoint in one list. */
struct info_sample {
	uint64_t node, instance;
	uint32_t role, index, peer;
	uint64_t tuples, bytes, stall_ns;
};

static inline bool info_sends(uint32_t role)
{
	return role == DFI_ROLE_SOURCE || role == DFI_ROLE_COMBINER_OUTPUT;
}

struct info_sample info_sample(
    uint64_t node, const struct dfi_endpoint_stats *stats);

/* A list begins: those that were kept are of the one before. */
void info_samples_next(void);

/* The same endpoint in the list before, or NULL. */
const struct info_sample *info_sample_before(const struct info_sample *sample);

/* Without memory, the next list has no rates. */
void info_sample_keep(const struct info_sample *sample);

#endif
