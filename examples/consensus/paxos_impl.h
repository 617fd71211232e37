/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the Multi-Paxos core, for its parts and for the NOPaxos core:
 *
 *	paxos.c          making, messages in, time, what programs ask
 *	paxos_accept.c   the acceptor: promises, votes, and what is chosen
 *	paxos_elect.c    elections and phase 1
 *	paxos_lead.c     the leader: phase 2, reads, members
 *	paxos_catchup.c  snapshots, and joining
 *	log.c            the entries in memory
 *
 * Fields of messages; all also carry the commit slot:
 *
 *	               ballot     slot         argument    number     also
 *	PREVOTE        asked for  first asked
 *	PREVOTE_REPLY  promised   log's first  asked for              status
 *	PREPARE        prepared   first asked
 *	PROMISE        promised   first asked  log's last  log's first
 *	               entries, status: parts that follow
 *	ACCEPT         proposed   first        read round             entries
 *	ACCEPTED       accepted   voted up to  read round  got up to  status
 *	HEARTBEAT      led        log's first  read round
 *	REFUSE         promised                refused                status
 *	FETCH          promised   least slot   offset      of slot
 *	SNAPSHOT       promised   its slot     offset      total size status
 *	JOIN           promised
 *
 * status: PREVOTE_REPLY 1 is no; ACCEPTED 1: entries before these are missing;
 * REFUSE 1: a leader of that ballot was heard lately; SNAPSHOT: see SNAPSHOT_*.
 * PROMISE and ACCEPTED name in session whom they are for: the incarnation.
 */
#ifndef KV_PAXOS_IMPL_H
#define KV_PAXOS_IMPL_H

#include "log.h"
#include "paxos.h"

enum {
	SNAPSHOT_PART,
	SNAPSHOT_WAIT,
	SNAPSHOT_NONE
};

/* How many messages of entries, or parts, go to one replica at once. */
#define BURST 8
/* How often a replica is asked for a part of a snapshot. */
#define FETCH_TRIES 8
/* Reads that wait for a round. */
#define MAX_READS 4096

/* Another replica, by its number, as this one sees it. */
struct peer {
	uint64_t heard;  /* when the member last sent something */
	uint64_t joiner; /* an incarnation that asked to join, or 0 */
	uint64_t asked;  /* when it did last */

	uint64_t
	    part; /* candidate: where the next part of its promise begins */

	/* Leader. */
	uint64_t incarnation; /* whose progress this is */
	bool known;           /* it has answered in this ballot */
	bool stalled;   /* no progress: wait for an answer to a heartbeat */
	uint64_t voted; /* up to this slot, in this ballot */
	uint64_t got;   /* entries up to this slot, perhaps not yet safe */
	uint64_t got_before; /* at the last heartbeat */
	uint64_t rewound;    /* where sending began anew, for a gap */
	uint64_t sent;       /* up to this slot */
	uint64_t answered;   /* when, in this ballot */
	uint64_t round;      /* of reads, confirmed */
	uint64_t settled;    /* fast path: it has voted for decided no-ops up
				to it */
	uint64_t knows;      /* fast path: it knows them up to here, by its last
				word: less than settled after a restart */
	uint64_t wanted;     /* fast path: it asks for entries up to it */
};

/*
 * The fast path of one ballot: see nopaxos.h. Slots from base on are proposed
 * by the ordered flow. The leader may decide that one of them, which it has not
 * accepted, holds a no-op; a follower may have accepted something else there.
 */
struct fast_path {
	kv_ballot ballot; /* 0: none */
	uint64_t base;
	uint64_t settled; /* follower: knows all decided no-ops up to it */
	uint64_t decided; /* leader: the last slot that holds one, or 0 */
	bool closed;      /* leader: proposes nothing by itself */
};

struct read {
	uint64_t round;
	uint64_t tag;
	void (*done)(void *arg, uint64_t tag, uint8_t status);
};

struct paxos {
	struct paxos_setup setup;
	const struct paxos_ops *ops;
	void *arg;
	struct kv_store *store;
	struct kv_log log;
	struct kv_config config; /* of the slots behind commit */
	struct paxos_stats stats;
	uint64_t random;
	enum paxos_role role;
	bool started; /* the time is known */

	/* Acceptor. */
	kv_ballot seen; /* the highest in any message */
	kv_ballot promised;
	kv_ballot accepted; /* the ballot that upto is of */
	uint64_t proposer;  /* its leader's incarnation */
	uint64_t upto;      /* accepted in that ballot, or chosen, up to here */
	uint64_t voted;     /* the same, and safe */
	uint64_t commit;    /* chosen; all applied, unless memory ran out */
	uint64_t appended, synced; /* positions of the disk */
	uint64_t promise_position;
	uint64_t hinted;       /* the last KV_RECORD_COMMIT */
	size_t hint_bytes;     /* of entries that were applied since */
	int promise_to;        /* waits for the disk, or -1 */
	uint64_t promise_for;  /* the candidate's incarnation */
	uint64_t promise_part; /* the slot that it asks from */
	uint64_t hold;      /* a snapshot of the slot before is not yet safe */
	bool ack, gap;      /* an ACCEPTED is due; entries are missing */
	uint64_t ack_round; /* the leader's round of reads */

	/* Elections. */
	int leader; /* of the ballot promised, or -1 */
	uint64_t leader_heard;
	uint64_t timeout; /* without a leader until an election */
	uint64_t election_at;
	uint64_t retry; /* when to send again; a leader's heartbeat */
	bool prevoting;
	kv_ballot asked; /* the ballot that it stands for */
	uint32_t yes; /* who has granted it, or has promised all and safely, a
			 bit each */

	/* Leader: upto is what it has proposed. */
	uint64_t recovered; /* earlier ballots have chosen nothing behind it */
	uint64_t barrier;   /* a configuration: nothing goes behind it; or 0 */
	uint64_t mark_slot, mark_time; /* for sessions' ends */
	uint64_t round;                /* of reads, the last that was sent */
	bool round_due;                /* reads wait for the next one */
	uint32_t first_read, n_reads;
	struct read reads[MAX_READS];

	struct fast_path fast;

	/* Catching up by a snapshot. */
	bool fetching;
	uint64_t fetch_least; /* the least slot that helps */
	unsigned fetch_peer;
	unsigned fetch_tries;
	uint64_t fetch_slot, fetch_total, fetch_got;
	char *fetch_bytes;
	bool saving;       /* ops->snapshot has begun */
	size_t save_bytes; /* of entries that were applied since */

	struct peer peers[KV_MAX_REPLICAS];
};

#ifdef KV_TEST_BUGS
#define bug(paxos, name) (((paxos)->setup.bugs & PAXOS_BUG_##name) != 0)
#else
#define bug(paxos, name) false
#endif

static inline bool is_member(
    const struct kv_config *config, unsigned number, uint64_t incarnation)
{
	return number < KV_MAX_REPLICAS && incarnation > KV_VACANT &&
	    config->members[number].incarnation == incarnation;
}

/* Whether this replica is an acceptor of the slots behind commit. */
static inline bool self_is_member(const struct paxos *p)
{
	return is_member(&p->config, p->setup.self, p->setup.incarnation);
}

/* Whether the ballot that this replica votes in has a fast path. */
static inline bool is_fast(const struct paxos *p)
{
	return p->fast.ballot != 0 && p->fast.ballot == p->accepted &&
	    p->promised == p->accepted;
}

/* Whether this replica leads, or has heard its leader lately. */
static inline bool hears_leader(const struct paxos *p, uint64_t now)
{
	return p->role == PAXOS_LEADER ||
	    (p->leader >= 0 && now - p->leader_heard < p->setup.election_ns);
}

/* Whether a number is that of another replica that takes part. */
static inline bool kv_is_peer(const struct paxos *p, unsigned number)
{
	return number != p->setup.self &&
	    (p->config.members[number].incarnation > KV_VACANT ||
		p->peers[number].joiner != 0);
}

/* How many members a majority has. */
static inline unsigned majority(const struct paxos *p)
{
	return kv_config_members(&p->config) / 2 + (bug(p, NO_QUORUM) ? 0 : 1);
}

/* How many bytes of entries a message takes. */
static inline size_t kv_room(const struct paxos *p)
{
	return p->setup.message_bytes - sizeof(struct kv_message);
}

/* paxos.c */
struct kv_message *kv_begin(
    struct paxos *p, unsigned to, enum kv_message_type type, size_t body);
void kv_send(struct paxos *p, struct kv_message *message);
bool kv_send_to(struct paxos *p, unsigned to, const struct kv_message *fields);
void kv_send_to_all(struct paxos *p, const struct kv_message *fields);
struct kv_message *kv_begin_entries(struct paxos *p, unsigned to,
    enum kv_message_type type, uint64_t slot, uint64_t last);
void kv_append(struct paxos *p, enum kv_record_type type, kv_ballot ballot,
    uint64_t slot, const struct kv_entry *entry);
uint64_t kv_random(struct paxos *p);
void kv_learn_config(struct paxos *p, uint64_t now);

/* paxos_accept.c */
bool kv_promise_safe(const struct paxos *p);
void kv_promise(struct paxos *p, kv_ballot ballot);
void kv_on_prepare(struct paxos *p, uint64_t now, const struct kv_message *m);
void kv_on_accept(struct paxos *p, uint64_t now, const struct kv_message *m);
void kv_on_heartbeat(struct paxos *p, uint64_t now, const struct kv_message *m);
void kv_send_promise(struct paxos *p);
void kv_send_accepted(struct paxos *p);
bool kv_accept(struct paxos *p, uint64_t slot, const struct kv_command *command,
    size_t size, uint32_t decided);
void kv_update_voted(struct paxos *p);
void kv_commit_to(struct paxos *p, uint64_t now, uint64_t slot);
void kv_hint_commit(struct paxos *p);

/* paxos_elect.c */
void kv_stand(struct paxos *p, uint64_t now, bool prevote);
void kv_step_down(struct paxos *p, uint64_t now);
void kv_ask_all(struct paxos *p);
void kv_elect_synced(struct paxos *p, uint64_t now);
void kv_on_prevote(struct paxos *p, uint64_t now, const struct kv_message *m);
void kv_on_prevote_reply(
    struct paxos *p, uint64_t now, const struct kv_message *m);
void kv_on_promise(struct paxos *p, uint64_t now, const struct kv_message *m);
void kv_on_refuse(struct paxos *p, uint64_t now, const struct kv_message *m);

/* paxos_lead.c */
void kv_lead(struct paxos *p, uint64_t now);
void kv_lead_tick(struct paxos *p, uint64_t now);
void kv_lead_flush(struct paxos *p, uint64_t now);
void kv_heartbeats(struct paxos *p);
void kv_count_votes(struct paxos *p, uint64_t now);
void kv_finish_reads(struct paxos *p, uint64_t round, uint8_t status);
void kv_on_accepted(struct paxos *p, uint64_t now, const struct kv_message *m);

/* paxos_catchup.c */
void kv_start_fetch(struct paxos *p, uint64_t least, int peer);
void kv_catchup_tick(struct paxos *p);
void kv_on_fetch(struct paxos *p, uint64_t now, const struct kv_message *m);
void kv_on_snapshot(struct paxos *p, uint64_t now, const struct kv_message *m);
void kv_on_join(struct paxos *p, uint64_t now, const struct kv_message *m);
void kv_save(struct paxos *p);

#endif
