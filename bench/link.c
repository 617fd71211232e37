/* SPDX-License-Identifier: Apache-2.0 */
/* How threads wait for a modelled link, and the rows of one. */
#include "link.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "board.h"
#include "compare.h"
#include "report.h"

/* A node that was late by this much may send as much at once. */
#define MOST_LATE_NS (UINT64_C(20) * 1000 * 1000)

/* A shorter wait is not slept. */
#define LEAST_SLEEP_NS (100 * 1000)

double link_limit(const struct plan *plan)
{
	uint32_t out = plan->n_nodes ? plan->n_nodes : 1;
	uint32_t in = plan->n_nodes ? plan->n_nodes : plan->n_targets;
	uint32_t links = plan->replicates || out < in ? out : in;

	return (double)plan->link_bandwidth * links / link_copies(plan);
}

void link_wait(uint64_t end)
{
	struct timespec at = {
		.tv_sec = (time_t)(end / 1000000000),
		.tv_nsec = (long)(end % 1000000000),
	};
	uint64_t now;

	while ((now = now_ns()) < end) {
		if (end - now < LEAST_SLEEP_NS)
			sched_yield();
		else
			clock_nanosleep(
			    CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
}

void link_pay(struct link_word *word, const struct plan *plan, uint64_t bytes)
{
	uint64_t now = now_ns(), old, begin, end;
	uint64_t cost = (uint64_t)((double)bytes * 1e9 /
	    (double)plan->link_bandwidth);

	/* Protects nothing: it only shares the time. */
	old = atomic_load_explicit(&word->busy_until, memory_order_relaxed);
	do {
		begin = !old                   ? now
		    : old > now - MOST_LATE_NS ? old
					       : now - MOST_LATE_NS;
		end = begin + cost;
	} while (!atomic_compare_exchange_weak_explicit(&word->busy_until, &old,
	    end, memory_order_relaxed, memory_order_relaxed));
	link_wait(end);
}

void link_queue_init(struct link_queue *queue, const struct plan *plan)
{
	uint64_t ring = (uint64_t)plan->geometry.segment_size *
	    plan->geometry.segment_count;
	uint64_t batch = (uint64_t)plan->batch * plan->tuple_size;

	*queue = (struct link_queue){ .size = plan_lanes(plan) * ring / batch };
	if (!queue->size)
		queue->size = 1;
	queue->due = calloc(queue->size, sizeof(*queue->due));
}

void compare_report_link(json_t *row, const struct side *side)
{
	const struct plan *plan = &side->plan;
	double limits[STATS_MAX_VALUES];
	uint32_t i;

	for (i = 0; i < side->n_values; i++)
		limits[i] = link_limit(plan) * 1e-9;
	report_baseline(
	    row, "modelled link", side->values, limits, side->n_values);
	json_object_set_new(row, "link_bandwidth",
	    json_integer((json_int_t)plan->link_bandwidth));
	json_object_set_new(row, "link_latency_us",
	    report_number((double)plan->link_latency_ns * 1e-3));
}
