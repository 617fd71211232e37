/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that keep what is not acknowledged in files (open.spill_dir): R6 of
 * docs/open-flows.md.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "flow_help.h"

#define SEATS 2
#define SEGMENT 4u /* tuples */
#define RING 8u    /* segments */
#define WINDOW (SEGMENT * RING)
#define MOST 5000u /* positions */

static _Atomic uint64_t n_reads; /* of files, by the library as well */

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
	n_reads++;
	return syscall(SYS_pread64, fd, to, size, at);
}

ssize_t pread64(int fd, void *to, size_t size, off64_t at)
{
	return pread(fd, to, size, at);
}

static struct rig rig;
static char dir[] = "/tmp/dfi-test-spill-XXXXXX";

static void setup(void)
{
	cr_assert_not_null(mkdtemp(dir));
	rig_start(&rig);
}

/* Files are gone when they are of no use any more. */
static void expect_empty(void)
{
	DIR *files = opendir(dir);
	const struct dirent *entry;

	cr_assert_not_null(files);
	while ((entry = readdir(files)))
		cr_assert_eq(entry->d_name[0], '.', "%s", entry->d_name);
	closedir(files);
}

static void teardown(void)
{
	expect_empty();
	rmdir(dir);
	rig_stop(&rig);
}

TestSuite(spill, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(uint32_t routing)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = routing,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.on_loss = DFI_ON_LOSS_REPLAY,
			.input_position = "val",
			.spill_dir = dir,
		},
	};
}

static void create(uint32_t routing)
{
	struct dfi_flow_attr attr = flow_attr(routing);

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

/* ---- A target, which takes its partitions at once --------------------------
 */

struct worker {
	struct dfi_target *target;
	uint32_t n_consumed, n_asked;
	uint32_t of[MOST + 1]; /* how often each position came */
};

static void open_worker(struct worker *worker, uint32_t seat)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	memset(worker, 0, sizeof(*worker));
	attr.flags = DFI_EVENTS | DFI_NONBLOCK;
	cr_assert_eq(
	    dfi_target_open(rig.other, "f", seat, &attr, &worker->target), 0,
	    "%s", dfi_errmsg());
}

static void take_event(struct worker *worker)
{
	struct dfi_event event;

	cr_assert_eq(dfi_target_event(worker->target, &event), 0);
	worker->n_asked += event.type == DFI_ACK_DUE;
	if (event.type == DFI_GAINED)
		cr_assert_eq(dfi_partition_take(
				 worker->target, event.partition, NULL, 0),
		    0, "%s", dfi_errmsg());
}

/* Consume what is there, and give it back. Returns the last error. */
static int work(struct worker *worker)
{
	struct dfi_batch batch;
	const struct kv *kv;
	uint32_t i;
	int ret;

	for (;;) {
		ret = dfi_target_consume_batch(worker->target, &batch);
		if (ret == -ENOMSG) {
			take_event(worker);
			continue;
		}
		if (ret <= 0)
			return ret;
		kv = batch.tuples;
		for (i = 0; i < batch.count; i++, kv++)
			worker->of[kv->val]++;
		worker->n_consumed += batch.count;
		dfi_target_release(worker->target, &batch);
	}
}

static void work_until(struct worker *worker, uint32_t consumed)
{
	int64_t until = now_ms() + LONG_MS;

	while (worker->n_consumed < consumed) {
		cr_assert_eq(work(worker), -EAGAIN, "%s", dfi_errmsg());
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
}

/* ---- A source --------------------------------------------------------------
 */

static struct dfi_source *open_at(uint32_t seat)
{
	struct dfi_source *source = open_source(
	    rig.dfi, "f", seat, DFI_NONBLOCK);

	return source;
}

/* Push while the target consumes and acknowledges nothing. */
static void push_from(struct dfi_source *source, struct worker *worker,
    uint64_t first, uint64_t last)
{
	int64_t until = now_ms() + LONG_MS;
	int ret;

	for (; first <= last; first++) {
		struct kv kv = { first, first };

		while ((ret = dfi_source_push(source, &kv)) == -EAGAIN) {
			cr_assert_eq(work(worker), -EAGAIN, "%s", dfi_errmsg());
			cr_assert_lt(now_ms(), until);
		}
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
}

static void *close_it(void *source)
{
	return dfi_source_close(source) ? source : NULL;
}

static void close_source(struct dfi_source *source, struct worker *worker)
{
	int64_t until = now_ms() + LONG_MS;
	void *failed = source;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, close_it, source), 0);
	while (pthread_tryjoin_np(thread, &failed)) {
		(void)work(worker);
		if (worker->n_asked)
			cr_assert_eq(dfi_target_ack(worker->target), 0);
		worker->n_asked = 0;
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	cr_assert_null(failed);
}

static void finish(struct worker *worker)
{
	int64_t until = now_ms() + LONG_MS;

	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	while (work(worker) != 0) {
		cr_assert_lt(now_ms(), until, "%s", dfi_errmsg());
		yield_times(1);
	}
	cr_assert_eq(dfi_target_close(worker->target), 0);
}

/* ---- Losses ----------------------------------------------------------------
 */

/* All of n tuples go to a target that is lost, and then to the next. */
static void lose_target(uint32_t routing, uint32_t n)
{
	struct worker first, second;
	struct dfi_source *source;
	uint32_t i;

	create(routing);
	open_worker(&first, 0);
	source = open_at(0);
	push_from(source, &first, 1, n);
	work_until(&first, n);
	cr_assert_eq(dfi_target_close(first.target), 0);
	open_worker(&second, 1);
	push_from(source, &second, n + 1, n + 10);
	close_source(source, &second);
	cr_assert_eq(second.n_consumed, n + 10);
	for (i = 1; i <= n + 10; i++)
		cr_assert_eq(second.of[i], 1, "%u", i);
	finish(&second);
}

Test(spill, one_segment_more_than_a_ring_holds_is_sent_again)
{
	lose_target(DFI_ROUTE_HASH, WINDOW + SEGMENT);
}

Test(spill, so_is_much_more)
{
	lose_target(DFI_ROUTE_HASH, 20 * WINDOW + 3);
}

Test(spill, without_keys_as_well)
{
	lose_target(DFI_ROUTE_ANY, 20 * WINDOW + 3);
}

/* Each segment is read once, however many wait: not for each that is sent. */
static void count_reads(uint32_t routing)
{
	uint64_t before = n_reads;

	lose_target(routing, MOST - 100);
	cr_assert_gt(n_reads - before, MOST / SEGMENT / 2);
	cr_assert_lt(n_reads - before, 3 * MOST / SEGMENT);
}

Test(spill, a_segment_is_read_once)
{
	count_reads(DFI_ROUTE_HASH);
}

Test(spill, a_segment_is_read_once_without_keys)
{
	count_reads(DFI_ROUTE_ANY);
}

Test(spill, what_is_acknowledged_is_not_sent_again)
{
	struct worker first, second;
	struct dfi_source *source;
	uint32_t i, n = 10 * WINDOW;
	int64_t until = now_ms() + LONG_MS;
	uint64_t lowest = 0;

	create(DFI_ROUTE_ANY);
	open_worker(&first, 0);
	source = open_at(0);
	push_from(source, &first, 1, n);
	work_until(&first, n);
	cr_assert_eq(dfi_target_ack(first.target), 0, "%s", dfi_errmsg());
	/* The news of it come by the registry: a source that closes waits. */
	push_from(source, &first, n + 1, n + 1);
	work_until(&first, n + 1);
	close_source(source, &first);
	source = open_at(0);
	while (dfi_source_resume(source, &lowest, NULL, 0) == -EAGAIN) {
		(void)work(&first);
		cr_assert_lt(now_ms(), until);
	}
	push_from(source, &first, n + 2, n + 10);
	work_until(&first, n + 10);
	cr_assert_eq(dfi_target_close(first.target), 0);
	open_worker(&second, 1);
	close_source(source, &second);
	cr_assert_eq(second.n_consumed, 9);
	for (i = 1; i <= n + 10; i++)
		cr_assert_eq(second.of[i], i > n + 1, "%u", i);
	finish(&second);
}

/* The ring is full when the source closes, and gets room without one. */
Test(spill, a_source_that_closes_asks_for_acknowledgements)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_ANY);
	struct dfi_source *source;
	struct worker worker;
	uint64_t i;

	attr.segment_count = 2;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	open_worker(&worker, 0);
	source = open_at(0);
	for (i = 0; i < 10; i++)
		push_from(source, &worker, i * SEGMENT + 1, (i + 1) * SEGMENT);
	close_source(source, &worker);
	cr_assert_eq(worker.n_consumed, 10 * SEGMENT);
	finish(&worker);
}

/* ---- Errors ----------------------------------------------------------------
 */

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Push and give back until a file takes no more. Returns what was pushed. */
static uint32_t fill_disk(struct dfi_source *source, struct worker *worker)
{
	int64_t until = now_ms() + LONG_MS;
	uint32_t n = 1;
	struct kv kv;
	int ret;

	/* Its ring is a file as well. */
	push_from(source, worker, 1, 1);
	work_until(worker, 1);
	limit_files(1000);
	do {
		kv = (struct kv){ n + 1, n + 1 };
		ret = dfi_source_push(source, &kv);
		n += !ret;
		if (!ret || ret == -EAGAIN)
			(void)work(worker);
		cr_assert_lt(now_ms(), until);
	} while (!ret || ret == -EAGAIN);
	assert_error(ret, -ENOSPC, "spill_dir", dir, "File too large");
	cr_assert_gt(n, WINDOW);
	return n;
}

Test(spill, a_full_disk_is_a_named_error_that_loses_nothing)
{
	struct worker first, second;
	struct dfi_source *source;
	uint32_t i, n;

	create(DFI_ROUTE_HASH);
	open_worker(&first, 0);
	source = open_at(0);
	n = fill_disk(source, &first);
	limit_files(RLIM_INFINITY);
	push_from(source, &first, n + 1, n + WINDOW);
	work_until(&first, n + WINDOW);
	cr_assert_eq(dfi_target_close(first.target), 0);
	open_worker(&second, 1);
	close_source(source, &second);
	for (i = 1; i <= n + WINDOW; i++)
		cr_assert_eq(second.of[i], 1, "%u", i);
	finish(&second);
}

Test(spill, a_full_disk_evicts_no_target)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_HASH);
	struct dfi_source *source;
	struct worker worker;
	int64_t until;
	struct kv kv;
	uint32_t n;

	attr.open.evict_after_ms = 200;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	open_worker(&worker, 0);
	source = open_at(0);
	n = fill_disk(source, &worker);
	kv = (struct kv){ n + 1, n + 1 };
	until = now_ms() + 4 * attr.open.evict_after_ms;
	do {
		assert_error(
		    dfi_source_push(source, &kv), -ENOSPC, "spill_dir");
		cr_assert_eq(work(&worker), -EAGAIN, "%s", dfi_errmsg());
		yield_times(1);
	} while (now_ms() < until);
	limit_files(RLIM_INFINITY);
	push_from(source, &worker, n + 1, n + 1);
	close_source(source, &worker);
	cr_assert_eq(worker.n_consumed, n + 1);
	finish(&worker);
}

/* The last segment of a ring is sent, and no file takes the first ones. */
Test(spill, a_disk_that_was_full_fails_no_close)
{
	uint64_t n = WINDOW - SEGMENT;
	struct dfi_source *source;
	struct worker worker;
	uint64_t i;

	create(DFI_ROUTE_ANY);
	open_worker(&worker, 0);
	source = open_at(0);
	for (i = 0; i < n; i += SEGMENT)
		push_from(source, &worker, i + 1, i + SEGMENT);
	work_until(&worker, (uint32_t)n);
	limit_files(0);
	push_from(source, &worker, n + 1, WINDOW);
	limit_files(RLIM_INFINITY);
	close_source(source, &worker);
	cr_assert_eq(worker.n_consumed, WINDOW);
	finish(&worker);
}

Test(spill, is_refused_where_it_can_t_be)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_HASH);
	struct dfi_source *source = NULL;
	struct worker worker;
	char longer[300];

	attr.open.spill_dir = "here";
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL,
	    "spill_dir 'here'", "'/'");
	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	attr.open.spill_dir = longer;
	assert_error(
	    dfi_flow_create(rig.dfi, "f", &attr), -EINVAL, "spill_dir", "255");
	attr = flow_attr(DFI_ROUTE_HASH);
	attr.open.on_loss = DFI_ON_LOSS_DROP;
	attr.open.input_position = NULL;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL, "spill_dir",
	    "DFI_ON_LOSS_REPLAY");
	attr.open.membership = 0;
	attr.open.on_loss = 0;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL, "spill_dir",
	    "DFI_MEMBERS_OPEN");
	attr = flow_attr(DFI_ROUTE_HASH);
	attr.open.spill_dir = "/tmp/dfi-there-is-no-such-directory";
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	open_worker(&worker, 0);
	assert_error(dfi_source_open(rig.dfi, "f", 0, NULL, &source), -ENOENT,
	    "spill_dir", "no-such-directory");
	finish(&worker);
}
