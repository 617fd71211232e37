/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a lost connection back: reconnect.c makes a new one, restore.c sets
 * again what went with the old one. All of it runs on the loop's thread, except
 * what comments say.
 */
#ifndef DFI_REGISTRY_CLIENT_RESTORE_H
#define DFI_REGISTRY_CLIENT_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "registry/wire/wire.h"

struct event;
struct kept_key;
struct registry_client;

enum restore_step { /* see restore.c */
	RESTORE_WAITING,
	RESTORE_CONNECTING,
	RESTORE_GREETING,
	RESTORE_WATCHES,
	RESTORE_KEYS,
	RESTORE_FOLLOWS,
};

struct restore {
	enum restore_step step;
	struct event *timer; /* of the next attempt, or of this one's failure */
	struct event *kick;  /* go on with the step */
	struct event *writable; /* while connecting */
	int fd;                 /* -1: none, or the stream's */
	unsigned delay_ms;
	unsigned n_unanswered;
	uint64_t hello, grant; /* requests */
	char text[512];        /* of the last failure that was logged */
};

/* Before the connection is used: what restoring needs. -ENOMEM. */
int dfi__restore_init(struct registry_client *client);
void dfi__restore_free(struct registry_client *client);
int dfi__reconnect_init(struct registry_client *client);
void dfi__reconnect_free(struct restore *restore);

/* The connection is lost: get it back. */
void dfi__reconnect_begin(struct registry_client *client);

/* End the attempt with dfi_errmsg(), and the stream, if there is one. */
void dfi__reconnect_fail(struct registry_client *client);

/* What has come of an attempt; the stream is closed. */
void dfi__reconnect_failed(struct registry_client *client, const char *why);

/* While restoring: there is progress, even if it is part of an answer. */
void dfi__reconnect_heard(struct registry_client *client);

/* A reply to the greeting: 0, or why the attempt fails. */
int dfi__reconnect_answer(
    struct registry_client *client, const Dfi__Registry__Reply *reply);

/* Nobody answers any more what the last attempt has asked. */
void dfi__restore_forget_all(struct registry_client *client);

/* The registry has accepted the greeting: set everything again. */
void dfi__restore_begin(struct registry_client *client);

/* A reply has come while the client restores. */
void dfi__restore_answer(
    struct registry_client *client, const Dfi__Registry__Reply *reply);

/* Take the next steps, soon: client.kicked was set. */
void dfi__restore_go_on(struct registry_client *client);

/* The rest is for any thread that has entered. */

/* An unanswered request of restoring does not matter any more. */
void dfi__restore_forget(struct registry_client *client);

/* While restoring: a kept key has changed. */
void dfi__restore_renew(struct registry_client *client, struct kept_key *kept);

/*
 * While restoring: a key is to go. Whether it is known to be ours; else it is
 * not set again, or goes if it turns out to be.
 */
bool dfi__restore_leave(struct registry_client *client, struct kept_key *kept);

#endif
