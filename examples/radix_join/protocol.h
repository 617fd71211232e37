/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flows of a join of P nodes with W workers in all, and their tuples. Each
 * is named after the run: "RUN.inner".
 */
#ifndef RADIX_JOIN_PROTOCOL_H
#define RADIX_JOIN_PROTOCOL_H

#include <stdint.h>
#include <dfi/dfi.h>
#include "task.h"
#include "relation.h"
#include "report.h"

enum flow {
	FLOW_TASK,    /* 1:P, struct task: the first process to each node */
	FLOW_INNER,   /* W:W, struct tuple, routed by radix, or to all */
	FLOW_OUTER,   /* W:W, struct tuple, routed by radix, or to the sender */
	FLOW_START,   /* 1:W, struct start: the first process to each worker */
	FLOW_REPORTS, /* W:1, struct worker_report: to the first process */
	FLOW_ROWS,    /* W:1, struct row: matches to be written */
	N_FLOWS,
};

struct start {
	uint64_t start_ns; /* of now_ns(), where the first process runs */
};

enum report_kind {
	REPORT_READY = 1, /* input is made; expected is set */
	REPORT_PROGRESS,  /* progress is set */
	REPORT_DONE,      /* result and times are set */
};

struct worker_report {
	uint32_t kind; /* enum report_kind */
	uint32_t worker;
	struct result result, expected;
	struct worker_times times;
	uint64_t progress; /* tuples sent, received and joined, in all */
};

/* A match, as entries of the tables. */
struct row {
	uint64_t inner;
	uint64_t outer;
};

/*
 * As dfi_open(), for the coordinator or a node of this name. registry NULL: the
 * one of the environment.
 */
int protocol_open(const struct options *options, const char *registry,
    const char *name, struct dfi **dfi);

/* The approximate size of a target's rings of a relation. */
uint64_t protocol_ring_bytes(uint32_t n_workers);

/* Create a flow of a run. 0, or -1 after a complaint. */
int protocol_create(struct dfi *dfi, const char *run, enum flow flow,
    uint32_t n_nodes, const struct plan *plan);

/* How many targets of a flow are attached. As dfi_flow_lookup(). */
int protocol_count_targets(
    struct dfi *dfi, const char *run, enum flow flow, uint32_t *n);

/* As dfi_source_open() and dfi_target_open(), with the flow's schema. */
int protocol_source(struct dfi *dfi, const char *run, enum flow flow,
    uint32_t index, struct dfi_source_attr attr, struct dfi_source **source);
int protocol_target(struct dfi *dfi, const char *run, enum flow flow,
    uint32_t index, struct dfi_target_attr attr, struct dfi_target **target);

#endif
