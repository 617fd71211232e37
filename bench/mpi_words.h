/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How rival_mpi.c and the processes of mpi_rank.c meet, in the board's data
 * area. The processes map the board, and store their results in its seats.
 */
#ifndef DFI_BENCH_MPI_WORDS_H
#define DFI_BENCH_MPI_WORDS_H

#include "board.h"

struct mpi_words {
	_Atomic uint32_t ready; /* processes */
	_Atomic uint32_t go;
	_Atomic uint32_t done;   /* processes */
	_Atomic uint32_t failed; /* a seat may have an error */
};

static inline struct mpi_words *mpi_words(struct board *board)
{
	return (struct mpi_words *)(void *)board_data(board);
}

#endif
