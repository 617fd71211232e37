/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of a load. It keeps requests outstanding at a store, or begins
 * them at a rate, and notes when they end. A small interface hides the store,
 * so that the same code drives this one and those it is compared with.
 */
#ifndef KV_LOAD_H
#define KV_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../../common/stats.h"
#include "load_backend.h"
#include "load_keys.h"

/* What requests are like. */
struct load_mix {
	const char *name;
	double reads; /* share, 0 to 1 */
	enum load_distribution distribution;
};

/* YCSB's core workloads and the one of the DFI paper; NULL: no such name. */
const struct load_mix *load_mix_find(const char *name);
#define LOAD_MIXES "a, b, c, 95/5"

struct load_plan {
	const struct load_backend *backend;
	const char *where;
	struct load_mix mix;
	double theta;
	uint64_t records;
	uint32_t value_size;
	uint32_t clients;
	uint32_t outstanding; /* lanes of a client */
	double rate;          /* of all clients, a second; 0: closed loop */
	uint64_t warm_up_ns, length_ns;
	uint64_t seed;
	bool fill;  /* write all records before */
	bool apart; /* the first client does not count in the series */
};

#define LOAD_MAX_VALUE 4096
#define LOAD_SLOT_NS 1000000 /* of the series of completions */

enum load_state {
	LOAD_STARTING = 0,
	LOAD_READY,
	LOAD_ENDED,
};

enum {
	LOAD_READ = 0,
	LOAD_UPDATE,
	LOAD_KINDS,
};

/* The results of one client, in memory that it shares with its leader. */
struct load_share {
	_Atomic uint32_t state; /* enum load_state */
	uint64_t completed;     /* within the measured time */
	uint64_t missing, unknown, refused, wrong, unfinished;
	uint64_t cpu_ns; /* processor time, within the measured time */
	struct histogram latency[LOAD_KINDS]; /* ns */
	_Atomic uint32_t slots[]; /* completions in each LOAD_SLOT_NS */
};

/* The memory that the clients of a load share with their leader. */
struct load_board {
	_Atomic uint64_t start_ns; /* CLOCK_MONOTONIC; 0: wait */
	size_t share_size;         /* of each client, one behind the other */
	uint32_t n_slots;
	char reserved[44];
	char shares[];
};

static inline struct load_share *load_share_of(
    struct load_board *board, uint32_t client)
{
	return (void *)(board->shares + client * board->share_size);
}

uint64_t load_now(void);

/*
 * Connect, write this client's part of the records if the plan asks for it,
 * wait for the start, and make requests until the end. Returns 0, or -1 after a
 * complaint.
 */
int load_client(
    const struct load_plan *plan, uint32_t number, struct load_board *board);

#endif
