/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the sync groups share: sync.c (the queue, and carrying
 * out), sync_group.c (which changes are in a group), sync_compact.c, and
 * restored.c. Only these include it.
 */
#ifndef DFI_REGISTRY_SERVER_SYNC_IMPL_H
#define DFI_REGISTRY_SERVER_SYNC_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/log.h"
#include "key_tree.h"
#include "registry/journal/journal.h"
#include "sync.h"
#include "table.h"

#define SYNC_OPS 512

struct event;

/* A change of a group. */
struct sync_op {
	struct session *session; /* NULL: the end of a lease */
	Dfi__Registry__Message *message;
	uint64_t lease;
	uint64_t revision;     /* the table's, when it is carried out */
	bool expires;          /* the lease is due */
	bool forced;           /* carried out even if it can't be stored */
	struct tree_leaf leaf; /* in keys: no second change of the same key */
};

/* What the group changes about a lease. */
struct sync_lease {
	uint64_t lease;
	int64_t n_keys; /* more than the table has */
	bool ends;
};

struct sync {
	struct server *server;
	struct journal_directory *directory;
	struct journal *journal;
	uint64_t location; /* see struct journal_change */
	TAILQ_HEAD(sync_queue, session) queue;
	uint64_t *ended; /* leases whose sessions are gone */
	size_t n_ended, ended_room;
	bool expiring;
	bool applying; /* what is carried out now is stored */
	bool stopping;
	struct event *timer; /* the next group */
	bool armed;

	/* The group. */
	int64_t now;
	struct sync_op ops[SYNC_OPS];
	size_t n_ops;
	struct tree keys;
	struct sync_lease *leases;
	size_t n_leases, leases_room;
	struct table_plan plan;
	uint64_t revision; /* the table's after all of it */

	/* Compaction. */
	struct event *compact_timer;
	struct table_frozen *frozen;
	int64_t retry_at;
	bool mends; /* the journal could not be written before */
	struct log_throttle refusal;
};

/* Fill the group from what waits: the rest stays for the next one. */
void dfi__sync_collect(struct sync *sync);

/* The group is carried out: forget it. */
void dfi__sync_clear(struct sync *sync);

/* Have the next group soon. */
void dfi__sync_arm(struct sync *sync);

/* The lease of a session, for the journal. */
struct journal_change dfi__sync_lease_of(const struct session *session);

/* Begin a compaction if one is due. */
void dfi__sync_consider_compaction(struct sync *sync);
/* The next part of a compaction. */
void dfi__sync_compact_step(struct sync *sync);
int dfi__sync_compact_start(struct sync *sync, struct event_base *base);
void dfi__sync_compact_stop(struct sync *sync);

/* Restore a change of the journal; the server is arg. */
int dfi__restored_apply(void *arg, const struct journal_change *change);

/* All is restored: which leases go on, and for how long. */
void dfi__restored_check(struct server *server);

/* Clients that can't come back because they are stopped are alive. */
void dfi__restored_keep_stopped(struct server *server);

/* Free what was restored, when it is not served. */
void dfi__restored_free(struct server *server);

#endif
