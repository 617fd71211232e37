/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rivals, and what they share. */
#include "rival.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define AWAIT_NS (UINT64_C(10) * 1000 * 1000 * 1000)
#define LOOK_NS (1000 * 1000)

static const char *memcpy_version(void)
{
	return "one thread copies segments, nothing is filled or read";
}

static const char *raw_version(void)
{
	return "the hand-written ring; bare cache lines";
}

/* Their jobs are JOB_COPY, JOB_RAW and JOB_ECHO_RAW. */
static const struct rival rival_memcpy = { .version = memcpy_version };
static const struct rival rival_raw = { .version = raw_version };

static const struct rival *const rivals[N_RIVALS] = {
#ifdef DFI_BENCH_FABRIC
	[RIVAL_FABRIC] = &rival_fabric,
	[RIVAL_FABRIC_SHM] = &rival_fabric_shm,
#endif
#ifdef DFI_BENCH_ZEROMQ
	[RIVAL_ZEROMQ] = &rival_zeromq,
#endif
	[RIVAL_SEND] = &rival_send,
	[RIVAL_IPERF3] = &rival_iperf3,
	[RIVAL_PINGPONG] = &rival_pingpong,
	[RIVAL_MEMCPY] = &rival_memcpy,
	[RIVAL_RAW] = &rival_raw,
	[RIVAL_OPENMPI_SEND] = &rival_openmpi,
	[RIVAL_OPENMPI_PUT] = &rival_openmpi,
	[RIVAL_MPICH_SEND] = &rival_mpich,
	[RIVAL_MPICH_PUT] = &rival_mpich,
	[RIVAL_OPENMPI_ALLTOALL] = &rival_openmpi,
	[RIVAL_OPENMPI_ALLTOALLV] = &rival_openmpi,
	[RIVAL_MPICH_ALLTOALL] = &rival_mpich,
	[RIVAL_MPICH_ALLTOALLV] = &rival_mpich,
	[RIVAL_OPENMPI_BCAST] = &rival_openmpi,
	[RIVAL_OPENMPI_REDUCE] = &rival_openmpi,
	[RIVAL_OPENMPI_THREADS] = &rival_openmpi,
	[RIVAL_OPENMPI_PROCESSES] = &rival_openmpi,
	[RIVAL_MPICH_BCAST] = &rival_mpich,
	[RIVAL_MPICH_REDUCE] = &rival_mpich,
	[RIVAL_MPICH_THREADS] = &rival_mpich,
	[RIVAL_MPICH_PROCESSES] = &rival_mpich,
	[RIVAL_PIPE] = &rival_pipe,
	[RIVAL_UNIX] = &rival_unix,
#ifdef DFI_BENCH_ZEROMQ
	[RIVAL_ZEROMQ_IPC] = &rival_zeromq_ipc,
#endif
#ifdef DFI_BENCH_UCX
	[RIVAL_UCX_TAG] = &rival_ucx,
	[RIVAL_UCX_PUT] = &rival_ucx,
	[RIVAL_UCX_AM] = &rival_ucx,
#endif
#ifdef DFI_BENCH_NNG
	[RIVAL_NNG] = &rival_nng,
#endif
};

const struct rival *rival_of(enum rival_kind kind)
{
	return rivals[kind];
}

/* ---- The job ----------------------------------------------------------- */

static int prepare(struct worker *worker)
{
	return rivals[worker->plan->rival]->job.prepare(worker);
}

static int run(struct worker *worker)
{
	return rivals[worker->plan->rival]->job.run(worker);
}

static void finish(struct worker *worker)
{
	rivals[worker->plan->rival]->job.finish(worker);
}

/* Tables, and the rings of both ends. */
static uint64_t needs(const struct plan *plan)
{
	return plan_tables_size(plan) +
	    2 * (uint64_t)plan->geometry.segment_size *
	    plan->geometry.segment_count;
}

const struct job rival_job = {
	.needs = needs,
	.prepare = prepare,
	.run = run,
	.finish = finish,
};

/* ---- Meeting ----------------------------------------------------------- */

/* In the data area, one for each role. */
struct meeting {
	_Atomic uint32_t published, ended;
	struct rival_address address;
};

static struct meeting *meeting_of(struct worker *worker, uint32_t role)
{
	return (struct meeting *)(void *)board_data(worker->board) + role;
}

void rival_publish(struct worker *worker, const struct rival_address *address)
{
	struct meeting *meeting = meeting_of(worker, worker->seat->role);

	meeting->address = *address;
	atomic_store(&meeting->published, 1);
}

static uint32_t other_role(const struct worker *worker)
{
	return worker->seat->role == ROLE_SOURCE ? ROLE_TARGET : ROLE_SOURCE;
}

int rival_await(struct worker *worker, struct rival_address *address)
{
	struct meeting *meeting = meeting_of(worker, other_role(worker));
	uint64_t until = now_ns() + AWAIT_NS;
	struct timespec look = { .tv_nsec = LOOK_NS };

	while (!atomic_load(&meeting->published)) {
		if (atomic_load(&worker->board->failed) || now_ns() > until) {
			errno = ETIMEDOUT;
			return worker_fail_errno(worker, "the other end");
		}
		nanosleep(&look, NULL);
	}
	*address = meeting->address;
	return 0;
}

void rival_await_end(struct worker *worker)
{
	struct meeting *other = meeting_of(worker, other_role(worker));
	struct timespec look = { .tv_nsec = LOOK_NS };

	atomic_store(&meeting_of(worker, worker->seat->role)->ended, 1);
	while (
	    !atomic_load(&other->ended) && !atomic_load(&worker->board->failed))
		nanosleep(&look, NULL);
}

uint64_t rival_number(const struct worker *worker)
{
	const struct board *board = worker->board;

	return (uint64_t)(uint32_t)board->parent << 32 |
	    atomic_load(&board->command);
}

static struct sockaddr_in loopback(uint32_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

int rival_listen(uint32_t *port)
{
	struct sockaddr_in address = loopback(0);
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&address, size) == 0 &&
	    listen(fd, 1) == 0 &&
	    getsockname(fd, (struct sockaddr *)&address, &size) == 0) {
		*port = ntohs(address.sin_port);
		return fd;
	}
	close(fd);
	return -1;
}

int rival_connect(uint32_t port)
{
	struct sockaddr_in address = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}
