/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chaos in open flows between machines that share memory (testbed --board): it
 * has the board, so what a process has noted survives its machine. Machine 0
 * has the registry and the judge (open_chaos --machines); each other one has an
 * agent, which starts and ends the processes of a run there. A host strikes
 * machines for the judge: it cuts them off, or powers them off.
 */
#ifndef DFI_TESTS_CHAOS_OPEN_MACHINES_H
#define DFI_TESTS_CHAOS_OPEN_MACHINES_H

#include <stdbool.h>
#include <stdint.h>

#include "open_plan.h"

/* Of a run that is about to begin: all zero. */
struct open_board *machines_open_board(void);

/* Whether the agent of a process's machine is there. */
bool machines_are_up(uint32_t n_machines, uint32_t process);

/* The arguments of a worker, but for the program and the board. */
struct machine_worker {
	uint64_t seed;
	uint32_t volume, machines;
	char registry[64], cell[OPEN_CELL_NAME];
};

void machines_start(uint32_t process, const struct machine_worker *worker);
/* When it returns, the process has the signal. 0: show its threads. */
void machines_signal(uint32_t n_machines, uint32_t process, int signal);
/* Whether a process that was started has ended. */
bool machines_ended(uint32_t process, int *status);

/* Ask the host to do it. for_ms: of a blink. */
void machines_strike(
    enum open_fault_kind kind, bool undo, uint32_t machine, uint32_t for_ms);
/* Whether all that was asked for is done; *took_ms: how long it took. */
bool machines_struck(uint32_t *took_ms);
/* A machine is off: none of its processes is there. */
void machines_note_off(uint32_t machine);

/* main() of an agent, and beside the machines: open_chaos host TESTBED. */
int machines_agent(void);
int machines_host(const char *testbed);

#endif
