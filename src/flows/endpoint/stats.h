/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of a context's open sources and targets, and their counters, for
 * other threads and processes.
 */
#ifndef DFI_FLOWS_ENDPOINT_STATS_H
#define DFI_FLOWS_ENDPOINT_STATS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <dfi/stats.h>
#include "flows/context/network.h"

struct dfi;
struct stats_entry;

/* Reads the counters of an entry's handle; on any thread. */
typedef void stats_fn(
    const struct stats_entry *entry, struct dfi_endpoint_stats *stats);

/* Part of each handle. */
struct stats_entry {
	TAILQ_ENTRY(stats_entry) link;
	uint64_t id; /* increases with each opened handle */
	stats_fn *read;
};

TAILQ_HEAD(stats_entries, stats_entry);

/* The list of a context. */
struct stats_list {
	pthread_mutex_t lock; /* protects the rest */
	struct stats_entries entries;
	uint64_t last_id;
};

/* Begin to answer queries. Stop before anything is closed. */
int dfi__stats_start(struct dfi *dfi);
void dfi__stats_stop(struct dfi *dfi);

/* Add an opened handle; remove it before it is freed. */
void dfi__stats_add(struct dfi *dfi, struct stats_entry *entry, stats_fn *read);
void dfi__stats_remove(struct dfi *dfi, struct stats_entry *entry);

stats_fn dfi__source_stats;
stats_fn dfi__target_stats;

/* The most handles in one answer. */
#define STATS_PAGE 128

/* One answer: some of the endpoints. Only the first has the other fields. */
struct stats_page {
	uint64_t node;
	struct dfi_transport_stats transports[NETWORK_DEVICES];
	uint32_t n_transports;
	struct dfi_error_info errors[DFI_MAX_ERRORS];
	uint32_t n_errors;
	uint32_t n_endpoints;
	uint64_t ids[STATS_PAGE]; /* of entries, ascending */
	struct dfi_endpoint_stats endpoints[STATS_PAGE];
	bool more; /* there are further handles */
};

/* Read the handles with ids above after; 0: the first page. */
void dfi__stats_read(struct dfi *dfi, uint64_t after, struct stats_page *page);

/* NULL: no memory. The caller frees it with free(). */
void *dfi__stats_encode(const struct stats_page *page, size_t *size);

/*
 * Decode and check an answer for ids above after, as another process sent it:
 * -EBADMSG, -ENOMEM.
 */
int dfi__stats_decode(
    const void *data, size_t size, uint64_t after, struct stats_page *page);

#endif
