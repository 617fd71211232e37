/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multi-Paxos with elections and cumulative acknowledgements:
 * examples/consensus/PROTOCOL.md, whose words are used. Three replicas; replica
 * (b - 1) % 3 leads ballot b. A candidate whose promises are a quorum proposes
 * what it has found, and behind it commands of its own.
 *
 * Messages are facts: a vote that was cast can be counted at any later time, by
 * anyone, any number of times or never. A promise is heard at once, later, or
 * never. A crashed replica is one that does nothing any more.
 *
 * Checked: a leader that commits and a follower that applies up to a leader's
 * commit learn the same of a slot. To commit and to apply only allows more, so
 * all do it as soon as they may.
 *
 * check                          holds
 * check -DMUTANT_NO_QUORUM       assertion # a vote less commits
 * check -DMUTANT_FEW_PROMISES    assertion # a promise less elects
 * check -DMUTANT_OWN_VALUE       assertion # what is found is not proposed
 * check -DMUTANT_LOWEST_BALLOT   assertion # of two found, the older is
 * check -DMUTANT_SHORT_PROMISE   assertion # without its last part
 * check -DMUTANT_LATE_VOTE       assertion # after a promise
 * check -DMUTANT_OLD_VOTE        assertion # of another ballot counts
 * check -DMUTANT_COMMIT_BLIND    assertion # entries of older ballots apply
 * check -DMUTANT_HOLES           assertion # "up to" over what is missing
 * check -DMUTANT_FORGOTTEN       assertion # votes again
 */
#define REPLICAS 3
#define SLOTS 2
#define BALLOTS 3

#define MAJORITY 2
#ifdef MUTANT_NO_QUORUM
#define COMMIT_QUORUM 1
#else
#define COMMIT_QUORUM MAJORITY
#endif
#ifdef MUTANT_FEW_PROMISES
#define PROMISE_QUORUM 1
#else
#define PROMISE_QUORUM MAJORITY
#endif

#define leader(b) (((b) - 1) % REPLICAS)
#define at(r, s) ((r) * SLOTS + (s))
#define of(b, s) ((b) * SLOTS + (s))
#define bit(b) (1 << (b))
#define own(b, s) (1 + of(b, s)) /* the leader's own command for a slot */

/* The acceptors: promises, and the ballots and commands of their last votes. */
byte promised[REPLICAS];
byte last[REPLICAS * SLOTS];
byte value[REPLICAS * SLOTS];
byte acked[REPLICAS * (BALLOTS + 1)]; /* ACCEPTED: how many slots, at most */
#ifdef MUTANT_FORGOTTEN
bool forgotten;
#endif

/* Of each ballot: who was heard, and the best that it found; what it proposes. */
byte heard[BALLOTS + 1];
byte found[SLOTS * (BALLOTS + 1)];
byte found_value[SLOTS * (BALLOTS + 1)];
bool leads[BALLOTS + 1];
byte proposal[SLOTS * (BALLOTS + 1)];
byte committed[BALLOTS + 1]; /* slots */

byte learnt[SLOTS];

#define acks(r, b) acked[(r) * (BALLOTS + 1) + (b)]
#ifdef MUTANT_OLD_VOTE
#define counts(r, s, b) (last[at(r, s)] != 0)
#else
#define counts(r, s, b) (acks(r, b) > (s))
#endif
#define has(r, s, b) (last[at(r, s)] == (b))
#define commits(s, b) \
	(leads[b] && promised[leader(b)] == (b) && has(leader(b), s, b) && \
	counts(0, s, b) + counts(1, s, b) + counts(2, s, b) >= COMMIT_QUORUM)
#ifdef MUTANT_COMMIT_BLIND
#define applies(r, s, b) \
	(committed[b] > (s) && promised[r] == (b) && last[at(r, s)] != 0)
#else
#define applies(r, s, b) \
	(committed[b] > (s) && promised[r] == (b) && has(r, s, b))
#endif

#ifdef MUTANT_LATE_VOTE
#define in_time(r, b) (last[at(r, 0)] <= (b))
#else
#define in_time(r, b) (promised[r] <= (b))
#endif
#ifdef MUTANT_HOLES
#define in_order(r, s, b) true
#else
#define in_order(r, s, b) ((s) == 0 || has(r, (s) - 1, b))
#endif
#define takes(r, s, b) \
	(leads[b] && in_time(r, b) && in_order(r, s, b) && !has(r, s, b))

#define promises(r, b) \
	((heard[b] & bit(r)) == 0 && promised[r] <= (b) && \
	((r) == leader(b) || promised[leader(b)] >= (b)))
#define has_quorum(b) \
	(promised[leader(b)] == (b) && (heard[b] & bit(leader(b))) != 0 && \
	(heard[b] & 1) + (heard[b] >> 1 & 1) + (heard[b] >> 2) >= \
	PROMISE_QUORUM)
#ifdef MUTANT_SHORT_PROMISE
#define TOLD (SLOTS - 1)
#else
#define TOLD SLOTS
#endif
#ifdef MUTANT_LOWEST_BALLOT
#define newer(v, w) ((w) == 0 || (v) < (w))
#else
#define newer(v, w) ((v) > (w))
#endif

inline learn(slot, what)
{
	assert(learnt[slot] == 0 || learnt[slot] == what);
	learnt[slot] = what
}

inline any(i, from, to)
{
	i = from;
	do
	:: i < to -> i++
	:: break
	od;
	skip
}

inline promise(r, b)
{
	promised[r] = b;
	if
	:: !heard_it
	:: heard_it -> heard[b] = heard[b] | bit(r);
		s = 0;
		do
		:: s < TOLD ->
			if
			:: last[at(r, s)] != 0 &&
				newer(last[at(r, s)], found[of(b, s)]) ->
				found[of(b, s)] = last[at(r, s)];
				found_value[of(b, s)] = value[at(r, s)]
			:: else
			fi;
			s++
		:: else -> break
		od
	fi
}

inline lead(b)
{
	leads[b] = true;
	heard[b] = 0;
	s = 0;
	do
	:: s < SLOTS ->
		proposal[of(b, s)] = own(b, s);
#ifndef MUTANT_OWN_VALUE
		if
		:: found[of(b, s)] != 0 ->
			proposal[of(b, s)] = found_value[of(b, s)]
		:: else
		fi;
#endif
		found[of(b, s)] = 0;
		found_value[of(b, s)] = 0;
		s++
	:: else -> break
	od
}

inline accept(r, s, b)
{
	promised[r] = b;
	last[at(r, s)] = b;
	value[at(r, s)] = proposal[of(b, s)];
	if
	:: acks(r, b) < s + 1 -> acks(r, b) = s + 1
	:: else
	fi
}

#ifdef MUTANT_FORGOTTEN
inline forget(r)
{
	forgotten = true;
	promised[r] = 0;
	b = 1;
	do
	:: b <= BALLOTS -> heard[b] = heard[b] & ~bit(r); b++
	:: else -> break
	od;
	s = 0;
	do
	:: s < SLOTS -> last[at(r, s)] = 0; value[at(r, s)] = 0; s++
	:: else -> break
	od
}
#endif

/* All that may be committed and applied. */
inline settle()
{
	b = 1;
	do
	:: b <= BALLOTS ->
		do
		:: committed[b] < SLOTS && commits(committed[b], b) ->
			s = committed[b];
			learn(s, value[at(leader(b), s)]);
			committed[b]++
		:: else -> break
		od;
		s = 0;
		do
		:: s < SLOTS ->
			r = 0;
			do
			:: r < REPLICAS ->
				if
				:: applies(r, s, b) -> learn(s, value[at(r, s)])
				:: else
				fi;
				r++
			:: else -> break
			od;
			s++
		:: else -> break
		od;
		b++
	:: else -> break
	od;
	r = 0; s = 0; b = 0
}

active proctype all()
{
	byte r, s, b;
	bool heard_it;

end:	do
	:: atomic {
		any(b, 1, BALLOTS);
		if
		:: leads[b] ->
			any(r, 0, REPLICAS - 1);
			any(s, 0, SLOTS - 1);
			d_step {
				if
				:: takes(r, s, b) -> accept(r, s, b); settle()
				:: else
				fi;
				r = 0; s = 0; b = 0
			}
		:: !leads[b] ->
			any(r, 0, REPLICAS - 1);
			any(heard_it, 0, 1);
			d_step {
				if
				:: promises(r, b) -> promise(r, b)
				:: else
				fi;
				r = 0; s = 0; b = 0; heard_it = false
			}
		:: !leads[b] && has_quorum(b) ->
			d_step { lead(b); s = 0; b = 0 }
		fi
	}
#ifdef MUTANT_FORGOTTEN
	:: atomic {
		!forgotten ->
		any(r, 0, REPLICAS - 1);
		d_step { forget(r); r = 0; s = 0; b = 0 }
	}
#endif
	od
}
