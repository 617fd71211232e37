/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service for dfi-bench rpc: a server's thread, and clients that join, ask,
 * and leave. A request is a tuple; its reply is the same. Functions print an
 * error where they find it, and then return false.
 */
#ifndef DFI_BENCH_RPC_H
#define DFI_BENCH_RPC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "plan.h"
#include "session.h"

struct rpc_service;

struct rpc_client {
	struct rpc_service *service;
	struct dfi_source *requests;
	struct dfi_target *replies;
	int fd;
	uint64_t request[RPC_MAX_TUPLE / 8], reply[RPC_MAX_TUPLE / 8];
};

struct rpc_ops {
	const char *name;
	bool (*start)(struct rpc_service *service);
	/* All clients have left. */
	bool (*stop)(struct rpc_service *service);
	bool (*join)(struct rpc_client *client);
	/* Send the request, and wait for the reply. */
	bool (*call)(struct rpc_client *client);
	bool (*leave)(struct rpc_client *client);
};

/* RPC_SEAT of a request over flows is the seat that its reply goes to. */
enum {
	RPC_ID = 0,
	RPC_SEAT,
};

struct rpc_service {
	const struct rpc_ops *ops;
	struct session *session;
	const struct common_options *options;
	uint32_t n_seats, tuple_size;
	pthread_t thread;
	bool failed; /* the server's thread has */
	/* Over flows: */
	struct dfi *dfi; /* the server's; clients have the session's */
	struct dfi_target *requests;
	struct dfi_source *replies;
	char request_flow[PLAN_NAME_SIZE], reply_flow[PLAN_NAME_SIZE];
	/* Over sockets: */
	int listener, epoll, stops;
	char address[64]; /* behind the 0 of an abstract one */
};

extern const struct rpc_ops rpc_flow_ops, rpc_socket_ops;

#endif
