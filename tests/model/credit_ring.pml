/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring between one source and one target, in shared memory: segments, their
 * way back, the end, and sleeping. Modelled are
 *
 *	source  writer_credit() (writer.h), dfi__writer_publish(),
 *	        dfi__writer_end() (writer.c), dfi__source_await_room()
 *	        (source_wait.c), source_target_life() (source.h)
 *	target  reader_ready(), reader_take(), reader_release() (reader.h),
 *	        dfi__reader_check_end() (reader.c), check_source()
 *	        (target_sources.c)
 *	both    shm_write(), shm_give_credit() (shm.c), wait_wake(),
 *	        sleep_until_ready() (wait.c), fence_light(), dfi__fence_heavy()
 *	        (fence.h), dfi__peers_wake() (peers.c), and with DESCRIPTOR
 *	        dfi__notify_announce() and arm_descriptor() for the target
 *
 * Memory is weak: stores wait in a buffer of their process and leave it in any
 * order, but for stores to one word, and for releases, which leave it after all
 * stores before them. Loads are not reordered. No sleep ends by itself, so a
 * wake-up that is lost is a deadlock.
 *
 * Bounds: SLOTS slots, SEGMENTS segments of one tuple, footers with numbers
 * modulo NUMBERS that start right before their wrap-around. At any point, once:
 * either end dies, is aborted by another thread, or the target cancels. An
 * end that is reported as gone or aborted is not in weak memory.
 *
 * Checked: tuples arrive once, in order, whole; no slot is filled that was not
 * given back; an end comes after everything before it; a target loses nothing
 * that a dead source had published; each side ends, and in the way that fits
 * what befell the other. Each loop has a sleep in it, so none is endless.
 *
 * check                               holds
 * check -DDESCRIPTOR                  holds
 * check -DMUTANT_FENCE_OWN            deadlock   # the sleeper's fence alone
 * check -DMUTANT_NO_SECOND_LOOK       deadlock
 * check -DMUTANT_WAKE_FIRST           deadlock   # look for sleepers, publish
 * check -DMUTANT_DEAF_TO_PEERS        deadlock   # deaths wake nobody
 * check -DMUTANT_RELAXED_FOOTER       assertion
 * check -DMUTANT_CREDIT_TOO_MUCH      assertion
 * check -DMUTANT_END_ONE_LOOK         assertion  # no look behind the end mark
 * check -DMUTANT_RING_BEFORE_PEER     assertion  # is it empty, is it gone
 * check -DMUTANT_SHORT_NUMBERS        assertion  # a lap can't be told
 * check -DDESCRIPTOR -DMUTANT_DRAIN_LAST deadlock
 */
#define SLOTS 2
#ifdef DESCRIPTOR
#define SEGMENTS 2
#else
#define SEGMENTS 3
#endif
#ifdef MUTANT_SHORT_NUMBERS
#define NUMBERS SLOTS
#else
#define NUMBERS (SLOTS + 1)
#endif
#define FIRST (NUMBERS - 1)

#define SOURCE 0
#define TARGET 1

/* Words of shared memory, and two that only threads of one process share. */
#define PAYLOAD(slot) (slot)
#define FOOTER(slot) (SLOTS + (slot))
#define END (2 * SLOTS)        /* NO_END, END_CLOSED or END_ABORTED */
#define END_COUNT (2 * SLOTS + 1)
#define CONSUMED (2 * SLOTS + 2)
#define CLOSED (2 * SLOTS + 3) /* OPEN, LEFT or CANCELLED */
#define WAITS(who) (2 * SLOTS + 4 + (who))
#define SLEEPING(who) (2 * SLOTS + 6 + (who)) /* peers.sleeping */
#define OWN (2 * SLOTS + 8) /* notify.self, of the target */
#define WORDS (2 * SLOTS + 9)

#define NO_END 0
#define END_CLOSED 1
#define END_ABORTED 2

#define OPEN 0
#define LEFT 1
#define CANCELLED 2

#define BY_FUTEX 1
#define BY_NOTICE 2

/* How an end, or a life, turned out. */
#define RUNNING 0
#define DONE 1          /* all sent; all received, with the end mark */
#define PEER_ABORTED 2
#define PEER_LOST 3     /* gone, or its ring is closed */
#define PEER_CANCELLED 4
#define SELF_ABORTED 5
#define SELF_CANCELLED 6

/* What befalls them. */
#define ANSWERED 0 /* nothing; the source closes when all was taken */
#define NOTHING 1
#define SOURCE_DIES 2
#define TARGET_DIES 3
#define SOURCE_ABORTED 4
#define TARGET_ABORTED 5
#define TARGET_CANCELS 6

#define DEPTH 3

typedef buffer_of {
	byte n;
	byte word[DEPTH];
	byte value[DEPTH];
	bit release[DEPTH];
};
buffer_of buffer[2];
byte memory[WORDS];

byte fate;
bool dead[2];
bool finished[2];
bool gone[2];    /* as the peer's control thread has it from the registry */
bool aborted[2];
bool asleep[2];  /* in the kernel */
byte notices;    /* that the target's descriptor has */
byte outcome[2];
byte left;       /* who the registry has reported */

/* For the checks alone: absolute counts. */
byte published;  /* footers that were stored */
byte taken;
byte returned;

inline store(who, at, what, is_release)
{
	d_step {
		buffer[who].n < DEPTH;
		buffer[who].word[buffer[who].n] = at;
		buffer[who].value[buffer[who].n] = what;
		buffer[who].release[buffer[who].n] = is_release;
		buffer[who].n++
	}
}
#define publish(who, at, what) store(who, at, what, 1)
#define set(who, at, what) store(who, at, what, 0)

/* The buffer's entry number i reaches memory. */
inline commit(who, i)
{
	memory[buffer[who].word[i]] = buffer[who].value[i];
	k = i;
	do
	:: k + 1 < buffer[who].n ->
		buffer[who].word[k] = buffer[who].word[k + 1];
		buffer[who].value[k] = buffer[who].value[k + 1];
		buffer[who].release[k] = buffer[who].release[k + 1];
		k++
	:: else -> break
	od;
	buffer[who].n--;
	buffer[who].word[buffer[who].n] = 0;
	buffer[who].value[buffer[who].n] = 0;
	buffer[who].release[buffer[who].n] = 0;
	k = 0
}

#define overtakes(who, i, j) \
	(buffer[who].n > i && buffer[who].word[i] != buffer[who].word[j])

active [2] proctype store_buffer()
{
	byte k;

end:	do
	:: d_step { buffer[_pid].n > 0 -> commit(_pid, 0) }
	:: d_step { overtakes(_pid, 1, 0) && !buffer[_pid].release[1] ->
		commit(_pid, 1) }
	:: d_step { overtakes(_pid, 2, 0) && overtakes(_pid, 2, 1) &&
		!buffer[_pid].release[2] -> commit(_pid, 2) }
	od
}

/* The stores of a process have left its buffer. */
#define drained(who) (buffer[who].n == 0)

/* dfi__fence_heavy(): a full fence here, and then one in the peer. */
inline fence_heavy(who)
{
	drained(who);
#ifndef MUTANT_FENCE_OWN
	drained(1 - who)
#endif
}

/* dfi__wait_wake(): two steps, and the waker may die between them. */
inline wake(whom, at)
{
	d_step {
		word = memory[at];
		memory[at] = 0
	}
	d_step {
		if
		:: word == BY_NOTICE -> notices = 1
		:: else -> asleep[whom] = false
		fi;
		word = 0
	}
}

/* wake_owner() */
inline wake_owner(whom)
{
	if
	:: !memory[SLEEPING(whom)]
#ifdef DESCRIPTOR
	:: memory[SLEEPING(whom)] && whom == TARGET -> wake(whom, OWN)
	:: memory[SLEEPING(whom)] && whom == SOURCE -> wake(whom, WAITS(whom))
#else
	:: memory[SLEEPING(whom)] -> wake(whom, WAITS(whom))
#endif
	fi
}

/* wait_wake(): fence_light() orders nothing for the processor. */
inline wake_if_asleep(whom)
{
	if
	:: memory[WAITS(whom)] -> wake(whom, WAITS(whom))
	:: else
	fi
}

#ifdef MUTANT_NO_SECOND_LOOK
#define second_look(ready) false
#else
#define second_look(ready) (ready)
#endif

/* wait_until() for one who sleeps at once. */
inline wait_until(who, ready)
{
	publish(who, SLEEPING(who), 1);
	do
	:: ready -> break
	:: else ->
		set(who, WAITS(who), BY_FUTEX);
		fence_heavy(who);
		if
		:: second_look(ready) -> break
		:: else
		fi;
		/* FUTEX_WAIT looks at the word itself. */
		d_step { asleep[who] = memory[WAITS(who)] == BY_FUTEX };
		!asleep[who]
	od;
	set(who, WAITS(who), 0);
	set(who, SLEEPING(who), 0)
}

#ifdef MUTANT_CREDIT_TOO_MUCH
#define ALLOWED (SLOTS + 1)
#else
#define ALLOWED SLOTS
#endif

/* shm_write() */
inline write(payload, what, footer, state)
{
	set(SOURCE, payload, what);
#ifdef MUTANT_WAKE_FIRST
	wake_if_asleep(TARGET);
#endif
	atomic {
#ifdef MUTANT_RELAXED_FOOTER
		set(SOURCE, footer, state);
#else
		publish(SOURCE, footer, state);
#endif
		published = sent
	}
#ifndef MUTANT_WAKE_FIRST
	wake_if_asleep(TARGET)
#endif
}

#define ahead ((seq + NUMBERS - consumed) % NUMBERS)
#define has_credit \
	((seq + NUMBERS - memory[CONSUMED]) % NUMBERS < ALLOWED || \
	memory[CLOSED] != OPEN || gone[TARGET] || aborted[SOURCE])

/* source_target_life(): peers first, then the ring. */
inline look_at_target()
{
	was_gone = gone[TARGET];
	if
	:: memory[CLOSED] == CANCELLED -> outcome[SOURCE] = PEER_CANCELLED
	:: memory[CLOSED] == LEFT || was_gone -> outcome[SOURCE] = PEER_LOST
	:: else
	fi;
	was_gone = false
}

proctype source()
{
	byte seq = FIRST, consumed = FIRST, slot, sent, word;
	bool was_gone;

	{
		do
		:: sent == SEGMENTS -> break
		:: else ->
			/* dfi__source_make_room() */
			do
			:: aborted[SOURCE] ->
				outcome[SOURCE] = SELF_ABORTED;
				break
			:: else ->
				d_step { look_at_target() };
				if
				:: outcome[SOURCE] -> break
				:: else
				fi;
				if
				:: ahead >= ALLOWED ->
					consumed = memory[CONSUMED];
					assert(ahead <= ALLOWED)
				:: else
				fi;
				if
				:: ahead < ALLOWED -> break
				:: else -> wait_until(SOURCE, has_credit)
				fi
			od;
			if
			:: outcome[SOURCE] -> break
			:: else
			fi;
			/* The slot was given back. */
			assert(sent - returned < SLOTS);
			sent++;
			write(PAYLOAD(slot), sent, FOOTER(slot), seq);
			d_step {
				seq = (seq + 1) % NUMBERS;
				slot = (slot + 1) % SLOTS
			}
		od;
		fate != ANSWERED || taken == SEGMENTS;
		/* dfi_source_close(): its end, or that it gave up. */
		if
		:: !outcome[SOURCE] ->
			write(END_COUNT, sent, END, END_CLOSED);
			outcome[SOURCE] = DONE
		:: else -> write(END_COUNT, sent, END, END_ABORTED)
		fi;
		finished[SOURCE] = true
	} unless { dead[SOURCE] }
}

#define head_ready (memory[FOOTER(slot)] == seq)
#define segment_or_change \
	(head_ready || memory[END] != NO_END || gone[SOURCE] || aborted[TARGET])

/* check_source(): of a ring without a segment. */
inline check_source()
{
#ifdef MUTANT_RING_BEFORE_PEER
	ready = head_ready;
	was_gone = gone[SOURCE];
#else
	was_gone = gone[SOURCE];
	ready = head_ready;
#endif
	if
	:: ready
	:: else ->
		/* dfi__reader_check_end() */
		mark = memory[END];
		if
		:: mark == NO_END
		:: else ->
#ifndef MUTANT_END_ONE_LOOK
			ready = head_ready;
#endif
			if
			:: ready
			:: !ready && mark == END_ABORTED ->
				outcome[TARGET] = PEER_ABORTED
			:: else ->
				assert(memory[END_COUNT] == taken);
				outcome[TARGET] = DONE
			fi
		fi;
		if
		:: was_gone && !outcome[TARGET] ->
#ifndef MUTANT_RING_BEFORE_PEER
			ready = head_ready;
#endif
			if
			:: ready
			:: else ->
				/* It drains what a dead source had sent. */
				assert(taken == published);
				outcome[TARGET] = PEER_LOST
			fi
		:: else
		fi
	fi;
	d_step { ready = false; was_gone = false; mark = 0 }
}

#ifdef DESCRIPTOR
/* What a word of the target's own says to itself: it may be in its buffer. */
inline peek_own(at)
{
	d_step {
		word = memory[at];
		mark = 0;
		do
		:: mark < buffer[TARGET].n ->
			if
			:: buffer[TARGET].word[mark] == at ->
				word = buffer[TARGET].value[mark]
			:: else
			fi;
			mark++
		:: else -> break
		od;
		mark = 0
	}
}

/* dfi__notify_announce() */
inline announce(at)
{
	peek_own(at);
	if
	:: word != BY_NOTICE ->
		publish(TARGET, at, BY_NOTICE);
		fresh = true
	:: else
	fi;
	word = 0
}

/*
 * arm_descriptor(), where a call found nothing, and then the application's
 * poll().
 */
inline wait_for_segment()
{
	notices = 0;
	announce(WAITS(TARGET));
	publish(TARGET, SLEEPING(TARGET), 1);
	announce(OWN);
	if
	:: fresh -> fence_heavy(TARGET)
	:: else
	fi;
	fresh = false;
	if
	:: segment_or_change
	:: else ->
#ifdef MUTANT_DRAIN_LAST
		notices = 0;
#endif
		notices > 0
	fi
}
#else
inline wait_for_segment()
{
	wait_until(TARGET, segment_or_change)
}
#endif

proctype target()
{
	byte seq = FIRST, slot, word, mark;
	bool ready, was_gone, fresh;

	{
		do
		:: aborted[TARGET] ->
			outcome[TARGET] = SELF_ABORTED;
			break
		:: fate == TARGET_CANCELS ->
			outcome[TARGET] = SELF_CANCELLED;
			break
		:: !aborted[TARGET] && head_ready ->
			/* It is what comes next, and whole. */
			assert(memory[PAYLOAD(slot)] == taken + 1);
			d_step {
				taken++;
				slot = (slot + 1) % SLOTS;
				seq = (seq + 1) % NUMBERS
			}
			/* reader_release() */
			returned++;
			publish(TARGET, CONSUMED, seq);
			wake_if_asleep(SOURCE)
		:: !aborted[TARGET] && !head_ready ->
			check_source();
			if
			:: outcome[TARGET] -> break
			:: else -> wait_for_segment()
			fi
		od;
		/* dfi_target_cancel(), dfi_target_close() */
		publish(TARGET, CONSUMED, seq);
		if
		:: outcome[TARGET] == SELF_CANCELLED ->
			publish(TARGET, CLOSED, CANCELLED)
		:: else -> publish(TARGET, CLOSED, LEFT)
		fi;
		wake_if_asleep(SOURCE);
		finished[TARGET] = true
	} unless { dead[TARGET] }
}

/* The other threads, of both: dfi_source_abort(), dfi_target_abort(). */
proctype others()
{
	byte word;

	if
	:: fate == SOURCE_DIES -> dead[SOURCE] = true
	:: fate == TARGET_DIES -> dead[TARGET] = true
	:: fate == SOURCE_ABORTED ->
		aborted[SOURCE] = true;
		wake_owner(SOURCE)
	:: fate == TARGET_ABORTED ->
		aborted[TARGET] = true;
		wake_owner(TARGET)
	:: else
	fi
}

/*
 * A peer's control thread: the registry says that a process has closed its end
 * or died, and all that it ever stored is in memory by then.
 */
proctype registry(byte who)
{
	byte word;

	(finished[who] || dead[who]) && drained(who);
	gone[who] = true;
#ifndef MUTANT_DEAF_TO_PEERS
	wake_owner(1 - who);
#endif
	left++
}

#define ended(who, a, b) (outcome[who] == a || outcome[who] == b)

init
{
	byte i;

	atomic {
		select (fate: ANSWERED .. TARGET_CANCELS);
		memory[CONSUMED] = FIRST;
		/* dfi__reader_init(): a slot has the number of the lap before. */
		for (i : 0 .. SLOTS - 1) {
			memory[FOOTER(i)] =
			    (FIRST + i + SLOTS * (NUMBERS - 1)) % NUMBERS
		}
		i = 0;
		run source();
		run target();
		run others();
		run registry(SOURCE);
		run registry(TARGET)
	}
	left == 2;
	/* All is over: it fits together. */
	assert(outcome[TARGET] != DONE || taken == SEGMENTS);
	assert(outcome[SOURCE] != DONE || published == SEGMENTS);
	if
	:: fate == NOTHING || fate == ANSWERED ->
		assert(outcome[SOURCE] == DONE && outcome[TARGET] == DONE)
	:: fate == SOURCE_DIES -> assert(ended(TARGET, DONE, PEER_LOST))
	:: fate == TARGET_DIES -> assert(ended(SOURCE, DONE, PEER_LOST))
	:: fate == SOURCE_ABORTED ->
		assert(ended(SOURCE, DONE, SELF_ABORTED));
		assert(outcome[TARGET] ==
		    (outcome[SOURCE] == DONE -> DONE : PEER_ABORTED))
	:: fate == TARGET_ABORTED ->
		assert(ended(TARGET, DONE, SELF_ABORTED));
		assert(ended(SOURCE, DONE, PEER_LOST))
	:: fate == TARGET_CANCELS ->
		assert(ended(TARGET, DONE, SELF_CANCELLED));
		assert(ended(SOURCE, DONE, PEER_CANCELLED))
	fi
}
