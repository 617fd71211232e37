/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a history of the notes of a run's clients, and checks it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../linearizability/checker.h"
#include "faults.h"

bool history_gather(
    const struct board *board, struct lin_history *history, size_t *n_unknown)
{
	const struct client_notes *notes;
	struct lin_op op;
	unsigned i, at;

	*n_unknown = 0;
	for (i = 0; i < FAULTS_CLIENTS; i++) {
		notes = &board->clients[i];
		for (at = 0; at < atomic_load(&notes->n); at++) {
			op = notes->notes[at].op;
			if (!atomic_load(&notes->notes[at].done)) {
				/*
				 * The client was killed while it noted the
				 * answer.
				 */
				op.result = LIN_UNKNOWN;
				op.returned = 0;
				++*n_unknown;
			}
			if (lin_add(history, &op) < 0)
				return false;
		}
	}
	return true;
}

bool history_save(const struct lin_history *history, const char *name)
{
	FILE *file = fopen(name, "w");
	bool written;
	size_t i;

	if (!file)
		return false;
	for (i = 0; i < history->n; i++) {
		lin_print(history, &history->ops[i], file);
		fputc('\n', file);
	}
	written = !ferror(file);
	return fclose(file) == 0 && written;
}

static void save(const struct lin_history *history, const struct plan *plan)
{
	char name[64];

	snprintf(name, sizeof(name), "history-%" PRIu64, plan->seed);
	if (history_save(history, name))
		fprintf(stderr, "the history is in the file %s\n", name);
}

bool history_check(
    const struct board *board, const struct plan *plan, size_t *n_unknown)
{
	struct lin_checker *checker = lin_checker_new();
	struct lin_history history = { .n = 0 };
	struct lin_verdict verdict;
	enum lin_answer answer = LIN_NO_MEMORY;

	if (checker && history_gather(board, &history, n_unknown))
		answer = lin_check(checker, history.ops, history.n, &verdict);
	if (answer != LIN_RIGHT) {
		fprintf(stderr, "history of %zu operations: %s\n", history.n,
		    answer == LIN_WRONG           ? "NOT LINEARIZABLE"
			: answer == LIN_UNDECIDED ? "can't be decided"
						  : "no memory");
		if (answer == LIN_WRONG && verdict.noted) {
			fprintf(stderr, "no place for: ");
			lin_print(&history, &verdict.stuck, stderr);
			fputc('\n', stderr);
		}
		save(&history, plan);
	}
	lin_free(&history);
	if (checker)
		lin_checker_free(checker);
	return answer == LIN_RIGHT;
}
