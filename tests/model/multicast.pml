/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source's stream to two targets over datagrams that are lost, repeated and
 * late: docs/replicate.md, "Multicast over datagrams", whose words are used.
 * One source is enough: streams of several know nothing of each other.
 *
 * A datagram on its way is in a set, or, where newer ones say the same and more,
 * in one of few places. The payload of a segment is its number, in full; of the
 * numbers that travel, only the lowest digits do. Given back is a segment as soon
 * as the application has it.
 *
 * As it is: what is on its way stays there, to be delivered at any time, any
 * number of times or never, until it has become too old or a newer one has taken
 * its place; timers go off at any time. Of target 1 there is only what the source
 * knows of it, which may be anything. SEGMENTS segments, a window of WINDOW,
 * numbers modulo NUMBERS that start right before their wrap-around; a datagram
 * does not outlive LIFETIME further segments of its source. Checked: what is
 * delivered is next in order, once; nothing comes for which there is no room;
 * what is sent again is there still; only what was sent is missed.
 *
 * With PROGRESS: FAULTS datagrams are lost or repeated, timers go off when nothing
 * is on its way, and target 1 may die at any point. A target that has all may
 * leave. Checked, beside that: source and targets reach their ends, with all
 * segments, and nothing goes round in circles or stands still on the way.
 *
 * check                                     holds
 * check -DPROGRESS                          holds
 * check -DNOTIFY                            holds
 * check -DNOTIFY -DPROGRESS                 holds
 * check -DMUTANT_FREE_AT_FIRST              assertion # one target has it
 * check -DMUTANT_FORGETFUL                  assertion # an old credit counts
 * check -DMUTANT_NO_FILTER                  assertion # repeated is taken
 * check -DMUTANT_SHORT_NUMBERS              assertion
 * check -DMUTANT_CREDIT_RELATIVE            assertion # repeated credits add
 * check -DMUTANT_CREDIT_RELATIVE -DPROGRESS cycle     # and lost ones lack
 * check -DMUTANT_END_ONCE -DPROGRESS        cycle
 * check -DMUTANT_NO_PROBE -DPROGRESS        cycle     # credits come, or not
 * check -DMUTANT_ASK_ONCE -DPROGRESS        cycle
 * check -DMUTANT_DEAD_COUNT -DPROGRESS      cycle     # in the least credit
 * check -DMUTANT_LEAVE_SILENTLY -DPROGRESS  cycle     # when all is there
 * check -DNOTIFY -DMUTANT_NO_FILTER         assertion # late after all
 * check -DNOTIFY -DMUTANT_TAIL_UNKNOWN -DPROGRESS cycle
 * check -DNOTIFY -DMUTANT_SHORT_NUMBERS     assertion
 */
#define WINDOW 2
#define LIFETIME 2
#ifdef PROGRESS
#define SEGMENTS 3
#else
#define SEGMENTS 8
#endif
#ifdef MUTANT_SHORT_NUMBERS
#define NUMBERS (2 * WINDOW + LIFETIME - 1)
#else
#define NUMBERS (2 * WINDOW + LIFETIME)
#endif
#define FIRST (NUMBERS - 1)

/* What travels of a number, and how far one is before another. */
#define wire(number) (((number) + FIRST) % NUMBERS)
#define distance(number, from) (((number) + NUMBERS - (from)) % NUMBERS)

#ifdef PROGRESS
#define TARGETS 2
#define PLACES 1
#define FAULTS 2
byte faults = FAULTS;
#define may_fail (faults > 0)
#define fail() faults--
#define REMAINS false
#define timer quiet
#else
#define TARGETS 1
#define PLACES 2
#define may_fail true
#define fail() skip
#define REMAINS true
#define timer true
#endif

/* On their way to and from each target. */
byte data[2];      /* a set: bit s for the segment with payload s */
byte state[2];     /* STATE: 1 + next, in full; 0: none */
bool state_end[2]; /* it has the flag END */
/* REPORTs, in PLACES for each target. */
bool report[2 * PLACES];
byte report_consumed[2 * PLACES]; /* in full; with CREDIT_RELATIVE how many */
byte report_missing[2 * PLACES];  /* a set: bit i for the number consumed + i */
bool report_done[2 * PLACES];

/*
 * Nothing is on its way, and nobody has anything to do. Where one timer is due,
 * a source doesn't probe for ever and keep it from going off.
 */
#define quiet \
	(data[0] + data[1] + state[0] + state[1] + report[0] + report[1] == 0 \
	&& !sends && !closes && idle(0) && idle(1))
#define idle(t) \
	(there(t) && !delivers(t) || dead[t] && gone[t] || left[t] && done[t])
#ifdef NOTIFY
#define probe_timer \
	(timer && !(there(0) && lacks(0, 0)) && !(there(1) && lacks(1, 0)))
#else
#define probe_timer timer
#endif

/* The source. */
byte next;         /* the number of the next segment, in full */
byte kept[WINDOW]; /* payloads */
byte consumed[2];  /* by each target, in full, as far as reported */
bool done[2];      /* the target has the end, and all before it */
bool gone[2];      /* the registry says so */
bool ended;        /* it is closing, and has said so */
bool closed;

/* The targets. */
byte expected[2];  /* the number to be delivered next, in full */
byte known[2];     /* such numbers are known to be sent: those below */
bool end_known[2];
bool held[2 * WINDOW];
byte payload[2 * WINDOW];
bool dead[2];
bool left[2];      /* it has closed, which the registry will tell */
#ifdef MUTANT_CREDIT_RELATIVE
byte reported[2];
#endif
#ifdef MUTANT_ASK_ONCE
byte asked[2];     /* numbers below */
#endif

#define there(t) (t < TARGETS && !dead[t] && !left[t])
#define slot(t, number) ((t) * WINDOW + (number) % WINDOW)
#define delivers(t) held[slot(t, expected[t])]
#ifdef PROGRESS
#define eager(t) delivers(t) /* the application waits for segments */
#else
#define eager(t) false
#endif
#define has_all(t) (end_known[t] && expected[t] == known[t])

/* Whether the number expected + i is known to be sent, and is not there. */
#define lacks(t, i) \
	(expected[t] + (i) < known[t] && !held[slot(t, expected[t] + (i))])
#ifdef MUTANT_ASK_ONCE
#define missing(t, i) (lacks(t, i) && expected[t] + (i) >= asked[t])
#else
#define missing(t, i) lacks(t, i)
#endif

#ifdef MUTANT_DEAD_COUNT
#define allows(t) (next - consumed[t] < WINDOW)
#else
#define allows(t) (gone[t] || next - consumed[t] < WINDOW)
#endif
#ifdef MUTANT_FREE_AT_FIRST
#define has_credit (allows(0) || allows(1))
#else
#define has_credit (allows(0) && allows(1))
#endif
#define over(t) (gone[t] || done[t])
#define all_over (over(0) && over(1))
#define waits_for(t) (!over(t) && (ended || consumed[t] != next))
#define sends (next < SEGMENTS && has_credit && !all_over)
#define closes (next == SEGMENTS && !ended && !all_over) /* for the first time */

#ifdef MUTANT_CREDIT_RELATIVE
#define age_report(p) skip
#else
inline age_report(p)
{
	if
	:: report[p] && report_consumed[p] + WINDOW + LIFETIME < next ->
		clear_report(p)
	:: else
	fi
}
#endif

/* What has become too old is not on its way any more. */
inline age(t)
{
	if
	:: next > WINDOW + LIFETIME ->
		data[t] = data[t] & ~((1 << (next - WINDOW - LIFETIME)) - 1)
	:: else
	fi;
	if
	:: state[t] && state[t] - 1 + LIFETIME < next ->
		state[t] = 0;
		state_end[t] = false
	:: else
	fi;
	age_report(t * PLACES);
	age_report(t * PLACES + PLACES - 1)
}

inline clear_report(p)
{
	report[p] = false;
	report_consumed[p] = 0;
	report_missing[p] = 0;
	report_done[p] = false
}

inline send_data(t, number)
{
	if
	:: there(t) -> data[t] = data[t] | (1 << (number))
	:: else
	fi
}

/* Of two that are on their way, either may be the one that arrives. */
inline send_state(t)
{
	if
	:: !there(t) || over(t)
	:: there(t) && !over(t) ->
		state[t] = 1 + next;
		state_end[t] = next == SEGMENTS
	:: REMAINS && there(t) && !over(t) && state[t]
	fi
}

/* How far this target is, and what is missing. */
inline send_report(t)
{
	if
	:: put_report(t, t * PLACES)
	:: PLACES > 1 -> put_report(t, t * PLACES + 1)
	fi;
#ifdef MUTANT_ASK_ONCE
	asked[t] = known[t]
#endif
}

inline put_report(t, p)
{
#ifdef MUTANT_CREDIT_RELATIVE
	report_consumed[p] = expected[t] - reported[t];
	reported[t] = expected[t];
#else
	report_consumed[p] = expected[t];
#endif
#ifdef NOTIFY
	report_missing[p] = 0;
#else
	report_missing[p] = missing(t, 0) + 2 * missing(t, 1);
#endif
	report_done[p] = has_all(t);
	report[p] = true
}

inline resend(t, p, i)
{
	if
	:: (report_missing[p] & (1 << i)) && consumed[t] + i < next ->
		/* It was kept. */
		assert(kept[(consumed[t] + i) % WINDOW] == consumed[t] + i);
		send_data(t, consumed[t] + i)
	:: else
	fi
}

/* The REPORT from target t in place p. */
inline take_report(t, p)
{
#ifdef MUTANT_CREDIT_RELATIVE
	consumed[t] = consumed[t] + report_consumed[p];
	news = true;
#else
	d = distance(wire(report_consumed[p]), wire(consumed[t]));
	news = d <= next - consumed[t] && !over(t);
	if
	:: news -> consumed[t] = consumed[t] + d
	:: else
#ifdef MUTANT_FORGETFUL
		-> consumed[t] = report_consumed[p];
		news = true
#endif
	fi;
#endif
	if
	:: news ->
		resend(t, p, 0);
		resend(t, p, 1);
		done[t] = done[t] || report_done[p]
	:: else
	fi;
	if
	:: !REMAINS -> clear_report(p)
	:: may_fail -> fail()
	fi;
	d = 0;
	news = false
}

active proctype source()
{
	byte d;
	bool news;

	do
	:: atomic { sends ->
		kept[next % WINDOW] = next;
		next++;
		age(0);
		age(1);
		send_data(0, next - 1);
		send_data(1, next - 1) }
	:: atomic { report[0] -> take_report(0, 0) }
	:: atomic { report[1] -> take_report(1 / PLACES, 1) }
	:: atomic { closes ->
		ended = true;
		send_state(0);
		send_state(1) }
#ifdef MUTANT_END_ONCE
	:: atomic { probe_timer && next < SEGMENTS ->
#elif defined(MUTANT_NO_PROBE)
	:: atomic { probe_timer && next == SEGMENTS && !all_over ->
#else
	:: atomic { probe_timer && (waits_for(0) || waits_for(1)) ->
#endif
		send_state(0);
		send_state(1) }
	:: atomic { all_over ->
		closed = true;
		break }
	od
}

/* known grows to number + ahead. */
inline learn(t, ahead)
{
	if
	:: expected[t] + ahead > known[t] ->
		known[t] = expected[t] + ahead;
		/* Nothing is known that is not so. */
		assert(known[t] <= next)
	:: else
	fi
}

inline take_data(t)
{
	/* Which of those on their way. */
	do
	:: data[t] & (1 << s) -> break
	:: data[t] >> (s + 1) -> s++
	od;
	if
	:: !REMAINS -> data[t] = data[t] & ~(1 << s)
	:: may_fail -> fail()
	fi;
	d = distance(wire(s), wire(expected[t]));
#ifdef MUTANT_NO_FILTER
	if
	:: true ->
		held[slot(t, expected[t] + d)] = true;
		payload[slot(t, expected[t] + d)] = s
	fi;
#else
	if
	:: d < WINDOW && !held[slot(t, expected[t] + d)] ->
		held[slot(t, expected[t] + d)] = true;
		payload[slot(t, expected[t] + d)] = s;
		/* There is room for it, and it was taken for what it is. */
		assert(s == expected[t] + d);
		learn(t, d + 1)
	:: d < WINDOW && held[slot(t, expected[t] + d)]
	:: d >= WINDOW -> assert(s < expected[t])
	fi;
#endif
	s = 0;
	d = 0
}

inline take_state(t)
{
	d = distance(wire(state[t] - 1), wire(expected[t]));
	if
	:: d <= WINDOW ->
		end_known[t] = end_known[t] || state_end[t];
#ifdef MUTANT_TAIL_UNKNOWN
		if
		:: state_end[t] -> learn(t, d)
		:: else
		fi;
#else
		learn(t, d);
#endif
	:: else
	fi;
	if
	:: !REMAINS -> state[t] = 0; state_end[t] = false
	:: may_fail -> fail()
	fi;
	d = 0;
	send_report(t)
}

/* The application gets the next segment, or is told that it is lost. */
inline deliver(t)
{
	held[slot(t, expected[t])] = false;
	assert(payload[slot(t, expected[t])] == expected[t]);
	payload[slot(t, expected[t])] = 0;
	expected[t]++;
	if
	:: send_report(t)
	:: REMAINS /* credits are not given one by one */
	fi
}

active [TARGETS] proctype target()
{
	byte s, d, t = _pid - 1;

	{
		do
		:: atomic { data[t] && !eager(t) -> take_data(t) }
		:: atomic { state[t] && !eager(t) -> take_state(t) }
		:: atomic { delivers(t) -> deliver(t) }
#ifdef NOTIFY
		/* gap_timeout */
		:: atomic { timer && lacks(t, 0) ->
			expected[t]++ }
#else
		/* gap_timeout, and again and again */
		:: atomic { timer && (missing(t, 0) || missing(t, 1)) ->
			send_report(t) }
#endif
		/* dfi_target_close() */
		:: atomic { has_all(t) -> break }
		:: closed -> break
		od;
		assert(has_all(t) || gone[0] && gone[1]);
		atomic {
			left[t] = true;
			data[t] = 0;
			state[t] = 0;
			state_end[t] = false
		}
	} unless { dead[t] }
}

#ifdef PROGRESS
/* What is lost. */
active proctype network()
{
	byte s;

end:	do
	:: atomic { may_fail && (data[0] || data[1]) ->
		fail();
		do
		:: data[0] & (1 << s) -> data[0] = data[0] & ~(1 << s); break
		:: data[1] & (1 << s) -> data[1] = data[1] & ~(1 << s); break
		:: (data[0] | data[1]) >> (s + 1) -> s++
		od;
		s = 0 }
	:: atomic { may_fail && state[0] -> fail();
		state[0] = 0; state_end[0] = false }
	:: atomic { may_fail && state[1] -> fail();
		state[1] = 0; state_end[1] = false }
	:: atomic { may_fail && report[0] -> fail(); clear_report(0) }
	:: atomic { may_fail && report[1] -> fail(); clear_report(1) }
	od
}

/* It says that a target has left with everything, or is dead without that. */
active proctype registry()
{
	do
#ifndef MUTANT_LEAVE_SILENTLY
	:: atomic { left[0] && !done[0] -> done[0] = true }
	:: atomic { left[1] && !done[1] -> done[1] = true }
#endif
	:: atomic { there(1) ->
		dead[1] = true;
		data[1] = 0;
		state[1] = 0;
		state_end[1] = false }
	:: atomic { dead[1] && !gone[1] -> gone[1] = true }
	:: closed && !there(0) && !there(1) -> break
	od
}

/* Makes a cycle of a state in which nothing moves. */
active proctype stuck()
{
	do
	:: timeout
	:: closed && !there(0) && !there(1) -> break
	od
}
#else
/* What matters to target 0 of the other one: what the source knows of that. */
active proctype other_target()
{
	do
	:: atomic { !over(1) && consumed[1] < next -> consumed[1]++ }
	:: atomic { !over(1) && consumed[1] == SEGMENTS -> done[1] = true }
	:: atomic { !over(1) -> gone[1] = true }
	:: over(1) -> break
	od
}
#endif
