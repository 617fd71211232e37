/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by client.c, the calls; client_net.c, connections and the leader;
 * client_lane.c, commands.
 */
#ifndef KV_CLIENT_IMPL_H
#define KV_CLIENT_IMPL_H

#include "client.h"
#include "links.h"
#include "nopaxos_quorum.h"
#include "wire.h"

enum lane_state {
	LANE_IDLE = 0,
	LANE_QUEUED, /* to be sent, not before retry_at */
	LANE_SENT,
};

struct lane {
	enum lane_state state;
	struct kv_command *command;
	size_t room; /* of command */
	uint64_t number, tag;
	uint64_t deadline, retry_at, backoff;
	uint32_t attempts;
	uint32_t refusals; /* of the attempts: not taken for certain */
	/* NOPaxos: the leader's result, until votes confirm it. */
	bool held;
	struct kv_message *result;
	size_t result_room;
};

/* A replica, as the client sees it. */
struct server {
	struct kv_client *client;
	unsigned number;
	struct link *in, *out;
	bool in_up, out_up;
	bool welcome; /* it answers */
	bool gateway; /* it takes requests though it may not lead */
	bool lost;    /* a majority has lost its data, it says */
	uint64_t handshake_at;
};

struct kv_client {
	struct kv_client_options options;
	char *registry, *cluster;
	uint64_t cluster_id, id;
	struct links *links;
	struct server servers[KV_MAX_REPLICAS];
	struct link *building; /* between net_begin() and net_send() */
	int leader;            /* -1: none is known */
	kv_ballot ballot;      /* the highest that a leader has claimed */
	uint64_t probe_at;     /* when all are asked who leads */
	uint64_t session;      /* 0: none */
	uint64_t register_at;
	struct kv_votes votes; /* of NOPaxos */
	bool voted;            /* some have come */
	struct lane *lanes;
	uint64_t now, due; /* due: when a lane has something to do */
	int ended;         /* commands, in this call */
	bool closing;
	/* kv_client_status(), kv_client_reconfigure() */
	uint8_t answer;
	char *text;
	size_t text_size;
	uint64_t question;  /* its number; 0: none is asked */
	uint64_t questions; /* so far */
	struct kv_client_stats stats;
};

int client_fail(int ret, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* client_net.c */
int net_open(struct kv_client *client);
void net_turn(struct kv_client *client); /* sends what is due */
uint64_t net_due(const struct kv_client *client);
struct kv_message *net_begin(
    struct kv_client *client, unsigned server, uint8_t type, size_t body);
void net_send(struct kv_client *client, struct kv_message *message);
/* The leader doesn't lead, or sends nothing: ask all. */
void net_lose_leader(struct kv_client *client);
/*
 * A replica says that a majority has lost its data, and none says that it
 * leads.
 */
bool net_majority_lost(const struct kv_client *client);
void net_probe(struct kv_client *client);

/* client_lane.c */
void lanes_reply(struct kv_client *client, const struct kv_message *message);
void lanes_settle(struct kv_client *client); /* results that votes confirm */
void lanes_turn(struct kv_client *client);   /* send what is due */
/* There is a new leader: send it what was sent to the last one. */
void lanes_again(struct kv_client *client);

#endif
