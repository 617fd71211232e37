/* SPDX-License-Identifier: Apache-2.0 */
/*
 * radix_join_openmpi INNER OUTER [ready], and radix_join_mpich: the same join
 * by one-sided MPI, to compare with. Barthels et al. describe it in
 * "Distributed Join Algorithms on Thousands of Cores".
 *
 * A rank counts its tuples of each partition, and all ranks exchange these
 * histograms. So each knows where its part of a partition begins in the memory
 * of the partition's owner, and puts its tuples there, a line at a time. After
 * a barrier the owners join their partitions. Lines, hash tables and synthetic
 * relations are those of the join over flows.
 *
 * The windows have the size that the histograms tell, so they are opened within
 * the time, as published. With `ready` they are opened before it, by an
 * estimate, and touched, as is all other memory in any case.
 */
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "hash_table.h"
#include "partition.h"
#include "platform.h"

#define SEED 1

struct rank {
	struct plan plan;
	uint32_t number, n_partitions;
	struct generator generator;
	struct tuple *slices[N_RELATIONS];
	uint64_t n[N_RELATIONS]; /* tuples of the slices */
	struct lines lines;
	struct table table;
	MPI_Win windows[N_RELATIONS];
	struct tuple *memory[N_RELATIONS]; /* of this rank's windows */
	uint64_t capacity[N_RELATIONS];    /* of tuples, at this rank */
	uint64_t *histograms;              /* by rank, relation, partition */
	uint64_t *next;   /* where the next tuple of a partition goes */
	uint64_t *counts; /* of all ranks, by relation and partition */
	struct result result, expected;
	bool ready; /* windows are opened before the time begins */
};

struct times {
	double histogram, windows, exchange, join, all;
};

static void give_up(const char *what)
{
	fprintf(stderr, "radix_join: %s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void open_slices(struct rank *rank)
{
	const struct plan *plan = &rank->plan;
	uint64_t begin, end;
	int r;

	generator_init(&rank->generator, plan->n_tuples[INNER],
	    plan->n_tuples[OUTER], 1, 0, SEED);
	for (r = 0; r < N_RELATIONS; r++) {
		begin = plan_slice(plan, r, rank->number);
		end = plan_slice(plan, r, rank->number + 1);
		rank->n[r] = end - begin;
		rank->slices[r] = big_alloc(
		    (end - begin + 1) * sizeof(struct tuple));
		if (!rank->slices[r])
			give_up("no memory");
		generate(&rank->generator, r, begin, end, rank->slices[r]);
	}
	generate_expect(&rank->generator, rank->slices[OUTER], rank->n[OUTER],
	    &rank->expected);
}

static void open_windows(struct rank *rank)
{
	int r;

	for (r = 0; r < N_RELATIONS; r++) {
		MPI_Win_allocate(
		    (MPI_Aint)(rank->capacity[r] * sizeof(struct tuple)),
		    sizeof(struct tuple), MPI_INFO_NULL, MPI_COMM_WORLD,
		    &rank->memory[r], &rank->windows[r]);
		MPI_Win_lock_all(MPI_MODE_NOCHECK, rank->windows[r]);
	}
}

/* Uniform keys: a share differs little from its estimate. */
static void open_early(struct rank *rank)
{
	uint64_t share;
	int r;

	for (r = 0; r < N_RELATIONS; r++) {
		share = plan_share(&rank->plan, r, rank->number);
		rank->capacity[r] = share + share / 8 + 4096;
	}
	open_windows(rank);
	for (r = 0; r < N_RELATIONS; r++)
		memset(rank->memory[r], 0,
		    rank->capacity[r] * sizeof(struct tuple));
}

static void close_windows(struct rank *rank)
{
	int r;

	for (r = 0; r < N_RELATIONS; r++) {
		MPI_Win_unlock_all(rank->windows[r]);
		MPI_Win_free(&rank->windows[r]);
	}
}

static void open_rank(struct rank *rank)
{
	const struct plan *plan = &rank->plan;
	size_t n = N_RELATIONS * (size_t)rank->n_partitions;

	open_slices(rank);
	if (rank->ready)
		open_early(rank);
	rank->histograms = calloc(n * plan->n_workers, sizeof(uint64_t));
	rank->next = calloc(n, sizeof(uint64_t));
	rank->counts = calloc(n, sizeof(uint64_t));
	if (!rank->histograms || !rank->next || !rank->counts ||
	    lines_open(&rank->lines, rank->n_partitions) ||
	    table_open(&rank->table, plan->bits,
		2 * (plan->n_tuples[INNER] >> plan->bits)))
		give_up("no memory");
}

/* ---- The histograms ---------------------------------------------------- */

static void count_tuples(struct rank *rank)
{
	const uint64_t mask = rank->n_partitions - 1;
	uint64_t *counts, i;
	int r;

	for (r = 0; r < N_RELATIONS; r++) {
		counts = rank->histograms +
		    ((size_t)rank->number * N_RELATIONS + (size_t)r) *
			rank->n_partitions;
		for (i = 0; i < rank->n[r]; i++)
			counts[rank->slices[r][i].key & mask]++;
	}
}

/* The partitions of an owner lie one after the other, in each by rank. */
static void place_relation(struct rank *rank, enum relation relation)
{
	const struct plan *plan = &rank->plan;
	size_t at = (size_t)relation * rank->n_partitions;
	uint32_t partition, other, owner, last = UINT32_MAX;
	uint64_t end = 0, n, mine = 0;

	for (partition = 0; partition < rank->n_partitions; partition++, at++) {
		owner = plan_owner(plan, partition);
		end = owner == last ? end : 0;
		last = owner;
		for (other = 0; other < plan->n_workers; other++) {
			n = rank->histograms[(size_t)other * N_RELATIONS *
				rank->n_partitions +
			    at];
			if (other == rank->number)
				rank->next[at] = end;
			rank->counts[at] += n;
			end += n;
		}
		if (owner == rank->number)
			mine = end;
	}
	if (rank->ready && mine > rank->capacity[relation])
		give_up("more tuples come than the window has room for");
	if (!rank->ready)
		rank->capacity[relation] = mine;
}

static void exchange_histograms(struct rank *rank)
{
	int n = (int)(N_RELATIONS * rank->n_partitions);

	count_tuples(rank);
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, rank->histograms, n,
	    MPI_UINT64_T, MPI_COMM_WORLD);
	place_relation(rank, INNER);
	place_relation(rank, OUTER);
}

/* ---- The exchange ------------------------------------------------------ */

/* Send tuples of one partition, which may be overwritten then. */
static void send_tuples(struct rank *rank, enum relation relation,
    uint32_t partition, const struct tuple *tuples, uint32_t n)
{
	uint64_t *next =
	    &rank->next[(size_t)relation * rank->n_partitions + partition];
	int owner = (int)plan_owner(&rank->plan, partition);
	int size = (int)(n * sizeof(*tuples));

	if (owner == (int)rank->number) {
		memcpy(rank->memory[relation] + *next, tuples, (size_t)size);
	} else {
		MPI_Put(tuples, size, MPI_BYTE, owner, (MPI_Aint)*next, size,
		    MPI_BYTE, rank->windows[relation]);
		MPI_Win_flush_local(owner, rank->windows[relation]);
	}
	*next += n;
}

static void send_relation(struct rank *rank, enum relation relation)
{
	const struct tuple *tuples = rank->slices[relation];
	const uint64_t mask = rank->n_partitions - 1;
	struct lines lines = rank->lines;
	uint32_t partition;
	uint64_t i;

	for (i = 0; i < rank->n[relation]; i++) {
		prefetch_ahead(&tuples[i]);
		partition = (uint32_t)(tuples[i].key & mask);
		if (lines_add(&lines, partition, &tuples[i]))
			send_tuples(rank, relation, partition,
			    lines.lines[partition].tuples, LINE_TUPLES);
	}
	for (partition = 0; partition < rank->n_partitions; partition++) {
		if (lines.fill[partition])
			send_tuples(rank, relation, partition,
			    lines.lines[partition].tuples,
			    lines.fill[partition]);
		lines.fill[partition] = 0;
	}
	MPI_Win_flush_all(rank->windows[relation]);
}

/* ---- The join ---------------------------------------------------------- */

static void join_partitions(struct rank *rank)
{
	const struct plan *plan = &rank->plan;
	const struct tuple *inner = rank->memory[INNER];
	const struct tuple *outer = rank->memory[OUTER];
	const uint64_t *counts = rank->counts;
	uint32_t partition = plan_first(plan, rank->number);
	uint32_t end = plan_first(plan, rank->number + 1);
	uint64_t n, m;

	MPI_Win_sync(rank->windows[INNER]);
	MPI_Win_sync(rank->windows[OUTER]);
	for (; partition < end; partition++, inner += n, outer += m) {
		n = counts[partition];
		m = counts[rank->n_partitions + partition];
		if (table_begin(&rank->table, n))
			give_up("no memory");
		table_build(&rank->table, inner, (uint32_t)n);
		table_probe(&rank->table, outer, (uint32_t)m, &rank->result);
	}
}

static struct times run(struct rank *rank)
{
	uint64_t begin, counted, opened, sent, end;

	MPI_Barrier(MPI_COMM_WORLD);
	begin = now_ns();
	exchange_histograms(rank);
	counted = now_ns();
	if (!rank->ready)
		open_windows(rank);
	opened = now_ns();
	send_relation(rank, INNER);
	send_relation(rank, OUTER);
	MPI_Barrier(MPI_COMM_WORLD);
	sent = now_ns();
	join_partitions(rank);
	MPI_Barrier(MPI_COMM_WORLD);
	end = now_ns();
	return (struct times){
		.histogram = (double)(counted - begin) * 1e-9,
		.windows = (double)(opened - counted) * 1e-9,
		.exchange = (double)(sent - opened) * 1e-9,
		.join = (double)(end - sent) * 1e-9,
		.all = (double)(end - begin) * 1e-9,
	};
}

/* ---- The program ------------------------------------------------------- */

static int print(struct rank *rank, const struct times *times)
{
	uint64_t mine[] = { rank->result.matches, rank->result.checksum,
		rank->expected.matches, rank->expected.checksum },
		 all[4];
	bool right;

	MPI_Reduce(mine, all, 4, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank->number)
		return 0;
	right = all[0] == all[2] && all[1] == all[3];
	printf("{\"seconds\": %.9f, \"matches\": %llu, \"verified\": %s, "
	       "\"phases\": {\"histogram\": %.9f, \"windows\": %.9f, "
	       "\"exchange\": %.9f, \"build_probe\": %.9f}, \"nodes\": %u, "
	       "\"inner\": %llu, "
	       "\"outer\": %llu, \"radix_bits\": %u}\n",
	    times->all, (unsigned long long)all[0], right ? "true" : "false",
	    times->histogram, times->windows, times->exchange, times->join,
	    rank->plan.n_workers,
	    (unsigned long long)rank->plan.n_tuples[INNER],
	    (unsigned long long)rank->plan.n_tuples[OUTER], rank->plan.bits);
	return fflush(stdout) || !right;
}

int main(int argc, char **argv)
{
	struct rank rank = { .number = 0 };
	struct times times;
	int number, n, status;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &number);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	rank.ready = argc == 4 && strcmp(argv[3], "ready") == 0;
	if (argc != 3 && !rank.ready) {
		fprintf(stderr,
		    "Usage: mpirun -n RANKS %s INNER OUTER [ready]\n", argv[0]);
		MPI_Finalize();
		return 64;
	}
	rank.number = (uint32_t)number;
	rank.plan.n_workers = (uint32_t)n;
	rank.plan.n_tuples[INNER] = strtoull(argv[1], NULL, 10);
	rank.plan.n_tuples[OUTER] = strtoull(argv[2], NULL, 10);
	rank.plan.bits = partition_bits(&rank.plan);
	rank.n_partitions = plan_partitions(&rank.plan);
	if (rank.plan.n_workers <= cpu_count())
		cpu_pin(rank.number);
	open_rank(&rank);
	times = run(&rank);
	status = print(&rank, &times);
	close_windows(&rank);
	MPI_Finalize();
	return status;
}
