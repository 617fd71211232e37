/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a round of dfi-bench took, by the threads' times on its board:
 * invented ones, without worker processes.
 */
#include <criterion/criterion.h>
#include <unistd.h>

#include "bench/peer.h"
#include "bench/runner.h"

static struct placement placement;
static struct runner runner;
static struct tally tally;

/* No round here has another invocation. */
bool peer_send(struct peer *peer, struct peer_message *message)
{
	(void)peer;
	(void)message;
	return false;
}

int peer_receive(struct peer *peer, struct peer_message *message)
{
	(void)peer;
	(void)message;
	return -1;
}

static void set_up(void)
{
	runner = (struct runner){
		.attr = { .timeout_s = 1, .placement = &placement },
	};
	runner.board = board_create(1, 1, 0, &runner.fd);
	cr_assert_not_null(runner.board);
	runner.board->plan = (struct plan){
		.n_sources = 1,
		.n_targets = 1,
		.n_target_threads = 1,
	};
	runner.board->seats[0].role = ROLE_SOURCE;
	runner.board->seats[1].role = ROLE_TARGET;
}

static void tear_down(void)
{
	board_detach(runner.board);
	close(runner.fd);
}

TestSuite(runner, .init = set_up, .fini = tear_down);

static void set_times(uint32_t number, uint64_t begin_ns, uint64_t end_ns)
{
	struct seat *seat = &runner.board->seats[number];

	seat->active = 1;
	seat->begin_ns = begin_ns;
	seat->end_ns = end_ns;
}

static uint64_t round_ns(enum job_kind job)
{
	runner.board->plan.job = job;
	atomic_store(&runner.board->done, runner.board->n_seats);
	cr_assert(runner_finish(&runner, &tally));
	return tally.end_ns - tally.begin_ns;
}

Test(runner, a_flow_lasts_from_its_source_to_its_target)
{
	set_times(0, 200, 500);
	set_times(1, 100, 600);
	cr_assert_eq(round_ns(JOB_FLOW), 400);
}

/* The source has nothing to do, and may be late, even after the end. */
Test(runner, a_fold_lasts_as_long_as_its_target_works)
{
	set_times(0, 700, 701);
	set_times(1, 100, 600);
	cr_assert_eq(round_ns(JOB_FOLD), 500);
	set_times(0, 50, 51);
	cr_assert_eq(round_ns(JOB_FOLD), 500);
}
