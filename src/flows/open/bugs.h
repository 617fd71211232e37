/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that tests/open/simulate plants, one at a time, to see that it finds
 * them. Only its own build of src/flows/open has them.
 */
#ifndef DFI_FLOWS_OPEN_BUGS_H
#define DFI_FLOWS_OPEN_BUGS_H

#ifdef OPEN_TEST_BUGS
enum open_bug {
	OPEN_BUG_UNSETTLED = 1 << 0,     /* the next table comes too early */
	OPEN_BUG_SAME_EPOCH = 1 << 1,    /* epochs do not rise */
	OPEN_BUG_EARLY_RELEASE = 1 << 2, /* a partition, before all marks */
	OPEN_BUG_LOST_REST = 1 << 3,     /* of the ring of a lost source */
	OPEN_BUG_EARLY_SEND = 1 << 4,    /* to an owner that has not taken */
	OPEN_BUG_OVERTAKE = 1 << 5,      /* tuples that wait */
	OPEN_BUG_NO_MARK = 1 << 6,       /* behind an adopted table */
	OPEN_BUG_NO_FILTER = 1 << 7,     /* of input positions */
	OPEN_BUG_FORGETFUL = 1 << 8,     /* of positions that the store gave */
	OPEN_BUG_ANY_MARK = 1 << 9,      /* of marks sent before a take */
	OPEN_BUG_HELD = 1 << 10,         /* a source that was given up */
	OPEN_BUG_JOIN_AT_0 = 1 << 11,    /* the watermark falls */
	OPEN_BUG_LOST_AT_ONCE = 1 << 12, /* a source under replay */
	OPEN_BUG_IDLE_MARK = 1 << 13,    /* a late mark counts as it is */
	OPEN_BUG_NO_ALIGN = 1 << 14,
	OPEN_BUG_NO_SUSPEND = 1 << 15, /* of alignment, while partitions move */
	OPEN_BUG_PATIENT = 1 << 16,    /* with who does not take */
	OPEN_BUG_COUNT_SLEEP = 1 << 17, /* of who waits */
	OPEN_BUG_ANY_NEWEST = 1 << 18,  /* whatever the store has */
	OPEN_BUG_DEAF_EPOCH = 1 << 19,  /* to what stores know */
};

extern unsigned dfi__open_bugs; /* of enum open_bug; the simulation has it */

#define OPEN_BUG(name) ((dfi__open_bugs & OPEN_BUG_##name) != 0)
#else
#define OPEN_BUG(name) false
#endif

#endif
