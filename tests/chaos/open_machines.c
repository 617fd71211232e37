/* SPDX-License-Identifier: Apache-2.0 */
/* Chaos in open flows between machines; see open_machines.h. */
#include "open_machines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runner.h"

#define MAX_MACHINES 5
#define NS_PER_MS 1000000

enum command {
	COMMAND_NONE, /* it is done */
	COMMAND_START,
	COMMAND_SIGNAL,
	COMMAND_STRIKE,
};

/* Who has a command sets it back. */
struct slot {
	_Atomic uint32_t command;
	_Atomic uint32_t running;
	int32_t status, signal;
	struct machine_worker worker;
};

struct strike_slot {
	_Atomic uint32_t command;
	uint32_t kind, machine, for_ms, took_ms;
	bool undo;
};

/* What the machines share. */
struct shared {
	struct open_board board; /* workers map it alone */
	struct slot slots[OPEN_PROCESSES];
	struct strike_slot strike;
	_Atomic uint32_t up[MAX_MACHINES];
};

static struct shared *shared;
static int shared_fd;

static void open_shared(void)
{
	const char *path = getenv("SHARED_MEMORY");

	shared_fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (shared_fd < 0)
		runner_die("SHARED_MEMORY");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED,
	    shared_fd, 0);
	if (shared == MAP_FAILED)
		runner_die("SHARED_MEMORY");
}

struct open_board *machines_open_board(void)
{
	if (!shared)
		open_shared();
	memset(&shared->board, 0, sizeof(shared->board));
	return &shared->board;
}

bool machines_are_up(uint32_t n_machines, uint32_t process)
{
	return atomic_load(&shared->up[open_machine_of(n_machines, process)]);
}

/* As far as its machine is there. */
static void await_command(uint32_t n_machines, uint32_t process)
{
	struct slot *slot = &shared->slots[process];

	while (atomic_load(&slot->command) != COMMAND_NONE &&
	    machines_are_up(n_machines, process))
		runner_pace();
}

void machines_start(uint32_t process, const struct machine_worker *worker)
{
	struct slot *slot = &shared->slots[process];

	slot->worker = *worker;
	atomic_store(&slot->running, 1);
	atomic_store(&slot->command, COMMAND_START);
}

void machines_signal(uint32_t n_machines, uint32_t process, int signal)
{
	struct slot *slot = &shared->slots[process];

	await_command(n_machines, process);
	slot->signal = signal;
	atomic_store(&slot->command, COMMAND_SIGNAL);
	await_command(n_machines, process);
}

bool machines_ended(uint32_t process, int *status)
{
	struct slot *slot = &shared->slots[process];

	if (atomic_load(&slot->running))
		return false;
	*status = slot->status;
	return true;
}

void machines_strike(
    enum open_fault_kind kind, bool undo, uint32_t machine, uint32_t for_ms)
{
	struct strike_slot *strike = &shared->strike;

	strike->kind = kind;
	strike->undo = undo;
	strike->machine = machine;
	strike->for_ms = for_ms;
	atomic_store(&strike->command, COMMAND_STRIKE);
}

bool machines_struck(uint32_t *took_ms)
{
	if (atomic_load(&shared->strike.command) != COMMAND_NONE)
		return false;
	*took_ms = shared->strike.took_ms;
	return true;
}

void machines_note_off(uint32_t machine)
{
	atomic_store(&shared->up[machine], 0);
}

/* ---- An agent ------------------------------------------------------------ */

static pid_t start_worker(uint32_t process, const struct machine_worker *worker)
{
	char seed[24], volume[12], number[12], machines[12];
	const char *const argv[] = { "/proc/self/exe", "worker",
		RUNNER_BOARD_FD, seed, volume, number, worker->registry,
		worker->cell, machines, NULL };

	snprintf(seed, sizeof(seed), "%" PRIu64, worker->seed);
	snprintf(volume, sizeof(volume), "%u", worker->volume);
	snprintf(number, sizeof(number), "%u", process);
	snprintf(machines, sizeof(machines), "%u", worker->machines);
	return runner_spawn(argv, shared_fd, -1, -1);
}

static void signal_worker(pid_t pid, int signal)
{
	if (!pid)
		return;
	if (signal)
		kill(pid, signal);
	else
		runner_show_threads(pid);
}

static void serve(uint32_t process, pid_t *pid)
{
	struct slot *slot = &shared->slots[process];
	uint32_t command = atomic_load(&slot->command);
	int status;

	if (command == COMMAND_START)
		*pid = start_worker(process, &slot->worker);
	else if (command == COMMAND_SIGNAL)
		signal_worker(*pid, slot->signal);
	if (command != COMMAND_NONE)
		atomic_store(&slot->command, COMMAND_NONE);
	if (*pid && waitpid(*pid, &status, WNOHANG) == *pid) {
		*pid = 0;
		slot->status = status;
		atomic_store(&slot->running, 0);
	}
}

int machines_agent(void)
{
	const char *node = getenv("NODE"), *nodes = getenv("NODES");
	uint32_t machine = node ? (uint32_t)atoi(node) : 0, p;
	uint32_t n_machines = nodes ? (uint32_t)atoi(nodes) : 0;
	pid_t pids[OPEN_PROCESSES] = { 0 };

	if (!machine || machine >= n_machines || n_machines > MAX_MACHINES)
		return EXIT_FAILURE;
	open_shared();
	/* What was asked of its predecessor has been in vain. */
	for (p = 0; p < OPEN_PROCESSES; p++)
		if (open_machine_of(n_machines, p) == machine)
			atomic_store(&shared->slots[p].command, COMMAND_NONE);
	atomic_store(&shared->up[machine], 1);
	for (;;) {
		for (p = 0; p < OPEN_PROCESSES; p++)
			if (open_machine_of(n_machines, p) == machine)
				serve(p, &pids[p]);
		runner_pace();
	}
}

/* ---- The host ------------------------------------------------------------ */

static void run(
    const char *testbed, const char *words, uint32_t machine, const char *rest)
{
	char command[512];

	snprintf(command, sizeof(command), "%s %s %u%s", testbed, words,
	    machine, rest);
	if (system(command))
		fprintf(stderr, "open_chaos: '%s' failed\n", command);
}

static void start_agent(const char *testbed, uint32_t machine)
{
	char rest[256], self[200];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		runner_die("readlink");
	self[n] = '\0';
	snprintf(rest, sizeof(rest), " -- %s agent &", self);
	run(testbed, "run", machine, rest);
	while (!atomic_load(&shared->up[machine]))
		runner_pace();
}

static void strike(const char *testbed, const struct strike_slot *slot)
{
	uint32_t machine = slot->machine;
	struct timespec time = {
		.tv_sec = slot->for_ms / 1000,
		.tv_nsec = (long)(slot->for_ms % 1000) * NS_PER_MS,
	};

	if (slot->kind == OPEN_OFF && slot->undo) {
		run(testbed, "boot", machine, "");
		start_agent(testbed, machine);
	} else if (slot->kind == OPEN_OFF) {
		run(testbed, "kill", machine, "");
	} else if (slot->kind == OPEN_CUT) {
		run(testbed, "net", machine, slot->undo ? " rejoin" : " cut");
	} else if (slot->kind == OPEN_BLINK) {
		run(testbed, "net", machine, " cut");
		nanosleep(&time, NULL);
		run(testbed, "net", machine, " rejoin");
	}
}

int machines_host(const char *testbed)
{
	const char *nodes = getenv("NODES");
	uint32_t n_machines = nodes ? (uint32_t)atoi(nodes) : 0, i;
	int64_t begun;

	if (n_machines < 2 || n_machines > MAX_MACHINES)
		return EXIT_FAILURE;
	open_shared();
	for (i = 1; i < n_machines; i++)
		start_agent(testbed, i);
	printf("agents are there\n");
	fflush(stdout);
	for (;;) {
		runner_pace();
		if (atomic_load(&shared->strike.command) == COMMAND_NONE)
			continue;
		begun = runner_now_ns();
		strike(testbed, &shared->strike);
		shared->strike.took_ms = (uint32_t)((runner_now_ns() - begun) /
		    NS_PER_MS);
		atomic_store(&shared->strike.command, COMMAND_NONE);
	}
}
