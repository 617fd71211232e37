/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that tests/open/simulate plants, one at a time, to see that it finds
 * them. Only its own build of src/flows/open has them.
 */
#ifndef DFI_FLOWS_OPEN_BUGS_H
#define DFI_FLOWS_OPEN_BUGS_H

#ifdef OPEN_TEST_BUGS
enum open_bug {
	OPEN_BUG_UNSETTLED = 1, /* the next table comes too early */
	OPEN_BUG_SAME_EPOCH,    /* epochs do not rise */
	OPEN_BUG_EARLY_RELEASE, /* a partition, before all marks */
	OPEN_BUG_LOST_REST,     /* of the ring of a lost source */
	OPEN_BUG_EARLY_SEND,    /* to an owner that has not taken */
	OPEN_BUG_OVERTAKE,      /* tuples that wait */
	OPEN_BUG_NO_MARK,       /* behind an adopted table */
	OPEN_BUG_NO_FILTER,     /* of input positions */
	OPEN_BUG_FORGETFUL,     /* of positions that the store gave */
	OPEN_BUG_ANY_MARK,      /* of marks sent before a take */
	OPEN_BUG_HELD,          /* a source that was given up */
	OPEN_BUG_JOIN_AT_0,     /* the watermark falls */
	OPEN_BUG_LOST_AT_ONCE,  /* a source under replay */
	OPEN_BUG_IDLE_MARK,     /* a late mark counts as it is */
	OPEN_BUG_NO_ALIGN,
	OPEN_BUG_NO_SUSPEND,  /* of alignment, while partitions move */
	OPEN_BUG_PATIENT,     /* with who does not take */
	OPEN_BUG_COUNT_SLEEP, /* of who waits */
	OPEN_BUG_ANY_NEWEST,  /* whatever the store has */
	OPEN_BUG_DEAF_EPOCH,  /* to what stores know */
	OPEN_BUG_GREATEST,    /* mark is the watermark */
	OPEN_BUG_ANEW,        /* partitions are shared out, whoever has them */
	OPEN_BUG_KEEPS,       /* who leaves, its share */
	OPEN_BUG_ORPHANS,     /* are no reason for a table */
	/* Views of ordered flows: */
	OPEN_BUG_NO_FLUSH,       /* a report before all have flushed */
	OPEN_BUG_ON_ITS_WAY,     /* before all that was flushed has come */
	OPEN_BUG_REST_LOST,      /* of what waits for its turn */
	OPEN_BUG_DELIVERS_ON,    /* behind the report */
	OPEN_BUG_FIRST_REPORT,   /* decides for all */
	OPEN_BUG_LEAST,          /* what all have, though one delivered more */
	OPEN_BUG_NO_EVICTION,    /* of who lacks what others have delivered */
	OPEN_BUG_LATE_SEGMENT,   /* that the decision leaves out is delivered */
	OPEN_BUG_NO_GAPS,        /* holes are waited for */
	OPEN_BUG_BEGIN_AT_COUNT, /* though sources know of it later */
	OPEN_BUG_BEHIND,         /* numbers of the simulation's own */
};

extern unsigned dfi__open_bug; /* 0: none; the simulation has it */

#define OPEN_BUG(name) (dfi__open_bug == OPEN_BUG_##name)
#else
#define OPEN_BUG(name) false
#endif

#endif
