/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI between two ends, rank 0 the source and rank 1 the target.
 *
 * send: MPI_Send and MPI_Recv of each message.
 *
 * threads: the same between threads of both ranks, each pair with a
 * communicator. processes: the same, with a process for each end.
 *
 * put: each process has a window with a ring of messages and two counters,
 * which the other one writes. A message is put, flushed, and then counted. In a
 * round trip it is put alone, and its last word, which changes, tells that it
 * has come, as shared memory is written in order.
 */
#include <pthread.h>
#include <sched.h>

#include "mpi_rank.h"
#include "rival_messages.h"

#define BATCH_SIZE ((size_t)32 << 10)
#define RING_SIZE ((size_t)1 << 20)
#define TAG 1

/* The counters in a window: of messages put here, and of those taken there. */
#define WRITTEN_AT 0
#define TAKEN_AT 64
#define RING_AT 128

/* Polls between two calls that give the library the processor. */
#define POLLS 64

struct state {
	bool puts;
	int other; /* rank */
	MPI_Comm comm;
	char *buffer;
	size_t message_size; /* the largest */
	MPI_Win window;
	char *memory;             /* of the window */
	uint64_t slots;           /* of the ring */
	uint64_t put, got, taken; /* messages; taken: as the other one knows */
	uint64_t left;            /* tuples to receive */
	uint64_t last;            /* the word that the last message had */
};

static char *rank_claim(struct worker *worker, size_t size)
{
	struct state *state = worker->state;

	(void)size;
	return state->buffer;
}

static int send_commit(struct worker *worker, size_t size)
{
	struct state *state = worker->state;

	/* Errors end the program, as is the default. */
	MPI_Send(
	    state->buffer, (int)size, MPI_BYTE, state->other, TAG, state->comm);
	return 0;
}

static ssize_t send_consume(struct worker *worker, const char **at)
{
	struct state *state = worker->state;
	MPI_Status status;
	int n;

	MPI_Recv(state->buffer, (int)state->message_size, MPI_BYTE,
	    state->other, TAG, state->comm, &status);
	MPI_Get_count(&status, MPI_BYTE, &n);
	*at = state->buffer;
	return n;
}

static const struct rival_calls send_calls = {
	.claim = rank_claim,
	.commit = send_commit,
	.consume = send_consume,
	.batch_size = BATCH_SIZE,
};

/* ---- Puts -------------------------------------------------------------- */

static uint64_t word_at(const struct state *state, size_t offset)
{
	const _Atomic uint64_t *word =
	    (const _Atomic uint64_t *)(const void *)(state->memory + offset);

	return atomic_load_explicit(word, memory_order_acquire);
}

/* Wait until a word of the window is no longer `old`. */
static uint64_t await_change(
    const struct worker *worker, size_t offset, uint64_t old)
{
	const struct state *state = worker->state;
	uint32_t polls, yields = 0;
	uint64_t now;
	int any;

	for (polls = 1;; polls++) {
		now = word_at(state, offset);
		if (now != old)
			return now;
		if (polls % POLLS)
			continue;
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &any,
		    MPI_STATUS_IGNORE);
		MPI_Win_sync(state->window);
		if (worker->plan->yields && ++yields > RAW_SPINS / POLLS)
			sched_yield();
	}
}

static void put_bytes(
    const struct state *state, const void *from, size_t size, size_t offset)
{
	MPI_Put(from, (int)size, MPI_BYTE, state->other, (MPI_Aint)offset,
	    (int)size, MPI_BYTE, state->window);
	MPI_Win_flush(state->other, state->window);
}

static size_t slot_of(const struct state *state, uint64_t number)
{
	return RING_AT + number % state->slots * state->message_size;
}

static int put_commit(struct worker *worker, size_t size)
{
	struct state *state = worker->state;
	uint64_t taken = word_at(state, TAKEN_AT);

	while (state->put - taken == state->slots)
		taken = await_change(worker, TAKEN_AT, taken);
	put_bytes(state, state->buffer, size, slot_of(state, state->put));
	state->put++;
	put_bytes(state, &state->put, sizeof(state->put), WRITTEN_AT);
	return 0;
}

static ssize_t put_consume(struct worker *worker, const char **at)
{
	struct state *state = worker->state;
	size_t tuple_size = worker->plan->tuple_size;
	uint64_t n = state->message_size / tuple_size;

	/* The messages before this one have been read. */
	if (state->got - state->taken >= (state->slots + 3) / 4) {
		state->taken = state->got;
		put_bytes(state, &state->taken, sizeof(state->taken), TAKEN_AT);
	}
	if (word_at(state, WRITTEN_AT) == state->got)
		(void)await_change(worker, WRITTEN_AT, state->got);
	n = n < state->left ? n : state->left;
	state->left -= n;
	*at = state->memory + slot_of(state, state->got++);
	return (ssize_t)(n * tuple_size);
}

static const struct rival_calls put_calls = {
	.claim = rank_claim,
	.commit = put_commit,
	.consume = put_consume,
	.batch_size = BATCH_SIZE,
};

static int trip_commit(struct worker *worker, size_t size)
{
	const struct state *state = worker->state;

	put_bytes(state, state->buffer, size, RING_AT);
	return 0;
}

static ssize_t trip_consume(struct worker *worker, const char **at)
{
	struct state *state = worker->state;
	size_t size = worker->plan->tuple_size;

	state->last = await_change(
	    worker, RING_AT + size / 8 * 8 - 8, state->last);
	*at = state->memory + RING_AT;
	return (ssize_t)size;
}

static const struct rival_calls trip_calls = {
	.claim = rank_claim,
	.commit = trip_commit,
	.consume = trip_consume,
};

/* ---- The ways ---------------------------------------------------------- */

static void open_window(const struct worker *worker, struct state *state)
{
	size_t size;

	state->slots = RING_SIZE / state->message_size;
	state->slots = state->slots ? state->slots : 1;
	state->left = worker->plan->tuples;
	size = RING_AT + state->slots * state->message_size;
	/* MPICH hangs where the memory of rank 1, behind that of 0, is
	 * unaligned. */
	size = (size + 63) / 64 * 64;
	MPI_Win_allocate((MPI_Aint)size, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
	    &state->memory, &state->window);
	/* No tuple of a round trip has this word. */
	memset(state->memory + RING_AT, 0xff, size - RING_AT);
	memset(state->memory, 0, RING_AT);
	state->last = UINT64_MAX;
	MPI_Win_lock_all(MPI_MODE_NOCHECK, state->window);
}

static size_t message_size(const struct plan *plan)
{
	if (plan->trips || plan->api == API_PUSH ||
	    plan->tuple_size > BATCH_SIZE)
		return plan->tuple_size;
	return BATCH_SIZE / plan->tuple_size * plan->tuple_size;
}

/* The first message makes connections, which is not measured. */
static void warm_up(struct state *state)
{
	MPI_Sendrecv_replace(state->buffer, (int)state->message_size, MPI_BYTE,
	    state->other, TAG, state->other, TAG, state->comm,
	    MPI_STATUS_IGNORE);
}

static int open_state(struct worker *worker, int other, bool puts)
{
	struct state *state = calloc(1, sizeof(*state));

	if (!state)
		return worker_fail_errno(worker, "a rank");
	worker->state = state;
	state->puts = puts;
	state->other = other;
	state->message_size = message_size(worker->plan);
	state->buffer = aligned_alloc(64, (state->message_size + 63) / 64 * 64);
	if (!state->buffer)
		return worker_fail_errno(worker, "a message");
	memset(state->buffer, 0, state->message_size);
	MPI_Comm_dup(MPI_COMM_WORLD, &state->comm);
	if (puts)
		open_window(worker, state);
	warm_up(state);
	return 0;
}

static int run_worker(struct worker *worker)
{
	const struct state *state = worker->state;

	if (!state->puts)
		return rival_messages(worker, &send_calls);
	return worker->plan->trips ? rival_messages(worker, &trip_calls)
				   : rival_messages(worker, &put_calls);
}

static void close_worker(struct worker *worker)
{
	struct state *state = worker->state;

	if (state->puts) {
		MPI_Win_unlock_all(state->window);
		MPI_Win_free(&state->window);
	}
	MPI_Comm_free(&state->comm);
	free(state->buffer);
	free(state);
}

static struct worker *worker_of(struct mpi_rank *rank)
{
	return rank->source.seat ? &rank->source : &rank->target;
}

static int open_send(struct mpi_rank *rank)
{
	return open_state(worker_of(rank), !rank->number, false);
}

static int open_put(struct mpi_rank *rank)
{
	return open_state(worker_of(rank), !rank->number, true);
}

static int open_processes(struct mpi_rank *rank)
{
	int half = rank->count / 2;

	return open_state(
	    worker_of(rank), (rank->number + half) % rank->count, false);
}

static int run(struct mpi_rank *rank)
{
	return run_worker(worker_of(rank));
}

static void close_rank(struct mpi_rank *rank)
{
	close_worker(worker_of(rank));
}

/* ---- Threads ----------------------------------------------------------- */

struct thread {
	pthread_t id;
	struct worker worker;
	int ret;
};

/* The rank has as many ends as its seat's role has; the first one is given. */
static int open_threads(struct mpi_rank *rank)
{
	uint32_t n = rank->plan->n_sources, i;
	struct thread *threads = calloc(n, sizeof(*threads));
	int ret = 0;

	if (!threads)
		return worker_fail_errno(worker_of(rank), "threads");
	rank->state = threads;
	for (i = 0; i < n && !ret; i++) {
		threads[i].worker = (struct worker){
			.board = rank->board,
			.plan = rank->plan,
			.seat = &rank->board->seats[i +
			    (rank->number ? rank->board->n_sources : 0)],
		};
		ret = open_state(&threads[i].worker, !rank->number, false);
	}
	return ret;
}

static void *run_thread(void *arg)
{
	struct thread *thread = arg;

	thread->ret = run_worker(&thread->worker);
	return NULL;
}

static int run_threads(struct mpi_rank *rank)
{
	uint32_t n = rank->plan->n_sources, i;
	struct thread *threads = rank->state;
	int ret;

	for (i = 1; i < n; i++) {
		errno = pthread_create(
		    &threads[i].id, NULL, run_thread, &threads[i]);
		if (errno)
			return worker_fail_errno(
			    &threads[i].worker, "a thread");
	}
	run_thread(&threads[0]);
	ret = threads[0].ret;
	for (i = 1; i < n; i++) {
		pthread_join(threads[i].id, NULL);
		ret = ret ? ret : threads[i].ret;
	}
	return ret;
}

static void close_threads(struct mpi_rank *rank)
{
	struct thread *threads = rank->state;
	uint32_t i;

	for (i = 0; i < rank->plan->n_sources; i++)
		close_worker(&threads[i].worker);
	free(threads);
}

const struct mpi_way mpi_send = {
	.name = "send",
	.open = open_send,
	.run = run,
	.close = close_rank,
};

const struct mpi_way mpi_put = {
	.name = "put",
	.open = open_put,
	.run = run,
	.close = close_rank,
};

const struct mpi_way mpi_processes = {
	.name = "processes",
	.open = open_processes,
	.run = run,
	.close = close_rank,
};

const struct mpi_way mpi_threads = {
	.name = "threads",
	.threads = true,
	.open = open_threads,
	.run = run_threads,
	.close = close_threads,
};
