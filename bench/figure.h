/* SPDX-License-Identifier: Apache-2.0 */
/* Drawings of experiments, by gnuplot. */
#ifndef DFI_BENCH_FIGURE_H
#define DFI_BENCH_FIGURE_H

#include <jansson.h>
#include "experiments.h"

/* Whether there is a gnuplot. */
bool figure_can_draw(void);

/*
 * Draw a figure of an experiment from its rows. Returns SVG text to free: it
 * has the colours of the text around it, or of a page in light or dark. NULL:
 * no row can be drawn, or after a complaint.
 */
char *figure_draw(const struct figure *figure, const json_t *rows);

#endif
