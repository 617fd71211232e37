/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of processes between two moments: processor time, and instructions
 * where the kernel counts them.
 */
#ifndef KV_LOAD_COUNTS_H
#define KV_LOAD_COUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LOAD_MAX_COUNTS 16
#define LOAD_MAX_THREADS 64 /* of a process with counters */

struct load_count {
	char role[16];
	pid_t pid;
	bool ended;      /* before the second moment: costs are not known */
	uint64_t cpu_ns; /* user and system */
	uint64_t instructions; /* user; 0 without has_instructions */
	uint64_t begin_ns;
	int fds[LOAD_MAX_THREADS]; /* perf events */
	uint32_t n_fds;
};

struct load_counts {
	struct load_count counts[LOAD_MAX_COUNTS];
	uint32_t n;
	bool has_instructions; /* of all processes */
};

/* Add "ROLE=PID". 0, or -1: the text is wrong, or there is no room. */
int load_counts_add(struct load_counts *counts, const char *text);
int load_counts_add_process(
    struct load_counts *counts, const char *role, pid_t pid);

/*
 * The mean over all processes with the role of the i-th one. False if that is
 * not the first of its role, or a process of the role has ended.
 */
bool load_counts_mean(const struct load_counts *counts, uint32_t i,
    struct load_count *mean, uint32_t *processes);

void load_counts_begin(struct load_counts *counts);
void load_counts_end(struct load_counts *counts);

#endif
