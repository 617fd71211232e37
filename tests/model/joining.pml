/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets that join the stream of a source over datagrams and leave it: J3 of
 * docs/open-flows.md, whose words are used. What happens between a source and a
 * target that has joined is in multicast.pml, so numbers travel in full here,
 * and a datagram on its way is in the one place of its kind.
 *
 * Target 1 takes the seat, and by chance the address, of target 0, when that is
 * dead. So what was sent to 0 alone comes to 1, and what 0 has reported may
 * come late. Given back is a segment as soon as the application has it.
 *
 * Each segment is a mark as well, whose value is its number plus one. JOIN tells the last
 * one of before.
 *
 * As it is: what is on its way may come at any time, any number of times or
 * never; timers go off at any time. Checked: a target begins where its source
 * counts it from, with the last mark before that, and then has each segment, once and
 * in order; what is sent again is there still.
 *
 * With PROGRESS: FAULTS datagrams are lost, timers go off when nothing is on its
 * way, and target 0 may die at any point. Checked, beside that: the source ends,
 * and each target that lives has all from its first segment on.
 *
 * check                                      holds
 * check -DPROGRESS                           holds
 * check -DMUTANT_BEGIN_AT_DATA               assertion # segments are missed
 * check -DMUTANT_NEWEST_MARK                 assertion # in front of its tuples
 * check -DMUTANT_ANY_JOIN                    assertion # of the last holder
 * check -DMUTANT_ANY_REPORT                  assertion # the same
 * check -DMUTANT_COUNT_LATE                  assertion # overwritten
 * check -DMUTANT_JOIN_ONCE -DPROGRESS        cycle
 * check -DMUTANT_DEAD_COUNT -DPROGRESS       cycle
 * check -DMUTANT_NO_PROBE -DPROGRESS         cycle
 */
#define WINDOW 2
#define SEGMENTS 4

#ifdef PROGRESS
#define FAULTS 2
byte faults = FAULTS;
#define REMAINS false
#define timer quiet
#else
#define REMAINS true
#define timer true
#endif

#define NONE 255

/* On their way to and from each target. */
byte data[2];                   /* a set of numbers */
byte join[2] = { NONE, NONE };  /* first */
byte join_mark[2];
byte state[2] = { NONE, NONE }; /* next */
byte report[2] = { NONE, NONE };/* consumed */
byte report_missing[2];         /* a set: bit i for the number consumed + i */

/* The source. */
byte next;
byte kept[WINDOW];
bool joined[2], answered[2], gone[2];
byte first[2], consumed[2];
bool closed;

/* The targets. */
bool here[2], dead[2], begun[2];
byte expected[2], known[2];
byte held[2]; /* a set of numbers */

#define lives(t) (here[t] && !dead[t])
#define delivers(t) (begun[t] && held[t] & (1 << expected[t]))
#define lacks(t, i) (begun[t] && expected[t] + (i) < known[t] && \
	!(held[t] & (1 << (expected[t] + (i)))))

#ifdef MUTANT_DEAD_COUNT
#define counts(t) joined[t]
#elif defined(MUTANT_COUNT_LATE)
#define counts(t) (joined[t] && answered[t] && !gone[t])
#else
#define counts(t) (joined[t] && !gone[t])
#endif
#define allows(t) (!counts(t) || next - consumed[t] < WINDOW)
#define over(t) (!joined[t] || gone[t] || \
	answered[t] && consumed[t] == SEGMENTS)
#define may_join(t) (here[t] && !joined[t] && !gone[t])
#define waits_for(t) (joined[t] && !gone[t] && answered[t] && consumed[t] != next)
#define is_over (next == SEGMENTS && over(0) && over(1) && \
	!may_join(0) && !may_join(1))
#define sends (next < SEGMENTS && allows(0) && allows(1))

/* Nothing is on its way, and nobody has anything to do. */
#define quiet (!sends && idle(0) && idle(1) && !(dead[0] && !gone[0]))
#define idle(t) (report[t] == NONE && !may_join(t) && \
	(dead[t] || data[t] == 0 && join[t] == NONE && state[t] == NONE && \
		!(lives(t) && delivers(t))))

inline forget(t)
{
	data[t] = 0;
	state[t] = NONE
}

inline send_report(t)
{
	report[t] = expected[t];
	report_missing[t] = (lacks(t, 0) -> 1 : 0) + (lacks(t, 1) -> 2 : 0)
}

inline resend(to, via, i)
{
	if
	:: report_missing[via] & (1 << i) && consumed[to] + i < next ->
		assert(kept[(consumed[to] + i) % WINDOW] == consumed[to] + i);
		data[to] = data[to] | (1 << (consumed[to] + i))
	:: else
	fi
}

/* A report from one pair, taken for that of target t. */
inline take_report(to, via)
{
	if
	:: joined[to] && !gone[to] && report[via] >= consumed[to] &&
	    report[via] <= next ->
		answered[to] = true;
		consumed[to] = report[via];
		resend(to, via, 0);
		resend(to, via, 1)
	:: else
	fi;
	if
	:: !REMAINS -> report[via] = NONE; report_missing[via] = 0
	:: REMAINS
	fi
}

#ifdef MUTANT_NEWEST_MARK
#define repeated(t) next
#else
#define repeated(t) first[t]
#endif

active proctype source()
{
	byte t;

	do
	:: atomic { sends ->
		kept[next % WINDOW] = next;
		if
		:: lives(0) -> data[0] = data[0] | (1 << next)
		:: else
		fi;
		if
		:: lives(1) -> data[1] = data[1] | (1 << next)
		:: else
		fi;
		next++ }
	:: atomic { may_join(0) || may_join(1) ->
		t = (may_join(0) -> 0 : 1);
		joined[t] = true;
		first[t] = next;
		consumed[t] = next;
		join[t] = next;
		join_mark[t] = next;
		t = 0 }
#ifndef MUTANT_JOIN_ONCE
	:: atomic { timer && joined[0] && !answered[0] && !gone[0] ->
		join[0] = first[0];
		join_mark[0] = repeated(0) }
	:: atomic { timer && joined[1] && !answered[1] && !gone[1] ->
		join[1] = first[1];
		join_mark[1] = repeated(1) }
#endif
#ifndef MUTANT_NO_PROBE
	:: atomic { timer && lives(0) && waits_for(0) -> state[0] = next }
	:: atomic { timer && lives(1) && waits_for(1) -> state[1] = next }
#endif
	:: atomic { report[0] != NONE -> take_report(0, 0) }
	:: atomic { report[1] != NONE -> take_report(1, 1) }
#ifdef MUTANT_ANY_REPORT
	:: atomic { report[0] != NONE && joined[1] -> take_report(1, 0) }
#endif
	:: atomic { is_over -> closed = true; break }
	od
}

inline begin(t, number)
{
	begun[t] = true;
	expected[t] = number;
	known[t] = number;
	/* It begins where it counts. */
	assert(!joined[t] || number == first[t])
}

inline take_join(to, via)
{
	if
	:: !begun[to] ->
		begin(to, join[via]);
		/* The mark is of what came before. */
		assert(join_mark[via] == join[via])
	:: else
	fi;
	if
	:: !REMAINS -> join[via] = NONE
	:: REMAINS
	fi;
	send_report(to)
}

inline take_data(t)
{
	do
	:: data[t] & (1 << s) -> break
	:: data[t] >> (s + 1) -> s++
	od;
	if
	:: !REMAINS -> data[t] = data[t] & ~(1 << s)
	:: REMAINS
	fi;
	if
#ifdef MUTANT_BEGIN_AT_DATA
	:: !begun[t] -> begin(t, s); held[t] = 1 << s; known[t] = s + 1
#endif
	:: begun[t] && s >= expected[t] && s < expected[t] + WINDOW ->
		held[t] = held[t] | (1 << s);
		known[t] = (s + 1 > known[t] -> s + 1 : known[t])
	:: else
	fi;
	s = 0
}

inline take_state(t)
{
	if
	:: begun[t] ->
		known[t] = (state[t] > known[t] -> state[t] : known[t]);
		send_report(t)
	:: else
	fi;
	if
	:: !REMAINS -> state[t] = NONE
	:: REMAINS
	fi
}

active [2] proctype target()
{
	byte s, t = _pid - 1;

	/* A seat has one holder. */
	if
	:: atomic { t == 0 || dead[0] -> here[t] = true }
	:: closed -> goto end_target
	fi;
	{
		do
		:: atomic { join[t] != NONE -> take_join(t, t) }
#ifdef MUTANT_ANY_JOIN
		:: atomic { t == 1 && join[0] != NONE -> take_join(t, 0) }
#endif
		:: atomic { data[t] -> take_data(t) }
		:: atomic { state[t] != NONE -> take_state(t) }
		:: atomic { delivers(t) ->
			held[t] = held[t] & ~(1 << expected[t]);
			expected[t]++;
			send_report(t) }
		:: atomic { timer && (lacks(t, 0) || lacks(t, 1)) ->
			send_report(t) }
		:: atomic { closed -> break }
		od;
		assert(gone[t] || !joined[t] || expected[t] == SEGMENTS)
	} unless { dead[t] };
end_target:
	skip
}

/* Target 0 may die, and the registry says so. */
active proctype registry()
{
	do
	:: atomic { lives(0) && !closed ->
		dead[0] = true;
		forget(0) }
	:: atomic { dead[0] && !gone[0] -> gone[0] = true }
	:: closed -> break
	od
}

#ifdef PROGRESS
/* What is lost. */
active proctype network()
{
	byte s;

end:	do
	:: atomic { faults && (data[0] || data[1]) ->
		faults--;
		do
		:: data[0] & (1 << s) -> data[0] = data[0] & ~(1 << s); break
		:: data[1] & (1 << s) -> data[1] = data[1] & ~(1 << s); break
		:: (data[0] | data[1]) >> (s + 1) -> s++
		od;
		s = 0 }
	:: atomic { faults && join[0] != NONE -> faults--; join[0] = NONE }
	:: atomic { faults && join[1] != NONE -> faults--; join[1] = NONE }
	:: atomic { faults && state[0] != NONE -> faults--; state[0] = NONE }
	:: atomic { faults && state[1] != NONE -> faults--; state[1] = NONE }
	:: atomic { faults && report[0] != NONE -> faults--; report[0] = NONE }
	:: atomic { faults && report[1] != NONE -> faults--; report[1] = NONE }
	od
}

/* Makes a cycle of a state in which nothing moves. */
active proctype stuck()
{
	do
	:: timeout
	:: closed -> break
	od
}
#endif
