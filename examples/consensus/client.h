/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of a replicated store. It submits commands, finds the leader,
 * repeats commands after a fail-over, and reports the outcome of each.
 *
 * A client has lanes. A lane has at most one command outstanding; commands of
 * different lanes are independent. Each command is applied at most once,
 * however often it is sent: the store filters repetitions by session, lane and
 * number.
 *
 *	struct kv_client_options options = {
 *		.cluster = "kv",
 *		.n_replicas = 3,
 *		.lanes = 1,
 *		.done = on_answer,
 *	};
 *	if (kv_client_open(&options, &client))
 *		errx(1, "%s", kv_client_error());
 *	kv_client_submit(client, 0, &command, tag);
 *	while (!answered)
 *		kv_client_wait(client, 1000000000);
 *	kv_client_close(client);
 *
 * One thread at a time uses a client. Helper threads of the client open and
 * close flows, so only kv_client_open() and kv_client_close() wait for the
 * registry. Functions return 0 or a negative errno value; kv_client_error() has
 * the text for the calling thread.
 */
#ifndef KV_CLIENT_H
#define KV_CLIENT_H

#include "message.h"

struct kv_client;

/*
 * The outcome of a command, beside enum kv_status. KV_OK, KV_NOT_FOUND and
 * KV_DIFFERENT: it was applied. KV_INVALID: it never will be.
 */
enum {
	/*
	 * No answer came in time, or the session has ended. The command was
	 * applied once, or never, or will be, but not after the lane's next
	 * command. KV_BUSY and KV_NO_QUORUM, in contrast, say that no replica
	 * has accepted it: it is not applied. For KV_NO_QUORUM see
	 * KV_NO_QUORUM_TEXT.
	 */
	KV_UNKNOWN = 100,
};

struct kv_client_answer {
	uint64_t tag; /* of kv_client_submit() */
	uint16_t lane;
	uint8_t op;        /* enum kv_op */
	uint8_t status;    /* enum kv_status, or KV_UNKNOWN */
	uint32_t attempts; /* times that the command was sent */
	const char *value; /* KV_GET with KV_OK, KV_DIFFERENT: the key's value,
			      valid during the callback */
	size_t value_size;
	uint64_t slot; /* of the log, where the replica told it, or 0 */
};

/* Zero in a number means its default. Texts are copied. */
struct kv_client_options {
	const char *registry; /* address; NULL: DFI_REGISTRY */
	const char *cluster;  /* name; NULL: "kv" */
	unsigned n_replicas;  /* must be given: 1 to KV_MAX_REPLICAS */
	unsigned lanes;       /* 1 to KV_MAX_LANES; default 1 */
	/*
	 * One round of the leader serves many gets, without the log. Both ways
	 * are linearizable.
	 */
	bool index_reads;
	bool observe; /* only kv_client_status(): no session, nor a leader */
	uint64_t timeout_ns; /* of a command, until KV_UNKNOWN; default 10 s */
	uint64_t retry_ns;   /* wait for an answer before the command is sent
			      * again; default 200 ms, doubled each time up
			      * to 1 s. A new leader gets commands at once. */
	uint64_t open_timeout_ns; /* of kv_client_open(); default 10 s */
	/*
	 * Called once for each submitted command. It may submit commands, also
	 * of the same lane; it must not make other calls.
	 */
	void (*done)(void *arg, const struct kv_client_answer *answer);
	void *arg;
};

/*
 * Connect to the reachable replicas, and open a session with the leader.
 * -ETIMEDOUT: no leader in open_timeout_ns, or no replica has a free place for
 * a client. -ENOTRECOVERABLE: no leader is possible, as a majority of the
 * replicas has lost its data. -EINVAL, -ENOMEM. -ECONNREFUSED and other errors
 * of dfi_open(): the registry.
 */
int kv_client_open(
    const struct kv_client_options *options, struct kv_client **client);

/* Drop outstanding commands without calling done(). */
void kv_client_close(struct kv_client *client);

/* A command. Members that its op doesn't use must be 0. */
struct kv_client_command {
	uint8_t op;        /* KV_GET, KV_PUT, KV_DELETE, KV_CAS */
	uint8_t flags;     /* KV_CAS: KV_ABSENT, if there must be no value */
	uint16_t key_size; /* 1 to KV_MAX_KEY */
	uint16_t value_size, expected_size; /* up to KV_MAX_VALUE */
	const char *key, *value, *expected;
};

/*
 * Submit a command on a lane; it is copied. The next kv_client_poll() or
 * kv_client_wait() sends all submitted commands. Never waits. -EBUSY: the lane
 * has a command outstanding. -EINVAL: a size, the op or the lane.
 */
int kv_client_submit(struct kv_client *client, unsigned lane,
    const struct kv_client_command *command, uint64_t tag);

/*
 * Send submitted commands, take the answers that have come, and repeat commands
 * without an answer. Never waits. Returns how many commands have ended; done()
 * was called for each.
 */
int kv_client_poll(struct kv_client *client);

/* The same; if no command has ended, wait for one, at most timeout_ns. */
int kv_client_wait(struct kv_client *client, uint64_t timeout_ns);

/*
 * A descriptor that becomes readable when kv_client_poll() has work, after a
 * call of it that returned 0, and the latest time of that.
 */
int kv_client_fd(struct kv_client *client);
uint64_t kv_client_due(const struct kv_client *client); /* CLOCK_MONOTONIC */

/*
 * Ask one replica for its counters: lines "name value". text is terminated, and
 * cut to size. Waits at most timeout_ns, and serves commands meanwhile.
 * -ETIMEDOUT: no answer.
 */
int kv_client_status(struct kv_client *client, unsigned replica,
    uint64_t timeout_ns, char *text, size_t size);

/*
 * Change the members by one: see paxos_reconfigure(). Waits until the leader
 * has accepted the change, at most timeout_ns, and serves commands meanwhile.
 * kv_client_status() shows its end. *status is KV_OK, or says why not: KV_BUSY:
 * another change is under way; KV_INVALID: more than one member. -ETIMEDOUT: no
 * answer; the leader may have accepted it.
 */
int kv_client_reconfigure(struct kv_client *client,
    const struct kv_config *config, uint64_t timeout_ns, uint8_t *status);

struct kv_client_stats {
	uint64_t commands;   /* that have ended */
	uint64_t unknown;    /* of these, without an outcome */
	uint64_t sent;       /* messages with a command */
	uint64_t retries;    /* of these, sent again */
	uint64_t not_leader; /* answers of replicas that don't lead */
	uint64_t leader_changes;
	uint64_t sessions;    /* opened */
	uint64_t connections; /* to replicas, made */
	int leader;           /* where commands go, or -1 */
	uint32_t connected;   /* replicas, a bit each */
};
void kv_client_query(
    const struct kv_client *client, struct kv_client_stats *stats);

/* The text of this thread's last failed call, in one line. */
const char *kv_client_error(void);

#endif
