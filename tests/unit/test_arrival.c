/* SPDX-License-Identifier: Apache-2.0 */
/* A participant of a barrier at a registry that answers late, and then dies. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/registry.h>

#include "../flow/flow_help.h"
#include "base/clock.h"
#include "flows/context/context.h"
#include "flows/sync/barrier_participants.h"
#include "registry/client/client.h"

TestSuite(arrival, .timeout = 300);

/*
 * A process that is forked while a context has threads may inherit locked locks
 * of the sanitizer's allocator. So both servers are forked before it is opened.
 * One is stopped until its turn.
 */
static pid_t serve_at(const char *address, bool stopped)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry;
	pid_t pid = fork();
	int status;

	if (pid > 0 && stopped)
		cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (stopped)
		raise(SIGSTOP);
	attr.listen = address;
	if (dfi_registry_start(&attr, &registry))
		_exit(1);
	for (;;)
		pause();
}

static void send_signal(pid_t pid, int number)
{
	int status;

	cr_assert_eq(kill(pid, number), 0);
	if (number != SIGCONT)
		cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
}

struct opening {
	struct dfi_attr attr;
	struct dfi *dfi;
};

static bool is_open(void *arg)
{
	struct opening *opening = arg;

	return !dfi_open(&opening->attr, &opening->dfi);
}

struct entry {
	struct dfi *dfi;
	struct barrier_participant participant;
};

static bool is_there(void *arg)
{
	struct entry *entry = arg;
	struct registry_value value;
	char key[KEY_SIZE];
	int ret;

	dfi__participant_key(key, "b", 0);
	if (dfi__client_get(
		entry->dfi->registry, key, deadline_in_ms(LONG_MS), &value))
		return false;
	ret = dfi__participant_decode(
	    value.data, value.size, &entry->participant);
	dfi__registry_value_free(&value);
	return !ret;
}

/* Its call has stopped waiting for the answer; the next one gets it. */
Test(arrival, is_there_at_the_next_registry)
{
	struct opening opening = { .attr = DFI_ATTR_INIT };
	struct dfi_barrier *at[2];
	struct entry entry;
	char address[64];
	struct dfi *dfi;
	pid_t server, next;
	uint32_t i;

	snprintf(address, sizeof(address), "unix:@dfi-test-late-%d", getpid());
	opening.attr.registry = address;
	server = serve_at(address, false);
	next = serve_at(address, true);
	cr_assert(eventually(is_open, &opening), "%s", dfi_errmsg());
	dfi = opening.dfi;
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_barrier_open(dfi, "b", 2, i, &at[i]), 0);
	do {
		send_signal(server, SIGSTOP);
		assert_error(dfi_barrier_wait(at[0], 10), -ETIMEDOUT, "'b'");
		send_signal(server, SIGCONT);
		usleep(10000);
	} while (!strstr(dfi_errmsg(), "has not arrived"));
	send_signal(server, SIGKILL);
	send_signal(next, SIGCONT);
	cr_assert(eventually(is_open, &opening), "%s", dfi_errmsg());
	entry.dfi = opening.dfi;
	cr_assert(eventually(is_there, &entry), "%s", dfi_errmsg());
	cr_assert_eq(entry.participant.round, 1);
	cr_assert_eq(dfi_close(opening.dfi), 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_barrier_close(at[i]), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	send_signal(next, SIGKILL);
}
