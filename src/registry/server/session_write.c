/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output to a client of the registry: replies to its requests, and the
 * events of its watches. Events can't be held back: a client that leaves more
 * than the limit unread is disconnected.
 */
#include "session.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/error.h"
#include "server.h"
#include "registry/wire/stream.h"

static struct evbuffer *output(struct session *session)
{
	return bufferevent_get_output(session->stream);
}

static void on_output(
    struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *arg)
{
	struct session *session = arg;

	session->queued = evbuffer_get_length(buffer);
	dfi__turns_account(session->server, info->n_added, info->n_deleted);
	/* Its requests are not read then: taking output keeps it alive. */
	if ((session->paused || session->snapshot) && info->n_deleted)
		dfi__session_lives(session);
}

int dfi__session_start_output(struct session *session)
{
	if (!evbuffer_add_cb(output(session), on_output, session))
		return -ENOMEM;
	session->queued = evbuffer_get_length(output(session));
	dfi__turns_account(session->server, session->queued, 0);
	return 0;
}

void dfi__session_end_output(struct session *session)
{
	if (session->unsent)
		TAILQ_REMOVE(&session->server->unsent, session, unsent_link);
	/* libevent may still use the buffer after this call. */
	evbuffer_remove_cb(output(session), on_output, session);
	dfi__turns_account(session->server, 0, session->queued);
}

/* The output has grown. */
static void said(struct session *session)
{
	if (!session->direct || session->writing || session->unsent)
		return;
	session->unsent = true;
	TAILQ_INSERT_TAIL(&session->server->unsent, session, unsent_link);
}

void dfi__session_flush(struct session *session)
{
	session->unsent = false;
	TAILQ_REMOVE(&session->server->unsent, session, unsent_link);
	/* If a session waits to be writable, libevent writes. */
	if (!session->paused && !session->closing &&
	    dfi__stream_flush(session->stream)) {
		if (session->snapshot)
			dfi__turns_enqueue(session);
		return;
	}
	session->writing = true;
	bufferevent_enable(session->stream, EV_WRITE);
}

void dfi__session_reply(struct session *session, Dfi__Registry__Reply *reply)
{
	said(session);
	if (dfi__wire_write_reply(output(session), reply))
		dfi__session_doom(session, "%s", dfi_errmsg());
}

void dfi__session_event(struct session *session, uint64_t watch,
    enum table_event_type type, const struct table_item *item)
{
	Dfi__Registry__Event event = DFI__REGISTRY__EVENT__INIT;
	Dfi__Registry__Value value = DFI__REGISTRY__VALUE__INIT;

	value.key = (char *)item->key;
	value.data.data = (uint8_t *)item->value;
	value.data.len = item->size;
	value.revision = item->revision;
	said(session);
	event.watch = watch;
	event.type = type == TABLE_PUT ? DFI__REGISTRY__EVENT_TYPE__PUT
				       : DFI__REGISTRY__EVENT_TYPE__DELETE;
	event.value = &value;
	if (dfi__wire_write_event(output(session), &event))
		dfi__session_doom(session, "%s", dfi_errmsg());
}

void dfi__session_notify(const struct table_notice *notice)
{
	struct session *session = notice->watcher;
	size_t waiting;

	if (session->doomed || session->closing)
		return;
	dfi__session_event(session, notice->tag, notice->type, &notice->item);
	waiting = session->queued;
	if (session->snapshot_bytes > waiting)
		session->snapshot_bytes = waiting;
	if (waiting > session->server->max_output + session->snapshot_bytes)
		dfi__session_doom(session,
		    "it does not read: %zu bytes wait for it", waiting);
}

void dfi__session_snapshot(struct session *session, size_t bytes)
{
	size_t before = session->queued - bytes;

	if (session->snapshot_bytes > before)
		session->snapshot_bytes = before;
	session->snapshot_bytes += bytes;
}
