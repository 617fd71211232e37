/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event-driven use: descriptors of sources and targets, and groups of targets.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "flow_help.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(descriptor, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(group, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_source *source;
static struct dfi_target *target;

static void open_both(uint32_t segment_tuples, uint32_t segment_count)
{
	create_kv_flow(rig.dfi, "f", 1, 1, segment_tuples, segment_count);
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
}

static void close_both(void)
{
	const void *tuple;

	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	while (consume_soon(target, &tuple) > 0)
		;
	cr_assert_eq(dfi_target_consume(target, &tuple), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

static int push(uint64_t number)
{
	struct kv kv = { number, number };

	return dfi_source_push(source, &kv);
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, timeout_ms) == 1;
}

Test(descriptor, is_for_nonblocking_handles)
{
	struct dfi_target_group *group;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	target = open_target(rig.other, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	assert_error(
	    dfi_target_fd(target), -EINVAL, "target 0", "DFI_NONBLOCK");
	assert_error(
	    dfi_source_fd(source), -EINVAL, "source 0", "DFI_NONBLOCK");
	cr_assert_eq(dfi_target_group_open(rig.dfi, NULL, &group), 0);
	assert_error(dfi_target_group_fd(group), -EINVAL, "DFI_NONBLOCK");
	cr_assert_eq(dfi_target_group_close(group), 0);
	assert_error(dfi_target_fd(NULL), -EINVAL, "NULL");
	assert_error(dfi_source_fd(NULL), -EINVAL, "NULL");
	assert_error(dfi_target_group_fd(NULL), -EINVAL, "NULL");
	close_both();
}

static unsigned count_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* The number of files that flow.h states. */
Test(descriptor, takes_three_files)
{
	struct dfi_target_group *group;
	unsigned before;

	if (over_network())
		cr_skip_test("what was opened to connect is closed later");
	create_kv_flow(rig.dfi, "f", 1, 1, 1, 2);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	before = count_files();
	cr_assert_geq(dfi_target_fd(target), 0);
	cr_assert_eq(count_files(), before + 3);
	cr_assert_geq(dfi_source_fd(source), 0);
	cr_assert_eq(count_files(), before + 6);
	cr_assert_eq(dfi_target_group_open(rig.dfi, NULL, &group), 0);
	cr_assert_eq(count_files(), before + 9);
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(count_files(), before + 6);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_leq(count_files(), before);
}

/*
 * Some ten spurious wake-ups a second are allowed, and over RDMA with footers
 * 330 in the first second and then 100. More would be a descriptor that nobody
 * resets, or too frequent polling.
 */
Test(descriptor, sleeps_while_nothing_is_there)
{
	int64_t until = now_ms() + 2000;
	const void *tuple;
	unsigned n = 0;
	int fd;

	open_both(4, 4);
	fd = dfi_target_fd(target);
	cr_assert_geq(fd, 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_fd(target), fd);
	cr_assert(is_readable(fd, 0), "nothing was tried yet");
	while (now_ms() < until) {
		cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
		is_readable(fd, 300);
		n++;
	}
	cr_assert_leq(n, 550);
	close_both();
}

/* Level-triggered: it stays readable until a call has found nothing. */
Test(descriptor, of_a_target_is_readable_with_tuples_and_at_the_end)
{
	const void *tuple;
	int fd, ret;

	open_both(1, 8);
	fd = dfi_target_fd(target);
	cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(push(2), 0);
	do
		cr_assert(is_readable(fd, LONG_MS));
	while (dfi_target_consume(target, &tuple) == -EAGAIN);
	cr_assert(is_readable(fd, 0), "a second tuple may be there");
	cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	cr_assert_eq(dfi_source_close(source), 0);
	do
		cr_assert(is_readable(fd, LONG_MS));
	while ((ret = dfi_target_consume(target, &tuple)) == -EAGAIN);
	cr_assert_eq(ret, 0);
	cr_assert(is_readable(fd, 0), "the end stays");
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(descriptor, of_a_source_is_readable_with_room)
{
	const void *tuple;
	uint64_t n = 0;
	int fd, ret;

	open_both(1, 4);
	fd = dfi_source_fd(source);
	cr_assert_geq(fd, 0, "%s", dfi_errmsg());
	cr_assert(is_readable(fd, 0), "nothing was tried yet");
	while ((ret = push(n)) == 0)
		n++;
	cr_assert_eq(ret, -EAGAIN);
	while (n > 0 && consume_soon(target, &tuple) == 1)
		n--;
	do
		cr_assert(is_readable(fd, LONG_MS));
	while ((ret = push(0)) == -EAGAIN);
	cr_assert_eq(ret, 0);
	close_both();
}

/* A refused push to one target doesn't swallow the room that another gave. */
Test(descriptor, of_a_source_remembers_all_who_refused)
{
	struct dfi_target *targets[2];
	struct kv kv = { 0, 0 };
	const void *tuple;
	uint32_t t, n[2];
	int fd, ret;

	create_kv_flow(rig.dfi, "f", 1, 2, 1, 2);
	for (t = 0; t < 2; t++)
		targets[t] = open_target(rig.other, "f", t, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	fd = dfi_source_fd(source);
	for (t = 0; t < 2; t++) {
		n[t] = 0;
		while (!dfi_source_push_to(source, t, &kv))
			n[t]++;
	}
	while (n[1] && consume_soon(targets[1], &tuple) == 1)
		n[1]--;
	do
		cr_assert(is_readable(fd, LONG_MS));
	while (dfi_source_push_to(source, 0, &kv) == -EAGAIN &&
	    !is_readable(fd, 0));
	do
		cr_assert(is_readable(fd, LONG_MS));
	while ((ret = dfi_source_push_to(source, 1, &kv)) == -EAGAIN);
	cr_assert_eq(ret, 0);
	while (n[0] && consume_soon(targets[0], &tuple) == 1)
		n[0]--;
	do
		cr_assert(is_readable(fd, LONG_MS));
	while ((ret = dfi_source_push_to(source, 0, &kv)) == -EAGAIN);
	cr_assert_eq(ret, 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (t = 0; t < 2; t++) {
		cr_assert_eq(consume_soon(targets[t], &tuple), 1);
		cr_assert_eq(consume_soon(targets[t], &tuple), 0);
		cr_assert_eq(dfi_target_close(targets[t]), 0);
	}
}

static void *abort_both(void *arg)
{
	(void)arg;
	dfi_target_abort(target);
	dfi_source_abort(source);
	return NULL;
}

Test(descriptor, reports_an_abort)
{
	const void *tuple;
	pthread_t thread;
	int ret;

	open_both(1, 2);
	dfi_target_fd(target);
	dfi_source_fd(source);
	while (!push(0))
		;
	while (consume_soon(target, &tuple) == 1 && !push(0))
		;
	while (!push(0))
		;
	while (dfi_target_consume(target, &tuple) == 1)
		;
	cr_assert_eq(pthread_create(&thread, NULL, abort_both, NULL), 0);
	do
		cr_assert(is_readable(dfi_target_fd(target), LONG_MS));
	while (
	    (ret = dfi_target_consume(target, &tuple)) == -EAGAIN || ret == 1);
	cr_assert_eq(ret, -ECANCELED);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	do
		cr_assert(is_readable(dfi_source_fd(source), LONG_MS));
	while ((ret = push(0)) == -EAGAIN || !ret);
	cr_assert_eq(ret, -ECANCELED);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

/* Threads that are source and target of the same flow, with rings of two. */
enum {
	N_PEERS = 2,
	N_EACH = 5000,
};

struct peer {
	pthread_t thread;
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t sent, received, sum;
	bool closed;
	int ret; /* of consuming */
	const char *failure;
};

/* Push until the ring is full, then end. Returns whether a push was refused. */
static bool peer_push(struct peer *peer)
{
	struct kv kv;
	int ret;

	for (; peer->sent < N_EACH; peer->sent++) {
		kv = (struct kv){ peer->sent, peer->sent };
		ret = dfi_source_push(peer->source, &kv);
		if (ret == -EAGAIN)
			return true;
		if (ret < 0)
			peer->failure = "push";
	}
	if (!peer->closed && dfi_source_close(peer->source) < 0)
		peer->failure = "close";
	peer->closed = true;
	return false;
}

static void peer_consume(struct peer *peer)
{
	const struct kv *kv;
	const void *tuple;

	while ((peer->ret = dfi_target_consume(peer->target, &tuple)) > 0) {
		kv = tuple;
		peer->received++;
		peer->sum += kv->val;
	}
}

/* Edge-triggered: each wake-up must be followed by calls until -EAGAIN. */
static void *run_peer(void *arg)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct peer *peer = arg;
	int epoll = epoll_create1(0);

	if (epoll_ctl(
		epoll, EPOLL_CTL_ADD, dfi_source_fd(peer->source), &event) ||
	    epoll_ctl(
		epoll, EPOLL_CTL_ADD, dfi_target_fd(peer->target), &event))
		peer->failure = "epoll_ctl";
	while (!peer->failure) {
		peer_push(peer);
		peer_consume(peer);
		if (peer->ret != -EAGAIN)
			break;
		if (epoll_wait(epoll, &event, 1, LONG_MS) == 0)
			peer->failure = "a wake-up was lost";
	}
	close(epoll);
	return NULL;
}

Test(descriptor, lets_threads_be_source_and_target_of_full_flows)
{
	struct peer peers[N_PEERS];
	uint64_t received = 0, sum = 0;
	uint32_t i;

	create_kv_flow(rig.dfi, "f", N_PEERS, N_PEERS, 1, 2);
	for (i = 0; i < N_PEERS; i++)
		peers[i] = (struct peer){
			.target = open_target(rig.other, "f", i, DFI_NONBLOCK),
		};
	for (i = 0; i < N_PEERS; i++)
		peers[i].source = open_source(rig.dfi, "f", i, DFI_NONBLOCK);
	for (i = 0; i < N_PEERS; i++)
		cr_assert_eq(
		    pthread_create(&peers[i].thread, NULL, run_peer, &peers[i]),
		    0);
	for (i = 0; i < N_PEERS; i++)
		cr_assert_eq(pthread_join(peers[i].thread, NULL), 0);
	for (i = 0; i < N_PEERS; i++) {
		cr_assert_null(peers[i].failure, "%s", peers[i].failure);
		cr_assert_eq(peers[i].ret, 0);
		received += peers[i].received;
		sum += peers[i].sum;
		cr_assert_eq(dfi_target_close(peers[i].target), 0);
	}
	cr_assert_eq(received, (uint64_t)N_PEERS * N_EACH);
	cr_assert_eq(sum, (uint64_t)N_PEERS * N_EACH * (N_EACH - 1) / 2);
}

/* Groups. */

enum {
	N_FLOWS = 3,
	PER_SOURCE = 3000,
};

static const char *const flows[N_FLOWS] = { "f0", "f1", "f2" };

static struct dfi_target_group *open_group(uint32_t flags, uint32_t wait)
{
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_group *group = NULL;

	attr.flags = flags;
	attr.wait = wait;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_group_open(rig.dfi, &attr, &group), 0, "%s",
	    dfi_errmsg());
	return group;
}

struct sender {
	pthread_t thread;
	struct dfi_source *source;
	uint32_t flow;
	int ret;
};

static void *send_all(void *arg)
{
	struct sender *sender = arg;
	struct kv kv = { 0, sender->flow };

	sender->ret = 0;
	for (; !sender->ret && kv.key < PER_SOURCE; kv.key++)
		sender->ret = dfi_source_push(sender->source, &kv);
	if (!sender->ret)
		sender->ret = dfi_source_close(sender->source);
	return NULL;
}

/* The next batch; waits with the group's descriptor if it has one. */
static int next_batch(
    struct dfi_target_group *group, struct dfi_target_group_batch *batch)
{
	int ret;

	while ((ret = dfi_target_group_consume_batch(group, batch)) == -EAGAIN)
		cr_assert(is_readable(dfi_target_group_fd(group), LONG_MS),
		    "a wake-up was lost");
	return ret;
}

static void group_consumes_all(uint32_t flags, uint32_t wait)
{
	struct dfi_target_group *group = open_group(flags, wait);
	uint64_t n[N_FLOWS] = { 0 };
	struct dfi_target_group_batch batch;
	struct dfi_target *targets[N_FLOWS];
	struct sender senders[N_FLOWS];
	const struct kv *kv;
	uint32_t i;
	int ret;

	if (flags)
		cr_assert_geq(dfi_target_group_fd(group), 0);
	for (i = 0; i < N_FLOWS; i++) {
		create_kv_flow(rig.dfi, flows[i], 1, 1, 4, 4);
		targets[i] = open_target(
		    i ? rig.dfi : rig.other, flows[i], 0, 0);
		cr_assert_eq(dfi_target_group_add(group, targets[i], &n[i]), 0);
		senders[i] = (struct sender){
			.flow = i,
			.source = open_source(rig.other, flows[i], 0, 0),
		};
	}
	for (i = 0; i < N_FLOWS; i++)
		cr_assert_eq(pthread_create(&senders[i].thread, NULL, send_all,
				 &senders[i]),
		    0);
	while ((ret = next_batch(group, &batch)) > 0) {
		kv = batch.batch.tuples;
		cr_assert_lt(kv->val, N_FLOWS);
		cr_assert_str_eq(batch.flow, flows[kv->val]);
		cr_assert_eq(batch.target, targets[kv->val]);
		cr_assert_eq(batch.arg, &n[kv->val]);
		cr_assert_eq(batch.index, 0);
		cr_assert_eq(batch.batch.source, 0);
		cr_assert_eq(kv->key, n[kv->val]);
		n[kv->val] += batch.batch.count;
		dfi_target_group_release(group, &batch);
		cr_assert_null(batch.target);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	for (i = 0; i < N_FLOWS; i++) {
		cr_assert_eq(pthread_join(senders[i].thread, NULL), 0);
		cr_assert_eq(senders[i].ret, 0);
		cr_assert_eq(n[i], PER_SOURCE);
		cr_assert_eq(dfi_target_close(targets[i]), 0);
		cr_assert_eq(dfi_flow_remove(rig.dfi, flows[i]), 0);
	}
	cr_assert_eq(dfi_target_group_close(group), 0);
}

Test(group, consumes_from_all_of_its_targets)
{
	group_consumes_all(0, DFI_WAIT_ADAPTIVE);
	group_consumes_all(0, DFI_WAIT_BLOCK);
	group_consumes_all(0, DFI_WAIT_SPIN);
	group_consumes_all(DFI_NONBLOCK, DFI_WAIT_DEFAULT);
}

/* One target always has tuples, and the other's tuple comes soon as well. */
Test(group, is_fair)
{
	struct dfi_target_group *group = open_group(0, 0);
	struct dfi_target_group_batch batch;
	struct dfi_source *sources[2];
	struct dfi_target *targets[2];
	struct kv kv = { 0, 0 };
	uint32_t i, n;

	for (i = 0; i < 2; i++) {
		create_kv_flow(rig.dfi, flows[i], 1, 1, 1, 64);
		targets[i] = open_target(rig.other, flows[i], 0, 0);
		sources[i] = open_source(rig.dfi, flows[i], 0, 0);
		cr_assert_eq(dfi_target_group_add(group, targets[i], NULL), 0);
	}
	for (i = 0; i < 40; i++)
		cr_assert_eq(dfi_source_push(sources[0], &kv), 0);
	cr_assert_eq(dfi_source_push(sources[1], &kv), 0);
	cr_assert_eq(dfi_source_close(sources[0]), 0);
	cr_assert_eq(dfi_source_close(sources[1]), 0);
	for (n = 0; n < 41; n++) {
		cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 1);
		if (batch.target == targets[1])
			break;
		dfi_target_group_release(group, &batch);
	}
	cr_assert_leq(n, 16);
	dfi_target_group_release(group, &batch);
	cr_assert_eq(dfi_target_group_close(group), 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_target_close(targets[i]), 0);
}

Test(group, says_whose_error_it_is_and_goes_on_with_the_others)
{
	struct dfi_target_group *group = open_group(0, 0);
	struct dfi_target_group_batch batch;
	struct dfi_source *sources[2];
	struct dfi_target *targets[2];
	struct kv kv = { 0, 0 };
	uint32_t i;

	for (i = 0; i < 2; i++) {
		create_kv_flow(rig.dfi, flows[i], 1, 1, 1, 64);
		targets[i] = open_target(rig.other, flows[i], 0, 0);
		sources[i] = open_source(rig.dfi, flows[i], 0, 0);
		cr_assert_eq(
		    dfi_target_group_add(group, targets[i], &sources[i]), 0);
	}
	dfi_source_abort(sources[0]);
	cr_assert_eq(dfi_source_close(sources[0]), -ECANCELED);
	assert_error(dfi_target_group_consume_batch(group, &batch), -ECANCELED,
	    "flow 'f0'", "source 0", "aborted");
	cr_assert_eq(batch.target, targets[0]);
	cr_assert_eq(batch.arg, &sources[0]);
	cr_assert_eq(dfi_source_push(sources[1], &kv), 0);
	cr_assert_eq(dfi_source_close(sources[1]), 0);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 1);
	cr_assert_eq(batch.target, targets[1]);
	assert_error(
	    dfi_target_group_consume_batch(group, &batch), -EBUSY, "batch");
	/* It still says what is out. */
	cr_assert_eq(batch.target, targets[1]);
	/* Closing the group releases lent batches. */
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(dfi_target_close(targets[0]), -ECANCELED);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
}

/* Another thread aborts a target while its batch is out. */
Test(group, goes_on_after_an_abort_of_the_target_whose_batch_is_out)
{
	struct dfi_target_group *group = open_group(0, 0);
	struct dfi_target_group_batch batch;
	struct dfi_source *sources[2];
	struct dfi_target *targets[2];
	struct kv kv = { 0, 0 };
	uint32_t i;

	for (i = 0; i < 2; i++) {
		create_kv_flow(rig.dfi, flows[i], 1, 1, 1, 64);
		targets[i] = open_target(rig.other, flows[i], 0, 0);
		sources[i] = open_source(rig.dfi, flows[i], 0, 0);
		cr_assert_eq(dfi_target_group_add(group, targets[i], NULL), 0);
	}
	cr_assert_eq(dfi_source_push(sources[0], &kv), 0);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 1);
	cr_assert_eq(batch.target, targets[0]);
	dfi_target_abort(targets[0]);
	dfi_target_group_release(group, &batch);
	cr_assert_null(batch.target);
	cr_assert_eq(dfi_source_push(sources[1], &kv), 0);
	assert_error(dfi_target_group_consume_batch(group, &batch), -ECANCELED,
	    "target 0", "aborted");
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 1);
	cr_assert_eq(batch.target, targets[1]);
	dfi_target_group_release(group, &batch);
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(dfi_target_close(targets[0]), -ECANCELED);
	cr_assert_eq(dfi_source_close(sources[0]), -ECONNRESET);
	cr_assert_eq(dfi_source_close(sources[1]), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
}

Test(group, knows_its_members)
{
	struct dfi_target_group *group = open_group(DFI_NONBLOCK, 0);
	struct dfi_target_group *second = open_group(0, 0);
	struct dfi_target_group_batch batch;

	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 0);
	open_both(4, 4);
	cr_assert_eq(dfi_target_group_add(group, target, NULL), 0);
	assert_error(dfi_target_group_add(second, target, NULL), -EBUSY,
	    "target 0", "in a group");
	assert_error(dfi_target_fd(target), -EBUSY, "dfi_target_group_fd");
	assert_error(dfi_target_group_remove(second, target), -ENOENT, "group");
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), -EAGAIN);
	cr_assert_eq(dfi_target_group_remove(group, target), 0);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 0);
	cr_assert_geq(dfi_target_fd(target), 0);
	assert_error(
	    dfi_target_group_add(second, target, NULL), -EBUSY, "descriptor");
	close_both();
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	open_both(4, 4);
	cr_assert_eq(dfi_target_group_add(group, target, NULL), 0);
	close_both();
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 0);
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(dfi_target_group_close(second), 0);
}

/* Each end once, behind the target's tuples, and then that of all. */
static void group_reports_ends(uint32_t flags)
{
	struct dfi_target_group *group = open_group(flags | DFI_TELL_ENDS, 0);
	struct dfi_target_group_batch batch;
	struct dfi_source *sources[2];
	struct dfi_target *targets[2];
	struct kv kv = { 0, 0 };
	uint32_t i;
	int ret;

	for (i = 0; i < 2; i++) {
		create_kv_flow(rig.dfi, flows[i], 1, 1, 1, 64);
		targets[i] = open_target(rig.other, flows[i], 0, 0);
		sources[i] = open_source(rig.dfi, flows[i], 0, 0);
		cr_assert_eq(
		    dfi_target_group_add(group, targets[i], &sources[i]), 0);
	}
	for (i = 2; i-- > 0;) {
		cr_assert_eq(dfi_source_push(sources[i], &kv), 0);
		cr_assert_eq(dfi_source_close(sources[i]), 0);
		do {
			ret = dfi_target_group_consume_batch(group, &batch);
		} while (ret == -EAGAIN);
		cr_assert_eq(ret, 1, "%s", dfi_errmsg());
		dfi_target_group_release(group, &batch);
		do {
			ret = dfi_target_group_consume_batch(group, &batch);
		} while (ret == -EAGAIN);
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
		cr_assert_eq(batch.target, targets[i]);
		cr_assert_eq(batch.arg, &sources[i]);
		cr_assert_str_eq(batch.flow, flows[i]);
		cr_assert_eq(batch.batch.count, 0);
		dfi_target_group_release(group, &batch);
		cr_assert_eq(batch.target, targets[i]);
	}
	for (i = 0; i < 2; i++) {
		cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 0);
		cr_assert_null(batch.target);
	}
	cr_assert_eq(dfi_target_group_close(group), 0);
	for (i = 0; i < 2; i++) {
		cr_assert_eq(dfi_target_close(targets[i]), 0);
		cr_assert_eq(dfi_flow_remove(rig.dfi, flows[i]), 0);
	}
}

Test(group, reports_which_of_its_targets_has_ended)
{
	group_reports_ends(0);
	group_reports_ends(DFI_NONBLOCK);
}

Test(group, has_timeouts)
{
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_group_batch batch;
	struct dfi_target_group *group;
	struct dfi_target *first;

	/* Where RDMA is used, its start takes longer than the timeouts here. */
	create_kv_flow(rig.dfi, "first", 1, 1, 4, 4);
	first = open_target(rig.other, "first", 0, 0);
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	attr.stall_timeout_ms = 2 * SHORT_MS;
	cr_assert_eq(dfi_target_group_open(rig.dfi, &attr, &group), 0);
	target_attr.open_timeout_ms = SHORT_MS;
	cr_assert_eq(dfi_target_open(rig.other, "f", 0, &target_attr, &target),
	    0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_group_add(group, target, NULL), 0);
	assert_error(dfi_target_group_consume_batch(group, &batch), -ETIMEDOUT,
	    "flow 'f'", "source 0 of 1");
	cr_assert_eq(batch.target, target);
	source = open_source(rig.dfi, "f", 0, 0);
	assert_error(dfi_target_group_consume_batch(group, &batch), -ETIMEDOUT,
	    "group of 1", "10000 ms");
	cr_assert_null(batch.target);
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(dfi_target_close(first), 0);
	close_both();
}

/* ---- Polls of many sources --------------------------------------------- */

#define MANY 40

TestSuite(poll_of_many, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_source *many[MANY];

static void open_many(void)
{
	uint32_t i;

	create_kv_flow(rig.dfi, "f", MANY, 1, 4, 4);
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	for (i = 0; i < MANY; i++)
		many[i] = open_source(rig.dfi, "f", i, DFI_NONBLOCK);
}

static int poll_once(void)
{
	const void *tuple;

	return dfi_target_consume(target, &tuple);
}

static bool ends(void *arg)
{
	*(int *)arg = poll_once();
	return *(int *)arg != -EAGAIN;
}

/* The end of the last source comes long after the others. */
Test(poll_of_many, finds_the_end_of_each)
{
	struct kv kv = { 1, 1 };
	const void *tuple;
	uint32_t i;
	int ret;

	open_many();
	cr_assert_eq(poll_once(), -EAGAIN);
	for (i = 0; i < MANY; i++) {
		cr_assert_eq(dfi_source_push(many[i], &kv), 0);
		if (i)
			cr_assert_eq(dfi_source_close(many[i]), 0);
	}
	cr_assert_eq(dfi_source_flush(many[0]), 0);
	for (i = 0; i < MANY; i++)
		cr_assert_eq(
		    consume_soon(target, &tuple), 1, "%u: %s", i, dfi_errmsg());
	for (i = 0; i < 1000; i++)
		cr_assert_eq(poll_once(), -EAGAIN);
	cr_assert_eq(dfi_source_close(many[0]), 0);
	cr_assert(eventually(ends, &ret));
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(poll_of_many, finds_that_one_has_aborted)
{
	uint32_t i;
	int ret;

	open_many();
	for (i = 0; i < 1000; i++)
		cr_assert_eq(poll_once(), -EAGAIN);
	dfi_source_abort(many[MANY - 1]);
	cr_assert_eq(dfi_source_close(many[MANY - 1]), -ECANCELED);
	cr_assert(eventually(ends, &ret));
	assert_error(ret, -ECANCELED, "source 39", "aborted");
	for (i = 0; i < MANY - 1; i++)
		cr_assert_eq(dfi_source_close(many[i]), 0);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}
