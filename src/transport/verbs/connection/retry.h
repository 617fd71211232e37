/* SPDX-License-Identifier: Apache-2.0 */
/* How long a queue pair repeats what is not answered, in its own units. */
#ifndef DFI_TRANSPORT_VERBS_CONNECTION_RETRY_H
#define DFI_TRANSPORT_VERBS_CONNECTION_RETRY_H

#include <stdint.h>

/*
 * 7 would be the maximum, but then soft-RoCE retries for ever (the kernel's
 * rxe_comp.c, COMPST_ERROR_RETRY).
 */
#define VERBS_RETRIES 6

/*
 * The time of one retry, as the power of two of 4.096 us that it is: the
 * smallest with which all take retry_ms (at most an hour). The default, 3000,
 * makes 17: 6 retries of 537 ms, so that a link may be gone for three seconds.
 * Linux alone takes up to one to use a link that is up again
 * (net/core/link_watch.c).
 */
static inline uint8_t verbs_ack_timeout(uint32_t retry_ms)
{
	uint64_t each_ns = (uint64_t)retry_ms * 1000000 / VERBS_RETRIES;
	uint8_t timeout = 1; /* 0 is for ever */

	while (UINT64_C(4096) << timeout < each_ns)
		timeout++;
	return timeout;
}

#endif
