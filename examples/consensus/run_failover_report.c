/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a load with a fault: see run_failover.h. */
#include <stdio.h>

#include "load_report.h"
#include "run_failover.h"

#define SEARCH_NS UINT64_C(5000000000) /* behind a fault's end, for its gap */

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

static uint32_t slot_of(double seconds)
{
	return (uint32_t)(seconds * 1e9 / LOAD_SLOT_NS);
}

void run_failover_gap(const struct run_failover *failover,
    const struct load_result *result, struct run_gap *gap)
{
	uint32_t struck = slot_of(failover->struck_s);
	uint32_t back = slot_of(failover->back_s);
	uint64_t search_ns = SEARCH_NS + failover->stop_ns;
	uint32_t last = struck + (uint32_t)(search_ns / LOAD_SLOT_NS);
	uint32_t i, run = 0, longest = 0, end = struck;

	for (i = struck; i < result->n_slots && i < last; i++) {
		run = result->slots[i] ? 0 : run + 1;
		if (run > longest) {
			longest = run;
			end = i + 1;
		}
	}
	*gap = (struct run_gap){
		.before = rate(result, 0, struck),
		.during = failover->stops ? rate(result, struck, back) : 0,
		.after = rate(
		    result, failover->stops ? back : end, result->n_slots),
		.ms = (double)longest * LOAD_SLOT_NS / 1e6,
		.begin_s = (double)(end - longest) * LOAD_SLOT_NS / 1e9,
	};
}

static void print_rates(
    const struct run_failover *failover, const struct run_gap *gap)
{
	printf("Requests a second%s: %.0f before, ",
	    failover->victim == RUN_CLIENT ? " of the other clients" : "",
	    gap->before);
	if (failover->stops)
		printf("%.0f while the %s was stopped, ", gap->during,
		    run_victims[failover->victim]);
	printf("%.0f after.\n", gap->after);
}

static void print_catch_up(const struct run_failover *failover)
{
	if (!failover->stops || failover->replica < 0)
		return;
	if (failover->caught_up)
		printf("Replica %d had caught up %.0f ms after it went on, by "
		       "%s.\n",
		    failover->replica,
		    (failover->caught_up_s - failover->back_s) * 1e3,
		    failover->by_snapshot ? "a snapshot and the log"
					  : "the log");
	else
		printf("Replica %d has not caught up before the load ended.\n",
		    failover->replica);
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
	print_rates(failover, &gap);
	print_catch_up(failover);
	printf("Outcome unknown: %ju, refused: %ju.\n",
	    (uintmax_t)result->unknown, (uintmax_t)result->refused);
}

static json_t *rows_json(const struct load_result *result)
{
	json_t *rows = json_array();
	uint32_t i, row, sum;

	for (row = 0; rows && (row + 1) * RUN_ROW_SLOTS <= result->n_slots;
	     row++) {
		sum = 0;
		for (i = row * RUN_ROW_SLOTS; i < (row + 1) * RUN_ROW_SLOTS;
		     i++)
			sum += result->slots[i];
		json_array_append_new(rows, json_integer(sum));
	}
	return rows;
}

/* For a process that is stopped and continues. */
static void add_stop(
    json_t *object, const struct run_failover *failover, double during)
{
	double took = failover->caught_up_s - failover->back_s;

	json_object_set_new(object, "continued_s", json_real(failover->back_s));
	json_object_set_new(object, "throughput_during", json_real(during));
	json_object_set_new(object, "catch_up_ms",
	    failover->caught_up ? json_real(took * 1e3) : json_null());
	json_object_set_new(object, "catch_up_by_snapshot",
	    failover->caught_up ? json_boolean(failover->by_snapshot)
				: json_null());
}

json_t *run_failover_json(
    const struct run_failover *failover, const struct load_result *result)
{
	struct run_gap gap;
	json_t *object;

	run_failover_gap(failover, result, &gap);
	object = json_pack("{s:s, s:i, s:f, s:i, s:i, s:f, s:f, s:f, s:f, s:o}",
	    failover->stops ? "stopped" : "killed",
	    run_victims[failover->victim], "replica", failover->replica,
	    failover->stops ? "stopped_s" : "killed_s", failover->struck_s,
	    "leader_before", failover->leader_before, "leader_after",
	    failover->leader_after, "longest_gap_ms", gap.ms, "gap_begin_s",
	    gap.begin_s, "throughput_before", gap.before, "throughput_after",
	    gap.after, "requests_each_100_ms", rows_json(result));
	if (object && failover->stops)
		add_stop(object, failover, gap.during);
	return object;
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
	    "set label 1 ' %s %s' at first %g, graph 1.05 tc '#cc3311'\n",
	    failover->struck_s, failover->struck_s,
	    run_victims[failover->victim],
	    failover->stops ? "stopped" : "killed", failover->struck_s);
	if (failover->back_s > 0)
		fprintf(plot,
		    "set arrow 2 from first %g, graph 0 to first %g, graph 1 "
		    "nohead lw 2 lc '#009988' front\n"
		    "set label 2 ' %s' at first %g, graph 1.05 tc '#009988'\n",
		    failover->back_s, failover->back_s,
		    failover->stops ? "goes on" : "started again",
		    failover->back_s);
}

int run_failover_plot(struct result_file *file,
    const struct run_failover *failover, const struct load_result *result)
{
	uint32_t struck = slot_of(failover->struck_s);
	uint32_t from = struck > 100 ? (struck - 100) / 10 * 10 : 0;
	struct plot drawing;
	FILE *plot;

	if (plot_open(&drawing, file, 900, 640))
		return -1;
	plot = drawing.commands;
	plot_data(plot, "all", result, 0, result->n_slots, RUN_ROW_SLOTS);
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
	return plot_close(&drawing);
}
