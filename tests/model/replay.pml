/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay: docs/open-flows.md, R1 to R5, whose words are used. One partition and one
 * source with INPUT tuples, whose input positions are 1 to INPUT. Target 0 owns the
 * partition, then target 1, then 2. LOSSES targets are declared lost, dead or not:
 * one that is not goes on as a zombie, until the store refuses it. The source dies
 * DEATHS times, and returns. Both may be gone at once.
 *
 * Tuples in a ring are adjacent, so a ring is two numbers: the last tuple that was
 * sent, and the last that was read. A ring of an earlier incarnation of the source
 * is still read. Who owns the partition the source learns sometime; until then it
 * goes on to send to the target that is lost.
 *
 * WITHOUT_KEYS: R8. Two targets, of which LOSSES are lost; tuples go to either, and
 * back to the other one. Rings, and tuples that wait, are sets of input positions: in
 * which order they are sent and read is left open. A tuple's segment says what is
 * acknowledged when it is sent. Its effect is stored when it is acknowledged.
 *
 * Left out: several sources and partitions, which know nothing of each other except
 * in a resume; marks; the window (R6); a target that leaves (handover.pml).
 *
 * Checked: the store has each tuple's effect once, not more at any time, and not
 * less in the end, which comes. WITHOUT_KEYS: not less.
 *
 * check                            holds
 * check -DMUTANT_EARLY_ACK         assertion # before its effect is stored
 * check -DMUTANT_CREDIT_ON_RELEASE assertion # taken back behind what was read
 * check -DMUTANT_NO_FILTER         assertion # what was seen is lent again
 * check -DMUTANT_FORGETFUL         assertion # the new owner asks no store
 * check -DMUTANT_NEWER_FIRST       assertion # before what was taken back
 * check -DMUTANT_RESUME_AT_SEEN    assertion # not at what is acknowledged
 * check -DMUTANT_RESUME_HERE       assertion # where it was when it died
 * check -DMUTANT_NO_FENCE          assertion # the store takes all
 * check -DMUTANT_SAME_EPOCH        assertion # at the next owner
 * check -DMUTANT_LATE_FENCE        assertion # positions are read before it
 * check -DMUTANT_APART             assertion # effect and position
 * check -DMUTANT_NO_TAKE_BACK      assertion # what is lost with a target is lost
 * check -DWITHOUT_KEYS             holds
 * check -DWITHOUT_KEYS -DMUTANT_LOW_AT_SENT assertion # not what is acknowledged
 * check -DWITHOUT_KEYS -DMUTANT_LOW_OF_RINGS assertion # without those that wait
 * check -DWITHOUT_KEYS -DMUTANT_LOW_OF_ONE assertion # of the segment's target only
 */
#ifndef INPUT
#define INPUT 3
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef DEATHS
#define DEATHS 1
#endif

#ifdef WITHOUT_KEYS

#define bit(number) (1 << (number))
#define ALL (bit(INPUT + 1) - bit(1))

byte stored;                 /* effects: bits of input positions, as the next ones */
byte losses, deaths;
bool calm;                   /* as below */

/* Targets. */
bool alive[2] = true;
byte known[2];               /* all up to here is acknowledged, as it was told */
byte old[2];                 /* of an earlier incarnation, and not acknowledged */
byte old_says[2 * (INPUT + 1)];

/* The source. */
bool up = true;
bool learnt[2];              /* that the target is lost */
byte pos;                    /* the last tuple that was pushed */
byte held;                   /* was taken back, and waits */
byte ring[2], got[2];        /* to be read; read, and not acknowledged */
byte says[2 * (INPUT + 1)];  /* what the segment of a tuple says */
byte i, n;                   /* scratch */

#define of(t, number) ((t) * (INPUT + 1) + (number))
#define unacked(t) (ring[t] | got[t])
#if defined(MUTANT_LOW_OF_RINGS)
#define not_low(t) (unacked(0) | unacked(1))
#elif defined(MUTANT_LOW_OF_ONE)
#define not_low(t) unacked(t)
#else
#define not_low(t) (held | unacked(0) | unacked(1))
#endif

inline send(t, number)
{
	ring[t] = ring[t] | bit(number);
#ifdef MUTANT_LOW_AT_SENT
	n = pos;
#else
	n = 0;
	do
	:: n < INPUT && !(not_low(t) & bit(n + 1)) -> n++
	:: else -> break
	od;
#endif
	says[of(t, number)] = n;
	n = 0
}

inline hear(t, low)
{
	known[t] = (low > known[t] -> low : known[t])
}

inline lose(t)
{
	losses++;
	alive[t] = false;
	known[t] = 0;
	old[t] = 0
}

inline take_back(t)
{
	learnt[t] = true;
	held = held | unacked(t);
	ring[t] = 0;
	got[t] = 0
}

/* What has arrived is read, as before. */
inline leave_ring(t)
{
	if
	:: alive[t] ->
		old[t] = unacked(t);
		for (i : 1 .. INPUT) {
			old_says[of(t, i)] = says[of(t, i)]
		}
		i = 0
	:: else
	fi;
	ring[t] = 0;
	got[t] = 0
}

inline resume()
{
	up = true;
	learnt[0] = !alive[0];
	learnt[1] = !alive[1];
	pos = (known[0] > known[1] -> known[0] : known[1])
}

#define tuple(t, number) \
	:: d_step { alive[t] && (ring[t] & bit(number)) -> \
		ring[t] = ring[t] & ~bit(number); got[t] = got[t] | bit(number); \
		hear(t, says[of(t, number)]) } \
	:: d_step { alive[t] && (old[t] & bit(number)) -> \
		old[t] = old[t] & ~bit(number); stored = stored | bit(number); \
		hear(t, old_says[of(t, number)]) } \
	:: d_step { up && !learnt[t] && (held & bit(number)) -> \
		held = held & ~bit(number); send(t, number) }

#define target(t) \
	tuple(t, 1) \
	tuple(t, 2) \
	tuple(t, 3) \
	:: d_step { alive[t] && got[t] -> stored = stored | got[t]; got[t] = 0 } \
	:: d_step { !calm && losses < LOSSES && alive[t] -> lose(t) } \
	:: d_step { up && !alive[t] && !learnt[t] -> take_back(t) } \
	:: d_step { up && !learnt[t] && pos < INPUT -> pos++; send(t, pos) }

active proctype all()
{
	do
	target(0)
	target(1)
	:: d_step { up && !calm && deaths < DEATHS -> \
		deaths++; up = false; held = 0; leave_ring(0); leave_ring(1) }
	:: d_step { !up -> resume() }
	:: d_step { !calm -> calm = true }
	:: atomic { calm && up && pos == INPUT && !held && !unacked(0) && \
		!unacked(1) -> break }
	od;
	assert(stored == ALL)
}

#else /* with keys */

#define TARGETS (LOSSES + 1)

/* The store. */
byte stored_epoch = 1;
byte stored;              /* the last input position */
byte effects[INPUT + 1];

/* The flow: who owns the partition, and has taken it. */
byte owner;
bool taken = true;
byte losses, deaths;
bool calm; /* nothing goes wrong any more: without it, a fault might end a wait */

/* Targets. */
bool active_[TARGETS];    /* has taken, and is not dead */
byte seen[TARGETS];       /* lent, and all before */
byte acked[TARGETS];
byte pending[TARGETS];    /* lent, and not stored */
#ifdef MUTANT_LATE_FENCE
byte asked[TARGETS];      /* 1 + the position that the store said */
#endif
#ifdef MUTANT_APART
byte half[TARGETS];       /* its effect is stored, and not its position */
#endif
/* The ring of the source, and those of earlier incarnations. */
byte sent[TARGETS], read[TARGETS];
byte credit[TARGETS];     /* acknowledged of that ring */
byte old_sent[TARGETS], old_read[TARGETS];

/* The source. */
bool up = true;
byte to;                  /* the owner, as far as it knows */
byte pos;                 /* the last tuple that it has sent there */
#ifdef MUTANT_NEWER_FIRST
byte later;               /* 1 + the last tuple sent before it took some back */
#endif
#ifdef MUTANT_RESUME_HERE
byte here;
#endif

#ifdef MUTANT_SAME_EPOCH
#define epoch(t) 1
#else
#define epoch(t) (1 + (t))
#endif
#ifdef MUTANT_NO_FENCE
#define refuses(t) false
#else
#define refuses(t) (stored_epoch > epoch(t))
#endif
#define may_send (up && pos < INPUT && (to < owner || taken))

inline store(t)
{
	if
	:: refuses(t) -> active_[t] = false /* it knows that it is a zombie */
	:: else ->
		effects[pending[t]]++;
		assert(effects[pending[t]] == 1);
#ifdef MUTANT_APART
		half[t] = pending[t];
#else
		stored = pending[t];
#endif
	fi;
	pending[t] = 0
}

inline take(t)
{
	taken = true;
	active_[t] = true;
	stored_epoch = epoch(t);
#if defined(MUTANT_FORGETFUL)
	seen[t] = 0;
#elif defined(MUTANT_LATE_FENCE)
	seen[t] = asked[t] - 1;
	asked[t] = 0;
#else
	seen[t] = stored;
#endif
	acked[t] = seen[t]
}

inline lend(t, number)
{
	if
#ifdef MUTANT_NO_FILTER
	:: true ->
#else
	:: number > seen[t] ->
#endif
		seen[t] = number;
		pending[t] = number
#ifndef MUTANT_NO_FILTER
	:: else
#endif
	fi
}

/* Credit returns: all that was read is acknowledged. */
inline acknowledge(t)
{
	acked[t] = seen[t];
	credit[t] = read[t]
}

inline lose(t, dies)
{
	losses++;
	if
	:: dies -> active_[t] = false; pending[t] = 0
	:: else
	fi;
	taken = false;
	owner = t + 1
}

/* The source learns that its target is lost. */
inline take_back()
{
#ifdef MUTANT_NEWER_FIRST
	later = 1 + pos;
#endif
#if defined(MUTANT_CREDIT_ON_RELEASE)
	pos = read[to];
#elif defined(MUTANT_NO_TAKE_BACK)
	pos = pos; /* it goes on behind */
#else
	pos = credit[to];
#endif
	to++;
	sent[to] = pos;
	read[to] = pos;
	credit[to] = pos
}

inline die()
{
	deaths++;
	up = false;
#ifdef MUTANT_RESUME_HERE
	here = pos;
#endif
	/* What has arrived is read, as before. */
	old_read[to] = (old_read[to] < old_sent[to] && old_read[to] < read[to] ->
		old_read[to] : read[to]);
	old_sent[to] = (old_sent[to] > sent[to] -> old_sent[to] : sent[to]);
	sent[to] = 0; read[to] = 0; credit[to] = 0; pos = 0
}

inline resume()
{
	up = true;
	to = owner;
#if defined(MUTANT_RESUME_AT_SEEN)
	pos = seen[to];
#elif defined(MUTANT_RESUME_HERE)
	pos = here;
#else
	pos = acked[to];
#endif
	sent[to] = pos;
	read[to] = pos;
	credit[to] = pos
}

#define works(t) (active_[t] && !pending[t])

#ifdef MUTANT_EARLY_ACK
#define may_acknowledge(t) active_[t]
#else
#define may_acknowledge(t) works(t)
#endif
#ifdef MUTANT_LATE_FENCE
#define asks(t) \
	:: d_step { owner == t && !taken && !asked[t] -> asked[t] = 1 + stored }
#define may_take(t) (owner == t && !taken && asked[t])
#else
#define asks(t)
#define may_take(t) (owner == t && !taken)
#endif
#ifdef MUTANT_APART
#define completes(t) \
	:: d_step { half[t] && active_[t] -> stored = half[t]; half[t] = 0 }
#undef works
#define works(t) (active_[t] && !pending[t] && !half[t])
#else
#define completes(t)
#endif

#define target(t) \
	asks(t) \
	completes(t) \
	:: d_step { may_take(t) -> take(t) } \
	:: d_step { works(t) && read[t] < sent[t] -> \
		read[t]++; lend(t, read[t]) } \
	:: d_step { works(t) && old_read[t] < old_sent[t] -> \
		old_read[t]++; lend(t, old_read[t]) } \
	:: d_step { active_[t] && pending[t] -> store(t) } \
	:: d_step { may_acknowledge(t) && (acked[t] < seen[t] || \
		credit[t] < read[t]) -> acknowledge(t) }

#define all_stored (calm && owner == to && taken && up && works(owner) && \
	pos == INPUT && read[owner] == INPUT)

active proctype all()
{
	active_[0] = true;
	do
	target(0)
	target(1)
#if LOSSES > 1
	target(2)
#endif
	:: d_step { !calm && losses < LOSSES && taken && owner == 0 -> lose(0, true) }
	:: d_step { !calm && losses < LOSSES && taken && owner == 0 -> lose(0, false) }
#if LOSSES > 1
	:: d_step { !calm && losses < LOSSES && taken && owner == 1 -> lose(1, true) }
	:: d_step { !calm && losses < LOSSES && taken && owner == 1 -> lose(1, false) }
#endif
#ifdef MUTANT_NEWER_FIRST
	:: d_step { may_send && later && later - 1 < INPUT ->
		later++; sent[to] = INPUT; read[to] = INPUT - 1 }
#endif
	:: d_step { may_send -> pos++; sent[to] = pos }
	:: d_step { up && to < owner -> take_back() }
	:: d_step { up && !calm && deaths < DEATHS -> die() }
	:: d_step { !up && taken -> resume() }
	:: d_step { !calm -> calm = true }
	:: atomic { all_stored -> break }
	od;
	pos = 1;
	do
	:: pos <= INPUT -> assert(effects[pos] == 1); pos++
	:: pos > INPUT -> break
	od
}

#endif
