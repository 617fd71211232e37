/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shuffle by MPI's collective calls: each rank scans its table, copies each
 * tuple to the block of the rank that the hash of its key names, and reads what
 * all ranks send to it.
 *
 * alltoallv: a batch of tuples is partitioned, then MPI_Alltoall brings the
 * counts and MPI_Alltoallv the tuples.
 *
 * alltoall: MPI_Alltoall on small batches, whenever a block has eight tuples.
 * In front of a block is how many it has, and whether its rank has more. So no
 * second call is needed for counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <dfi/route.h>

#include "mpi_rank.h"
#include "rival.h"
#include "slow.h"

#define MAX_RANKS 64

/* Tuples of a rank that alltoallv partitions at a time. */
#define BATCH_SIZE ((size_t)4096 << 10)

/* Tuples of a block of alltoall, and what is in front of them. */
#define SMALL_BATCH 8
#define HEAD_SIZE 8
#define LAST (UINT64_C(1) << 63)

struct exchange {
	uint32_t n; /* ranks */
	size_t tuple_size;
	char *table;
	uint64_t n_table, at; /* its tuples, and the next of them */
	uint64_t left;        /* tuples to send */
	char *out, *in;
	size_t block_size, head_size;
	uint64_t room; /* tuples that a block may have */
	uint64_t used[MAX_RANKS];
	uint64_t limit;   /* tuples to scan at a time */
	struct slow slow; /* not in small batches */
	struct word_sum sum;
	uint64_t received;
};

/* Scan up to the limit, or until a block is full. */
static force_inline int partition_sized(struct exchange *to, size_t size)
{
	const uint64_t room = to->room, n_table = to->n_table;
	uint64_t at = to->at, i, used[MAX_RANKS] = { 0 };
	uint64_t most = to->left < to->limit ? to->left : to->limit;
	const size_t block_size = to->block_size;
	const char *table = to->table, *tuple;
	char *out = to->out + to->head_size;
	const uint32_t n = to->n;
	uint32_t rank;

	for (i = 0; i < most;) {
		tuple = table + at * size;
		rank = dfi_hash64_partition(tuple_key(tuple, size), n);
		memcpy(
		    out + rank * block_size + used[rank] * size, tuple, size);
		at = at + 1 == n_table ? 0 : at + 1;
		i++;
		if (++used[rank] == room)
			break;
	}
	to->at = at;
	to->left -= i;
	memcpy(to->used, used, n * sizeof(used[0]));
	return 0;
}

static int partition(struct exchange *to)
{
	RETURN_BY_SIZE(partition_sized, to, to->tuple_size);
}

static void take(struct exchange *from, const char *tuples, uint64_t n)
{
	rival_sum(tuples, n, from->tuple_size, &from->sum);
	from->received += n;
}

static void run_small_batches(struct exchange *exchange)
{
	uint64_t head, unfinished;
	uint32_t i;

	do {
		(void)partition(exchange);
		for (i = 0; i < exchange->n; i++) {
			head = exchange->used[i] | (exchange->left ? 0 : LAST);
			memcpy(exchange->out + i * exchange->block_size, &head,
			    HEAD_SIZE);
		}
		MPI_Alltoall(exchange->out, (int)exchange->block_size, MPI_BYTE,
		    exchange->in, (int)exchange->block_size, MPI_BYTE,
		    MPI_COMM_WORLD);
		unfinished = 0;
		for (i = 0; i < exchange->n; i++) {
			memcpy(&head, exchange->in + i * exchange->block_size,
			    HEAD_SIZE);
			take(exchange,
			    exchange->in + i * exchange->block_size + HEAD_SIZE,
			    head & ~LAST);
			unfinished += !(head & LAST);
		}
	} while (unfinished > 0);
}

/*
 * All ranks have as many tuples, so they call as often. A slow rank comes last
 * to each call, so it is at work there, and does not wait.
 */
static void run_batches(struct exchange *exchange)
{
	int out[MAX_RANKS], in[MAX_RANKS], from[MAX_RANKS], to[MAX_RANKS];
	int size = (int)exchange->tuple_size, end;
	uint64_t begin;
	uint32_t i;

	while (exchange->left > 0) {
		begin = slow_begin(&exchange->slow);
		(void)partition(exchange);
		for (i = 0; i < exchange->n; i++) {
			out[i] = (int)exchange->used[i] * size;
			from[i] = (int)(i * exchange->block_size);
		}
		MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
		for (i = 0, end = 0; i < exchange->n; end += in[i++])
			to[i] = end;
		MPI_Alltoallv(exchange->out, out, from, MPI_BYTE, exchange->in,
		    in, to, MPI_BYTE, MPI_COMM_WORLD);
		take(exchange, exchange->in, (uint64_t)(end / size));
		slow_end(&exchange->slow, begin);
	}
}

static int open_exchange(struct mpi_rank *rank, size_t head_size)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));
	const struct plan *plan = rank->plan;
	size_t size;

	errno = EINVAL;
	if (!exchange || rank->count > MAX_RANKS)
		return worker_fail_errno(&rank->source, "a rank");
	rank->state = exchange;
	exchange->n = (uint32_t)rank->count;
	exchange->tuple_size = plan->tuple_size;
	exchange->table = plan_make_table(plan, (uint32_t)rank->number);
	exchange->n_table = plan_table_tuples(plan);
	exchange->left = plan->tuples;
	slow_init(&exchange->slow, rank->number ? 0 : plan->slow_source);
	exchange->head_size = head_size;
	exchange->limit = BATCH_SIZE / plan->tuple_size;
	exchange->limit = exchange->limit ? exchange->limit : 1;
	exchange->room = head_size ? SMALL_BATCH : exchange->limit;
	exchange->block_size = head_size + exchange->room * plan->tuple_size;
	size = exchange->n * exchange->block_size;
	exchange->out = calloc(1, size);
	exchange->in = calloc(1, size);
	if (!exchange->table || !exchange->out || !exchange->in)
		return worker_fail_errno(&rank->source, "blocks of tuples");
	/* The first call makes connections. */
	MPI_Alltoall(exchange->out, (int)exchange->block_size, MPI_BYTE,
	    exchange->in, (int)exchange->block_size, MPI_BYTE, MPI_COMM_WORLD);
	return 0;
}

static int open_small(struct mpi_rank *rank)
{
	return open_exchange(rank, HEAD_SIZE);
}

static int open_batches(struct mpi_rank *rank)
{
	return open_exchange(rank, 0);
}

static int run(struct mpi_rank *rank)
{
	struct exchange *exchange = rank->state;

	if (exchange->head_size)
		run_small_batches(exchange);
	else
		run_batches(exchange);
	rival_done(&rank->source, rank->plan->tuples,
	    plan_source_sum(rank->plan, (uint32_t)rank->number));
	rival_done(
	    &rank->target, exchange->received, word_sum_total(&exchange->sum));
	return 0;
}

static void close_exchange(struct mpi_rank *rank)
{
	struct exchange *exchange = rank->state;

	free(exchange->table);
	free(exchange->out);
	free(exchange->in);
	free(exchange);
}

const struct mpi_way mpi_alltoall = {
	.name = "alltoall",
	.open = open_small,
	.run = run,
	.close = close_exchange,
};

const struct mpi_way mpi_alltoallv = {
	.name = "alltoallv",
	.open = open_batches,
	.run = run,
	.close = close_exchange,
};
