/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker of histories: with known valid and invalid ones, and with random
 * ones, on which it must agree with a checker that tries all orders.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"

static struct lin_history read_history(const char *text)
{
	struct lin_history history = { 0 };
	FILE *file = fmemopen((void *)(size_t)text, strlen(text), "r");

	cr_assert(file);
	cr_assert_eq(lin_read(&history, file, "history"), 0, "%s", text);
	fclose(file);
	return history;
}

static enum lin_answer answer(const char *text)
{
	struct lin_history history = read_history(text);
	struct lin_checker *checker = lin_checker_new();
	struct lin_verdict verdict;

	cr_assert(checker);
	lin_check(checker, history.ops, history.n, &verdict);
	lin_checker_free(checker);
	lin_free(&history);
	return verdict.answer;
}

Test(checker, takes_histories_that_are_right)
{
	static const char *const right[] = {
		"# nothing happened\n",
		"get x 1 2 absent - - -\n",
		/* One after the other. */
		"put x 1 2 ok a - -\n get x 3 4 ok - - a\n",
		"put x 1 2 ok a - -\n put x 3 4 ok b - -\n"
		"get x 5 6 ok - - b\n",
		"put x 1 2 ok a - -\n delete x 3 4 ok - - -\n"
		"get x 5 6 absent - - -\n delete x 7 8 absent - - -\n",
		"cas x 1 2 absent b a -\n cas x 3 4 ok a - -\n"
		"cas x 5 6 ok b a -\n cas x 7 8 different c a b\n"
		"cas x 9 10 different c a ?\n get x 11 12 ok - - b\n",
		"put x 1 2 ok a - -\n cas x 3 4 different b - a\n",
		/* At the same time: either value, in either order. */
		"put x 1 5 ok a - -\n get x 2 3 absent - - -\n",
		"put x 1 5 ok a - -\n get x 2 3 ok - - a\n",
		"put x 1 9 ok a - -\n put x 1 9 ok b - -\n"
		"get x 2 3 ok - - b\n get x 4 5 ok - - a\n",
		"put x 1 9 ok a - -\n put x 2 8 ok b - -\n"
		"put x 3 7 ok c - -\n get x 10 11 ok - - a\n",
		/* Times that touch are concurrent. */
		"put x 1 2 ok a - -\n get x 2 3 absent - - -\n",
		/* Keys have nothing to do with each other. */
		"put x 1 2 ok a - -\n put y 3 4 ok b - -\n"
		"get x 5 6 ok - - a\n get y 5 6 ok - - b\n",
		"get x 1 2 absent - - -\n put y 1 2 ok b - -\n"
		"get x 3 4 absent - - -\n",
		/* Two swaps at once, of which one comes first. */
		"put x 1 2 ok a - -\n cas x 3 6 ok b a -\n"
		"cas x 3 6 different c a b\n",
		"put x 1 2 ok a - -\n cas x 3 9 ok c b -\n"
		"cas x 3 9 ok b a -\n get x 10 11 ok - - c\n",
		/* Unknown outcomes: done, never done, done late. */
		"put x 1 ? ? a - -\n get x 3 4 ok - - a\n",
		"put x 1 ? ? a - -\n get x 3 4 absent - - -\n",
		"put x 1 ? ? a - -\n put x 3 4 ok b - -\n"
		"get x 5 6 ok - - b\n get x 7 8 ok - - a\n",
		"put x 1 2 ok a - -\n delete x 3 ? ? - - -\n"
		"get x 5 6 ok - - a\n get x 7 8 absent - - -\n",
		"put x 1 2 ok a - -\n cas x 3 ? ? b a -\n"
		"get x 5 6 ok - - a\n get x 7 8 ok - - b\n",
		/* One unknown needs the other one. */
		"cas x 1 ? ? b a -\n put x 2 ? ? a - -\n"
		"get x 5 6 ok - - b\n",
		"cas x 1 ? ? c b -\n cas x 2 ? ? b a -\n"
		"put x 3 4 ok a - -\n get x 5 6 ok - - c\n",
		/* Two that do the same, for two that need it. */
		"delete x 1 ? ? - - -\n delete x 1 ? ? - - -\n"
		"put x 2 3 ok a - -\n get x 4 5 absent - - -\n"
		"put x 6 7 ok a - -\n get x 8 9 absent - - -\n",
		/* An unknown write that only creates a value. */
		"put x 1 ? ? a - -\n delete x 2 3 ok - - -\n",
		"put x 1 ? ? b - -\n put x 2 3 ok a - -\n"
		"cas x 4 5 different c a ?\n",
		"get x 1 ? ? - - -\n get x 3 4 absent - - -\n",
	};
	size_t i;

	for (i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		cr_expect_eq(answer(right[i]), LIN_RIGHT, "%s", right[i]);
}

Test(checker, finds_histories_that_are_wrong)
{
	static const char *const wrong[] = {
		/* A value from nowhere. */
		"get x 1 2 ok - - a\n",
		"put x 1 2 ok a - -\n get x 3 4 ok - - b\n",
		"put y 1 2 ok a - -\n get x 3 4 ok - - a\n",
		/* A value from the future. */
		"get x 1 2 ok - - a\n put x 3 4 ok a - -\n",
		"get x 1 2 ok - - a\n put x 3 ? ? a - -\n",
		/* A write that was lost. */
		"put x 1 2 ok a - -\n get x 3 4 absent - - -\n",
		"put x 1 2 ok a - -\n put x 3 4 ok b - -\n"
		"get x 5 6 ok - - a\n",
		"put x 1 2 ok a - -\n delete x 3 4 ok - - -\n"
		"get x 5 6 ok - - a\n",
		/* Seen, and then no longer. */
		"put x 1 9 ok a - -\n get x 2 3 ok - - a\n"
		"get x 4 5 absent - - -\n",
		"put x 1 2 ok a - -\n put x 3 9 ok b - -\n"
		"get x 4 5 ok - - b\n get x 6 7 ok - - a\n",
		/* Two readers, in different orders. */
		"put x 1 20 ok a - -\n put x 1 20 ok b - -\n"
		"get x 2 3 ok - - a\n get x 4 5 ok - - b\n"
		"get x 6 7 ok - - a\n",
		/* Done twice. */
		"put x 1 2 ok a - -\n cas x 3 6 ok b a -\n"
		"cas x 3 6 ok c a -\n",
		"put x 1 2 ok a - -\n put x 3 4 ok b - -\n"
		"put x 5 ? ? c - -\n get x 7 8 ok - - c\n"
		"put x 9 10 ok d - -\n get x 11 12 ok - - d\n"
		"get x 13 14 ok - - c\n",
		"put x 1 2 ok a - -\n delete x 3 6 ok - - -\n"
		"delete x 3 6 ok - - -\n",
		/* A swap that must, or must not, have been done. */
		"put x 1 2 ok a - -\n cas x 3 4 ok c b -\n",
		"put x 1 2 ok a - -\n cas x 3 4 different c a ?\n",
		"put x 1 2 ok a - -\n cas x 3 4 different c b d\n",
		"put x 1 2 ok a - -\n cas x 3 4 absent c b -\n",
		"put x 1 2 ok a - -\n cas x 3 4 ok b - -\n",
		"cas x 1 2 different b - ?\n",
		"put x 1 2 ok a - -\n cas x 3 4 different c b a\n"
		"get x 5 6 ok - - c\n",
		/* A delete of a missing value, and the other way round. */
		"delete x 1 2 ok - - -\n",
		"put x 1 2 ok a - -\n delete x 3 4 absent - - -\n",
		/* Unknown outcomes explain some, not all. */
		"put x 1 ? ? a - -\n get x 3 4 ok - - a\n"
		"get x 5 6 absent - - -\n",
		"put x 1 ? ? a - -\n put x 3 4 ok b - -\n"
		"get x 5 6 ok - - a\n get x 7 8 ok - - b\n",
		"cas x 1 ? ? b a -\n get x 3 4 ok - - b\n",
		"delete x 1 ? ? - - -\n put x 2 3 ok a - -\n"
		"get x 4 5 absent - - -\n put x 6 7 ok a - -\n"
		"get x 8 9 absent - - -\n",
		"put x 1 ? ? a - -\n delete x 2 3 ok - - -\n"
		"delete x 4 5 ok - - -\n",
		/* Right for one key, wrong for another. */
		"put x 1 2 ok a - -\n put y 1 2 ok b - -\n"
		"get x 3 4 ok - - a\n get y 3 4 absent - - -\n",
	};
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_eq(answer(wrong[i]), LIN_WRONG, "%s", wrong[i]);
}

Test(checker, says_where_a_history_is_wrong)
{
	struct lin_history history = read_history(
	    "put x 1 2 ok a - -\n put y 1 2 ok b - -\n"
	    "get y 3 4 ok - - b\n get y 5 6 ok - - a\n"
	    "get y 7 8 ok - - b\n");
	struct lin_checker *checker = lin_checker_new();
	struct lin_verdict verdict;

	cr_assert(checker);
	cr_expect_eq(
	    lin_check(checker, history.ops, history.n, &verdict), LIN_WRONG);
	cr_expect_str_eq(lin_text(&history, verdict.key), "y");
	cr_expect_str_eq(lin_text(&history, verdict.value), "b");
	cr_expect_eq(verdict.stuck.invoked, 5);
	cr_expect_eq(verdict.n_ops, 4);
	cr_expect_eq(verdict.n_explained, 2);
	lin_checker_free(checker);
	lin_free(&history);
}

/* ---- Files -----------------------------------------------------------------
 */

Test(history, is_refused_where_a_line_is_wrong)
{
	static const char *const lines[] = {
		"put x 1 2 ok a -\n",
		"put x 1 2 ok a - - -\n",
		"swap x 1 2 ok a - -\n",
		"put x one 2 ok a - -\n",
		"put x 1 -2 ok a - -\n",
		"put x 3 2 ok a - -\n",
		"put x 1 2 absent a - -\n",
		"put x 1 2 done a - -\n",
		"put x 1 2 ok - - -\n",
		"get x 1 2 ok - - -\n",
		"get x 1 2 different - - a\n",
		"cas x 1 2 ok a ? -\n",
		"get x 99999999999999999999 2 ok - - a\n",
	};
	struct lin_history history = { 0 };
	FILE *file;
	size_t i;

	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		file = fmemopen(
		    (void *)(size_t)lines[i], strlen(lines[i]), "r");
		cr_assert(file);
		cr_expect_eq(lin_read(&history, file, "history"), -EINVAL, "%s",
		    lines[i]);
		fclose(file);
		lin_free(&history);
	}
}

Test(history, is_printed_as_it_is_read)
{
	static const char text[] = "put k 1 2 ok a - -\n"
				   "get k 3 4 ok - - a\n"
				   "cas k 5 6 different b - a\n"
				   "cas k 5 6 absent b a -\n"
				   "delete k 7 8 absent - - -\n"
				   "cas k 9 ? ? b a -\n";
	struct lin_history history = read_history(text);
	char *printed = NULL;
	size_t i, size;
	FILE *file = open_memstream(&printed, &size);

	cr_assert(file);
	for (i = 0; i < history.n; i++) {
		lin_print(&history, &history.ops[i], file);
		fputc('\n', file);
	}
	fclose(file);
	cr_expect_str_eq(printed, text);
	free(printed);
	lin_free(&history);
}

/* A program that notes operations itself has numbers for keys and values. */
Test(history, of_numbers_can_be_read)
{
	static const struct lin_op op = {
		.key = 0,
		.kind = LIN_PUT,
		.invoked = 1,
		.returned = 2,
		.value = 1000,
		.result = LIN_DONE,
	};
	struct lin_history history = { 0 };
	char line[80];
	FILE *file = fmemopen(line, sizeof(line), "w+");

	cr_assert(file);
	lin_print(&history, &op, file);
	rewind(file);
	cr_assert_eq(lin_read(&history, file, "history"), 0);
	cr_assert_eq(history.n, 1);
	cr_expect_str_eq(lin_text(&history, history.ops[0].key), "key-0");
	cr_expect_str_eq(lin_text(&history, history.ops[0].value), "1000");
	cr_expect_eq(history.ops[0].returned, 2);
	fclose(file);
	lin_free(&history);
}

/* ---- Random histories ------------------------------------------------------
 */

#define MAX_OPS 7

static unsigned pick(unsigned *seed, unsigned n)
{
	return (unsigned)rand_r(seed) % n;
}

/* The operation's effect on a value; false: its result is impossible. */
static bool step(const struct lin_op *op, uint64_t *value)
{
	uint64_t old = *value;
	bool done = op->result == LIN_DONE, unknown = op->result == LIN_UNKNOWN;

	switch (op->kind) {
	case LIN_GET:
		return unknown || old == op->seen;
	case LIN_PUT:
		*value = op->value;
		return true;
	case LIN_DELETE:
		*value = LIN_ABSENT;
		return unknown || done == (old != LIN_ABSENT);
	default:
		if (old == op->expected)
			*value = op->value;
		if (unknown || done)
			return unknown || old == op->expected;
		return old != op->expected &&
		    (op->seen == LIN_ANY || op->seen == old);
	}
}

/* Try all orders of all sets that have each known operation in them. */
static bool brute(
    const struct lin_op *ops, unsigned n, unsigned placed, uint64_t value)
{
	unsigned i, j, missing = 0;
	uint64_t next;

	for (i = 0; i < n; i++)
		missing += !(placed & 1u << i) && ops[i].result != LIN_UNKNOWN;
	if (!missing)
		return true;
	for (i = 0; i < n; i++) {
		if (placed & 1u << i)
			continue;
		for (j = 0; j < n; j++)
			if (!(placed & 1u << j) &&
			    ops[j].result != LIN_UNKNOWN &&
			    ops[j].returned < ops[i].invoked)
				break;
		next = value;
		if (j == n && step(&ops[i], &next) &&
		    brute(ops, n, placed | 1u << i, next))
			return true;
	}
	return false;
}

/* A history of a real register: each operation takes effect within its time. */
static void make_right(struct lin_op *ops, unsigned n, unsigned *seed)
{
	uint64_t value = LIN_ABSENT, old;
	struct lin_op *op;
	unsigned i;

	memset(ops, 0, n * sizeof(*ops));
	for (i = 0; i < n; i++) {
		op = &ops[i];
		op->kind = (uint8_t)pick(seed, 4);
		op->value = 1 + pick(seed, 3);
		op->expected = pick(seed, 4);
		op->invoked = 10 * i + 100 - pick(seed, 30);
		op->returned = 10 * i + 100 + pick(seed, 30);
		old = value;
		op->result = LIN_UNKNOWN;
		if (pick(seed, 4)) {
			step(op, &value);
			op->result = LIN_DONE;
			if (op->kind == LIN_CAS ? old != op->expected
						: op->kind != LIN_PUT && !old)
				op->result = LIN_FAILED;
			op->seen = op->kind == LIN_CAS && pick(seed, 2)
			    ? LIN_ANY
			    : old;
		} else if (pick(seed, 2)) {
			step(op, &value);
		}
	}
}

static void mutate(struct lin_op *ops, unsigned n, unsigned *seed)
{
	struct lin_op *op = &ops[pick(seed, n)];

	switch (pick(seed, 5)) {
	case 0:
		op->seen = pick(seed, 4);
		break;
	case 1:
		op->value = 1 + pick(seed, 3);
		break;
	case 2:
		op->invoked += 10 * pick(seed, 5);
		if (op->returned < op->invoked)
			op->returned = op->invoked;
		break;
	case 3:
		if (op->result != LIN_UNKNOWN && op->kind > LIN_PUT)
			op->result = op->result == LIN_DONE ? LIN_FAILED
							    : LIN_DONE;
		break;
	default:
		op->returned = op->invoked;
		break;
	}
}

Test(checker, agrees_with_one_that_tries_all_orders)
{
	struct lin_checker *checker = lin_checker_new();
	unsigned i, j, n, seed = 1, n_wrong = 0, n_runs = 200000;
	struct lin_op ops[MAX_OPS];
	struct lin_verdict verdict;
	bool right;

	cr_assert(checker);
	for (i = 0; i < n_runs; i++) {
		n = 1 + pick(&seed, MAX_OPS);
		make_right(ops, n, &seed);
		for (j = pick(&seed, 4); j; j--)
			mutate(ops, n, &seed);
		right = brute(ops, n, 0, LIN_ABSENT);
		lin_check(checker, ops, n, &verdict);
		cr_assert_eq(
		    verdict.answer, right ? LIN_RIGHT : LIN_WRONG, "run %u", i);
		n_wrong += !right;
	}
	cr_expect_gt(n_wrong, n_runs / 10);
	cr_expect_lt(n_wrong, n_runs / 10 * 9);
	lin_checker_free(checker);
}

/* ---- Large histories -------------------------------------------------------
 */

#define N_CLIENTS 32
#define MOST_STEPS 100 /* for each operation of a hot key */

/*
 * A history of clients that each wait for an answer; one operation in
 * unanswered gets none (0: all get one). Values are written once, as those of
 * load generators are.
 */
static void make_large(struct lin_history *history, unsigned n, unsigned n_keys,
    unsigned unanswered, unsigned seed)
{
	uint64_t *values = calloc(n_keys, sizeof(*values));
	uint64_t free_at[N_CLIENTS] = { 0 }, now = 100, old;
	struct lin_op op;
	unsigned i, c;

	cr_assert(values);
	for (i = 0; i < n; i++, now += 10) {
		c = pick(&seed, N_CLIENTS);
		if (free_at[c] >= now)
			continue;
		memset(&op, 0, sizeof(op));
		op.key = pick(&seed, n_keys);
		op.kind = pick(&seed, 2) ? LIN_GET : (uint8_t)pick(&seed, 4);
		op.value = i + 1;
		old = values[op.key];
		op.expected = pick(&seed, 2) ? old : i;
		op.invoked = now -
		    (now - free_at[c] > 50 ? pick(&seed, 50) : 0);
		op.returned = now + pick(&seed, 200);
		free_at[c] = op.returned;
		op.result = unanswered && !pick(&seed, unanswered) ? LIN_UNKNOWN
								   : LIN_DONE;
		if (op.result == LIN_DONE || pick(&seed, 2))
			step(&op, &values[op.key]);
		if (op.result == LIN_DONE &&
		    (op.kind == LIN_CAS ? old != op.expected
					: op.kind != LIN_PUT && !old))
			op.result = LIN_FAILED;
		op.seen = old;
		cr_assert_eq(lin_add(history, &op), 0);
	}
	free(values);
}

Test(checker, checks_large_histories)
{
	static const unsigned keys[] = { 100, 1000 };
	struct lin_checker *checker = lin_checker_new();
	struct lin_history history = { 0 };
	struct lin_verdict verdict;
	size_t i, late;

	cr_assert(checker);
	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		make_large(&history, 200000, keys[i], 1000, (unsigned)i);
		lin_check(checker, history.ops, history.n, &verdict);
		cr_expect_eq(verdict.answer, LIN_RIGHT, "%u keys", keys[i]);
		/* And one read that is wrong, near the end. */
		for (late = history.n - 1; history.ops[late].kind != LIN_GET ||
		     history.ops[late].result != LIN_DONE;)
			late--;
		history.ops[late].seen++;
		lin_check(checker, history.ops, history.n, &verdict);
		cr_expect_eq(verdict.answer, LIN_WRONG, "%u keys", keys[i]);
		lin_free(&history);
	}
	lin_checker_free(checker);
}

/*
 * Many clients at one key: readers need no search, or each set of those that
 * are under way would be one of its own.
 */
Test(checker, checks_a_hot_key)
{
	struct lin_checker *checker = lin_checker_new();
	struct lin_history history = { 0 };
	struct lin_verdict verdict;
	size_t late;

	cr_assert(checker);
	make_large(&history, 20000, 1, 0, 1);
	lin_check(checker, history.ops, history.n, &verdict);
	cr_expect_eq(verdict.answer, LIN_RIGHT);
	cr_expect_lt(verdict.n_steps, MOST_STEPS * history.n, "%ju steps",
	    (uintmax_t)verdict.n_steps);
	for (late = history.n - 1; history.ops[late].kind != LIN_GET;)
		late--;
	history.ops[late].seen = history.n + 1;
	lin_check(checker, history.ops, history.n, &verdict);
	cr_expect_eq(verdict.answer, LIN_WRONG);
	lin_free(&history);
	lin_checker_free(checker);
}
