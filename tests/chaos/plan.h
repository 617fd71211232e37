/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens in one run of chaos: a topology, what each endpoint does, and
 * the faults. All of it follows from the seed, so that the processes of a run
 * need nothing else.
 */
#ifndef DFI_TESTS_CHAOS_PLAN_H
#define DFI_TESTS_CHAOS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <dfi/dfi.h>

#define MAX_SOURCES 4
#define MAX_TARGETS 4
#define MAX_ENDS (MAX_SOURCES + MAX_TARGETS)
#define MAX_PROCESSES 5 /* with endpoints */
#define CREATOR MAX_PROCESSES
#define REGISTRY (MAX_PROCESSES + 1)
#define MAX_FAULTS 3
#define FLOW "chaos"

/* How an endpoint moves its tuples. */
enum style {
	STYLE_SINGLE, /* push, consume */
	STYLE_BATCH,  /* push_batch or claim, consume_batch */
	STYLE_CURSOR,
	N_STYLES,
	STYLE_GROUP = N_STYLES, /* a target: a group, of it alone */
};

/* What an endpoint does of its own. */
enum act {
	ACT_NONE,
	ACT_ABORT,       /* by its own thread */
	ACT_ABORT_OTHER, /* by another thread, at a time */
	ACT_LEAVE,       /* a target: close; a source: leave it to the others */
	ACT_CANCEL,      /* a target */
	ACT_EXIT,        /* the process ends and closes nothing */
	ACT_DIE,         /* SIGKILL, amid a segment or wherever that is */
};

struct end_plan {
	bool is_source;
	uint32_t index;
	uint32_t process;
	bool second_context; /* of its process */
	bool nonblock;       /* and poll() on its descriptor */
	uint32_t wait;       /* enum dfi_wait */
	enum style style;
	uint32_t delay_ms;    /* before it opens */
	uint32_t n_tuples;    /* that a source pushes */
	uint32_t flush_every; /* so many; 0: never */
	uint32_t pause_every; /* so many; 0: never */
	uint32_t pause_us;
	enum act act;
	uint32_t act_at; /* tuples, or milliseconds for ACT_ABORT_OTHER */
};

enum fault_kind {
	FAULT_KILL,
	FAULT_STOP,    /* and continue */
	FAULT_RESTART, /* kill the registry and start another */
	FAULT_LOSE,    /* kill the registry, for good */
};

struct fault {
	enum fault_kind kind;
	uint32_t process; /* CREATOR and REGISTRY, too */
	uint32_t at_ms;
	uint32_t for_ms; /* stopped, or without a registry */
};

struct plan {
	uint64_t seed;
	uint32_t n_sources, n_targets, n_ends, n_processes;
	uint32_t tuple_size, segment_size, segment_count;
	uint32_t kind, goal, routing, flags; /* of the flow */
	uint32_t replication;                /* of DFI_REPLICATE */
	uint32_t source_combining;           /* of DFI_COMBINE */
	bool ordered;
	bool loses_registry; /* once, or for good */
	bool meets;        /* all processes, at a barrier, before they begin */
	bool is_patient;   /* open timeouts are long, compared to the usual */
	uint32_t lease_ms; /* of all processes; 0: none */
	uint32_t n_faults;
	struct end_plan ends[MAX_ENDS]; /* sources first */
	struct fault faults[MAX_FAULTS];
};

/*
 * volume: percent of the usual number of tuples. A third of the flows are
 * replicate flows, and a fifth combiner flows. DFI_TEST_CHAOS_KIND: "shuffle",
 * "replicate" or "combine" for no others, or "unicast" for none by multicast.
 */
void make_plan(struct plan *plan, uint64_t seed, uint32_t volume);

/* Whether a process is stopped for longer than its lease. */
bool outlives_lease(const struct plan *plan, uint32_t process);

/* What a target of a combiner flow gives: how many tuples a source has sent. */
struct chaos_result {
	uint32_t source;
	uint64_t count;
	uint64_t sum;         /* of chaos_tuple.number */
	uint32_t first, last; /* the least and the greatest of them */
};

/* Each tuple goes to all targets, which count it alike. */
static inline bool goes_to_all(const struct plan *plan)
{
	return plan->kind == DFI_REPLICATE;
}

/* For a report: what happens in it, in some lines. */
void print_plan(const struct plan *plan);

/* The first fields of each tuple; what is behind them follows from the key. */
struct chaos_tuple {
	uint64_t key;
	uint32_t source;
	uint32_t n;      /* which one of its source */
	uint32_t number; /* which one of its source and target */
	uint32_t target;
};

uint32_t tuple_target(const struct plan *plan, uint32_t source, uint32_t n);
void make_tuple(const struct plan *plan, uint32_t source, uint32_t n,
    uint32_t number, void *tuple);
/* Whether it is one that make_tuple() made. */
bool check_tuple(const struct plan *plan, const void *tuple);

#endif
