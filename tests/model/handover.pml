/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hand-over of a partition while tuples come: docs/open-flows.md, "Members"
 * (M2, M5) and "Partitions", whose words are used. Target 0 owns the partition,
 * target 1 joins and gets it. One target and one source may die at any time, and
 * source 1 attaches at any time. After the death of target 1 the partition goes
 * back.
 *
 * The registry is a list of changes. A source acts on them one after another,
 * sometime; what it knows is what the changes up to there say. A target acts
 * sometime on what is true for ever, so that it may know late needs no list. The
 * one thing that it may know wrongly is who should have the partition (STALE). A
 * push of source 0 is two steps: its owner looks up the target, and puts the tuple
 * in the lane; in between the control thread may adopt a table.
 *
 * Left out: other partitions, credit (rings have room for all), and zombies
 * (replay.pml). What is lost with a target is dropped.
 *
 * Bounds: TUPLES(i) tuples of source i, one partition, a lane with room for one,
 * STALE tables by a target that does not know of a death.
 *
 * Checked: a tuple is consumed by the target that holds the partition; tuples of a
 * source come in order, once, and if no target dies all; a target takes the
 * partition only when nobody holds it; nobody waits for ever.
 *
 * check                           holds
 * check -DMUTANT_MARK_FIRST       assertion # before what is in the lane
 * check -DMUTANT_NO_PARKING       assertion # a push that was under way
 * check -DMUTANT_EARLY_RELEASE    assertion # at the first mark
 * check -DMUTANT_LOST_REST        assertion # of a dead source's ring
 * check -DMUTANT_AT_RELEASE       assertion # sent before it is taken
 * check -DMUTANT_OVERTAKE         assertion # those that wait
 * check -DMUTANT_UNSETTLED        assertion # the next table comes too early
 * check -DMUTANT_BEFORE_OWN_KEY   assertion # a source begins
 * check -DMUTANT_PROPOSER_KNOWS   assertion # which sources count
 * check -DMUTANT_GONE_BEFORE      assertion # the table, so its ring doesn't count
 * check -DMUTANT_DEAD_MARK        deadlock  # of a source that is gone
 * check -DMUTANT_ALL_MARK         deadlock  # also sources that came later
 * check -DMUTANT_DEAD_RELEASE     deadlock  # of a target that is gone
 * check -DMUTANT_DEAD_TAKE        deadlock  # likewise
 */
#define SOURCES 2
#define TARGETS 2
#define TUPLES(i) (2 - (i))
#define STALE 1
#define MOST 13 /* changes that not all sources have seen */
#define NOBODY 2

#define bit(i) (1 << (i))
#define pair(i, t) ((i) * TARGETS + (t))

/*
 * The registry as it is after each change, as far as sources look: the newest
 * table, its owner and the one before, whether that has released the partition and
 * this has taken it, and which targets are gone. All have seen change 0.
 */
byte last; /* the newest change */
byte table[MOST] = 1;
byte owner[MOST];
byte from[MOST] = NOBODY;
bool released[MOST] = true;
bool taken[MOST] = true;
byte gone[MOST];

/* The rest of the registry. */
bool joined;       /* target 1 */
byte attached = 1; /* sources, a bit each, also those that are gone */
byte counted;      /* those that were there when the newest table came */
byte sources_gone;

/* What each source has seen. Source 0 is attached from the beginning. */
byte seen[SOURCES];
bool looks[SOURCES] = true; /* it has not died */

byte holder;            /* of the partition's state, or nobody */
byte expected[SOURCES]; /* the next tuple that may be consumed */
bool target_died, source_died;
bool calm; /* nothing goes wrong any more: without it, a fault might end a wait */
bool ready[SOURCES];    /* a source's program has ended */
byte stale = STALE;

#define TUPLE(k) (k)
#define MARK(n) (8 + (n))
chan ring[SOURCES * TARGETS] = [5] of { byte };

inline copy(to, old)
{
	table[to] = table[old];
	owner[to] = owner[old];
	from[to] = from[old];
	released[to] = released[old];
	taken[to] = taken[old];
	gone[to] = gone[old]
}

/* Forget the changes that all have seen. */
inline forget()
{
	do
	:: last > 0 && (!looks[0] || seen[0] > 0) && (!looks[1] || seen[1] > 0) ->
		n = 0;
		do
		:: n < last -> copy(n, n + 1); n++
		:: else -> break
		od;
		table[last] = 1;
		owner[last] = 0;
		from[last] = NOBODY;
		released[last] = true;
		taken[last] = true;
		gone[last] = 0;
		last--;
		seen[0] = (looks[0] -> seen[0] - 1 : 0);
		seen[1] = (looks[1] -> seen[1] - 1 : 0)
	:: else -> break
	od;
	n = 0
}

inline change()
{
	assert(last + 1 < MOST);
	copy(last + 1, last);
	last++
}

/* What is known after change c. */
#define target_gone(c, t) ((gone[c] & bit(t)) != 0)
#define source_gone(i) ((sources_gone & bit(i)) != 0)
#ifdef MUTANT_DEAD_RELEASE
#define is_released(c) released[c]
#else
#define is_released(c) (released[c] || target_gone(c, from[c]))
#endif
#ifdef MUTANT_DEAD_TAKE
#define is_taken(c) taken[c]
#else
#define is_taken(c) (taken[c] || target_gone(c, owner[c]))
#endif
#ifdef MUTANT_UNSETTLED
#define is_settled true
#else
#define is_settled (is_released(last) && is_taken(last))
#endif

/* ---- Sources ------------------------------------------------------------ */

#define at seen[i]
#ifdef MUTANT_AT_RELEASE
#define may_send (is_released(at) && !target_gone(at, owner[at]))
#else
#define may_send (taken[at] && !target_gone(at, owner[at]))
#endif
#ifdef MUTANT_BEFORE_OWN_KEY
#define has_begun (attached & bit(i))
#else
#define has_begun ((attached & bit(i)) && !before)
#endif
#ifdef MUTANT_OVERTAKE
#define lane_is_free true
#else
#define lane_is_free (n_waiting == 0)
#endif

/* Into the ring; that of a dead target is gone. */
inline send(t, what)
{
	if
	:: !target_gone(last, t) -> ring[pair(i, t)] ! what
	:: else
	fi
}

inline send_lane()
{
	if
	:: in_lane ->
		send(lane_of, TUPLE(in_lane - 1));
		in_lane = 0;
		lane_of = 0
	:: else
	fi
}

/* The control thread sees the next change. */
inline learn()
{
	at++;
	if
	:: !(attached & bit(i))
	:: before -> before-- /* it has sent nothing yet */
	:: (attached & bit(i)) && !before && table[at] != table[at - 1] ->
#ifdef MUTANT_MARK_FIRST
		send(from[at], MARK(table[at]));
		send_lane();
#else
		send_lane();
		send(from[at], MARK(table[at]));
#endif
#ifndef MUTANT_NO_PARKING
		parked = chosen != 0
#endif
	:: (attached & bit(i)) && !before && gone[at] != gone[at - 1] && target_gone(at, owner[at]) ->
		in_lane = 0; /* it is in the memory of the ring */
		lane_of = 0;
		parked = chosen != 0
	:: else
	fi;
	d_step { forget() }
}

inline wait_in_lane()
{
	if
	:: n_waiting == 0 -> waiting = next
	:: else
	fi;
	n_waiting++;
	next++
}

active [SOURCES] proctype source()
{
	byte i = _pid, n;
	byte before;             /* changes up to that of its own key */
	byte next, waiting, n_waiting; /* tuples to push; that wait */
	byte chosen;             /* 1 + the target of a push under way */
	byte in_lane, lane_of;   /* 1 + the tuple; its target */
	bool parked, is_dead;

	do
	:: atomic { looks[i] && !(attached & bit(i)) ->
		d_step {
			change();
			attached = attached | bit(i);
			before = last - seen[i]
		} }
	:: atomic { looks[i] && at < last -> learn() }
	/* A push: where to, and there it goes. */
	:: atomic { i == 0 && looks[i] && next < TUPLES(i) && !chosen ->
		if
		:: may_send && lane_is_free -> chosen = 1 + owner[at]
		:: else -> wait_in_lane()
		fi }
	:: atomic { chosen ->
		if
		:: parked /* the slow path routes anew */
		:: else ->
			send_lane();
			in_lane = 1 + next;
			lane_of = chosen - 1;
			next++
		fi;
		parked = false;
		chosen = 0 }
	:: atomic { in_lane -> send_lane() }
	/* Source 1 pushes in one step. */
	:: atomic { i == 1 && has_begun && next < TUPLES(i) ->
		if
		:: may_send && lane_is_free -> send(owner[at], TUPLE(next)); next++
		:: else -> wait_in_lane()
		fi }
	:: atomic { n_waiting && may_send && !chosen ->
		send(owner[at], TUPLE(waiting));
		waiting++;
		n_waiting--;
		if
		:: n_waiting == 0 -> waiting = 0
		:: else
		fi }
	:: atomic { next == TUPLES(i) && !chosen && !in_lane && !n_waiting ->
		break }
	/* Source 0 dies. */
	:: atomic { i == 0 && looks[i] && !calm ->
		source_died = true;
		sources_gone = sources_gone | bit(i);
		is_dead = true;
		looks[i] = false;
		break }
	od;
	/* It stays attached, and gives marks. */
	atomic {
		next = 0; waiting = 0; n_waiting = 0; chosen = 0; in_lane = 0;
		lane_of = 0; parked = false;
		ready[i] = true;
		if
		:: is_dead -> seen[i] = 0; d_step { forget() }
		:: else
		fi
	}
end:	do
	:: atomic { !is_dead && at < last -> learn() }
	od
}
#undef at

/* ---- Targets ------------------------------------------------------------ */

inline consume(i, k)
{
	/* Who consumes has the partition. */
	assert(holder == t);
	/* In order, and once; what a dead target had is missing. */
	assert(k == expected[i] || k > expected[i] && target_died);
	expected[i] = k + 1
}

inline take_in(i)
{
	ring[pair(i, t)] ? what;
	if
	:: what < MARK(0) -> consume(i, what)
	:: else ->
		if
		:: MARK(marked) < what -> marked = what - MARK(0); marks = 0
		:: else
		fi;
		if
		:: MARK(marked) == what -> marks = marks | bit(i)
		:: else
		fi
	fi;
	what = 0
}

#define is_marked(i) (marked == table[last] && (marks & bit(i)) != 0)
#ifdef MUTANT_LOST_REST
#define is_over(i) source_gone(i)
#else
#ifdef MUTANT_DEAD_MARK
#define is_over(i) false
#else
#define is_over(i) (source_gone(i) && empty(ring[pair(i, t)]))
#endif
#endif
#ifdef MUTANT_ALL_MARK
#define counts(i) ((attached & bit(i)) != 0)
#else
#define counts(i) ((counted & bit(i)) != 0)
#endif
#define has_all_of(i) (!counts(i) || is_marked(i) || is_over(i))
#ifdef MUTANT_EARLY_RELEASE
#define has_all (has_all_of(0) || has_all_of(1))
#else
#define has_all (has_all_of(0) && has_all_of(1))
#endif

#define releases (from[last] == t && !released[last] && has_all)
#define takes (owner[last] == t && !taken[last] && is_released(last))
/* Who should have the partition. */
#define wanted (joined && !target_gone(last, 1) -> 1 : 0)
#define proposes (is_settled && wanted != owner[last])
#define proposes_wrongly \
	(stale && is_settled && owner[last] == 0 && target_gone(last, 1))

inline propose(who)
{
	change();
	table[last] = table[last] + 1;
	from[last] = owner[last];
	owner[last] = who;
	released[last] = false;
	taken[last] = false;
#if defined(MUTANT_PROPOSER_KNOWS)
	counted = 1;
#elif defined(MUTANT_GONE_BEFORE)
	counted = attached & ~sources_gone;
#else
	counted = attached;
#endif
	forget()
}

active [TARGETS] proctype target()
{
	byte t = _pid - SOURCES, n;
	byte what, marked, marks;

	if
	:: t == 1 -> joined = true
	:: t == 0
	fi;
end:	do
	:: atomic { nempty(ring[pair(0, t)]) -> take_in(0) }
	:: atomic { nempty(ring[pair(1, t)]) -> take_in(1) }
	:: d_step { releases ->
		assert(holder == t);
		holder = NOBODY;
		change();
		released[last] = true;
		forget()
	}
	:: d_step { takes ->
		assert(holder == NOBODY);
		holder = t;
		change();
		taken[last] = true;
		forget()
	}
	:: d_step { proposes -> propose(wanted) }
	:: d_step { proposes_wrongly -> stale--; propose(1) }
	:: atomic { !target_died && !calm -> target_died = true; break }
	od;
	atomic {
		d_step {
			change();
			gone[last] = gone[last] | bit(t);
			if
			:: holder == t -> holder = NOBODY
			:: else
			fi;
			forget()
		};
		do
		:: nempty(ring[pair(0, t)]) -> ring[pair(0, t)] ? what
		:: nempty(ring[pair(1, t)]) -> ring[pair(1, t)] ? what
		:: empty(ring[pair(0, t)]) && empty(ring[pair(1, t)]) -> break
		od;
		marked = 0; marks = 0; what = 0
	}
}

#define all_empty (empty(ring[0]) && empty(ring[1]) && empty(ring[2]) && \
	empty(ring[3]))

active proctype judge()
{
	calm = true;
	ready[0] && ready[1] && all_empty;
	assert(target_died || source_died || expected[0] == TUPLES(0));
	assert(target_died || expected[1] == TUPLES(1))
}
