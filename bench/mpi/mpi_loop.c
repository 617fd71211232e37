/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of examples/parameter_server.c with MPI, for mpi_experiment:
 * mpi_loop reduce|allreduce WEIGHTS ITERATIONS. With reduce, rank 0 receives
 * the sums and broadcasts the weights. With allreduce, all ranks receive the
 * sums and update their weights themselves.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP 0.5

static double *weights, *gradient, *sums, *data;
static long n;
static int rank, n_ranks;

static double datum(int of, long weight)
{
	return (double)(weight % 1000) + (double)(of * (of + 3));
}

static void step(void)
{
	const double rate = STEP / n_ranks;
	long i;

	for (i = 0; i < n; i++)
		weights[i] -= rate * sums[i];
}

static void iterate(int all)
{
	long i;

	for (i = 0; i < n; i++)
		gradient[i] = weights[i] - data[i];
	if (all) {
		MPI_Allreduce(gradient, sums, (int)n, MPI_DOUBLE, MPI_SUM,
		    MPI_COMM_WORLD);
		step();
		return;
	}
	MPI_Reduce(
	    gradient, sums, (int)n, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		step();
	MPI_Bcast(weights, (int)n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static int is_right(long n_iterations)
{
	double part = 1 - pow(1 - STEP, (double)n_iterations), mean;
	long i;
	int r;

	for (i = 0; i < n; i++) {
		for (mean = 0, r = 0; r < n_ranks; r++)
			mean += datum(r, i) / n_ranks;
		if (fabs(weights[i] - mean * part) > 1e-9 * (1 + mean))
			return 0;
	}
	return 1;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
	long n_iterations, i;
	double *times, start;
	int right, written;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	if (argc != 4 || (n = atol(argv[2])) < 1 ||
	    (n_iterations = atol(argv[3])) < 1)
		return 64;
	weights = calloc((size_t)n, sizeof(double));
	gradient = calloc((size_t)n, sizeof(double));
	sums = calloc((size_t)n, sizeof(double));
	data = calloc((size_t)n, sizeof(double));
	times = calloc((size_t)n_iterations, sizeof(double));
	if (!weights || !gradient || !sums || !data || !times)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (i = 0; i < n; i++)
		data[i] = datum(rank, i);
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = 0; i < n_iterations; i++) {
		start = MPI_Wtime();
		iterate(strcmp(argv[1], "allreduce") == 0);
		times[i] = MPI_Wtime() - start;
	}
	right = is_right(n_iterations);
	qsort(times, (size_t)n_iterations, sizeof(double), by_size);
	if (rank == 0)
		printf("%d ranks, %ld weights, %ld iterations: %.3f ms each "
		       "(median); %s\n",
		    n_ranks, n, n_iterations, times[n_iterations / 2] * 1e3,
		    right ? "the weights are right" : "WRONG");
	written = !fflush(stdout) && !ferror(stdout);
	if (!written)
		perror("mpi_loop: standard output");
	MPI_Finalize();
	return right && written ? 0 : 1;
}
