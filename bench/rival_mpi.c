/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open MPI and MPICH. One program cannot have both, and their processes are
 * started by their own mpirun, so each has a program dfi-bench-openmpi or
 * dfi-bench-mpich beside dfi-bench, made of mpi_rank.c. The first source's
 * thread starts it for each round, and sleeps while it works.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/children.h"
#include "mpi_words.h"
#include "rival.h"

#define LOOK_NS (UINT64_C(100) * 1000 * 1000)

enum library {
	OPENMPI,
	MPICH,
};

static const char *const ways[N_RIVALS] = {
	[RIVAL_OPENMPI_SEND] = "send",
	[RIVAL_OPENMPI_PUT] = "put",
	[RIVAL_OPENMPI_ALLTOALL] = "alltoall",
	[RIVAL_OPENMPI_ALLTOALLV] = "alltoallv",
	[RIVAL_MPICH_SEND] = "send",
	[RIVAL_MPICH_PUT] = "put",
	[RIVAL_MPICH_ALLTOALL] = "alltoall",
	[RIVAL_MPICH_ALLTOALLV] = "alltoallv",
	[RIVAL_OPENMPI_BCAST] = "bcast",
	[RIVAL_OPENMPI_REDUCE] = "reduce",
	[RIVAL_OPENMPI_THREADS] = "threads",
	[RIVAL_OPENMPI_PROCESSES] = "processes",
	[RIVAL_MPICH_BCAST] = "bcast",
	[RIVAL_MPICH_REDUCE] = "reduce",
	[RIVAL_MPICH_THREADS] = "threads",
	[RIVAL_MPICH_PROCESSES] = "processes",
};

struct state {
	struct rival_program program;
	uint32_t n_ranks;
};

/*
 * Pairs have a process for each end, or two with a thread for each. Else there
 * is a rank for each source and, if there is only one, for each target.
 */
static uint32_t ranks_of(const struct plan *plan)
{
	if (plan->paired)
		return plan->rival == RIVAL_OPENMPI_THREADS ||
			plan->rival == RIVAL_MPICH_THREADS
		    ? 2
		    : 2 * plan->n_sources;
	return plan->n_sources > 1 ? plan->n_sources : 1 + plan->n_targets;
}

/* The program of a library. false: it is not beside this one. */
static bool find_program(enum library library, char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return false;
	self[n] = '\0';
	n = snprintf(path, size, "%s/dfi-bench-%s", dirname(self),
	    library == OPENMPI ? "openmpi" : "mpich");
	return n > 0 && (size_t)n < size && access(path, X_OK) == 0;
}

static int fail(struct worker *worker, const char *what)
{
	if (!*worker->seat->error)
		snprintf(worker->seat->error, sizeof(worker->seat->error),
		    "the program of MPI %s", what);
	return -EIO;
}

/*
 * Wait until all processes have raised a word, and none has failed. The
 * timeout of the round ends this process, and with it the program.
 */
static int await_processes(
    struct worker *worker, _Atomic uint32_t *word, const char *what)
{
	const struct state *state = worker->state;
	struct mpi_words *words = mpi_words(worker->board);
	siginfo_t info;

	while (!board_wait(word, state->n_ranks, now_ns() + LOOK_NS)) {
		info.si_pid = 0;
		if (atomic_load(&words->failed) ||
		    waitid(P_PID, (id_t)state->program.pid, &info,
			WEXITED | WNOHANG | WNOWAIT) < 0 ||
		    info.si_pid)
			return fail(worker, what);
	}
	return 0;
}

static int start(struct worker *worker, enum library library)
{
	struct state *state = calloc(1, sizeof(*state));
	const char *way = ways[worker->plan->rival];
	char program[PATH_MAX], board[64], n[16];
	const char *openmpi[] = { "mpirun.openmpi", "--oversubscribe",
		"--bind-to", "none", "-n", n, program, board, way, NULL };
	const char *mpich[] = { "mpirun.mpich", "-bind-to", "none", "-n", n,
		program, board, way, NULL };

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	state->n_ranks = ranks_of(worker->plan);
	snprintf(n, sizeof(n), "%u", state->n_ranks);
	worker->seat->error[0] = '\0';
	snprintf(board, sizeof(board), "/proc/%d/fd/%d", getpid(), CHILD_FD);
	if (!find_program(library, program, sizeof(program)) ||
	    rival_start(&state->program, library == OPENMPI ? openmpi : mpich) <
		0)
		return worker_fail_errno(worker, "mpirun");
	return await_processes(
	    worker, &mpi_words(worker->board)->ready, "does not start");
}

static bool is_first_source(const struct worker *worker)
{
	return worker->seat->role == ROLE_SOURCE && worker->seat->number == 0;
}

static int mpi_prepare(struct worker *worker, enum library library)
{
	return is_first_source(worker) ? start(worker, library) : 0;
}

static int prepare_openmpi(struct worker *worker)
{
	/* It refuses root otherwise; these tell it that this is meant. */
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", true);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", true);
	return mpi_prepare(worker, OPENMPI);
}

static int prepare_mpich(struct worker *worker)
{
	return mpi_prepare(worker, MPICH);
}

static int mpi_run(struct worker *worker)
{
	struct mpi_words *words = mpi_words(worker->board);

	if (!is_first_source(worker))
		return 0;
	board_set(&words->go, 1);
	return await_processes(worker, &words->done, "fails");
}

static void mpi_finish(struct worker *worker)
{
	struct state *state = worker->state;
	char rest[256];

	if (!state)
		return;
	if (atomic_load(&mpi_words(worker->board)->done) == state->n_ranks)
		while (state->program.pid &&
		    rival_read(&state->program, "\n", rest, sizeof(rest)))
			continue;
	rival_stop(&state->program);
	free(state);
}

static const char *version_of(enum library library, char *line, size_t size)
{
	const char *mpirun = library == OPENMPI ? "command -v mpirun.openmpi"
						: "command -v mpirun.mpich";
	const char *const there[] = { "sh", "-c", mpirun, NULL };
	char program[PATH_MAX];
	const char *const argv[] = { program, "--version", NULL };

	return find_program(library, program, sizeof(program)) &&
		rival_first_line(there, line, size)
	    ? rival_first_line(argv, line, size)
	    : NULL;
}

static const char *version_openmpi(void)
{
	static char line[48];

	return *line ? line : version_of(OPENMPI, line, sizeof(line));
}

static const char *version_mpich(void)
{
	static char line[48];

	return *line ? line : version_of(MPICH, line, sizeof(line));
}

const struct rival rival_openmpi = {
	.version = version_openmpi,
	.job = {
		.prepare = prepare_openmpi,
		.run = mpi_run,
		.finish = mpi_finish,
	},
};

const struct rival rival_mpich = {
	.version = version_mpich,
	.job = {
		.prepare = prepare_mpich,
		.run = mpi_run,
		.finish = mpi_finish,
	},
};
