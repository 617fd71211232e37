/* SPDX-License-Identifier: Apache-2.0 */
/* What producers, consumers and their leader agree on. */
#ifndef STREAM_H
#define STREAM_H

#include <dfi/dfi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FLOW "stream.events"
#define SECOND_NS UINT64_C(1000000000)

enum {
	PARTITIONS = 32,
	PRODUCERS = 8, /* at most */
	CONSUMERS = 8,
	WINDOW_MS = 1000,
	LATENESS_MS = 200, /* an event that is later corrects a result */
	EVICT_MS = 500,    /* a consumer that takes nothing is put out */
};

/* A row of an event file: of a sensor, at a time, in milliseconds from 1 on. */
struct event {
	uint64_t time, sensor;
	int64_t value;
};

/* A tuple of the flow. */
struct tuple {
	uint64_t sensor; /* the key */
	uint64_t time;
	int64_t value;
	/*
	 * The place of the event among those of its producer in its partition,
	 * from 1 on. It follows from the file, whenever the file is read.
	 */
	uint64_t number;
	uint32_t producer, unused;
};

/* What the leader of a run sees of its producers. */
struct board {
	_Atomic uint64_t rows[PRODUCERS], time[PRODUCERS], passes[PRODUCERS];
};

/* stream.c */
extern const struct dfi_schema tuple_schema;
uint64_t now_ns(void); /* CLOCK_MONOTONIC */
void sleep_ms(unsigned ms);

/* Create the flow unless it is there. 0, or -1 after a complaint. */
int create_flow(struct dfi *dfi);

/* Complain about a call of the library. Returns -1. */
int flow_failed(const char *what);

static inline uint32_t partition_of(uint64_t sensor)
{
	return dfi_hash64_partition(sensor, PARTITIONS);
}

/* The programs: exit statuses. board: NULL, or the leader's. */
int produce(const char *folder, unsigned number, unsigned long rate,
    struct board *board);
int consume(const char *folder);

struct run_options {
	const char *folder;
	unsigned producers, consumers, seconds;
	unsigned long rate;
	bool kill_producer, kill_consumer, stop_consumer, add_consumer;
};
int run(const struct run_options *options);

#endif
