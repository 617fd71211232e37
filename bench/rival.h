/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rivals: other ways to bring the same tuples from a source to a target. Each
 * has a file, with the three steps of a job. Those whose library was not found
 * when dfi-bench was configured are left out; programs are looked for when they
 * are needed. Over TCP there are
 *
 *	rival_fabric.c    a bare loop of libfabric's remote writes
 *	rival_send.c      one send(2) for each tuple
 *	rival_zeromq.c    ZeroMQ, a message for each segment
 *	rival_iperf3.c    the program iperf3
 *	rival_pingpong.c  the program fi_pingpong
 *	rival_program.c   how programs are run
 *
 * and in the memory of one host, by the interface of rival_messages.h,
 *
 *	rival_pipe.c        two pipes
 *	rival_unix.c        a pair of Unix sockets
 *	rival_bytes.c       what both have in common
 *	rival_zeromq_ipc.c  ZeroMQ, a pair over its ipc
 *	rival_nng.c         nng, a pair over its ipc
 *	rival_ucx.c         UCX, messages by tag, active ones, or puts
 *	rival_fabric_shm.c  libfabric's provider shm, messages
 *	rival_mpi.c         starts Open MPI or MPICH, each with two processes of
 *	                    mpi_rank.c, which do the work by messages or by puts
 */
#ifndef DFI_BENCH_RIVAL_H
#define DFI_BENCH_RIVAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "worker.h"

struct rival {
	/* What it is, with its version; NULL: it is not installed. */
	const char *(*version)(void);
	struct job job;
};

/* Returns the rival of a kind; NULL: this build lacks it. */
const struct rival *rival_of(enum rival_kind kind);

extern const struct rival rival_fabric, rival_send, rival_zeromq;
extern const struct rival rival_iperf3, rival_pingpong;
extern const struct rival rival_openmpi, rival_mpich, rival_ucx;
extern const struct rival rival_fabric_shm;
extern const struct rival rival_pipe, rival_unix, rival_zeromq_ipc, rival_nng;

/* ---- Both ends meet through the board's data area ---------------------- */

#define RIVAL_NAME_SIZE 2048

/* One end, for the other one. */
struct rival_address {
	uint32_t port;
	uint64_t at, key; /* of a ring */
	uint32_t name_size;
	char name[RIVAL_NAME_SIZE]; /* what a library calls an address */
};

/* Publish this end. */
void rival_publish(struct worker *worker, const struct rival_address *address);

/* Wait for the other end. 0, or a negative errno value with an error. */
int rival_await(struct worker *worker, struct rival_address *address);

/*
 * Wait until both ends have run, for a rival that forgets what it has sent when
 * it closes. Call it first of all in finish.
 */
void rival_await_end(struct worker *worker);

/*
 * The same number, which no other program has, at both ends of a round: for
 * names of sockets and files.
 */
uint64_t rival_number(const struct worker *worker);

/* A socket that listens at a free port of 127.0.0.1, or -1 with errno. */
int rival_listen(uint32_t *port);
int rival_connect(uint32_t port);

/* ---- Work on tuples ---------------------------------------------------- */

/* How many tuples a segment has. */
static inline uint64_t rival_batch(const struct plan *plan)
{
	uint64_t n = plan->geometry.segment_size / plan->tuple_size;

	return n ? n : 1;
}

/* The same fills and sums as at a flow's ends. */
void rival_fill(
    char *to, uint64_t n, size_t tuple_size, struct pattern *pattern);
void rival_sum(
    const char *from, uint64_t n, size_t tuple_size, struct word_sum *sum);

/* The results of this end: all tuples, and the sum of what came or was sent. */
void rival_done(struct worker *worker, uint64_t tuples, uint64_t sum);

/* ---- Programs ---------------------------------------------------------- */

struct rival_program {
	pid_t pid; /* 0: none runs */
	int out;   /* what it prints on stdout */
};

/* The program ends with this process. 0, or -1 with errno. */
int rival_start(struct rival_program *program, const char *const *argv);

/*
 * Read what it prints until its end, or until a line has the text `until`,
 * which may be NULL, or the buffer is full. Returns whether it had that text,
 * or, without one, has ended with status 0.
 */
bool rival_read(
    struct rival_program *program, const char *until, char *text, size_t size);

void rival_stop(struct rival_program *program);

/* The first line that a program prints; NULL: it can't be run. */
const char *rival_first_line(const char *const *argv, char *line, size_t size);

#endif
