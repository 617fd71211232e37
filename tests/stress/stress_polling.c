/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources and targets that wait in poll() only, on descriptors, with rings of
 * two segments, so that each tuple may need a wake-up in either direction. The
 * timer that hides lost wake-ups is set to an hour, so a single lost one shows.
 * Half of the targets are in groups, half of the polling is edge-triggered.
 *
 * stress_polling [WAKEUPS]: goes on until each waiter was woken so often.
 */
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/notify.h"
#include "stress_help.h"

#define N_FLOWS 2
#define WAKEUPS 20000

struct kv {
	uint64_t key, val;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct kv, key),
	DFI_FIELD(struct kv, val),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct kv, fields);

static const char *address;
static uint64_t wakeups = WAKEUPS;

struct flow {
	char name[16];
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_target_group *group; /* NULL: polled for itself */
	_Atomic bool enough;            /* the target was woken so often */
	uint64_t source_wakeups, target_wakeups;
	_Atomic uint64_t sent;
};

static int add_to_epoll(int fd, bool edge)
{
	struct epoll_event event = {
		.events = EPOLLIN | (edge ? EPOLLET : 0),
	};
	int epoll = epoll_create1(0);

	check(epoll >= 0, "epoll_create1");
	check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
	return epoll;
}

static void sleep_on(int epoll, const char *who)
{
	struct epoll_event event;
	int n;

	do
		n = epoll_wait(epoll, &event, 1, LONG_MS);
	while (n < 0 && errno == EINTR);
	check(n == 1, "a wake-up of the %s was lost", who);
}

static void *run_source(void *arg)
{
	struct flow *flow = arg;
	struct rng rng = { .state = (uintptr_t)flow };
	int epoll = add_to_epoll(
	    dfi_source_fd(flow->source), rng_below(&rng, 2));
	struct kv kv = { 0, 0 };
	int ret;

	while (!atomic_load(&flow->enough) || flow->source_wakeups < wakeups) {
		/* A tuple that was refused is pushed again, or close fails. */
		while ((ret = dfi_source_push(flow->source, &kv)) == -EAGAIN) {
			sleep_on(epoll, "source");
			flow->source_wakeups++;
		}
		check(ret == 0, "push: %d", ret);
		kv.key++;
		rng_yield(&rng, 4);
	}
	atomic_store(&flow->sent, kv.key);
	check(dfi_source_close(flow->source) == 0, "close");
	close(epoll);
	return NULL;
}

/* One tuple, by the group or the target: as dfi_target_consume(). */
static int consume(struct flow *flow, uint64_t *key)
{
	struct dfi_target_group_batch batch;
	const struct kv *kv;
	const void *tuple;
	int ret;

	if (!flow->group) {
		ret = dfi_target_consume(flow->target, &tuple);
		if (ret > 0)
			*key = ((const struct kv *)tuple)->key;
		return ret;
	}
	ret = dfi_target_group_consume_batch(flow->group, &batch);
	if (ret > 0) {
		check(ret == 1, "%d tuples", ret);
		kv = batch.batch.tuples;
		*key = kv->key;
		dfi_target_group_release(flow->group, &batch);
	}
	return ret;
}

static void *run_target(void *arg)
{
	struct flow *flow = arg;
	struct rng rng = { .state = ~(uintptr_t)flow };
	int fd = flow->group ? dfi_target_group_fd(flow->group)
			     : dfi_target_fd(flow->target);
	int epoll = add_to_epoll(fd, rng_below(&rng, 2));
	uint64_t key, n = 0;
	int ret;

	while ((ret = consume(flow, &key)) != 0) {
		if (ret == -EAGAIN) {
			sleep_on(epoll, "target");
			if (++flow->target_wakeups == wakeups)
				atomic_store(&flow->enough, true);
			continue;
		}
		check(ret == 1, "consume: %d", ret);
		check(key == n, "tuple %lu is %lu", (unsigned long)n,
		    (unsigned long)key);
		n++;
		rng_yield(&rng, 4);
	}
	check(n == atomic_load(&flow->sent), "%lu of %lu tuples",
	    (unsigned long)n, (unsigned long)atomic_load(&flow->sent));
	if (flow->group)
		check(dfi_target_group_close(flow->group) == 0, "group");
	check(dfi_target_close(flow->target) == 0, "close");
	close(epoll);
	return NULL;
}

static void open_flow(
    struct flow *flow, uint32_t number, struct dfi *from, struct dfi *to)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = 1,
		.n_targets = 1,
		.segment_size = sizeof(struct kv),
		.segment_count = 2,
	};
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target_group_attr group_attr = DFI_TARGET_GROUP_ATTR_INIT;

	source_attr.flags = DFI_NONBLOCK;
	target_attr.flags = group_attr.flags = DFI_NONBLOCK;
	snprintf(flow->name, sizeof(flow->name), "flow-%u", number);
	check(dfi_flow_create(from, flow->name, &attr) == 0, "create");
	check(dfi_target_open(to, flow->name, 0, &target_attr, &flow->target) ==
		0,
	    "target");
	check(dfi_source_open(
		  from, flow->name, 0, &source_attr, &flow->source) == 0,
	    "source");
	if (number % 2 == 0)
		return;
	check(
	    dfi_target_group_open(to, &group_attr, &flow->group) == 0, "group");
	check(
	    dfi_target_group_add(flow->group, flow->target, NULL) == 0, "add");
}

int main(int argc, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	pthread_t threads[2 * N_FLOWS];
	struct dfi_registry *registry;
	static struct flow flows[N_FLOWS];
	struct dfi *from, *to;
	uint32_t i;

	if (argc > 1)
		wakeups = strtoull(argv[1], NULL, 0);
	dfi__notify_longest_ns = INT64_C(3600000000000);
	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	address = dfi_registry_address(registry);
	attr.registry = address;
	check(dfi_open(&attr, &from) == 0 && dfi_open(&attr, &to) == 0, "open");
	for (i = 0; i < N_FLOWS; i++)
		open_flow(&flows[i], i, from, to);
	for (i = 0; i < N_FLOWS; i++) {
		threads[2 * i] = start_thread(run_source, &flows[i]);
		threads[2 * i + 1] = start_thread(run_target, &flows[i]);
	}
	for (i = 0; i < 2 * N_FLOWS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < N_FLOWS; i++)
		printf("%s: the source was woken %lu times, the target %lu\n",
		    flows[i].name, (unsigned long)flows[i].source_wakeups,
		    (unsigned long)flows[i].target_wakeups);
	check(dfi_close(from) == 0 && dfi_close(to) == 0, "close");
	check(dfi_registry_stop(registry) == 0, "stop");
	return EXIT_SUCCESS;
}
