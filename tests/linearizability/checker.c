/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search. Calls and returns are in a list in the order of time. An
 * operation may be next in the order if its call is before the first return in
 * the list; then its call and return leave the list. If none may be next, the
 * last one is put back and the following one is tried.
 *
 * An operation that never changes anything, such as a get, is taken as soon as
 * it fits, and no other one is tried in its place: each order that has it later
 * is also valid with it here. Without this, a hot key with many readers has a
 * search path for each set of them.
 *
 * Operations of unknown outcome have no return and may be left out. Each would
 * double the work. But in an order with as few of them as possible, each
 * changes the value, and the next operation depends on that: it is known and no
 * put, or it is an unknown cas that takes effect. Otherwise the unknown one
 * could be left out. So only such operations are tried. Of equal unknown ones,
 * the first is as good as any, since none returns.
 */
#include "checker.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define MAX_STATES (UINT32_C(1) << 24)

/* A call or a return in the list. 0 is its head and its end. */
struct node {
	uint32_t prev, next;
	uint32_t op;
	uint32_t match; /* a call's return; a return: NONE */
};

/* The events from which the list is made. */
struct event {
	uint64_t time;
	uint32_t op;
	int returns;
};

/* An operation of unknown outcome. */
struct open_op {
	uint32_t op;
	uint32_t twin; /* the one before that does the same; NONE */
	bool used;
};

/* One operation that was put in order, and what was before. */
struct step {
	uint32_t node; /* NONE: unknown, */
	uint32_t open; /* this one */
	uint64_t value;
	uint64_t hash[2];
	bool unseen;
	bool only; /* no other one is tried in its place */
};

struct state {
	uint64_t hash[2];
	uint32_t check; /* of which it is; others are empty */
};

struct lin_checker {
	struct lin_op *ops; /* a copy, by key and invocation */
	struct node *nodes;
	struct open_op *open;
	struct step *steps;
	struct event *events;
	uint32_t *calls; /* the node of each operation's call */
	size_t capacity;
	size_t n_nodes, n_open, n_steps;
	struct state *states;
	uint32_t n_states, mask, check;
	/* Where the search is. */
	uint64_t value;
	uint64_t hash[2];
	bool unseen; /* the last one was unknown: the next depends on it */
};

struct lin_checker *lin_checker_new(void)
{
	struct lin_checker *checker = calloc(1, sizeof(*checker));

	if (!checker)
		return NULL;
	checker->mask = 1023;
	checker->states = calloc(1024, sizeof(struct state));
	if (!checker->states) {
		free(checker);
		return NULL;
	}
	return checker;
}

void lin_checker_free(struct lin_checker *checker)
{
	if (!checker)
		return;
	free(checker->ops);
	free(checker->nodes);
	free(checker->open);
	free(checker->steps);
	free(checker->events);
	free(checker->calls);
	free(checker->states);
	free(checker);
}

/* at is where a pointer is. */
static bool resize(void *at, size_t n, size_t size)
{
	void *bytes;

	memcpy(&bytes, at, sizeof(bytes));
	bytes = realloc(bytes, n * size);
	if (bytes)
		memcpy(at, &bytes, sizeof(bytes));
	return bytes != NULL;
}

static bool reserve(struct lin_checker *checker, size_t n)
{
	if (n <= checker->capacity)
		return true;
	n = n < 256 ? 256 : n + n / 2;
	if (!resize(&checker->ops, n, sizeof(*checker->ops)) ||
	    !resize(&checker->nodes, 2 * n + 1, sizeof(*checker->nodes)) ||
	    !resize(&checker->open, n, sizeof(*checker->open)) ||
	    !resize(&checker->steps, n, sizeof(*checker->steps)) ||
	    !resize(&checker->calls, n, sizeof(*checker->calls)) ||
	    !resize(&checker->events, 2 * n, sizeof(*checker->events)))
		return false;
	checker->capacity = n;
	return true;
}

static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static bool grow_states(struct lin_checker *checker)
{
	uint32_t i, j, mask = 2 * checker->mask + 1;
	struct state *states = calloc((size_t)mask + 1, sizeof(*states));

	if (!states)
		return false;
	for (i = 0; i <= checker->mask; i++) {
		if (checker->states[i].check != checker->check)
			continue;
		j = (uint32_t)checker->states[i].hash[0] & mask;
		while (states[j].check == checker->check)
			j = (j + 1) & mask;
		states[j] = checker->states[i];
	}
	free(checker->states);
	checker->states = states;
	checker->mask = mask;
	return true;
}

enum seen {
	SEEN_NEW,
	SEEN_BEFORE,
	SEEN_FULL
};

/*
 * Remember a set of operations, by a sum of 128 bits, with its value. If two
 * sets had the same sum, a valid history could be reported as invalid, never
 * the other way round.
 */
static enum seen remember(struct lin_checker *checker, const uint64_t hash[2],
    uint64_t value, bool unseen)
{
	uint64_t sums[2] = { hash[0] ^ mix(value << 1 | unseen),
		hash[1] ^ mix(~(value << 1 | unseen)) };
	uint32_t i;

	for (i = (uint32_t)sums[0] & checker->mask;
	     checker->states[i].check == checker->check;
	     i = (i + 1) & checker->mask)
		if (checker->states[i].hash[0] == sums[0] &&
		    checker->states[i].hash[1] == sums[1])
			return SEEN_BEFORE;
	checker->states[i].hash[0] = sums[0];
	checker->states[i].hash[1] = sums[1];
	checker->states[i].check = checker->check;
	if (++checker->n_states > MAX_STATES)
		return SEEN_FULL;
	if (checker->n_states > checker->mask / 2 && !grow_states(checker))
		return SEEN_FULL;
	return SEEN_NEW;
}

/* Whether it can be next, at this value, and the value after it. */
static bool fits(const struct lin_op *op, uint64_t *value)
{
	bool done = op->result == LIN_DONE;

	switch (op->kind) {
	case LIN_GET:
		return *value == op->seen;
	case LIN_DELETE:
		if ((*value != LIN_ABSENT) != done)
			return false;
		*value = LIN_ABSENT;
		return true;
	case LIN_CAS:
		if ((*value == op->expected) != done)
			return false;
		if (done)
			*value = op->value;
		return done || op->seen == LIN_ANY || op->seen == *value;
	default:
		*value = op->value;
		return true;
	}
}

/*
 * Whether a fitting operation changes no value, here and wherever else it fits.
 * A put of the current value does so only here.
 */
static bool changes_nothing(
    const struct lin_op *op, uint64_t before, uint64_t behind)
{
	return op->kind != LIN_PUT && before == behind;
}

/* The same of one of unknown outcome: whether it changes the value. */
static bool changes(const struct lin_op *op, bool unseen, uint64_t *value)
{
	uint64_t old = *value;

	if (op->kind == LIN_CAS ? old != op->expected : unseen)
		return false;
	*value = op->kind == LIN_DELETE ? LIN_ABSENT : op->value;
	return *value != old;
}

static void unlink_node(struct node *nodes, uint32_t i)
{
	nodes[nodes[i].prev].next = nodes[i].next;
	nodes[nodes[i].next].prev = nodes[i].prev;
}

static void relink_node(struct node *nodes, uint32_t i)
{
	nodes[nodes[i].prev].next = i;
	nodes[nodes[i].next].prev = i;
}

/* Put an operation in order, if what is reached is new. */
static enum seen take(struct lin_checker *checker, uint32_t op, uint32_t node,
    uint32_t open, uint64_t value, bool only)
{
	uint64_t bits = (uint64_t)op << 1;
	uint64_t hash[2] = { checker->hash[0] ^ mix(bits),
		checker->hash[1] ^ mix(bits | 1) };
	enum seen seen = remember(checker, hash, value, node == NONE);
	struct step *step;

	if (seen != SEEN_NEW)
		return seen;
	step = &checker->steps[checker->n_steps++];
	step->node = node;
	step->open = open;
	step->value = checker->value;
	step->unseen = checker->unseen;
	step->only = only;
	memcpy(step->hash, checker->hash, sizeof(hash));
	memcpy(checker->hash, hash, sizeof(hash));
	checker->value = value;
	checker->unseen = node == NONE;
	if (node == NONE) {
		checker->open[open].used = true;
	} else {
		unlink_node(checker->nodes, node);
		unlink_node(checker->nodes, checker->nodes[node].match);
	}
	return SEEN_NEW;
}

static const struct step *put_back(struct lin_checker *checker)
{
	const struct step *step = &checker->steps[--checker->n_steps];

	checker->value = step->value;
	checker->unseen = step->unseen;
	memcpy(checker->hash, step->hash, sizeof(step->hash));
	if (step->node == NONE) {
		checker->open[step->open].used = false;
	} else {
		relink_node(checker->nodes, checker->nodes[step->node].match);
		relink_node(checker->nodes, step->node);
	}
	return step;
}

/* All known ones that can be next and change nothing. */
static enum seen take_readers(
    struct lin_checker *checker, const struct lin_op *ops, size_t *n_left)
{
	struct node *nodes = checker->nodes;
	uint32_t node = nodes[0].next, prev;
	enum seen seen;
	uint64_t value;

	for (; node && nodes[node].match != NONE; node = nodes[prev].next) {
		const struct lin_op *op = &ops[nodes[node].op];

		value = checker->value;
		prev = node;
		if (!fits(op, &value) ||
		    !changes_nothing(op, checker->value, value))
			continue;
		prev = nodes[node].prev;
		seen = take(checker, nodes[node].op, node, NONE, value, true);
		if (seen != SEEN_NEW)
			return seen;
		--*n_left;
	}
	return SEEN_NEW;
}

/* The first known one from a node on that can be next. */
static enum seen take_known(
    struct lin_checker *checker, const struct lin_op *ops, uint32_t *node)
{
	const struct lin_op *op;
	enum seen seen;
	uint64_t value;

	for (; *node && checker->nodes[*node].match != NONE;
	     *node = checker->nodes[*node].next) {
		op = &ops[checker->nodes[*node].op];
		value = checker->value;
		if ((checker->unseen && op->kind == LIN_PUT) ||
		    !fits(op, &value))
			continue;
		seen = take(checker, checker->nodes[*node].op, *node, NONE,
		    value, false);
		if (seen != SEEN_BEFORE)
			return seen;
	}
	return SEEN_BEFORE;
}

/* The same for unknown ones that were invoked before the first return. */
static enum seen take_open(struct lin_checker *checker,
    const struct lin_op *ops, uint64_t until, uint32_t from)
{
	struct open_op *open;
	enum seen seen;
	uint64_t value;
	uint32_t i;

	for (i = from; i < checker->n_open; i++) {
		open = &checker->open[i];
		if (ops[open->op].invoked > until)
			break;
		value = checker->value;
		if (open->used ||
		    (open->twin != NONE && !checker->open[open->twin].used) ||
		    !changes(&ops[open->op], checker->unseen, &value))
			continue;
		seen = take(checker, open->op, NONE, i, value, false);
		if (seen != SEEN_BEFORE)
			return seen;
	}
	return SEEN_BEFORE;
}

/* The first return in the list; there is one as long as it is not empty. */
static uint32_t first_return(const struct lin_checker *checker)
{
	uint32_t i = checker->nodes[0].next;

	while (checker->nodes[i].match != NONE)
		i = checker->nodes[i].next;
	return i;
}

static void note(struct lin_checker *checker, const struct lin_op *stuck,
    size_t n_explained, struct lin_verdict *verdict)
{
	if (verdict->noted && n_explained <= verdict->n_explained)
		return;
	verdict->noted = true;
	verdict->n_explained = n_explained;
	verdict->value = checker->value;
	verdict->stuck = *stuck;
}

/*
 * Put back the last operation in whose place another one may be tried, and all
 * after it. node and open get the next one. False: there is none.
 */
static bool back_up(
    struct lin_checker *checker, uint32_t *node, uint32_t *open, size_t *n_left)
{
	const struct step *step;

	do {
		if (!checker->n_steps)
			return false;
		step = put_back(checker);
		*n_left += step->node != NONE;
	} while (step->only);
	if (step->node == NONE) {
		*node = first_return(checker);
		*open = step->open + 1;
	} else {
		*node = checker->nodes[step->node].next;
		*open = 0;
	}
	return true;
}

static enum lin_answer search(struct lin_checker *checker,
    const struct lin_op *ops, size_t n_known, struct lin_verdict *verdict)
{
	uint32_t node = 0, open = 0;
	size_t n_left = n_known;
	enum seen seen = SEEN_NEW; /* what is reached now */

	while (n_left) {
		if (seen == SEEN_NEW) {
			seen = take_readers(checker, ops, &n_left);
			node = checker->nodes[0].next;
			open = 0;
		} else if (back_up(checker, &node, &open, &n_left)) {
			seen = SEEN_NEW;
		} else {
			return LIN_WRONG;
		}
		verdict->n_steps++;
		if (seen == SEEN_NEW && n_left) {
			seen = take_known(checker, ops, &node);
			if (seen == SEEN_BEFORE) { /* node: the first return */
				note(checker, &ops[checker->nodes[node].op],
				    n_known - n_left, verdict);
				seen = take_open(checker, ops,
				    ops[checker->nodes[node].op].returned,
				    open);
			}
			if (seen == SEEN_NEW)
				n_left -= !checker->unseen;
		}
		if (seen == SEEN_FULL)
			return LIN_UNDECIDED;
	}
	return LIN_RIGHT;
}

static int by_key(const void *a, const void *b)
{
	const struct lin_op *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->invoked < y->invoked ? -1 : x->invoked > y->invoked;
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->returns - y->returns; /* touching ones are concurrent */
}

static void add_open(
    struct lin_checker *checker, const struct lin_op *ops, uint32_t op)
{
	struct open_op *open = &checker->open[checker->n_open];
	uint32_t i = (uint32_t)checker->n_open++;

	open->op = op;
	open->used = false;
	open->twin = NONE;
	while (i-- && open->twin == NONE)
		if (ops[checker->open[i].op].kind == ops[op].kind &&
		    ops[checker->open[i].op].value == ops[op].value &&
		    ops[checker->open[i].op].expected == ops[op].expected)
			open->twin = i;
}

/* The list of n events; calls[] gets where each operation's call is. */
static void make_list(struct lin_checker *checker, size_t n)
{
	struct node *nodes = checker->nodes;
	uint32_t i, op, last = (uint32_t)n;

	for (i = 0; i <= last; i++) {
		nodes[i].prev = i ? i - 1 : last;
		nodes[i].next = i < last ? i + 1 : 0;
		nodes[i].match = NONE;
		if (!i)
			continue;
		op = nodes[i].op = checker->events[i - 1].op;
		if (checker->events[i - 1].returns)
			nodes[checker->calls[op]].match = i;
		else
			checker->calls[op] = i;
	}
}

/* All operations of one key, by their invocation. */
static enum lin_answer check_key(struct lin_checker *checker,
    const struct lin_op *ops, size_t n, struct lin_verdict *verdict)
{
	size_t n_events = 0;
	uint32_t i;

	if (++checker->check == 0) {
		memset(checker->states, 0,
		    ((size_t)checker->mask + 1) * sizeof(struct state));
		checker->check = 1;
	}
	checker->n_states = 0;
	checker->n_open = 0;
	checker->n_steps = 0;
	checker->value = LIN_ABSENT;
	checker->unseen = false;
	memset(checker->hash, 0, sizeof(checker->hash));
	for (i = 0; i < n; i++) {
		if (ops[i].result == LIN_UNKNOWN) {
			if (ops[i].kind != LIN_GET)
				add_open(checker, ops, i);
			continue;
		}
		checker->events[n_events++] = (struct event){ ops[i].invoked, i,
			0 };
		checker->events[n_events++] = (struct event){ ops[i].returned,
			i, 1 };
	}
	if (n_events)
		qsort(checker->events, n_events, sizeof(struct event), by_time);
	make_list(checker, n_events);
	return search(checker, ops, n_events / 2, verdict);
}

enum lin_answer lin_check(struct lin_checker *checker, const struct lin_op *ops,
    size_t n, struct lin_verdict *verdict)
{
	size_t from, to;

	memset(verdict, 0, sizeof(*verdict));
	if (n >= NONE / 2 || !reserve(checker, n))
		return verdict->answer = LIN_NO_MEMORY;
	if (n)
		memcpy(checker->ops, ops, n * sizeof(*ops));
	ops = checker->ops;
	if (n)
		qsort(checker->ops, n, sizeof(*ops), by_key);
	for (from = 0; from < n && verdict->answer == LIN_RIGHT; from = to) {
		for (to = from; to < n && ops[to].key == ops[from].key;)
			to++;
		verdict->key = ops[from].key;
		verdict->n_ops = to - from;
		verdict->noted = false;
		verdict->answer = check_key(
		    checker, ops + from, to - from, verdict);
	}
	return verdict->answer;
}
