/* SPDX-License-Identifier: Apache-2.0 */
/* Faults under load, and what is seen of them: see run_failover.h. */
#include "run_failover.h"

#include <stdio.h>
#include <string.h>
#include "../../common/complain.h"
#include "../../common/output.h"
#include "load_report.h"

#define ROW_NS UINT64_C(100000000)
#define ROW_SLOTS (ROW_NS / LOAD_SLOT_NS)
#define BEFORE_ROWS 5 /* that are shown */
#define AFTER_ROWS 15
#define BAR_MARKS 50
#define SEARCH_MS 5000 /* behind the fault, for its gap */

static const char *const victims[] = { "nothing", "leader", "follower",
	"registry" };

/* The replica to be killed; -1: another process, or none there. */
static int choose(const struct run_failover *failover,
    const struct run_observation *observation)
{
	int i;

	if (failover->victim == RUN_LEADER)
		return observation->leader;
	if (failover->victim == RUN_REGISTRY)
		return -1;
	for (i = 0; i < (int)failover->cluster->options.replicas; i++)
		if (i != observation->leader &&
		    observation->replicas[i].answers)
			return i;
	return -1;
}

/* 1: chosen; 0: there is none now, as between two leaders; -1. */
static int choose_now(struct run_failover *failover)
{
	struct run_observation observation;

	if (run_cluster_observe(failover->cluster, &observation))
		return -1;
	failover->leader_before = observation.leader;
	failover->replica = choose(failover, &observation);
	return failover->victim == RUN_REGISTRY || failover->replica >= 0;
}

static double seconds_of(const struct load_progress *progress, uint64_t begin)
{
	return (double)(load_now() - begin + progress->elapsed_ns) / 1e9;
}

static int kill_it(
    struct run_failover *failover, const struct load_progress *progress)
{
	struct run_cluster *cluster = failover->cluster;
	uint64_t begin = load_now();
	int ret = choose_now(failover);

	if (ret <= 0)
		return ret;
	/* Asking has taken a while. */
	failover->killed_s = seconds_of(progress, begin);
	run_cluster_kill(cluster,
	    failover->replica >= 0 ? cluster->replicas[failover->replica]
				   : cluster->registry);
	failover->killed = true;
	return 0;
}

static int start_it(
    struct run_failover *failover, const struct load_progress *progress)
{
	failover->restarted = true;
	if (failover->replica < 0)
		return 0;
	failover->restarted_s = (double)progress->elapsed_ns / 1e9;
	return run_cluster_restart(
	    failover->cluster, (uint32_t)failover->replica);
}

static uint32_t row_requests(const struct run_failover *failover,
    const struct load_progress *progress, uint32_t row)
{
	uint32_t slot, sum = 0;

	for (slot = row * ROW_SLOTS; slot < (row + 1) * ROW_SLOTS; slot++)
		sum += load_slot(progress->board, failover->clients, slot);
	return sum;
}

static void show_row(struct run_failover *failover, uint32_t row, uint32_t n)
{
	unsigned marks;

	marks = (unsigned)(n / failover->bar + 0.5);
	if (marks > BAR_MARKS)
		marks = BAR_MARKS;
	printf("%6.2f s  %8u requests  %.*s\n", row * 0.1, n, (int)marks,
	    "##################################################");
}

/* What has happened before the end of a row, once. */
static void show_events(struct run_failover *failover, uint32_t row)
{
	double end = (row + 1) * 0.1;

	if (failover->killed && !failover->told_kill &&
	    failover->killed_s < end) {
		failover->told_kill = true;
		printf("%6.2f s  ", failover->killed_s);
		if (failover->replica < 0)
			printf("the registry is killed\n");
		else
			printf("replica %d, %s, is killed\n", failover->replica,
			    failover->victim == RUN_LEADER ? "the leader"
							   : "a follower");
	}
	if (failover->restarted && !failover->told_restart &&
	    failover->restarted_s < end && failover->replica >= 0) {
		failover->told_restart = true;
		printf("%6.2f s  replica %d is started again\n",
		    failover->restarted_s, failover->replica);
	}
}

/* Print the rows that are complete; those far from the fault are left out. */
static void show(
    struct run_failover *failover, const struct load_progress *progress)
{
	uint32_t fault = (uint32_t)(failover->after_ns / ROW_NS);
	uint32_t last = fault + AFTER_ROWS +
	    (uint32_t)(failover->restart_ns / ROW_NS);

	/* A client counts a request only a moment after it has ended. */
	while ((failover->shown + 1) * ROW_NS + 5 * LOAD_SLOT_NS <=
	    progress->elapsed_ns) {
		uint32_t row = failover->shown++;

		if (!failover->live || row + BEFORE_ROWS < fault ||
		    row > last ||
		    (row + 1) * ROW_SLOTS >= progress->board->n_slots)
			continue;
		/* The mean before the fault is four fifths of the width. */
		if (failover->bar <= 0)
			failover->bar = 1 +
			    1.25 * (double)progress->completed * ROW_NS /
				(double)progress->elapsed_ns / BAR_MARKS;
		show_events(failover, row);
		show_row(failover, row, row_requests(failover, progress, row));
	}
	if (failover->live)
		output_flush();
}

int run_failover_step(
    struct run_failover *failover, const struct load_progress *progress)
{
	if (failover->victim == RUN_NONE || progress->elapsed_ns == 0)
		return 0;
	show(failover, progress);
	if (!failover->killed && progress->elapsed_ns >= failover->after_ns)
		return kill_it(failover, progress);
	if (failover->killed && failover->restart_ns && !failover->restarted &&
	    progress->elapsed_ns >= failover->after_ns + failover->restart_ns)
		return start_it(failover, progress);
	return 0;
}

static double rate(
    const struct load_result *result, uint32_t begin, uint32_t end)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = begin; i < end && i < result->n_slots; i++)
		sum += result->slots[i];
	return end > begin ? (double)sum * 1e9 / LOAD_SLOT_NS / (end - begin)
			   : 0;
}

void run_failover_gap(const struct run_failover *failover,
    const struct load_result *result, struct run_gap *gap)
{
	uint32_t killed = (uint32_t)(failover->killed_s * 1e9 / LOAD_SLOT_NS);
	uint32_t i, run = 0, longest = 0, end = killed;

	for (i = killed; i < result->n_slots && i < killed + SEARCH_MS; i++) {
		run = result->slots[i] ? 0 : run + 1;
		if (run > longest) {
			longest = run;
			end = i + 1;
		}
	}
	*gap = (struct run_gap){
		.before = rate(result, 0, killed),
		.after = rate(result, end, result->n_slots),
		.ms = (double)longest * LOAD_SLOT_NS / 1e6,
		.begin_s = (double)(end - longest) * LOAD_SLOT_NS / 1e9,
	};
}

void run_failover_print(
    const struct run_failover *failover, const struct load_result *result)
{
	struct run_gap gap;

	run_failover_gap(failover, result, &gap);
	printf("The longest time without an answer is %.0f ms, from %.3f s on.",
	    gap.ms, gap.begin_s);
	if (failover->leader_after >= 0)
		printf(" Replica %d leads.\n", failover->leader_after);
	else
		printf(" No replica leads.\n");
	printf("Requests a second: %.0f before, %.0f after. Outcome unknown: "
	       "%ju, refused: %ju.\n",
	    gap.before, gap.after, (uintmax_t)result->unknown,
	    (uintmax_t)result->refused);
}

static json_t *rows_json(const struct load_result *result)
{
	json_t *rows = json_array();
	uint32_t i, row, sum;

	for (row = 0; rows && (row + 1) * ROW_SLOTS <= result->n_slots; row++) {
		sum = 0;
		for (i = row * ROW_SLOTS; i < (row + 1) * ROW_SLOTS; i++)
			sum += result->slots[i];
		json_array_append_new(rows, json_integer(sum));
	}
	return rows;
}

json_t *run_failover_json(
    const struct run_failover *failover, const struct load_result *result)
{
	struct run_gap gap;

	run_failover_gap(failover, result, &gap);
	return json_pack("{s:s, s:i, s:f, s:i, s:i, s:f, s:f, s:f, s:f, s:o}",
	    "killed", victims[failover->victim], "replica", failover->replica,
	    "killed_s", failover->killed_s, "leader_before",
	    failover->leader_before, "leader_after", failover->leader_after,
	    "longest_gap_ms", gap.ms, "gap_begin_s", gap.begin_s,
	    "throughput_before", gap.before, "throughput_after", gap.after,
	    "requests_each_100_ms", rows_json(result));
}

/* Requests a second in steps of some slots, from one slot to another. */
static void plot_data(FILE *plot, const char *name,
    const struct load_result *result, uint32_t begin, uint32_t end,
    uint32_t step)
{
	uint32_t i;

	fprintf(plot, "$%s << END\n", name);
	for (i = begin; i + step <= end && i + step <= result->n_slots;
	     i += step)
		fprintf(plot, "%.6g %.6g\n", i * (LOAD_SLOT_NS / 1e9),
		    rate(result, i, i + step) / 1e3);
	fprintf(plot, "END\n");
}

static void plot_marks(FILE *plot, const struct run_failover *failover)
{
	fprintf(plot,
	    "set arrow 1 from first %g, graph 0 to first %g, graph 1 nohead "
	    "lw 2 lc '#cc3311' front\n"
	    "set label 1 ' %s killed' at first %g, graph 1.05 tc '#cc3311'\n",
	    failover->killed_s, failover->killed_s, victims[failover->victim],
	    failover->killed_s);
	if (failover->restarted_s > 0)
		fprintf(plot,
		    "set arrow 2 from first %g, graph 0 to first %g, graph 1 "
		    "nohead lw 2 lc '#009988' front\n"
		    "set label 2 ' started again' at first %g, graph 1.05 tc "
		    "'#009988'\n",
		    failover->restarted_s, failover->restarted_s,
		    failover->restarted_s);
}

int run_failover_plot(const char *file, const struct run_failover *failover,
    const struct load_result *result)
{
	uint32_t killed = (uint32_t)(failover->killed_s * 1e9 / LOAD_SLOT_NS);
	uint32_t from = killed > 100 ? (killed - 100) / 10 * 10 : 0;
	FILE *plot = plot_open(file, 900, 640);

	if (!plot)
		return -1;
	plot_data(plot, "all", result, 0, result->n_slots, ROW_SLOTS);
	plot_data(plot, "near", result, from, from + 400, 10);
	plot_marks(plot, failover);
	fprintf(plot,
	    "set multiplot layout 2,1\nset yrange [0:*]\nunset key\n"
	    "set style fill solid 0.35 noborder\nset tmargin 3\n"
	    "set ylabel 'thousand requests a second'\n"
	    "set xlabel 's, steps of 100 ms'\nset xrange [0:%g]\n"
	    "plot $all using ($1+0.05):2:(0.1) with boxes lc '#0077bb'\n"
	    "unset arrow 2\nunset label 2\n"
	    "set xlabel 's, steps of 10 ms'\nset xrange [%g:%g]\n"
	    "plot $near using ($1+0.005):2:(0.01) with boxes lc '#0077bb'\n"
	    "unset multiplot\n",
	    result->n_slots * (LOAD_SLOT_NS / 1e9), from * (LOAD_SLOT_NS / 1e9),
	    (from + 400) * (LOAD_SLOT_NS / 1e9));
	return plot_close(plot, file);
}
