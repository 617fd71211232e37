/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replica's loop. Each turn takes the waiting messages, gives them to the
 * core, and then sends all output: one segment for each peer and client, and
 * one batch for the disk, for any number of commands. It sleeps only when no
 * work is left.
 */
#include "replica.h"

#include <errno.h>
#include <dfi/error.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/complain.h"
#include "../../common/memory.h"
#include "needs.h"

/* Segments that a turn takes before it sends. */
#define TURN_SEGMENTS 32
#define IDLE_NS 20000000

/* from: who in the line has sent it. */
static void receive_message(struct replica *replica, struct line *line,
    unsigned from, const struct kv_message *message)
{
	if (line->kind == LINE_CLIENTS_IN) {
		clients_receive(replica, &replica->places[from], message);
		return;
	}
	if (line->kind == LINE_FLOW)
		replica->flows.carried[line->number]++;
	if (message->from >= replica->options.n_replicas ||
	    (line->kind == LINE_PEER_IN && message->from != line->number))
		return;
	replica->heard[message->from] = replica->now;
	if (message->type == KV_HANDSHAKE)
		bootstrap_receive(replica, message);
	else if (replica->fast)
		nopaxos_receive(replica->fast, replica->now, message);
	else if (replica->paxos)
		paxos_receive(replica->paxos, replica->now, message);
}

/* Clients share a flow, so one that sends nonsense is not cut off. */
static void refuse(struct line *line, struct link *link)
{
	if (line->kind == LINE_CLIENTS_IN)
		return;
	complain("a message from %s %u makes no sense: its link is made anew",
	    line->kind == LINE_FLOW ? "flow" : "replica", line->number);
	link_reset(link);
}

static void on_receive(
    void *arg, struct link *link, unsigned from, const char *bytes, size_t size)
{
	struct replica *replica = arg;
	struct line *line = link_arg(link);
	const struct kv_message *message;

	if (line->kind == LINE_ORDERED) {
		order_receive(replica, link, (const void *)bytes, size);
		return;
	}
	while (size) {
		message = (const struct kv_message *)(const void *)bytes;
		if (!kv_message_valid(message, size)) {
			refuse(line, link);
			return;
		}
		if (message->cluster == replica->cluster)
			receive_message(replica, line, from, message);
		bytes += kv_message_room(message);
		size -= kv_message_room(message);
	}
}

static void on_line(void *arg, struct link *link, bool up)
{
	struct replica *replica = arg;
	struct line *line = link_arg(link);

	switch (line->kind) {
	case LINE_PEER_OUT:
		if (up)
			bootstrap_handshake(replica, line->number);
		break;
	case LINE_PEER_IN:
		if (!up && replica->paxos)
			paxos_lost(replica->paxos, replica->now, line->number);
		break;
	case LINE_ORDERED:
		order_line_changed(replica, link, up);
		break;
	case LINE_FLOW:
		if (!up)
			flows_down(replica, line);
		break;
	case LINE_CLIENTS_IN:
	case LINE_CLIENTS_OUT:
	default:
		break;
	}
}

static void on_joined(void *arg, struct link *link, unsigned to)
{
	(void)link;
	flows_joined(arg, to);
}

static void on_left(void *arg, struct link *link, unsigned from)
{
	const struct line *line = link_arg(link);

	if (line->kind == LINE_CLIENTS_IN)
		clients_left(arg, from);
	else if (line->number == FLOW_ACCEPTS)
		flows_left(arg, from);
}

static void on_gap(void *arg, struct link *link, uint32_t n)
{
	order_gap(arg, link, n);
}

static void on_closed(void *arg, struct link *link, void *line_arg)
{
	struct line *line = line_arg;

	/* Also a link that could not be opened, and so has never been up. */
	if (line->kind == LINE_ORDERED)
		order_line_changed(arg, link, false);
	else if (line->link == link)
		line->link = NULL;
}

static int add_peer(struct replica *replica, unsigned peer)
{
	const struct replica_options *options = &replica->options;
	struct link_setup setup = {
		.kind = LINK_IN,
		.segment_size = KV_PEER_SEGMENT,
		.segments = KV_PEER_SEGMENTS,
	};
	struct line *in = &replica->in[peer], *out = &replica->out[peer];

	*in = (struct line){ .kind = LINE_PEER_IN, .number = peer };
	setup.arg = in;
	kv_peer_flow(setup.name, options->cluster, peer, options->self);
	in->link = links_add(replica->links, &setup);
	*out = (struct line){ .kind = LINE_PEER_OUT, .number = peer };
	setup.kind = LINK_OUT;
	setup.arg = out;
	setup.helper = replica_helper(replica, peer);
	kv_peer_flow(setup.name, options->cluster, options->self, peer);
	out->link = links_add(replica->links, &setup);
	return in->link && out->link ? 0 : -ENOMEM;
}

/* The memory that it will fill, except the clients' data. */
static int check_memory(struct replica *replica)
{
	const struct replica_options *options = &replica->options;
	uint64_t others, log;
	char what[64], advice[160];
	int ret = needs_replica(
	    links_dfi(replica->links), options, &others, &log);

	if (ret < 0) {
		complain("cannot tell how much memory the replica needs: %s",
		    dfi_errmsg());
		return ret;
	}
	snprintf(what, sizeof(what), "replica %u needs", options->self);
	snprintf(advice, sizeof(advice),
	    "choose a smaller --memory, which is %zu MiB for the log; the rest "
	    "needs %" PRIu64 " MiB",
	    options->log_bytes >> 20, (others + (1 << 20) - 1) >> 20);
	return memory_check(what, others + log, advice) ? -ENOSPC : 0;
}

static int open_links(struct replica *replica)
{
	const struct replica_options *options = &replica->options;
	char name[64];
	struct links_setup setup = {
		.registry = options->registry,
		.node_name = name,
		/*
		 * Flows from other replicas, one for those to each of them,
		 * clients and its own of many, the ordered flow.
		 */
		.n_helpers = options->n_replicas + 2,
		.ops = {
			.changed = on_line,
			.receive = on_receive,
			.joined = on_joined,
			.left = on_left,
			.gap = on_gap,
			.closed = on_closed,
		},
		.arg = replica,
	};
	unsigned i;
	int ret;

	snprintf(name, sizeof(name), "%s-%u", options->cluster, options->self);
	ret = links_open(&setup, &replica->links);
	if (ret < 0) {
		complain("joining the registry: %s",
		    *dfi_errmsg() ? dfi_errmsg() : strerror(-ret));
		return ret;
	}
	ret = check_memory(replica);
	for (i = 0; !ret && i < options->n_replicas; i++)
		if (i != options->self)
			ret = add_peer(replica, i);
	if (!ret)
		ret = clients_open(replica);
	if (!ret && options->flows)
		ret = flows_open(replica);
	return ret;
}

int replica_open(const struct replica_options *options, struct replica **out)
{
	struct replica *replica = calloc(1, sizeof(*replica));
	int ret;

	if (!replica)
		return -ENOMEM;
	replica->options = *options;
	replica->cluster = kv_cluster_id(options->cluster);
	replica->logged_leader = -2;
	replica->now = now_ns();
	ret = disk_open(replica);
	if (!ret)
		ret = open_links(replica);
	if (ret < 0) {
		replica_close(replica);
		return ret;
	}
	*out = replica;
	return 0;
}

static uint64_t core_due(const struct replica *replica)
{
	return replica->fast ? nopaxos_due(replica->fast)
			     : paxos_due(replica->paxos);
}

static void run_paxos(struct replica *replica)
{
	struct paxos *paxos = replica->paxos;

	if (replica->journal)
		paxos_synced(
		    paxos, replica->now, journal_synced(replica->journal));
	if (paxos_due(paxos) <= replica->now)
		paxos_tick(paxos, replica->now);
	paxos_flush(paxos, replica->now);
}

static void run_nopaxos(struct replica *replica)
{
	struct nopaxos *fast = replica->fast;

	order_flush(replica);
	if (replica->journal)
		nopaxos_synced(
		    fast, replica->now, journal_synced(replica->journal));
	if (nopaxos_due(fast) <= replica->now)
		nopaxos_tick(fast, replica->now);
	order_turn(replica);
	nopaxos_flush(fast, replica->now);
}

/* Work of the core that time or the disk causes. */
static void run_core(struct replica *replica)
{
	core_snapshots(replica);
	bootstrap_greet(replica);
	if (replica->fast)
		run_nopaxos(replica);
	else
		run_paxos(replica);
	if (replica->journal)
		journal_submit(replica->journal);
	status_line(replica);
}

static uint64_t next_due(const struct replica *replica)
{
	uint64_t due = replica->now + IDLE_NS, core;

	if (!replica->paxos)
		return due;
	core = core_due(replica);
	if (core < due)
		due = core;
	/* Check a child that writes a snapshot now and then. */
	if (snapshots_busy(replica->snapshots) && due > replica->now + 2000000)
		due = replica->now + 2000000;
	return due;
}

/* Look for messages for a while, and let other processes run meanwhile. */
static bool spin(struct replica *replica)
{
	uint64_t until = replica->now + replica->options.spin_ns;

	do {
		sched_yield();
		replica->now = now_ns();
		if (links_poll(replica->links, TURN_SEGMENTS))
			return true;
	} while (replica->now < until);
	return false;
}

int replica_run(struct replica *replica)
{
	bool busy = false;
	int ret = 0;

	while (!atomic_load(&replica->stop)) {
		replica->now = now_ns();
		if (links_poll(replica->links, TURN_SEGMENTS))
			busy = true;
		replica->counts.turns++;
		if (replica->paxos)
			run_core(replica);
		else
			ret = bootstrap_turn(replica);
		if (ret < 0)
			return ret;
		clients_flush(replica);
		links_flush(replica->links);
		if (busy) {
			busy = replica->options.spin_ns && spin(replica);
			continue;
		}
		links_wait(replica->links, next_due(replica));
	}
	return 0;
}

void replica_stop(struct replica *replica)
{
	atomic_store(&replica->stop, true);
	links_wake(replica->links);
}

void replica_close(struct replica *replica)
{
	if (!replica)
		return;
	/* The journal's thread wakes the loop: it ends first. */
	journal_close(replica->journal);
	links_close(replica->links);
	nopaxos_free(replica->fast);
	if (replica->paxos)
		paxos_free(replica->paxos);
	snapshots_close(replica->snapshots);
	free(replica->reads);
	free(replica);
}
