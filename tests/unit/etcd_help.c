/* SPDX-License-Identifier: Apache-2.0 */
/* See etcd_help.h. */
#include "etcd_help.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define START_MS 60000
#define ARGUMENTS 32

extern char **environ;

void etcd_need(void)
{
	if (system("command -v etcd etcdctl setpriv > /dev/null"))
		cr_skip_test("etcd-server or etcd-client is not installed");
}

static uint16_t free_port(void)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&at, size), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	close(fd);
	return ntohs(at.sin_port);
}

static pid_t spawn(char **arguments, const char *log)
{
	posix_spawn_file_actions_t files;
	pid_t pid;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(
	    &files, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	posix_spawn_file_actions_adddup2(&files, 1, 2);
	cr_assert_eq(
	    posix_spawnp(&pid, arguments[0], &files, NULL, arguments, environ),
	    0);
	posix_spawn_file_actions_destroy(&files);
	return pid;
}

static void add(char **arguments, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add(char **arguments, const char *fmt, ...)
{
	va_list ap;
	size_t n = 0;

	while (arguments[n])
		n++;
	cr_assert_lt(n, ARGUMENTS - 1);
	va_start(ap, fmt);
	cr_assert_geq(vasprintf(&arguments[n], fmt, ap), 0);
	va_end(ap);
}

static void free_all(char **arguments)
{
	for (; *arguments; arguments++)
		free(*arguments);
}

/*
 * Nothing is lost if only processes end, so the disk need not be waited for:
 * the directory is in memory where it can be.
 */
static void spawn_member(struct etcd *etcd, unsigned i)
{
	const char *scheme = etcd->cert ? "https" : "http";
	struct etcd_member *member = &etcd->member[i];
	char *arguments[ARGUMENTS] = { NULL }, peers[256] = "", log[64];
	size_t used = 0;
	unsigned k;

	for (k = 0; k < etcd->n; k++)
		used += (size_t)snprintf(peers + used, sizeof(peers) - used,
		    "%sm%u=http://127.0.0.1:%u", k ? "," : "", k,
		    etcd->member[k].peer_port);
	add(arguments, "setpriv");
	add(arguments, "--pdeathsig=KILL");
	add(arguments, "etcd");
	add(arguments, "--name=m%u", i);
	add(arguments, "--data-dir=%s/m%u", etcd->directory, i);
	add(arguments, "--listen-client-urls=%s://127.0.0.1:%u", scheme,
	    member->client_port);
	add(arguments, "--advertise-client-urls=%s://127.0.0.1:%u", scheme,
	    member->client_port);
	add(arguments, "--listen-peer-urls=http://127.0.0.1:%u",
	    member->peer_port);
	add(arguments, "--initial-advertise-peer-urls=http://127.0.0.1:%u",
	    member->peer_port);
	add(arguments, "--initial-cluster=%s", peers);
	add(arguments, "--initial-cluster-token=%s", etcd->directory);
	if (etcd->cert) {
		add(arguments, "--cert-file=%s", etcd->cert);
		add(arguments, "--key-file=%s", etcd->key);
	}
	snprintf(log, sizeof(log), "%s/log%u", etcd->directory, i);
	member->pid = spawn(arguments, log);
	free_all(arguments);
}

int etcd_control(const struct etcd *etcd, const char *user, ...)
{
	const char *scheme = etcd->cert ? "https" : "http", *argument;
	char *arguments[ARGUMENTS] = { NULL };
	char log[64];
	va_list ap;
	int status;
	pid_t pid;

	add(arguments, "etcdctl");
	add(arguments, "--endpoints=%s://127.0.0.1:%u", scheme,
	    etcd->member[0].client_port);
	add(arguments, "--dial-timeout=5s");
	if (etcd->ca)
		add(arguments, "--cacert=%s", etcd->ca);
	if (user)
		add(arguments, "--user=%s", user);
	va_start(ap, user);
	while ((argument = va_arg(ap, const char *)))
		add(arguments, "%s", argument);
	va_end(ap);
	setenv("ETCDCTL_API", "3", 1);
	snprintf(log, sizeof(log), "%s/control", etcd->directory);
	pid = spawn(arguments, log);
	free_all(arguments);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* A read that needs a leader. */
static void await_leader(const struct etcd *etcd)
{
	int64_t deadline = deadline_in_ms(START_MS);

	while (etcd_control(etcd, NULL, "get", "none", (char *)NULL)) {
		cr_assert_lt(clock_now_ns(), deadline,
		    "etcd has no leader: see %s", etcd->directory);
		usleep(20000);
	}
}

void etcd_start_tls(struct etcd *etcd, unsigned n, const char *cert,
    const char *key, const char *ca)
{
	size_t used;
	unsigned i;

	etcd_need();
	memset(etcd, 0, sizeof(*etcd));
	etcd->n = n;
	etcd->cert = cert;
	etcd->key = key;
	etcd->ca = ca;
	strcpy(etcd->directory,
	    access("/dev/shm", W_OK) ? "/tmp/dfi-etcd-XXXXXX"
				     : "/dev/shm/dfi-etcd-XXXXXX");
	cr_assert_not_null(mkdtemp(etcd->directory));
	used = (size_t)snprintf(etcd->address, sizeof(etcd->address),
	    "etcd:http%s://", cert ? "s" : "");
	for (i = 0; i < n; i++) {
		etcd->member[i].client_port = free_port();
		etcd->member[i].peer_port = free_port();
		used += (size_t)snprintf(etcd->address + used,
		    sizeof(etcd->address) - used, "%s127.0.0.1:%u",
		    i ? "," : "", etcd->member[i].client_port);
	}
	for (i = 0; i < n; i++)
		spawn_member(etcd, i);
	await_leader(etcd);
}

void etcd_start(struct etcd *etcd, unsigned n)
{
	etcd_start_tls(etcd, n, NULL, NULL, NULL);
}

void etcd_signal(struct etcd *etcd, unsigned i, int number)
{
	pid_t pid = etcd->member[i].pid;
	int status;

	cr_assert_eq(kill(pid, number), 0);
	/* Its threads stop one by one; until then it may answer. */
	if (number == SIGSTOP)
		cr_assert(waitpid(pid, &status, WUNTRACED) == pid &&
		    WIFSTOPPED(status));
}

void etcd_kill(struct etcd *etcd, unsigned i)
{
	struct etcd_member *member = &etcd->member[i];

	if (!member->pid)
		return;
	cr_assert_eq(kill(member->pid, SIGKILL), 0);
	cr_assert_eq(waitpid(member->pid, NULL, 0), member->pid);
	member->pid = 0;
}

void etcd_restart(struct etcd *etcd, unsigned i)
{
	etcd_kill(etcd, i);
	spawn_member(etcd, i);
}

void etcd_stop(struct etcd *etcd)
{
	char command[64];
	unsigned i;

	for (i = 0; i < etcd->n; i++)
		etcd_kill(etcd, i);
	snprintf(command, sizeof(command), "rm -r %s", etcd->directory);
	cr_assert_eq(system(command), 0);
}
