/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the requests of a client of the registry, as many as one turn has
 * time for. The rest waits until the other clients had their turn; so do
 * requests that change keys, while too many changes wait to be sent.
 * operations.c carries requests out.
 */
#include "session.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/error.h"
#include "server.h"
#include "snapshot.h"
#include "sync.h"

#define OUTPUT_PAUSE (1 << 20)
/* After that many it is the turn of other clients. */
#define REQUESTS_PER_TURN 64
/* More than a handshake has. */
#define GREETING_SIZE_MAX 4096

/* Tells whether more requests may be read, given the queued answers. */
static bool may_read(struct session *session)
{
	size_t most = session->server->turns.full ? OUTPUT_RESUME
						  : OUTPUT_PAUSE;

	if (session->doomed || session->closing || session->snapshot ||
	    session->syncing)
		return false;
	session->paused = session->queued > most;
	return !session->paused;
}

void dfi__session_set_reading(struct session *session)
{
	bool wanted = session->closing ||
	    (!session->paused && !session->behind && !session->snapshot &&
		!session->syncing);
	bool reading;

	if (session->doomed || session->restored)
		return;
	reading = bufferevent_get_enabled(session->stream) & EV_READ;
	if (wanted == reading)
		return;
	if (wanted)
		bufferevent_enable(session->stream, EV_READ);
	else
		bufferevent_disable(session->stream, EV_READ);
}

int dfi__session_next(struct session *session, Dfi__Registry__Message **message)
{
	struct evbuffer *in = bufferevent_get_input(session->stream);

	if (session->read_error)
		return dfi__fail(session->read_error,
		    "the client sent something that is not a message");
	*message = session->held;
	session->held = NULL;
	return *message ? 1 : dfi__wire_read(in, message);
}

bool dfi__session_changes(const Dfi__Registry__Message *message)
{
	return message->body_case == DFI__REGISTRY__MESSAGE__BODY_REQUEST &&
	    dfi__session_request_changes(message->request);
}

/* Tells that the input can't be the beginning of a greeting. */
static bool has_no_handshake(struct session *session)
{
	return evbuffer_get_length(bufferevent_get_input(session->stream)) >
	    GREETING_SIZE_MAX;
}

/* Carry out the next request; false: none may be carried out now. */
static bool serve_one(struct session *session)
{
	Dfi__Registry__Message *message;
	int ret = dfi__session_next(session, &message);

	if (!ret && !session->greeted && has_no_handshake(session))
		ret = dfi__fail(-EMSGSIZE,
		    "the client's first message is longer than %d bytes, and "
		    "does not say its version",
		    GREETING_SIZE_MAX);
	if (ret < 0)
		dfi__session_refuse(session, 0, ret);
	if (ret <= 0)
		return false;
	if (dfi__session_changes(message) &&
	    !dfi__turns_may_change(session->server)) {
		session->held = message;
		dfi__turns_enqueue(session);
		return false;
	}
	if (dfi__sync_takes(session, message)) {
		session->held = message;
		dfi__sync_enqueue(session);
		return false;
	}
	if (message->body_case == DFI__REGISTRY__MESSAGE__BODY_REQUEST)
		dfi__session_request(session, message->request);
	else
		dfi__session_refuse(session, 0,
		    dfi__fail(-EBADMSG,
			"the client sent something else than a request"));
	dfi__wire_free(message);
	return true;
}

int dfi__session_read(struct session *session)
{
	struct evbuffer *in = bufferevent_get_input(session->stream);
	int64_t until = 0;
	int n = 0;

	while (may_read(session) && serve_one(session)) {
		n++;
		/* Usually it was the only one; then the clock is not read. */
		if (!evbuffer_get_length(in))
			continue;
		if (!until)
			until = dfi__turns_until(session->server);
		if (n < REQUESTS_PER_TURN && clock_now_ns() < until)
			continue;
		dfi__turns_enqueue(session);
		break;
	}
	if (session->closing)
		evbuffer_drain(in, evbuffer_get_length(in));
	dfi__session_set_reading(session);
	return n;
}

bool dfi__session_go_on(struct session *session)
{
	bool served = session->snapshot && dfi__snapshot_go_on(session);

	if (!session->snapshot)
		return dfi__session_read(session) || served;
	/* Otherwise it continues when the client has taken some. */
	if (session->queued <= OUTPUT_RESUME)
		dfi__turns_enqueue(session);
	return served;
}
