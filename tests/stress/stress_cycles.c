/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stress_cycles [N]: create a flow, attach two sources and two targets from two
 * contexts, send some tuples, close all and remove the flow, N (1000) times.
 * Afterwards there are as many descriptors, threads, mappings and bytes of
 * memory as after the first tenth of the cycles. Every tenth cycle, one context
 * is closed and opened again. Sanitizers keep freed memory, so with them memory
 * is not compared.
 */
#include <ctype.h>
#include <dirent.h>
#include <malloc.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"
#include "stress_help.h"

#define N_ENDS 2
#define N_TUPLES 50

/* The rounding of the allocator and the kernel. */
#define SLACK_BYTES (256u * 1024)
#define SLACK_MAPPINGS 4

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COMPARES_MEMORY 0
#else
#define COMPARES_MEMORY 1
#endif

struct kv {
	uint64_t key, val;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct kv, key),
	DFI_FIELD(struct kv, val),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct kv, fields);

static const char *address;
static struct dfi *contexts[2];

/* What a process holds. */
struct holdings {
	unsigned descriptors, threads, mappings;
	uint64_t allocated, resident; /* bytes */
};

static unsigned count_entries(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	check(dir != NULL, "%s", path);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* The lines of a file of this process; value: the number behind a key. */
static unsigned count_lines(const char *path, const char *key, uint64_t *value)
{
	FILE *file = fopen(path, "re");
	char line[1024];
	unsigned n = 0;

	check(file != NULL, "%s", path);
	while (fgets(line, sizeof(line), file)) {
		n++;
		if (key && strncmp(line, key, strlen(key)) == 0)
			*value = strtoull(line + strlen(key), NULL, 10);
	}
	fclose(file);
	return n;
}

static struct holdings look(void)
{
	struct holdings now = { .resident = 0 };

	malloc_trim(0);
	now.descriptors = count_entries("/proc/self/fd");
	now.threads = count_entries("/proc/self/task");
	now.mappings = count_lines("/proc/self/maps", NULL, NULL);
	count_lines("/proc/self/status", "VmRSS:", &now.resident);
	now.resident *= 1024;
	now.allocated = mallinfo2().uordblks + mallinfo2().hblkhd;
	return now;
}

/* A thread that was joined may still be listed for a moment. */
static struct holdings look_when_threads_are(unsigned threads)
{
	struct holdings now = look();
	int64_t wait_limit = deadline_in_ms(30000);

	while (now.threads != threads && clock_now_ns() < wait_limit) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		now = look();
	}
	return now;
}

static void join(struct dfi **dfi)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	attr.registry = address;
	check(dfi_open(&attr, dfi) == 0, "open: %s", dfi_errmsg());
}

static void open_ends(
    const char *flow, struct dfi_source **sources, struct dfi_target **targets)
{
	uint32_t i;

	for (i = 0; i < N_ENDS; i++)
		check(dfi_target_open(
			  contexts[i], flow, i, NULL, &targets[i]) == 0,
		    "target: %s", dfi_errmsg());
	for (i = 0; i < N_ENDS; i++)
		check(dfi_source_open(
			  contexts[i], flow, i, NULL, &sources[i]) == 0,
		    "source: %s", dfi_errmsg());
}

static void move_tuples(
    struct dfi_source **sources, struct dfi_target **targets)
{
	struct kv kv = { 0, 0 };
	const void *tuple;
	unsigned n = 0;
	uint32_t i;
	int ret;

	for (i = 0; i < N_ENDS; i++) {
		for (kv.key = 0; kv.key < N_TUPLES; kv.key++)
			check(dfi_source_push(sources[i], &kv) == 0, "push");
		check(dfi_source_close(sources[i]) == 0, "close: %s",
		    dfi_errmsg());
	}
	for (i = 0; i < N_ENDS; i++) {
		while ((ret = dfi_target_consume(targets[i], &tuple)) > 0)
			n++;
		check(ret == 0, "consume: %s", dfi_errmsg());
		check(dfi_target_close(targets[i]) == 0, "close");
	}
	check(n == N_ENDS * N_TUPLES, "%u tuples", n);
}

static void cycle(unsigned number)
{
	struct dfi_source *sources[N_ENDS];
	struct dfi_target *targets[N_ENDS];
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = N_ENDS,
		.n_targets = N_ENDS,
	};
	char flow[32];

	snprintf(flow, sizeof(flow), "flow-%u", number);
	check(dfi_flow_create(contexts[0], flow, &attr) == 0, "create: %s",
	    dfi_errmsg());
	open_ends(flow, sources, targets);
	move_tuples(sources, targets);
	check(dfi_flow_remove(contexts[0], flow) == 0, "remove");
	if (number % 10)
		return;
	check(dfi_close(contexts[1]) == 0, "close: %s", dfi_errmsg());
	join(&contexts[1]);
}

static void compare(const struct holdings *before)
{
	struct holdings now = look_when_threads_are(before->threads);

	check(now.descriptors == before->descriptors,
	    "%u descriptors, %u before", now.descriptors, before->descriptors);
	check(now.threads == before->threads, "%u threads, %u before",
	    now.threads, before->threads);
	if (!COMPARES_MEMORY)
		return;
	check(now.mappings <= before->mappings + SLACK_MAPPINGS,
	    "%u mappings, %u before", now.mappings, before->mappings);
	check(now.allocated <= before->allocated + SLACK_BYTES,
	    "%lu bytes allocated, %lu before", (unsigned long)now.allocated,
	    (unsigned long)before->allocated);
	check(now.resident <= before->resident + SLACK_BYTES,
	    "%lu bytes resident, %lu before", (unsigned long)now.resident,
	    (unsigned long)before->resident);
	printf("descriptors %u, threads %u, mappings %u -> %u, allocated %lu "
	       "-> %lu, resident %lu -> %lu\n",
	    now.descriptors, now.threads, before->mappings, now.mappings,
	    (unsigned long)before->allocated, (unsigned long)now.allocated,
	    (unsigned long)before->resident, (unsigned long)now.resident);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1000, i;
	struct dfi_registry *registry;
	struct holdings before;

	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	address = dfi_registry_address(registry);
	join(&contexts[0]);
	join(&contexts[1]);
	for (i = 1; i <= n / 10; i++)
		cycle(i);
	before = look();
	for (; i <= n; i++)
		cycle(i);
	compare(&before);
	check(dfi_close(contexts[0]) == 0, "close");
	check(dfi_close(contexts[1]) == 0, "close");
	check(dfi_registry_stop(registry) == 0, "stop");
	return EXIT_SUCCESS;
}
