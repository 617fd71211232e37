/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of one run of chaos: a topology, what each endpoint does, and the
 * faults. All of it follows from the seed, so processes of a run need nothing
 * else.
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
	STYLE_GROUP = N_STYLES, /* a target: in a group of its own */
};

/* What an endpoint does besides its tuples. */
enum act {
	ACT_NONE,
	ACT_ABORT,       /* in its own thread */
	ACT_ABORT_OTHER, /* from another thread, at a set time */
	ACT_LEAVE,  /* a target: close; a source: it does not end the flow */
	ACT_CANCEL, /* a target */
	ACT_EXIT,   /* the process ends without closing anything */
	ACT_DIE,    /* SIGKILL, in the middle of a segment or wherever it is */
};

struct end_plan {
	bool is_source;
	uint32_t index;
	uint32_t process;
	bool second_context; /* of its process */
	bool nonblock;       /* and uses poll() on its descriptor */
	uint32_t wait;       /* enum dfi_wait */
	enum style style;
	uint32_t delay_ms;    /* before it opens */
	uint32_t n_tuples;    /* that a source pushes */
	uint32_t flush_every; /* in tuples; 0: never */
	uint32_t pause_every; /* in tuples; 0: never */
	uint32_t pause_us;
	enum act act;
	uint32_t act_at; /* tuples, or milliseconds for ACT_ABORT_OTHER */
};

enum fault_kind {
	FAULT_KILL,
	FAULT_STOP,    /* and continue */
	FAULT_RESTART, /* kill the registry and start another */
	FAULT_LOSE,    /* kill the registry for good */
};

struct fault {
	enum fault_kind kind;
	uint32_t process; /* may be CREATOR or REGISTRY */
	uint32_t at_ms;
	uint32_t for_ms; /* the time stopped, or without a registry */
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
	bool is_patient;   /* open timeouts are longer than usual */
	uint32_t lease_ms; /* of all processes; 0: none */
	uint32_t n_faults;
	struct end_plan ends[MAX_ENDS]; /* sources first */
	struct fault faults[MAX_FAULTS];
};

/*
 * volume: percent of the usual number of tuples. A third of the flows are
 * replicate flows, and a fifth are combiner flows. DFI_TEST_CHAOS_KIND selects
 * one kind, "shuffle", "replicate" or "combine", or excludes multicast:
 * "unicast".
 */
void make_plan(struct plan *plan, uint64_t seed, uint32_t volume);

/* Whether a process is stopped for longer than its lease. */
bool outlives_lease(const struct plan *plan, uint32_t process);

/* A result of a combiner flow's target: how many tuples a source has sent. */
struct chaos_result {
	uint32_t source;
	uint64_t count;
	uint64_t sum;         /* of chaos_tuple.number */
	uint32_t first, last; /* the least and the greatest of them */
};

/* Whether each tuple goes to all targets, which count it alike. */
static inline bool goes_to_all(const struct plan *plan)
{
	return plan->kind == DFI_REPLICATE;
}

/* Print the plan for a report, in a few lines. */
void print_plan(const struct plan *plan);

/* The first fields of each tuple; the key determines the rest. */
struct chaos_tuple {
	uint64_t key;
	uint32_t source;
	uint32_t n;      /* its number at the source */
	uint32_t number; /* its number among those of one source and target */
	uint32_t target;
};

uint32_t tuple_target(const struct plan *plan, uint32_t source, uint32_t n);
void make_tuple(const struct plan *plan, uint32_t source, uint32_t n,
    uint32_t number, void *tuple);
/* Whether make_tuple() made the tuple. */
bool check_tuple(const struct plan *plan, const void *tuple);

#endif
