/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that an mpirun starts for rival_mpi.c, and the ways in which it
 * moves tuples. Errors of MPI end the program, as is MPI's default.
 */
#ifndef DFI_BENCH_MPI_RANK_H
#define DFI_BENCH_MPI_RANK_H

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "worker.h"

struct mpi_rank {
	struct board *board;
	const struct plan *plan;
	int number, count;            /* this rank, and all of them */
	struct worker source, target; /* of this number; seat NULL: none */
	void *state;                  /* the way's */
};

/*
 * open comes before the start, with all that is not measured. open and run
 * return 0, or a negative errno value with an error at a seat.
 */
struct mpi_way {
	const char *name;
	bool threads; /* several threads call MPI */
	int (*open)(struct mpi_rank *rank);
	int (*run)(struct mpi_rank *rank);
	void (*close)(struct mpi_rank *rank);
};

/* mpi_messages.c, mpi_exchange.c, mpi_gather.c */
extern const struct mpi_way mpi_send, mpi_put, mpi_threads, mpi_processes;
extern const struct mpi_way mpi_alltoall, mpi_alltoallv;
extern const struct mpi_way mpi_bcast, mpi_reduce;

#endif
