/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target of a flow with replay has consumed and acknowledged of each
 * source (R1 and R4 of docs/open-flows.md). The lock of the seats protects what
 * was acknowledged; the rest is the owner's.
 */
#ifndef DFI_FLOWS_KINDS_OPEN_ACKS_H
#define DFI_FLOWS_KINDS_OPEN_ACKS_H

#include "flows/declare/route.h"
#include "flows/open/replay.h"
#include "open_target.h"

struct acks {
	const struct flow *flow;
	struct seat_watch *seats;
	struct router router; /* with keys */
	uint64_t n_due; /* tuples that were given back; not acknowledged */
	/*
	 * The tuples of the segment in work, up to end, and the next of them to
	 * lend (acks_filter.c). tuples NULL: there is none, or they count.
	 */
	const char *tuples, *rest, *end;
	_Atomic uint64_t filtered; /* tuples that were seen before (R3) */
	bool passed_over;          /* nothing was lent of some segment */
	struct open_inputs *of;    /* of each source */
	char *memory;              /* of these */
	/* Without keys, of each: all up to here is acknowledged (R8). */
	_Atomic uint64_t *lows;
	/*
	 * Of each seat: who was lost there last, and when all of it was
	 * consumed, or INT64_MAX: it is given up; 0: nobody, or it has
	 * returned (R7). The lock protects it.
	 */
	struct lost {
		uint64_t incarnation;
		int64_t at;
	} * lost;
	/*
	 * Of each seat, a pair and its segments that were acknowledged, if the
	 * source spills, or when the whole ring waited for that. The lock
	 * protects them.
	 */
	struct pair_acks *segments;
	/* For the helper (acks_report.c): */
	bool reports; /* of what is acknowledged, to sources, are due */
	/* Without keys: of each seat, the last holder that got one. */
	uint64_t *holders;
};

/*
 * For a target that opens: 0 without replay as well. -EINVAL: it has no events.
 * -ENOMEM. free: NULL is allowed.
 */
int dfi__acks_open(struct dfi_target *target);
void dfi__acks_free(struct acks *acks);

/* Under the lock: what is known of a source's seat. */
struct open_inputs *dfi__acks_of(struct acks *acks, uint32_t source);

/* Whether that was ever asked for. */
bool dfi__acks_is_known(const struct acks *acks, uint32_t source);

/* Under the lock: a pair was taken. */
void dfi__acks_join(struct open_target *open, struct taken *taken);

/*
 * The head has a segment of the pair taken[i]: lend the first run of its tuples
 * that were not seen (R3): 1. 0: all were, and it is given back.
 */
int dfi__acks_lend(struct open_target *open, uint32_t i);
/* Whether a ring may have more behind one that was given back so. Once. */
bool dfi__acks_have_passed(struct acks *acks);
/* Lend the next run of the segment in work. False: there is none. */
bool dfi__acks_lend_rest(struct open_target *open);
/* Whether there is one. */
bool dfi__acks_have_rest(const struct acks *acks);
/* Its tuples are given back. */
void dfi__acks_gave_back(struct open_target *open, struct taken *taken);
/*
 * A pair has no segment, but maybe had some without tuples: 0, or an error of
 * its transport.
 */
int dfi__acks_passed(struct open_target *open, struct taken *taken);

/* -ENOBUFS, with a text: a whole ring waits for an acknowledgement. */
int dfi__acks_check(struct dfi_target *target);

/* Whether something was given back and is not acknowledged. */
bool dfi__acks_are_due(const struct acks *acks);

/*
 * Under the lock: have the helper tell all sources what was acknowledged.
 * report: on the helper, under the lock, which it gives up in between; state:
 * with keys, the partitions, else NULL. 0 or -EAGAIN. tend: the same without
 * keys, without the lock, for sources that have come. withdraw: the target
 * closes; NULL is allowed.
 */
void dfi__acks_call(struct acks *acks);
int dfi__acks_report(struct acks *acks, const struct keyed_target *state);
int64_t dfi__acks_tend(struct acks *acks);
void dfi__acks_withdraw(struct acks *acks);

/*
 * R7. lost: a source's pair was retired, as it was lost. give_up: on the
 * helper: when the next one is due. gave_up: under the lock: the incarnation of
 * the one that was lost in this seat if it is given up now, or 0. Once.
 */
void dfi__acks_lost(struct open_target *open, const struct taken *taken);
int64_t dfi__acks_give_up(struct acks *acks);
uint64_t dfi__acks_gave_up(struct open_target *open, uint32_t source);

#endif
