/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kind of flow adds to sources and targets: tables of functions, one row
 * for each kind in kinds/kinds.h. An endpoint calls them when it opens and
 * closes, and in between at most once for each segment or wait. The caller
 * holds the endpoint's own locks. An entry may be NULL only if its comment says
 * so.
 */
#ifndef DFI_FLOWS_ENDPOINT_KIND_H
#define DFI_FLOWS_ENDPOINT_KIND_H

#include <stdbool.h>
#include <stdint.h>

struct dfi_endpoint_stats;
struct dfi_source;
struct dfi_event;
struct notify;
struct dfi_target;
struct remote;

/* What lanes count in addition to their writers' counters. */
struct lane_counts {
	uint64_t combined, raw; /* tuples folded, and tuples sent as they are */
	uint64_t records;       /* partial aggregates, record_size bytes each */
	uint64_t record_size;
	uint64_t stops;
};

/*
 * The functions of lanes that are more than the segments of a ring:
 * source->lane_ops, NULL for other lanes.
 */
struct lane_ops {
	/*
	 * The counterparts of writer_open(), dfi__writer_publish() and
	 * dfi__writer_publish_part() in buffers/writer.h, with the same
	 * results. publish sets writer->segment to NULL when nothing remains
	 * open. Any thread that has the source's lock calls them. NULL if the
	 * other entries do without dfi__source_make_room() and
	 * dfi__source_send(), and the source never lingers.
	 */
	int (*open)(struct dfi_source *source, uint32_t lane);
	int (*publish)(struct dfi_source *source, uint32_t lane, uint64_t used);
	int (*publish_part)(
	    struct dfi_source *source, uint32_t lane, uint64_t used);
	/*
	 * reached: the lane has all that it may take. send: send its segment
	 * before that. See dfi__source_send().
	 */
	int (*reached)(struct dfi_source *source, uint32_t lane);
	int (*send)(struct dfi_source *source, uint32_t lane);
	/* See dfi__source_make_room(). */
	int (*make_room)(struct dfi_source *source, uint32_t lane);
	/*
	 * flush sends all that a lane has. finish does so for all lanes, and
	 * waits even if the handle is nonblocking.
	 */
	int (*flush)(struct dfi_source *source, uint32_t lane);
	int (*finish)(struct dfi_source *source, int64_t deadline);
	/* What follows is for this target set; NULL: no sets. */
	int (*choose)(struct dfi_source *source, uint64_t targets);

	/* Each of these may be NULL. */

	/*
	 * Whether the lane has tuples that are neither sent nor in its open
	 * segment. forget drops these.
	 */
	bool (*holds)(const struct dfi_source *source, uint32_t lane);
	void (*forget)(struct dfi_source *source, uint32_t lane);
	/* Called after all lanes were opened for the first time. */
	int (*opened)(struct dfi_source *source);
	/* Called at the end: an error if the stream is not whole. */
	int (*check_whole)(const struct dfi_source *source);
	/*
	 * The number of tuples that can be claimed, at most n. If it is less
	 * than n, *why says the reason and *instead what to do.
	 */
	uint32_t (*most_room)(const struct dfi_source *source, uint32_t n,
	    const char **why, const char **instead);
	/* Any thread calls it. */
	void (*count)(
	    const struct dfi_source *source, struct lane_counts *counts);
	/*
	 * The bytes of tuples that are neither counted nor in an open segment.
	 */
	uint64_t (*waiting_bytes)(const struct dfi_source *source);
};

/* The life of a source. */
struct source_ops {
	/*
	 * The targets are known: reserve memory, then open. Each may be NULL. A
	 * kind with one lane makes its replica writer, and sets
	 * source->writers.
	 */
	int (*reserve)(struct dfi_source *source);
	int (*open)(struct dfi_source *source, int64_t deadline);
	/*
	 * The rings are open; or NULL. The cause of an error may be that target
	 * 0 is gone.
	 */
	int (*attach)(struct dfi_source *source, int64_t deadline);
	/*
	 * End and free a source that has no rings of its own, instead of all
	 * else that dfi_source_close() does at the end; flag is as in
	 * dfi__writer_end(). NULL: it has rings.
	 */
	int (*leave)(
	    struct dfi_source *source, uint64_t flag, int64_t deadline);
	/* The source sends nothing more; NULL: there is nothing to stop. */
	void (*stop)(struct dfi_source *source);
	/*
	 * Free what the entries above have made, or the part that they made; or
	 * NULL.
	 */
	void (*close)(struct dfi_source *source);
	/* Both ends are published, and nothing was sent yet; or NULL. */
	int (*greet)(struct dfi_source *source, int64_t deadline);
	/*
	 * The remote of a target's ring, of a kind that makes it; NULL: the
	 * source opens it, as for kinds where this entry is NULL.
	 */
	struct remote *(*ring)(struct dfi_source *source, uint32_t target);
	/*
	 * Targets may have left (look), or the source goes on without this one
	 * (forget); or NULL.
	 */
	void (*look)(struct dfi_source *source);
	void (*forget)(struct dfi_source *source, uint32_t target);
	/*
	 * dfi_source_mark(), of a kind that has marks of its own, or NULL. It
	 * sets source->mark_refused.
	 */
	int (*mark)(struct dfi_source *source, uint64_t value);
	/*
	 * What the counters of dfi_stats_list() have beside those of all
	 * sources; or NULL. On the control thread.
	 */
	void (*describe)(
	    const struct dfi_source *source, struct dfi_endpoint_stats *stats);
	/* Only if segments have positions in an order: see source_settle(). */
	int (*await_position)(struct dfi_source *source);
	int (*position_is_late)(const struct dfi_source *source);
};

/* The life of a target, and how it treats the segments that come. */
struct intake_ops {
	/*
	 * reserve: before the rings are made. join: once they are. Each may be
	 * NULL.
	 */
	int (*reserve)(struct dfi_target *target);
	int (*join)(struct dfi_target *target, int64_t deadline);
	/* Before the target is published; or NULL. */
	int (*open)(struct dfi_target *target);
	/*
	 * Whether more may come from a source that has gone; NULL: it may not.
	 */
	bool (*follows)(struct dfi_target *target, uint32_t source);
	/* The target reads no more and answers no more; or NULL. */
	void (*stop)(struct dfi_target *target);
	/*
	 * Free a target that has no rings of its own, instead of what
	 * dfi_target_close() does. NULL: it has rings.
	 */
	void (*leave)(struct dfi_target *target);
	/*
	 * dfi_target_cancel() of such a target: 0, or why it has not happened;
	 * leave follows.
	 */
	int (*cancel)(struct dfi_target *target);
	/*
	 * Such a target in a group. wakes: dfi__target_ready(). announce:
	 * dfi__target_announce(); sets *unwoken if dfi__target_is_unwoken().
	 * sleeps: arm the networks. withdraw: dfi__target_withdraw().
	 */
	bool (*wakes)(struct dfi_target *target);
	bool (*announce)(
	    struct dfi_target *target, struct notify *notify, bool *unwoken);
	void (*sleeps)(struct dfi_target *target);
	void (*withdraw)(struct dfi_target *target);
	/* The target has closed and its entry stays; or NULL. */
	void (*rest)(struct dfi_target *target);
	/* Free what open() has made, or the part that it made; or NULL. */
	void (*close)(struct dfi_target *target);
	/*
	 * Only if target->in_order is set. find: the ring whose segment is
	 * next. changed: whether find may have a new answer. taken: n segments
	 * were taken. check: an error if a segment is missing for good.
	 */
	int (*find)(struct dfi_target *target, uint32_t *ring);
	bool (*changed)(const struct dfi_target *target);
	uint64_t (*taken)(struct dfi_target *target, uint32_t n);
	int (*check)(const struct dfi_target *target);
	/*
	 * Only if target->gives_results is set. next: lend the next results.
	 * ready: whether there are results. passed: a segment without tuples
	 * has come, which may end a window.
	 */
	int (*next)(struct dfi_target *target);
	bool (*ready)(const struct dfi_target *target);
	void (*passed)(struct dfi_target *target, uint32_t source);
	/*
	 * event: the next event, 0 or -EAGAIN, for dfi_target_event(); NULL:
	 * those of target->marks. watermark: only if target->marks is NULL.
	 */
	int (*event)(struct dfi_target *target, struct dfi_event *event);
	uint64_t (*watermark)(const struct dfi_target *target);
	/*
	 * Of an ordered flow: the position of the next segment, counted from
	 * the flow's first. 0; -EAGAIN: it is not known yet.
	 */
	int (*position)(const struct dfi_target *target, uint64_t *position);
	/* As that of a source. */
	void (*describe)(
	    const struct dfi_target *target, struct dfi_endpoint_stats *stats);
};

struct kind {
	/* A source has one, to all targets; replica_writer, unless it is open.
	 */
	bool one_lane;
	struct source_ops source;
	struct intake_ops intake;
};

#endif
