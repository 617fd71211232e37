/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer reads its event file in passes. It pushes the events that are not
 * in the store when the pass begins, and ends when the store has all. Whatever
 * may have lost events ends a pass: a consumer has gone, or the store gets
 * nothing more. A producer that was killed and comes again does the same, and
 * so does one that was stopped for so long that its seat is gone.
 */
#include <errno.h>
#include <string.h>

#include "../../common/complain.h"
#include "events.h"
#include "store.h"

enum {
	LOOK_EVERY = 256, /* events between looks at consumers */
	MARK_MS = 50,     /* between marks */
	WAIT_MS = 50,     /* for a consumer, between looks at all */
	STORE_MS = 20,    /* between looks at the store */
	STUCK_MS = 3000,  /* the store gets nothing: begin another pass */
};

struct producer {
	const char *folder;
	unsigned number;
	unsigned long rate; /* events a second, or 0 */
	struct board *board;
	struct dfi_source *source;
	uint64_t counts[PARTITIONS]; /* events read, in this pass */
	uint64_t stored[PARTITIONS];
	uint64_t begun,
	    first;         /* when the first pass began, and with which row */
	uint64_t furthest; /* row that a pass has come to */
	uint64_t newest, marked;
	uint64_t mark_at, dropped;
};

/* Whether consumers have gone, and maybe lost events: 1, 0 or an error. */
static int has_lost(struct producer *producer)
{
	struct dfi_event event;
	uint64_t dropped;
	int lost = 0, ret;

	while (!(ret = dfi_source_event(producer->source, &event)))
		lost |= event.type != DFI_JOINED;
	if (ret == -EAGAIN)
		ret = dfi_source_dropped(producer->source, &dropped);
	if (ret < 0)
		return ret;
	lost |= dropped != producer->dropped;
	producer->dropped = dropped;
	return lost;
}

/*
 * All events up to the newest time, but for late ones, were pushed. While there
 * is no room for a mark, a later one does as well.
 */
static int mark(struct producer *producer, uint64_t time)
{
	int ret;

	producer->mark_at = now_ns() + MARK_MS * UINT64_C(1000000);
	if (time <= producer->marked)
		return dfi_source_flush(producer->source);
	ret = dfi_source_mark(producer->source, time);
	if (!ret)
		producer->marked = time;
	return ret == -ETIMEDOUT ? 0 : ret;
}

/* Rows that were read before wait for nothing. */
static void pace(struct producer *producer)
{
	uint64_t due;

	if (!producer->rate)
		return;
	due = producer->begun +
	    (producer->furthest - producer->first) * SECOND_NS / producer->rate;
	while (now_ns() < due)
		sleep_ms(1);
}

static void note_row(
    struct producer *producer, uint64_t row, const struct event *event)
{
	struct board *board = producer->board;

	if (event->time > producer->newest)
		producer->newest = event->time;
	if (row <= producer->furthest)
		return;
	producer->furthest = row;
	if (!board)
		return;
	atomic_store(&board->rows[producer->number], row);
	atomic_store(&board->time[producer->number], producer->newest);
}

static int push(struct producer *producer, const struct event *event)
{
	uint32_t partition = partition_of(event->sensor);
	struct tuple tuple = {
		.sensor = event->sensor,
		.time = event->time,
		.value = event->value,
		.number = ++producer->counts[partition],
		.producer = producer->number,
	};

	int ret;

	if (tuple.number <= producer->stored[partition])
		return 0;
	/* A consumer that is stopped goes on, or is put out. */
	while ((ret = dfi_source_push(producer->source, &tuple)) == -ETIMEDOUT)
		;
	return ret;
}

/* Now and then: 1 if the pass is to end, 0, or an error. */
static int look(struct producer *producer)
{
	int ret = has_lost(producer);

	if (!ret && now_ns() >= producer->mark_at &&
	    producer->newest > LATENESS_MS)
		ret = mark(producer, producer->newest - LATENESS_MS);
	return ret;
}

/* -ESTALE, of a producer whose seat is gone: it was stopped for too long. */
static int failed(int ret, const char *what)
{
	return ret == -ESTALE ? ret : flow_failed(what);
}

/* Push the file's events: 0, 1 if some may be lost, or an error. */
static int push_all(struct producer *producer, struct events *events)
{
	struct event event;
	uint64_t row;
	int ret;

	for (row = 1; (ret = events_next(events, &event)) > 0; row++) {
		if (row > producer->furthest)
			pace(producer);
		note_row(producer, row, &event);
		ret = push(producer, &event);
		if (!ret && row % LOOK_EVERY == 0)
			ret = look(producer);
		if (ret)
			return ret < 0 ? failed(ret, "a push") : ret;
	}
	return ret;
}

/* Wait until the store has all: 0; 1: it doesn't get them; or an error. */
static int await_stored(struct producer *producer)
{
	uint64_t before[PARTITIONS], since = now_ns();
	int ret;

	for (;;) {
		memcpy(before, producer->stored, sizeof(before));
		if (store_seen(producer->folder, producer->number,
			producer->stored) < 0)
			return -1;
		if (!memcmp(producer->stored, producer->counts, sizeof(before)))
			return 0;
		ret = mark(producer, DFI_NO_MARK - 1);
		if (ret < 0)
			return failed(ret, "the last mark");
		if (memcmp(producer->stored, before, sizeof(before)) != 0)
			since = now_ns();
		if (now_ns() - since > STUCK_MS * UINT64_C(1000000))
			return 1;
		ret = has_lost(producer);
		if (ret)
			return ret < 0 ? failed(ret, "a look at consumers")
				       : ret;
		sleep_ms(STORE_MS);
	}
}

static int pass(struct producer *producer)
{
	struct events events;
	int ret;

	memset(producer->counts, 0, sizeof(producer->counts));
	if (store_seen(producer->folder, producer->number, producer->stored) <
		0 ||
	    events_open(&events, producer->folder, producer->number) < 0)
		return -1;
	ret = push_all(producer, &events);
	events_close(&events);
	return ret ? ret : await_stored(producer);
}

static int open_source(struct dfi *dfi, struct producer *producer)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	int ret;

	attr.schema = &tuple_schema;
	attr.flags = DFI_EVENTS;
	attr.stall_timeout_ms = WAIT_MS;
	/*
	 * Its last holder has just died, there is no consumer yet, the registry
	 * is away for a moment, or this process was stopped in this call.
	 */
	while ((ret = dfi_source_open(dfi, FLOW, producer->number, &attr,
		    &producer->source)) == -EEXIST ||
	    ret == -EBUSY || ret == -ETIMEDOUT || ret == -ENOTCONN ||
	    ret == -ESTALE)
		sleep_ms(10);
	if (ret < 0) {
		producer->source = NULL;
		return flow_failed("a producer");
	}
	/* As a new source has them. */
	producer->marked = producer->dropped = 0;
	return 0;
}

/* Until the store has all events: 0, or -1. */
static int work(struct dfi *dfi, struct producer *producer)
{
	struct board *board = producer->board;
	int ret;

	do {
		if (board)
			atomic_fetch_add(&board->passes[producer->number], 1);
		ret = pass(producer);
		if (ret == -ESTALE) {
			(void)dfi_source_close(producer->source);
			ret = open_source(dfi, producer) < 0 ? -1 : 1;
		}
	} while (ret > 0);
	return ret;
}

int produce(const char *folder, unsigned number, unsigned long rate,
    struct board *board)
{
	struct producer producer = {
		.folder = folder,
		.number = number,
		.rate = rate,
		.board = board,
	};
	struct dfi *dfi;
	int ret;

	if (dfi_open(NULL, &dfi) < 0)
		return flow_failed("the registry") != 0;
	ret = create_flow(dfi);
	if (!ret)
		ret = open_source(dfi, &producer);
	if (!ret) {
		producer.begun = now_ns();
		if (board)
			producer.first = atomic_load(&board->rows[number]);
		producer.furthest = producer.first;
		ret = work(dfi, &producer);
		if (dfi_source_close(producer.source) < 0 && !ret)
			ret = flow_failed("the end of a producer");
	}
	dfi_close(dfi);
	return ret < 0;
}
