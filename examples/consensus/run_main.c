/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-kv-run: a whole replicated store on one machine, under load, in one
 * command; and what clients see of a replica's death.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/complain.h"
#include "../../common/nearest.h"
#include "../../common/output.h"
#include "load_kv.h"
#include "load_options.h"
#include "load_report.h"
#include "run_failover.h"

#define MAX_PROTOCOLS 2

enum {
	KEY_PROTOCOL = LOAD_KEY_OWN,
	KEY_REPLICAS,
	KEY_LOG,
	KEY_INDEX_READS,
	KEY_VERBOSE,
	KEY_KILL,
	KEY_AFTER,
	KEY_RESTART,
};

static const struct argp_option descriptions[] = {
	{ NULL, 0, NULL, 0, "Store:", 1 },
	{ "protocol", KEY_PROTOCOL, "LIST", 0,
	    "Of paxos, nopaxos (default both; with --kill paxos)", 0 },
	{ "replicas", KEY_REPLICAS, "N", 0, "(default 5)", 0 },
	{ "log", KEY_LOG, "DIR", 0,
	    "Keep logs in this folder (default: in memory only)", 0 },
	{ "index-reads", KEY_INDEX_READS, NULL, 0,
	    "Read by rounds of the leader's, not by the log", 0 },
	{ "verbose", KEY_VERBOSE, NULL, 0, "Show what replicas say", 0 },
	LOAD_OPTIONS_REQUESTS,
	{ NULL, 0, NULL, 0, "Fault:", 3 },
	{ "kill", KEY_KILL, "WHICH", 0,
	    "Kill the leader, a follower or the registry (one workload)", 0 },
	{ "after", KEY_AFTER, "S", 0, "Seconds until then (default 3)", 0 },
	{ "restart", KEY_RESTART, "S", 0,
	    "Start a killed replica again S seconds later", 0 },
	LOAD_OPTIONS_OUTPUT,
	{ NULL, 0, NULL, 0, NULL, 0 },
};

struct arguments {
	struct load_options load;
	const char *protocols[MAX_PROTOCOLS];
	uint32_t n_protocols;
	struct run_options store;
	struct run_failover fault;
	bool has_workload, has_seconds, has_fault_time;
};

/* One load on a store that runs. */
struct point {
	struct arguments *arguments;
	struct run_cluster *cluster;
	struct run_failover fault;
	struct run_observation begin, end; /* of the measured time */
	bool begun, ended, terminal;
	uint64_t shown, length_ns;
};

/* ---- Arguments ---------------------------------------------------------- */

static void add_protocols(
    struct argp_state *state, char *text, struct arguments *arguments)
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
		    arguments->n_protocols == MAX_PROTOCOLS)
			argp_error(
			    state, "--protocol: '%s' is not paxos", part);
		arguments->protocols[arguments->n_protocols++] = known[i];
	}
}

static enum run_victim victim(struct argp_state *state, const char *text)
{
	if (strcmp(text, "leader") == 0)
		return RUN_LEADER;
	if (strcmp(text, "follower") == 0)
		return RUN_FOLLOWER;
	if (strcmp(text, "registry") != 0)
		argp_error(state,
		    "--kill: '%s' is not leader, follower or registry", text);
	return RUN_REGISTRY;
}

/* What is left to defaults, and what does not go together. */
static void finish(struct argp_state *state, struct arguments *arguments)
{
	struct load_options *load = &arguments->load;
	struct run_failover *fault = &arguments->fault;
	static const char *const all[] = { "a", "b", "c", "95/5" };

	if (!arguments->has_workload && !fault->victim)
		for (load->n_mixes = 0; load->n_mixes < 4; load->n_mixes++)
			load->mixes[load->n_mixes] = load_mix_find(
			    all[load->n_mixes]);
	if (!arguments->n_protocols)
		arguments->n_protocols = fault->victim ? 1 : 2;
	if (!fault->victim) {
		if (arguments->has_fault_time)
			argp_error(state, "--after and --restart need --kill");
		return;
	}
	if (!arguments->has_seconds)
		load->plan.length_ns = fault->after_ns + fault->restart_ns +
		    UINT64_C(3000000000);
	if (fault->after_ns + fault->restart_ns >= load->plan.length_ns)
		argp_error(state,
		    "--after and --restart are behind the end of --seconds");
	if (load_options_points(load) > 1 || arguments->n_protocols > 1)
		argp_error(state,
		    "--kill needs one protocol, one workload, one "
		    "--outstanding and at most one --rate");
}

static uint64_t seconds(
    struct argp_state *state, const char *option, const char *text)
{
	return (
	    uint64_t)(1e9 * load_option_number(state, option, text, 0.1, 3600));
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case KEY_PROTOCOL:
		add_protocols(state, text, arguments);
		return 0;
	case KEY_REPLICAS:
		arguments->store.replicas = (uint32_t)load_option_number(
		    state, "replicas", text, 1, KV_MAX_REPLICAS);
		return 0;
	case KEY_LOG:
		arguments->store.log = text;
		return 0;
	case KEY_INDEX_READS:
		arguments->load.plan.backend = &load_kv_index;
		return 0;
	case KEY_VERBOSE:
		arguments->store.verbose = true;
		return 0;
	case KEY_KILL:
		arguments->fault.victim = victim(state, text);
		return 0;
	case KEY_AFTER:
		arguments->fault.after_ns = seconds(state, "after", text);
		arguments->has_fault_time = true;
		return 0;
	case KEY_RESTART:
		arguments->fault.restart_ns = seconds(state, "restart", text);
		arguments->has_fault_time = true;
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

/* ---- A load ------------------------------------------------------------- */

static void show_progress(
    struct point *point, const struct load_progress *progress)
{
	uint64_t step = progress->elapsed_ns / 500000000;

	if (!point->terminal || point->fault.victim || step == point->shown)
		return;
	point->shown = step;
	fprintf(stderr, "\r  %.1f s, %.0f requests a second\033[K",
	    (double)progress->elapsed_ns / 1e9,
	    (double)progress->completed * 1e9 / (double)progress->elapsed_ns);
}

static int watch(void *arg, const struct load_progress *progress)
{
	struct point *point = arg;

	if (run_cluster_check(point->cluster))
		return -1;
	if (progress->elapsed_ns == 0)
		return 0;
	show_progress(point, progress);
	if (!point->begun) {
		point->begun = true;
		return run_cluster_observe(point->cluster, &point->begin);
	}
	if (!point->ended && progress->elapsed_ns >= point->length_ns) {
		point->ended = true;
		return run_cluster_observe(point->cluster, &point->end);
	}
	return run_failover_step(&point->fault, progress);
}

/*
 * What replicas of one role have sent for each request: messages of the
 * protocol, or segments of flows, in which several may be.
 */
static double sent(const struct point *point, const struct load_result *result,
    bool leader, bool segments)
{
	uint64_t sum = 0;
	uint32_t i, n = 0;

	for (i = 0; i < point->cluster->options.replicas; i++) {
		const struct run_replica *begin = &point->begin.replicas[i];
		const struct run_replica *end = &point->end.replicas[i];

		if (((int)i == point->end.leader) != leader)
			continue;
		sum += segments ? end->segments - begin->segments
				: end->messages - begin->messages;
		n++;
	}
	return n && result->completed
	    ? (double)sum / n / (double)result->completed
	    : 0;
}

/* Counters are only those of a time in which nobody died or was elected. */
static bool has_messages(const struct point *point)
{
	uint32_t i;

	for (i = 0; i < point->cluster->options.replicas; i++)
		if (!point->begin.replicas[i].answers ||
		    !point->end.replicas[i].answers)
			return false;
	return point->begun && point->ended && !point->fault.victim &&
	    point->begin.leader >= 0 &&
	    point->begin.leader == point->end.leader;
}

static int count_replicas(struct point *point, struct load_counts *counts)
{
	struct run_cluster *cluster = point->cluster;
	struct run_observation observation;
	uint32_t i;

	counts->n = 0;
	if (run_cluster_observe(cluster, &observation))
		return -1;
	for (i = 0; i < cluster->options.replicas; i++)
		load_counts_add_process(counts,
		    (int)i == observation.leader ? "leader" : "follower",
		    run_cluster_pid(cluster, cluster->replicas[i]));
	return 0;
}

static void print_result(const struct point *point,
    const struct load_plan *plan, const struct load_counts *counts,
    const struct load_result *result)
{
	if (point->fault.victim) {
		run_failover_print(&point->fault, result);
		return;
	}
	load_report_line(point->cluster->options.protocol, plan, result);
	load_report_costs(counts, result);
	if (has_messages(point))
		printf("  sent for each request: leader %.3f messages, each "
		       "follower %.3f; segments of flows %.3f, %.3f\n",
		    sent(point, result, true, false),
		    sent(point, result, false, false),
		    sent(point, result, true, true),
		    sent(point, result, false, true));
	output_flush();
}

static void add_messages(
    json_t *object, const struct point *point, const struct load_result *result)
{
	static const char *const names[2][2] = {
		{ "follower_messages_per_request",
		    "follower_segments_per_request" },
		{ "leader_messages_per_request",
		    "leader_segments_per_request" },
	};
	int leader, segments;

	for (leader = 1; leader >= 0; leader--)
		for (segments = 0; segments <= 1; segments++)
			json_object_set_new(object, names[leader][segments],
			    has_messages(point) ? json_real(sent(point, result,
						      leader, segments))
						: json_null());
}

static int add_object(const struct point *point, const struct load_plan *plan,
    const struct load_counts *counts, const struct load_result *result,
    json_t *results)
{
	json_t *object = load_report_json(
	    point->cluster->options.protocol, plan, result, counts);

	json_object_set_new(
	    object, "replicas", json_integer(point->cluster->options.replicas));
	add_messages(object, point, result);
	if (point->fault.victim)
		json_object_set_new(object, "failover",
		    run_failover_json(&point->fault, result));
	return json_array_append_new(results, object)
	    ? complain("no memory for results")
	    : 0;
}

/* Behind a load with a fault: who leads, the drawing. */
static int after_fault(struct point *point, const struct load_result *result)
{
	struct run_observation observation;

	if (!point->fault.killed)
		return complain("nothing was killed: there was no %s in the "
				"time of the load",
		    point->fault.victim == RUN_LEADER ? "leader" : "follower");
	if (run_cluster_observe(point->cluster, &observation))
		return -1;
	point->fault.leader_after = observation.leader;
	if (!point->arguments->load.plot)
		return 0;
	return run_failover_plot(
	    point->arguments->load.plot, &point->fault, result);
}

static int run_point(
    struct point *point, const struct load_plan *plan, json_t *results)
{
	struct load_counts *counts = &point->arguments->load.counts;
	static struct load_result result; /* large */
	bool faults = point->fault.victim != RUN_NONE;
	int ret;

	ret = faults ? 0 : count_replicas(point, counts);
	if (ret == 0)
		ret = load_run(
		    plan, watch, point, faults ? NULL : counts, &result);
	if (point->terminal && !faults)
		fprintf(stderr, "\r\033[K");
	if (ret == 0)
		ret = load_result_check(&result, faults);
	if (ret == 0 && faults)
		ret = after_fault(point, &result);
	if (ret == 0 && !point->arguments->load.json)
		print_result(point, plan, counts, &result);
	if (ret == 0)
		ret = add_object(point, plan, counts, &result, results);
	load_result_free(&result);
	return ret;
}

static int run_points(
    struct arguments *arguments, struct run_cluster *cluster, json_t *results)
{
	struct load_options *load = &arguments->load;
	uint32_t i;

	for (i = 0; i < load_options_points(load); i++) {
		struct load_plan plan = load_options_point(load, i);
		struct point point = {
			.arguments = arguments,
			.cluster = cluster,
			.fault = arguments->fault,
			.terminal = isatty(STDERR_FILENO) && !load->json,
			.length_ns = plan.length_ns,
		};

		plan.where = cluster->where;
		plan.fill = i == 0;
		point.fault.cluster = cluster;
		point.fault.clients = plan.clients;
		point.fault.live = !load->json;
		if (run_point(&point, &plan, results))
			return -1;
	}
	return 0;
}

static void print_head(const struct arguments *arguments)
{
	printf("%u replicas and %u clients on %ld processors of this machine, "
	       "values of %u B, %s\n",
	    arguments->store.replicas, arguments->load.plan.clients,
	    sysconf(_SC_NPROCESSORS_ONLN), arguments->load.plan.value_size,
	    arguments->store.log ? "logs on disk" : "no logs");
	if (!arguments->fault.victim)
		load_report_head();
	output_flush();
}

static int run_all(struct arguments *arguments, json_t *results)
{
	static struct run_cluster cluster; /* large */
	uint32_t i;
	int ret = 0;

	for (i = 0; i < arguments->n_protocols && ret == 0; i++) {
		arguments->store.protocol = arguments->protocols[i];
		ret = run_cluster_start(&cluster, &arguments->store);
		if (ret == 0)
			ret = run_points(arguments, &cluster, results);
		if (run_cluster_end(&cluster))
			ret = -1;
	}
	return ret;
}

static int tell(const struct load_options *load, json_t *results, bool fault)
{
	if (load->json) {
		json_dumpf(results, stdout, JSON_INDENT(2));
		printf("\n");
	}
	if (load->csv && load_report_csv(load->csv, results))
		return -1;
	if (load->plot && !fault)
		return load_report_plot(load->plot, results);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = descriptions,
		.parser = parse,
		.doc = "Run a replicated store on this machine and put load on "
		       "it. --kill shows what clients see of a death.",
	};
	static struct arguments arguments = {
		.protocols = { "paxos", "nopaxos" },
		.store = { .replicas = 5 },
		.fault = { .after_ns = UINT64_C(3000000000) },
	};
	json_t *results;
	int ret;

	output_open();
	load_options_init(&arguments.load);
	arguments.load.plan.backend = &load_kv;
	if (options_check(&argp, argv))
		return 64;
	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	results = json_array();
	if (!arguments.load.json)
		print_head(&arguments);
	ret = results ? run_all(&arguments, results) : -1;
	if (ret == 0)
		ret = tell(&arguments.load, results, arguments.fault.victim);
	json_decref(results);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
