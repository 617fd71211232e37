/* SPDX-License-Identifier: Apache-2.0 */
/* Judges the claims of experiments by the rows of a run. */
#ifndef DFI_BENCH_CLAIMS_H
#define DFI_BENCH_CLAIMS_H

#include <jansson.h>
#include "experiments.h"

enum verdict {
	VERDICT_NONE = 0, /* no row tells: a part of it was not run */
	VERDICT_AGREES,
	VERDICT_DIFFERS,
};

const char *verdict_name(enum verdict verdict);

/* Whether all words KEY=VALUE of a selection hold for a row. */
bool claim_selects(const char *selection, const json_t *row);

/* Store the quotient that a claim is about. VERDICT_NONE: there is none. */
enum verdict claim_judge(
    const struct claim *claim, const json_t *rows, double *found);

/* Write "0.93, at least 0.9", or why there is no quotient. */
void claim_finding(
    const struct claim *claim, const json_t *rows, char *text, size_t size);

/*
 * The verdict on all claims of an experiment: it differs if one does, and
 * agrees if one agrees and none differs.
 */
enum verdict claims_judge(
    const struct experiment *experiment, const json_t *rows);

/*
 * Returns claims with their verdicts as a JSON array, a new reference: text,
 * finding, verdict, and why, if it differs for a known reason.
 */
json_t *claims_json(const struct experiment *experiment, const json_t *rows);

#endif
