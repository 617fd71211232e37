/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kind of flow adds to sources and targets: tables of functions, one row
 * a kind in kinds/kinds.c. An endpoint calls them when it opens and closes, and
 * at most once a segment or a wait in between, with the endpoint's own locks.
 * An entry may be NULL, if its comment says so.
 */
#ifndef DFI_FLOWS_ENDPOINT_KIND_H
#define DFI_FLOWS_ENDPOINT_KIND_H

#include <stdbool.h>
#include <stdint.h>

struct dfi_source;
struct dfi_target;

/* What lanes have done beside what their writers count. */
struct lane_counts {
	uint64_t combined,
	    raw;          /* tuples that were folded, or sent as they are */
	uint64_t records; /* sent, of record_size bytes each */
	uint64_t record_size;
	uint64_t stops;
};

/*
 * Lanes that are not just the segments of a ring: source->lane_ops, which is
 * NULL for others. All entries are there.
 */
struct lane_ops {
	/* As the writer's functions; any thread that has the source's lock. */
	int (*open)(struct dfi_source *source, uint32_t lane);
	int (*publish)(struct dfi_source *source, uint32_t lane, uint64_t used);
	int (*publish_part)(
	    struct dfi_source *source, uint32_t lane, uint64_t used);
	/* Whether tuples are neither sent nor in the open segment. */
	bool (*holds)(const struct dfi_source *source, uint32_t lane);
	/* Nobody is to get what is held. */
	void (*forget)(struct dfi_source *source, uint32_t lane);
	/* The lane is at its end, or is to be sent before: dfi__source_send().
	 */
	int (*reached)(struct dfi_source *source, uint32_t lane);
	int (*send)(struct dfi_source *source, uint32_t lane);
	/* See dfi__source_make_room(). */
	int (*make_room)(struct dfi_source *source, uint32_t lane);
	/* Send all that a lane has; and all of all lanes, whatever the handle
	 * says of waiting. */
	int (*flush)(struct dfi_source *source, uint32_t lane);
	int (*finish)(struct dfi_source *source, int64_t deadline);
	/* After all lanes were opened for the first time. */
	int (*opened)(struct dfi_source *source);
	/* At the end: an error if the stream is not whole. */
	int (*check_whole)(const struct dfi_source *source);
	/* The most tuples that can be claimed, up to n; and if fewer, why, and
	 * what to do. */
	uint32_t (*most_room)(const struct dfi_source *source, uint32_t n,
	    const char **why, const char **instead);
	/* Any thread. */
	void (*count)(
	    const struct dfi_source *source, struct lane_counts *counts);
	/* Of tuples that are neither counted nor in an open segment. */
	uint64_t (*waiting_bytes)(const struct dfi_source *source);
};

/* The life of a source. */
struct source_ops {
	/* The targets are known: take room, then open; or NULL. */
	int (*reserve)(struct dfi_source *source);
	int (*open)(struct dfi_source *source, int64_t deadline);
	/* The rings are open; or NULL. An error may be that target 0 is gone.
	 */
	int (*attach)(struct dfi_source *source, int64_t deadline);
	/* Nothing is sent any more; NULL: nothing to stop. */
	void (*stop)(struct dfi_source *source);
	/* Free what the entries above have made, or a part of it; or NULL. */
	void (*close)(struct dfi_source *source);
	/* Only if the source has a multicast sender: */
	int (*greet)(struct dfi_source *source, int64_t deadline);
	void (*look)(struct dfi_source *source);
	/* Only if segments have places in an order: see source_settle(). */
	int (*await_place)(struct dfi_source *source);
	int (*place_is_late)(const struct dfi_source *source);
};

/* The life of a target, and what it does with segments that come. */
struct intake_ops {
	/* Before its rings are made; when they are; or NULL. */
	int (*reserve)(struct dfi_target *target);
	int (*join)(struct dfi_target *target, int64_t deadline);
	/* Before it is published; or NULL. */
	int (*open)(struct dfi_target *target);
	/* It is closed, but its entry stays; or NULL. */
	void (*rest)(struct dfi_target *target);
	/* Free what open() has made, or a part of it; or NULL. */
	void (*close)(struct dfi_target *target);
	/*
	 * Only if target->merge is there: which ring is next, whether that may
	 * have changed, what was taken, and whether something is missing.
	 */
	int (*find)(struct dfi_target *target, uint32_t *ring);
	bool (*changed)(const struct dfi_target *target);
	uint64_t (*taken)(struct dfi_target *target, uint32_t n);
	int (*check)(const struct dfi_target *target);
	/*
	 * Only if target->combiner is there: lend the next results, whether
	 * there are any, and what a segment's end says.
	 */
	int (*next)(struct dfi_target *target);
	bool (*ready)(const struct dfi_target *target);
	void (*passed)(struct dfi_target *target, uint32_t source);
};

struct kind {
	struct source_ops source;
	struct intake_ops intake;
};

#endif
