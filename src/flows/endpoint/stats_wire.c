/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes statistics. Another version of the library may have sent
 * them, so decoding checks every field that callers rely on.
 */
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "flows/descriptor/descriptor.h"
#include "dfi_stats.pb-c.h"

/* A transport, and memory for what it points to. */
struct transport_message {
	DfiStats__Transport base;
	DfiStats__Counter counter[DFI_MAX_COUNTERS];
	DfiStats__Counter *counters[DFI_MAX_COUNTERS];
};

/* Memory for what a page points to. */
struct messages {
	DfiStats__Endpoint endpoint[STATS_PAGE], *endpoints[STATS_PAGE];
	DfiStats__Error error[DFI_MAX_ERRORS], *errors[DFI_MAX_ERRORS];
	struct transport_message transport[NETWORK_DEVICES];
	DfiStats__Transport *transports[NETWORK_DEVICES];
	DfiStats__Page page;
};

static void endpoint_to_message(uint64_t id,
    const struct dfi_endpoint_stats *stats, DfiStats__Endpoint *message)
{
	dfi_stats__endpoint__init(message);
	message->id = id;
	message->flow = (char *)stats->flow;
	message->instance = stats->instance;
	message->role = stats->role;
	message->index = stats->index;
	message->tuples = stats->tuples;
	message->bytes = stats->bytes;
	message->segments = stats->segments;
	message->partial_segments = stats->partial_segments;
	message->stalls = stats->stalls;
	message->stall_ns = stats->stall_ns;
	message->polls = stats->polls;
	message->yields = stats->yields;
	message->sleeps = stats->sleeps;
	message->long_stalls = stats->long_stalls;
	message->waiting_ns = stats->waiting_ns;
	message->waits_for = stats->waits_for;
	message->copied_bytes = stats->copied_bytes;
	message->gaps = stats->gaps;
	message->lost_segments = stats->lost_segments;
	message->peer = stats->peer;
	message->incarnation = stats->incarnation;
	message->dropped = stats->dropped;
	message->evictions = stats->evictions;
	message->epoch = stats->epoch;
	message->n_partitions = stats->n_partitions;
	message->n_moving = stats->n_moving;
	message->filtered = stats->filtered;
}

static void error_to_message(
    const struct dfi_error_info *info, DfiStats__Error *message)
{
	dfi_stats__error__init(message);
	message->code = info->code;
	message->count = info->count;
	message->first_ns = info->first_ns;
	message->last_ns = info->last_ns;
	message->text = (char *)info->text;
}

static void transport_to_message(
    const struct dfi_transport_stats *stats, struct transport_message *message)
{
	DfiStats__Transport *base = &message->base;
	uint32_t i;

	dfi_stats__transport__init(base);
	base->transport = (char *)stats->transport;
	base->device = (char *)stats->device;
	base->address = (char *)stats->address;
	base->writes = stats->writes;
	base->bytes = stats->bytes;
	base->credits = stats->credits;
	base->messages = stats->messages;
	base->completions = stats->completions;
	base->connections = stats->connections;
	base->broken_connections = stats->broken_connections;
	base->memory_regions = stats->memory_regions;
	base->receives = stats->receives;
	for (i = 0; i < stats->n_counters; i++) {
		dfi_stats__counter__init(&message->counter[i]);
		message->counter[i].name = (char *)stats->counters[i].name;
		message->counter[i].value = stats->counters[i].value;
		message->counters[i] = &message->counter[i];
	}
	base->n_counters = stats->n_counters;
	base->counters = message->counters;
}

static void fill_messages(
    const struct stats_page *page, struct messages *messages)
{
	DfiStats__Page *message = &messages->page;
	uint32_t i;

	dfi_stats__page__init(message);
	message->node = page->node;
	message->more = page->more;
	for (i = 0; i < page->n_transports; i++) {
		transport_to_message(
		    &page->transports[i], &messages->transport[i]);
		messages->transports[i] = &messages->transport[i].base;
	}
	message->n_transports = page->n_transports;
	message->transports = messages->transports;
	for (i = 0; i < page->n_endpoints; i++) {
		endpoint_to_message(
		    page->ids[i], &page->endpoints[i], &messages->endpoint[i]);
		messages->endpoints[i] = &messages->endpoint[i];
	}
	message->n_endpoints = page->n_endpoints;
	message->endpoints = messages->endpoints;
	for (i = 0; i < page->n_errors; i++) {
		error_to_message(&page->errors[i], &messages->error[i]);
		messages->errors[i] = &messages->error[i];
	}
	message->n_errors = page->n_errors;
	message->errors = messages->errors;
}

void *dfi__stats_encode(const struct stats_page *page, size_t *size)
{
	struct messages *messages = malloc(sizeof(*messages));
	void *data;

	if (!messages)
		return NULL;
	fill_messages(page, messages);
	data = dfi__message_pack(&messages->page.base, size);
	free(messages);
	return data;
}

/* Texts are shown to users unescaped. */
static void copy_text(char *to, size_t size, const char *from)
{
	size_t i;

	for (i = 0; from[i] && i < size - 1; i++)
		to[i] = from[i] < ' ' || from[i] > '~' ? '?' : from[i];
	to[i] = '\0';
}

static bool read_endpoint(
    const DfiStats__Endpoint *message, struct dfi_endpoint_stats *stats)
{
	if (dfi__flow_check_name(message->flow) < 0 ||
	    message->role < DFI_ROLE_SOURCE ||
	    message->role > DFI_ROLE_COMBINER_OUTPUT ||
	    message->index >= DFI_MAX_ENDPOINTS ||
	    (message->waits_for >= DFI_MAX_ENDPOINTS &&
		message->waits_for != UINT32_MAX) ||
	    message->peer > DFI_MAX_ENDPOINTS ||
	    message->n_partitions > DFI_MAX_PARTITIONS ||
	    message->n_moving > DFI_MAX_PARTITIONS)
		return false;
	memcpy(stats->flow, message->flow, strlen(message->flow) + 1);
	stats->instance = message->instance;
	stats->role = message->role;
	stats->index = message->index;
	stats->tuples = message->tuples;
	stats->bytes = message->bytes;
	stats->segments = message->segments;
	stats->partial_segments = message->partial_segments;
	stats->stalls = message->stalls;
	stats->stall_ns = message->stall_ns;
	stats->polls = message->polls;
	stats->yields = message->yields;
	stats->sleeps = message->sleeps;
	stats->long_stalls = message->long_stalls;
	stats->waiting_ns = message->waiting_ns;
	stats->waits_for = message->waits_for;
	stats->copied_bytes = message->copied_bytes;
	stats->gaps = message->gaps;
	stats->lost_segments = message->lost_segments;
	stats->peer = message->peer;
	stats->incarnation = message->incarnation;
	stats->dropped = message->dropped;
	stats->evictions = message->evictions;
	stats->epoch = message->epoch;
	stats->n_partitions = message->n_partitions;
	stats->n_moving = message->n_moving;
	stats->filtered = message->filtered;
	return true;
}

static void read_error(
    const DfiStats__Error *message, struct dfi_error_info *info)
{
	info->code = message->code;
	info->count = message->count;
	info->first_ns = message->first_ns;
	info->last_ns = message->last_ns;
	copy_text(info->text, sizeof(info->text), message->text);
}

/* A newer version may name a transport, or counters, that this one lacks. */
static bool read_transport(
    const DfiStats__Transport *message, struct dfi_transport_stats *stats)
{
	uint32_t i;

	if (message->n_counters > DFI_MAX_COUNTERS)
		return false;
	copy_text(
	    stats->transport, sizeof(stats->transport), message->transport);
	copy_text(stats->device, sizeof(stats->device), message->device);
	copy_text(stats->address, sizeof(stats->address), message->address);
	stats->is_known = transport_row(message->transport) != NULL;
	stats->writes = message->writes;
	stats->bytes = message->bytes;
	stats->credits = message->credits;
	stats->messages = message->messages;
	stats->completions = message->completions;
	stats->connections = message->connections;
	stats->broken_connections = message->broken_connections;
	stats->memory_regions = message->memory_regions;
	stats->receives = message->receives;
	for (i = 0; i < message->n_counters; i++) {
		copy_text(stats->counters[i].name,
		    sizeof(stats->counters[i].name),
		    message->counters[i]->name);
		stats->counters[i].value = message->counters[i]->value;
	}
	stats->n_counters = i;
	return true;
}

/* Ids must ascend, so that paging ends. */
static bool read_page(
    const DfiStats__Page *message, uint64_t after, struct stats_page *page)
{
	uint32_t i;

	if (message->n_endpoints > STATS_PAGE ||
	    message->n_errors > DFI_MAX_ERRORS ||
	    message->n_transports > NETWORK_DEVICES ||
	    (message->more && !message->n_endpoints))
		return false;
	page->node = message->node;
	page->more = message->more;
	for (i = 0; i < message->n_transports; i++)
		if (!read_transport(
			message->transports[i], &page->transports[i]))
			return false;
	page->n_transports = i;
	for (i = 0; i < message->n_errors; i++)
		read_error(message->errors[i], &page->errors[i]);
	page->n_errors = i;
	for (i = 0; i < message->n_endpoints; i++) {
		if (message->endpoints[i]->id <= after ||
		    !read_endpoint(message->endpoints[i], &page->endpoints[i]))
			return false;
		after = page->ids[i] = message->endpoints[i]->id;
	}
	page->n_endpoints = i;
	return true;
}

int dfi__stats_decode(
    const void *data, size_t size, uint64_t after, struct stats_page *page)
{
	DfiStats__Page *message = dfi_stats__page__unpack(NULL, size, data);
	bool valid = false;

	memset(page, 0, sizeof(*page));
	if (message) {
		valid = read_page(message, after, page);
		dfi_stats__page__free_unpacked(message, NULL);
	}
	return valid ? 0 : dfi__fail(-EBADMSG, "its answer is damaged");
}
