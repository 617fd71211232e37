/* SPDX-License-Identifier: Apache-2.0 */
/* Histories in memory and as text. A table maps texts to numbers, from 1. */
#include "history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define N_WORDS 8

struct lin_texts {
	char **all;
	uint32_t *cells;    /* numbers of texts; 0: empty */
	size_t n, capacity; /* the cells are twice as many, a power of two */
};

static const char *const kinds[] = { "get", "put", "delete", "cas" };

int lin_add(struct lin_history *history, const struct lin_op *op)
{
	size_t capacity = history->capacity ? 2 * history->capacity : 256;
	struct lin_op *ops = history->ops;

	if (history->n == history->capacity) {
		ops = realloc(ops, capacity * sizeof(*ops));
		if (!ops)
			return -ENOMEM;
		history->ops = ops;
		history->capacity = capacity;
	}
	ops[history->n++] = *op;
	return 0;
}

void lin_free(struct lin_history *history)
{
	struct lin_texts *texts = history->texts;
	size_t i;

	if (texts) {
		for (i = 0; i < texts->n; i++)
			free(texts->all[i]);
		free(texts->all);
		free(texts->cells);
		free(texts);
	}
	free(history->ops);
	memset(history, 0, sizeof(*history));
}

static uint32_t *find_text(const struct lin_texts *texts, const char *text)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	size_t mask = 2 * texts->capacity - 1, i;
	const char *c;

	for (c = text; *c; c++)
		hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
	i = (size_t)(hash ^ hash >> 32) & mask;
	while (texts->cells[i] &&
	    strcmp(texts->all[texts->cells[i] - 1], text) != 0)
		i = (i + 1) & mask;
	return &texts->cells[i];
}

static int grow_texts(struct lin_texts *texts)
{
	size_t i, capacity = texts->capacity ? 2 * texts->capacity : 256;
	char **all = realloc(texts->all, capacity * sizeof(char *));
	uint32_t *cells;

	if (!all)
		return -ENOMEM;
	texts->all = all;
	cells = calloc(2 * capacity, sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	free(texts->cells);
	texts->cells = cells;
	texts->capacity = capacity;
	for (i = 0; i < texts->n; i++)
		*find_text(texts, all[i]) = (uint32_t)(i + 1);
	return 0;
}

/* The number of a text, a new one if need be; 0: no memory. */
static uint64_t number_of(struct lin_history *history, const char *text)
{
	struct lin_texts *texts = history->texts;
	uint32_t *cell;

	if (!texts)
		texts = history->texts = calloc(1, sizeof(*texts));
	if (!texts || (texts->n == texts->capacity && grow_texts(texts)))
		return 0;
	cell = find_text(texts, text);
	if (*cell)
		return *cell;
	texts->all[texts->n] = strdup(text);
	if (!texts->all[texts->n])
		return 0;
	*cell = (uint32_t)++texts->n;
	return *cell;
}

const char *lin_text(const struct lin_history *history, uint64_t value)
{
	static _Thread_local char numbers[4][24];
	static _Thread_local unsigned next;
	char *number;

	if (value == LIN_ABSENT)
		return "-";
	if (value == LIN_ANY)
		return "?";
	if (history->texts && value <= history->texts->n)
		return history->texts->all[value - 1];
	number = numbers[next++ % 4];
	snprintf(number, sizeof(numbers[0]), "%" PRIu64, value);
	return number;
}

void lin_print(
    const struct lin_history *history, const struct lin_op *op, FILE *file)
{
	bool known = op->result != LIN_UNKNOWN;
	bool writes = op->kind == LIN_PUT || op->kind == LIN_CAS;
	bool sees = known &&
	    (op->kind == LIN_GET ||
		(op->kind == LIN_CAS && op->result == LIN_FAILED));
	const char *failure = op->kind == LIN_CAS && op->seen != LIN_ABSENT
	    ? "different"
	    : "absent";

	if (history->texts)
		fprintf(
		    file, "%s %s", kinds[op->kind], lin_text(history, op->key));
	else
		fprintf(file, "%s key-%" PRIu64, kinds[op->kind], op->key);
	fprintf(file, " %" PRIu64 " ", op->invoked);
	if (known)
		fprintf(file, "%" PRIu64, op->returned);
	else
		fprintf(file, "?");
	fprintf(file, " %s %s %s %s",
	    !known                       ? "?"
		: op->result == LIN_DONE ? "ok"
					 : failure,
	    writes ? lin_text(history, op->value) : "-",
	    op->kind == LIN_CAS ? lin_text(history, op->expected) : "-",
	    sees ? lin_text(history, op->seen) : "-");
}

/* The words of a line. Returns how many there are, at most one too many. */
static size_t split(char *line, char *words[N_WORDS + 1])
{
	char *rest = line, *word;
	size_t n = 0;

	line[strcspn(line, "#\r\n")] = 0;
	while (n <= N_WORDS && (word = strtok_r(rest, " \t", &rest)))
		words[n++] = word;
	return n;
}

static bool read_time(const char *word, uint64_t *time)
{
	char *end;

	if (*word < '0' || *word > '9')
		return false;
	errno = 0;
	*time = strtoull(word, &end, 10);
	return !*end && errno == 0;
}

/* A value, if the operation has one: - is none, ? unknown. */
static const char *read_value(
    struct lin_history *history, const char *word, uint64_t *value)
{
	if (strcmp(word, "-") == 0)
		*value = LIN_ABSENT;
	else if (strcmp(word, "?") == 0)
		*value = LIN_ANY;
	else if (!(*value = number_of(history, word)))
		return "memory ends";
	return NULL;
}

static const char *read_result(struct lin_op *op, const char *word)
{
	bool cas = op->kind == LIN_CAS;

	if (strcmp(word, "ok") == 0) {
		op->result = LIN_DONE;
	} else if (strcmp(word, "absent") == 0 && op->kind != LIN_PUT) {
		op->result = LIN_FAILED;
	} else if (strcmp(word, "different") == 0 && cas) {
		op->result = LIN_FAILED;
	} else if (strcmp(word, "?") == 0) {
		op->result = LIN_UNKNOWN;
		return NULL;
	} else {
		return "the fifth word is a result: ok, absent (not of put), "
		       "different (of cas) or ?";
	}
	return NULL;
}

/* The rules between the parts of an operation. */
static const char *check_op(struct lin_op *op, const char *result)
{
	if (op->result != LIN_UNKNOWN && op->returned < op->invoked)
		return "it returned before it was invoked";
	if ((op->kind == LIN_PUT || op->kind == LIN_CAS) &&
	    (op->value == LIN_ABSENT || op->value == LIN_ANY))
		return "put and cas write a value: the sixth word";
	if (op->expected == LIN_ANY)
		return "the value that cas expects is known: the seventh word";
	if (op->kind == LIN_GET && op->result == LIN_DONE &&
	    (op->seen == LIN_ABSENT || op->seen == LIN_ANY))
		return "a get that is ok has seen a value: the eighth word";
	if (op->kind == LIN_CAS && strcmp(result, "different") == 0 &&
	    op->seen == LIN_ABSENT)
		op->seen = LIN_ANY; /* as - : nothing is said */
	if (strcmp(result, "absent") == 0)
		op->seen = LIN_ABSENT;
	return NULL;
}

/* Returns the error, or NULL. */
static const char *read_op(
    struct lin_history *history, char *words[N_WORDS], struct lin_op *op)
{
	const char *wrong;
	unsigned kind;

	memset(op, 0, sizeof(*op));
	for (kind = 0; strcmp(words[0], kinds[kind]) != 0;)
		if (++kind == sizeof(kinds) / sizeof(kinds[0]))
			return "the first word is get, put, delete or cas";
	op->kind = (uint8_t)kind;
	op->key = number_of(history, words[1]);
	if (!op->key)
		return "memory ends";
	if (!read_time(words[2], &op->invoked))
		return "the third word is a time, a whole number";
	wrong = read_result(op, words[4]);
	if (wrong)
		return wrong;
	if (strcmp(words[3], "?") == 0) {
		op->result = LIN_UNKNOWN;
		op->returned = UINT64_MAX;
	} else if (!read_time(words[3], &op->returned)) {
		return "the fourth word is a time, or ?";
	}
	if ((wrong = read_value(history, words[5], &op->value)) ||
	    (wrong = read_value(history, words[6], &op->expected)) ||
	    (wrong = read_value(history, words[7], &op->seen)))
		return wrong;
	return check_op(op, words[4]);
}

int lin_read(struct lin_history *history, FILE *file, const char *name)
{
	char *line = NULL, *words[N_WORDS + 1];
	const char *wrong = NULL;
	size_t room = 0, n, number = 0;
	struct lin_op op;
	int err = 0;

	while (!wrong && !err && getline(&line, &room, file) >= 0) {
		number++;
		n = split(line, words);
		if (n == 0)
			continue;
		wrong = n == N_WORDS ? read_op(history, words, &op)
				     : "an operation has eight words: OP KEY "
				       "INVOKED RETURNED RESULT VALUE EXPECTED "
				       "SEEN";
		if (!wrong)
			err = lin_add(history, &op);
	}
	if (wrong) {
		fprintf(stderr, "%s:%zu: %s\n", name, number, wrong);
		err = -EINVAL;
	} else if (!err && ferror(file)) {
		err = -EIO;
	}
	free(line);
	return err;
}
