/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks in an ordered open flow: docs/open-flows.md, K6. Two sources and two targets
 * that deliver one order; each at its own pace. A source pushes one tuple before each of
 * its marks, whose values are 1 to MARKS; the tuple before mark v has the time v. Source
 * 1 takes its first position at any time. Source 0 closes at any time, by a last mark,
 * or is gone without one: then the view ends, at a position. Target 1 joins at any
 * time: it begins at the position at which the counter is then, and is told what each
 * source has sent before.
 *
 * Beside the order, a target hears of other news at any time: that a source is attached,
 * that its ring has ended, or that it is gone. Only mutants make anything of that.
 *
 * Left out: rings, credit, and how the members of a view agree on its end (failover.pml);
 * targets that find sources idle, which is each target's own affair.
 *
 * Checked: the watermark is the least value of those that count, and never falls. Both
 * targets have the same one behind each position. One that joins has the same or a lower
 * one: it does not know with which watermark a source counts that has not marked yet. A
 * tuple whose time is not above the watermark is of a source that counts from this
 * watermark on. In the end, which comes, both watermarks are at MARKS.
 *
 * check                              holds
 * check -DJOIN                       holds
 * check -DMUTANT_NEWS_JOIN           assertion # counts from when it is attached
 * check -DMUTANT_NEWS_END            assertion # until its ring has ended
 * check -DMUTANT_NEWS_LOSS           assertion # until it is gone
 * check -DMUTANT_FIRST_MARK          assertion # counts from its first mark on
 * check -DMUTANT_NO_LAST             deadlock  # a source that has closed counts
 * check -DMUTANT_NOT_TOLD -DJOIN     assertion # who counts when a target joins
 * check -DMUTANT_NO_MARK -DJOIN      deadlock  # nor with which mark
 */
#define SOURCES 2
#define TARGETS 2
#define MARKS 2
#define POSITIONS (SOURCES * (2 * MARKS) + 2)

#define of_pair(t, s) ((t) * SOURCES + (s))

/* What has a position: of source s, a tuple or a mark; the end of a view. */
#define TUPLE(s, v) (1 + 16 * (s) + (v))
#define MARK(s, v) (1 + 16 * (s) + 4 + (v))
#define LAST(s) (1 + 16 * (s) + 8)
#define VIEW 255
byte order[POSITIONS];
byte counter;

/* Sources have sent so many things: tuple 1, mark 1, tuple 2, mark 2. */
byte sent[SOURCES];
bool attached, closed, gone;
bool calm; /* nothing else goes wrong, or joins */

/* Targets. */
bool begun[TARGETS];
byte due[TARGETS];
byte watermark[TARGETS];
bool counts[TARGETS * SOURCES];
bool heard[TARGETS]; /* of the end or the loss of source 0 */
byte value[TARGETS * SOURCES];
byte excuse[TARGETS * SOURCES];

/* Behind each position: the watermark of who came first. */
byte behind[POSITIONS];
bool passed[POSITIONS];

#define NOBODY 255
inline include(t, s)
{
	if
	:: counts[of_pair(t, s)] && value[of_pair(t, s)] < n ->
		n = value[of_pair(t, s)]
	:: else
	fi
}

inline raise(t)
{
	n = NOBODY;
	include(t, 0);
	include(t, 1);
	if
	:: n == NOBODY -> n = watermark[t]
	:: else
	fi;
	assert(n >= watermark[t]);
	watermark[t] = n;
	n = 0
}

inline join(t, s)
{
	if
	:: !counts[of_pair(t, s)] ->
		counts[of_pair(t, s)] = true;
		value[of_pair(t, s)] = watermark[t];
		excuse[of_pair(t, s)] = watermark[t]
	:: else
	fi
}

inline leave(t, s)
{
	counts[of_pair(t, s)] = false;
	raise(t)
}

inline take_tuple(t, s, v)
{
#ifndef MUTANT_FIRST_MARK
	join(t, s);
#endif
	assert(v > watermark[t] || v <= excuse[of_pair(t, s)])
}

inline take_mark(t, s, v)
{
	join(t, s);
	if
	:: v > value[of_pair(t, s)] -> value[of_pair(t, s)] = v
	:: else
	fi;
	raise(t)
}

#define is_of(s, x) ((x) != VIEW && ((x) - 1) / 16 == (s))
#define kind_of(x) (((x) - 1) % 16)

inline take_of(t, s)
{
	if
	:: kind_of(what) < 4 -> take_tuple(t, s, kind_of(what))
	:: kind_of(what) >= 4 && kind_of(what) < 8 ->
		take_mark(t, s, kind_of(what) - 4)
#ifdef MUTANT_NEWS_END
	:: kind_of(what) == 8
#else
	:: kind_of(what) == 8 -> leave(t, s)
#endif
	fi
}

#ifdef JOIN
/* The one that joins may be in front. */
inline compare(t)
{
	if
	:: !passed[due[t]] ->
		passed[due[t]] = true;
		behind[due[t]] = watermark[t]
	:: passed[due[t]] && t == 0 -> assert(behind[due[t]] <= watermark[t])
	:: passed[due[t]] && t == 1 -> assert(watermark[t] <= behind[due[t]])
	fi
}
#else
inline compare(t)
{
	if
	:: !passed[due[t]] ->
		passed[due[t]] = true;
		behind[due[t]] = watermark[t]
	:: else -> assert(watermark[t] == behind[due[t]])
	fi
}
#endif

inline deliver(t)
{
	what = order[due[t]];
	if
#ifdef MUTANT_NEWS_LOSS
	:: what == VIEW
#else
	:: what == VIEW -> leave(t, 0)
#endif
	:: is_of(0, what) -> take_of(t, 0)
	:: is_of(1, what) -> take_of(t, 1)
	fi;
	compare(t);
	what = 0;
	due[t]++
}

/* What it is told of a source that has sent something, or not. */
inline tell(t, s)
{
	if
#ifdef MUTANT_NOT_TOLD
	:: sent[s] > 1 && !((s) == 0 && (closed || gone)) ->
#else
	:: sent[s] && !((s) == 0 && (closed || gone)) ->
#endif
		counts[of_pair(t, s)] = true;
#ifndef MUTANT_NO_MARK
		value[of_pair(t, s)] = sent[s] / 2
#endif
	:: else
	fi
}

/* The watermark of a new target is that of those who count. */
inline begin(t)
{
	tell(t, 0);
	tell(t, 1);
	begun[t] = true;
	due[t] = counter;
	raise(t);
	if
	:: counter > 0 -> assert(watermark[t] <= behind[counter - 1])
	:: else
	fi
}

inline give(x)
{
	order[counter] = x;
	counter++
}

#define next_of(s) (sent[s] / 2 + 1)
inline send(s)
{
	if
	:: sent[s] % 2 -> give(MARK(s, next_of(s)))
	:: else -> give(TUPLE(s, next_of(s)))
	fi;
	sent[s]++
}

#define has_sent_all(s) (sent[s] == 2 * MARKS)
#ifdef JOIN
/* A target that is told must be able to compare with one that is there. */
#define may_begin (!begun[1] && due[0] == counter)
#else
#define may_begin false
#endif

#define target(t) \
	:: atomic { begun[t] && due[t] < counter -> deliver(t) }
#ifdef MUTANT_NEWS_JOIN
#define news(t) \
	:: atomic { begun[t] && attached && !counts[of_pair(t, 1)] && \
		value[of_pair(t, 1)] == 0 -> join(t, 1); raise(t) }
#elif defined(MUTANT_NEWS_END)
#define news(t) \
	:: atomic { begun[t] && closed && !heard[t] -> \
		heard[t] = true; leave(t, 0) }
#elif defined(MUTANT_NEWS_LOSS)
#define news(t) \
	:: atomic { begun[t] && gone && !heard[t] -> \
		heard[t] = true; leave(t, 0) }
#else
#define news(t)
#endif

#define is_over(t) (begun[t] && due[t] == counter && watermark[t] == MARKS)

active proctype all()
{
	byte n, what;

	d_step {
		begun[0] = true;
#ifndef JOIN
		begun[1] = true
#endif
	}
	do
	:: atomic { !closed && !gone && !has_sent_all(0) -> send(0) }
	:: atomic { attached && !has_sent_all(1) -> send(1) }
	:: d_step { !attached -> attached = true }
	:: atomic { !calm && !closed && !gone && sent[0] ->
		closed = true;
#ifndef MUTANT_NO_LAST
		give(LAST(0))
#endif
	}
	:: atomic { !calm && !closed && !gone && sent[0] -> gone = true; give(VIEW) }
	:: atomic { may_begin -> begin(1) }
	target(0)
	target(1)
	news(0)
	news(1)
	:: d_step { !calm -> calm = true }
	:: atomic { calm && is_over(0) && is_over(1) && has_sent_all(1) &&
		(closed || gone || has_sent_all(0)) -> break }
	od
}
