/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replica: the core, its links to other replicas and clients, and its disk.
 * One thread runs it; helpers open links and write the log.
 */
#ifndef KV_REPLICA_H
#define KV_REPLICA_H

#include <stdatomic.h>

#include "journal.h"
#include "links.h"
#include "nopaxos.h"
#include "paxos.h"
#include "snapshot.h"
#include "wire.h"

struct replica_options {
	unsigned self, n_replicas;
	const char *registry, *cluster;
	const char *log; /* folder; NULL: none */
	bool bootstrap;
	bool quiet; /* no lines about leaders and members */
	uint64_t heartbeat_ns, election_ns, session_ns;
	size_t log_bytes; /* memory for entries */
	bool nopaxos;
	bool multicast;    /* nopaxos: over RDMA, by datagrams */
	bool flows;        /* of the leader to all, and of their votes */
	unsigned drop_ppm; /* of a million segments of the ordered flow, this
			    * many are lost, for tests */
	uint64_t spin_ns;  /* look for messages for this long before sleeping */
};

/* What a link is for. */
enum line_kind {
	LINE_PEER_IN,
	LINE_PEER_OUT,
	LINE_CLIENTS_IN,
	LINE_CLIENTS_OUT,
	LINE_ORDERED,
	LINE_FLOW, /* of a leader; the number is an enum flow */
};

struct line {
	enum line_kind kind;
	unsigned number; /* of the replica */
	struct link *link;
};

/* A client, by its seat in the flow of requests. */
struct place {
	uint64_t client; /* its id; 0: none has shaken hands */
	unsigned seat;   /* in the flow of replies */
	/*
	 * On the fast path: votes of this replica that the client must hear of.
	 */
	kv_ballot voted_ballot;
	uint64_t voted_leader, voted_slot;
};

/* A get that waits for a round of paxos_read(). */
struct read {
	unsigned place;
	uint64_t client, session, number;
	uint16_t lane, key_size;
	char key[KV_MAX_KEY];
	struct read *next; /* of the free ones */
};

/* The ordered flow of NOPaxos. */
struct order {
	struct line line;
	uint64_t flow; /* its id; 0: there is none */
	uint64_t ends; /* replicas in it, a bit for each number */
	uint64_t next; /* number of the next segment */
	bool up;
	struct kv_message *message; /* that is being filled, for batch */
	struct kv_batch batch;      /* requests since it was last sent */
	uint64_t try_at, announce_at, look_at;
	uint64_t n_ended; /* fast paths that had ended when it was made */
	uint64_t random;
};

enum flow {
	FLOW_ACCEPTS,
	FLOW_VOTES,
	N_FLOWS,
};

/* See replica_flows.c. */
struct flows {
	struct line lines[KV_MAX_REPLICAS][N_FLOWS]; /* of each leader */
	/* Of this replica as the leader. */
	uint64_t there; /* followers in the flow, a bit for each number */
	kv_ballot ballot;
	uint64_t sent; /* the last slot of the ballot that it has carried */
	/* Of each follower. */
	uint64_t low[KV_MAX_REPLICAS];   /* it gets slots from here to sent */
	uint64_t given[KV_MAX_REPLICAS]; /* the last one that was for it */
	/* Counters. */
	uint64_t left, carried[N_FLOWS], spared;
};

/* MiB for the log, if nothing else is said, and at most. */
#define REPLICA_MEMORY 64
#define REPLICA_MAX_MEMORY (1 << 20)

#define REPLICA_READS 8192
#define REPLICA_WINDOW 8192     /* slots that are proposed and not yet chosen */
#define REPLICA_STASH (8 << 20) /* bytes of segments that come too early */
/* Rings of the ordered flow. */
#define ORDER_SEGMENT 16384
#define ORDER_SEGMENTS 256

struct replica_counts {
	uint64_t requests, replies, replies_dropped, turns;
	uint64_t published; /* requests, in the ordered flow */
	uint64_t snapshots;
};

struct replica {
	struct replica_options options;
	uint64_t cluster, incarnation, now;
	uint64_t seed; /* of what this start does at random */
	enum kv_stage stage;
	struct kv_config first; /* configuration of slot 1; all 0: not known */
	uint64_t waiting[KV_MAX_REPLICAS]; /* incarnations with --bootstrap */
	uint64_t handshake_at;             /* when handshakes are sent again */
	struct links *links;
	struct line in[KV_MAX_REPLICAS], out[KV_MAX_REPLICAS];
	struct link *building; /* between begin and send */
	struct paxos_ops ops;
	struct nopaxos_ops fast_ops;
	struct nopaxos *fast; /* NULL: Multi-Paxos alone */
	struct order order;
	struct flows flows;
	uint64_t heard[KV_MAX_REPLICAS]; /* when something came from there */
	struct paxos *paxos; /* NULL until the first configuration is known */
	struct journal *journal;
	struct snapshots *snapshots;
	int snapshot_failed; /* as it could not be begun */
	bool restored;       /* from a folder that had an identity */
	struct line clients_in, clients_out;
	struct place places[KV_CLIENT_PLACES];
	uint64_t sessions[KV_CLIENT_PLACES]; /* which each one uses */
	uint64_t greetings_due, votes_due;   /* to places, a bit each */
	struct read *reads, *free_reads;
	struct replica_counts counts;
	bool logged_gateway;
	enum paxos_role logged_role; /* what was said last */
	int logged_leader;
	bool logged_lost;
	bool changed;
	atomic_bool stop;
};

/* The helper that opens flows to another replica; see open_links(). */
static inline unsigned replica_helper(
    const struct replica *replica, unsigned peer)
{
	return 1 + (peer < replica->options.self ? peer : peer - 1);
}

/*
 * Join the registry and read the disk. Returns 0, or an error. All errors of a
 * replica except -ENOMEM are reported.
 */
int replica_open(const struct replica_options *options, struct replica **out);

/* Serve until replica_stop(). Returns as replica_open(). */
int replica_run(struct replica *replica);

/* Have replica_run() return. Async-signal-safe. */
void replica_stop(struct replica *replica);

void replica_close(struct replica *replica);

/* replica_clients.c */
int clients_open(struct replica *replica);
void clients_receive(struct replica *replica, struct place *place,
    const struct kv_message *message);
void clients_left(struct replica *replica, unsigned place);
void clients_applied(struct replica *replica, uint64_t slot,
    const struct kv_command *command, const struct kv_result *result);
void clients_notify_all(struct replica *replica);
void clients_executed(struct replica *replica, uint64_t slot, kv_ballot ballot,
    unsigned members, const struct kv_command *command,
    const struct kv_result *result);
void clients_voted(struct replica *replica, uint64_t slot, kv_ballot ballot,
    uint64_t leader, const struct kv_command *command);
void clients_flush(struct replica *replica);

/* replica_bootstrap.c */
void bootstrap_receive(
    struct replica *replica, const struct kv_message *message);
void bootstrap_handshake(struct replica *replica, unsigned peer);
void bootstrap_greet(struct replica *replica); /* others, now and then */
int bootstrap_turn(struct replica *replica);   /* 0, or as replica_open() */

/* replica_core.c: make the core; the disk is read. 0, or as replica_open(). */
int core_open(struct replica *replica);
int disk_open(struct replica *replica);
void core_snapshots(struct replica *replica);

/* replica_order.c: the ordered flow, if the protocol is NOPaxos. */
int order_open(struct replica *replica);
void order_turn(struct replica *replica);
void order_hear(struct replica *replica, unsigned from,
    const struct kv_replica_handshake *handshake);
void order_line_changed(struct replica *replica, struct link *link, bool up);
void order_receive(struct replica *replica, struct link *link,
    const struct kv_message *message, size_t size);
void order_gap(struct replica *replica, struct link *link, uint32_t n);
/*
 * Take a client's command while the ordered flow takes requests: KV_OK, or the
 * reason why not.
 */
uint8_t order_take(struct replica *replica, const struct kv_command *command);
void order_flush(struct replica *replica);

/* replica_flows.c: with options.flows. */
int flows_open(struct replica *replica);
void flows_joined(struct replica *replica, unsigned follower);
void flows_left(struct replica *replica, unsigned follower);
void flows_down(struct replica *replica, const struct line *line);
/* Whether they take the message; otherwise use the flow to that replica. */
bool flows_send(
    struct replica *replica, unsigned to, const struct kv_message *message);

/* replica_status.c */
size_t status_text(struct replica *replica, char *text, size_t size);
void status_line(struct replica *replica);
void say(const struct replica *replica, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
