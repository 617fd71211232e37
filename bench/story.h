/* SPDX-License-Identifier: Apache-2.0 */
/* What a report says of the results of a folder, in a page of either form. */
#ifndef DFI_BENCH_STORY_H
#define DFI_BENCH_STORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "experiments.h"
#include "page.h"

#define MAX_CHAPTERS 64

/* The results of one experiment. */
struct chapter {
	const struct experiment *experiment;
	json_t *result;
	char *svgs[MAX_FIGURES]; /* NULL: there is no such drawing */
	char file_names[MAX_FIGURES][128];
};

struct story {
	struct chapter chapters[MAX_CHAPTERS];
	uint32_t n;
	const json_t *host;
	bool drawn; /* there is a gnuplot */
};

/* Write all but the title. There is at least one chapter. */
void story_write(struct page *page, const struct story *story);

#endif
