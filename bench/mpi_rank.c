/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-bench-openmpi BOARD WAY, and dfi-bench-mpich: one of the processes that
 * rival_mpi.c starts by mpirun.
 */
#include "mpi_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mpi_words.h"

static const struct mpi_way *const ways[] = {
	&mpi_send,
	&mpi_put,
	&mpi_alltoall,
	&mpi_alltoallv,
	&mpi_bcast,
	&mpi_reduce,
	&mpi_threads,
	&mpi_processes,
};

int worker_fail_errno(struct worker *worker, const char *what)
{
	snprintf(worker->seat->error, sizeof(worker->seat->error), "%s: %s",
	    what, strerror(errno));
	return -errno;
}

static const struct mpi_way *way_of(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i]->name, name) == 0)
			return ways[i];
	return NULL;
}

/* The time is that of rank 0, until all ranks have done their work. */
static void run(struct mpi_rank *rank, const struct mpi_way *way)
{
	struct mpi_words *words = mpi_words(rank->board);
	uint64_t begin;

	board_add(&words->ready);
	board_wait(&words->go, 1, NO_DEADLINE);
	MPI_Barrier(MPI_COMM_WORLD);
	begin = now_ns();
	if (way->run(rank)) {
		atomic_store(&words->failed, 1);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank->number == 0)
		rank->board->seconds = (double)(now_ns() - begin) * 1e-9;
	board_add(&words->done);
}

static void keep_to_cpu(const struct seat *seat)
{
	cpu_set_t cpus;

	if (seat->cpu < 0)
		return;
	CPU_ZERO(&cpus);
	CPU_SET((unsigned)seat->cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static struct worker worker_of(
    struct board *board, uint32_t number, uint32_t n, uint32_t first)
{
	struct worker worker = { .board = board, .plan = &board->plan };

	if (number < n)
		worker.seat = &board->seats[first + number];
	return worker;
}

/*
 * With one source rank 0 is the source and each other rank a target; of pairs,
 * the first half are sources and the other half targets. Else a rank has both
 * ends of its number, if there are such ends.
 */
static void take_seats(struct mpi_rank *rank)
{
	struct board *board = rank->board;
	const struct plan *plan = rank->plan;
	uint32_t number = (uint32_t)rank->number;
	uint32_t first = plan->n_sources == 1 ? 1
	    : plan->paired                    ? (uint32_t)rank->count / 2
					      : 0;

	rank->source = worker_of(board, number, plan->n_sources, 0);
	if (first && number >= first)
		rank->source.seat = NULL;
	rank->target = worker_of(
	    board, number - first, plan->n_targets, board->n_sources);
	keep_to_cpu(rank->source.seat ? rank->source.seat : rank->target.seat);
}

/* "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\n..." */
static int print_version(void)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int size, major, minor;
	char *number;

	MPI_Get_library_version(text, &size);
	number = strpbrk(text, "0123456789");
	if (!number || sscanf(number, "%d.%d", &major, &minor) != 2)
		return 1;
	number[strcspn(number, ", \n")] = '\0';
	printf("%s %s\n", text[0] == 'O' ? "Open MPI" : "MPICH", number);
	return 0;
}

int main(int argc, char **argv)
{
	struct mpi_rank rank = { .board = NULL };
	const struct mpi_way *way;
	int fd, provided;

	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return print_version();
	way = argc == 3 ? way_of(argv[2]) : NULL;
	if (!way)
		return 64;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	rank.board = fd < 0 ? NULL : board_attach(fd);
	if (!rank.board)
		return 1;
	rank.plan = &rank.board->plan;
	MPI_Init_thread(&argc, &argv,
	    way->threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	if (way->threads && provided < MPI_THREAD_MULTIPLE) {
		fprintf(stderr, "MPI lacks MPI_THREAD_MULTIPLE\n");
		return 1;
	}
	MPI_Comm_rank(MPI_COMM_WORLD, &rank.number);
	MPI_Comm_size(MPI_COMM_WORLD, &rank.count);
	take_seats(&rank);
	if (way->open(&rank)) {
		atomic_store(&mpi_words(rank.board)->failed, 1);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	run(&rank, way);
	way->close(&rank);
	MPI_Finalize();
	return 0;
}
