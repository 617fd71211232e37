/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the commands of experiments, each in a process of its own. */
#ifndef DFI_BENCH_RUN_STEP_H
#define DFI_BENCH_RUN_STEP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include "experiments.h"

/* The rounds of all commands that do not choose their own. */
struct rounds {
	const char *seconds; /* as for --seconds */
	uint32_t repeat;
	bool verify;
};

#define COMMAND_SIZE 512

/* Write a step's command line, as a user types it. */
void step_command(const struct experiment_step *step,
    const struct rounds *rounds, char *text, size_t size);

/* The same for the baseline of a join. */
void step_baseline(const struct experiment_step *step, char *text, size_t size);

/*
 * Write why a step cannot run on this machine. false: it can, and nothing is
 * written.
 */
bool step_lacks(const struct experiment_step *step, char *why, size_t size);

/*
 * Run a step, with tick() called twice a second meanwhile. Adds its rows to
 * rows, and sets *host to its description of the machine, a new reference, if
 * it has one. false after a complaint.
 */
bool step_run(const struct experiment_step *step, const struct rounds *rounds,
    void (*tick)(void), json_t *rows, json_t **host);

#endif
