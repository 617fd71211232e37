/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library reserves rings when a link is opened, and refuses those that do
 * not fit. The log, tables and data fill as requests come.
 */
#include "needs.h"

#include "log.h"

/* A flow from one replica to another, or of clients. */
static struct link_setup flow_of(enum link_kind kind, bool client)
{
	return (struct link_setup){
		.kind = kind,
		.segment_size = client ? KV_CLIENT_SEGMENT : KV_PEER_SEGMENT,
		.segments = client ? KV_CLIENT_SEGMENTS : KV_PEER_SEGMENTS,
	};
}

/* Add both ends of n pairs of flows between replicas. */
static int add_peers(struct dfi *dfi, unsigned n, uint64_t *bytes)
{
	const struct link_setup in = flow_of(LINK_IN, false);
	const struct link_setup out = flow_of(LINK_OUT, false);
	uint64_t each = 0;
	int ret;

	ret = link_needs(dfi, &in, &each);
	if (!ret)
		ret = link_needs(dfi, &out, &each);
	*bytes += n * each;
	return ret;
}

/* The rings of n ends that receive from n_sources each, in an open flow. */
static int add_open(struct dfi *dfi, bool client, unsigned n_sources,
    unsigned n, uint64_t *bytes)
{
	struct link_setup setup = flow_of(LINK_OPEN_IN, client);
	uint64_t each = 0;
	int ret;

	setup.n_sources = n_sources;
	setup.n_targets = 1;
	ret = link_needs(dfi, &setup, &each);
	*bytes += n * each;
	return ret;
}

static int add_order(
    struct dfi *dfi, const struct replica_options *options, uint64_t *bytes)
{
	const struct nopaxos_setup setup = {
		.window = REPLICA_WINDOW,
		.stash_bytes = REPLICA_STASH,
	};
	const struct link_setup ordered = {
		.kind = LINK_ORDERED,
		.segment_size = ORDER_SEGMENT,
		.segments = ORDER_SEGMENTS,
		.multicast = options->multicast,
		.n_ends = options->n_replicas,
	};

	*bytes += nopaxos_needs(&setup);
	return options->n_replicas > 1 ? link_needs(dfi, &ordered, bytes) : 0;
}

/* Votes of all others, and ACCEPT of each of them. */
static int add_flows(struct dfi *dfi, unsigned n, uint64_t *bytes)
{
	int ret = n ? add_open(dfi, true, n, 1, bytes) : 0;

	return ret ? ret : add_open(dfi, false, 1, n, bytes);
}

int needs_replica(struct dfi *dfi, const struct replica_options *options,
    uint64_t *others, uint64_t *log)
{
	int ret;

	*log = kv_log_needs(options->log_bytes, options->log != NULL);
	*others = NEEDS_PROCESS + REPLICA_READS * sizeof(struct read);
	ret = add_peers(dfi, options->n_replicas - 1, others);
	if (!ret)
		ret = add_open(dfi, true, KV_CLIENT_PLACES, 1, others);
	if (!ret && options->nopaxos)
		ret = add_order(dfi, options, others);
	if (!ret && options->flows)
		ret = add_flows(dfi, options->n_replicas - 1, others);
	return ret;
}

uint64_t needs_data(const struct replica_options *options, uint64_t n,
    size_t key_size, size_t value_size)
{
	uint64_t store = kv_store_needs(n, key_size, value_size);

	/*
	 * While a child writes a snapshot, changed pages exist twice. Without a
	 * folder, so do the last snapshot and the next.
	 */
	return (options->log ? 2 : 4) * store;
}

int needs_client(struct dfi *dfi, unsigned n_replicas, uint64_t *bytes)
{
	*bytes = NEEDS_PROCESS;
	return add_open(dfi, true, 1, n_replicas, bytes);
}
