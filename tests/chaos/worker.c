/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of a run of chaos. It runs the endpoints that the plan of SEED
 * gives to process number PROCESS, each on its own thread, and writes their
 * outcomes to the board (an inherited shared file). Process CREATOR makes the
 * flow and keeps it until its stdin ends. Exits with 0 unless it is killed.
 *
 * worker BOARD_FD SEED VOLUME PROCESS REGISTRY OPEN_TIMEOUT_MS
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "board.h"

#define MAX_RUN 16 /* tuples in a batch, or by a cursor */

static struct plan plan;
static struct board *board;
static uint32_t process, open_timeout_ms;
static const char *address;
static struct dfi *contexts[2];

struct end {
	const struct end_plan *plan;
	struct end_board *board;
	pthread_t thread;
	pthread_mutex_t lock; /* of the handle, while another may abort it */
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_target_group *group; /* of STYLE_GROUP */
	uint32_t n_moved;
	uint32_t out_size; /* of what a target gives */
	char *tuples;      /* MAX_RUN of them */
	uint32_t next_n[MAX_SOURCES];
};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void sleep_us(uint32_t us)
{
	struct timespec ts = {
		.tv_sec = us / 1000000,
		.tv_nsec = (long)(us % 1000000) * 1000,
	};

	nanosleep(&ts, NULL);
}

/* Before a call that may wait. */
static void enter(struct end *end)
{
	atomic_store(&end->board->entered_ns, now_ns());
}

static int failed(struct end *end, int ret)
{
	end->board->failed_ns = now_ns();
	end->board->ret = ret;
	snprintf(
	    end->board->text, sizeof(end->board->text), "%s", dfi_errmsg());
	return ret;
}

static void set_state(struct end *end, enum end_state state)
{
	atomic_store(&end->board->state, state);
}

/* After -EAGAIN. Without a time limit, so that a lost wake-up is a hang. */
static void wait_for(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	poll(&pollfd, 1, -1);
}

/* Before it first follows its plan. */
static void note_acting(struct end *end)
{
	if (!end->board->acted_ns)
		end->board->acted_ns = now_ns();
}

/* End this process, or let the endpoint act, if it is time. */
static bool acts(struct end *end)
{
	enum act act = end->plan->act;

	if (act == ACT_NONE || act == ACT_ABORT_OTHER ||
	    end->n_moved < end->plan->act_at)
		return false;
	note_acting(end);
	if (act == ACT_EXIT || act == ACT_DIE)
		atomic_store(&board->processes[process].died_ns, now_ns());
	if (act == ACT_DIE)
		kill(getpid(), SIGKILL);
	else if (act == ACT_EXIT)
		_exit(EXIT_SUCCESS);
	else if (act == ACT_CANCEL)
		dfi_target_cancel(end->target);
	else if (act == ACT_ABORT && end->source)
		dfi_source_abort(end->source);
	else if (act == ACT_ABORT)
		dfi_target_abort(end->target);
	end->board->cancelled = act == ACT_CANCEL;
	return act == ACT_CANCEL || act == ACT_LEAVE;
}

static void count_moved(struct end *end, uint32_t n)
{
	const struct end_plan *what = end->plan;
	uint32_t before = end->n_moved;

	end->n_moved += n;
	if (what->pause_every &&
	    before / what->pause_every != end->n_moved / what->pause_every)
		sleep_us(what->pause_us);
}

/* ---- Sources ----------------------------------------------------------- */

/* The tuple was pushed for this target, or for all. */
static void count_pushed(struct end *end, uint32_t target)
{
	uint32_t t;

	if (!goes_to_all(&plan)) {
		atomic_fetch_add(&end->board->tuples[target], 1);
		return;
	}
	for (t = 0; t < plan.n_targets; t++)
		atomic_fetch_add(&end->board->tuples[t], 1);
}

static void note_refused(struct end *end, uint32_t target)
{
	end->board->refused_by |= goes_to_all(&plan)
	    ? (1u << plan.n_targets) - 1
	    : 1u << target;
}

/* As calls take it. */
static uint32_t named_target(uint32_t target)
{
	return goes_to_all(&plan) ? DFI_ALL_TARGETS : target;
}

static int push_one(struct end *end, uint32_t target)
{
	if (plan.routing == DFI_ROUTE_HASH || goes_to_all(&plan))
		return dfi_source_push(end->source, end->tuples);
	return dfi_source_push_to(end->source, target, end->tuples);
}

static int claim_one(struct end *end, uint32_t target)
{
	struct dfi_span span;
	int ret = dfi_source_claim(end->source, named_target(target), &span);

	if (ret < 0)
		return ret;
	memcpy(span.tuples, end->tuples, plan.tuple_size);
	return dfi_source_commit(end->source, &span, 1);
}

static int cursor_one(struct end *end, uint32_t target)
{
	struct dfi_source_cursor cursor = dfi_source_cursor_open(
	    end->source, named_target(target), plan.tuple_size);

	dfi_source_cursor_push(&cursor, end->tuples, plan.tuple_size);
	return dfi_source_cursor_close(cursor);
}

/* Tuple n of those for its target. */
static int push(struct end *end, uint32_t n)
{
	uint32_t index = end->plan->index;
	uint32_t target = tuple_target(&plan, index, n);
	struct end_board *at = end->board;
	uint64_t number = atomic_load(&at->tuples[target]);
	int ret;

	make_tuple(&plan, index, n, (uint32_t)number, end->tuples);
	do {
		enter(end);
		if (end->plan->style == STYLE_CURSOR)
			ret = cursor_one(end, target);
		else if (end->plan->style == STYLE_BATCH)
			ret = claim_one(end, target);
		else
			ret = push_one(end, target);
		if (ret == -EAGAIN)
			wait_for(dfi_source_fd(end->source));
	} while (ret == -EAGAIN);
	if (ret == -EPIPE)
		note_refused(end, target);
	else if (!ret)
		count_pushed(end, target);
	count_moved(end, 1);
	return ret == -EPIPE ? 0 : ret;
}

/* The next tuples of a batch; a refused tuple's number is lost. */
static int push_batch(struct end *end, uint32_t *n)
{
	uint32_t index = end->plan->index, i, target, count;
	uint32_t made[MAX_TARGETS] = { 0 };
	struct end_board *at = end->board;
	int ret;

	count = end->plan->n_tuples - *n;
	if (count > MAX_RUN)
		count = MAX_RUN;
	for (i = 0; i < count; i++) {
		target = tuple_target(&plan, index, *n + i);
		make_tuple(&plan, index, *n + i,
		    (uint32_t)atomic_load(&at->tuples[target]) +
			(goes_to_all(&plan) ? i : made[target]++),
		    end->tuples + (size_t)i * plan.tuple_size);
	}
	enter(end);
	ret = dfi_source_push_batch(end->source, end->tuples, count);
	if (ret == -EAGAIN) {
		wait_for(dfi_source_fd(end->source));
		return 0;
	}
	if (ret == -EPIPE) {
		note_refused(end, tuple_target(&plan, index, *n));
		++*n;
		return 0;
	}
	for (i = 0; ret > 0 && i < (uint32_t)ret; i++)
		count_pushed(end, tuple_target(&plan, index, *n + i));
	if (ret > 0) {
		*n += (uint32_t)ret;
		count_moved(end, (uint32_t)ret);
	}
	return ret < 0 ? ret : 0;
}

static int flush(struct end *end)
{
	uint64_t pushed[MAX_TARGETS];
	uint32_t t;
	int ret;

	for (t = 0; t < plan.n_targets; t++)
		pushed[t] = atomic_load(&end->board->tuples[t]);
	do {
		enter(end);
		ret = dfi_source_flush(end->source);
		/* Combined tuples need room. */
		if (ret == -EAGAIN)
			wait_for(dfi_source_fd(end->source));
	} while (ret == -EAGAIN);
	for (t = 0; !ret && t < plan.n_targets; t++)
		atomic_store(&end->board->flushed[t], pushed[t]);
	return ret;
}

static int push_all(struct end *end)
{
	const struct end_plan *what = end->plan;
	bool batches = what->style == STYLE_BATCH &&
	    (plan.routing == DFI_ROUTE_HASH || goes_to_all(&plan));
	uint32_t n = 0, flushed = 0;
	int ret = 0;

	while (!ret && n < what->n_tuples) {
		acts(end);
		ret = batches ? push_batch(end, &n) : push(end, n++);
		if (!ret && what->flush_every &&
		    n - flushed >= what->flush_every) {
			flushed = n;
			ret = flush(end);
		}
	}
	acts(end);
	return ret;
}

static int open_source(struct end *end)
{
	struct dfi_source_attr attr = {
		.size = sizeof(attr),
		.flags = end->plan->nonblock ? DFI_NONBLOCK : 0,
		.wait = end->plan->wait,
		.open_timeout_ms = open_timeout_ms,
	};

	return dfi_source_open(contexts[end->plan->second_context], FLOW,
	    end->plan->index, &attr, &end->source);
}

/* ---- Targets ----------------------------------------------------------- */

static void take_tuple(struct end *end, const void *tuple)
{
	struct end_board *at = end->board;
	struct chaos_tuple head;
	uint64_t number;
	uint32_t order = atomic_load(&at->n_order);

	memcpy(&head, tuple, sizeof(head));
	if (check_tuple(&plan, tuple)) {
		number = atomic_load(&at->tuples[head.source]);
		if (head.number == number &&
		    (goes_to_all(&plan) || head.target == end->plan->index) &&
		    head.n >= end->next_n[head.source]) {
			if (plan.ordered && order < MAX_ORDER) {
				at->order[order] = (uint8_t)head.source;
				atomic_store(&at->n_order, order + 1);
			}
			end->next_n[head.source] = head.n + 1;
			atomic_store(&at->tuples[head.source], number + 1);
			return;
		}
	}
	if (!at->damaged)
		snprintf(at->text, sizeof(at->text),
		    "tuple %u of source %u, number %u, for target %u", head.n,
		    head.source, head.number, head.target);
	at->damaged = true;
}

/* A source has ended: all its tuples are here. */
static void take_result(struct end *end, const void *tuple)
{
	struct end_board *at = end->board;
	struct chaos_result result;

	memcpy(&result, tuple, sizeof(result));
	if (result.source < plan.n_sources && result.count &&
	    !atomic_load(&at->tuples[result.source]) && !result.first &&
	    result.last == result.count - 1 &&
	    result.sum == result.count * (result.count - 1) / 2) {
		atomic_store(&at->tuples[result.source], result.count);
		return;
	}
	if (!at->damaged)
		snprintf(at->text, sizeof(at->text),
		    "%lu tuples of source %u, numbers %u to %u, sum %lu",
		    (unsigned long)result.count, result.source, result.first,
		    result.last, (unsigned long)result.sum);
	at->damaged = true;
}

static void take(struct end *end, const void *tuple)
{
	if (plan.kind == DFI_COMBINE)
		take_result(end, tuple);
	else
		take_tuple(end, tuple);
}

static int consume_batch(struct end *end)
{
	struct dfi_batch batch;
	int ret = dfi_target_consume_batch(end->target, &batch);
	uint32_t i;

	for (i = 0; ret > 0 && i < batch.count; i++)
		take(
		    end, (const char *)batch.tuples + (size_t)i * batch.stride);
	if (ret > 0)
		dfi_target_release(end->target, &batch);
	return ret;
}

static int consume_run(struct end *end)
{
	struct dfi_target_cursor cursor = dfi_target_cursor_open(
	    end->target, end->out_size);
	const void *tuple;
	int ret, n = 0;

	while (n < MAX_RUN &&
	    (tuple = dfi_target_cursor_get(&cursor, end->out_size))) {
		take(end, tuple);
		n++;
	}
	ret = dfi_target_cursor_close(cursor);
	/* A time limit would be reported again only after the next one. */
	return n && (ret >= 0 || ret == -EAGAIN) ? n : ret;
}

static int consume_one(struct end *end)
{
	const void *tuple;
	int ret = dfi_target_consume(end->target, &tuple);

	if (ret > 0)
		take(end, tuple);
	return ret;
}

static int consume_group(struct end *end)
{
	struct dfi_target_group_batch batch;
	int ret = dfi_target_group_consume_batch(end->group, &batch);
	uint32_t i;

	for (i = 0; ret > 0 && i < batch.batch.count; i++)
		take(end,
		    (const char *)batch.batch.tuples +
			(size_t)i * batch.batch.stride);
	if (ret > 0)
		dfi_target_group_release(end->group, &batch);
	return ret;
}

static int consume(struct end *end)
{
	enter(end);
	if (end->group)
		return consume_group(end);
	if (end->plan->style == STYLE_BATCH)
		return consume_batch(end);
	if (end->plan->style == STYLE_CURSOR)
		return consume_run(end);
	return consume_one(end);
}

static int consume_all(struct end *end)
{
	int ret;

	do {
		if (acts(end))
			return 0;
		ret = consume(end);
		if (ret == -EAGAIN)
			wait_for(end->group ? dfi_target_group_fd(end->group)
					    : dfi_target_fd(end->target));
		else if (ret > 0)
			count_moved(end, (uint32_t)ret);
	} while (ret > 0 || ret == -EAGAIN);
	return ret;
}

static int open_target(struct end *end)
{
	struct dfi_target_attr attr = {
		.size = sizeof(attr),
		.flags = end->plan->nonblock ? DFI_NONBLOCK : 0,
		.wait = end->plan->wait,
		.open_timeout_ms = open_timeout_ms,
	};

	struct dfi *dfi = contexts[end->plan->second_context];
	int ret = dfi_target_open(
	    dfi, FLOW, end->plan->index, &attr, &end->target);

	if (ret < 0 || end->plan->style != STYLE_GROUP)
		return ret;
	ret = dfi_target_group_open(dfi,
	    &(struct dfi_target_group_attr){
		.size = sizeof(struct dfi_target_group_attr),
		.flags = attr.flags,
		.wait = attr.wait,
	    },
	    &end->group);
	return ret ? ret : dfi_target_group_add(end->group, end->target, NULL);
}

/* ---- Both ---------------------------------------------------------------- */

/* Without a registry, a refused call is just repeated. */
static bool is_refused(int ret)
{
	return (plan.loses_registry || outlives_lease(&plan, process)) &&
	    (ret == -ENOTCONN || ret == -ECONNREFUSED);
}

static int open_end(struct end *end)
{
	int64_t wait_limit = now_ns() + (int64_t)open_timeout_ms * 1000000;
	int ret;

	do {
		end->board->opening_ns = now_ns();
		enter(end);
		ret = end->plan->is_source ? open_source(end)
					   : open_target(end);
		if (is_refused(ret))
			sleep_us(5000);
	} while (is_refused(ret) && now_ns() < wait_limit);
	return ret;
}

static void *run_end(void *arg)
{
	struct end *end = arg;
	struct end_board *at = end->board;
	int ret;

	sleep_us(end->plan->delay_ms * 1000);
	set_state(end, END_OPENING);
	pthread_mutex_lock(&end->lock);
	ret = open_end(end);
	pthread_mutex_unlock(&end->lock);
	if (ret < 0) {
		failed(end, ret);
		set_state(end, END_REFUSED);
		return NULL;
	}
	at->opened_ns = now_ns();
	set_state(end, END_OPEN);
	ret = end->source ? push_all(end) : consume_all(end);
	if (ret < 0)
		failed(end, ret);
	pthread_mutex_lock(&end->lock);
	at->closing_ns = now_ns();
	set_state(end, END_CLOSING);
	enter(end);
	if (end->group)
		dfi_target_group_close(end->group);
	at->close_ret = end->source ? dfi_source_close(end->source)
				    : dfi_target_close(end->target);
	if (at->close_ret < 0 && !ret)
		failed(end, at->close_ret);
	at->closed_ns = now_ns();
	set_state(end, END_CLOSED);
	pthread_mutex_unlock(&end->lock);
	return NULL;
}

static void abort_end(struct end *end)
{
	pthread_mutex_lock(&end->lock);
	if (atomic_load(&end->board->state) == END_OPEN) {
		note_acting(end);
		if (end->source)
			dfi_source_abort(end->source);
		else
			dfi_target_abort(end->target);
	}
	pthread_mutex_unlock(&end->lock);
}

/* Another thread aborts at most two of the endpoints, in turn. */
static void abort_ends(struct end *ends, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (ends[i].plan->act == ACT_ABORT_OTHER) {
			sleep_us(ends[i].plan->act_at * 1000);
			abort_end(&ends[i]);
		}
}

static int note(int ret)
{
	struct process_board *at = &board->processes[process];

	if (ret < 0 && !at->ret) {
		at->ret = ret;
		snprintf(at->text, sizeof(at->text), "%s", dfi_errmsg());
	}
	return ret;
}

static void close_context(int i)
{
	note(dfi_close(contexts[i]));
	board->processes[process].closed_ns[i] = now_ns();
}

static int open_context(struct dfi **dfi)
{
	int64_t wait_limit = now_ns() + (int64_t)open_timeout_ms * 1000000;
	struct dfi_attr attr = DFI_ATTR_INIT;
	int ret;

	attr.registry = address;
	attr.lease_ttl_ms = plan.lease_ms;
	do {
		ret = dfi_open(&attr, dfi);
		if (is_refused(ret))
			sleep_us(5000);
	} while (is_refused(ret) && now_ns() < wait_limit);
	return note(ret);
}

/* Start the endpoints of this process. */
static uint32_t start_ends(struct end *ends)
{
	uint32_t e, n = 0;

	for (e = 0; e < plan.n_ends; e++) {
		if (plan.ends[e].process != process)
			continue;
		ends[n].plan = &plan.ends[e];
		ends[n].board = &board->ends[e];
		ends[n].board->pid = (uint32_t)getpid();
		ends[n].out_size = plan.kind == DFI_COMBINE
		    ? (uint32_t)sizeof(struct chaos_result)
		    : plan.tuple_size;
		ends[n].tuples = malloc((size_t)MAX_RUN * plan.tuple_size);
		pthread_mutex_init(&ends[n].lock, NULL);
		pthread_create(&ends[n].thread, NULL, run_end, &ends[n]);
		n++;
	}
	return n;
}

/* Wait for the other processes; verdict.c judges the arrivals. */
static void meet(void)
{
	struct process_board *at = &board->processes[process];
	struct dfi_barrier *barrier;
	int ret;

	at->meeting_ns = now_ns();
	ret = dfi_barrier_open(
	    contexts[0], FLOW, plan.n_processes, process, &barrier);
	if (!ret) {
		ret = dfi_barrier_wait(barrier, open_timeout_ms);
		snprintf(at->meet_text, sizeof(at->meet_text), "%s",
		    ret ? dfi_errmsg() : "");
		dfi_barrier_close(barrier);
	} else {
		snprintf(
		    at->meet_text, sizeof(at->meet_text), "%s", dfi_errmsg());
	}
	at->meet_ret = ret;
	at->met_ns = now_ns();
	at->met = true;
}

static void run_ends(void)
{
	static struct end ends[MAX_ENDS];
	uint32_t i, n;

	if (open_context(&contexts[0]) < 0)
		return;
	if (open_context(&contexts[1]) < 0)
		goto close;
	if (plan.meets)
		meet();
	n = start_ends(ends);
	abort_ends(ends, n);
	for (i = 0; i < n; i++) {
		pthread_join(ends[i].thread, NULL);
		free(ends[i].tuples);
	}
	close_context(1);
close:
	close_context(0);
}

static void create(void)
{
	struct dfi_field fields[] = {
		DFI_FIELD(struct chaos_tuple, key),
		DFI_FIELD(struct chaos_tuple, source),
		DFI_FIELD(struct chaos_tuple, n),
		DFI_FIELD(struct chaos_tuple, number),
		DFI_FIELD(struct chaos_tuple, target),
		{ .name = "rest", .type = DFI_BYTES },
	};
	struct dfi_schema schema = DFI_SCHEMA(struct chaos_tuple, fields);
	static const struct dfi_aggregate aggregates[] = {
		{ .function = DFI_COUNT },
		{ .function = DFI_SUM, .field = "number" },
		{ .function = DFI_MIN, .field = "number" },
		{ .function = DFI_MAX, .field = "number" },
	};
	bool combines = plan.kind == DFI_COMBINE;
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = plan.kind,
		.combine.aggregates = combines ? aggregates : NULL,
		.combine.n_aggregates = combines ? 4 : 0,
		.combine.group_by = combines ? "source" : NULL,
		.combine.source_combining = plan.source_combining,
		.replicate.method = plan.replication,
		.replicate.ordered = plan.ordered,
		.schema = &schema,
		.n_sources = plan.n_sources,
		.n_targets = plan.n_targets,
		.goal = plan.goal,
		.routing = plan.routing,
		.segment_size = plan.segment_size,
		.segment_count = plan.segment_count,
		.flags = plan.flags,
	};
	char word;

	fields[5].offset = (uint32_t)sizeof(struct chaos_tuple);
	fields[5].size = plan.tuple_size - fields[5].offset;
	schema.tuple_size = plan.tuple_size;
	if (!fields[5].size)
		schema.n_fields--;
	if (open_context(&contexts[0]) < 0)
		return;
	if (note(dfi_flow_create(contexts[0], FLOW, &attr)) == 0)
		atomic_store(&board->processes[process].ready_ns, now_ns());
	while (read(STDIN_FILENO, &word, 1) > 0)
		;
	close_context(0);
}

int main(int argc, char **argv)
{
	if (argc != 7)
		return EXIT_FAILURE;
	/* If chaos is killed, its processes end as well. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED,
	    atoi(argv[1]), 0);
	if (board == MAP_FAILED)
		return EXIT_FAILURE;
	make_plan(&plan, strtoull(argv[2], NULL, 10),
	    (uint32_t)strtoul(argv[3], NULL, 10));
	process = (uint32_t)strtoul(argv[4], NULL, 10);
	board->processes[process].pid = (uint32_t)getpid();
	address = argv[5];
	open_timeout_ms = (uint32_t)strtoul(argv[6], NULL, 10);
	if (process == CREATOR)
		create();
	else
		run_ends();
	return EXIT_SUCCESS;
}
