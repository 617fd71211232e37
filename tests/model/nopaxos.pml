/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NOPaxos on top of Multi-Paxos: examples/consensus/PROTOCOL.md, whose words are
 * used. Three replicas; replica (b - 1) % 3 leads ballot b. Ballot 1 begins with
 * a session of the ordered flow; each later ballot prepares, proposes what it has
 * found, and opens a session behind it. A session's segment for a slot reaches a
 * replica or doesn't, at any time.
 *
 * Messages are facts: a vote that was cast can be counted at any later time, by
 * anyone, any number of times or never. So votes are kept as a history, apart
 * from what their replica knows; a late, repeated or lost message needs nothing
 * further. A promise is heard at once, later, or never.
 *
 * A vote is 2 * ballot for the segment (or what a new leader has found), and
 * 2 * ballot + 1 for the no-op that the leader has decided upon. A crashed
 * replica is one that does nothing any more.
 *
 * Checked: whoever learns what a slot holds (a client by its quorum, which goes
 * for all slots before its own, the leader that commits, a follower that applies
 * up to the leader's commit) learns the same. To execute, to commit and to learn
 * only allows more, so all do it as soon as they may.
 *
 * check                              holds
 * check -DMUTANT_NO_QUORUM           assertion # a vote less commits
 * check -DMUTANT_PAST_GAP            assertion # executed before it is decided
 * check -DMUTANT_NOOP_BELOW          assertion # ranks below its request
 * check -DMUTANT_DECIDED_UNKNOWN     assertion # a promise leaves it out
 * check -DMUTANT_NO_FAST             assertion # promises without segments
 * check -DMUTANT_FORGOTTEN           assertion # votes again
 * check -DMUTANT_DECIDES_ACCEPTED    assertion # the leader, what it has
 * check -DMUTANT_FILLED_TWICE        assertion # a late segment after a no-op
 * check -DMUTANT_FOLLOWER_UNDECIDES  assertion # likewise at a follower
 * check -DMUTANT_BLIND_ACK           assertion # counts for a decided no-op
 * check -DMUTANT_BLIND_APPLY         assertion # of a request that became no-op
 * check -DMUTANT_HOLES               assertion # a follower skips a slot
 * check -DMUTANT_NO_LEADER           assertion # in the client's quorum
 * check -DMUTANT_OLD_SEGMENT         assertion # of an older session is taken
 * check -DMUTANT_LATE_VOTE           assertion # after a promise
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

#define leader(b) (((b) - 1) % REPLICAS)
#define at(r, s) ((r) * SLOTS + (s))
#define of(b, s) ((b) * SLOTS + (s))
#define vote(b, decided) (2 * (b) + (decided))
#define ballot(v) ((v) / 2)
#define decided(v) ((v) % 2)
#define bit(v) (1 << (v))

/* What a slot holds: 0 nothing, or a no-op, or a session's segment for it. */
#define NOOP 1
#define segment(b, s) (1 + of(b, s))

#ifdef MUTANT_NOOP_BELOW
#define rank(v) (vote(ballot(v), 1 - decided(v)))
#else
#define rank(v) (v)
#endif

/* The acceptors: their promises, and their last votes and what for. */
byte promised[REPLICAS];
byte last[REPLICAS * SLOTS];
byte value[REPLICAS * SLOTS];
#ifdef MUTANT_FORGOTTEN
bool forgotten; /* one of them has lost all that it knew */
#endif

/* All votes that were ever cast: a set of them for each replica and slot. */
byte cast[REPLICAS * SLOTS];

/* Of each ballot, while it prepares: who was heard, and the best that it found. */
byte heard[BALLOTS + 1];
byte found[SLOTS * (BALLOTS + 1)];
byte found_value[SLOTS * (BALLOTS + 1)];

/* Of each ballot that is led. */
bool leads[BALLOTS + 1];
byte base[BALLOTS + 1];             /* its session's first slot */
byte proposal[SLOTS * (BALLOTS + 1)];
byte executed[BALLOTS + 1];         /* slots by its leader, which has replied */
byte result[SLOTS * (BALLOTS + 1)]; /* what they held then */
byte committed[BALLOTS + 1];        /* slots */

/* What was learnt, by anyone. */
byte learnt[SLOTS];

#define voted(r, s, v) ((cast[at(r, s)] & bit(v)) != 0)
#define votes(s, v) (voted(0, s, v) + voted(1, s, v) + voted(2, s, v))

/* Whether a replica has a vote of this ballot in a slot, and in all before it. */
#define has(r, s, b) (ballot(last[at(r, s)]) == (b))
#define behind(r, s, b) ((s) == 0 || has(r, (s) - 1, b))

/* A slot of the ballot's session that its leader has decided to be a no-op. */
#define is_decided(b, s) voted(leader(b), s, vote(b, 1))

inline learn(slot, what)
{
	assert(what != 0);
	assert(learnt[slot] == 0 || learnt[slot] == what);
	learnt[slot] = what
}

inline cast_vote(r, s, v, what)
{
	promised[r] = ballot(v);
	last[at(r, s)] = v;
	value[at(r, s)] = what;
	cast[at(r, s)] = cast[at(r, s)] | bit(v)
}

/* A replica and a slot and a ballot, any of them. */
inline any(i, from, to)
{
	i = from;
	do
	:: i < to -> i++
	:: break
	od;
	skip
}

/* A promise, whether or not the candidate hears it. */
#define promises(r, b) \
	((heard[b] & bit(r)) == 0 && promised[r] <= (b) && \
	((r) == leader(b) || promised[leader(b)] >= (b)))

inline promise(r, b)
{
	promised[r] = b;
	if
	:: !heard_it
	:: heard_it -> heard[b] = heard[b] | bit(r);
		s = 0;
		do
		:: s < SLOTS ->
			v = last[at(r, s)];
#ifdef MUTANT_NO_FAST
			if
			:: v > 0 && s >= base[ballot(v)] -> v = 0
			:: else
			fi;
#endif
#ifdef MUTANT_DECIDED_UNKNOWN
			v = vote(ballot(v), 0);
#endif
			if
			:: v > 0 && (found[of(b, s)] == 0 ||
				rank(v) > rank(found[of(b, s)])) ->
				found[of(b, s)] = v;
				found_value[of(b, s)] = value[at(r, s)]
			:: else
			fi;
			s++
		:: else -> break
		od
	fi
}

/* A candidate with a quorum leads: it proposes, and opens a session behind. */
#define has_quorum(b) \
	(promised[leader(b)] == (b) && (heard[b] & bit(leader(b))) != 0 && \
	(heard[b] & 1) + (heard[b] >> 1 & 1) + (heard[b] >> 2) >= MAJORITY)

inline lead(b)
{
	leads[b] = true;
	heard[b] = 0;
	base[b] = SLOTS;
	do
	:: base[b] > 0 && found[of(b, base[b] - 1)] == 0 -> base[b]--
	:: else -> break
	od;
	s = 0;
	do
	:: s < SLOTS ->
		if
		:: s >= base[b] -> proposal[of(b, s)] = segment(b, s)
		:: s < base[b] && found[of(b, s)] == 0 -> proposal[of(b, s)] = NOOP
		:: s < base[b] && found[of(b, s)] != 0 ->
			proposal[of(b, s)] = found_value[of(b, s)]
		fi;
		found[of(b, s)] = 0;
		found_value[of(b, s)] = 0;
		s++
	:: else -> break
	od
}

/* A replica takes the ballot's proposal or segment for a slot. */
#ifdef MUTANT_LATE_VOTE
#define in_time(r, b) (ballot(last[at(r, 0)]) <= (b))
#else
#define in_time(r, b) (promised[r] <= (b))
#endif
#ifdef MUTANT_HOLES
#define in_order(r, s, b) (r != leader(b) && (s) >= base[b] || behind(r, s, b))
#else
#define in_order(r, s, b) behind(r, s, b)
#endif
#ifdef MUTANT_FILLED_TWICE
#define is_free(r, s, b) (!has(r, s, b) || (r) == leader(b))
#else
#ifdef MUTANT_FOLLOWER_UNDECIDES
#define is_free(r, s, b) (!has(r, s, b) || (r) != leader(b))
#else
#define is_free(r, s, b) (!has(r, s, b))
#endif
#endif
#define takes(r, s, b) \
	(leads[b] && in_time(r, b) && in_order(r, s, b) && \
	is_free(r, s, b) && !voted(r, s, vote(b, 0)))

/* Its leader has no segment for a slot, and decides that it holds a no-op. */
#ifdef MUTANT_DECIDES_ACCEPTED
#define lacks(s, b) (last[at(leader(b), s)] != vote(b, 1))
#else
#define lacks(s, b) (!has(leader(b), s, b))
#endif
#define decides(r, s, b) \
	((r) == leader(b) && promised[r] == (b) && (s) >= base[b] && \
	behind(r, s, b) && lacks(s, b))

/* A follower hears so, whether it has the segment or not. */
#define obeys(r, s, b) \
	(is_decided(b, s) && (r) != leader(b) && \
	promised[r] <= (b) && behind(r, s, b) && last[at(r, s)] != vote(b, 1))

#ifdef MUTANT_FORGOTTEN
/* A replica loses all that it knows, and goes on. Its votes are still counted. */
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

/*
 * Its leader executes a slot and replies: what it has found, once that is
 * chosen; a segment at once, as that is for the client to count; a no-op once a
 * majority has it.
 */
#ifdef MUTANT_PAST_GAP
#define gap_closed(s, b) true
#else
#define gap_closed(s, b) \
	(!decided(last[at(leader(b), s)]) || votes(s, vote(b, 1)) >= MAJORITY)
#endif
#define executes(s, b) \
	(leads[b] && promised[leader(b)] == (b) && \
	has(leader(b), s, b) && gap_closed(s, b) && \
	((s) >= base[b] || committed[b] > (s)))

/* Its leader commits a slot by the followers' cumulative acknowledgements. */
#ifdef MUTANT_BLIND_ACK
#define same_votes(s, b) \
	((voted(0, s, vote(b, 0)) || voted(0, s, vote(b, 1))) + \
	(voted(1, s, vote(b, 0)) || voted(1, s, vote(b, 1))) + \
	(voted(2, s, vote(b, 0)) || voted(2, s, vote(b, 1))))
#else
#define same_votes(s, b) votes(s, last[at(leader(b), s)])
#endif
#define commits(s, b) \
	(leads[b] && promised[leader(b)] == (b) && \
	has(leader(b), s, b) && same_votes(s, b) >= COMMIT_QUORUM)

/* A follower applies what it has, up to its leader's commit. */
#ifdef MUTANT_BLIND_APPLY
#define knows(r, s, b) true
#else
#define knows(r, s, b) (!is_decided(b, s) || decided(last[at(r, s)]))
#endif
#define applies(r, s, b) \
	(committed[b] > (s) && promised[r] == (b) && has(r, s, b) && \
	knows(r, s, b))

/* A client has its leader's reply, and those of a majority with it. */
#define replied(s, b) (executed[b] > (s) && result[of(b, s)] == segment(b, s))
#ifdef MUTANT_NO_LEADER
#define client_takes(s, b) \
	((s) >= base[b] && leads[b] && votes(s, vote(b, 0)) >= MAJORITY)
#else
#define client_takes(s, b) \
	(replied(s, b) && (s) >= base[b] && \
	voted(leader(b), s, vote(b, 0)) && votes(s, vote(b, 0)) >= MAJORITY)
#endif

/* All that may be executed, committed and learnt. */
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
		do
		:: executed[b] < SLOTS && executes(executed[b], b) ->
			s = executed[b];
			result[of(b, s)] = value[at(leader(b), s)];
			executed[b]++
		:: else -> break
		od;
		s = 0;
		do
		:: s < SLOTS ->
			if
			:: client_takes(s, b) ->
#ifdef MUTANT_NO_LEADER
				learn(s, segment(b, s))
#else
				v = 0;
				do
				:: v <= s -> learn(v, result[of(b, v)]); v++
				:: else -> break
				od
#endif
			:: else
			fi;
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
	r = 0; s = 0; b = 0; v = 0
}

active proctype all()
{
	byte r, s, b, v;
	bool heard_it;

	d_step {
		promised[0] = 1;
		promised[1] = 1;
		promised[2] = 1;
		leads[1] = true;
		s = 0;
		do
		:: s < SLOTS -> proposal[of(1, s)] = segment(1, s); s++
		:: else -> break
		od;
		s = 0
	}
end:	do
	:: atomic {
		any(b, 1, BALLOTS);
		if
		:: leads[b] ->
			any(r, 0, REPLICAS - 1);
			any(s, 0, SLOTS - 1);
			d_step {
				if
				:: takes(r, s, b) ->
					cast_vote(r, s, vote(b, 0), proposal[of(b, s)]);
					settle()
				:: else
				fi;
				r = 0; s = 0; b = 0
			}
		:: leads[b] && base[b] < SLOTS ->
			any(r, 0, REPLICAS - 1);
			any(s, base[b], SLOTS - 1);
			d_step {
				if
				:: decides(r, s, b) || obeys(r, s, b) ->
					cast_vote(r, s, vote(b, 1), NOOP);
					settle()
				:: else
				fi;
				r = 0; s = 0; b = 0
			}
#ifdef MUTANT_OLD_SEGMENT
		:: leads[b] && b > 1 && base[b] < SLOTS ->
			any(r, 0, REPLICAS - 1);
			any(s, base[b], SLOTS - 1);
			d_step {
				if
				:: takes(r, s, b) && r != leader(b) ->
					cast_vote(r, s, vote(b, 0), segment(b - 1, s));
					settle()
				:: else
				fi;
				r = 0; s = 0; b = 0
			}
#endif
		:: !leads[b] ->
			any(r, 0, REPLICAS - 1);
			any(heard_it, 0, 1);
			d_step {
				if
				:: promises(r, b) -> promise(r, b)
				:: else
				fi;
				r = 0; s = 0; b = 0; v = 0; heard_it = false
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
