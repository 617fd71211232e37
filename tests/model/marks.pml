/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of two sources at two targets: docs/open-flows.md, "Marks" (K1 to K5). A
 * source pushes one tuple before each of its marks, whose values are 1 to MARKS; the
 * tuple before mark v has the time v. Source 1 joins at any time. Source 0 dies or
 * stops at any time, or does neither, and a target may find it idle. With REPLAY it
 * returns after its death, and sends all again, or is given up.
 *
 * Which target a tuple goes to follows from its source and time. A ring has room for
 * ROOM tuples and marks. A returned source goes on in its old ring here: in the
 * protocol the rest of that is read before, or is dropped as seen (R3). With NEXT the
 * seat of source 0 has a next holder, source 2, whose ring is read when the rest of the
 * one before it is (M5), and which sends all from the beginning.
 *
 * Left out: sources that close, which are as those that are lost without REPLAY;
 * acknowledgements (replay.pml); combiner flows.
 *
 * Checked: the watermark is the least value of those that count, and never falls; a
 * tuple whose time is not above it is flagged late, and is of a source that was idle,
 * or joined when the watermark was there already. With ALIGN nothing behind a mark is
 * taken before the watermark is there, but for the rest of a source that is gone; a
 * value that the watermark reaches is a barrier, unless it is told to be none: then
 * nothing behind that mark of any source was taken. In the end, which comes, the
 * watermark is at MARKS.
 *
 * check                                  holds
 * check -DALIGN                          holds
 * check -DREPLAY                         holds
 * check -DREPLAY -DALIGN                 holds
 * check -DNEXT -DALIGN -DMARKS=4         holds
 * check -DMUTANT_JOIN_AT_0               assertion # falls
 * check -DMUTANT_JOIN_AT_MARK            assertion # counts from its first mark
 * check -DMUTANT_DEAD_AT_ONCE            assertion # before its ring is empty
 * check -DMUTANT_DEAD_COUNTS             deadlock
 * check -DMUTANT_NO_IDLE                 deadlock  # a stopped source counts
 * check -DMUTANT_NO_FLAG                 assertion # of an idle source
 * check -DMUTANT_IDLE_MARK               assertion # counts by an old mark
 * check -DMUTANT_NO_NEWS -DALIGN         deadlock  # only marks raise it
 * check -DMUTANT_NO_ALIGN -DALIGN        assertion
 * check -DMUTANT_MARK_APART -DALIGN      deadlock  # to one after the other
 * check -DMUTANT_ALIGN_BY_ALL -DALIGN    deadlock  # also by those who do not count
 * check -DMUTANT_ALIGN_REST -DNEXT -DALIGN -DMARKS=4     deadlock # of who is gone
 * check -DMUTANT_ALL_BARRIERS -DNEXT -DALIGN -DMARKS=4   assertion
 * check -DMUTANT_NO_HOLD -DREPLAY        assertion # while a source is away
 * check -DMUTANT_RETURN_AT_0 -DREPLAY    assertion # falls
 * check -DMUTANT_REPEAT -DREPLAY         assertion # a repeated mark counts
 */
#ifdef NEXT
#define SOURCES 3
#else
#define SOURCES 2
#endif
#define TARGETS 2
#ifndef MARKS
#define MARKS 2
#endif
#ifndef ROOM
#define ROOM 1
#endif

#define of_pair(t, s) ((t) * SOURCES + (s))
#define TUPLE(v) (v)
#define MARK(v) (8 + (v))
chan ring[TARGETS * SOURCES] = [ROOM] of { byte };

/* A source has pushed so many things: tuple 1, mark 1, tuple 2, mark 2. */
byte pushed[SOURCES];
#define is_mark(s) (pushed[s] % 2)
#ifdef NEXT
/* Source 0 leaves the first values out: others may be behind it by some marks. */
#define FIRST 3
#else
#define FIRST 1
#endif
#define first(s) ((s) == 0 -> FIRST : 1)
#define value_of(s) (first(s) + pushed[s] / 2)
#define goes_to(s) ((value_of(s) + ((s) > 0)) % TARGETS)
#define has_pushed_all(s) (pushed[s] == 2 * (MARKS + 1 - first(s)))
#ifdef MUTANT_MARK_APART
byte owed[SOURCES]; /* a mark that one target has not got yet, or 0 */
#endif

bool attached = false; /* source 1 */
bool dead, gone;       /* source 0; for good */
bool returned, stopped;
bool calm; /* nothing goes wrong any more: without it, a fault might end a wait */

/* What a target knows of a source. */
#define ABSENT 0
#define COUNTS 1
#define IDLE 2
#define OVER 3
byte state[TARGETS * SOURCES];
byte value[TARGETS * SOURCES];
byte seen[TARGETS * SOURCES];   /* the time of the last tuple */
byte excuse[TARGETS * SOURCES]; /* tuples of times up to this may be late */
byte watermark[TARGETS];
#ifdef NEXT
byte unaligned[TARGETS]; /* up to this, values are told to be no barriers */
bool has_next;           /* source 2 holds the seat of source 0 */
#endif

#define counts(t, s) (state[of_pair(t, s)] == COUNTS)
#define least(a, b) ((a) < (b) -> (a) : (b))

#define NOBODY 255
inline include(t, s)
{
	if
	:: counts(t, s) -> n = least(n, value[of_pair(t, s)])
	:: else
	fi
}

inline raise(t)
{
	n = NOBODY;
	include(t, 0);
	include(t, 1);
#ifdef NEXT
	include(t, 2);
#endif
	if
	:: n == NOBODY -> n = watermark[t]
	:: else
	fi;
	assert(n >= watermark[t]);
#ifdef NEXT
	/* It is told to be a barrier: is it one? */
	assert(n == watermark[t] || n <= unaligned[t] ||
		((seen[of_pair(t, 0)] <= n || seen[of_pair(t, 0)] == FIRST) &&
		seen[of_pair(t, 1)] <= n && seen[of_pair(t, 2)] <= n));
#endif
	watermark[t] = n;
	n = 0
}

inline raise_by_news(t)
{
#ifndef MUTANT_NO_NEWS
	raise(t)
#else
	skip
#endif
}

/* ---- Sources ------------------------------------------------------------ */

#ifdef NEXT
#define runs_next has_next
#else
#define runs_next false
#endif
#define runs(s) ((s) == 0 -> !dead && !stopped : ((s) == 1 -> attached : runs_next))
#define room(t, s) nfull(ring[of_pair(t, s)])

#ifdef MUTANT_MARK_APART
/* To target s at once, to the other with what comes there next. */
#define may_push(s) (room(goes_to(s), s) && !(owed[s] && goes_to(s) != s))
#define may_mark(s) (room(s, s) && !owed[s])
inline mark(s)
{
	ring[of_pair(s, s)] ! MARK(value_of(s));
	owed[s] = value_of(s);
	pushed[s]++
}
#else
#define may_push(s) room(goes_to(s), s)
#define may_mark(s) (room(0, s) && room(1, s))
inline mark(s)
{
	ring[of_pair(0, s)] ! MARK(value_of(s));
	ring[of_pair(1, s)] ! MARK(value_of(s));
	pushed[s]++
}
#endif

inline push(s)
{
	ring[of_pair(goes_to(s), s)] ! TUPLE(value_of(s));
	pushed[s]++
}

/* ---- Targets ------------------------------------------------------------ */

inline join(t, s)
{
	excuse[of_pair(t, s)] = watermark[t];
#if defined(MUTANT_JOIN_AT_MARK)
	state[of_pair(t, s)] = IDLE;
#else
	state[of_pair(t, s)] = COUNTS;
#endif
#ifndef MUTANT_JOIN_AT_0
	value[of_pair(t, s)] = watermark[t];
#endif
	raise_by_news(t)
}

inline find_idle(t)
{
	state[of_pair(t, 0)] = IDLE;
	excuse[of_pair(t, 0)] = MARKS;
	raise_by_news(t)
}

/* Source 0 is lost: it counts no more. */
inline leave(t)
{
	state[of_pair(t, 0)] = OVER;
	raise_by_news(t)
}

/* The rest of a source whose seat has another holder: it is not aligned. */
#if defined(NEXT) && !defined(MUTANT_ALIGN_REST)
#define is_rest(s) ((s) == 0 && has_next)
#else
#define is_rest(s) false
#endif
#if !defined(ALIGN) || defined(MUTANT_NO_ALIGN)
#define is_aligned(t, s) true
#elif defined(MUTANT_ALIGN_BY_ALL)
#define is_aligned(t, s) (value[of_pair(t, s)] <= value[of_pair(t, 1 - (s))])
#else
#define is_aligned(t, s) (value[of_pair(t, s)] <= watermark[t] || is_rest(s))
#endif
#define may_take(t, s) \
	(state[of_pair(t, s)] != ABSENT && nempty(ring[of_pair(t, s)]) && \
	is_aligned(t, s))

inline take_tuple(t, s)
{
	if
	:: seen[of_pair(t, s)] >= what /* comes again */
	:: else ->
		seen[of_pair(t, s)] = what;
#ifdef MUTANT_NO_FLAG
		assert(what > watermark[t]);
#endif
		/* It is late: has it an excuse? */
		assert(what > watermark[t] || what <= excuse[of_pair(t, s)]);
#ifdef ALIGN
		assert(value[of_pair(t, s)] <= watermark[t] || is_rest(s));
#endif
	fi
}

inline take_mark(t, s)
{
	v = what - MARK(0);
	if
#ifdef MUTANT_REPEAT
	:: value[of_pair(t, s)] >= v && state[of_pair(t, s)] == COUNTS ->
		value[of_pair(t, s)] = v
#else
	:: value[of_pair(t, s)] >= v && state[of_pair(t, s)] == COUNTS
#endif
	:: state[of_pair(t, s)] == OVER
	:: else ->
#ifdef MUTANT_IDLE_MARK
		value[of_pair(t, s)] = v;
#else
		value[of_pair(t, s)] = (v > watermark[t] -> v : watermark[t]);
#endif
		state[of_pair(t, s)] = COUNTS
	fi;
	raise(t);
	v = 0
}

inline take(t, s)
{
	ring[of_pair(t, s)] ? what;
#if defined(NEXT) && !defined(MUTANT_ALL_BARRIERS)
	if
	:: value[of_pair(t, s)] > watermark[t] && value[of_pair(t, s)] > unaligned[t] ->
		unaligned[t] = value[of_pair(t, s)]
	:: else
	fi;
#endif
	if
	:: what >= MARK(0) -> take_mark(t, s)
	:: else -> take_tuple(t, s)
	fi;
	what = 0
}

#ifdef MUTANT_DEAD_AT_ONCE
#define is_drained(t) true
#else
#define is_drained(t) empty(ring[of_pair(t, 0)])
#endif
#if defined(MUTANT_DEAD_COUNTS)
#define may_leave(t) false
#elif defined(REPLAY) && !defined(MUTANT_NO_HOLD)
#define may_leave(t) (gone && state[of_pair(t, 0)] != OVER && is_drained(t))
#else
#define may_leave(t) (dead && state[of_pair(t, 0)] != OVER && is_drained(t))
#endif
#ifdef MUTANT_NO_IDLE
#define may_idle(t) false
#else
#define may_idle(t) (!dead && (stopped || !calm) && counts(t, 0) && empty(ring[of_pair(t, 0)]))
#endif

inline come_back(t)
{
#ifdef MUTANT_RETURN_AT_0
	value[of_pair(t, 0)] = 0;
	raise(t);
#endif
	if
	:: state[of_pair(t, 0)] == OVER -> state[of_pair(t, 0)] = COUNTS
	:: else
	fi
}

#define source(s) \
	:: atomic { runs(s) && !has_pushed_all(s) && !is_mark(s) && may_push(s) -> \
		push(s) } \
	:: atomic { runs(s) && !has_pushed_all(s) && is_mark(s) && may_mark(s) -> \
		mark(s) }
#define target(t) \
	:: atomic { may_take(t, 0) -> take(t, 0) } \
	:: atomic { may_take(t, 1) -> take(t, 1) } \
	:: d_step { attached && state[of_pair(t, 1)] == ABSENT -> join(t, 1) } \
	:: d_step { may_leave(t) -> leave(t) } \
	:: d_step { may_idle(t) -> find_idle(t) }
#define next_holder(t) \
	:: d_step { has_next && state[of_pair(t, 0)] == OVER && \
		state[of_pair(t, 2)] == ABSENT -> join(t, 2) } \
	:: atomic { may_take(t, 2) -> take(t, 2) }

#define is_over(t) (watermark[t] == MARKS)
#define is_at_end(t, s) \
	(state[of_pair(t, s)] == COUNTS && value[of_pair(t, s)] == MARKS && \
	empty(ring[of_pair(t, s)]))
#ifdef NEXT
#define is_next_at_end(t) (!has_next || is_at_end(t, 2))
#else
#define is_next_at_end(t) true
#endif
#define is_settled(t) (is_at_end(t, 1) && empty(ring[of_pair(t, 0)]) && \
	is_next_at_end(t) && is_over(t))

active proctype all()
{
	byte n, v, what;

	d_step {
		state[of_pair(0, 0)] = COUNTS;
		state[of_pair(1, 0)] = COUNTS
	}
	do
	source(0)
	source(1)
	target(0)
	target(1)
#ifdef MUTANT_MARK_APART
#define send_mark(s) ring[of_pair(1 - (s), s)] ! MARK(owed[s]); owed[s] = 0
#define sends_mark(s) \
	:: atomic { owed[s] && (has_pushed_all(s) || !is_mark(s) && \
		goes_to(s) != s) && room(1 - (s), s) -> send_mark(s) } \
	:: atomic { owed[s] && !has_pushed_all(s) && is_mark(s) && room(s, s) && \
		room(1 - (s), s) -> send_mark(s) }
	sends_mark(0)
	sends_mark(1)
#endif
	:: d_step { !attached -> attached = true }
#ifdef NEXT
	source(2)
	next_holder(0)
	next_holder(1)
	:: d_step { dead && !has_next -> has_next = true }
#endif
	:: d_step { !calm && !dead && !stopped && !returned -> dead = true }
	:: d_step { !calm && !dead && !stopped && !returned -> stopped = true }
#ifdef REPLAY
	:: d_step { dead && !gone && !returned ->
		dead = false;
		returned = true;
		pushed[0] = 0;
		come_back(0);
		come_back(1)
	}
	:: d_step { dead && !gone -> gone = true }
#endif
	:: d_step { !calm -> calm = true }
	:: atomic { calm && is_settled(0) && is_settled(1) &&
		(dead || stopped || has_pushed_all(0)) -> break }
	od
}
