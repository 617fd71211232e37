/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restoring after a lost connection: reconnect.c makes a new one, and restore.c
 * sets the keys and watches again that ended with the old one. All of it runs
 * on the loop's thread unless a comment says otherwise.
 */
#ifndef DFI_REGISTRY_REMOTE_RESTORE_H
#define DFI_REGISTRY_REMOTE_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "registry/wire/wire.h"

struct event;
struct kept_key;
struct remote_client;

enum restore_step { /* see restore.c */
	RESTORE_WAITING,
	RESTORE_CONNECTING,
	RESTORE_GREETING,
	RESTORE_WATCHES,
	RESTORE_RESUMING,
	RESTORE_KEYS,
	RESTORE_FOLLOWS,
};

struct restore {
	enum restore_step step;
	struct event *timer;    /* begins an attempt, or ends this one */
	struct event *kick;     /* continues the step */
	struct event *writable; /* while connecting */
	int fd;                 /* -1: none, or the stream has it */
	unsigned delay_ms;
	unsigned n_unanswered;
	uint64_t handshake, grant, list; /* requests */
	uint64_t store;                  /* of the registry that answers, */
	uint64_t revision;               /* and its last one */
	bool remembered;    /* it has what we have set, unless it has ended, */
	bool resumes;       /* and our lease */
	bool other_version; /* the registry's: it will not change */
	char text[512];     /* of the last failure that was logged */
};

/* Prepare for restoring, before the connection is used. -ENOMEM. */
int dfi__restore_init(struct remote_client *client);
void dfi__restore_free(struct remote_client *client);
int dfi__reconnect_init(struct remote_client *client);
void dfi__reconnect_free(struct restore *restore);

/* The connection is lost: restore it. */
void dfi__reconnect_begin(struct remote_client *client);

/* End the attempt with dfi_errmsg(), and the stream if there is one. */
void dfi__reconnect_fail(struct remote_client *client);

/* Handle the failure of an attempt; the stream is closed. */
void dfi__reconnect_failed(struct remote_client *client, const char *why);

/* While restoring: note progress, even if a part of an answer. */
void dfi__reconnect_heard(struct remote_client *client);

/* A reply to the greeting: 0, or why the attempt fails. */
int dfi__reconnect_answer(
    struct remote_client *client, const Dfi__Registry__Reply *reply);

/* The last attempt's requests get no answer any more. */
void dfi__restore_forget_all(struct remote_client *client);

/* The registry has accepted the greeting: restore everything. */
void dfi__restore_begin(struct remote_client *client);

/* A reply has come while the client restores. */
void dfi__restore_answer(
    struct remote_client *client, const Dfi__Registry__Reply *reply);

/* Take the next steps soon: client.kicked was set. */
void dfi__restore_go_on(struct remote_client *client);

/* Any thread that has entered may call these. */

/* Forget an unanswered request of restoring. */
void dfi__restore_forget(struct remote_client *client);

/* While resuming: an answer about the lease. 0, or why the attempt fails. */
int dfi__resume_answer(
    struct remote_client *client, const Dfi__Registry__Reply *reply);

/* Take the lease over. */
int dfi__resume_begin(struct remote_client *client);

/* Put a key that need not be sent behind those that must be. */
void dfi__restore_skip(struct remote_client *client, struct kept_key *kept);

/* While restoring: a kept key has changed. */
void dfi__restore_renew(struct remote_client *client, struct kept_key *kept);

/*
 * While restoring: a key is to be deleted. Returns whether it is known to be
 * ours; if not, it is not set again, and is deleted once it proves to be ours.
 */
bool dfi__restore_leave(struct remote_client *client, struct kept_key *kept);

#endif
