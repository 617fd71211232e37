/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads counters: for the owner of a handle, and on the control thread for
 * other processes. The control thread reads only words that the owner writes
 * atomically, and fields that don't change while a handle is open.
 */
#include "stats.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/error_list.h"
#include "transport/transport.h"
#include "flows/context/context.h"
#include "flows/context/network.h"
#include "source.h"
#include "target.h"

/* The tuples in the rings; a partial aggregate counts by its size. */
static uint64_t source_sent(const struct dfi_source *source)
{
	uint64_t n = 0;
	uint32_t t;

	for (t = 0; t < source->n_lanes; t++)
		n += atomic_peek(&source->writers[t].total);
	return n;
}

static uint64_t source_tuples(
    const struct dfi_source *source, const struct lane_counts *counts)
{
	/* Without partial aggregates, all that was sent are tuples. */
	return counts->record_size ? counts->combined + counts->raw
				   : source_sent(source);
}

uint64_t dfi__source_taken(struct dfi_source *source)
{
	struct lane_counts counts;
	uint64_t n, bytes = 0;
	uint32_t t;

	source_lock(source);
	counts = lane_counts(source);
	n = source_tuples(source, &counts);
	for (t = 0; t < source->n_lanes; t++)
		if (!source_lane_is_closed(source, t))
			bytes += source_filled(source, t);
	bytes += lane_waiting_bytes(source);
	source_unlock(source);
	return n + bytes / source->head.tuple_size;
}

/* Bytes that were built, plus bytes that were copied later. */
static uint64_t source_copied(
    const struct dfi_source *source, const struct lane_counts *counts)
{
	uint64_t n = source_tuples(source, counts) * source->head.tuple_size +
	    counts->records * counts->record_size;
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++)
		n += atomic_peek(&source->rings[t].moved);
	/* An open flow's source has no rings of its own. */
	for (t = 0; source->flow.membership && t < source->n_lanes; t++)
		n += atomic_peek(&source->writers[t].moved);
	return source->replica_writer
	    ? n + atomic_peek(&source->replica_writer->lane.moved)
	    : n;
}

static uint64_t target_tuples(const struct dfi_target *target)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < target->n_readers; i++)
		n += atomic_peek(&target->readers[i].total);
	return n;
}

void dfi_source_query(
    const struct dfi_source *source, struct dfi_source_stats *stats)
{
	const struct wait_counts *counts;
	struct lane_counts lanes;
	uint32_t t;

	if (!stats) {
		dfi__fail(-EINVAL, "dfi_source_query: stats is NULL");
		return;
	}
	memset(stats, 0, sizeof(*stats));
	if (handle_check(source, source ? &source->magic : NULL, SOURCE_MAGIC) <
	    0)
		return;
	counts = &source->wait_time.counts;
	lanes = lane_counts(source);
	stats->tuples = source_tuples(source, &lanes);
	stats->bytes = source_sent(source) * source->head.tuple_size;
	for (t = 0; t < source->n_lanes; t++) {
		stats->segments += atomic_peek(&source->writers[t].segments);
		stats->partial_segments += atomic_peek(
		    &source->writers[t].partial_segments);
	}
	stats->stalls = atomic_peek(&source->stalls);
	stats->stall_ns = atomic_peek(&counts->ns);
	stats->polls = atomic_peek(&counts->polls);
	stats->yields = atomic_peek(&counts->yields);
	stats->sleeps = atomic_peek(&counts->sleeps);
	stats->long_stalls = atomic_peek(&source->long_stalls);
	stats->copied_bytes = source_copied(source, &lanes);
	stats->combined_tuples = lanes.combined;
	stats->records = lanes.records;
	stats->combining_stops = lanes.stops;
}

void dfi_target_query(
    const struct dfi_target *target, struct dfi_target_stats *stats)
{
	const struct wait_counts *counts;

	if (!stats) {
		dfi__fail(-EINVAL, "dfi_target_query: stats is NULL");
		return;
	}
	memset(stats, 0, sizeof(*stats));
	if (handle_check(target, target ? &target->magic : NULL, TARGET_MAGIC) <
	    0)
		return;
	counts = &target->wait_time.counts;
	stats->tuples = target_tuples(target) - target_unread(target);
	stats->bytes = stats->tuples * target->flow.schema->tuple_size;
	stats->segments = atomic_peek(&target->segments);
	stats->stalls = atomic_peek(&target->stalls);
	stats->stall_ns = atomic_peek(&counts->ns);
	stats->polls = atomic_peek(&counts->polls);
	stats->yields = atomic_peek(&counts->yields);
	stats->sleeps = atomic_peek(&counts->sleeps);
	stats->long_stalls = atomic_peek(&target->long_stalls);
	stats->gaps = atomic_peek(&target->gaps);
	stats->lost_segments = atomic_peek(&target->lost_segments);
}

static void read_waits(
    const struct wait_counts *counts, struct dfi_endpoint_stats *stats)
{
	int64_t since = atomic_peek(&counts->since);
	int64_t now = clock_now_ns();

	stats->stall_ns = atomic_peek(&counts->ns);
	stats->polls = atomic_peek(&counts->polls);
	stats->yields = atomic_peek(&counts->yields);
	stats->sleeps = atomic_peek(&counts->sleeps);
	if (since && since < now)
		stats->waiting_ns = (uint64_t)(now - since);
}

static void read_flow(const struct flow *flow, struct dfi_endpoint_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	memcpy(stats->flow, flow->name, sizeof(stats->flow));
	stats->instance = flow->instance;
}

/* A source of an open flow may wait for whoever comes. */
static uint32_t waits_for(const struct dfi_source *source)
{
	uint32_t target = atomic_peek(&source->waits_for);

	return source->flow.membership && target >= source->flow.n_targets
	    ? UINT32_MAX
	    : flow_first_target(&source->flow) + target;
}

void dfi__source_stats(
    const struct stats_entry *entry, struct dfi_endpoint_stats *stats)
{
	const struct dfi_source *source =
	    (const struct dfi_source *)(const void *)((const char *)entry -
		offsetof(struct dfi_source, stats));
	struct lane_counts lanes;
	uint32_t t;

	lanes = lane_counts(source);
	read_flow(&source->flow, stats);
	read_waits(&source->wait_time.counts, stats);
	stats->role = source->flow.part.from_combiners
	    ? DFI_ROLE_COMBINER_OUTPUT
	    : DFI_ROLE_SOURCE;
	stats->index = source->index;
	stats->tuples = source_tuples(source, &lanes);
	stats->bytes = source_sent(source) * source->head.tuple_size;
	for (t = 0; t < source->n_lanes; t++) {
		stats->segments += atomic_peek(&source->writers[t].segments);
		stats->partial_segments += atomic_peek(
		    &source->writers[t].partial_segments);
	}
	stats->stalls = atomic_peek(&source->stalls);
	stats->long_stalls = atomic_peek(&source->long_stalls);
	stats->waits_for = waits_for(source);
	if (source->flow.part.pair)
		stats->peer = source->flow.part.first_target + 1;
	stats->copied_bytes = source_copied(source, &lanes);
	source_describe(source, stats);
}

void dfi__target_stats(
    const struct stats_entry *entry, struct dfi_endpoint_stats *stats)
{
	const struct dfi_target *target =
	    (const struct dfi_target *)(const void *)((const char *)entry -
		offsetof(struct dfi_target, stats));

	read_flow(&target->flow, stats);
	read_waits(&target->wait_time.counts, stats);
	stats->role = target->flow.part.combiner ? DFI_ROLE_COMBINER_INPUT
						 : DFI_ROLE_TARGET;
	stats->index = target->index;
	if (target->flow.part.pair)
		stats->peer = target->flow.part.first_source + 1;
	stats->tuples = target_tuples(target);
	stats->bytes = stats->tuples * target->flow.schema->tuple_size;
	stats->segments = atomic_peek(&target->segments);
	stats->stalls = atomic_peek(&target->stalls);
	stats->long_stalls = atomic_peek(&target->long_stalls);
	stats->gaps = atomic_peek(&target->gaps);
	stats->lost_segments = atomic_peek(&target->lost_segments);
	target_describe(target, stats);
}

void dfi__stats_add(struct dfi *dfi, struct stats_entry *entry, stats_fn *read)
{
	struct stats_list *list = dfi->stats;

	entry->read = read;
	pthread_mutex_lock(&list->lock);
	entry->id = ++list->last_id;
	TAILQ_INSERT_TAIL(&list->entries, entry, link);
	pthread_mutex_unlock(&list->lock);
}

void dfi__stats_remove(struct dfi *dfi, struct stats_entry *entry)
{
	struct stats_list *list = dfi->stats;

	pthread_mutex_lock(&list->lock);
	TAILQ_REMOVE(&list->entries, entry, link);
	pthread_mutex_unlock(&list->lock);
}

static int add_error(void *arg, const struct dfi_error_info *info)
{
	struct stats_page *page = arg;

	page->errors[page->n_errors++] = *info;
	return 0;
}

void dfi__stats_read(struct dfi *dfi, uint64_t after, struct stats_page *page)
{
	const struct stats_entry *entry;

	memset(page, 0, sizeof(*page));
	page->node = dfi->node.id;
	if (!after) {
		page->n_transports = dfi__network_query_now(
		    dfi->network, page->transports);
		dfi_error_list(add_error, page);
	}
	pthread_mutex_lock(&dfi->stats->lock);
	TAILQ_FOREACH(entry, &dfi->stats->entries, link)
	{
		if (entry->id <= after)
			continue;
		page->more = page->n_endpoints == STATS_PAGE;
		if (page->more)
			break;
		page->ids[page->n_endpoints] = entry->id;
		entry->read(entry, &page->endpoints[page->n_endpoints++]);
	}
	pthread_mutex_unlock(&dfi->stats->lock);
}

/* On the control thread. */
static void *report(void *arg, uint64_t after, size_t *size)
{
	struct stats_page *page = malloc(sizeof(*page));
	void *data;

	if (!page)
		return NULL;
	dfi__stats_read(arg, after, page);
	data = dfi__stats_encode(page, size);
	free(page);
	return data;
}

int dfi__stats_start(struct dfi *dfi)
{
	dfi->stats = calloc(1, sizeof(*dfi->stats));
	if (!dfi->stats)
		return dfi__fail(-ENOMEM, "dfi_open: out of memory");
	pthread_mutex_init(&dfi->stats->lock, NULL);
	TAILQ_INIT(&dfi->stats->entries);
	dfi->transport->ops->report->serve(dfi->transport, report, dfi);
	return 0;
}

void dfi__stats_stop(struct dfi *dfi)
{
	dfi->transport->ops->report->serve(dfi->transport, NULL, NULL);
	pthread_mutex_destroy(&dfi->stats->lock);
	free(dfi->stats);
}
