/* SPDX-License-Identifier: Apache-2.0 */
/* What the system says about other processes. */
#ifndef DFI_BASE_PROCESS_H
#define DFI_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether a process of this host is stopped, by a signal or a debugger. false
 * if /proc does not tell. In another PID namespace the number may mean another
 * process, so use it for texts only.
 */
bool dfi__process_is_stopped(uint32_t pid);

/*
 * When a process started, in ticks since the host's start. The time tells apart
 * processes that had the same number one after another. 0: /proc does not tell;
 * if it can't be read, errno says why.
 */
uint64_t dfi__process_start(uint32_t pid);

/*
 * Identifies the PID and time namespaces of this process. If it is equal for
 * two processes of a host, process numbers and start times mean the same in
 * both. 0: /proc does not tell, or belongs to another PID namespace.
 */
uint64_t dfi__process_space(void);

#endif
