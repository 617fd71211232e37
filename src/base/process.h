/* SPDX-License-Identifier: Apache-2.0 */
/* What the system says about other processes. */
#ifndef DFI_BASE_PROCESS_H
#define DFI_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether a process of this host is stopped, by a signal or a debugger. false
 * also where /proc doesn't tell. In another PID namespace the number may mean
 * another process: it is for texts only.
 */
bool dfi__process_is_stopped(uint32_t pid);

/*
 * When a process was started, in some ticks after the host: with it, a number
 * that was used again is told from the process that had it before. 0: /proc
 * doesn't tell; if it can't be read, errno says why.
 */
uint64_t dfi__process_start(uint32_t pid);

/*
 * Where the number of this process and its start mean the same: equal for two
 * processes of a host in the same PID and time namespaces. 0: /proc doesn't
 * tell, or is of another PID namespace.
 */
uint64_t dfi__process_space(void);

#endif
