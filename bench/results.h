/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of experiments: a folder with a JSON object for each, whose
 * "rows" are those of the commands, with "series" added.
 */
#ifndef DFI_BENCH_RESULTS_H
#define DFI_BENCH_RESULTS_H

#include <jansson.h>
#include <stdbool.h>
#include "experiments.h"
#include "run_step.h"

/* The command lines of an experiment: a new array of texts. */
json_t *results_commands(
    const struct experiment *experiment, const struct rounds *rounds);

/* Make the object of an experiment. Takes the references to rows and host. */
json_t *results_make(const struct experiment *experiment,
    const struct rounds *rounds, json_t *rows, json_t *host);

/* Replace an object's texts and statements by those of the table. */
void results_describe(json_t *result, const struct experiment *experiment);

/*
 * Whether an experiment was run, all of its commands succeeded and all of its
 * rows are verified.
 */
bool results_verified(const json_t *result);

/* Replace the file of an experiment at once. false after a complaint. */
bool results_store(const char *folder, const struct experiment *experiment,
    const json_t *result);

/*
 * Returns the object of an experiment, a new reference, or NULL: there is none.
 * Complains of a file that it can't use and sets *damaged, unless this is NULL.
 */
json_t *results_load(
    const char *folder, const struct experiment *experiment, bool *damaged);

#endif
