/* SPDX-License-Identifier: Apache-2.0 */
/* See snapshot.h. No pointer into the table outlives a page. */
#include "snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server.h"
#include "session.h"
#include "registry/wire/wire.h"

/* Limits of a page: bytes of values, and keys that are visited. */
#define PAGE_BYTES (256 << 10)
#define PAGE_STEPS 1024

struct snapshot {
	uint64_t watch;
	uint64_t since; /* later changes are reported anyway */
	uint64_t until; /* the table's revision at the last page; 0: not yet */
	bool exact;
	char prefix[TABLE_KEY_MAX + 1];
	char after[TABLE_KEY_MAX + 1]; /* the last key of the previous page */
};

/* Returns whether more pages follow. */
static bool send_page(struct session *session, struct snapshot *snapshot)
{
	const struct table *table = session->server->table;
	size_t before = session->queued, n = 0;
	const char *last = snapshot->after;
	struct table_item item;
	int found;

	found = dfi__table_next(table, snapshot->prefix, last, &item);
	if (snapshot->exact)
		found = found && !strcmp(item.key, snapshot->prefix);
	while (found && !session->doomed) {
		if (n++ == PAGE_STEPS || session->queued - before >= PAGE_BYTES)
			break;
		if (item.revision <= snapshot->since)
			dfi__session_event(
			    session, snapshot->watch, TABLE_PUT, &item);
		last = item.key;
		found = !snapshot->exact &&
		    dfi__table_step(snapshot->prefix, &item);
	}
	dfi__session_snapshot(session, session->queued - before);
	if (found && last != snapshot->after)
		strcpy(snapshot->after, last);
	return found && !session->doomed;
}

int dfi__snapshot_begin(
    struct session *session, uint64_t watch, const char *prefix, bool exact)
{
	struct snapshot snapshot = {
		.watch = watch,
		.since = dfi__table_revision(session->server->table),
		.exact = exact,
	};

	/* A watch's prefix has at most this length. */
	strcpy(snapshot.prefix, prefix);
	if (!send_page(session, &snapshot))
		return 0;
	session->snapshot = malloc(sizeof(snapshot));
	if (!session->snapshot)
		return dfi__fail(-ENOMEM, "no memory for a registry watch");
	*session->snapshot = snapshot;
	return 1;
}

/* Reply only after the changes between its pages were sent. */
static void reply(struct session *session)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;

	reply.id = session->snapshot->watch;
	reply.revision = session->snapshot->until;
	dfi__snapshot_end(session);
	dfi__session_reply(session, &reply);
}

bool dfi__snapshot_go_on(struct session *session)
{
	const struct server *server = session->server;
	struct snapshot *snapshot = session->snapshot;

	if (!snapshot->until) {
		if (server->turns.full)
			return false;
		if (send_page(session, snapshot))
			return true;
		snapshot->until = dfi__table_revision(server->table);
	}
	if (session->doomed ||
	    dfi__table_notified(server->table) < snapshot->until)
		return false;
	reply(session);
	return true;
}

void dfi__snapshot_end(struct session *session)
{
	free(session->snapshot);
	session->snapshot = NULL;
}
