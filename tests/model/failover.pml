/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of view in an ordered flow: docs/open-flows.md, O1 to O6. Two sources and
 * three targets, of which target 0 holds the counter of view 1. Source 0 may be
 * declared gone at any point until the next view, also between taking a number and
 * sending under it, and between the targets that it sends to; it is dead, or goes on
 * as a zombie. The holder may die until it has reported.
 *
 * The registry has three changes here: the cut, that a source has flushed, and the next
 * view. Each process sees them sometime, and a target sometime sees that source 0 is
 * gone. The cut may also come without a death, as that of a source whose way to the
 * counter is broken. A set of numbers for each target says what has arrived in its
 * rings: in shared memory that is so at once. To target FAR a number is on its way first,
 * as over a network.
 *
 * Left out: credit (O1 of replicate.md); sources and targets that join (M2, J1), which
 * tests/open/simulate has; a second cut.
 *
 * Bounds: SEGMENTS(i) segments of source i.
 *
 * Checked: at each number all living members deliver the same segment, or all a gap;
 * who is no member has delivered nothing else; somebody is a member; no number has two
 * segments; the segments of source 1 are all delivered; those of each source come in
 * its order; nobody waits for ever.
 *
 * check                            holds
 * check -DMUTANT_NO_FLUSH          assertion # a report before all have flushed
 * check -DMUTANT_FLUSH_FIRST       assertion # before the segment under way
 * check -DMUTANT_REST_LOST         assertion # what waits for its turn
 * check -DMUTANT_ON_ITS_WAY        assertion # a report before what was flushed has come
 * check -DMUTANT_SKIP_AT_DEATH     assertion # without agreeing on it
 * check -DMUTANT_FIRST_REPORT      deadlock  # decides for all
 * check -DMUTANT_DELIVERS_ON       deadlock  # what has come, behind its report
 * check -DMUTANT_LEAST             deadlock  # what all have, though one delivered more
 * check -DMUTANT_NO_EVICTION       assertion # a gap where one has no segment
 * check -DMUTANT_NO_FENCE          deadlock  # a zombie's segment is read
 * check -DMUTANT_SAME_NUMBERS      deadlock  # view 2 goes on behind the decision
 * check -DMUTANT_KEEPS_NUMBER      assertion # taken in view 1, sent in view 2
 * check -DMUTANT_DEAD_FLUSH        deadlock  # of a source that is gone
 * check -DMUTANT_DEAD_REPORT       deadlock  # of a target that is gone
 * check -DMUTANT_NO_GAPS           deadlock  # holes are waited for
 * check -DMUTANT_ONLY_HOLDER       deadlock  # a source's death causes no cut
 */
#define SOURCES 2
#define TARGETS 3
#define SEGMENTS(i) 1
#define FAR 2
/* View 1 has the numbers from 0 on, view 2 those from VIEW on. */
#define VIEW 4
#define NUMBERS (2 * VIEW)

#define bit(i) (1 << (i))
#define pair(t, i) ((t) * SOURCES + (i))

/* What has number n: 1 + 2 * place + source, of the segment that was read. */
byte segment[NUMBERS];
#define name(place, i) (1 + 2 * (place) + (i))
#define place_of(n) ((segment[n] - 1) / 2)
#define source_of(n) ((segment[n] - 1) % 2)

/* The counters of both views, and the registry. */
byte counter, next_counter;
bool cut, decided;
short decision; /* the numbers of view 1 that members deliver */
byte behind;    /* the number behind them */
bool gone;     /* source 0 */
bool calm; /* nothing goes wrong any more: without it, a fault might end a wait */
bool holder_dead;

/* Sources. */
bool flushed[SOURCES];
bool over[SOURCES];

/* Targets. */
byte flies[SOURCES];    /* 1 + the number that is on its way to target FAR; 0: none */
short has[TARGETS];     /* a set of numbers: arrived */
byte due[TARGETS];      /* all numbers before are done, */
short delivered[TARGETS]; /* delivered, or gaps */
byte got[TARGETS * SOURCES];
bool sees_gone[TARGETS];
bool reported[TARGETS];
short report[TARGETS], had[TARGETS]; /* arrived, and delivered by then */
bool adopted[TARGETS], in_view_2[TARGETS];
bool out[TARGETS];      /* evicted */

#ifdef MUTANT_SAME_NUMBERS
#define BEGIN behind
#else
#define BEGIN VIEW
#endif

#define is_dead(t) ((t) == 0 && holder_dead)

#ifdef MUTANT_NO_FENCE
#define is_read(t, i) !is_dead(t)
#else
#define is_read(t, i) (!is_dead(t) && !((i) == 0 && sees_gone[t]))
#endif

/* ---- Sources ------------------------------------------------------------ */

inline send(t)
{
	if
	:: is_read(t, i) ->
		/* No number has two segments, as far as anybody reads. */
		assert(segment[number - 1] == 0 ||
		    segment[number - 1] == name(place, i));
		segment[number - 1] = name(place, i);
		if
		:: t == FAR -> flies[i] = number
		:: else -> has[t] = has[t] | bit(number - 1)
		fi
	:: else
	fi;
	sent_to++
}

active [SOURCES] proctype source()
{
	byte i = _pid;
	byte number; /* 1 + the number that it has taken; 0: none */
	byte place, sent_to;

	do
	/* A zombie knows of no other view. */
	:: d_step { place < SEGMENTS(i) && !number && !flushed[i] ->
		counter++;
		number = counter
	}
	:: d_step { place < SEGMENTS(i) && !number && flushed[i] && decided &&
		!(i == 0 && gone) ->
		next_counter++;
		number = next_counter
	}
#ifdef MUTANT_KEEPS_NUMBER
#define sends (number && sent_to == 0 && (!flushed[i] || decided))
#else
#ifdef MUTANT_FLUSH_FIRST
#define sends (number && sent_to == 0)
#else
#define sends (number && sent_to == 0 && \
	(!flushed[i] || number > BEGIN && decided))
#endif
#endif
	:: d_step { sends -> send(0) }
	:: d_step { number && sent_to == 1 -> send(1) }
	:: d_step { number && sent_to == FAR && !flies[i] ->
		send(FAR);
		number = 0;
		sent_to = 0;
		place++
	}
	/* Flush: a number that is not sent is given up. */
#ifdef MUTANT_FLUSH_FIRST
	:: d_step { cut && !flushed[i] && !(i == 0 && gone) ->
#else
	:: d_step { cut && !flushed[i] && sent_to == 0 && !(i == 0 && gone) ->
#endif
#if !defined(MUTANT_KEEPS_NUMBER) && !defined(MUTANT_FLUSH_FIRST)
		number = 0;
#endif
		flushed[i] = true
	}
	:: d_step { i == 0 && !calm && !gone && !decided -> gone = true }
	/* Its way to the counter is broken. */
	:: d_step { i == 1 && !calm && !cut -> cut = true }
	/* Dead, or a zombie that does nothing more. */
	:: atomic { i == 0 && gone ->
		number = 0; place = 0; sent_to = 0; over[i] = true; break }
	:: atomic { place == SEGMENTS(i) && !number -> over[i] = true; break }
	od;
end:	do
	:: d_step { cut && !flushed[i] && !(i == 0 && gone) ->
		flushed[i] = true
	}
	:: d_step { i == 0 && !calm && !gone && !decided -> gone = true }
	od
}

/* ---- Targets ------------------------------------------------------------ */

inline deliver()
{
	assert(place_of(due[t]) == got[pair(t, source_of(due[t]))]);
	got[pair(t, source_of(due[t]))]++;
	delivered[t] = delivered[t] | bit(due[t]);
	due[t]++
}

#define arrived(n) ((has[t] & bit(n)) != 0)
#define is_later (has[t] >> (due[t] + 1))
#ifdef MUTANT_NO_GAPS
#define is_gap false
#else
#ifdef MUTANT_SKIP_AT_DEATH
#define is_gap (!arrived(due[t]) && (adopted[t] && due[t] < behind || \
	sees_gone[t] && is_later))
#else
#define is_gap (!arrived(due[t]) && adopted[t] && due[t] < behind)
#endif
#endif

#ifdef MUTANT_ON_ITS_WAY
#define has_come(i) true
#else
#define has_come(i) (t != FAR || !flies[i])
#endif
#ifdef MUTANT_NO_FLUSH
#define is_whole(i) true
#else
#ifdef MUTANT_DEAD_FLUSH
#define is_whole(i) (flushed[i] && has_come(i))
#else
#define is_whole(i) (flushed[i] && has_come(i) || (i) == 0 && sees_gone[t])
#endif
#endif
#ifdef MUTANT_ONLY_HOLDER
#define is_reason holder_dead
#else
#define is_reason (holder_dead || gone)
#endif
#ifdef MUTANT_DEAD_REPORT
#define has_report(x) reported[x]
#else
#define has_report(x) (reported[x] || is_dead(x))
#endif
#ifdef MUTANT_FIRST_REPORT
#define may_decide reported[t]
#else
#define may_decide (has_report(0) && has_report(1) && has_report(2))
#endif

/* What one has delivered, and what all have. A dead target has no say. */
#define done_of(x) (is_dead(x) -> 0 : had[x])
#define report_of(x) (is_dead(x) -> -1 : report[x])

inline decide()
{
#ifdef MUTANT_FIRST_REPORT
	decision = report[t];
#else
#ifdef MUTANT_LEAST
	decision = report_of(0) & report_of(1) & report_of(2);
#else
	decision = done_of(0) | done_of(1) | done_of(2) |
	    report_of(0) & report_of(1) & report_of(2);
#endif
#endif
	behind = 0;
	do
	:: decision >> behind -> behind++
	:: else -> break
	od;
	next_counter = BEGIN;
	decided = true
}

#define VIEW_1 (bit(VIEW) - 1)

#ifdef MUTANT_NO_EVICTION
#define is_member true
#else
#define is_member ((report[t] & decision) == decision)
#endif
#ifdef MUTANT_DELIVERS_ON
#define may_deliver true
#else
#define may_deliver (!reported[t] || adopted[t])
#endif

/* What comes of a source that is gone for this target is not read. */
inline arrive(i)
{
	if
	:: is_read(t, i) -> has[t] = has[t] | bit(flies[i] - 1)
	:: else
	fi;
	flies[i] = 0
}

active [TARGETS] proctype target()
{
	byte t = _pid - SOURCES;

end:	do
	:: d_step { t == FAR && flies[0] -> arrive(0) }
	:: d_step { t == FAR && flies[1] -> arrive(1) }
	:: d_step { may_deliver && arrived(due[t]) -> deliver() }
	:: d_step { is_gap -> due[t]++ }
	:: d_step { adopted[t] && due[t] == behind && behind < BEGIN && !in_view_2[t] ->
		in_view_2[t] = true; due[t] = BEGIN }
	:: d_step { gone && !sees_gone[t] -> sees_gone[t] = true }
	:: d_step { is_reason && !cut -> cut = true }
	:: d_step { cut && !reported[t] && is_whole(0) && is_whole(1) ->
		reported[t] = true;
		had[t] = delivered[t];
#ifdef MUTANT_REST_LOST
		report[t] = has[t] & (bit(due[t]) - 1)
#else
		report[t] = has[t]
#endif
	}
	:: d_step { may_decide && cut && !decided && reported[t] -> decide() }
	:: d_step { decided && reported[t] && !adopted[t] && is_member ->
		adopted[t] = true;
		has[t] = has[t] & (decision | ~VIEW_1)
	}
	:: d_step { decided && reported[t] && !is_member -> out[t] = true } -> break
	:: d_step { t == 0 && !calm && !holder_dead && !reported[0] -> holder_dead = true } ->
		break
	od;
	if
	:: t == 0 && holder_dead ->
		atomic { due[0] = 0; has[0] = 0; delivered[0] = 0; got[0] = 0; got[1] = 0;
			sees_gone[0] = 0 }
	:: else
	fi
}

#define total (decided -> next_counter : counter)
#define is_over(t) (is_dead(t) || out[t])
#define is_done(t) (is_over(t) || due[t] == total)
#define is_same(a, b) (is_over(a) || is_over(b) || delivered[a] == delivered[b])
/* All members make the same, so any of them tells. */
#define is_part(a, b) (is_dead(a) || !out[a] || is_over(b) || \
	(delivered[a] & ~delivered[b]) == 0)

active proctype judge()
{
	calm = true;
	over[0] && over[1] && is_done(0) && is_done(1) && is_done(2);
	/* All members made the same of each number. */
	assert(is_same(0, 1) && is_same(0, 2) && is_same(1, 2));
	assert(is_part(0, 1) && is_part(0, 2) && is_part(1, 0) && is_part(1, 2) &&
	    is_part(2, 0) && is_part(2, 1));
	assert(!is_over(0) || !is_over(1) || !is_over(2));
	assert(is_over(0) || got[pair(0, 1)] == SEGMENTS(1));
	assert(is_over(1) || got[pair(1, 1)] == SEGMENTS(1));
	assert(is_over(2) || got[pair(2, 1)] == SEGMENTS(1));
	assert(gone || is_over(1) || got[pair(1, 0)] == SEGMENTS(0));
	assert(gone || is_over(2) || got[pair(2, 0)] == SEGMENTS(0))
}
