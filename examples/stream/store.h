/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of results: a file for each partition, FOLDER/partition.N, in which
 * results and the numbers of the events that they contain change together. A
 * partition has one owner, by epoch: a former owner that wakes up late is
 * refused. The files survive the processes, not the machine: nothing is synced.
 */
#ifndef STREAM_STORE_H
#define STREAM_STORE_H

#include "stream.h"

/* The aggregates of a sensor in a window of event time. */
struct result {
	uint64_t window, sensor; /* the window's begin */
	uint64_t count;
	int64_t sum, min, max;
	uint64_t corrections; /* by events that came after it was complete */
};

struct partition {
	unsigned number;
	uint64_t instance, epoch; /* of the flow, and of its owner */
	uint64_t seen[PRODUCERS]; /* the last event's number, of each */
	struct result *results;   /* by hash; count 0: none */
	uint64_t n, room;         /* room is 0 or a power of 2 */
};

/* Add an event to its result. late: the window was complete. -ENOMEM. */
int partition_add(
    struct partition *partition, const struct tuple *tuple, bool late);

/*
 * Read a partition; one without a file is empty. 0, or -1 after a complaint.
 * The caller frees it.
 */
int partition_load(
    const char *folder, unsigned number, struct partition *partition);

/*
 * Read a partition for a new owner, which others respect from then on. -ESTALE:
 * there is a later owner.
 */
int partition_take(const char *folder, unsigned number, uint64_t instance,
    uint64_t epoch, struct partition *partition);

/* Replace the file. -ESTALE: there is a later owner, and the file is his. */
int partition_save(const char *folder, const struct partition *partition);

void partition_free(struct partition *partition);

/* Set seen[p] to the numbers of a producer's last stored event. */
int store_seen(const char *folder, unsigned producer, uint64_t *seen);

struct store_sums {
	uint64_t events, results, corrections;
};
int store_sums(const char *folder, struct store_sums *sums);

/* Print all results, by window and sensor: "window,sensor,count,sum,min,max".
 */
int store_print(const char *folder);

#endif
