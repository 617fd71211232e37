/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting again what a lost connection held. An attempt goes through these
 * steps, each of which waits for answers; when one fails, the next attempt
 * begins after a while. The first three are in reconnect.c.
 *
 *	WAITING     for the time of the next attempt
 *	CONNECTING  for the socket
 *	GREETING    handshake and a new lease
 *	WATCHES     each watch is made again that is needed
 *	RESUMING    if the registry still has our lease: it is taken over, and
 *	            its keys are compared with ours (resume.c)
 *	KEYS        each kept key is created again that the registry lacks
 *	            (what it had before, and has not created again, goes)
 *	FOLLOWS     the other watches are made again, which may be refused
 *
 * Keys come behind what may fail for want of room: when the attempt ends, they
 * go again, and with them the process that has set them, as others know it.
 *
 * A key that exists when it is to be created is ours if we have put it last,
 * even if no answer has come to that: the registry has not yet noticed the loss
 * of our former connection, and binds the key to the new lease. Else it is
 * somebody else's.
 */
#include "restore.h"

#include <errno.h>
#include <event2/event.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "registry/client/client.h"
#include "enter.h"
#include "keep.h"
#include "keys.h"
#include "state.h"
#include "watch.h"

#define UNANSWERED_MAX 64 /* so that the output stays small */

/*
 * The registry may not have noticed the loss of the former connection: end what
 * is left of it. The answer does not matter.
 */
static int end_past(struct remote_client *client)
{
	Dfi__Registry__LeaseRevoke revoke = DFI__REGISTRY__LEASE_REVOKE__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(
	    LEASE_REVOKE, lease_revoke, &revoke);

	revoke.past = true;
	return dfi__client_send(client, &request);
}

static int send_key(struct remote_client *client, struct kept_key *kept)
{
	Dfi__Registry__Put put = DFI__REGISTRY__PUT__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(PUT, put, &put);
	int ret;

	put.key = kept->key;
	put.value.data = kept->value;
	put.value.len = kept->size;
	put.create = true;
	put.reclaim = true;
	put.leased = kept->flags & CLIENT_LEASED;
	ret = dfi__client_send(client, &request);
	kept->request = request.id;
	return ret;
}

/* The last attempt's requests get no answer any more. */
void dfi__restore_forget_all(struct remote_client *client)
{
	struct remote_watch *watch;
	struct kept_key *kept;

	TAILQ_FOREACH(kept, &client->kept, link)
	kept->request = 0;
	TAILQ_FOREACH(watch, &client->watches, link)
	watch->asked = false;
	client->restore->n_unanswered = 0;
}

void dfi__restore_skip(struct remote_client *client, struct kept_key *kept)
{
	kept->sent = true;
	TAILQ_REMOVE(&client->kept, kept, link);
	TAILQ_INSERT_TAIL(&client->kept, kept, link);
}

/*
 * A registry that remembers has each key that is bound to no lease, unless
 * somebody has deleted it.
 */
static void begin_keys(struct remote_client *client)
{
	struct kept_key *last = TAILQ_LAST(&client->kept, kept_list), *kept,
			*next;

	for (kept = TAILQ_FIRST(&client->kept); kept; kept = next) {
		next = kept == last ? NULL : TAILQ_NEXT(kept, link);
		kept->sent = kept->stale = kept->found = false;
		if (kept->leaves)
			dfi__keep_drop(client, kept->key);
		else if (client->restore->remembered &&
		    !(kept->flags & CLIENT_LEASED))
			dfi__restore_skip(client, kept);
	}
}

/* Those that may be refused are last in the list. */
static void begin_watches(struct remote_client *client)
{
	struct watch_list own = TAILQ_HEAD_INITIALIZER(own);
	struct remote_watch *watch, *next;

	for (watch = TAILQ_FIRST(&client->watches); watch; watch = next) {
		next = TAILQ_NEXT(watch, link);
		watch->sent = false;
		if (!watch->own)
			continue;
		TAILQ_REMOVE(&client->watches, watch, link);
		TAILQ_INSERT_TAIL(&own, watch, link);
	}
	TAILQ_CONCAT(&client->watches, &own, link);
}

void dfi__restore_begin(struct remote_client *client)
{
	begin_watches(client);
	begin_keys(client);
	client->restore->step = RESTORE_WATCHES;
}

static bool is_due(const struct kept_key *kept)
{
	return !kept->sent || (kept->stale && !kept->request);
}

/* Those that are not due are at the end of the list. */
static int send_keys(struct remote_client *client)
{
	struct restore *restore = client->restore;
	struct kept_key *kept;
	int ret = 0;

	while (!ret && restore->n_unanswered < UNANSWERED_MAX &&
	    (kept = TAILQ_FIRST(&client->kept)) && is_due(kept)) {
		TAILQ_REMOVE(&client->kept, kept, link);
		TAILQ_INSERT_TAIL(&client->kept, kept, link);
		kept->sent = true;
		kept->stale = false;
		restore->n_unanswered++;
		ret = send_key(client, kept);
	}
	return ret;
}

static int send_watches(struct remote_client *client, bool own)
{
	struct restore *restore = client->restore;
	struct remote_watch *watch;
	int ret = 0;

	while (!ret && restore->n_unanswered < UNANSWERED_MAX &&
	    (watch = TAILQ_FIRST(&client->watches)) && !watch->sent &&
	    watch->own == own) {
		TAILQ_REMOVE(&client->watches, watch, link);
		TAILQ_INSERT_TAIL(&client->watches, watch, link);
		watch->sent = watch->asked = true;
		restore->n_unanswered++;
		ret = dfi__watch_renew(client, watch);
	}
	return ret;
}

static void finish(struct remote_client *client)
{
	struct restore *restore = client->restore;

	evtimer_del(restore->timer);
	client->restoring = false;
	client->store = restore->store;
	client->revision = restore->revision;
	dfi__client_set_timer(
	    client->grace_timer, atomic_load(&client->grace_ms));
	/* Use the level of the message that reported the loss. */
	dfi__log(DFI_LOG_WARN, "the connection to registry %s is back",
	    client->address);
	dfi__watch_notify(client, REGISTRY_BACK);
}

static int watches_are_there(struct remote_client *client)
{
	struct restore *restore = client->restore;

	restore->step = restore->resumes ? RESTORE_RESUMING : RESTORE_KEYS;
	return restore->resumes ? dfi__resume_begin(client) : 0;
}

/* Take all steps that need no further answer: 0, or why one fails. */
static int take_steps(struct remote_client *client)
{
	struct restore *restore = client->restore;
	int ret = 0;

	if (restore->step == RESTORE_WATCHES) {
		ret = send_watches(client, false);
		if (!ret && !restore->n_unanswered)
			ret = watches_are_there(client);
	}
	/* Also keys of late changes, see dfi__restore_renew(). */
	if (!ret && restore->step >= RESTORE_KEYS)
		ret = send_keys(client);
	if (!ret && restore->step == RESTORE_KEYS && !restore->n_unanswered) {
		restore->step = RESTORE_FOLLOWS;
		ret = end_past(client);
	}
	if (!ret && restore->step == RESTORE_FOLLOWS) {
		ret = send_watches(client, true);
		if (!ret && !restore->n_unanswered)
			finish(client);
	}
	return ret;
}

static void advance(struct remote_client *client)
{
	if (take_steps(client))
		dfi__reconnect_fail(client);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct remote_client *client = arg;

	(void)fd;
	(void)what;
	dfi__client_enter(client);
	if (client->restoring && client->stream)
		advance(client);
	dfi__client_exit(client);
}

void dfi__restore_go_on(struct remote_client *client)
{
	if (client->restoring && client->stream)
		event_active(client->restore->kick, EV_TIMEOUT, 0);
}

void dfi__restore_forget(struct remote_client *client)
{
	if (!client->restoring || client->closing || !client->stream)
		return;
	client->restore->n_unanswered--;
	/* Later: the caller is still changing the client. */
	client->kicked = true;
}

static bool is_sent(
    const struct remote_client *client, const struct kept_key *kept)
{
	return client->stream && client->restore->step != RESTORE_GREETING &&
	    kept->sent;
}

/* Insert it before those that were not sent yet. */
static void send_again(struct remote_client *client, struct kept_key *kept)
{
	TAILQ_REMOVE(&client->kept, kept, link);
	TAILQ_INSERT_HEAD(&client->kept, kept, link);
}

void dfi__restore_renew(struct remote_client *client, struct kept_key *kept)
{
	if (!is_sent(client, kept))
		return;
	kept->stale = true;
	/* Otherwise its answer sends it again. */
	if (!kept->request) {
		send_again(client, kept);
		client->kicked = true;
	}
}

bool dfi__restore_leave(struct remote_client *client, struct kept_key *kept)
{
	bool sent = is_sent(client, kept);

	if ((sent && !kept->request) || (!sent && kept->found))
		return true;
	if (sent)
		kept->leaves = true;
	else
		dfi__keep_drop(client, kept->key);
	return false;
}

/* Handle an answer about a key: 0, or why the attempt fails. */
static int answer_key(struct remote_client *client, struct kept_key *kept,
    const Dfi__Registry__Reply *reply)
{
	if (reply->error == -EEXIST) {
		dfi__log(DFI_LOG_WARN,
		    "registry %s: '%s' is somebody else's since the registry "
		    "was lost",
		    client->address, kept->key);
		dfi__keep_drop(client, kept->key);
		return 0;
	}
	if (reply->error)
		return dfi__fail(-ENOTCONN, "registry %s: '%s': %s",
		    client->address, kept->key, reply->text);
	kept->request = 0;
	client->restore->n_unanswered--;
	if (kept->leaves)
		dfi__client_send_withdrawal(client, kept->key);
	else if (kept->stale)
		send_again(client, kept);
	return 0;
}

/* Handle an answer about a watch: 0, or why the attempt fails. */
static int answer_watch(struct remote_client *client,
    struct remote_watch *watch, const Dfi__Registry__Reply *reply)
{
	if (reply->error && !watch->own)
		return dfi__fail(
		    -ENOTCONN, "registry %s: %s", client->address, reply->text);
	if (reply->error)
		dfi__watch_refused(watch);
	watch->asked = false;
	client->restore->n_unanswered--;
	return 0;
}

static int answer(
    struct remote_client *client, const Dfi__Registry__Reply *reply)
{
	struct remote_watch *watch;
	struct kept_key *kept;

	if (client->restore->step == RESTORE_GREETING)
		return dfi__reconnect_answer(client, reply);
	if (client->restore->step == RESTORE_RESUMING)
		return dfi__resume_answer(client, reply);
	watch = dfi__watch_find(client, reply->id);
	if (watch && watch->asked)
		return answer_watch(client, watch, reply);
	/* Those that are not answered are near the end. */
	TAILQ_FOREACH_REVERSE(kept, &client->kept, kept_list, link)
	{
		if (kept->request == reply->id)
			return answer_key(client, kept, reply);
	}
	return 0;
}

void dfi__restore_answer(
    struct remote_client *client, const Dfi__Registry__Reply *reply)
{
	if (answer(client, reply))
		dfi__reconnect_fail(client);
	else
		advance(client);
}

int dfi__restore_init(struct remote_client *client)
{
	struct restore *restore = calloc(1, sizeof(*restore));

	if (!restore)
		return dfi__fail(-ENOMEM, "no memory for a registry client");
	client->restore = restore;
	restore->kick = event_new(
	    dfi__loop_base(client->base.loop), -1, 0, on_kick, client);
	if (dfi__reconnect_init(client) || !restore->kick)
		return dfi__fail(-ENOMEM, "no memory for a registry client");
	return 0;
}

void dfi__restore_free(struct remote_client *client)
{
	struct restore *restore = client->restore;

	client->restoring = false;
	client->restore = NULL;
	if (!restore)
		return;
	dfi__reconnect_free(restore);
	if (restore->kick)
		event_free(restore->kick);
	free(restore);
}
