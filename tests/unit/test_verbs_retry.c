/* SPDX-License-Identifier: Apache-2.0 */
/* The time for which queue pairs retry. */
#include <criterion/criterion.h>

#include "transport/verbs/connection/retry.h"

Test(verbs_retry, default_lets_a_link_be_gone_for_three_seconds)
{
	cr_assert_eq(verbs_ack_timeout(3000), 17);
}

Test(verbs_retry, takes_at_least_the_time_that_is_set_and_less_than_twice)
{
	uint64_t ns;
	uint32_t ms;

	for (ms = 1; ms <= 3600000; ms += 1 + ms / 50) {
		ns = VERBS_RETRIES * UINT64_C(4096) << verbs_ack_timeout(ms);
		cr_assert_geq(ns, ms * UINT64_C(1000000), "%u ms", ms);
		cr_assert_lt(ns, 2 * ms * UINT64_C(1000000), "%u ms", ms);
	}
	/* It has five bits. */
	cr_assert_leq(verbs_ack_timeout(3600000), 31);
}
