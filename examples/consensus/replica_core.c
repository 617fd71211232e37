/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the core's requests: messages, records, snapshots. Also makes the
 * core: from the disk, from the first configuration, or empty in order to join.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/complain.h"
#include "replica.h"

static struct kv_message *begin_message(
    void *arg, bool client, unsigned to, size_t size)
{
	struct replica *replica = arg;
	struct link *link;

	(void)client; /* the core answers none */
	link = replica->out[to].link;
	replica->building = link;
	return link ? link_begin(link, size) : NULL;
}

static void send_message(void *arg, struct kv_message *message)
{
	struct replica *replica = arg;
	const struct line *line = link_arg(replica->building);

	/* Messages that flows of many take are not sent here. */
	if (line->kind != LINE_PEER_OUT ||
	    !flows_send(replica, line->number, message))
		link_send(replica->building, message->size);
}

static uint64_t append_record(void *arg, const struct kv_record *record)
{
	struct replica *replica = arg;

	return journal_append(replica->journal, record);
}

static void on_applied(void *arg, uint64_t slot,
    const struct kv_command *command, const struct kv_result *result)
{
	clients_applied(arg, slot, command, result);
}

static void on_changed(void *arg)
{
	struct replica *replica = arg;

	replica->changed = true;
}

static void begin_snapshot(void *arg, const struct kv_store *store)
{
	struct replica *replica = arg;
	int ret = snapshots_begin(replica->snapshots, store);

	if (ret < 0) {
		complain("snapshot: %s; the log is kept", strerror(-ret));
		replica->snapshot_failed = ret;
	}
}

static size_t read_snapshot(void *arg, uint64_t offset, char *to, size_t size,
    uint64_t *slot, uint64_t *total)
{
	struct replica *replica = arg;

	return snapshots_read(
	    replica->snapshots, offset, to, size, slot, total);
}

void core_snapshots(struct replica *replica)
{
	uint64_t slot = 0;
	int err = replica->snapshot_failed;

	if (!err && !snapshots_busy(replica->snapshots))
		return;
	if (!err && !snapshots_check(replica->snapshots, &slot, &err))
		return;
	replica->snapshot_failed = 0;
	paxos_snapshot(replica->paxos, replica->now, slot, err);
	if (err)
		return;
	replica->counts.snapshots++;
	if (replica->journal)
		journal_trim(replica->journal, slot);
}

static void on_synced(void *arg)
{
	struct replica *replica = arg;

	links_wake(replica->links);
}

/* Whether the folder belongs to this replica. */
static int check_identity(
    const struct replica *replica, const struct journal_identity *identity)
{
	const struct replica_options *options = &replica->options;

	if (identity->cluster != replica->cluster)
		complain("log '%s': belongs to another cluster than '%s'",
		    options->log, options->cluster);
	else if (identity->self != options->self)
		complain("log '%s': belongs to replica %u, not to %u",
		    options->log, identity->self, options->self);
	else
		return 0;
	return -EINVAL;
}

int disk_open(struct replica *replica)
{
	const struct journal_setup setup = {
		.dir = replica->options.log,
		.synced = on_synced,
		.arg = replica,
	};
	struct journal_identity identity;
	bool found;
	int ret;

	ret = kv_random_id(&replica->incarnation);
	if (!ret)
		ret = kv_random_id(&replica->seed);
	if (ret < 0) {
		complain("no random numbers: getrandom(): %s", strerror(-ret));
		return ret;
	}
	replica->stage = replica->options.bootstrap ? KV_STAGE_WAITING
						    : KV_STAGE_JOINING;
	if (!replica->options.log)
		return snapshots_open(NULL, &replica->snapshots);
	ret = journal_open(&setup, &identity, &found, &replica->journal);
	if (!ret)
		ret = snapshots_open(replica->options.log, &replica->snapshots);
	if (!ret && found)
		ret = check_identity(replica, &identity);
	if (ret < 0 || !found)
		return ret;
	replica->incarnation = identity.incarnation;
	replica->first = identity.config;
	replica->restored = true;
	replica->stage = KV_STAGE_LIVE;
	return 0;
}

static int on_restore(void *arg, const struct kv_record *record)
{
	struct replica *replica = arg;
	int ret = paxos_restore(replica->paxos, record);

	if (ret == -ENOBUFS)
		complain("log '%s': doesn't fit --memory %zu MiB: give more",
		    replica->options.log, replica->options.log_bytes >> 20);
	else if (ret < 0)
		complain("log '%s': its records don't follow each other: move "
			 "the folder away, and this replica will join as a new "
			 "one",
		    replica->options.log);
	return ret;
}

static int start_journal(struct replica *replica)
{
	struct journal_identity identity;
	int ret = 0;

	if (!replica->restored) {
		memset(&identity, 0, sizeof(identity));
		identity.cluster = replica->cluster;
		identity.incarnation = replica->incarnation;
		identity.self = replica->options.self;
		identity.n_replicas = replica->options.n_replicas;
		identity.config = replica->first;
		ret = journal_create(replica->journal, &identity);
	}
	if (!ret)
		ret = journal_replay(replica->journal, on_restore, replica);
	if (!ret)
		ret = journal_start(replica->journal);
	return ret;
}

int core_open(struct replica *replica)
{
	const struct replica_options *options = &replica->options;
	const struct paxos_setup setup = {
		.cluster = replica->cluster,
		.incarnation = replica->incarnation,
		.self = options->self,
		.n_replicas = options->n_replicas,
		.seed = replica->seed,
		.heartbeat_ns = options->heartbeat_ns,
		.election_ns = options->election_ns,
		.session_ns = options->session_ns,
		.log_bytes = options->log_bytes,
		.window = REPLICA_WINDOW,
	};
	struct kv_store *store;
	int ret = snapshots_load(replica->snapshots, &store);

	if (ret < 0)
		return ret;
	replica->ops = (struct paxos_ops){
		.begin = begin_message,
		.send = send_message,
		.append = replica->journal ? append_record : NULL,
		.applied = on_applied,
		.changed = on_changed,
		.snapshot = begin_snapshot,
		.snapshot_read = read_snapshot,
	};
	if (!store)
		store = kv_store_new(&replica->first);
	if (!store)
		return -ENOMEM;
	replica->paxos = paxos_new(&setup, &replica->ops, replica, store);
	if (!replica->paxos) {
		kv_store_free(store);
		return -ENOMEM;
	}
	ret = replica->journal ? start_journal(replica) : 0;
	return ret ? ret : order_open(replica);
}
