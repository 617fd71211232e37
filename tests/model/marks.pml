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
 * protocol the rest of that is read before, or is dropped as seen (R3).
 *
 * Left out: sources that close, which are as those that are lost without REPLAY;
 * acknowledgements (replay.pml); combiner flows.
 *
 * Checked: the watermark is the least value of those that count, and never falls; a
 * tuple whose time is not above it is flagged late, and is of a source that was idle,
 * or joined when the watermark was there already. With ALIGN nothing behind a mark is
 * taken before the watermark is there. In the end, which comes, it is at MARKS.
 *
 * check                                  holds
 * check -DALIGN                          holds
 * check -DREPLAY                         holds
 * check -DREPLAY -DALIGN                 holds
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
 * check -DMUTANT_NO_HOLD -DREPLAY        assertion # while a source is away
 * check -DMUTANT_RETURN_AT_0 -DREPLAY    assertion # falls
 * check -DMUTANT_REPEAT -DREPLAY         assertion # a repeated mark counts
 */
#define SOURCES 2
#define TARGETS 2
#define MARKS 2
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
#define value_of(s) (1 + pushed[s] / 2)
#define goes_to(s) ((value_of(s) + (s)) % TARGETS)
#define has_pushed_all(s) (pushed[s] == 2 * MARKS)
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

#define counts(t, s) (state[of_pair(t, s)] == COUNTS)
#define least(a, b) ((a) < (b) -> (a) : (b))

inline raise(t)
{
	n = watermark[t];
	if
	:: counts(t, 0) && counts(t, 1) ->
		n = least(value[of_pair(t, 0)], value[of_pair(t, 1)])
	:: counts(t, 0) && !counts(t, 1) -> n = value[of_pair(t, 0)]
	:: !counts(t, 0) && counts(t, 1) -> n = value[of_pair(t, 1)]
	:: else
	fi;
	assert(n >= watermark[t]);
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

#define runs(s) ((s) == 1 -> attached : !dead && !stopped)
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

inline join(t)
{
	excuse[of_pair(t, 1)] = watermark[t];
#if defined(MUTANT_JOIN_AT_MARK)
	state[of_pair(t, 1)] = IDLE;
#else
	state[of_pair(t, 1)] = COUNTS;
#endif
#ifndef MUTANT_JOIN_AT_0
	value[of_pair(t, 1)] = watermark[t];
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

#ifdef MUTANT_NO_ALIGN
#define is_aligned(t, s) true
#else
#ifdef ALIGN
#define is_aligned(t, s) (value[of_pair(t, s)] <= watermark[t])
#else
#define is_aligned(t, s) true
#endif
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
		assert(what <= watermark[t] + 1)
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
	:: d_step { attached && state[of_pair(t, 1)] == ABSENT -> join(t) } \
	:: d_step { may_leave(t) -> leave(t) } \
	:: d_step { may_idle(t) -> find_idle(t) }

#define is_over(t) (watermark[t] == MARKS)
#define is_settled(t) \
	(state[of_pair(t, 1)] == COUNTS && value[of_pair(t, 1)] == MARKS && \
	empty(ring[of_pair(t, 0)]) && empty(ring[of_pair(t, 1)]) && is_over(t))

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
