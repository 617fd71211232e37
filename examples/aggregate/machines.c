/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process gets its task, then the header of its rows, then the arrays of its
 * rows: chunks of bytes at offsets in its rows' memory. Of the rows it has only
 * those that its threads push.
 */
#include "machines.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "../../common/complain.h"

/* The place of the task, which is not in the rows. */
#define TASK_AT UINT64_MAX

struct chunk {
	uint64_t at, size;
	char bytes[4080];
};

struct task {
	uint64_t n_rows, first_row;
	uint32_t n_processes, n_threads, fan_in, reserved;
	char text[MAX_TEXT + 1];
};

_Static_assert(sizeof(struct task) <= sizeof(((struct chunk *)0)->bytes), "");
_Static_assert(
    sizeof(struct rows_header) <= sizeof(((struct chunk *)0)->bytes), "");

static const struct dfi_field fields[] = {
	DFI_FIELD(struct chunk, at),
	DFI_FIELD(struct chunk, size),
	DFI_FIELD_AS(struct chunk, bytes, DFI_BYTES),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct chunk, fields);

static void rows_name(
    const struct job *job, uint32_t process, char name[DFI_MAX_FLOW_NAME + 1])
{
	snprintf(name, DFI_MAX_FLOW_NAME + 1, "%s.rows.%u", job->flow,
	    (unsigned)process);
}

/* ---- The first process -----------------------------------------------------
 */

static int push_bytes(
    struct dfi_source *source, uint64_t at, const void *bytes, uint64_t size)
{
	static struct chunk chunk;
	const char *next = bytes;
	int ret = 0;

	while (size > 0 && ret >= 0) {
		chunk.at = at;
		chunk.size = size < sizeof(chunk.bytes) ? size
							: sizeof(chunk.bytes);
		memcpy(chunk.bytes, next, chunk.size);
		ret = dfi_source_push(source, &chunk);
		at += chunk.size;
		next += chunk.size;
		size -= chunk.size;
	}
	return ret < 0 ? ret : 0;
}

static int push_arrays(struct dfi_source *source, const struct rows *rows,
    const struct rows_header *header, uint64_t first)
{
	const struct rows_column *column = header->columns;
	uint64_t n = header->n_rows;
	uint32_t i;
	int ret = 0;

	for (i = 0; i < header->n_columns && !ret; i++, column++) {
		if (column->type != VALUE_NONE)
			ret = push_bytes(source, column->words_at,
			    rows_words(rows, i) + first, n * sizeof(uint64_t));
		if (column->has_nulls && !ret)
			ret = push_bytes(source, column->nulls_at,
			    rows_nulls(rows, i) + first, n);
	}
	return ret;
}

static int push_share(const struct job *job, struct dfi_source *source,
    uint32_t process, const char *text)
{
	const struct rows *rows = job->plan->rows;
	struct rows_header header = *rows->header;
	struct task task = {
		.n_rows = job->n_rows,
		.first_row = job_share(job, process * job->n_threads),
		.n_processes = job->n_processes,
		.n_threads = job->n_threads,
		.fan_in = job->fan_in,
	};
	int ret;

	snprintf(task.text, sizeof(task.text), "%s", text);
	header.n_rows = job_share(job, (process + 1) * job->n_threads) -
	    task.first_row;
	rows_place(&header);
	ret = push_bytes(source, TASK_AT, &task, sizeof(task));
	if (!ret)
		ret = push_bytes(source, 0, &header, sizeof(header));
	if (!ret)
		ret = push_arrays(source, rows, &header, task.first_row);
	return ret;
}

static int send_share(const struct job *job, uint32_t process, const char *text)
{
	char name[DFI_MAX_FLOW_NAME + 1];
	struct dfi_source *source;
	int ret;

	rows_name(job, process, name);
	if (dfi_source_open(job->dfi, name, 0, NULL, &source) < 0)
		return complain("process %u of another machine did not come: "
				"%s",
		    (unsigned)process, dfi_errmsg());
	ret = push_share(job, source, process, text);
	if (!ret)
		ret = dfi_source_close(source);
	return ret ? complain("rows for process %u: %s", (unsigned)process,
			 dfi_errmsg())
		   : 0;
}

static int create_flow(const struct job *job, uint32_t process)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	char name[DFI_MAX_FLOW_NAME + 1];

	rows_name(job, process, name);
	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.n_sources = attr.n_targets = 1;
	attr.routing = DFI_ROUTE_ROUND_ROBIN;
	return dfi_flow_create(job->dfi, name, &attr) < 0
	    ? complain("%s", dfi_errmsg())
	    : 0;
}

int machines_send(const struct job *job, uint32_t n_local, const char *text)
{
	uint32_t i;
	int ret = 0;

	if (strlen(text) > MAX_TEXT)
		return complain("the query has %zu bytes: for processes on "
				"other machines it may have %d",
		    strlen(text), MAX_TEXT);
	for (i = n_local; i < job->n_processes && !ret; i++)
		ret = create_flow(job, i);
	for (i = n_local; i < job->n_processes && !ret; i++)
		ret = send_share(job, i, text);
	return ret;
}

/* ---- On another machine ----------------------------------------------------
 */

static int begin_rows(struct rows *rows, const struct chunk *chunk)
{
	struct rows_header header;

	memcpy(&header, chunk->bytes, sizeof(header));
	return rows_create(rows, &header);
}

static int take_chunk(
    struct rows *rows, struct task *task, const struct chunk *chunk)
{
	if (chunk->at == TASK_AT) {
		memcpy(task, chunk->bytes, sizeof(*task));
		return 0;
	}
	if (chunk->at == 0)
		return begin_rows(rows, chunk);
	memcpy((char *)rows->header + chunk->at, chunk->bytes, chunk->size);
	return 0;
}

static int take_all(
    struct dfi_target *target, struct task *task, struct rows *rows)
{
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(target, &tuple)) > 0)
		if (take_chunk(rows, task, tuple))
			return -1;
	if (ret < 0)
		return complain("waiting for rows: %s", dfi_errmsg());
	return rows_seal(rows);
}

int machines_take(struct job *job, uint32_t process, char text[MAX_TEXT + 1],
    struct rows *rows)
{
	char name[DFI_MAX_FLOW_NAME + 1];
	struct task task = { .n_rows = 0 };
	struct dfi_target *target;
	int ret;

	*rows = (struct rows){ .fd = -1 };
	rows_name(job, process, name);
	if (dfi_target_open(job->dfi, name, 0, NULL, &target) < 0)
		return complain(
		    "waiting for the first machine: %s", dfi_errmsg());
	ret = take_all(target, &task, rows);
	dfi_target_close(target);
	if (ret)
		return -1;
	job->n_processes = task.n_processes;
	job->n_threads = task.n_threads;
	job->fan_in = task.fan_in;
	job->n_rows = task.n_rows;
	job->first_row = task.first_row;
	snprintf(text, MAX_TEXT + 1, "%s", task.text);
	return 0;
}
