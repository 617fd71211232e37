/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/complain.h"
#include "output.h"

#define NAME_SIZE (DFI_MAX_FIELD_NAME + 1)

struct pusher {
	const struct job *job;
	uint32_t source; /* of all processes' */
	pthread_t thread;
	int ret;
};

/* A thread with a combiner of the flow's tree. */
struct merger {
	const struct job *job;
	uint32_t combiner;
	pthread_t thread;
	int ret;
};

/* Without GROUP BY there is one group, which one target has. */
static uint32_t n_targets(const struct job *job)
{
	return job->query->n_keys ? job->n_processes : 1;
}

static void results_name(const struct job *job, char name[DFI_MAX_FLOW_NAME])
{
	snprintf(name, DFI_MAX_FLOW_NAME, "%s.results", job->flow);
}

/* ---- Flows -----------------------------------------------------------------
 */

static void name_keys(const struct job *job, char *text, size_t room)
{
	size_t n = 0;
	uint32_t i;

	text[0] = '\0';
	for (i = 0; i < job->query->n_keys && n < room; i++)
		n += (size_t)snprintf(text + n, room - n, "%s%s", i ? "," : "",
		    relation_field(job->relation, job->query->keys[i]));
}

/* For errors, like "2.sum(price)"; no two are the same. */
static void name_aggregate(char name[NAME_SIZE], uint32_t i, const char *item)
{
	snprintf(name, NAME_SIZE, "%u.%.50s", i + 1, item);
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._()", *name))
			*name = '_';
}

static uint32_t list_aggregates(const struct job *job, char names[][NAME_SIZE],
    struct dfi_aggregate *aggregates)
{
	const struct query_item *item = job->query->items;
	uint32_t i, n = 0;

	for (i = 0; i < job->query->n_items; i++, item++) {
		if (!item->function)
			continue;
		name_aggregate(names[n], i, item->name);
		aggregates[n] = (struct dfi_aggregate){
			.function = item->function,
			.field = item->function == DFI_COUNT
			    ? NULL
			    : relation_field(job->relation, item->column),
			.name = names[n],
		};
		n++;
	}
	return n;
}

/* Sums of integers must be right, or not be given. */
static void check_sums(
    const struct job *job, struct dfi_aggregate *aggregates, uint32_t n)
{
	const struct relation *relation = job->relation;
	uint32_t i, c;

	for (i = 0; i < n; i++)
		for (c = 0; c < relation->n_columns; c++)
			if (aggregates[i].function == DFI_SUM &&
			    aggregates[i].field == relation->columns[c].field &&
			    relation->columns[c].type == COLUMN_INTEGER)
				aggregates[i].flags = DFI_AGGREGATE_CHECKED;
}

int job_create(const struct job *job)
{
	struct dfi_aggregate aggregates[MAX_ITEMS];
	char names[MAX_ITEMS][NAME_SIZE], keys[MAX_ITEMS * 16];
	char results[DFI_MAX_FLOW_NAME];
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_schema *schema = NULL;
	int ret;

	name_keys(job, keys, sizeof(keys));
	results_name(job, results);
	attr.kind = DFI_COMBINE;
	attr.schema = &job->relation->schema;
	attr.n_sources = job->n_processes * job->n_threads;
	attr.n_targets = n_targets(job);
	attr.group_by = job->query->n_keys ? keys : NULL;
	attr.aggregates = aggregates;
	attr.n_aggregates = list_aggregates(job, names, aggregates);
	check_sums(job, aggregates, attr.n_aggregates);
	attr.max_groups = job->relation->table.n_rows;
	attr.fan_in = job->fan_in;
	ret = dfi_flow_create(job->dfi, job->flow, &attr);
	if (!ret)
		ret = dfi_flow_result_schema(job->dfi, job->flow, &schema);
	if (!ret) {
		attr = (struct dfi_flow_attr)DFI_FLOW_ATTR_INIT;
		attr.kind = DFI_SHUFFLE;
		attr.schema = schema;
		attr.n_sources = n_targets(job);
		attr.n_targets = 1;
		attr.routing = DFI_ROUTE_ROUND_ROBIN;
		ret = dfi_flow_create(job->dfi, results, &attr);
	}
	free(schema);
	return ret < 0 ? complain("%s", dfi_errmsg()) : 0;
}

/* ---- A process -------------------------------------------------------------
 */

static int push_rows(const struct pusher *pusher, struct dfi_source *source)
{
	const struct job *job = pusher->job;
	const struct relation *relation = job->relation;
	uint64_t n_pushers = (uint64_t)job->n_processes * job->n_threads;
	uint64_t n = relation->table.n_rows;
	uint64_t i = n * pusher->source / n_pushers;
	uint64_t end = n * (pusher->source + 1) / n_pushers;
	char *tuple = malloc(relation->schema.tuple_size);
	int ret = 0;

	if (!tuple)
		return complain("no memory");
	for (; i < end && !ret; i++) {
		relation_tuple(relation, i, tuple);
		ret = dfi_source_push(source, tuple);
	}
	if (ret)
		complain("source %u: %s", pusher->source, dfi_errmsg());
	free(tuple);
	return ret;
}

static void *push_share(void *arg)
{
	struct pusher *pusher = arg;
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;

	attr.schema = &pusher->job->relation->schema;
	pusher->ret = dfi_source_open(pusher->job->dfi, pusher->job->flow,
	    pusher->source, &attr, &source);
	if (pusher->ret < 0) {
		complain("source %u: %s", pusher->source, dfi_errmsg());
		return NULL;
	}
	pusher->ret = push_rows(pusher, source);
	/* An end that is none would make results that are wrong. */
	if (pusher->ret < 0)
		dfi_source_abort(source);
	if (dfi_source_close(source) < 0 && !pusher->ret)
		pusher->ret = complain(
		    "source %u: %s", pusher->source, dfi_errmsg());
	return NULL;
}

static int forward(struct dfi_target *from, struct dfi_source *to)
{
	struct dfi_batch batch;
	int ret;

	while ((ret = dfi_target_consume_batch(from, &batch)) > 0) {
		ret = dfi_source_push_batch(to, batch.tuples, batch.count);
		dfi_target_release(from, &batch);
		if (ret < 0)
			break;
	}
	return ret;
}

/* This process's groups, to the one that prints. */
static int give_results(const struct job *job, uint32_t target)
{
	char name[DFI_MAX_FLOW_NAME];
	struct dfi_target *from = NULL;
	struct dfi_source *to = NULL;
	int ret;

	results_name(job, name);
	ret = dfi_source_open(job->dfi, name, target, NULL, &to);
	if (!ret)
		ret = dfi_target_open(job->dfi, job->flow, target, NULL, &from);
	if (!ret)
		ret = forward(from, to);
	if (ret < 0)
		complain("target %u: %s", target, dfi_errmsg());
	if (from)
		dfi_target_close(from);
	if (to && ret < 0)
		dfi_source_abort(to);
	if (to && dfi_source_close(to) < 0 && !ret)
		ret = complain("target %u: %s", target, dfi_errmsg());
	return ret;
}

static void *merge(void *arg)
{
	struct merger *merger = arg;
	const struct job *job = merger->job;
	struct dfi_combiner *combiner = NULL;
	int ret, closed;

	ret = dfi_combiner_open(
	    job->dfi, job->flow, merger->combiner, NULL, &combiner);
	if (!ret)
		ret = dfi_combiner_run(combiner);
	if (ret < 0)
		complain("combiner %u: %s", merger->combiner, dfi_errmsg());
	closed = dfi_combiner_close(combiner);
	if (!ret && closed < 0)
		ret = complain(
		    "combiner %u: %s", merger->combiner, dfi_errmsg());
	merger->ret = ret;
	return NULL;
}

/* Combiner c is of process c modulo their number. */
static int start_mergers(const struct job *job, uint32_t process,
    struct merger **out, uint32_t *n_out)
{
	struct dfi_flow_info info;
	struct merger *mergers;
	uint32_t c, n = 0;

	if (dfi_flow_query(job->dfi, job->flow, &info) < 0)
		return complain("%s", dfi_errmsg());
	mergers = calloc(info.n_combiners + 1, sizeof(*mergers));
	if (!mergers)
		return complain("no memory");
	*out = mergers;
	for (c = process; c < info.n_combiners; c += job->n_processes) {
		mergers[n] = (struct merger){ .job = job, .combiner = c };
		if (pthread_create(
			&mergers[n].thread, NULL, merge, &mergers[n]))
			return complain("cannot start a thread");
		*n_out = ++n;
	}
	return 0;
}

int job_work(const struct job *job, uint32_t process)
{
	struct pusher *pushers = calloc(job->n_threads, sizeof(*pushers));
	struct merger *mergers = NULL;
	uint32_t t, n = 0, n_mergers = 0;
	int ret;

	if (!pushers)
		return complain("no memory");
	ret = start_mergers(job, process, &mergers, &n_mergers);
	for (t = 0; t < job->n_threads && !ret; t++) {
		pushers[t] = (struct pusher){ .job = job,
			.source = process * job->n_threads + t };
		if (pthread_create(
			&pushers[t].thread, NULL, push_share, &pushers[t]))
			ret = complain("cannot start a thread");
		else
			n++;
	}
	if (!ret && process < n_targets(job))
		ret = give_results(job, process);
	for (t = 0; t < n; t++) {
		pthread_join(pushers[t].thread, NULL);
		if (pushers[t].ret < 0)
			ret = -1;
	}
	for (t = 0; t < n_mergers; t++) {
		pthread_join(mergers[t].thread, NULL);
		if (mergers[t].ret < 0)
			ret = -1;
	}
	free(mergers);
	free(pushers);
	return ret < 0 ? -1 : 0;
}

/* ---- The results -----------------------------------------------------------
 */

int job_print(const struct job *job)
{
	char name[DFI_MAX_FLOW_NAME];
	struct dfi_schema *schema = NULL;
	struct dfi_target *target = NULL;
	const void *tuple;
	uint64_t n = 0;
	int ret;

	results_name(job, name);
	ret = dfi_flow_result_schema(job->dfi, job->flow, &schema);
	if (!ret)
		ret = dfi_target_open(job->dfi, name, 0, NULL, &target);
	/* What fails before the first result prints nothing at all. */
	while (!ret && (ret = dfi_target_consume(target, &tuple)) > 0) {
		if (!n++)
			output_header(job->query);
		output_row(job->query, schema, tuple);
		ret = 0;
	}
	if (!ret && !n)
		output_header(job->query);
	if (ret < 0)
		complain("results: %s", dfi_errmsg());
	if (target)
		dfi_target_close(target);
	free(schema);
	return ret < 0 ? -1 : 0;
}
