/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pairs of an endpoint of an open flow: with each endpoint of the other
 * role that is attached, a closed flow of one source and one target. A helper
 * thread opens and closes the endpoint's side of it, so that neither the owner
 * nor the control thread waits for a peer. The owner takes over what is ready.
 *
 *	state		who uses pair->end	next
 *	-------------------------------------------------------------
 *	PAIR_NONE	nobody			MAKING, by the helper
 *	PAIR_MAKING	nobody			READY or NONE, by the helper
 *	PAIR_READY	nobody			TAKEN, by the owner
 *	PAIR_TAKEN	the owner		RETIRED, by the owner
 *	PAIR_RETIRED	the helper		NONE, by the helper
 *
 * A seat has two of them, so that its next holder need not wait until all of
 * the last one has been consumed. The owner takes them one after the other.
 *
 * A side whose making fails may have been seen by the other, which may have
 * attached. So the target makes the pair again under the id of another attempt,
 * and the source follows.
 */
#ifndef DFI_FLOWS_KINDS_OPEN_PAIRS_H
#define DFI_FLOWS_KINDS_OPEN_PAIRS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "base/notify.h"
#include "base/wait.h"
#include "flows/members/eviction.h"
#include "flows/members/peers.h"
#include "flows/members/seat_watch.h"

enum pair_state {
	PAIR_NONE = 0,
	PAIR_MAKING, /* the peer may use it already */
	PAIR_READY,
	PAIR_TAKEN,
	PAIR_RETIRED,
};

#define SEAT_PAIRS SEAT_WATCH_PAIRS

/* How long after a failure the helper tries again. */
#define PAIRS_AGAIN_NS (INT64_C(100) * NS_PER_MS)

/* With a holder of a seat of the other role. */
struct pair {
	enum pair_state state;
	uint64_t incarnation; /* of that holder */
	uint64_t id;          /* in the keys of the pair */
	uint64_t number; /* of this endpoint's pairs, in the order of making */
	/* Why the owner wants that holder to be evicted, or 0. */
	_Atomic uint32_t evict; /* enum eviction_why */
	_Atomic bool stale;   /* that holder has left, and end can't show it */
	_Atomic bool evicted; /* that holder is; it may be stopped */
	struct unmaker *unmaker; /* a thread that closes end, or NULL */
	void *end;               /* a struct dfi_source or struct dfi_target */
};

/* A seat of the other role. */
struct seat_pairs {
	struct pair pair[SEAT_PAIRS];
	uint64_t last;     /* the last holder with whom a pair was made */
	uint64_t last_id;  /* the id of that pair */
	int64_t try_at;    /* after a failure */
	uint64_t tried;    /* of a target: with which holder it has failed */
	uint32_t attempts; /* ... so often */
	uint64_t doubted;  /* whose pair broke unused: dfi__pairs_doubt() */
};

struct pairs_ops {
	/* The seat is taken, and the helper starts next; or NULL. */
	int (*begin)(void *owner, int64_t deadline);
	/* Open this side of a pair. part is taken over. On the helper. */
	int (*make)(
	    void *owner, struct flow *part, int64_t deadline, void **end);
	/* Close it, whatever its state. Never fails. On the helper. */
	void (*unmake)(void *end);
	/*
	 * For a source: close it as if it had died, before the owner has it.
	 * Never fails. On the helper.
	 */
	void (*discard)(void *end);
	/*
	 * What else the owner's helper does, after each change and when the
	 * returned time has come. On the helper. NULL: nothing.
	 */
	int64_t (*tend)(void *owner);
};

/*
 * The cause in the abort mark of a source whose target has lost its seat, for
 * the case that the target still lives.
 */
#define OPEN_CAUSE_GONE 1

#define PAIRS_WHY_SIZE (ERROR_TEXT_SIZE + 2)

struct pairs {
	struct seat_watch seats; /* its lock protects pairs as well */
	struct seat_pairs *of;   /* of each seat of the other role */
	uint64_t n_made;
	_Atomic uint32_t changes; /* counts what the owner should look at */
	const struct pairs_ops *ops;
	void *owner;
	uint64_t store_epoch;  /* of a target: see dfi_target_attr */
	struct peers *sleeper; /* has the word in which the owner sleeps */
	pthread_t helper;
	bool has_helper, stops;
	char why[ERROR_TEXT_SIZE];   /* why a pair was not made; or "" */
	char broke[ERROR_TEXT_SIZE]; /* why the last pair was doubted */
};

/*
 * Take a seat and start the helper. pairs must not move. The errors are those
 * of dfi__seat_watch_open(), and of starting a thread.
 */
int dfi__pairs_open(struct pairs *pairs, struct dfi *dfi,
    const struct flow *flow, enum open_role role, uint32_t index,
    int64_t deadline);

/* End the helper. The owner then uses all pairs that have an end. */
void dfi__pairs_stop(struct pairs *pairs);

/*
 * Close all ends, give the seat back, and free what pairs holds. Preserves
 * dfi_errmsg().
 */
void dfi__pairs_close(struct pairs *pairs);

/*
 * For error texts: ": " and why the last pair was not made, or "" if none is
 * missing for such a reason. Returns text.
 */
const char *dfi__pairs_why(struct pairs *pairs, char text[PAIRS_WHY_SIZE]);

static inline uint32_t pairs_changes(struct pairs *pairs)
{
	/* Pairs with the publish in pairs.c; the lock protects the rest. */
	return atomic_observe(&pairs->changes);
}

/* Under the lock: whether anything of that seat may still come. */
bool dfi__pairs_expected(const struct pairs *pairs, uint32_t seat);

/*
 * Under the lock: whether a pair is about to be taken, or is being made, of a
 * seat of which none is taken.
 */
bool dfi__pairs_are_coming(const struct pairs *pairs);

/*
 * Under the lock: take the pair of a seat that is next, if it is ready and none
 * is taken, or beside: though one is. Returns it, or NULL.
 */
struct pair *dfi__pairs_take(struct pairs *pairs, uint32_t seat, bool beside);

/* Under the lock: whether another holder's tuples wait behind those of a pair.
 */
bool dfi__pairs_followed(
    const struct pairs *pairs, uint32_t seat, const struct pair *pair);

/* Hand a pair that was taken back to the helper. */
void dfi__pairs_retire(struct pairs *pairs, struct pair *pair);

/*
 * For a target: the pair of that seat, which was taken, broke before a segment
 * came, for the reason in dfi_errmsg(). True: its source still holds the seat,
 * so only its side of the pair may have failed, and the pair is made again. The
 * owner retires it either way.
 */
bool dfi__pairs_doubt(struct pairs *pairs, uint32_t seat, struct pair *pair);

/*
 * Under the lock: whether the source that was doubted has left before its pair
 * was made again: then it was lost, as pairs->broke says. Once.
 */
bool dfi__pairs_was_lost(struct pairs *pairs, uint32_t seat);

/*
 * Have the holder evicted with whom a pair was taken; the helper tries until
 * the registry has done it.
 */
void dfi__pairs_evict(
    struct pairs *pairs, struct pair *pair, enum eviction_why why);

/*
 * The same for a connection that broke, if the holder has not died or left: the
 * registry has a moment to say so.
 */
void dfi__pairs_evict_broken(
    struct pairs *pairs, uint32_t seat, struct pair *pair);

/* Its reason has gone: the helper tries no more. It may have done it by now. */
static inline void pairs_spare(struct pair *pair)
{
	atomic_set(&pair->evict, 0);
}

/*
 * For the helper, under the lock, which it gives up in between: close the end
 * of a pair that is retired; false: that is being done. The peer of one that
 * was evicted may be stopped, so that closing takes seconds: a thread of its
 * own does it, and the helper goes on. await: before the pairs are freed.
 */
bool dfi__pairs_unmake(struct pairs *pairs, uint32_t seat, struct pair *pair);
void dfi__pairs_await_unmade(struct pairs *pairs);

/*
 * For the helper, under the lock, which it gives up in between: evict the peer
 * of a pair that asks for it, unless this endpoint is out itself by then.
 */
void dfi__pairs_tend_eviction(
    struct pairs *pairs, uint32_t seat, struct pair *pair);

/* How an owner waits for its pairs. */
struct pairs_wait {
	struct wait_policy *policy;
	struct wait_time *time;
	struct notify *notify;
	uint32_t cost; /* of ready(), in cache lines */
	bool (*ready)(void *arg);
	/* Announce the owner at its rings; true: at some for the first time. */
	bool (*announce)(void *arg, struct notify *notify, bool *unwoken);
	/* Arm the networks before a sleep. */
	void (*arm)(void *arg);
	uint64_t (*progress)(void *arg); /* any count */
	void *arg;
};

/*
 * Make the descriptor readable once ready() is true; true: it is by now. For
 * handles with DFI_NONBLOCK, and within dfi__pairs_wait().
 */
bool dfi__pairs_arm(
    const struct pairs_wait *wait, struct notify *notify, int64_t deadline);

/* Wait until ready() is true; false: the handle's time is over. */
bool dfi__pairs_wait(const struct pairs_wait *wait);

#endif
