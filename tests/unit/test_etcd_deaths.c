/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time in which others learn from an etcd that a process has died, as
 * docs/registry.md has it: the lease, and after an election the lease and the
 * election.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/error.h>

#include "etcd_help.h"
#include "registry_help.h"

enum {
	TTL_MS = 3000,
	/* etcd's election timeout is 1 s; a wait is up to twice as long. */
	ELECTION_MS = 2000,
	/* etcd looks for leases that have ended twice a second. */
	LOOK_MS = 500,
	/* How late this machine may be. */
	SLACK_MS = 5000,
};

static struct etcd etcd;

/* Its own process, forked before this one has threads. Writes a byte. */
static void live(int fd)
{
	struct registry_client *client;
	struct loop *loop;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dfi__loop_start("test-loop", &loop) ||
	    dfi__client_open(
		loop, etcd.address, NULL, TTL_MS, soon(), &client) ||
	    dfi__client_put(client, "a", "1", 1, CLIENT_LEASED, soon(), NULL) ||
	    write(fd, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static pid_t start_process(void)
{
	int ends[2];
	pid_t pid;
	char byte;

	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0)
		live(ends[1]);
	close(ends[1]);
	cr_assert_eq(read(ends[0], &byte, 1), 1, "the process has failed");
	close(ends[0]);
	return pid;
}

static bool leads(unsigned i)
{
	char command[256], line[256] = "";
	FILE *out;

	snprintf(command, sizeof(command),
	    "ETCDCTL_API=3 etcdctl --endpoints=127.0.0.1:%u endpoint status",
	    etcd.member[i].client_port);
	out = popen(command, "r");
	cr_assert(out && fgets(line, sizeof(line), out), "%s", command);
	pclose(out);
	/* ENDPOINT, ID, VERSION, SIZE, whether it leads, ... */
	return strstr(line, ", true, ") != NULL;
}

static unsigned leader(void)
{
	unsigned i = 0;

	while (i < etcd.n && !leads(i))
		i++;
	cr_assert_lt(i, etcd.n, "no member leads");
	return i;
}

/* Returns how long it took until others knew that the process is dead. */
static int64_t die(pid_t pid, bool with_leader)
{
	struct registry_client *client = NULL;
	struct registry_watch *watch;
	struct loop *loop = start_loop();
	unsigned first = leader();
	struct ear ear;
	int64_t began;

	ear_init(&ear);
	cr_assert_eq(
	    dfi__client_open(loop, etcd.address, NULL, 60000, soon(), &client),
	    0, "%s", dfi_errmsg());
	cr_assert_eq(
	    dfi__client_watch(client, "a", ear_hear, &ear, soon(), &watch), 0);
	ear_expect(&ear, "+a=1 ");
	/* Its lease was renewed by now, not only granted. */
	usleep(TTL_MS * 1000);
	began = clock_now_ns();
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	if (with_leader)
		etcd_kill(&etcd, first);
	ear_expect(&ear, "+a=1 -a ");
	began = clock_now_ns() - began;
	dfi__client_close(client);
	stop_loop(loop);
	return began / NS_PER_MS;
}

Test(etcd_deaths, are_noticed_within_the_lease)
{
	int64_t took;

	etcd_start(&etcd, 3);
	took = die(start_process(), false);
	printf("told after %d ms\n", (int)took);
	/* By the lease, not by a connection. */
	cr_assert_geq(took, TTL_MS / 2);
	cr_assert_leq(took, TTL_MS + LOOK_MS + SLACK_MS);
	etcd_stop(&etcd);
}

Test(etcd_deaths, after_an_election_are_noticed_within_both)
{
	int64_t took;

	etcd_start(&etcd, 3);
	took = die(start_process(), true);
	printf("told after %d ms\n", (int)took);
	cr_assert_geq(took, TTL_MS / 2);
	/* The new leader starts leases anew, with an election timeout more. */
	cr_assert_leq(
	    took, TTL_MS + ELECTION_MS + ELECTION_MS / 2 + LOOK_MS + SLACK_MS);
	etcd_stop(&etcd);
}
