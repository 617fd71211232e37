/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of a replicated store: it submits commands, finds the leader, asks
 * again after a fail-over, and says of each command what became of it.
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
 * One thread at a time uses a client. A client has helper threads, which open
 * and close flows, so that no call but kv_client_open() and kv_client_close()
 * waits for the registry. Functions return 0 or a negative errno value, and
 * leave a text for their thread: kv_client_error().
 */
#ifndef KV_CLIENT_H
#define KV_CLIENT_H

#include "message.h"

struct kv_client;

/*
 * What became of a command, beside enum kv_status: KV_OK, KV_NOT_FOUND and
 * KV_DIFFERENT mean that it was applied, KV_INVALID that it never will be.
 */
enum {
	/*
	 * No answer came in time, or the session has ended meanwhile: the
	 * command was applied once, or not at all, or will still be, but not
	 * after the lane's next command. KV_BUSY and KV_NO_QUORUM, in
	 * contrast, say that no replica has taken it: it is not applied. With
	 * KV_NO_QUORUM the replicas say why: see KV_NO_QUORUM_TEXT.
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
	 * Serve gets by one round of the leader's for many, not by the log.
	 * Both are linearizable.
	 */
	bool index_reads;
	bool observe; /* only kv_client_status(): no session, nor a leader */
	uint64_t timeout_ns; /* of a command, until KV_UNKNOWN; default 10 s */
	uint64_t retry_ns;   /* without an answer until a command is sent again;
				default 200 ms, and twice that after each time,
				up to 1 s. To a new leader they go at once. */
	uint64_t open_timeout_ns; /* of kv_client_open(); default 10 s */
	/*
	 * Called for each command that was submitted, once. It may submit
	 * commands, also of the same lane, and call nothing else.
	 */
	void (*done)(void *arg, const struct kv_client_answer *answer);
	void *arg;
};

/*
 * Connect to the replicas that are there, and open a session. Returns once the
 * leader has opened it. -ETIMEDOUT: there was none in open_timeout_ns, or no
 * replica has a free place for a client. -ENOTRECOVERABLE: nor can there be
 * one, as a majority of the replicas has lost its data. -EINVAL, -ENOMEM.
 * -ECONNREFUSED and other errors of dfi_open(): the registry.
 */
int kv_client_open(
    const struct kv_client_options *options, struct kv_client **client);

/* Commands that are outstanding are dropped, done() is not called. */
void kv_client_close(struct kv_client *client);

/* A command. Members that its op doesn't use are 0. */
struct kv_client_command {
	uint8_t op;        /* KV_GET, KV_PUT, KV_DELETE, KV_CAS */
	uint8_t flags;     /* KV_CAS: KV_ABSENT, if there is to be no value */
	uint16_t key_size; /* 1 to KV_MAX_KEY */
	uint16_t value_size, expected_size; /* up to KV_MAX_VALUE */
	const char *key, *value, *expected;
};

/*
 * Submit a command on a lane; it is copied. It is sent by the next
 * kv_client_poll() or kv_client_wait(), with all others that are submitted
 * before. Never waits. -EBUSY: the lane has a command outstanding. -EINVAL: a
 * size, the op or the lane.
 */
int kv_client_submit(struct kv_client *client, unsigned lane,
    const struct kv_client_command *command, uint64_t tag);

/*
 * Send what was submitted, take answers that are there, and send again what has
 * waited for too long. Never waits. Returns how many commands have ended, for
 * which done() was called.
 */
int kv_client_poll(struct kv_client *client);

/* The same, and if none has ended, wait for one, at most timeout_ns. */
int kv_client_wait(struct kv_client *client, uint64_t timeout_ns);

/*
 * A descriptor that becomes readable when kv_client_poll() has something to do,
 * after a call of it that returned 0, and when that is at the latest.
 */
int kv_client_fd(struct kv_client *client);
uint64_t kv_client_due(const struct kv_client *client); /* CLOCK_MONOTONIC */

/*
 * Ask one replica for its counters, as lines of text "name value"; text is
 * terminated, cut to size. Waits, at most timeout_ns, and serves commands
 * meanwhile. -ETIMEDOUT: it doesn't answer.
 */
int kv_client_status(struct kv_client *client, unsigned replica,
    uint64_t timeout_ns, char *text, size_t size);

/*
 * Change the members, by one: see paxos_reconfigure(). Waits until the leader
 * has taken it on, at most timeout_ns, and serves commands meanwhile; that it
 * is done, kv_client_status() shows. *status is KV_OK, or says why not:
 * KV_BUSY: another change is under way; KV_INVALID: more than one member.
 * -ETIMEDOUT: no answer; it may have been taken on.
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

/* What the last call of this thread that failed has to say, in one line. */
const char *kv_client_error(void);

#endif
