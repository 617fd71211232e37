/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rounds of the invocation with the targets, one for each plan that comes.
 */
#include "serve.h"

#include <stdio.h>
#include <string.h>

#include "../common/complain.h"
#include "report.h"
#include "runner.h"
#include "slow.h"

/* Whether a plan from another process is valid here. */
static bool is_valid(const struct plan *plan)
{
	return memchr(plan->flow, '\0', sizeof(plan->flow)) &&
	    memchr(plan->back, '\0', sizeof(plan->back)) &&
	    memchr(plan->bulk_flow, '\0', sizeof(plan->bulk_flow)) &&
	    (plan->job == JOB_FLOW || plan->job == JOB_ECHO_FLOW) &&
	    plan->api < N_APIS && plan->n_target_threads >= 1 &&
	    plan->n_target_threads <= plan->n_targets &&
	    plan->n_targets <= DFI_MAX_ENDPOINTS && plan->n_sources >= 1 &&
	    plan->n_sources <= DFI_MAX_ENDPOINTS && plan->replicates <= 1 &&
	    plan->ordered <= 1 && plan->paired <= 1 &&
	    (!plan->paired || plan->n_sources <= plan->n_targets) &&
	    plan->link_latency_ns <= UINT64_C(1000000000) &&
	    plan->slow_source <= SLOW_MOST && plan->slow_target <= SLOW_MOST &&
	    plan->tuple_size >= 1 && plan->tuple_size <= DFI_MAX_TUPLE_SIZE;
}

/* Start worker threads for the plan, unless there are enough. */
static bool have_threads(const struct common_options *options,
    const struct session *session, const struct plan *plan,
    struct runner *runner)
{
	struct runner_attr attr = {
		.n_target_threads = plan->n_target_threads,
		.procs = 1,
		.registry = session->address,
		.timeout_s = options->timeout_s,
		.placement = &options->placement,
	};

	if (runner->board &&
	    runner->attr.n_target_threads >= plan->n_target_threads)
		return true;
	runner_stop(runner);
	return runner_start(&attr, runner);
}

/* Run one round: prepare, report that, run, and report the results. */
static bool run_round(const struct common_options *options,
    struct session *session, struct runner *runner,
    struct peer_message *message)
{
	bool ready = have_threads(options, session, &message->plan, runner) &&
	    runner_prepare(runner, &message->plan);

	if (!ready) {
		message->status = 1;
		snprintf(message->error, sizeof(message->error),
		    "the targets could not be opened; it says why");
		if (runner->board)
			runner_go(runner, true);
		peer_send(session->peer, message);
		return false;
	}
	runner_go(runner, false);
	if (!peer_send(session->peer, message))
		return false;
	if (!runner_finish(runner, &message->tally)) {
		message->status = 1;
		snprintf(message->error, sizeof(message->error),
		    "the targets failed; it says why");
	}
	return peer_send(session->peer, message) && !message->status;
}

int serve(const struct common_options *options, struct session *session)
{
	struct runner runner = { .board = NULL };
	struct peer_message message;
	int ret;

	while ((ret = peer_receive(session->peer, &message)) > 0) {
		if (!is_valid(&message.plan)) {
			complain("the other invocation's plan makes no sense");
			ret = -1;
			break;
		}
		if (!run_round(options, session, &runner, &message)) {
			ret = -1;
			break;
		}
	}
	runner_stop(&runner);
	session_close(session);
	return ret < 0 ? 1 : 0;
}
