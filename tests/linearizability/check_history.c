/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check-history FILE...: checks whether histories of a store are linearizable.
 * Exits with 0 if all are, 1 if one is not, 2 if it can't tell.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checker.h"

static int by_invocation(const void *a, const void *b)
{
	const struct lin_op *x = a, *y = b;

	return x->invoked < y->invoked ? -1 : x->invoked > y->invoked;
}

/* The operations of the key that were under way with the one that is stuck. */
static void explain(
    struct lin_history *history, const struct lin_verdict *verdict)
{
	const struct lin_op *stuck = &verdict->stuck, *op;
	size_t i, n = 0;

	printf("key %s: %zu of its %zu operations have an order, after which "
	       "its value is %s.\nThis one has no place behind them:\n    ",
	    lin_text(history, verdict->key), verdict->n_explained,
	    verdict->n_ops, lin_text(history, verdict->value));
	lin_print(history, stuck, stdout);
	printf(
	    "\nUnder way with it, or of unknown outcome and begun before:\n");
	qsort(history->ops, history->n, sizeof(*history->ops), by_invocation);
	for (i = 0; i < history->n && n < 100; i++) {
		op = &history->ops[i];
		if (op->key != stuck->key || op->invoked > stuck->returned ||
		    (op->result != LIN_UNKNOWN &&
			op->returned < stuck->invoked) ||
		    memcmp(op, stuck, sizeof(*op)) == 0)
			continue;
		printf("    ");
		lin_print(history, op, stdout);
		printf("\n");
		n++;
	}
	if (n == 100)
		printf("    ... and perhaps more\n");
}

static int check_file(struct lin_checker *checker, const char *name)
{
	struct lin_history history = { 0 };
	struct lin_verdict verdict;
	struct timespec begin, end;
	FILE *file = fopen(name, "r");
	int err, status = 2;

	if (!file) {
		fprintf(stderr, "%s: %s\n", name, strerror(errno));
		return 2;
	}
	err = lin_read(&history, file, name);
	fclose(file);
	if (err) {
		if (err != -EINVAL)
			fprintf(stderr, "%s: %s\n", name, strerror(-err));
		lin_free(&history);
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	lin_check(checker, history.ops, history.n, &verdict);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (verdict.answer == LIN_RIGHT) {
		printf("%s: linearizable: %zu operations, %.3f s\n", name,
		    history.n,
		    (double)(end.tv_sec - begin.tv_sec) +
			(double)(end.tv_nsec - begin.tv_nsec) / 1e9);
		status = 0;
	} else if (verdict.answer == LIN_WRONG) {
		printf("%s: not linearizable\n", name);
		explain(&history, &verdict);
		status = 1;
	} else {
		printf("%s: undecided: key %s has too many operations at once "
		       "for this memory\n",
		    name, lin_text(&history, verdict.key));
	}
	lin_free(&history);
	return status;
}

int main(int argc, char **argv)
{
	struct lin_checker *checker;
	int i, status, worst = 0;

	if (argc < 2 || argv[1][0] == '-') {
		fprintf(argc < 2 ? stderr : stdout,
		    "usage: check-history FILE...\nThe format of a file is "
		    "described in tests/linearizability/history.h.\n");
		return argc < 2 ? 2 : 0;
	}
	checker = lin_checker_new();
	if (!checker) {
		fprintf(stderr, "check-history: memory ends\n");
		return 2;
	}
	for (i = 1; i < argc; i++) {
		status = check_file(checker, argv[i]);
		if (status == 1 || worst == 0)
			worst = status;
	}
	lin_checker_free(checker);
	return worst;
}
