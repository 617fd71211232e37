/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The experiments that `dfi-bench run` knows: those of the DFI paper (E1 to
 * E16) at the size of one machine, and ours (B1, ...). Pure data.
 */
#ifndef DFI_BENCH_EXPERIMENTS_H
#define DFI_BENCH_EXPERIMENTS_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_STEPS 14
#define MAX_CLAIMS 10
#define MAX_FIGURES 7

/* One command, whose rows get the member "series". */
struct experiment_step {
	const char *series;
	const char *command; /* and options, with single blanks between them */
	uint32_t seconds;    /* it takes, about, with the default rounds */
	uint32_t cpus;       /* it needs; 0: any number */
	/*
	 * If not NULL, the program is radix_join, and takes turns with this
	 * command, whose name is `baseline`.
	 */
	const char *join_baseline, *baseline;
	/*
	 * If not NULL, that command is of the join by this MPI, openmpi or
	 * mpich, with two ranks.
	 */
	const char *mpi;
	/* The program is dfi-kv-run, a load on the replicated store. */
	bool store;
	const char *setting; /* NAME=VALUE of its environment, or NULL */
};

/*
 * A statement about rows: the median of a member over the rows that it selects,
 * divided by that over the rows of `against` (NULL: not divided), is in limits.
 * A selection is words KEY=VALUE, which all hold.
 */
struct claim {
	const char *text;
	const char *member;
	const char *rows, *against;
	double least, most; /* most 0: no upper limit */
	const char *why;    /* it may differ, as profiles show; or NULL */
};

struct figure {
	const char *x; /* the member on the horizontal axis; NULL: no figure */
	const char *x_title;
	const char *y;       /* the member on the vertical axis */
	const char *y_title; /* with its unit */
	const char *lines;   /* the members that name a line, with blanks */
	const char *rows;    /* a selection; NULL: all */
	bool log_y;
};

struct experiment {
	const char *id, *name, *title;
	const char *paper;   /* what the paper shows; NULL: it is ours */
	const char *here;    /* axes, and how this run differs */
	const char *skipped; /* why nobody can run it; NULL: it can run */
	struct experiment_step steps[MAX_STEPS];
	struct claim claims[MAX_CLAIMS];
	struct figure figure, more_figures[MAX_FIGURES - 1];
};

/* The first figure, or one of the others, whose x may be NULL. */
static inline const struct figure *experiment_figure(
    const struct experiment *experiment, uint32_t number)
{
	return number ? &experiment->more_figures[number - 1]
		      : &experiment->figure;
}

/* All experiments, in the order in which they are shown. */
uint32_t experiments_count(void);
const struct experiment *experiment_at(uint32_t number);

/* The experiment with this id or name, in any case; NULL: there is none. */
const struct experiment *experiment_find(const char *text);

#endif
