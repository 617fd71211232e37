/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replicated store in virtual time: replicas, clients, a network, disks and
 * faults, all from one seed. Only the seed decides what happens, so each run
 * can be repeated.
 *
 *	sim.c          a run, from its plan to its verdict
 *	sim_event.c    what happens when; chance
 *	sim_net.c      messages: lost, repeated, late
 *	sim_replica.c  a core, and the program around it
 *	sim_disk.c     records and snapshots that survive a crash, or do not
 *	sim_client.c   sessions, requests, retries, and the history
 *	sim_faults.c   crashes, pauses, cuts, changes of the members
 *	sim_paxos.c    the Multi-Paxos core as a struct sim_core
 *	sim_nopaxos.c  the NOPaxos core as one
 *	sim_flow.c     the ordered flow between replicas, for it
 */
#ifndef TESTS_CONSENSUS_SIM_H
#define TESTS_CONSENSUS_SIM_H

#include <stdarg.h>
#include <stdio.h>

#include "examples/consensus/nopaxos_quorum.h"
#include "examples/consensus/paxos.h"
#include "tests/linearizability/checker.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

#define SIM_REPLICAS 5
#define SIM_CLIENTS 4
#define SIM_LANES 2
#define SIM_KEYS 6
#define SIM_READS 64
#define SIM_COMMANDS 16 /* the most of a slot that are compared */

struct sim;
struct sim_replica;

/* Events; their handlers say what the fields mean. */
enum sim_kind {
	SIM_DELIVER,
	SIM_TIMER,
	SIM_FLUSH,
	SIM_SYNC,
	SIM_SAVED,
	SIM_LANE,
	SIM_FAULT,
	SIM_RESTART,
	SIM_RESUME,
	SIM_PHASE,
	SIM_SEGMENT,
	SIM_FLOW,
	SIM_BATCH,
	SIM_RENEW,
};

struct sim_event {
	uint64_t at, order;
	uint32_t generation;
	uint16_t node; /* replica, or SIM_REPLICAS + client */
	uint8_t kind, lane;
	struct sim_packet *packet;
};

struct sim_packet {
	struct sim_packet *next; /* in the list of free packets */
	uint32_t room, refs;
	uint64_t words[]; /* the message */
};

static inline struct kv_message *sim_message(struct sim_packet *packet)
{
	return (struct kv_message *)packet->words;
}

/* What a reply repeats of its request. */
struct sim_ask {
	uint64_t session, number;
	uint16_t lane, client;
};

/* The core of a protocol in a replica. The calls are those of paxos.h. */
struct sim_core {
	const char *name;
	int (*start)(struct sim_replica *replica, struct kv_store *store);
	void (*stop)(struct sim_replica *replica);
	void (*receive)(struct sim_replica *replica, uint64_t now,
	    const struct kv_message *message);
	void (*tick)(struct sim_replica *replica, uint64_t now);
	uint64_t (*due)(const struct sim_replica *replica);
	void (*flush)(struct sim_replica *replica, uint64_t now);
	/* enum kv_status */
	uint8_t (*propose)(struct sim_replica *replica, uint64_t now,
	    const struct kv_command *command);
	/*
	 * The last slot with a configuration that is not known to be chosen, or
	 * 0.
	 */
	uint64_t (*changing)(const struct sim_replica *replica);
	void (*synced)(
	    struct sim_replica *replica, uint64_t now, uint64_t position);

	/* For a core with an ordered flow; else NULL. */

	/* Whether all requests go into the flow. */
	bool (*orders)(const struct sim_replica *replica);
	/* Whether the client has an answer to what was applied. */
	bool (*applied)(struct sim_replica *replica, uint64_t slot,
	    const struct kv_result *result);
	/* A SIM_SEGMENT, SIM_FLOW or SIM_BATCH. */
	void (*deliver)(struct sim_replica *replica, uint64_t now,
	    const struct sim_event *event);
	/* Called before the members change. */
	void (*make_way)(struct sim_replica *replica, uint64_t now);
};

extern const struct sim_core sim_paxos, sim_nopaxos;

/* In sim.bugs: the bits of enum nopaxos_bug are multiples of the first. */
#define SIM_NOPAXOS_BUGS (1U << 24)
#define SIM_BUG_ANY_SLOT (1U << 30) /* clients count votes of all slots */
#define SIM_BUG_EXIT (1U << 31)     /* a bug of the simulator: it exits */

struct sim_record {
	struct kv_record record;
	uint64_t *entry; /* a copy, or NULL */
};

struct sim_disk {
	bool exists;
	struct sim_record *records;
	uint64_t first, end; /* the positions that exist */
	uint64_t synced, syncing;
	size_t capacity;
	bool busy;
};

struct sim_snapshot {
	char *bytes;
	size_t size;
	uint64_t slot;
	uint64_t mark;  /* with it, earlier records are not needed */
	uint64_t needs; /* it counts once records up to here are safe; or 0 */
};

struct sim_read {
	bool used;
	struct sim_ask ask;
	char key[KV_MAX_KEY];
	uint16_t key_size;
};

enum sim_life {
	SIM_UP,
	SIM_DOWN,
	SIM_PAUSED
};

struct sim_replica {
	struct sim *sim;
	unsigned number;
	enum sim_life life;
	uint32_t generation; /* counts starts: older events don't apply */
	uint64_t incarnation;
	bool forgets; /* at the next start its disk is lost */
	bool flush_due;
	uint64_t armed; /* when its timer fires, or UINT64_MAX */
	uint64_t resume_at;
	int64_t skew; /* of its clock, in 1/1000 */
	uint64_t clock_offset;
	struct paxos *paxos;
	void *extra;   /* the state of another core */
	uint64_t flow; /* the open one; 0: none */
	/* Requests that wait to share one of its segments. */
	struct kv_batch batch;
	uint64_t batch_words[KV_MAX_COMMAND / 8];
	struct sim_packet *begun;
	unsigned begun_to;
	struct sim_disk disk;
	struct sim_snapshot saved, saving;
	struct sim_read reads[SIM_READS];
	uint64_t compared;  /* the slot of its last comparison */
	uint64_t applied;   /* the slot that it applied last, */
	unsigned applied_n; /* and how many commands of it */
	enum paxos_role role;
};

struct sim_lane {
	bool pending;
	bool reads;          /* in a round, not in the log */
	uint32_t generation; /* of its timer */
	unsigned tries, most_tries, to;
	uint64_t number, begun;
	unsigned left;           /* requests still to be made at the end */
	struct sim_packet *held; /* a result that is not confirmed yet */
	struct lin_op op;
	union {
		struct kv_command command;
		uint64_t words[(sizeof(struct kv_command) + KV_MAX_KEY +
				   2 * KV_MAX_VALUE + 8) /
		    8];
	} request;
};

struct sim_client {
	uint64_t session; /* 0: none */
	uint64_t register_number;
	unsigned leader;
	uint64_t resume_at;
	uint64_t seen[SIM_KEYS];
	struct sim_lane lanes[SIM_LANES];
	struct sim_lane registering;
	struct kv_votes votes;
};

/* The content of a slot at the first replica that applied it. */
struct sim_slot {
	uint64_t commands[SIM_COMMANDS], digest; /* 0: not known */
};

/* Counts of all runs, to be summed over seeds. */
struct sim_counts {
	uint64_t runs, events, messages, lost, repeated, late, refused;
	uint64_t requests, unknown, expired, retries, answers_no_quorum;
	uint64_t crashes, forgotten, pauses, cuts, torn, compared;
	uint64_t recovered; /* replicas that forgot, and vote again */
	uint64_t majorities_lost;
	uint64_t prevotes, elections, elections_won;
	uint64_t snapshots_sent, snapshots_loaded;
	uint64_t config_changes, reads, read_rounds;
	/* With an ordered flow. */
	uint64_t flows, segments, segments_lost, gateways_stopped;
	uint64_t holders_lost, registries_dead, fast_opened, fast_ended;
	uint64_t accepted, gaps_decided, gaps_taken, gaps_over, gaps_asked;
	uint64_t gaps_filled;
	uint64_t stashed, stash_full, executed, barriers, quorums;
	uint64_t batches,
	    batched; /* segments of several commands, and their commands */
};

/* How unreliable the network, the disks and the rest are. The seed decides. */
struct sim_plan {
	unsigned n, n_members, n_clients, n_keys, n_lanes;
	unsigned lose, repeat, be_late, refuse; /* in 10,000 */
	unsigned lose_segments; /* in 10,000, for each replica */
	uint64_t delay, sync;
	unsigned value_bytes;
	unsigned read_share; /* percent of gets that use a round */
	uint64_t fault_time, fault_pause;
	uint64_t session_ns;
	size_t message_bytes;
	size_t batch_bytes;  /* of a segment of the ordered flow */
	uint64_t batch_wait; /* how long a request waits for others */
	uint32_t window;
	bool lose_majority;
};

/* The ordered flow. */
struct sim_flow {
	uint64_t id;
	bool alive;
	uint64_t counter;
	unsigned holder;  /* of the counter */
	uint32_t members; /* a bit for each replica */
	uint32_t generations[SIM_REPLICAS];
	uint64_t arrived[SIM_REPLICAS]; /* when the last segment arrives */
	uint64_t still_until; /* a gateway has taken a number and stopped */
};

struct sim {
	/* Set by the caller. */
	const struct sim_core *core;
	uint64_t seed;
	unsigned bugs;
	bool trace;

	struct sim_plan plan;
	uint64_t random[2];
	uint64_t now, order;
	struct sim_event *heap;
	size_t n_events, heap_capacity;
	struct sim_packet *free[2]; /* small and large */
	bool calm, ending; /* faults have ended; clients ask nothing more */
	uint64_t calm_at;
	uint64_t quiet_answers;               /* answers_no_quorum until then */
	bool cut[SIM_REPLICAS][SIM_REPLICAS]; /* from, to */
	struct sim_replica replicas[SIM_REPLICAS];
	struct sim_client clients[SIM_CLIENTS];
	struct sim_flow flow;
	uint64_t next_value, history_time;
	struct sim_slot *slots;
	uint64_t n_slots; /* capacity */
	uint64_t applied; /* the highest slot that any replica has */
	uint64_t proposed_config;
	struct kv_config config; /* the newest that any replica has applied */
	uint64_t config_slot;
	bool majority_lost;
	uint64_t majority_lost_at;
	struct lin_history history;
	struct lin_checker *checker;
	struct sim_counts counts;
	bool failed, unfit; /* unfit: the store broke no rule */
	char failure[512];
};

/* sim.c: 0: the run was right; -1: sim->failure says what is wrong. */
int sim_run(struct sim *sim);
void sim_free(struct sim *sim);
void sim_fail(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The simulator or the checker can't handle the run. */
#define sim_unfit(sim, ...)                  \
	do {                                 \
		if (!(sim)->failed)          \
			(sim)->unfit = true; \
		sim_fail(sim, __VA_ARGS__);  \
	} while (0)
void sim_trace(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define trace(sim, ...)                              \
	do {                                         \
		if ((sim)->trace)                    \
			sim_trace(sim, __VA_ARGS__); \
	} while (0)

/* sim_event.c */
void sim_add(struct sim *sim, uint64_t at, const struct sim_event *event);
bool sim_next(struct sim *sim, struct sim_event *event);
uint64_t sim_random(struct sim *sim);
/* Below n; in 10,000. */
uint64_t sim_below(struct sim *sim, uint64_t n);
bool sim_chance(struct sim *sim, unsigned share);

/* sim_net.c */
struct sim_packet *sim_packet(struct sim *sim, size_t size);
void sim_drop(struct sim *sim, struct sim_packet *packet);
void sim_send(
    struct sim *sim, unsigned from, unsigned to, struct sim_packet *packet);
const char *sim_message_text(const struct kv_message *message);

/* sim_replica.c */
int sim_replica_start(struct sim_replica *replica, bool boot);
void sim_replica_crash(struct sim_replica *replica, bool forget);
void sim_replica_event(struct sim *sim, const struct sim_event *event);
void sim_replica_free(struct sim_replica *replica);
uint64_t sim_local(const struct sim_replica *replica);
bool sim_remembers(const struct sim *sim, unsigned number);
/* Reply to a client: head, followed by its value if it has one. */
void sim_answer(struct sim_replica *replica, unsigned client,
    const struct kv_message *head, const struct kv_result *result);
extern const struct paxos_ops sim_ops, sim_disk_ops;

/* sim_disk.c */
uint64_t sim_append(void *arg, const struct kv_record *record);
void sim_sync(struct sim_replica *replica);
void sim_synced(struct sim_replica *replica);
void sim_save(void *arg, const struct kv_store *store);
void sim_saved(struct sim_replica *replica);
size_t sim_snapshot_read(void *arg, uint64_t offset, char *to, size_t size,
    uint64_t *slot, uint64_t *total);
void sim_disk_crash(struct sim_replica *replica, bool forget);
/* The slot up to which it knows all to be chosen, even after a crash. */
uint64_t sim_known_slot(const struct sim_replica *replica);
/* Restore the disk's records at a restart. */
int sim_disk_restore(struct sim_replica *replica);
void sim_disk_free(struct sim_replica *replica);

/* sim_client.c */
void sim_client_start(struct sim *sim, unsigned client);
void sim_client_event(struct sim *sim, const struct sim_event *event);
void sim_client_calm(struct sim *sim, unsigned client);
unsigned sim_pending(const struct sim *sim);
void sim_client_end(struct sim *sim);
void sim_clients_drop(struct sim *sim);

/* sim_flow.c */
void sim_flow_start(struct sim *sim);
void sim_flow_renew(struct sim *sim);
void sim_flow_end(struct sim *sim);
void sim_flow_crash(struct sim *sim, unsigned number);
void sim_publish(struct sim_replica *replica, const struct kv_command *command);

/* sim_faults.c */
void sim_plan(struct sim *sim);
void sim_fault(struct sim *sim);
void sim_heal(struct sim *sim);
void sim_mute(struct sim *sim, unsigned number);

#endif
