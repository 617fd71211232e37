/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of an open replicate flow that moves between the rings of its pairs and
 * shared rings: docs/open-flows.md, "Shared rings" (G1 to G6). Target 0 is there from
 * the beginning, and may be evicted at any time, also while it is stopped. Target 1
 * joins at any time, or never. The source sends TUPLES segments of one tuple. A helper
 * makes up to RINGS shared rings, one after the other, for those that are there.
 *
 * A ring has COUNT slots, a shared one has one more. Numbers in footers wrap at NUMBERS,
 * so that an old footer can look like one that is due.
 *
 * Left out: the order in which stores reach memory (credit_ring.pml); sleeping; targets
 * on other hosts; marks, which are sent as tuples are; a source that dies: what it has
 * sent stays, as it was.
 *
 * Checked: each target gets each tuple from its first on once and in order; what it was
 * lent does not change, also when it was evicted; a move goes to a ring that was granted.
 * In the end, which comes, each target that was not evicted has all.
 *
 * check                          holds
 * check -DMUTANT_STAY            assertion # goes on in the ring of an evicted one
 * check -DMUTANT_NO_SLOT         deadlock  # no slot is kept for the move back
 * check -DMUTANT_SOON            assertion # the next one before all have left the last
 * check -DMUTANT_ANY_SET         assertion # moves whoever has joined meanwhile
 * check -DMUTANT_SOME            assertion # a ring is granted to one only
 * check -DMUTANT_SAME_MEMORY     assertion # the next ring is where the last one was
 * check -DMUTANT_NO_MOVE         deadlock  # a reader is not told to move back
 * check -DMUTANT_CLEAR_ALL       deadlock  # footers of what is unread as well
 * check -DMUTANT_OLD_FOOTERS -DTUPLES=10    assertion # footers of before the move out
 * check -DMUTANT_CLEAR_LATE -DTUPLES=10     assertion # a reader may be back before
 */
#define TARGETS 2
#define COUNT 2
#ifdef MUTANT_NO_SLOT
#define SLOTS COUNT
#else
#define SLOTS (COUNT + 1)
#endif
#define NUMBERS 8
#define RINGS 2
#ifndef TUPLES
#define TUPLES 5
#endif

/* What a segment has: a tuple from 1 on, or a move: back, or to a ring. */
#define BACK 100
#define OUT(ring) (BACK + ring)

#define NONE 0
#define READY 1
#define USED 2
#define LEFT 3
#define OVER 4

/* Slots: the number in the footer, and what is there. */
byte own_number[TARGETS * COUNT], own_what[TARGETS * COUNT];
byte number[(RINGS + 1) * SLOTS], what[(RINGS + 1) * SLOTS];
byte granted[TARGETS]; /* the newest ring that a target may read, or 0 */

/* What the registry says. */
bool there[TARGETS], evicted[TARGETS];
bool stopped; /* target 0, for good */

/* Of the source; its numbers of segments do not wrap. */
byte state = NONE, ring, next;
bool made_for[TARGETS], member[TARGETS], attached[TARGETS], outdated;
byte sent[TARGETS], given_back[TARGETS], first[TARGETS], there_sent[TARGETS];
byte own_next[TARGETS]; /* slot */
byte tuples; /* sent so far */
byte joined_at[TARGETS];
bool ended;

/* Where a ring's slots are. */
#ifdef MUTANT_SAME_MEMORY
#define slots(ring) SLOTS
#else
#define slots(ring) ((ring) * SLOTS)
#endif

#define has_room(t, n) (!attached[t] || sent[t] + n <= given_back[t] + COUNT)
#define is_away(t) (member[t] && state == USED)

inline put_own(t, x)
{
	own_number[t * COUNT + own_next[t]] = sent[t] % NUMBERS;
	own_what[t * COUNT + own_next[t]] = x;
	own_next[t] = (own_next[t] + 1) % COUNT;
	sent[t]++
}

/* Shared numbers begin with 1. */
inline put_shared(x)
{
	number[slots(ring) + next % SLOTS] = (next + 1) % NUMBERS;
	what[slots(ring) + next % SLOTS] = x;
	next++
}

inline count_member(t)
{
	if
	:: member[t] -> sent[t]++; there_sent[t]++
	:: else
	fi
}

/*
 * Slots of an own ring, but for those of segments that the target has yet to give
 * back, must not look like segments that are due.
 */
inline clear_own(t)
{
#ifndef MUTANT_OLD_FOOTERS
#ifdef MUTANT_CLEAR_ALL
	n = 0;
#else
	n = (given_back[t] < first[t] -> first[t] - given_back[t] : 0);
#endif
	i = sent[t];
	j = own_next[t];
	do
	:: n < COUNT ->
		own_number[t * COUNT + j] = (i + NUMBERS - COUNT) % NUMBERS;
		n++;
		i++;
		j = (j + 1) % COUNT
	:: else -> break
	od
#else
	skip
#endif
}

inline back_one(t)
{
	if
	:: member[t] -> sent[t]++; there_sent[t]++; clear_own(t)
	:: else
	fi
}

inline back_all()
{
#ifndef MUTANT_NO_MOVE
	back_one(0);
	back_one(1)
#else
	skip
#endif
}

inline tell_all()
{
#ifndef MUTANT_NO_MOVE
	put_shared(BACK)
#else
	skip
#endif
}

/* Readers run between the two. */
#ifdef MUTANT_CLEAR_LATE
#define leave_first() tell_all()
#define leave_then() back_all()
#else
#define leave_first() back_all()
#define leave_then() tell_all()
#endif

inline have_left()
{
	state = LEFT;
	outdated = false
}

inline send_one(t)
{
	if
	:: attached[t] && !member[t] -> put_own(t, tuples)
	:: attached[t] && member[t] && state != USED -> put_own(t, tuples)
	:: else
	fi
}

inline enter_one(t)
{
	if
	:: attached[t] ->
		put_own(t, OUT(ring));
		member[t] = true;
		first[t] = sent[t];
		there_sent[t] = 0
	:: else
	fi
}

#ifdef MUTANT_SOON
#define has_left(t) true
#else
#define has_left(t) (!member[t] || given_back[t] >= first[t] + there_sent[t])
#endif
#define fits(t) (made_for[t] == attached[t])
#ifdef MUTANT_ANY_SET
#define may_enter (attached[0] || attached[1])
#else
#define may_enter (fits(0) && fits(1))
#endif
#ifdef MUTANT_NO_SLOT
/* Of whoever reads the ring, or did. */
#define has_slot(t) (sent[t] + 1 <= given_back[t] + COUNT)
#define may_leave (has_slot(0) && has_slot(1))
#else
#define may_leave true
#endif

proctype source()
{
	byte i, j, n;

	do
	:: atomic {
		/* A target is taken over. */
		there[1] && !attached[1] && joined_at[1] == 0 && !ended ->
		attached[1] = true;
		joined_at[1] = tuples + 1;
		outdated = state == USED
	}
	:: atomic {
		/* Another is given up. */
		evicted[0] && attached[0] ->
		attached[0] = false;
#ifdef MUTANT_STAY
		member[0] = false
#else
		if
		:: is_away(0) -> outdated = true; clear_own(0)
		:: else
		fi;
		member[0] = false
#endif
	}
	:: atomic {
		state == USED && outdated && may_leave ->
		leave_first()
	   };
	   atomic {
		leave_then();
		have_left()
	   }
	:: atomic {
		state == LEFT && has_left(0) && has_left(1) ->
		member[0] = false;
		member[1] = false;
		state = OVER
	}
	:: atomic {
		state == READY && may_enter && has_room(0, 2) && has_room(1, 2) ->
		next = 0;
		enter_one(0);
		enter_one(1);
		state = USED
	}
	:: atomic {
		state == READY && !(fits(0) && fits(1)) -> state = OVER
	}
	:: atomic {
		tuples < TUPLES && !(state == USED && outdated) &&
		    (attached[0] || attached[1]) && has_room(0, 1) &&
		    has_room(1, 1) ->
		tuples++;
		if
		:: state == USED ->
			put_shared(tuples);
			count_member(0);
			count_member(1)
		:: else
		fi;
		send_one(0);
		send_one(1)
	}
	:: atomic {
		/* All are gone: the rest is for nobody. */
		tuples < TUPLES && !attached[0] && evicted[0] && !attached[1] ->
		tuples = TUPLES
	}
	:: atomic {
		tuples == TUPLES && state != USED && !ended -> ended = true
	}
	:: atomic {
		tuples == TUPLES && state == USED && !outdated && may_leave ->
		leave_first()
	   };
	   atomic {
		leave_then();
		have_left()
	   }
	:: atomic {
		ended && (state == NONE || state == OVER || state == LEFT) -> break
	}
	od
}

proctype helper()
{
	byte k;

end:	do
	:: atomic {
		state == NONE && ring < RINGS && !ended &&
		    ((there[0] && !evicted[0]) || there[1]) ->
		ring++;
		made_for[0] = there[0] && !evicted[0];
		made_for[1] = there[1];
		granted[0] = (made_for[0] -> ring : granted[0]);
#ifndef MUTANT_SOME
		granted[1] = (made_for[1] -> ring : granted[1]);
#endif
		for (k : 0 .. SLOTS - 1) {
			number[slots(ring) + k] =
			    (1 + k + 2 * NUMBERS - SLOTS) % NUMBERS
		}
		state = READY
	}
	:: atomic { state == OVER -> state = NONE }
	od
}

#define own_due(t) (own_number[t * COUNT + slot] == seq % NUMBERS)
#define shared_due (number[slots(there_ring) + slot] == seq % NUMBERS)

#define runs(t) (t || !stopped)

proctype target(byte t)
{
	byte seq, slot, own_slot, own_seq, got, lent, there_ring;
	bool away;

	if
	:: t == 1 ->
end_absent:	there[1]
	:: else
	fi;
end:	do
	:: atomic {
		runs(t) && !away && own_due(t) ->
		lent = own_what[t * COUNT + slot];
		if
		:: lent > BACK ->
			there_ring = lent - BACK;
			assert(granted[t] == there_ring);
			own_slot = (slot + 1) % COUNT;
			own_seq = seq + 1;
			seq = 1;
			slot = 0;
			away = true;
			given_back[t]++;
			lent = 0
		:: else ->
			assert(lent == (got -> got : joined_at[t] - 1) + 1);
			got = lent
		fi
	   };
end_lent:
	   if
	   :: atomic {
		lent && runs(t) ->
		assert(own_what[t * COUNT + slot] == lent);
		lent = 0;
		slot = (slot + 1) % COUNT;
		seq++;
		given_back[t]++
	      }
	   :: lent == 0
	   fi
	:: atomic {
		runs(t) && away && shared_due ->
		lent = what[slots(there_ring) + slot];
		if
		:: lent == BACK ->
			/* What was granted is unmapped. */
			granted[t] = 0;
			there_ring = 0;
			own_seq = own_seq + seq;
			seq = own_seq;
			slot = own_slot;
			away = false;
			given_back[t]++;
			lent = 0
		:: else ->
			assert(lent == (got -> got : joined_at[t] - 1) + 1);
			got = lent
		fi
	   };
end_there:
	   if
	   :: atomic {
		lent && runs(t) ->
		assert(what[slots(there_ring) + slot] == lent);
		lent = 0;
		slot = (slot + 1) % SLOTS;
		seq++;
		given_back[t]++
	      }
	   :: lent == 0
	   fi
	od
}

/* The end is there for all that were not evicted. */
#define is_whole(t) \
	(evicted[t] || !attached[t] || given_back[t] == sent[t])

proctype registry()
{
	if
	:: atomic { there[1] = true }
	:: skip
	fi;
	if
	:: atomic { evicted[0] = true }
	:: atomic { stopped = true }; atomic { evicted[0] = true }
	:: skip
	fi
}

init {
	byte i;

	atomic {
		for (i : 0 .. TARGETS * COUNT - 1) {
			own_number[i] = NUMBERS - COUNT + i % COUNT
		}
		there[0] = true;
		attached[0] = true;
		joined_at[0] = 1;
		run source();
		run helper();
		run target(0);
		run target(1);
		run registry()
	}
	/* All that lives has got all. */
	ended && is_whole(0) && is_whole(1)
}
