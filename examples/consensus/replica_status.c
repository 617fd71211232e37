/* SPDX-License-Identifier: Apache-2.0 */
/* A replica's reports about itself: lines for people, counters for programs. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "replica.h"

static const char *const roles[] = { "joining", "follower", "candidate",
	"leader" };

void say(const struct replica *replica, const char *format, ...)
{
	struct timespec now;
	struct tm local;
	char text[256];
	va_list args;

	if (replica->options.quiet)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &local);
	fprintf(stderr, "%02d:%02d:%02d.%03ld replica %u: %s\n", local.tm_hour,
	    local.tm_min, local.tm_sec, now.tv_nsec / 1000000,
	    replica->options.self, text);
}

static void say_role(struct replica *replica)
{
	enum paxos_role role = paxos_role(replica->paxos);
	int leader = paxos_leader(replica->paxos);
	kv_ballot ballot = paxos_ballot(replica->paxos);

	if (role == replica->logged_role && leader == replica->logged_leader)
		return;
	replica->logged_role = role;
	replica->logged_leader = leader;
	if (role == PAXOS_LEADER)
		say(replica, "leads in ballot %llu.%u, chosen up to slot %llu",
		    (unsigned long long)kv_ballot_round(ballot),
		    kv_ballot_leader(ballot),
		    (unsigned long long)paxos_commit(replica->paxos));
	else if (leader >= 0)
		say(replica, "%s, replica %d leads", roles[role], leader);
	else
		say(replica, "%s, there is no leader", roles[role]);
}

/* Say it once, until there is a leader again. */
static void say_lost(struct replica *replica)
{
	if (paxos_leader(replica->paxos) >= 0) {
		replica->logged_lost = false;
	} else if (!replica->logged_lost &&
	    paxos_no_quorum(replica->paxos, replica->now)) {
		replica->logged_lost = true;
		say(replica, KV_NO_QUORUM_TEXT);
	}
}

void status_line(struct replica *replica)
{
	enum paxos_role before = replica->logged_role;

	bool gateway = replica->fast && nopaxos_is_open(replica->fast);

	if (!replica->paxos)
		return;
	say_lost(replica);
	if (!replica->changed && gateway == replica->logged_gateway)
		return;
	replica->changed = false;
	say_role(replica);
	if (gateway != replica->logged_gateway)
		say(replica,
		    gateway ? "takes requests by the ordered flow"
			    : "no longer by the ordered flow");
	if ((replica->logged_role == PAXOS_LEADER && before != PAXOS_LEADER) ||
	    gateway != replica->logged_gateway)
		clients_notify_all(replica);
	replica->logged_gateway = gateway;
}

struct text {
	char *bytes;
	size_t size, used;
};

static void put(struct text *text, const char *name, uint64_t value)
{
	int n = snprintf(text->bytes + text->used, text->size - text->used,
	    "%s %llu\n", name, (unsigned long long)value);

	if (n > 0 && (size_t)n < text->size - text->used)
		text->used += (size_t)n;
}

static unsigned connected(const struct replica *replica)
{
	unsigned i, n = 0;

	for (i = 0; i < KV_CLIENT_PLACES; i++)
		n += replica->places[i].client != 0;
	return n;
}

static void put_core(struct replica *replica, struct text *text)
{
	const struct kv_store *store = paxos_store(replica->paxos);
	const struct kv_config *config = kv_store_config(store);
	struct paxos_stats stats;
	unsigned i;
	int n;

	paxos_query(replica->paxos, &stats);
	n = snprintf(text->bytes + text->used, text->size - text->used,
	    "role %s\n", roles[paxos_role(replica->paxos)]);
	if (n > 0 && (size_t)n < text->size - text->used)
		text->used += (size_t)n;
	put(text, "leader_plus_1",
	    (uint64_t)(paxos_leader(replica->paxos) + 1));
	put(text, "ballot_round",
	    kv_ballot_round(paxos_ballot(replica->paxos)));
	put(text, "commit", paxos_commit(replica->paxos));
	put(text, "applied", kv_store_slot(store));
	put(text, "keys", kv_store_keys(store));
	put(text, "sessions", kv_store_sessions(store));
	put(text, "digest", kv_store_digest(store));
	put(text, "majority_lost",
	    paxos_no_quorum(replica->paxos, replica->now));
	put(text, "members", kv_config_members(config));
	for (i = 0; i < replica->options.n_replicas; i++)
		put(text, "member", config->members[i].incarnation);
	put(text, "proposed", stats.proposed);
	put(text, "chosen", stats.chosen);
	put(text, "messages_sent", stats.messages_sent);
	put(text, "messages_received", stats.messages_received);
	put(text, "messages_skipped", stats.messages_skipped);
	put(text, "prevotes", stats.prevotes);
	put(text, "elections", stats.elections);
	put(text, "elections_won", stats.elections_won);
	put(text, "reads", stats.reads);
	put(text, "read_rounds", stats.read_rounds);
	put(text, "snapshots_sent", stats.snapshots_sent);
	put(text, "snapshots_loaded", stats.snapshots_loaded);
	put(text, "config_changes", stats.config_changes);
}

static void put_fast(const struct replica *replica, struct text *text)
{
	struct nopaxos_stats stats;

	nopaxos_query(replica->fast, &stats);
	put(text, "fast_opened", stats.opened);
	put(text, "fast_ended", stats.ended);
	put(text, "fast_accepted", stats.accepted);
	put(text, "fast_executed", stats.executed);
	put(text, "fast_wrong", stats.wrong);
	put(text, "published", replica->counts.published);
	put(text, "gaps_decided", stats.gaps_decided);
	put(text, "gaps_taken", stats.gaps_taken);
	put(text, "gaps_asked", stats.gaps_asked);
	put(text, "gaps_filled", stats.gaps_filled);
	put(text, "stashed", stats.stashed);
	put(text, "dropped", stats.dropped);
}

static void put_flows(const struct flows *flows, struct text *text)
{
	put(text, "flow_followers",
	    (unsigned)__builtin_popcountll(flows->there));
	put(text, "flow_left", flows->left);
	put(text, "flow_accepts", flows->carried[FLOW_ACCEPTS]);
	put(text, "flow_accepts_spared", flows->spared);
	put(text, "flow_votes", flows->carried[FLOW_VOTES]);
}

size_t status_text(struct replica *replica, char *bytes, size_t size)
{
	struct text text = { .bytes = bytes, .size = size };
	struct journal_stats journal;
	struct links_stats links;

	put(&text, "replica", replica->options.self);
	put(&text, "incarnation", replica->incarnation);
	put(&text, "clients", connected(replica));
	if (replica->paxos)
		put_core(replica, &text);
	if (replica->fast)
		put_fast(replica, &text);
	if (replica->options.flows)
		put_flows(&replica->flows, &text);
	links_query(replica->links, &links);
	put(&text, "requests", replica->counts.requests);
	put(&text, "replies", replica->counts.replies);
	put(&text, "replies_dropped", replica->counts.replies_dropped);
	put(&text, "turns", replica->counts.turns);
	put(&text, "snapshots", replica->counts.snapshots);
	put(&text, "segments_in", links.segments_in);
	put(&text, "segments_out", links.segments_out);
	put(&text, "sleeps", links.waits);
	if (replica->journal) {
		journal_query(replica->journal, &journal);
		put(&text, "log_records", journal.records);
		put(&text, "log_bytes", journal.bytes);
		put(&text, "log_syncs", journal.syncs);
		put(&text, "log_files", journal.files);
	}
	return text.used;
}
