/* SPDX-License-Identifier: Apache-2.0 */
/* dfi-info stat: the counters of each source and target of each process. */
#include "info.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../common/complain.h"

#define NS_PER_S 1e9

struct stat_list {
	json_t *rows; /* NULL: print text */
	double seconds;
	size_t n; /* processes so far */
};

static const char *role_name(uint32_t role)
{
	static const char *const names[] = { "unknown", "source", "target",
		"combiner-input", "combiner-output" };

	return names[role < sizeof(names) / sizeof(names[0]) ? role : 0];
}

static json_t *endpoint_json(const struct dfi_endpoint_stats *stats)
{
	char instance[17], incarnation[17];

	snprintf(instance, sizeof(instance), "%016" PRIx64, stats->instance);
	snprintf(incarnation, sizeof(incarnation), "%016" PRIx64,
	    stats->incarnation);
	return json_pack(
	    "{ss ss ss si so sI sI sI sI sI sI sI sI sI sI sI sI sI sI so so "
	    "sI sI sI si si sI}",
	    "flow", stats->flow, "instance", instance, "role",
	    role_name(stats->role), "index", (int)stats->index, "peer",
	    stats->peer ? json_integer(stats->peer - 1) : json_null(), "tuples",
	    (json_int_t)stats->tuples, "bytes", (json_int_t)stats->bytes,
	    "segments", (json_int_t)stats->segments, "partial_segments",
	    (json_int_t)stats->partial_segments, "copied_bytes",
	    (json_int_t)stats->copied_bytes, "gaps", (json_int_t)stats->gaps,
	    "lost_segments", (json_int_t)stats->lost_segments, "stalls",
	    (json_int_t)stats->stalls, "stall_ns", (json_int_t)stats->stall_ns,
	    "polls", (json_int_t)stats->polls, "yields",
	    (json_int_t)stats->yields, "sleeps", (json_int_t)stats->sleeps,
	    "long_stalls", (json_int_t)stats->long_stalls, "waiting_ns",
	    (json_int_t)stats->waiting_ns, "waits_for",
	    stats->waiting_ns && info_sends(stats->role) &&
		    stats->waits_for != UINT32_MAX
		? json_integer(stats->waits_for)
		: json_null(),
	    "incarnation",
	    stats->incarnation ? json_string(incarnation) : json_null(),
	    "dropped", (json_int_t)stats->dropped, "evictions",
	    (json_int_t)stats->evictions, "epoch", (json_int_t)stats->epoch,
	    "n_partitions", (int)stats->n_partitions, "n_moving",
	    (int)stats->n_moving, "filtered", (json_int_t)stats->filtered);
}

static json_t *error_json(const struct dfi_error_info *info)
{
	return json_pack("{si ss sI sI sI so}", "code", (int)info->code,
	    "meaning", dfi_strerror(info->code), "count",
	    (json_int_t)info->count, "first_ns", (json_int_t)info->first_ns,
	    "last_ns", (json_int_t)info->last_ns, "text",
	    info_text_json(info->text));
}

static json_t *transport_json(const struct dfi_transport_stats *stats)
{
	json_t *counters = json_object();
	uint32_t i;

	for (i = 0; counters && i < stats->n_counters; i++)
		if (json_object_set_new(counters, stats->counters[i].name,
			json_integer((json_int_t)stats->counters[i].value))) {
			json_decref(counters);
			counters = NULL;
		}
	return json_pack("{so sb so so sI sI sI sI sI sI sI sI sI so}",
	    "transport", info_text_json(stats->transport), "known",
	    (int)stats->is_known, "device", info_text_json(stats->device),
	    "address", info_text_json(stats->address), "writes",
	    (json_int_t)stats->writes, "bytes", (json_int_t)stats->bytes,
	    "credits", (json_int_t)stats->credits, "messages",
	    (json_int_t)stats->messages, "completions",
	    (json_int_t)stats->completions, "connections",
	    (json_int_t)stats->connections, "broken_connections",
	    (json_int_t)stats->broken_connections, "memory_regions",
	    (json_int_t)stats->memory_regions, "receives",
	    (json_int_t)stats->receives, "counters", counters);
}

/* The lists of a process; false: no memory. */
static bool fill_lists(const struct dfi_node_stats *stats, json_t *endpoints,
    json_t *transports, json_t *errors)
{
	bool whole = endpoints && transports && errors;
	uint32_t i;

	for (i = 0; whole && i < stats->n_endpoints; i++)
		whole = !info_append(
		    endpoints, endpoint_json(&stats->endpoints[i]));
	for (i = 0; whole && i < stats->n_transports; i++)
		whole = !info_append(
		    transports, transport_json(&stats->transports[i]));
	for (i = 0; whole && i < stats->n_errors; i++)
		whole = !info_append(errors, error_json(&stats->errors[i]));
	return whole;
}

static int add_json(json_t *rows, const struct dfi_node_stats *stats)
{
	json_t *endpoints = json_array(), *transports = json_array(),
	       *errors = json_array();
	char id[17];

	if (!fill_lists(stats, endpoints, transports, errors)) {
		json_decref(endpoints);
		json_decref(transports);
		json_decref(errors);
		return NO_JSON;
	}
	snprintf(id, sizeof(id), "%016" PRIx64, stats->node.id);
	return info_append(rows,
	    json_pack("{ss so so si so so so so}", "id", id, "name",
		info_text_json(stats->node.name), "host",
		info_text_json(stats->node.host), "pid", (int)stats->node.pid,
		"error", info_optional_json(stats->error), "endpoints",
		endpoints, "transports", transports, "errors", errors));
}

/* It may decrease: a target that cancels gives back unread tuples. */
static double per_second(
    const struct stat_list *list, uint64_t count, uint64_t earlier)
{
	return (double)(int64_t)(count - earlier) / list->seconds;
}

static void print_rate(
    const struct stat_list *list, const struct info_sample *sample)
{
	const struct info_sample *old = info_sample_before(sample);

	if (!old || list->seconds <= 0)
		return;
	printf(", %.0f tuples/s, %.3f MB/s",
	    per_second(list, sample->tuples, old->tuples),
	    per_second(list, sample->bytes, old->bytes) / 1e6);
}

/* "    member    incarnation 0123456789abcdef, epoch 3, 16 partitions" */
static void print_member(const struct dfi_endpoint_stats *stats, bool is_source)
{
	if (!stats->incarnation)
		return;
	printf("    member    incarnation %016" PRIx64, stats->incarnation);
	if (stats->epoch)
		printf(", epoch %" PRIu64, stats->epoch);
	if (stats->epoch && !is_source)
		printf(", %u partitions", stats->n_partitions);
	if (stats->n_moving)
		printf(", %u yet to be taken or released", stats->n_moving);
	if (stats->dropped)
		printf(", tuples dropped: %" PRIu64, stats->dropped);
	if (stats->filtered)
		printf(", tuples filtered: %" PRIu64, stats->filtered);
	if (stats->evictions)
		printf(", others evicted: %" PRIu64, stats->evictions);
	printf("\n");
}

static void print_endpoint(struct stat_list *list, uint64_t node,
    const struct dfi_endpoint_stats *stats)
{
	bool is_source = info_sends(stats->role);
	struct info_sample sample = info_sample(node, stats);

	printf("  %s %u", role_name(stats->role), stats->index);
	if (stats->peer)
		printf(", ring with %s %u", is_source ? "target" : "source",
		    stats->peer - 1);
	printf(" of flow '%s': %" PRIu64 " tuples, %" PRIu64 " bytes, %" PRIu64
	       " segments",
	    stats->flow, stats->tuples, stats->bytes, stats->segments);
	if (is_source)
		printf(" (%" PRIu64 " partial), %" PRIu64 " bytes copied",
		    stats->partial_segments, stats->copied_bytes);
	if (stats->gaps)
		printf(", segments lost: %" PRIu64 ", gaps: %" PRIu64,
		    stats->lost_segments, stats->gaps);
	print_rate(list, &sample);
	info_sample_keep(&sample);
	printf("\n");
	print_member(stats, is_source);
	printf("    waits     %" PRIu64 " for %s, %.3f s, %" PRIu64
	       " of them for a second and more; %" PRIu64 " polls, %" PRIu64
	       " yields, %" PRIu64 " sleeps\n",
	    stats->stalls, is_source ? "room" : "data",
	    (double)stats->stall_ns / NS_PER_S, stats->long_stalls,
	    stats->polls, stats->yields, stats->sleeps);
	if (!stats->waiting_ns)
		return;
	printf(
	    "    waiting   for %.3f s", (double)stats->waiting_ns / NS_PER_S);
	if (is_source && stats->waits_for == UINT32_MAX)
		printf(", on any target");
	else if (is_source)
		printf(", on target %u", stats->waits_for);
	printf("\n");
}

/* The counters that only this transport has, at most 100 columns a line. */
static void print_counters(const struct dfi_transport_stats *stats)
{
	char text[64], name[INFO_TEXT_SIZE];
	int column = 0, length;
	uint32_t i;

	for (i = 0; i < stats->n_counters; i++) {
		length = snprintf(text, sizeof(text), "%s %" PRIu64 "%s",
		    escape_text(name, sizeof(name), stats->counters[i].name),
		    stats->counters[i].value,
		    i + 1 < stats->n_counters ? ", " : "");
		if (!column || column + length > 100)
			column = printf(
			    "%s    %-10s", i ? "\n" : "", i ? "" : "counters");
		column += printf("%s", text);
	}
	if (i)
		printf("\n");
}

static void print_transport(const struct dfi_transport_stats *stats)
{
	char name[INFO_TEXT_SIZE], device[INFO_TEXT_SIZE],
	    address[INFO_TEXT_SIZE];

	printf("  %-11s %s%s, %s: %u connections, %u memory regions, %u "
	       "receives\n",
	    escape_text(name, sizeof(name), stats->transport),
	    stats->is_known ? "" : "(this dfi-info does not know it) ",
	    escape_text(device, sizeof(device), stats->device),
	    escape_text(address, sizeof(address), stats->address),
	    stats->connections, stats->memory_regions, stats->receives);
	printf("    posted    %" PRIu64 " writes of %" PRIu64 " bytes, %" PRIu64
	       " credits, %" PRIu64 " messages, %" PRIu64 " completions\n",
	    stats->writes, stats->bytes, stats->credits, stats->messages,
	    stats->completions);
	printf("    broken    %u connections\n", stats->broken_connections);
	print_counters(stats);
}

static void format_time(int64_t ns, char *text, size_t size)
{
	time_t seconds = (time_t)(ns / (int64_t)NS_PER_S);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) ||
	    !strftime(text, size, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(text, size, "?");
}

static void print_error(const struct dfi_error_info *info)
{
	char first[32], last[32], text[INFO_TEXT_SIZE];

	format_time(info->first_ns, first, sizeof(first));
	format_time(info->last_ns, last, sizeof(last));
	printf("  error       %d (%s), %" PRIu64 " times, first %s, last %s\n"
	       "    %s\n",
	    info->code, dfi_strerror(info->code), info->count, first, last,
	    escape_text(text, sizeof(text), info->text));
}

static int add_node(void *arg, const struct dfi_node_stats *stats)
{
	struct stat_list *list = arg;
	char name[INFO_TEXT_SIZE], host[INFO_TEXT_SIZE];
	uint32_t i;

	if (stats->node.is_own)
		return 0;
	if (list->rows)
		return add_json(list->rows, stats);
	list->n++;
	printf("%s: host %s, pid %u, id %016" PRIx64 "\n",
	    escape_text(name, sizeof(name), stats->node.name),
	    escape_text(host, sizeof(host), stats->node.host), stats->node.pid,
	    stats->node.id);
	if (stats->error) {
		printf("  no counters: %s\n",
		    escape_text(name, sizeof(name), stats->error));
		return 0;
	}
	for (i = 0; i < stats->n_endpoints; i++)
		print_endpoint(list, stats->node.id, &stats->endpoints[i]);
	for (i = 0; i < stats->n_transports; i++)
		print_transport(&stats->transports[i]);
	for (i = 0; i < stats->n_errors; i++)
		print_error(&stats->errors[i]);
	return 0;
}

int info_list_stats(struct dfi *dfi, json_t *rows, double seconds)
{
	struct stat_list list = { .rows = rows, .seconds = seconds };
	int ret;

	info_samples_next();
	ret = dfi_stats_list(dfi, add_node, &list);
	if (!ret && !list.n && !rows)
		printf("no other processes are members of this registry\n");
	return ret;
}
