/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver of an idle flow, which waits in poll(). */
#ifndef DFI_BENCH_IDLE_RECEIVE_H
#define DFI_BENCH_IDLE_RECEIVE_H

#include "flow_job.h"

/*
 * Receive until the end of a thread's only target, which has DFI_NONBLOCK, by
 * the descriptor that plan->how selects. 0 or the library's error.
 */
int idle_receive(struct dfi *dfi, struct receiver *receiver);

#endif
