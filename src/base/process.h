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

#endif
