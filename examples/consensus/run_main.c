/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-kv-run: runs a whole replicated store under load on one machine, and
 * shows what clients see when one of its processes dies or stops.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../common/complain.h"
#include "../../common/output.h"
#include "../../common/usage.h"
#include "load_report.h"
#include "run_memory.h"
#include "run_options.h"

/* One load on a store that runs. */
struct point {
	struct run_arguments *arguments;
	struct load_files *files;
	struct run_cluster *cluster;
	struct run_failover fault;
	struct run_observation begin, end; /* of the measured time */
	bool begun, ended, terminal;
	uint64_t shown, length_ns;
};

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
 * How much replicas of one role have sent for each request: messages of the
 * protocol, or segments of flows, each with one or more messages.
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

/*
 * The share of the leader's messages that its flow to all carried, from 0 to 1.
 */
static double share_of_flows(const struct point *point)
{
	const struct run_replica *begin, *end;
	uint64_t n;

	begin = &point->begin.replicas[point->end.leader];
	end = &point->end.replicas[point->end.leader];
	n = end->messages - begin->messages;
	return n ? (double)(end->by_flows - begin->by_flows) / (double)n : 0;
}

static const char *store_name(const struct point *point)
{
	return point->cluster->options.flows ? "paxos-flows"
					     : point->cluster->options.protocol;
}

/* Print counters only if nobody died or was elected meanwhile. */
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
	load_report_line(store_name(point), plan, result);
	load_report_costs(counts, result);
	if (has_messages(point))
		printf("  sent for each request: leader %.3f messages, each "
		       "follower %.3f; segments of flows %.3f, %.3f\n",
		    sent(point, result, true, false),
		    sent(point, result, false, false),
		    sent(point, result, true, true),
		    sent(point, result, false, true));
	if (has_messages(point) && point->cluster->options.flows)
		printf("  the leader's messages by its flow to all: %.1f %%\n",
		    100 * share_of_flows(point));
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
	    store_name(point), plan, result, counts);

	json_object_set_new(
	    object, "replicas", json_integer(point->cluster->options.replicas));
	add_messages(object, point, result);
	if (point->cluster->options.flows)
		json_object_set_new(object, "share_of_flows",
		    has_messages(point) ? json_real(share_of_flows(point))
					: json_null());
	if (point->fault.victim)
		json_object_set_new(object, "failover",
		    run_failover_json(&point->fault, result));
	return json_array_append_new(results, object)
	    ? complain("no memory for results")
	    : 0;
}

/* After a load with a fault: print the leader, make the drawing. */
static int after_fault(struct point *point, const struct load_result *result)
{
	struct run_observation observation;

	if (!point->fault.struck)
		return complain("nothing was %s: there was no %s in the time "
				"of the load",
		    point->fault.stops ? "stopped" : "killed",
		    run_victims[point->fault.victim]);
	if (point->fault.stops && !point->fault.back)
		return complain("the load had ended before the %s could go on",
		    run_victims[point->fault.victim]);
	if (run_cluster_observe(point->cluster, &observation))
		return -1;
	point->fault.leader_after = observation.leader;
	if (!point->arguments->load.plot)
		return 0;
	return run_failover_plot(&point->files->plot, &point->fault, result);
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

static int run_points(struct run_arguments *arguments, struct load_files *files,
    struct run_cluster *cluster, json_t *results)
{
	struct load_options *load = &arguments->load;
	uint32_t i;

	for (i = 0; i < load_options_points(load); i++) {
		struct load_plan plan = load_options_point(load, i);
		struct point point = {
			.arguments = arguments,
			.files = files,
			.cluster = cluster,
			.fault = arguments->fault,
			.terminal = isatty(STDERR_FILENO) && !load->json,
			.length_ns = plan.length_ns,
		};

		plan.where = cluster->where;
		plan.fill = i == 0;
		point.fault.cluster = cluster;
		point.fault.plan = &plan;
		point.fault.live = !load->json;
		if (run_point(&point, &plan, results))
			return -1;
	}
	return 0;
}

static void print_head(const struct run_arguments *arguments)
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

static int run_all(
    struct run_arguments *arguments, struct load_files *files, json_t *results)
{
	static struct run_cluster cluster; /* large */
	uint32_t i;
	int ret = 0;

	for (i = 0; i < arguments->n_protocols && ret == 0; i++) {
		arguments->store.protocol = arguments->protocols[i];
		ret = run_cluster_start(&cluster, &arguments->store);
		if (ret == 0)
			ret = run_points(arguments, files, &cluster, results);
		if (run_cluster_end(&cluster))
			ret = -1;
	}
	return ret;
}

static int report(const struct load_options *load, struct load_files *files,
    json_t *results, bool fault)
{
	if (load->json) {
		json_dumpf(results, stdout, JSON_INDENT(2));
		printf("\n");
	}
	if (load->csv && load_report_csv(&files->csv, results))
		return -1;
	if (load->plot && !fault)
		return load_report_plot(&files->plot, results);
	return 0;
}

int main(int argc, char **argv)
{
	static struct run_arguments arguments;
	static struct load_files files;
	json_t *results;
	int ret;

	output_open();
	run_arguments_init(&arguments);
	if (options_check(&run_argp, argv))
		return 64;
	argp_parse(&run_argp, argc, argv, 0, NULL, &arguments);
	if (load_files_open(&files, arguments.load.csv, arguments.load.plot))
		return EXIT_FAILURE;
	results = json_array();
	ret = results ? run_memory_check(&arguments) : -1;
	if (ret == 0 && !arguments.load.json)
		print_head(&arguments);
	if (ret == 0)
		ret = run_all(&arguments, &files, results);
	if (ret == 0)
		ret = report(
		    &arguments.load, &files, results, arguments.fault.victim);
	load_files_close(&files);
	json_decref(results);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
