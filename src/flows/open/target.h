/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which partitions a target of an open flow has, when it may release one and
 * when it may take one, and the rings of sources that are gone: M5, M7, H6 and
 * H7 of docs/open-flows.md.
 *
 * The caller gives each change of the registry to seats and tables, makes and
 * unmakes pairs as sources join and go, and then calls
 * dfi__open_target_learn().
 */
#ifndef DFI_FLOWS_OPEN_TARGET_H
#define DFI_FLOWS_OPEN_TARGET_H

#include "flows/open/table.h"

enum open_pair_state {
	OPEN_PAIR_ATTACHED = 0,
	OPEN_PAIR_REST,  /* its source is gone, and its ring is not empty */
	OPEN_PAIR_ENDED, /* all was taken of a source that has ended */
	OPEN_PAIR_LOST,  /* the same of one that was lost */
};

/* A source of one incarnation, to a target. In memory of the caller. */
struct open_pair {
	enum open_pair_state state;
	uint32_t source;
	uint64_t incarnation, revision;
	uint64_t marked; /* the newest table of which a mark was taken */
	uint64_t behind; /* the application's last mark that was taken, or 0 */
	uint64_t rest;   /* segments that have arrived and were not taken */
	bool done;       /* the source had said that it has ended */
};

enum open_partition_state {
	OPEN_AWAY = 0,
	OPEN_GAINING, /* the event has not been taken */
	OPEN_GAINED,  /* the application restores it, and takes it */
	OPEN_HELD,
	OPEN_GOING,   /* the event has not been taken */
	OPEN_LEAVING, /* the application stores it, and releases it */
};

struct keyed_target {
	const struct open_seats *seats;
	const struct open_tables *tables;
	struct open_pair **pairs; /* of each source's seat; NULL: no holder */
	uint32_t n_rests;
	uint8_t *states;       /* enum open_partition_state of each partition */
	uint64_t *gained;      /* the table by which it came, */
	uint64_t *epochs;      /* and its epoch */
	uint32_t n_due;        /* partitions with an event that is not taken */
	uint32_t n_here;       /* those that are not away */
	struct open_hand hand; /* of the newest table */
	uint64_t *released, *taken; /* its bits */
	bool hand_changed;
};

size_t dfi__open_target_size(uint32_t n_sources, uint32_t n_partitions);
void dfi__open_target_init(struct keyed_target *target,
    const struct open_seats *seats, const struct open_tables *tables,
    void *memory);

/* A source has joined its seat: what it sends is part of this pair. */
void dfi__open_target_join(
    struct keyed_target *target, struct open_pair *pair, uint32_t source);

/*
 * The pair's source is gone (OPEN_ENDED or OPEN_LOST). segments: how many have
 * arrived in its ring and were not taken. They are taken, and no more, whatever
 * arrives later. Once state is not OPEN_PAIR_REST, the caller may unmake the
 * pair.
 */
void dfi__open_target_gone(struct keyed_target *target, struct open_pair *pair,
    enum open_event_type why, uint64_t segments);

/* A segment of the pair was taken: all its tuples were lent. */
void dfi__open_target_took(struct keyed_target *target, struct open_pair *pair);

/* A mark of a table was taken, or the end mark. */
void dfi__open_target_marked(struct open_pair *pair, uint64_t table);
void dfi__open_target_ended(
    struct keyed_target *target, struct open_pair *pair);

/* Whether a source has to mark the newest table at this target, and has not. */
bool dfi__open_target_misses(
    const struct keyed_target *target, uint32_t source);

/* Act on a change of the registry, a mark, or the end of a pair. */
void dfi__open_target_learn(struct keyed_target *target);

/*
 * The next partition that was gained, or that leaves (true in *leaves), as
 * event. False: there is none. An eviction takes none away.
 */
bool dfi__open_target_event(
    struct keyed_target *target, uint32_t *partition, bool *leaves);

/*
 * The application takes a partition that was gained, or releases one that
 * leaves. False: it is not in that state.
 */
bool dfi__open_target_take(struct keyed_target *target, uint32_t partition);
bool dfi__open_target_release(struct keyed_target *target, uint32_t partition);

/* Whether the "hand/" key has to be put; if so, with *hand. True once. */
bool dfi__open_target_hand(
    struct keyed_target *target, const struct open_hand **hand);

/*
 * Whether a target that leaves has handed over all that it had, and no table
 * says that it owns anything.
 */
bool dfi__open_target_has_left(const struct keyed_target *target);

static inline bool open_target_holds(
    const struct keyed_target *target, uint32_t partition)
{
	return target->states[partition] >= OPEN_HELD;
}

#endif
