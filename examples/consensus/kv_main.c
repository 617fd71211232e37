/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-kv: one replica of a replicated key-value store. Start one for each
 * number from 0 to N - 1, at one registry, the first time with --bootstrap.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sysexits.h>
#include <unistd.h>

#include "../../common/children.h"
#include "../../common/complain.h"
#include "../../common/output.h"
#include "../../common/usage.h"
#include "replica.h"

enum key {
	KEY_ID = 256,
	KEY_REPLICAS,
	KEY_REGISTRY,
	KEY_CLUSTER,
	KEY_BOOTSTRAP,
	KEY_LOG,
	KEY_HEARTBEAT,
	KEY_ELECTION,
	KEY_SESSION,
	KEY_MEMORY,
	KEY_SPIN,
	KEY_PROTOCOL,
	KEY_MULTICAST,
	KEY_WIRING,
	KEY_DROP,
	KEY_QUIET,
	KEY_WITH_PARENT,
};

static const struct argp_option table[] = {
	{ "id", KEY_ID, "I", 0, "Number of this replica, from 0 (required)",
	    0 },
	{ "replicas", KEY_REPLICAS, "N", 0,
	    "Most replicas that the cluster can have, 1 to 9; their numbers "
	    "are below N. All replicas and clients name the same N, and it "
	    "never changes (required)",
	    0 },
	{ "registry", KEY_REGISTRY, "ADDRESS", 0,
	    "Address of the registry (default DFI_REGISTRY)", 0 },
	{ "cluster", KEY_CLUSTER, "NAME", 0,
	    "The cluster's name, which is in all messages and logs. A new "
	    "cluster needs a new name (default kv)",
	    0 },
	{ "bootstrap", KEY_BOOTSTRAP, NULL, 0,
	    "Make a new cluster with the other replicas that have this option. "
	    "No effect if the cluster or its log exists",
	    0 },
	{ "log", KEY_LOG, "DIR", 0,
	    "Keep the log and snapshots in this folder (default: in memory "
	    "only; data lives as long as a majority of the replicas)",
	    0 },
	{ "heartbeat", KEY_HEARTBEAT, "MS", 0,
	    "Milliseconds between two messages of the leader, 1 to 10000 "
	    "(default 5)",
	    0 },
	{ "election", KEY_ELECTION, "MS", 0,
	    "Milliseconds without a message of the leader after which an "
	    "election starts, 1 to 60000. Each wait is random, up to twice as "
	    "long (default 40)",
	    0 },
	{ "session", KEY_SESSION, "S", 0,
	    "Seconds after which an unused session ends, 1 to 1000000 (default "
	    "3600)",
	    0 },
	{ "memory", KEY_MEMORY, "MIB", 0,
	    "MiB of memory for the log, 1 to 1048576 (default 64)", 0 },
	{ "spin", KEY_SPIN, "US", 0,
	    "Microseconds to look for messages before sleeping, 0 to 1000000 "
	    "(default 0)",
	    0 },
	{ "protocol", KEY_PROTOCOL, "NAME", 0,
	    "paxos, or nopaxos: all replicas get requests in one order, as "
	    "long as no request is lost (default paxos)",
	    0 },
	{ "multicast", KEY_MULTICAST, NULL, 0,
	    "For nopaxos over RDMA: send a request to all replicas as one "
	    "datagram. Requests larger than the MTU go by paxos",
	    0 },
	{ "wiring", KEY_WIRING, "NAME", 0,
	    "For paxos: pairs, flows between each two replicas; or flows, "
	    "also one from the leader to all, and one of their votes "
	    "(default pairs)",
	    0 },
	{ "drop", KEY_DROP, "PPM", 0,
	    "For nopaxos, to test it: how many of a million segments to lose, "
	    "0 to 1000000 (default 0)",
	    0 },
	{ "quiet", KEY_QUIET, NULL, 0, "Print no lines about leaders", 0 },
	{ "with-parent", KEY_WITH_PARENT, NULL, OPTION_HIDDEN,
	    "end when the parent process ends", 0 },
	{ 0 },
};

struct arguments {
	struct replica_options replica;
	bool has_id, has_replicas, with_parent;
};

static error_t parse_time(int key, char *arg, struct argp_state *state)
{
	struct replica_options *options =
	    &((struct arguments *)state->input)->replica;

	switch (key) {
	case KEY_HEARTBEAT:
		options->heartbeat_ns = 1000000 *
		    option_number(state, "heartbeat", arg, 1, 10000);
		return 0;
	case KEY_ELECTION:
		options->election_ns = 1000000 *
		    option_number(state, "election", arg, 1, 60000);
		return 0;
	case KEY_SESSION:
		options->session_ns = 1000000000 *
		    option_number(state, "session", arg, 1, 1000000);
		return 0;
	case KEY_SPIN:
		options->spin_ns = 1000 *
		    option_number(state, "spin", arg, 0, 1000000);
		return 0;
	case KEY_MEMORY:
		options->log_bytes =
		    option_number(state, "memory", arg, 1, REPLICA_MAX_MEMORY)
		    << 20;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void check(struct argp_state *state, const struct arguments *arguments)
{
	const struct replica_options *options = &arguments->replica;

	if (!arguments->has_id || !arguments->has_replicas)
		usage_error(state, "--id and --replicas are required");
	if (options->self >= options->n_replicas)
		usage_error(state, "--id %u: numbers go from 0 to %u",
		    options->self, options->n_replicas - 1);
	if (!kv_cluster_valid(options->cluster))
		usage_error(state,
		    "--cluster: a name has 1 to %d characters of "
		    "A-Z, a-z, 0-9, _ and -",
		    KV_MAX_CLUSTER);
	if (options->log && !*options->log)
		usage_error(state, "--log: the name of a folder, not ''");
	if (options->multicast && !options->nopaxos)
		usage_error(state, "--multicast is for --protocol nopaxos");
	if (options->flows && options->nopaxos)
		usage_error(state, "--wiring flows is for --protocol paxos");
	if (options->election_ns < 2 * options->heartbeat_ns)
		usage_error(state,
		    "--election is to be at least twice "
		    "--heartbeat, or leaders change for nothing");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *arguments = state->input;
	struct replica_options *options = &arguments->replica;

	switch (key) {
	case KEY_ID:
		options->self = (unsigned)option_number(
		    state, "id", arg, 0, KV_MAX_REPLICAS - 1);
		arguments->has_id = true;
		return 0;
	case KEY_REPLICAS:
		options->n_replicas = (unsigned)option_number(
		    state, "replicas", arg, 1, KV_MAX_REPLICAS);
		arguments->has_replicas = true;
		return 0;
	case KEY_REGISTRY:
		options->registry = arg;
		return 0;
	case KEY_CLUSTER:
		options->cluster = arg;
		return 0;
	case KEY_BOOTSTRAP:
		options->bootstrap = true;
		return 0;
	case KEY_LOG:
		options->log = arg;
		return 0;
	case KEY_PROTOCOL:
		options->nopaxos = !strcmp(arg, "nopaxos");
		if (!options->nopaxos && strcmp(arg, "paxos") != 0)
			usage_error(state,
			    "--protocol: '%s' is neither paxos "
			    "nor nopaxos",
			    arg);
		return 0;
	case KEY_MULTICAST:
		options->multicast = true;
		return 0;
	case KEY_WIRING:
		options->flows = !strcmp(arg, "flows");
		if (!options->flows && strcmp(arg, "pairs") != 0)
			usage_error(state,
			    "--wiring: '%s' is neither pairs nor flows", arg);
		return 0;
	case KEY_DROP:
		options->drop_ppm = (unsigned)option_number(
		    state, "drop", arg, 0, 1000000);
		return 0;
	case KEY_QUIET:
		options->quiet = true;
		return 0;
	case KEY_WITH_PARENT:
		arguments->with_parent = true;
		return 0;
	case ARGP_KEY_ARG:
		usage_error(state, "'%s' is not an option", arg);
		return 0;
	case ARGP_KEY_END:
		check(state, arguments);
		return 0;
	default:
		return parse_time(key, arg, state);
	}
}

static struct replica *running;

static void on_signal(int number)
{
	int before = errno;

	(void)number;
	replica_stop(running);
	errno = before;
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = table,
		.parser = parse_option,
		.doc = "Run one replica of a replicated key-value store, until "
		       "SIGTERM.",
	};
	struct arguments arguments = {
		.replica = {
			.cluster = "kv",
			.heartbeat_ns = 5000000,
			.election_ns = 40000000,
			.session_ns = 3600 * UINT64_C(1000000000),
			.log_bytes = REPLICA_MEMORY << 20,
		},
	};
	pid_t parent = getppid();
	int ret;

	output_open();
	children_keep_ends();
	if (options_check(&argp, argv))
		return EX_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	if (arguments.with_parent) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			return EX_OK;
	}
	ret = replica_open(&arguments.replica, &running);
	if (!ret) {
		catch_signals();
		ret = replica_run(running);
		replica_close(running);
	}
	if (ret == -ENOMEM)
		complain("no memory for a replica; its log takes %zu MiB of "
			 "it: see --memory",
		    arguments.replica.log_bytes >> 20);
	return ret < 0 ? EX_UNAVAILABLE : EX_OK;
}
