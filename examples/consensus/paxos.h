/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multi-Paxos as a state machine: no I/O and no clock. The program around it
 * (or a simulator) gives it messages, the time and the news of its disk, and
 * does what its operations ask for.
 *
 * paxos_new() allocates the log. Elections, proposals, votes and reads allocate
 * nothing. Applying a command allocates where the store grows: for a new key, a
 * value that its key has no room for, or a new session. A replica that catches
 * up allocates the snapshot that it receives, and a store for it.
 *
 * Each slot of the log is one instance of Paxos. Its acceptors are the members
 * of the configuration that the log holds below the slot. A leader prepares all
 * slots behind its commit slot at once, proposes what it finds there again in
 * its own ballot, and then proposes commands, many at a time. A configuration
 * change is proposed alone: nothing is proposed behind it until it is chosen;
 * then the leader prepares again, in a new ballot, with the new members. So in
 * each slot and ballot the acceptors are the same for all, and the proof of
 * Paxos holds as it is.
 *
 * One thread at a time. Times are nanoseconds of any clock that runs forwards.
 */
#ifndef KV_PAXOS_H
#define KV_PAXOS_H

#include "message.h"
#include "store.h"

struct paxos;

/* A record on the disk, read again at a restart. */
enum kv_record_type {
	KV_RECORD_PROMISE = 1, /* ballot */
	KV_RECORD_ENTRY,       /* an accepted entry */
	KV_RECORD_COMMIT,      /* a hint: all up to slot are chosen */
};

struct kv_record {
	uint8_t type;
	kv_ballot ballot;
	uint64_t slot;
	const struct kv_entry *entry;
};

/* The core's requests to the world. arg is the one of paxos_setup. */
struct paxos_ops {
	/*
	 * Room for a message of at most size bytes to a replica (or, with
	 * client true, a client), or NULL: it is not connected, or slow. The
	 * core then continues without it, and never waits.
	 */
	struct kv_message *(*begin)(
	    void *arg, bool client, unsigned to, size_t size);
	/* Send what begin() gave last; message->size says how much of it. */
	void (*send)(void *arg, struct kv_message *message);
	/*
	 * Append a record to the disk's log. Nothing that depends on it is sent
	 * until paxos_synced() has said that it is safe. NULL: no disk.
	 * Returns the position behind it, which grows.
	 */
	uint64_t (*append)(void *arg, const struct kv_record *record);
	/*
	 * A command was applied: answer the client, if it is connected here.
	 * Those that share a slot come in their order.
	 */
	void (*applied)(void *arg, uint64_t slot,
	    const struct kv_command *command, const struct kv_result *result);
	/* Another leader, or none (ballot 0), or a new configuration. */
	void (*changed)(void *arg);
	/*
	 * Begin a snapshot of the store, to be told by paxos_snapshot(), never
	 * within this call; and read size bytes at offset of the last one that
	 * is complete: returns how many there are, and its slot and size, or
	 * size 0 if there is none. With a disk, complete means safe there; then
	 * records from before snapshot() was called are no longer needed.
	 */
	void (*snapshot)(void *arg, const struct kv_store *store);
	size_t (*snapshot_read)(void *arg, uint64_t offset, char *to,
	    size_t size, uint64_t *slot, uint64_t *total);
};

struct paxos_setup {
	uint64_t cluster;
	uint64_t incarnation; /* of this start; the old one if it has its log */
	unsigned self;        /* replica number */
	unsigned n_replicas;  /* addresses: members and those that may join */
	uint64_t seed;        /* of the time-outs */
	uint64_t heartbeat_ns; /* a leader's, also the time between retries */
	uint64_t election_ns;  /* without a leader's message until an election;
				  up to twice that, by chance */
	uint64_t session_ns;   /* unused sessions end after it; 0: never */
	size_t log_bytes;      /* memory for entries; old ones are dropped */
	uint32_t window;       /* slots that are proposed and not yet chosen */
	size_t message_bytes; /* of a message with entries or a snapshot's part,
				 where possible; 0: KV_MAX_MESSAGE */
	unsigned bugs;        /* for tests: enum paxos_bug, a bit each; 0 */
};

/* What may be seen of it. */
struct paxos_stats {
	uint64_t proposed, chosen, applied;
	uint64_t messages_sent, messages_received, messages_skipped;
	uint64_t prevotes, elections, elections_won;
	uint64_t reads; /* served by read rounds */
	uint64_t read_rounds;
	uint64_t snapshots_sent, snapshots_loaded;
	uint64_t config_changes;
};

enum paxos_role {
	PAXOS_JOINING, /* no member: neither votes nor counts */
	PAXOS_FOLLOWER,
	PAXOS_CANDIDATE,
	PAXOS_LEADER, /* serves */
};

/*
 * The store goes over to the core. It holds the configuration: one without
 * members makes the replica ask its peers for a snapshot, and to join. NULL:
 * ENOMEM; the store stays with the caller.
 */
struct paxos *paxos_new(const struct paxos_setup *setup,
    const struct paxos_ops *ops, void *arg, struct kv_store *store);
void paxos_free(struct paxos *paxos);

/*
 * At a restart, before all else: the records of the disk, in their order; the
 * store's snapshot may already have some of them. -ENOBUFS: log_bytes is too
 * small for it. -EINVAL: a slot is missing. Then the replica must not start.
 */
int paxos_restore(struct paxos *paxos, const struct kv_record *record);

/* A well-formed message (kv_message_valid()) of another replica. */
void paxos_receive(
    struct paxos *paxos, uint64_t now, const struct kv_message *message);

/* Time has passed. Call it at least once a millisecond, or at paxos_due(). */
void paxos_tick(struct paxos *paxos, uint64_t now);

/* When paxos_tick() has something to do. */
uint64_t paxos_due(const struct paxos *paxos);

/*
 * A peer's process is known to have ended. If it leads, an election comes soon,
 * not only after election_ns; a false alarm costs an election at most.
 */
void paxos_lost(struct paxos *paxos, uint64_t now, unsigned peer);

/*
 * Propose commands. Returns how many bytes were taken of the size bytes of
 * commands, one behind the other (each kv_command_size()): fewer if the window
 * is full. -ENOTCONN-like refusals by enum kv_status in *refused:
 * KV_NOT_LEADER, KV_BUSY, KV_NO_QUORUM.
 */
size_t paxos_propose(struct paxos *paxos, uint64_t now, const char *commands,
    size_t size, uint8_t *refused);

/*
 * Read without the log: done() is called once a majority has confirmed that
 * this replica still led after the call, and all that was chosen before is
 * applied; or with a status that says why not. Many reads share one round.
 */
uint8_t paxos_read(struct paxos *paxos, uint64_t now,
    void (*done)(void *arg, uint64_t tag, uint8_t status), uint64_t tag);

/* Send what is pending (batches): call it when no more input is there. */
void paxos_flush(struct paxos *paxos, uint64_t now);

/* All records up to a position of append() are safe. */
void paxos_synced(struct paxos *paxos, uint64_t now, uint64_t position);

/* A snapshot that was asked for is complete (0) or failed. */
void paxos_snapshot(struct paxos *paxos, uint64_t now, uint64_t slot, int err);

enum paxos_role paxos_role(const struct paxos *paxos);
kv_ballot paxos_ballot(const struct paxos *paxos); /* promised */
int paxos_leader(const struct paxos *paxos);       /* number, or -1 */
uint64_t paxos_commit(const struct paxos *paxos);
/* Whether too few members remember for a majority, as far as is known. */
bool paxos_no_quorum(const struct paxos *paxos, uint64_t now);
struct kv_store *paxos_store(struct paxos *paxos);
void paxos_query(const struct paxos *paxos, struct paxos_stats *stats);

/*
 * Change the configuration by one member, at the leader: remove one (0), or
 * make a place for a new one (KV_VACANT), which it takes by asking. enum
 * kv_status.
 */
uint8_t paxos_reconfigure(
    struct paxos *paxos, uint64_t now, const struct kv_config *config);

/* Faults that tests plant, to show that the simulator finds them. */
enum paxos_bug {
	PAXOS_BUG_NO_QUORUM = 1 << 0,     /* chosen by one vote fewer */
	PAXOS_BUG_EARLY_REPLY = 1 << 1,   /* applied before it is chosen */
	PAXOS_BUG_LOST_SESSIONS = 1 << 2, /* snapshots have no sessions */
	PAXOS_BUG_STALE_READ = 1 << 3,    /* reads without a round */
	PAXOS_BUG_VOTE_NOT_SYNCED = 1 << 4,
	PAXOS_BUG_FORGOTTEN_VOTES = 1 << 5, /* keeps its old incarnation */
	PAXOS_BUG_OLD_BALLOT = 1 << 6, /* an old ballot's accept is taken */
	PAXOS_BUG_OLD_VOTE = 1 << 7,   /* votes of older ballots count */
	PAXOS_BUG_OWN_VALUE = 1 << 8,  /* found entries are not re-proposed */
	PAXOS_BUG_LOWEST_BALLOT = 1 << 9,  /* of two found, takes the older */
	PAXOS_BUG_CONFIG_EARLY = 1 << 10,  /* a removal takes a second member,
					      and is used before it is chosen */
	PAXOS_BUG_DUPLICATES = 1 << 11,    /* no filter */
	PAXOS_BUG_SHORT_PROMISE = 1 << 12, /* a promise without its last part
					      counts as whole */
	PAXOS_BUG_COMMIT_BLIND = 1 << 13,  /* entries of older ballots count as
					      what the leader has chosen */
	PAXOS_BUG_TRIMMED_PROMISE = 1 << 14, /* promises though the log no
					      longer has what is asked for */
	PAXOS_BUG_ANY_PROMISE = 1 << 15,     /* one from before a crash counts
						after it, and a newcomer's */
	/* Of fast paths: see nopaxos.h. */
	PAXOS_BUG_NOOP_LOSES = 1 << 20, /* to its request, in phase 1 */
	PAXOS_BUG_BLIND_ACK = 1 << 21, /* votes for requests count for no-ops */
	PAXOS_BUG_BLIND_APPLY = 1 << 22, /* applies what may be a no-op */
	PAXOS_BUG_SLOT_FILTER = 1 << 23, /* a slot that begins with a repeated
					    command counts as repeated */
};

#endif
