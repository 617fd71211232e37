/* SPDX-License-Identifier: Apache-2.0 */
/* Options of dfi-kv-run: see run_options.h. Everything is checked here. */
#include "run_options.h"

#include <string.h>

#include "../../common/usage.h"
#include "load_kv.h"
#include "replica.h"

#define SECOND UINT64_C(1000000000)

enum {
	KEY_PROTOCOL = LOAD_KEY_OWN,
	KEY_WIRING,
	KEY_REPLICAS,
	KEY_LOG,
	KEY_MEMORY,
	KEY_INDEX_READS,
	KEY_VERBOSE,
	KEY_KILL,
	KEY_STOP,
	KEY_AFTER,
	KEY_RESTART,
	KEY_FOR,
};

static const struct argp_option descriptions[] = {
	{ NULL, 0, NULL, 0, "Store:", 1 },
	{ "protocol", KEY_PROTOCOL, "LIST", 0,
	    "paxos, nopaxos, or both with a comma (default: both; with a fault "
	    "paxos)",
	    0 },
	{ "wiring", KEY_WIRING, "NAME", 0,
	    "For paxos: pairs, flows between each two replicas; or flows, "
	    "also one from the leader to all, and one of their votes "
	    "(default pairs)",
	    0 },
	{ "replicas", KEY_REPLICAS, "N", 0, "Replicas, 1 to 9 (default 5)", 0 },
	{ "log", KEY_LOG, "DIR", 0,
	    "Keep logs in this folder (default: in memory)", 0 },
	{ "memory", KEY_MEMORY, "MIB", 0,
	    "MiB of memory for each replica's log (default 64)", 0 },
	{ "index-reads", KEY_INDEX_READS, NULL, 0,
	    "The leader confirms reads by asking a majority once, instead of "
	    "writing them to the log",
	    0 },
	{ "verbose", KEY_VERBOSE, NULL, 0, "Show what replicas print", 0 },
	LOAD_OPTIONS_REQUESTS,
	{ NULL, 0, NULL, 0, "Fault:", 3 },
	{ "kill", KEY_KILL, "WHICH", 0,
	    "Kill the leader, a follower or the registry (one workload)", 0 },
	{ "stop", KEY_STOP, "WHICH", 0,
	    "Stop the leader, a follower or a client (SIGSTOP), and let it "
	    "continue after --for (one workload)",
	    0 },
	{ "after", KEY_AFTER, "S", 0,
	    "Seconds of load before the fault (default 3)", 0 },
	{ "restart", KEY_RESTART, "S", 0,
	    "Seconds after which a killed replica starts again (default: "
	    "never)",
	    0 },
	{ "for", KEY_FOR, "S", 0,
	    "Seconds that the process is stopped (default 3)", 0 },
	LOAD_OPTIONS_OUTPUT,
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static void add_protocols(
    struct argp_state *state, char *text, struct run_arguments *arguments)
{
	static const char *const known[] = { "paxos", "nopaxos" };
	char *part;
	size_t i;

	arguments->n_protocols = 0;
	while ((part = strsep(&text, ","))) {
		for (i = 0; i < sizeof(known) / sizeof(*known); i++)
			if (strcmp(part, known[i]) == 0)
				break;
		if (i == sizeof(known) / sizeof(*known) ||
		    arguments->n_protocols == RUN_MAX_PROTOCOLS)
			usage_error(state,
			    "--protocol: '%s' is neither paxos nor nopaxos, "
			    "or is one more than %d",
			    part, RUN_MAX_PROTOCOLS);
		arguments->protocols[arguments->n_protocols++] = known[i];
	}
}

/* --kill or --stop: the victim, of those that it accepts. */
static void set_victim(struct argp_state *state, const char *option,
    const char *text, enum run_victim last, struct run_failover *fault)
{
	enum run_victim victim;

	if (fault->victim)
		usage_error(state, "--kill or --stop can be given once");
	for (victim = RUN_LEADER; victim <= RUN_CLIENT; victim++)
		if (strcmp(text, run_victims[victim]) == 0)
			break;
	if (victim > RUN_FOLLOWER && victim != last)
		usage_error(state, "--%s: '%s' is not leader, follower or %s",
		    option, text, run_victims[last]);
	fault->victim = victim;
	fault->stops = last == RUN_CLIENT;
}

/* Options that modify other options need these. */
static void check_pairs(
    struct argp_state *state, const struct run_arguments *arguments)
{
	const struct run_failover *fault = &arguments->fault;

	if (arguments->has_after && !fault->victim)
		usage_error(state, "--after needs --kill or --stop");
	if (arguments->has_restart && (!fault->victim || fault->stops))
		usage_error(state, "--restart needs --kill");
	if (arguments->has_stop && (!fault->victim || !fault->stops))
		usage_error(state, "--for needs --stop");
}

static void finish_fault(
    struct argp_state *state, struct run_arguments *arguments)
{
	struct load_options *load = &arguments->load;
	struct run_failover *fault = &arguments->fault;
	uint64_t end = fault->after_ns + run_failover_away(fault);

	if (!arguments->has_seconds)
		load->plan.length_ns = end + 3 * SECOND;
	if (end >= load->plan.length_ns)
		usage_error(state,
		    "the fault lasts until %.15g s, after the end of "
		    "--seconds",
		    (double)end / 1e9);
	if (load_options_points(load) > 1 || arguments->n_protocols > 1)
		usage_error(state,
		    "--kill and --stop need one protocol, one workload, one "
		    "--outstanding and at most one --rate");
	load->plan.apart = fault->victim == RUN_CLIENT;
	if (load->plan.apart && load->plan.clients < 2)
		usage_error(state, "--stop client needs 2 or more --clients");
	if (fault->victim == RUN_FOLLOWER && arguments->store.replicas < 2)
		usage_error(state, "a follower needs 2 or more --replicas");
}

/* Set defaults, and refuse combinations that are wrong. */
static void finish(struct argp_state *state, struct run_arguments *arguments)
{
	struct load_options *load = &arguments->load;
	static const char *const all[] = { "a", "b", "c", "95/5" };
	bool fault = arguments->fault.victim != RUN_NONE;

	check_pairs(state, arguments);
	if (!arguments->has_workload && !fault)
		for (load->n_mixes = 0; load->n_mixes < 4; load->n_mixes++)
			load->mixes[load->n_mixes] = load_mix_find(
			    all[load->n_mixes]);
	if (!arguments->n_protocols)
		arguments->n_protocols = fault || arguments->store.flows ? 1
									 : 2;
	if (arguments->store.flows &&
	    (arguments->n_protocols > 1 ||
		strcmp(arguments->protocols[0], "paxos") != 0))
		usage_error(state, "--wiring flows is for --protocol paxos");
	if (fault)
		finish_fault(state, arguments);
}

static uint64_t seconds(
    struct argp_state *state, const char *option, const char *text)
{
	return (uint64_t)(1e9 * option_real(state, option, text, 0.1, 3600));
}

/* Take an option of the fault. Returns whether it is one. */
static bool parse_fault(int key, const char *text, struct argp_state *state,
    struct run_arguments *arguments)
{
	struct run_failover *fault = &arguments->fault;

	switch (key) {
	case KEY_KILL:
		set_victim(state, "kill", text, RUN_REGISTRY, fault);
		return true;
	case KEY_STOP:
		set_victim(state, "stop", text, RUN_CLIENT, fault);
		return true;
	case KEY_AFTER:
		fault->after_ns = seconds(state, "after", text);
		arguments->has_after = true;
		return true;
	case KEY_RESTART:
		fault->restart_ns = seconds(state, "restart", text);
		arguments->has_restart = true;
		return true;
	case KEY_FOR:
		fault->stop_ns = seconds(state, "for", text);
		arguments->has_stop = true;
		return true;
	default:
		return false;
	}
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct run_arguments *arguments = state->input;

	if (parse_fault(key, text, state, arguments))
		return 0;
	switch (key) {
	case KEY_PROTOCOL:
		add_protocols(state, text, arguments);
		return 0;
	case KEY_WIRING:
		arguments->store.flows = strcmp(text, "flows") == 0;
		if (!arguments->store.flows && strcmp(text, "pairs") != 0)
			usage_error(state,
			    "--wiring: '%s' is neither pairs nor flows", text);
		return 0;
	case KEY_REPLICAS:
		arguments->store.replicas = (uint32_t)option_number(
		    state, "replicas", text, 1, KV_MAX_REPLICAS);
		return 0;
	case KEY_LOG:
		arguments->store.log = text;
		return 0;
	case KEY_MEMORY:
		arguments->store.memory_mib = (uint32_t)option_number(
		    state, "memory", text, 1, REPLICA_MAX_MEMORY);
		return 0;
	case KEY_INDEX_READS:
		arguments->load.plan.backend = &load_kv_index;
		return 0;
	case KEY_VERBOSE:
		arguments->store.verbose = true;
		return 0;
	case ARGP_KEY_ARG:
		usage_error(state, "'%s' is not an option", text);
		return 0;
	case ARGP_KEY_END:
		finish(state, arguments);
		return 0;
	default:
		arguments->has_workload |= key == LOAD_KEY_WORKLOAD;
		arguments->has_seconds |= key == LOAD_KEY_SECONDS;
		return load_options_parse(key, text, state, &arguments->load);
	}
}

const struct argp run_argp = {
	.options = descriptions,
	.parser = parse,
	.doc = "Run a replicated store on this machine and put load on it. "
	       "--kill shows what clients notice when a process dies, --stop "
	       "when a process pauses.",
};

void run_arguments_init(struct run_arguments *arguments)
{
	*arguments = (struct run_arguments){
		.protocols = { "paxos", "nopaxos" },
		.store = { .replicas = 5, .memory_mib = REPLICA_MEMORY },
		.fault = { .after_ns = 3 * SECOND, .stop_ns = 3 * SECOND },
	};
	load_options_init(&arguments->load);
	arguments->load.plan.backend = &load_kv;
}
