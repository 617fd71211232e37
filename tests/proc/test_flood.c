/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three strangers connect at full speed to a socket of a registry, or of a
 * process. Honest processes are served meanwhile, and the victim's use of
 * resources is bounded. DFI_TEST_FLOOD_SECONDS: for how long.
 * DFI_TEST_FLOOD_P99_MS: the most milliseconds that 99 of 100 opens may take. A
 * limit is for a quiet machine, so only scripts/soak sets it. Without it an
 * open fails at its time-out.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <dfi/dfi.h>
#include "spawn.h"

#define STRANGERS 3
#define OPENS_MAX 100000
/* Places of pending authentications, and other open descriptors. */
#define DESCRIPTORS_MAX (1024 + 256 + 64)

struct number {
	uint64_t value;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct number, value) };
static const struct dfi_schema schema = DFI_SCHEMA(struct number, fields);

static struct child registry, strangers[STRANGERS];
static double times[OPENS_MAX];
static size_t n_times;

static void setup(void)
{
	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0)
		cr_skip_test("the programs were not built");
}

TestSuite(flood, .init = setup, .timeout = 300);

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double end_of_flood(void)
{
	const char *seconds = getenv("DFI_TEST_FLOOD_SECONDS");

	return now() + (seconds ? atof(seconds) : 2);
}

static void begin_flood(const char *address, const char *mode)
{
	int i;

	for (i = 0; i < STRANGERS; i++)
		child_spawn(&strangers[i], DFI_FLOOD, address, mode, NULL);
}

static void end_flood(void)
{
	int i;

	for (i = 0; i < STRANGERS; i++) {
		child_signal(&strangers[i], SIGKILL);
		cr_assert_eq(child_wait(&strangers[i]), 128 + SIGKILL);
	}
}

static unsigned count_descriptors_of(pid_t pid)
{
	unsigned n = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Returns the 99th percentile, in ms. */
static double report_times(const char *what)
{
	double p99;

	qsort(times, n_times, sizeof(times[0]), compare);
	p99 = times[n_times * 99 / 100] * 1e3;
	printf("%s: %zu, median %.1f ms, 99th percentile %.1f ms, worst %.1f "
	       "ms\n",
	    what, n_times, times[n_times / 2] * 1e3, p99,
	    times[n_times - 1] * 1e3);
	n_times = 0;
	return p99;
}

/* Honest processes come and go. */
static void open_under_flood(const char *address, const char *mode)
{
	const char *limit_ms = getenv("DFI_TEST_FLOOD_P99_MS");
	double end = end_of_flood(), start, p99;
	struct dfi *dfi;
	unsigned n, most = 0;

	begin_flood(address, mode);
	do {
		start = now();
		cr_assert_eq(dfi_open(NULL, &dfi), 0, "%s", dfi_errmsg());
		times[n_times++] = now() - start;
		cr_assert_eq(dfi_close(dfi), 0);
		n = count_descriptors_of(registry.pid);
		most = n > most ? n : most;
	} while (now() < end && n_times < OPENS_MAX);
	end_flood();
	p99 = report_times(mode);
	cr_assert_leq(most, DESCRIPTORS_MAX);
	if (limit_ms)
		cr_assert_leq(p99, atof(limit_ms), "%s: %.1f ms", mode, p99);
}

static void end_registry(void)
{
	child_signal(&registry, SIGTERM);
	cr_assert_eq(child_wait(&registry), 0);
}

Test(flood, of_an_abstract_socket_leaves_honest_processes_room)
{
	child_spawn_registry(&registry, NULL);
	setenv("DFI_REGISTRY", registry.line, 1);
	open_under_flood(registry.line, "close");
	open_under_flood(registry.line, "keep");
	end_registry();
}

static char directory[] = "/tmp/dfi-test-XXXXXX";
static char key[64];

static void remove_key(void)
{
	unlink(key);
	rmdir(directory);
}

Test(flood, of_a_socket_with_tls_leaves_honest_processes_room)
{
	char address[32];

	cr_assert_not_null(mkdtemp(directory));
	snprintf(key, sizeof(key), "%s/key", directory);
	atexit(remove_key);
	cr_assert_eq(dfi_registry_key_create(key), 0);
	child_spawn(&registry, "/usr/bin/setpriv", "--pdeathsig", "KILL",
	    DFI_BIN_DIR "/dfi-registry", "--print-address", "--listen",
	    "tcp:127.0.0.1:0", "--key", key, NULL);
	cr_assert(child_read(&registry));
	setenv("DFI_REGISTRY", registry.line, 1);
	setenv("DFI_REGISTRY_KEY", key, 1);
	snprintf(address, sizeof(address), "tcp:%s",
	    strrchr(registry.line, ':') + 1);
	open_under_flood(address, "close");
	open_under_flood(address, "keep");
	open_under_flood(address, "begin");
	end_registry();
}

/* The name of this process's socket for passing regions. */
static void find_own_socket(char address[128])
{
	FILE *file = fopen("/proc/net/unix", "r");
	char line[512], begin[32];
	const char *name = NULL;

	snprintf(begin, sizeof(begin), " @dfi-%d-", (int)getpid());
	cr_assert_not_null(file);
	while (!name && fgets(line, sizeof(line), file))
		name = strstr(line, begin);
	fclose(file);
	cr_assert_not_null(name);
	snprintf(address, 128, "packets:%.*s", (int)strcspn(name + 1, "\n"),
	    name + 1);
}

/* Whether dfi-info gets the flow's counters; line has what it says otherwise.
 */
static bool stat_counts(char line[sizeof(registry.line)])
{
	struct child stat;
	bool counted = false, quiet = false;

	child_spawn(&stat, DFI_BIN_DIR "/dfi-info", "stat", NULL);
	while (child_read(&stat)) {
		if (strstr(stat.line, "no counters")) {
			quiet = true;
			strcpy(line, stat.line);
		}
		counted |= strstr(stat.line, "numbers") != NULL;
	}
	cr_assert_eq(child_wait(&stat), 0);
	cr_assert(quiet || counted);
	return counted;
}

/* A busy machine may need several tries; their times add up. */
static void expect_stat(void)
{
	char line[sizeof(registry.line)];
	double start = now();

	while (!stat_counts(line))
		cr_assert_leq(now(), start + 30, "%s", line);
	times[n_times++] = now() - start;
}

Test(flood, of_a_process_leaves_its_flow_its_lease_and_its_report)
{
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *target;
	char address[128];
	struct number number = { 0 };
	const void *tuple;
	struct dfi *dfi;
	double end;

	child_spawn_registry(&registry, NULL);
	setenv("DFI_REGISTRY", registry.line, 1);
	attr.lease_ttl_ms = 1000;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	flow.kind = DFI_SHUFFLE;
	flow.schema = &schema;
	flow.n_sources = flow.n_targets = 1;
	cr_assert_eq(dfi_flow_create(dfi, "numbers", &flow), 0);
	cr_assert_eq(dfi_target_open(dfi, "numbers", 0, NULL, &target), 0);
	cr_assert_eq(dfi_source_open(dfi, "numbers", 0, NULL, &source), 0);
	find_own_socket(address);
	end = end_of_flood();
	begin_flood(address, "close");
	do {
		expect_stat();
		number.value++;
		cr_assert_eq(
		    dfi_source_push(source, &number), 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_source_flush(source), 0);
		cr_assert_eq(
		    dfi_target_consume(target, &tuple), 1, "%s", dfi_errmsg());
		cr_assert_leq(count_descriptors_of(getpid()), DESCRIPTORS_MAX);
	} while (now() < end && n_times < OPENS_MAX);
	end_flood();
	report_times("dfi-info stat");
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	end_registry();
}
