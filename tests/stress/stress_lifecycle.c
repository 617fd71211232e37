/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads open and close contexts, flows and endpoints at the same time, on few
 * names so that they meet: taken indexes, removed flows, sources that give up,
 * targets that leave early, opens that time out. Each call must return a code
 * that such a meeting allows. In the end all file descriptors are closed.
 * DFI_TEST_CYCLES: how many contexts and endpoints are opened and closed; by
 * default 1300.
 */
#include <dirent.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "stress_help.h"

#define N_THREADS 4
#define N_CYCLES 1300
#define N_FLOWS 2
#define N_ENDS 2

struct kv {
	uint64_t key, val;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct kv, key),
	DFI_FIELD(struct kv, val),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct kv, fields);

static const char *address;
static struct dfi *shared;
static uint64_t n_cycles = N_CYCLES;
static _Atomic uint64_t n_contexts, n_sources, n_targets; /* opened */

struct actor {
	struct rng rng;
	struct dfi *dfi; /* the shared one or its own */
	char flow[16];
	uint32_t index;
};

/* Whether ret is 0 or one of the codes, which end with 0. */
static bool is_one_of(int ret, const int *codes)
{
	if (ret >= 0)
		return true;
	while (*codes && *codes != ret)
		codes++;
	return *codes != 0;
}

#define check_codes(ret, ...)                                          \
	check(is_one_of((ret), (const int[]){ __VA_ARGS__, 0 }), "%d", \
	    (int)(ret))

static bool over_network(void)
{
	const char *transport = getenv("DFI_TRANSPORT");

	return transport &&
	    (!strcmp(transport, "verbs") || !strcmp(transport, "ofi"));
}

static void create_flow(struct actor *actor)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = N_ENDS,
		.n_targets = N_ENDS,
		.goal = rng_below(&actor->rng, 2),
		.segment_count = 2,
	};

	check_codes(dfi_flow_create(actor->dfi, actor->flow, &attr), -EEXIST);
}

static void use_source(struct actor *actor)
{
	struct dfi_source_attr attr = {
		.size = sizeof(attr),
		.open_timeout_ms = 1 + rng_below(&actor->rng, 30),
		.stall_timeout_ms = 1,
	};
	struct kv kv = { .val = 1 };
	struct dfi_source *source;
	uint32_t i;
	int ret;

	ret = dfi_source_open(
	    actor->dfi, actor->flow, actor->index, &attr, &source);
	check_codes(ret, -EEXIST, -ETIMEDOUT, -ECONNRESET,
	    /* Its process has gone, or doesn't know us yet. */
	    over_network() ? -ECONNREFUSED : -ETIMEDOUT,
	    over_network() ? -EACCES : -ETIMEDOUT);
	if (ret < 0)
		return;
	n_sources++;
	for (i = 0; i < 10 && ret >= 0; i++) {
		kv.key = rng_next(&actor->rng);
		ret = dfi_source_push(source, &kv);
		check_codes(ret, -ETIMEDOUT, -ECONNRESET, -EPIPE);
	}
	if (rng_below(&actor->rng, 4)) {
		check_codes(dfi_source_close(source), -ECONNRESET, -ETIMEDOUT);
		return;
	}
	dfi_source_abort(source);
	check_codes(dfi_source_close(source), -ECONNRESET, -ECANCELED);
}

static void use_target(struct actor *actor)
{
	struct dfi_target_attr attr = {
		.size = sizeof(attr),
		.open_timeout_ms = 1 + rng_below(&actor->rng, 30),
		.stall_timeout_ms = 1 + rng_below(&actor->rng, 30),
	};
	struct dfi_target *target;
	const void *tuple;
	uint32_t i;
	int ret;

	ret = dfi_target_open(
	    actor->dfi, actor->flow, actor->index, &attr, &target);
	check_codes(ret, -EEXIST, -ETIMEDOUT);
	if (ret < 0)
		return;
	n_targets++;
	for (i = 0; i < 40; i++) {
		ret = dfi_target_consume(target, &tuple);
		check_codes(ret, -ETIMEDOUT, -ECONNRESET, -ECANCELED);
		if (ret <= 0)
			break;
	}
	if (!rng_below(&actor->rng, 4))
		check(dfi_target_cancel(target) == 0, "cancel");
	ret = dfi_target_close(target);
	check_codes(ret, -ECONNRESET, -ECANCELED);
}

static int count_flow(void *arg, const struct dfi_flow_info *info)
{
	check(info->n_sources == N_ENDS && info->attached_sources <= N_ENDS &&
		info->attached_targets <= N_ENDS,
	    "flow %s has %u sources", info->name, info->n_sources);
	++*(unsigned *)arg;
	return 0;
}

static int count_node(void *arg, const struct dfi_node_info *info)
{
	(void)info;
	++*(unsigned *)arg;
	return 0;
}

static int count_stats(void *arg, const struct dfi_node_stats *stats)
{
	/* A context that closes meanwhile is not reported. */
	check(stats->error || stats->n_endpoints <= N_THREADS, "%u endpoints",
	    stats->n_endpoints);
	++*(unsigned *)arg;
	return 0;
}

static void look_around(struct actor *actor)
{
	struct dfi_flow_info info;
	unsigned n_flows = 0, n_nodes = 0, n_stats = 0;

	check_codes(dfi_flow_lookup(actor->dfi, actor->flow, &info), -ENOENT);
	check(dfi_flow_list(actor->dfi, count_flow, &n_flows) == 0, "list");
	check(n_flows <= N_FLOWS, "%u flows", n_flows);
	check(dfi_node_list(actor->dfi, count_node, &n_nodes) == 0, "nodes");
	check(n_nodes >= 1 && n_nodes <= N_THREADS + 1, "%u nodes", n_nodes);
	check(dfi_stats_list(actor->dfi, count_stats, &n_stats) == 0, "stats");
	check(n_stats >= 1 && n_stats <= N_THREADS + 1, "%u stats", n_stats);
}

static void act(struct actor *actor)
{
	snprintf(actor->flow, sizeof(actor->flow), "flow-%u",
	    rng_below(&actor->rng, N_FLOWS));
	actor->index = rng_below(&actor->rng, N_ENDS);
	switch (rng_below(&actor->rng, 8)) {
	case 0:
		check_codes(dfi_flow_remove(actor->dfi, actor->flow), -ENOENT);
		break;
	case 1:
		look_around(actor);
		break;
	case 2:
	case 3:
		create_flow(actor);
		break;
	case 4:
	case 5:
		use_source(actor);
		break;
	default:
		use_target(actor);
	}
}

static void *run_actor(void *arg)
{
	struct actor *actor = arg;
	struct dfi_attr attr = DFI_ATTR_INIT;
	uint32_t i;

	attr.registry = address;
	while (n_contexts + n_sources + n_targets < n_cycles) {
		actor->dfi = shared;
		if (rng_below(&actor->rng, 2)) {
			check(dfi_open(&attr, &actor->dfi) == 0, "open");
			n_contexts++;
		}
		for (i = 0; i < 5; i++)
			act(actor);
		if (actor->dfi != shared)
			check(dfi_close(actor->dfi) == 0, "close");
	}
	return NULL;
}

static int count_device(void *arg, const struct dfi_device_info *info)
{
	(void)arg;
	(void)info;
	return 0;
}

static unsigned count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	check(dir != NULL, "/proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

int main(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct actor actors[N_THREADS];
	pthread_t threads[N_THREADS];
	struct dfi_registry *registry;
	const char *cycles = getenv("DFI_TEST_CYCLES");
	unsigned before, i;

	if (cycles && *cycles)
		n_cycles = strtoull(cycles, NULL, 0);
	/* librdmacm keeps the devices open that it has seen. */
	if (getenv("DFI_TEST_DEVICE"))
		check(dfi_device_list(count_device, NULL) == 0, "devices");
	before = count_descriptors();
	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	address = dfi_registry_address(registry);
	attr.registry = address;
	check(dfi_open(&attr, &shared) == 0, "open");
	for (i = 0; i < N_THREADS; i++) {
		actors[i] = (struct actor){ .rng.state = i };
		threads[i] = start_thread(run_actor, &actors[i]);
	}
	for (i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	check(dfi_close(shared) == 0, "close");
	check(dfi_registry_stop(registry) == 0, "stop");
	printf("%lu contexts, %lu sources and %lu targets were opened\n",
	    (unsigned long)n_contexts, (unsigned long)n_sources,
	    (unsigned long)n_targets);
	check(count_descriptors() == before, "%u descriptors, %u before",
	    count_descriptors(), before);
	return EXIT_SUCCESS;
}
