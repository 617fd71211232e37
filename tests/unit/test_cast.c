/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicasts over a network that loses, repeats, reorders and delays datagrams:
 * the tests of replicate flows (flow/test_replicate.c), which are linked here,
 * and what only such a network shows.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../flow/flow_help.h"
#include "fake_network.h"

/* Before each process of Criterion's; what is set by hand stays. */
__attribute__((constructor)) static void set_faults(void)
{
	setenv("DFI_TRANSPORT", "verbs", 1);
	setenv("DFI_TEST_FAULTS",
	    "drop=0.02,duplicate=0.02,reorder=0.05,delay=0.02,delay_us=500", 0);
}
