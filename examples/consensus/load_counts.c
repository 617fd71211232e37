/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Costs of other processes. Their clocks give processor time. Instructions need
 * a processor and a kernel that count them, which virtual machines often lack;
 * then there is only the time.
 */
#include "load_counts.h"

#include <dirent.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "../../common/usage.h"

int load_counts_add_process(
    struct load_counts *counts, const char *role, pid_t pid)
{
	struct load_count *count = &counts->counts[counts->n];

	if (counts->n == LOAD_MAX_COUNTS || pid <= 0 ||
	    strlen(role) >= sizeof(count->role) || !*role)
		return -1;
	*count = (struct load_count){ .pid = pid };
	memcpy(count->role, role, strlen(role));
	counts->n++;
	return 0;
}

int load_counts_add(struct load_counts *counts, const char *text)
{
	const char *equals = strchr(text, '=');
	char role[sizeof(counts->counts->role)];
	uint64_t pid;

	if (!equals || (size_t)(equals - text) >= sizeof(role))
		return -1;
	memcpy(role, text, (size_t)(equals - text));
	role[equals - text] = '\0';
	if (!number_read(equals + 1, 1, INT32_MAX, &pid))
		return -1;
	return load_counts_add_process(counts, role, (pid_t)pid);
}

/* Processor time of a process so far. 0, or -1: it has ended. */
static int cpu_of(pid_t pid, uint64_t *ns)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &time))
		return -1;
	*ns = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
	return 0;
}

static int open_event(pid_t thread)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return (int)syscall(
	    SYS_perf_event_open, &attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/*
 * Count the instructions of each thread of a process. Returns whether that is
 * possible.
 */
static bool open_events(struct load_count *count)
{
	struct dirent *entry;
	char path[64];
	bool all = true;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)count->pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while (all && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		fd = count->n_fds < LOAD_MAX_THREADS
		    ? open_event((pid_t)atoi(entry->d_name))
		    : -1;
		if (fd < 0)
			all = false;
		else
			count->fds[count->n_fds++] = fd;
	}
	closedir(dir);
	return all && count->n_fds > 0;
}

/* Add up what the events have counted, and close them. */
static uint64_t close_events(struct load_count *count)
{
	uint64_t sum = 0, value;

	while (count->n_fds > 0) {
		int fd = count->fds[--count->n_fds];

		if (read(fd, &value, sizeof(value)) == sizeof(value))
			sum += value;
		close(fd);
	}
	return sum;
}

void load_counts_begin(struct load_counts *counts)
{
	uint32_t i;

	counts->has_instructions = counts->n > 0;
	for (i = 0; i < counts->n; i++) {
		struct load_count *count = &counts->counts[i];

		count->ended = cpu_of(count->pid, &count->begin_ns) != 0;
		count->cpu_ns = count->instructions = 0;
		if (counts->has_instructions && !open_events(count))
			counts->has_instructions = false;
	}
}

void load_counts_end(struct load_counts *counts)
{
	uint64_t now;
	uint32_t i;

	for (i = 0; i < counts->n; i++) {
		struct load_count *count = &counts->counts[i];

		count->instructions = close_events(count);
		if (!counts->has_instructions)
			count->instructions = 0;
		if (count->ended || cpu_of(count->pid, &now))
			count->ended = true;
		else
			count->cpu_ns = now - count->begin_ns;
	}
}

bool load_counts_mean(const struct load_counts *counts, uint32_t i,
    struct load_count *mean, uint32_t *processes)
{
	const char *role = counts->counts[i].role;
	bool all = true;
	uint32_t k;

	*mean = counts->counts[i];
	*processes = 0;
	mean->cpu_ns = mean->instructions = 0;
	for (k = 0; k < counts->n; k++) {
		const struct load_count *count = &counts->counts[k];

		if (strcmp(count->role, role) != 0)
			continue;
		if (k < i)
			return false;
		++*processes;
		mean->cpu_ns += count->cpu_ns;
		mean->instructions += count->instructions;
		all = all && !count->ended;
	}
	mean->cpu_ns /= *processes;
	mean->instructions /= *processes;
	return all;
}
