/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to etcd and its answer. It goes to one member, and to the next one
 * if that does not answer; and it has the token of etcd's user, which is got
 * again when etcd does not know it any more.
 */
#ifndef DFI_REGISTRY_ETCD_EXCHANGE_H
#define DFI_REGISTRY_ETCD_EXCHANGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "http.h"

struct etcd_client;
struct event;

/* The caller owns it. Set the first members. */
struct exchange {
	/*
	 * 0 and the answer, which is lent; or the error, whose text is in
	 * dfi_errmsg(). -EAGAIN, with once: it is unknown whether the request
	 * took effect. It may free or start the exchange.
	 */
	void (*done)(void *arg, int ret, const json_t *answer);
	void *arg;
	const char *path; /* "/v3/..." */
	bool once;        /* it must not take effect twice */
	/*
	 * Fail if all endpoints have refused it in turn; otherwise go on until
	 * it is ended.
	 */
	bool hasty;
	uint32_t limit_ms; /* of an attempt; 0: ATTEMPT_MS */

	/* of exchange.c */
	TAILQ_ENTRY(exchange) link;
	struct etcd_client *client;
	char *body;
	struct http_request http;
	struct event *timer;
	int64_t sent_at; /* of the last attempt */
	unsigned endpoint;
	unsigned n_failed, n_tokens;
	unsigned n_refused; /* since a member last was slow, or electing */
	bool active;
	bool waits; /* for a token */
};

#define ATTEMPT_MS 2000

/*
 * Send body, whose reference is taken; NULL: no memory. done() is called later,
 * or, where there is no memory, at once. (loop)
 */
void dfi__exchange_start(
    struct etcd_client *client, struct exchange *exchange, json_t *body);

/* done() is not called any more. No effect if it is not active. (loop) */
void dfi__exchange_end(struct exchange *exchange);

/*
 * A request that got no answer from this endpoint: others try the next one, and
 * so does the stream. (loop)
 */
void dfi__exchange_blame(struct etcd_client *client, unsigned endpoint);

/* Get a token, unless that is under way: see dfi__stream_token(). (loop) */
void dfi__exchange_get_token(struct etcd_client *client);
/* etcd does not know the token any more. (loop) */
void dfi__exchange_drop_token(struct etcd_client *client);

/* An error that etcd has answered. */
struct etcd_error {
	int code;          /* of gRPC */
	char message[256]; /* printable ASCII */
	bool wants_token;  /* it does not know the token */
};

/* Read it. false: the answer is no error. */
bool dfi__exchange_error(const json_t *answer, struct etcd_error *error);

#endif
