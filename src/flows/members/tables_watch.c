/* SPDX-License-Identifier: Apache-2.0 */
/* See tables_watch.h. */
#include "tables_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "flows/context/context.h"
#include "flows/declare/declare.h"
#include "flows/open/keys.h"
#include "flows/open/source.h"
#include "flows/open/value.h"
#include "registry/client/client.h"

/* How long the helper waits for the registry's answer. */
#define ANSWER_NS (INT64_C(2) * NS_PER_S)

/* true: no memory. */
static bool new_resume(struct seat_watch *watch)
{
	uint32_t n = watch->flow->partitions ? watch->flow->partitions
					     : watch->flow->n_targets;
	struct open_resume *resume = malloc(
	    sizeof(*resume) + dfi__open_resume_size(n));

	if (!resume)
		return true;
	dfi__open_resume_init(resume, n, resume + 1);
	watch->resume = resume;
	watch->acks = calloc(watch->flow->n_targets, sizeof(watch->acks[0]));
	return !watch->acks;
}

bool dfi__tables_watch_new(struct seat_watch *watch)
{
	uint32_t n_partitions = watch->flow->partitions;
	uint32_t n_targets = watch->flow->n_targets;
	struct open_tables *tables;

	if (!n_partitions)
		return watch->flow->input_position &&
		    watch->role == OPEN_SOURCE && new_resume(watch);
	tables = malloc(
	    sizeof(*tables) + dfi__open_tables_size(n_partitions, n_targets));
	if (!tables)
		return true;
	dfi__open_tables_init(tables, n_partitions, n_targets, tables + 1);
	watch->tables = tables;
	return watch->flow->input_position && watch->role == OPEN_SOURCE &&
	    new_resume(watch);
}

/* The text of a key, below the flow's prefix. */
static void write_key(const struct seat_watch *watch,
    const struct open_key *open, char key[KEY_SIZE])
{
	size_t length;

	dfi__flow_prefix(key, watch->flow);
	length = strlen(key);
	dfi__open_key_write(key + length, open);
}

static void write_table_key(
    const struct seat_watch *watch, uint64_t number, char key[KEY_SIZE])
{
	write_key(watch,
	    &(struct open_key){ .kind = OPEN_KEY_TABLE, .number = number },
	    key);
}

/* ---- What the watch reports ---------------------------------------------- */

/* All that has to be moved has its last tuple: nobody is to take over. */
static bool is_over(const struct seat_watch *watch)
{
	return watch->finished && !watch->seats.n_attached[OPEN_SOURCE];
}

static void note_oldest(
    struct open_tables *tables, uint64_t number, bool is_there)
{
	if (is_there && (!tables->oldest || number < tables->oldest))
		tables->oldest = number;
	else if (!is_there && number == tables->oldest)
		tables->oldest++;
}

static void see_table(struct seat_watch *watch, uint64_t number,
    const struct registry_event *event)
{
	struct open_tables *tables = watch->tables;
	uint32_t n_partitions = tables->newest.n_partitions;
	uint32_t n_targets = tables->newest.n_targets;
	size_t size = dfi__open_table_size(n_partitions, n_targets);
	struct open_table table;
	void *memory;

	if (event->type != REGISTRY_PUT && event->replaced)
		return;
	note_oldest(tables, number, event->type == REGISTRY_PUT);
	if (event->type != REGISTRY_PUT) {
		dfi__open_tables_delete(tables, number);
		/* Who comes later counts from 1 as well. */
		if (!tables->listed && !watch->seats.n_attached[OPEN_TARGET])
			dfi__open_tables_restart(tables);
		return;
	}
	memory = malloc(size);
	if (!memory)
		return;
	dfi__open_table_init(&table, n_partitions, n_targets, memory);
	if (!is_over(watch) &&
	    dfi__open_table_decode(event->data, event->size, &table) &&
	    table.number == number) {
		table.revision = event->revision;
		(void)dfi__open_tables_put(tables, &table);
	}
	free(memory);
}

static void see_hand(
    struct seat_watch *watch, const struct registry_event *event)
{
	uint32_t n = watch->flow->partitions, words = open_bits_words(n);
	uint64_t *bits = calloc(words, 2 * sizeof(bits[0]));
	struct open_hand hand;

	if (bits && event->type == REGISTRY_PUT &&
	    dfi__open_hand_decode(
		event->data, event->size, n, bits, bits + words, &hand))
		dfi__open_tables_hand(watch->tables, &hand);
	free(bits);
}

static void see_assign(
    struct seat_watch *watch, const struct registry_event *event)
{
	uint32_t n = watch->flow->partitions;
	uint16_t *owners = calloc(n, sizeof(owners[0]));

	if (event->type != REGISTRY_PUT && !event->replaced)
		dfi__open_tables_assign(watch->tables, NULL);
	else if (owners && event->type == REGISTRY_PUT &&
	    dfi__open_assign_decode(event->data, event->size, n, owners))
		dfi__open_tables_assign(watch->tables, owners);
	free(owners);
}

/*
 * The end of the value: how many segments of a pair were acknowledged. Returns
 * the size of the rest.
 */
static size_t see_acks(struct seat_watch *watch, const struct open_key *key,
    const struct registry_event *event)
{
	struct pair_acks *acks = watch->acks, now = { .reported = false };

	if (!acks || event->type != REGISTRY_PUT ||
	    event->size < OPEN_ACKS_BYTES)
		return event->size;
	dfi__open_acks_decode(
	    (const uint8_t *)event->data + event->size - OPEN_ACKS_BYTES,
	    &now.pair, &now.segments);
	acks += key->target;
	if (key->source == watch->seats.own_seat &&
	    (now.pair != acks->pair || now.segments != acks->segments))
		*acks = now;
	return event->size - OPEN_ACKS_BYTES;
}

/* Without keys: up to where a target knows that all is acknowledged. */
static void see_low(struct seat_watch *watch, const struct open_key *key,
    const struct registry_event *event)
{
	struct open_resume *resume = watch->resume;
	size_t size = see_acks(watch, key, event);

	if (event->type != REGISTRY_PUT || !watch->seats.begun ||
	    key->source != watch->seats.own_seat ||
	    !dfi__open_low_decode(
		event->data, size, &resume->positions[key->target]))
		return;
	resume->incarnations[key->target] = key->incarnation;
}

/* What a target has acknowledged of a source. */
static void see_positions(struct seat_watch *watch, const struct open_key *key,
    const struct registry_event *event)
{
	uint32_t n = watch->flow->partitions, words = open_bits_words(n);
	uint64_t *held;
	size_t size;

	if (!n) {
		see_low(watch, key, event);
		return;
	}
	size = see_acks(watch, key, event);
	held = calloc(words + n, sizeof(held[0]));
	/* Targets say it once more when they have seen this source's key. */
	if (held && event->type == REGISTRY_PUT && watch->seats.begun &&
	    key->source == watch->seats.own_seat &&
	    dfi__open_positions_decode(
		event->data, size, n, held, held + words))
		dfi__open_resume_pair(
		    watch->resume, n, key->incarnation, held, held + words);
	free(held);
}

void dfi__tables_watch_see(struct seat_watch *watch, const struct open_key *key,
    const struct registry_event *event)
{
	if (key->kind == OPEN_KEY_TABLE)
		see_table(watch, key->number, event);
	else if (key->kind == OPEN_KEY_HAND)
		see_hand(watch, event);
	else if (key->kind == OPEN_KEY_ASSIGN)
		see_assign(watch, event);
	else if (key->kind == OPEN_KEY_LEAVE && event->type == REGISTRY_PUT)
		dfi__open_seats_will_leave(
		    &watch->seats, key->target, key->incarnation);
	else if (key->kind == OPEN_KEY_PAIR && watch->resume)
		see_positions(watch, key, event);
}

/* ---- What this endpoint says --------------------------------------------- */

/* The registry may come back, or be slow: all other errors are for good. */
static int again(int ret)
{
	return ret == -ETIMEDOUT || ret == -ENOTCONN ? -EAGAIN : 0;
}

/*
 * Under the lock: the table to be created, as its value, and its number; NULL:
 * none, or no memory.
 */
static uint8_t *next_table(
    struct seat_watch *watch, uint64_t *number, size_t *size)
{
	struct open_tables *tables = watch->tables;
	const struct open_table *table = &tables->next;
	uint8_t *bytes;

	if (is_over(watch))
		return NULL;
	/* The registry has lost it: it comes back before the next one. */
	if (tables->newest.number && !tables->listed)
		table = &tables->newest;
	else if ((!tables->newest.number &&
		     watch->seats.n_attached[OPEN_TARGET] <
			 watch->flow->min_targets) ||
	    !dfi__open_tables_propose(tables, &watch->seats))
		return NULL;
	*number = table->number;
	*size = dfi__open_table_bytes(table->n_partitions, table->n_targets);
	bytes = malloc(*size);
	if (bytes)
		dfi__open_table_encode(table, bytes);
	else
		tables->proposed = 0;
	return bytes;
}

static int create_table(struct seat_watch *watch, uint64_t number,
    const uint8_t *bytes, size_t size)
{
	char key[KEY_SIZE];
	int ret;

	write_table_key(watch, number, key);
	ret = dfi__client_create(watch->dfi->registry, key, bytes, size, 0,
	    clock_now_ns() + ANSWER_NS, NULL);
	if (ret < 0 && ret != -EEXIST) {
		pthread_mutex_lock(&watch->lock);
		watch->tables->proposed = 0;
		pthread_mutex_unlock(&watch->lock);
	}
	return again(ret);
}

static int delete_table(struct seat_watch *watch, uint64_t number)
{
	char key[KEY_SIZE];

	write_table_key(watch, number, key);
	return again(dfi__client_delete(
	    watch->dfi->registry, key, 0, clock_now_ns() + ANSWER_NS));
}

/* From the oldest on: who sees that the newest is gone counts from 1. */
static int delete_tables(struct seat_watch *watch, uint64_t end)
{
	uint64_t number;
	int ret = 0;

	pthread_mutex_lock(&watch->lock);
	number = watch->tables->oldest;
	pthread_mutex_unlock(&watch->lock);
	for (; !ret && number && number < end; number++)
		ret = delete_table(watch, number);
	return ret;
}

int dfi__tables_watch_propose(struct seat_watch *watch, uint64_t *cleaned)
{
	uint64_t number = 0, newest;
	uint8_t *bytes;
	size_t size = 0;
	int ret = 0;

	pthread_mutex_lock(&watch->lock);
	bytes = next_table(watch, &number, &size);
	newest = watch->tables->newest.number;
	pthread_mutex_unlock(&watch->lock);
	if (bytes)
		ret = create_table(watch, number, bytes, size);
	free(bytes);
	if (!ret && newest > *cleaned) {
		ret = delete_tables(watch, newest);
		if (!ret)
			*cleaned = newest;
	}
	return ret;
}

/* A key of this target: of kind OPEN_KEY_HAND or OPEN_KEY_LEAVE. */
static void write_own_key(
    const struct seat_watch *watch, enum open_key_kind kind, char key[KEY_SIZE])
{
	write_key(watch,
	    &(struct open_key){
		.kind = kind,
		.target = watch->seats.own_seat,
		.incarnation = watch->incarnation,
	    },
	    key);
}

int dfi__tables_watch_hand(
    struct seat_watch *watch, const struct open_hand *hand)
{
	uint32_t n = watch->flow->partitions;
	size_t size = dfi__open_hand_bytes(n);
	uint8_t *bytes = malloc(size);
	char key[KEY_SIZE];
	int ret;

	if (!bytes)
		return -EAGAIN;
	pthread_mutex_lock(&watch->lock);
	dfi__open_hand_encode(hand, n, bytes);
	pthread_mutex_unlock(&watch->lock);
	write_own_key(watch, OPEN_KEY_HAND, key);
	ret = dfi__client_put(watch->dfi->registry, key, bytes, size,
	    CLIENT_LEASED, clock_now_ns() + ANSWER_NS, NULL);
	free(bytes);
	return again(ret);
}

int dfi__tables_watch_will_leave(struct seat_watch *watch)
{
	char key[KEY_SIZE];

	write_own_key(watch, OPEN_KEY_LEAVE, key);
	return again(dfi__client_put(watch->dfi->registry, key, "", 0,
	    CLIENT_LEASED, clock_now_ns() + ANSWER_NS, NULL));
}

static void write_positions_key(
    const struct seat_watch *watch, uint32_t source, char key[KEY_SIZE])
{
	write_key(watch,
	    &(struct open_key){
		.kind = OPEN_KEY_PAIR,
		.source = source,
		.target = watch->seats.own_seat,
		.incarnation = watch->incarnation,
	    },
	    key);
}

int dfi__tables_watch_positions(struct seat_watch *watch, uint32_t source,
    const uint8_t *bytes, size_t size)
{
	char key[KEY_SIZE];

	write_positions_key(watch, source, key);
	return again(dfi__client_put(watch->dfi->registry, key, bytes, size,
	    CLIENT_LEASED, clock_now_ns() + ANSWER_NS, NULL));
}

void dfi__tables_watch_withdraw(struct seat_watch *watch, uint32_t source)
{
	char key[KEY_SIZE];

	write_positions_key(watch, source, key);
	dfi__client_forget(watch->dfi->registry, key);
}

/* No lease: others may not have seen it yet when this one ends. */
int dfi__tables_watch_give_up(struct seat_watch *watch, uint32_t source)
{
	char key[KEY_SIZE];

	write_key(watch,
	    &(struct open_key){ .kind = OPEN_KEY_GIVEN_UP, .source = source },
	    key);
	return again(dfi__client_put(watch->dfi->registry, key, "", 0, 0,
	    clock_now_ns() + ANSWER_NS, NULL));
}

bool dfi__tables_watch_leave(struct seat_watch *watch)
{
	char key[KEY_SIZE];
	bool finished;

	if (!watch->tables || !watch->key[0])
		return false;
	if (watch->role == OPEN_TARGET) {
		write_own_key(watch, OPEN_KEY_HAND, key);
		dfi__client_forget(watch->dfi->registry, key);
		write_own_key(watch, OPEN_KEY_LEAVE, key);
		dfi__client_forget(watch->dfi->registry, key);
	}
	/*
	 * Numbers and epochs never fall while endpoints can come: one that
	 * attaches meanwhile may know the newest table.
	 */
	pthread_mutex_lock(&watch->lock);
	finished = watch->finished && watch->tables->newest.number &&
	    !watch->restoring;
	pthread_mutex_unlock(&watch->lock);
	return finished;
}

/*
 * The registry says who is attached. The watch may show too late that another
 * one has left just before, and then nobody would be the last.
 */
void dfi__tables_watch_forget(struct seat_watch *watch)
{
	dfi__flow_forget_tables(
	    watch->dfi, watch->flow->name, clock_now_ns() + ANSWER_NS);
}
