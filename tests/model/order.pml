/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Global order: two sources, two targets and a sequencer, over datagrams;
 * docs/replicate.md, "Global order". One source may die at any point, also
 * between drawing a number and sending under it, which leaves a hole.
 *
 * The streams below are those of multicast.pml, so here a segment arrives once,
 * sometime, and, as several streams know nothing of each other, in no order.
 * What a source that dies has sent arrives at all targets, at one or at none.
 * With NOTIFY any segment does; a target that misses one asks for its place, of
 * which the source, as long as it is there, says the number at last; and
 * gap_timeout is over at any time.
 *
 * Bounds: SEGMENTS(i) segments of source i, a window of WINDOW, numbers in full.
 * A push that finds no credit waits, or is given up, after which its source
 * closes.
 *
 * Checked: at each place of the order, each target has the segment that drew its
 * number, or with NOTIFY a report, once; segments of a source stay in order.
 * Nobody waits for ever. A target that ends well has all, or reports of it, and
 * if a source dies and something is missing that nobody can say the place of,
 * the flow fails where it is.
 *
 * check                             holds
 * check -DNOTIFY                    holds
 * check -DMUTANT_NUMBER_FIRST       deadlock  # and then credit
 * check -DMUTANT_SHARED_BUFFERS     deadlock  # not one window for each source
 * check -DMUTANT_PATIENT            deadlock  # with the dead
 * check -DMUTANT_ARRIVAL_ORDER      assertion
 * check -DMUTANT_SKIP               assertion # what is missing at a death
 * check -DMUTANT_END_IS_ALL         assertion # before the segments are there
 * check -DMUTANT_GOOD_END           assertion # after a death
 * check -DNOTIFY -DMUTANT_GUESS     deadlock  # whose a missing number was
 * check -DNOTIFY -DMUTANT_NO_ANSWER deadlock  # of a source that closes
 * check -DNOTIFY -DMUTANT_NO_TAIL   deadlock  # STATE doesn't say what was sent
 * check -DNOTIFY -DMUTANT_PATIENT   deadlock  # with holes
 * check -DNOTIFY -DMUTANT_LATE      assertion # what was reported, still comes
 */
#define SOURCES 2
#define TARGETS 2
#define WINDOW 1
#define SEGMENTS(i) (1 + (i)) /* of source i */
#define PLACES (SEGMENTS(0) + SEGMENTS(1)) /* in the order, at most */

/* Arrays of pairs. */
#define at(target, what) ((target) * PLACES + (what))
#define of(target, source) ((target) * SOURCES + (source))

/* How it ended. */
#define RUNNING 0
#define GOOD 1
#define BAD 2

byte drawn; /* the sequencer */

/* By number: who drew it, for which of its segments, and whether it was sent. */
byte owner[PLACES];
byte seq[PLACES];
bool sent[PLACES];

/* On their way: a segment by its number, and the end of a source. */
bool data[TARGETS * PLACES];
bool end_mark[TARGETS * SOURCES];

/* Sources. */
byte next[SOURCES];  /* how many segments were sent */
byte bound[SOURCES]; /* 1 + the number of the last of them */
bool closing[SOURCES];
bool doomed;         /* source 0 dies, unless it ends before */
bool fate_known;
bool dead[SOURCES];
bool gone[SOURCES];  /* as the registry says it, or an abort mark */
byte source_end[SOURCES];

/* Targets. */
byte place[TARGETS];            /* the number to be delivered next */
bool held[TARGETS * PLACES];
byte n_held[TARGETS];
#ifdef NOTIFY
bool placed[TARGETS * PLACES];  /* not there, and known to be lost there */
#endif
#if defined(MUTANT_SKIP) || defined(MUTANT_GUESS)
byte known[TARGETS];            /* numbers below have been drawn */
#endif
byte back[TARGETS * SOURCES];   /* given back: the credit */
byte told[TARGETS * SOURCES];   /* how many were sent, as far as is known */
byte got[TARGETS * SOURCES];    /* arrived, or placed */
bool ended[TARGETS * SOURCES];  /* its END is here */
byte target_end[TARGETS];

/* The end of a stream is here, and all before it, or its places. */
#define whole(t, i) (ended[of(t, i)] && got[of(t, i)] == told[of(t, i)])

#define failed(t) (target_end[t] == BAD)
#define allows(t, i) (next[i] - back[of(t, i)] < WINDOW)
#define has_credit(i) (allows(0, i) && allows(1, i))

inline draw(i)
{
	number = drawn;
	owner[number] = i;
	seq[number] = next[i];
	drawn++
}

/*
 * A multicast is lost for good where the policy is to notify, or who sent it
 * dies before it sends it again. It makes no difference when it is lost.
 */
#ifdef NOTIFY
#define may_be_lost(i) true
#else
#define may_be_lost(i) (i == 0 && doomed)
#endif

inline send_one(t, i)
{
	if
	:: !target_end[t] -> data[at(t, number)] = true
	:: target_end[t] || may_be_lost(i)
	fi
}

inline send(i)
{
	sent[number] = true;
	send_one(0, i);
	send_one(1, i);
	next[i]++;
	bound[i] = number + 1;
	number = 0
}

/* END is repeated, in both policies. */
inline send_end(t, i)
{
	if
	:: end_mark[of(t, i)] = true
	:: i == 0 && doomed
	fi
}

active [SOURCES] proctype source()
{
	byte number, i = _pid;
	bool impatient, gives_up;

	fate_known;
	{
#ifndef NOTIFY
		if
		:: impatient = true /* DFI_NONBLOCK, or stall_timeout_ms */
		:: true
		fi;
#endif
		do
		:: next[i] < SEGMENTS(i) && !gives_up ->
#ifdef MUTANT_NUMBER_FIRST
			atomic { draw(i) };
#endif
			if
			:: has_credit(i)
			:: impatient && !has_credit(i) -> gives_up = true
			:: failed(0) || failed(1) -> break
			fi;
			if
			:: !gives_up ->
#ifndef MUTANT_NUMBER_FIRST
				atomic { draw(i) };
#endif
				atomic { send(i) }
			:: else
			fi
		:: else -> break
		od;
		/* dfi_source_close() */
		if
		:: failed(0) || failed(1)
		:: else ->
			atomic {
				closing[i] = true;
				send_end(0, i);
				send_end(1, i)
			};
			(whole(0, i) || target_end[0]) &&
			    (whole(1, i) || target_end[1])
		fi;
		if
		:: whole(0, i) && whole(1, i) -> source_end[i] = GOOD
		:: else ->
			/* Its abort mark is, to a target, as if it had died. */
			atomic { source_end[i] = BAD; gone[i] = true }
		fi
	} unless { dead[i] }
}

/* Of a segment that is there: its number, and that it was sent. */
inline learn(t, n)
{
#ifdef NOTIFY
	if
	:: seq[n] >= told[of(t, owner[n])] -> told[of(t, owner[n])] = seq[n] + 1
	:: else
	fi;
#endif
#if defined(MUTANT_SKIP) || defined(MUTANT_GUESS)
	if
	:: n >= known[t] -> known[t] = n + 1
	:: else
	fi;
#endif
	skip
}

/* STATE, as long as it is news; when other things come first does no harm. */
#ifdef MUTANT_NO_TAIL
#define has_news(t, i) false
#else
#define has_news(t, i) \
	(!dead[i] && !closing[i] && told[of(t, i)] < next[i])
#endif

#define idle(t) (!(data[at(t, 0)] || data[at(t, 1)] || data[at(t, 2)]))

inline take_state(t, i)
{
	told[of(t, i)] = next[i]
}

inline take_end(t, i)
{
	end_mark[of(t, i)] = false;
	take_state(t, i);
	ended[of(t, i)] = true
}

/* Deliver it, or report that it is lost; it is given back. */
inline deliver(t, n)
{
	assert(sent[n]);
	/* Each place of the order has the segment of its number. */
	assert(n == place[t]);
	assert(seq[n] == back[of(t, owner[n])]);
	back[of(t, owner[n])]++
}

/* The next list: what is there in order, the application gets. */
inline next_place(t)
{
	do
	:: place[t]++;
		if
		:: place[t] < PLACES && held[at(t, place[t])] ->
			deliver(t, place[t]);
			held[at(t, place[t])] = false;
			n_held[t]--
		:: else -> break
		fi
	od
}

#ifdef MUTANT_ARRIVAL_ORDER
#define in_any_order true
#else
#define in_any_order false
#endif

inline take_data(t, n)
{
	data[at(t, n)] = false;
#ifdef NOTIFY
	if
	:: n >= place[t] && !placed[at(t, n)] -> got[of(t, owner[n])]++
	:: else -> placed[at(t, n)] = false
	fi;
#else
	got[of(t, owner[n])]++;
	/* No place was passed that was not filled. */
	assert(n >= place[t]);
#endif
	learn(t, n);
	if
	:: n == place[t] || in_any_order ->
		deliver(t, n);
		next_place(t)
	:: n > place[t] && !in_any_order ->
		n_held[t]++;
		held[at(t, n)] = true
#ifndef MUTANT_LATE
	:: n < place[t] && !in_any_order /* it was reported */
#else
	:: n < place[t] && !in_any_order -> deliver(t, n)
#endif
	fi
}

#ifdef MUTANT_SHARED_BUFFERS
#define room(t, n) (n_held[t] < WINDOW)
#else
#define room(t, n) true
#endif
#define takes(t, n) (data[at(t, n)] && room(t, n))

#ifdef NOTIFY
/* A source says the place of what a target misses and has asked for. */
#ifdef MUTANT_NO_ANSWER
#define answers(i) (!dead[i] && !closing[i])
#else
#define answers(i) (!dead[i] && !source_end[i])
#endif
#define misses(t, n) \
	(sent[n] && n >= place[t] && !held[at(t, n)] && !placed[at(t, n)] && \
	    seq[n] < told[of(t, owner[n])] && answers(owner[n]))

inline take_place(t, n)
{
	placed[at(t, n)] = true;
	got[of(t, owner[n])]++
}

#define is_lost(t) (place[t] < PLACES && placed[at(t, place[t])])

/* gap_timeout is over. */
inline report(t)
{
	deliver(t, place[t]);
	placed[at(t, place[t])] = false;
	next_place(t)
}
#endif

/* It is known that nothing more comes from a source. */
#ifdef MUTANT_END_IS_ALL
#define is_over(t, i) ended[of(t, i)]
#else
#define is_over(t, i) \
	(ended[of(t, i)] && back[of(t, i)] == told[of(t, i)])
#endif
/* A stream that never will be whole. */
#define is_dead(t, i) (gone[i] && !whole(t, i))

active [TARGETS] proctype target()
{
	byte t = _pid - SOURCES;

	do
	:: atomic { takes(t, 0) -> take_data(t, 0) }
	:: atomic { takes(t, 1) -> take_data(t, 1) }
	:: atomic { takes(t, 2) -> take_data(t, 2) }
	:: atomic { end_mark[of(t, 0)] -> take_end(t, 0) }
	:: atomic { end_mark[of(t, 1)] -> take_end(t, 1) }
#ifdef NOTIFY
	:: atomic { has_news(t, 0) && idle(t) -> take_state(t, 0) }
	:: atomic { has_news(t, 1) && idle(t) -> take_state(t, 1) }
	:: atomic { misses(t, 0) -> take_place(t, 0) }
	:: atomic { misses(t, 1) -> take_place(t, 1) }
	:: atomic { misses(t, 2) -> take_place(t, 2) }
	:: atomic { is_lost(t) -> report(t) }
#ifdef MUTANT_GUESS
	:: atomic { place[t] < known[t] -> next_place(t) }
#endif
#endif
	:: atomic { is_over(t, 0) && is_over(t, 1) ->
		target_end[t] = GOOD;
		break }
#ifdef MUTANT_SKIP
	:: atomic { (is_dead(t, 0) || is_dead(t, 1)) && place[t] < known[t] ->
		next_place(t) }
#endif
#ifndef MUTANT_PATIENT
	/* What is there in order was delivered: the rest is of no use. */
	:: atomic { is_dead(t, 0) || is_dead(t, 1) ->
#ifdef MUTANT_GOOD_END
		target_end[t] = GOOD;
#else
		target_end[t] = BAD;
#endif
		break }
#endif
	od;
	atomic {
		data[at(t, 0)] = false;
		data[at(t, 1)] = false;
		data[at(t, 2)] = false;
		end_mark[of(t, 0)] = false;
		end_mark[of(t, 1)] = false
	}
}

/* Source 0 dies, or not; the other one would be the same. */
active proctype registry()
{
	atomic {
		if
		:: doomed = true
		:: true
		fi;
		fate_known = true
	}
	if
	:: doomed ->
		if
		:: atomic { !source_end[0] -> dead[0] = true };
			gone[0] = true
		:: source_end[0]
		fi
	:: !doomed
	fi
}

#define source_over(i) (source_end[i] || dead[i])

active proctype judge()
{
	target_end[0] && target_end[1] && source_over(0) && source_over(1);
	d_step {
		/* Without a death all is well. */
		assert(dead[0] || target_end[0] == GOOD && target_end[1] == GOOD &&
		    source_end[0] == GOOD && source_end[1] == GOOD);
		/* A good end is one of all streams, with nothing left out. */
		assert(target_end[0] != GOOD || ended[of(0, 0)] && ended[of(0, 1)]
		    && place[0] >= bound[0] && place[0] >= bound[1]);
		assert(target_end[1] != GOOD || ended[of(1, 0)] && ended[of(1, 1)]
		    && place[1] >= bound[0] && place[1] >= bound[1]);
	}
}
