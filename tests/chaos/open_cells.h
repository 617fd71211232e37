/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells of chaos in open flows: a way by which tuples go, and what a loss
 * means. The seed of a run says its cell, and totals are of each.
 */
#ifndef DFI_TESTS_CHAOS_OPEN_CELLS_H
#define DFI_TESTS_CHAOS_OPEN_CELLS_H

#include <stdbool.h>
#include <stdint.h>

#include <dfi/dfi.h>

#define OPEN_MAX_CELLS 64
#define OPEN_CELL_NAME 40

struct open_cell {
	char name[OPEN_CELL_NAME];
	uint32_t number, kind, routing, method, on_loss;
	bool ordered;
};

/* What a violation means for a user. */
enum open_harm {
	OPEN_HANG,    /* nothing moves */
	OPEN_HARMED,  /* anything else that the rules don't allow */
	OPEN_LOST,    /* a tuple, and its target is there */
	OPEN_DOUBLED, /* a tuple came, or took effect, twice */
	OPEN_HARMS,
};

/* Violations. */
struct open_verdict {
	unsigned n[OPEN_HARMS];
};

unsigned open_violations(const struct open_verdict *verdict);

/*
 * The cell of a seed, of those that DFI_TRANSPORT has and whose name contains
 * only. Consecutive seeds take turns. Ends the process if there is none.
 */
struct open_cell open_choose_cell(uint64_t seed, const char *only);

/* Of how many of them. */
uint32_t open_n_cells(const char *only);

/* What came of the sources (0) and targets (1) of a cell's runs. */
struct open_total {
	char name[OPEN_CELL_NAME];
	unsigned runs, latency;
	unsigned joined[2], left[2], aborted[2], killed[2], stopped[2];
	unsigned evicted[2], failed[2];
	unsigned blinks, cuts, offs; /* of machines */
	uint64_t pushed;
	struct open_verdict verdict;
};

/* The total of the cell of that name. */
struct open_total *open_total_of(const char *name);

/* One line for each cell, and one for all. */
void open_print_totals(void);

#endif
