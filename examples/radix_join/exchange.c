/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network partitioning: sending and receiving in one thread.
 *
 * Rings are bounded. If all workers waited for room in each other's rings, none
 * would empty its own: blocking calls deadlock. So all handles here have
 * DFI_NONBLOCK. Whenever a call would wait for a peer (-EAGAIN), the worker
 * receives its tuples of both relations, and tries again. So a waiting worker
 * always frees the room that others wait for. It also receives without need now
 * and then, while segments are still in the cache.
 *
 * Only the sender partitions tuples: each line has one partition and goes into
 * the ring of its owner, which moves the whole line to its store. There is no
 * histogram, and no worker waits for another between phases.
 *
 * If the table of a worker's inner tuples fits the cache, the worker builds it
 * when all have come, and joins outer tuples where they are: in the ring, or in
 * its own input.
 */
#include "worker.h"
#include "platform.h"

/* Tuples to send before looking for received ones. */
#define SEND_TUPLES 8192

/* Segments to receive of a relation before sending again. */
#define RECEIVE_SEGMENTS 64

/* No tuple must be stored before it is joined. */
static inline bool joins(const struct worker *worker, enum relation relation)
{
	return worker->input->plan.direct && relation == OUTER;
}

static int join_now(
    struct worker *worker, const struct tuple *tuples, uint64_t n)
{
	worker_progress(worker, n);
	return join_probe(
	    &worker->join, tuples, (uint32_t)n, &worker->report.result);
}

static int join_kept(struct worker *worker)
{
	uint32_t n = worker->kept.n;

	worker->kept.n = 0;
	return join_now(worker, worker->kept.tuples, n);
}

/* A few tuples that stay here. */
static inline int keep(
    struct worker *worker, const struct tuple *tuples, uint32_t n)
{
	struct kept *kept = &worker->kept;

	memcpy(&kept->tuples[kept->n], tuples, n * sizeof(*tuples));
	kept->n += n;
	return kept->n + LINE_TUPLES > KEPT_TUPLES ? join_kept(worker) : 0;
}

/* Move a flow's segment to its store, or join it. */
static int take(struct worker *worker, enum relation relation,
    const struct dfi_batch *batch)
{
	uint32_t bits = worker->input->plan.bits;

	if (joins(worker, relation))
		return join_now(worker, batch->tuples, batch->count);
	if (store_receive(&worker->stores[relation], &worker->strays[relation],
		batch->tuples, batch->count, bits))
		return complain("worker %u: received a tuple of another "
				"worker's partition",
		    (unsigned)worker->index);
	return 0;
}

/* Receive a relation's tuples; *n counts tuples, and the end as one. */
static int receive(struct worker *worker, enum relation relation, uint64_t *n)
{
	struct dfi_target *target = worker->targets[relation];
	struct dfi_batch batch;
	int i, ret, err;

	/* Tuples stay in the ring until there is a table to join them with. */
	if (joins(worker, relation) && !worker->built)
		return 0;
	for (i = 0; i < RECEIVE_SEGMENTS && !worker->ended[relation]; i++) {
		ret = dfi_target_consume_batch(target, &batch);
		if (ret == -EAGAIN)
			return 0;
		if (ret < 0)
			return worker_fail(worker, "receiving");
		if (ret == 0) {
			worker->ended[relation] = true;
			worker->ended_ns[relation] = now_ns();
			++*n;
			return 0;
		}
		err = take(worker, relation, &batch);
		*n += batch.count;
		worker_progress(worker, batch.count);
		dfi_target_release(target, &batch);
		if (err)
			return err;
	}
	return 0;
}

/* A call would wait: receive instead, or wait if no tuple has come. */
static int receive_or_wait(struct worker *worker, struct backoff *backoff)
{
	uint64_t n = 0;

	if (receive(worker, INNER, &n) || receive(worker, OUTER, &n))
		return -1;
	if (n > 0)
		backoff->rounds = 0;
	else
		backoff_wait(backoff);
	return 0;
}

#if defined(__x86_64__)
#define FOR_WRITING __attribute__((target("prfchw")))
#else
#define FOR_WRITING
#endif

/* Fetch room for a line; another processor has read it last. */
static FOR_WRITING inline void prefetch_line(const struct tuple *tuples)
{
	const char *bytes = (const char *)tuples;
	size_t i;

	for (i = 0; i < sizeof(struct line); i += CACHE_LINE)
		__builtin_prefetch(bytes + i, 1);
}

/*
 * Copy one by one: the wider loads of memcpy() would wait until the last tuple
 * of the line, stored just now, leaves the store buffer.
 */
static inline void copy_tuples(
    struct tuple *to, const struct tuple *from, uint32_t n)
{
	const struct tuple *end = from + n;

	while (from != end) {
		*to++ = *from++;
		/*
		 * An empty barrier, which keeps the loop from becoming a
		 * memcpy().
		 */
		__asm__("" : "+r"(to), "+r"(from));
	}
}

/* Send the tuples built in the claimed room. */
static int commit_room(struct worker *worker, enum relation relation)
{
	struct room *room = &worker->room;
	uint32_t used = room->used;

	room->used = 0;
	if (used > 0 &&
	    dfi_source_commit(worker->sources[relation], &room->span, used) < 0)
		return worker_fail(worker, "sending");
	room->span.count = 0;
	return 0;
}

/* Claim room in the owner's ring. */
static int claim_room(
    struct worker *worker, enum relation relation, uint32_t owner)
{
	struct backoff backoff = { 0 };
	int ret;

	if (commit_room(worker, relation))
		return -1;
	for (;;) {
		ret = dfi_source_claim(
		    worker->sources[relation], owner, &worker->room.span);
		if (ret == 0)
			return 0;
		if (ret != -EAGAIN)
			return worker_fail(worker, "sending");
		if (receive_or_wait(worker, &backoff))
			return -1;
	}
}

/* The target of a partition's tuples. */
static inline uint32_t target_of(
    const struct worker *worker, enum relation relation, uint32_t partition)
{
	const struct plan *plan = &worker->input->plan;

	if (!plan->replicates)
		return plan_owner(plan, partition);
	return relation == INNER ? DFI_ALL_TARGETS : worker->index;
}

/* Whether all tuples stay with this worker. */
static inline bool stay_here(
    const struct worker *worker, enum relation relation, uint32_t partition)
{
	return !worker->options->loopback &&
	    !(worker->input->plan.replicates && relation == INNER) &&
	    store_owns(&worker->stores[relation], partition);
}

/* Send tuples of one partition by building them in its target's ring. */
static FOR_WRITING __attribute__((noinline)) int send_run(struct worker *worker,
    enum relation relation, uint32_t partition, const struct tuple *tuples,
    uint32_t n)
{
	uint32_t owner = target_of(worker, relation, partition);
	struct room *room = &worker->room;
	struct tuple *to;
	uint32_t count;

	while (n > 0) {
		if ((room->used == room->span.count ||
			room->span.target != owner) &&
		    claim_room(worker, relation, owner))
			return -1;
		count = room->span.count - room->used;
		if (count > n)
			count = n;
		to = (struct tuple *)room->span.tuples + room->used;
		copy_tuples(to, tuples, count);
		/*
		 * Two lines ahead: the fetch takes longer than filling a line.
		 */
		prefetch_line(to + 2 * LINE_TUPLES);
		room->used += count;
		tuples += count;
		n -= count;
		if (room->used == room->span.count &&
		    commit_room(worker, relation))
			return -1;
	}
	return 0;
}

/* Move a full line to where it belongs. */
static inline int send_line(struct worker *worker, enum relation relation,
    uint32_t partition, const struct tuple *tuples)
{
	struct store *store = &worker->stores[relation];

	if (stay_here(worker, relation, partition)) {
		if (joins(worker, relation))
			return keep(worker, tuples, LINE_TUPLES);
		store_add_line(store, partition, tuples);
		return 0;
	}
	return send_run(worker, relation, partition, tuples, LINE_TUPLES);
}

static int send_tuples(struct worker *worker, enum relation relation,
    const struct tuple *tuples, size_t n)
{
	struct lines lines = worker->lines;
	uint64_t mask = plan_partitions(&worker->input->plan) - 1;
	uint32_t partition;
	size_t i;

	/* Each of them stays here. */
	if (joins(worker, relation) && worker->input->plan.replicates &&
	    !worker->options->loopback)
		return join_now(worker, tuples, n);
	for (i = 0; i < n; i++) {
		prefetch_ahead(&tuples[i]);
		partition = (uint32_t)(tuples[i].key & mask);
		if (lines_add(&lines, partition, &tuples[i]) &&
		    send_line(worker, relation, partition,
			lines.lines[partition].tuples))
			return -1;
	}
	return 0;
}

/* Send the rest of the lines; the flow routes it. */
static int send_rest(struct worker *worker, enum relation relation)
{
	struct store *store = &worker->stores[relation];
	struct dfi_source *source = worker->sources[relation];
	struct lines *lines = &worker->lines;
	struct backoff backoff = { 0 };
	const struct tuple *tuples;
	uint32_t i;
	int ret;

	if (commit_room(worker, relation))
		return -1;
	for (i = 0; i < lines->n_partitions; i++) {
		tuples = lines->lines[i].tuples;
		if (stay_here(worker, relation, i)) {
			if (!joins(worker, relation))
				(void)store_receive(store,
				    &worker->strays[relation], tuples,
				    lines->fill[i], worker->input->plan.bits);
			else if (keep(worker, tuples, lines->fill[i]))
				return -1;
			lines->fill[i] = 0;
		}
		while (lines->fill[i] > 0) {
			ret = dfi_source_push_batch(
			    source, tuples, lines->fill[i]);
			if (ret == -EAGAIN) {
				if (receive_or_wait(worker, &backoff))
					return -1;
				continue;
			}
			if (ret < 0)
				return worker_fail(worker, "sending");
			tuples += ret;
			lines->fill[i] = (uint8_t)(lines->fill[i] - ret);
		}
	}
	return 0;
}

/* Make the table for outer tuples when all inner ones have come. */
static int build_table(struct worker *worker)
{
	struct backoff backoff = { 0 };

	while (!worker->ended[INNER])
		if (receive_or_wait(worker, &backoff))
			return -1;
	if (store_finish(&worker->stores[INNER], &worker->strays[INNER]))
		return complain("worker %u: received too many tuples",
		    (unsigned)worker->index);
	worker->built = true;
	return join_build(&worker->join);
}

int exchange_send(struct worker *worker, enum relation relation)
{
	const struct tuple *tuples = worker->slices.tuples[relation];
	uint64_t rest = worker->slices.n[relation], n, received = 0;
	struct dfi_source_stats stats;
	struct dfi_source *source;

	if (joins(worker, relation) && build_table(worker))
		return -1;
	for (; rest > 0; tuples += n, rest -= n) {
		n = rest < SEND_TUPLES ? rest : SEND_TUPLES;
		if (send_tuples(worker, relation, tuples, n) ||
		    receive(worker, INNER, &received) ||
		    receive(worker, OUTER, &received))
			return -1;
		worker_progress(worker, n);
	}
	if (send_rest(worker, relation) ||
	    (joins(worker, relation) && join_kept(worker)))
		return -1;
	source = worker->sources[relation];
	if (dfi_source_flush(source) < 0)
		return worker_fail(worker, "sending");
	dfi_source_query(source, &stats);
	worker->report.times.sent_bytes += stats.bytes;
	worker->sources[relation] = NULL;
	if (dfi_source_close(source) < 0)
		return worker_fail(worker, "sending");
	return 0;
}

int exchange_finish(struct worker *worker)
{
	struct backoff backoff = { 0 };
	int r;

	while (!worker->ended[INNER] || !worker->ended[OUTER])
		if (receive_or_wait(worker, &backoff))
			return -1;
	for (r = 0; r < N_RELATIONS && !worker->input->plan.direct; r++)
		if (store_finish(&worker->stores[r], &worker->strays[r]))
			return complain("worker %u: received too many tuples",
			    (unsigned)worker->index);
	return 0;
}
