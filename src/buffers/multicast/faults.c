/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network faults for tests; see faults.h. The same seed and the same datagrams
 * at the same times give the same faults.
 */
#include "faults.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "base/clock.h"
#include "base/error.h"

#define ENVIRONMENT "DFI_TEST_FAULTS"
#define UNIT UINT64_C(1000000000) /* probability 1 */
#define DELAY_MAX_US 10000000
#define HELD_MAX 4096 /* beyond this, datagrams are delivered at once */

struct held {
	TAILQ_ENTRY(held) link;
	int64_t due;
	uint32_t after; /* deliver after this many others; 0: only when due */
	size_t size;
	char data[];
};

struct faults {
	uint64_t drop, duplicate, reorder, delay; /* of UNIT */
	uint64_t delay_us, seed;
	uint64_t random; /* state */
	TAILQ_HEAD(, held) held;
	uint32_t n_held;
	struct faults_counts counts;
};

/* splitmix64 */
static uint64_t draw(struct faults *faults)
{
	uint64_t z = faults->random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static bool happens(struct faults *faults, uint64_t probability)
{
	return draw(faults) % UNIT < probability;
}

/*
 * Parse digits at *at. false: there are none, or the number exceeds the limit.
 */
static bool read_number(const char **at, uint64_t limit, uint64_t *value)
{
	const char *start = *at;
	uint64_t digit;

	*value = 0;
	for (; **at >= '0' && **at <= '9'; ++*at) {
		digit = (uint64_t)(**at - '0');
		if (digit > limit || *value > (limit - digit) / 10)
			return false;
		*value = *value * 10 + digit;
	}
	return *at != start;
}

/* Parse "0.05", whatever the decimal point of the locale. */
static bool read_probability(const char **at, uint64_t *value)
{
	uint64_t unit = UNIT, whole;

	if (!read_number(at, 1, &whole))
		return false;
	*value = whole * UNIT;
	if (**at == '.')
		for (++*at; **at >= '0' && **at <= '9'; ++*at) {
			unit /= 10;
			*value += (uint64_t)(**at - '0') * unit;
		}
	return *value <= UNIT;
}

static bool read_entry(struct faults *faults, const char **at)
{
	const struct {
		const char *name;
		uint64_t *value;
		uint64_t limit; /* 0: a probability */
	} entries[] = {
		{ "drop=", &faults->drop, 0 },
		{ "duplicate=", &faults->duplicate, 0 },
		{ "reorder=", &faults->reorder, 0 },
		{ "delay=", &faults->delay, 0 },
		{ "delay_us=", &faults->delay_us, DELAY_MAX_US },
		{ "seed=", &faults->seed, UINT64_MAX },
	};
	size_t i, length;

	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		length = strlen(entries[i].name);
		if (strncmp(*at, entries[i].name, length) != 0)
			continue;
		*at += length;
		return entries[i].limit
		    ? read_number(at, entries[i].limit, entries[i].value)
		    : read_probability(at, entries[i].value);
	}
	return false;
}

static int read_text(struct faults *faults, const char *text)
{
	const char *at = text, *entry;
	bool valid;

	do {
		entry = at;
		valid = read_entry(faults, &at) && (*at == ',' || !*at);
		if (!valid)
			return dfi__fail(-EINVAL,
			    "%s=%s: '%.*s' is not valid: use drop, duplicate, "
			    "reorder or delay, each with a probability from 0 "
			    "to 1, delay_us (up to %d) or seed, as in "
			    "drop=0.01,seed=7",
			    ENVIRONMENT, text, (int)strcspn(entry, ","), entry,
			    DELAY_MAX_US);
	} while (*at++);
	return 0;
}

int dfi__faults_parse(const char *text, uint64_t salt, struct faults **faults)
{
	struct faults *parsed = calloc(1, sizeof(*parsed));
	int ret;

	if (!parsed)
		return dfi__fail(-ENOMEM, "no memory to inject faults");
	parsed->delay_us = 1000;
	parsed->seed = 1;
	TAILQ_INIT(&parsed->held);
	ret = read_text(parsed, text);
	if (ret < 0) {
		free(parsed);
		return ret;
	}
	parsed->random = parsed->seed ^ salt * 0x9e3779b97f4a7c15;
	draw(parsed);
	*faults = parsed;
	return 0;
}

int dfi__faults_open(uint64_t salt, struct faults **faults)
{
	const char *text = getenv(ENVIRONMENT);

	*faults = NULL;
	return text && *text ? dfi__faults_parse(text, salt, faults) : 0;
}

static void drop_held(struct faults *faults, struct held *held)
{
	TAILQ_REMOVE(&faults->held, held, link);
	faults->n_held--;
	free(held);
}

void dfi__faults_close(struct faults *faults)
{
	if (!faults)
		return;
	while (!TAILQ_EMPTY(&faults->held))
		drop_held(faults, TAILQ_FIRST(&faults->held));
	free(faults);
}

/* false: the datagram can't be held back. */
static bool hold(struct faults *faults, const void *data, size_t size,
    int64_t due, uint32_t after)
{
	struct held *held = faults->n_held < HELD_MAX
	    ? malloc(sizeof(*held) + size)
	    : NULL;

	if (!held)
		return false;
	held->due = due;
	held->after = after;
	held->size = size;
	memcpy(held->data, data, size);
	TAILQ_INSERT_TAIL(&faults->held, held, link);
	faults->n_held++;
	return true;
}

/* A random time up to delay_us from now, at least 1 ns. */
static int64_t later(struct faults *faults, int64_t now)
{
	return now + 1 +
	    (int64_t)(draw(faults) % (faults->delay_us * 1000 + 1));
}

/* Draw all faults for each datagram, even after one of them has decided. */
static void pass(struct faults *faults, const void *data, size_t size,
    int64_t now, faults_deliver *deliver, void *arg)
{
	bool drops = happens(faults, faults->drop);
	bool duplicates = happens(faults, faults->duplicate);
	bool reorders = happens(faults, faults->reorder);
	bool delays = happens(faults, faults->delay);
	uint32_t after = 1 + (uint32_t)(draw(faults) % 3);
	int64_t due = later(faults, now), second = later(faults, now);

	faults->counts.received++;
	if (drops) {
		faults->counts.dropped++;
		return;
	}
	if (duplicates && hold(faults, data, size, second, 0))
		faults->counts.duplicated++;
	if (delays && hold(faults, data, size, due, 0)) {
		faults->counts.delayed++;
		return;
	}
	if (reorders &&
	    hold(faults, data, size, now + 1 + (int64_t)faults->delay_us * 1000,
		after + 1)) {
		faults->counts.reordered++;
		return;
	}
	deliver(arg, data, size);
}

void dfi__faults_receive(struct faults *faults, const void *data, size_t size,
    int64_t now, faults_deliver *deliver, void *arg)
{
	struct held *held, *next;

	if (!faults) {
		deliver(arg, data, size);
		return;
	}
	pass(faults, data, size, now, deliver, arg);
	for (held = TAILQ_FIRST(&faults->held); held; held = next) {
		next = TAILQ_NEXT(held, link);
		if (!held->after || --held->after)
			continue;
		deliver(arg, held->data, held->size);
		drop_held(faults, held);
	}
}

void dfi__faults_progress(
    struct faults *faults, int64_t now, faults_deliver *deliver, void *arg)
{
	struct held *held, *next;

	if (!faults)
		return;
	for (held = TAILQ_FIRST(&faults->held); held; held = next) {
		next = TAILQ_NEXT(held, link);
		if (held->due > now)
			continue;
		deliver(arg, held->data, held->size);
		drop_held(faults, held);
	}
}

int64_t dfi__faults_due(const struct faults *faults)
{
	const struct held *held;
	int64_t due = DEADLINE_NEVER;

	if (!faults)
		return due;
	TAILQ_FOREACH(held, &faults->held, link)
	if (held->due < due)
		due = held->due;
	return due;
}

void dfi__faults_query(
    const struct faults *faults, struct faults_counts *counts)
{
	*counts = faults->counts;
}
