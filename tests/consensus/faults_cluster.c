/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas and a registry as processes, and the check that replicas agree. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../examples/consensus/client.h"
#include "faults.h"

#define MAX_WORDS 24

static pid_t start(const struct setting *setting, char *const *words)
{
	char path[512];
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!setting->verbose) {
		int fd = open("/dev/null", O_WRONLY);

		dup2(fd, STDERR_FILENO);
		dup2(fd, STDOUT_FILENO);
	}
	snprintf(path, sizeof(path), "%s/%s", setting->bin, words[0]);
	execv(path, words);
	_exit(127);
}

/* The registry prints its address when it answers. */
bool registry_start(const struct setting *setting, pid_t *registry)
{
	char path[512], line[128];
	int ends[2];
	bool there;

	if (pipe(ends) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/dfi-registry", setting->bin);
	*registry = fork();
	if (!*registry) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl(path, path, "--print-address", "--listen",
		    setting->registry, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	there = *registry > 0 && read(ends[0], line, sizeof(line)) > 0;
	close(ends[0]);
	return there;
}

void process_end(pid_t *pid)
{
	if (*pid <= 0)
		return;
	kill(*pid, SIGKILL);
	waitpid(*pid, NULL, 0);
	*pid = 0;
}

static void log_folder(
    const struct cluster *cluster, unsigned number, char *path, size_t size)
{
	snprintf(path, size, "%s/%s-%u", cluster->setting->where, cluster->name,
	    number);
}

bool replica_start(struct cluster *cluster, unsigned number, bool first)
{
	const struct plan *plan = cluster->plan;
	char texts[MAX_WORDS][320], *words[MAX_WORDS];
	unsigned n = 0, i;

#define WORD(...) snprintf(texts[n++], sizeof(texts[0]), __VA_ARGS__)
	WORD("dfi-kv");
	WORD("--id=%u", number);
	WORD("--replicas=%u", plan->n_replicas);
	WORD("--cluster=%s", cluster->name);
	WORD("--registry=%s", cluster->setting->registry);
	if (cluster->setting->election_ms)
		WORD("--election=%u", cluster->setting->election_ms);
	if (!cluster->setting->verbose)
		WORD("--quiet");
	if (first)
		WORD("--bootstrap");
	if (plan->nopaxos)
		WORD("--protocol=nopaxos");
	if (plan->flows)
		WORD("--wiring=flows");
	if (plan->drop)
		WORD("--drop=2000");
	if (plan->log) {
		strcpy(texts[n], "--log=");
		log_folder(cluster, number, texts[n] + 6, sizeof(texts[0]) - 6);
		n++;
	}
#undef WORD
	for (i = 0; i < n; i++)
		words[i] = texts[i];
	words[n] = NULL;
	cluster->replicas[number] = start(cluster->setting, words);
	return cluster->replicas[number] > 0;
}

static int remove_one(
    const char *path, const struct stat *status, int type, struct FTW *where)
{
	(void)status;
	(void)type;
	(void)where;
	return remove(path);
}

void replica_forget(struct cluster *cluster, unsigned number)
{
	char path[320];

	log_folder(cluster, number, path, sizeof(path));
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void cluster_end(struct cluster *cluster)
{
	unsigned i;

	for (i = 0; i < cluster->plan->n_replicas; i++) {
		if (cluster->replicas[i] > 0)
			kill(cluster->replicas[i], SIGCONT);
		process_end(&cluster->replicas[i]);
		if (cluster->plan->log)
			replica_forget(cluster, i);
	}
}

static bool find_number(const char *text, const char *name, uint64_t *value)
{
	const char *at = strstr(text, name);

	return at && sscanf(at + strlen(name), "%" SCNu64, value) == 1;
}

struct holds {
	uint64_t applied, digest, keys;
	bool member;
};

static bool ask(struct kv_client *client, unsigned number, struct holds *holds)
{
	char text[4096];

	if (kv_client_status(client, number, 1000000000, text, sizeof(text)) <
	    0)
		return false;
	holds->member = !strstr(text, "\nrole joining");
	return find_number(text, "\napplied ", &holds->applied) &&
	    find_number(text, "\ndigest ", &holds->digest) &&
	    find_number(text, "\nkeys ", &holds->keys);
}

/* The condition that replicas are asked for until it holds. */
struct question {
	bool (*is_so)(struct kv_client *client, struct question *question);
	unsigned n; /* replicas */
	struct holds holds[FAULTS_MAX_REPLICAS];
	unsigned n_followers; /* of cluster_uses_flows() */
};

static bool leads_by_flows(
    struct kv_client *client, unsigned number, unsigned n_followers)
{
	static const char *const carried[] = { "\nflow_accepts ",
		"\nflow_votes " };
	char text[4096];
	uint64_t value;
	size_t i;

	if (kv_client_status(client, number, 200000000, text, sizeof(text)) <
		0 ||
	    !strstr(text, "\nrole leader\n") ||
	    !find_number(text, "\nflow_followers ", &value) ||
	    value < n_followers)
		return false;
	for (i = 0; i < sizeof(carried) / sizeof(*carried); i++)
		if (!find_number(text, carried[i], &value) || !value)
			return false;
	return true;
}

static bool one_leads_by_flows(
    struct kv_client *client, struct question *question)
{
	unsigned i;

	for (i = 0; i < question->n; i++)
		if (leads_by_flows(client, i, question->n_followers))
			return true;
	return false;
}

static bool all_are_members(struct kv_client *client, struct question *question)
{
	struct holds *holds = question->holds;
	unsigned i;

	for (i = 0; i < question->n; i++)
		if (!ask(client, i, &holds[i]) || !holds[i].member)
			return false;
	return true;
}

static bool all_hold_the_same(
    struct kv_client *client, struct question *question)
{
	struct holds *holds = question->holds;
	unsigned i;

	if (!all_are_members(client, question))
		return false;
	for (i = 1; i < question->n; i++)
		if (holds[i].applied != holds[0].applied ||
		    holds[i].digest != holds[0].digest)
			return false;
	return true;
}

static int ask_until(const struct cluster *cluster, struct question *question,
    unsigned timeout_ms)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	struct kv_client_options options = {
		.registry = cluster->setting->registry,
		.cluster = cluster->name,
		.n_replicas = cluster->plan->n_replicas,
		.open_timeout_ns = timeout_ms * UINT64_C(1000000),
		.observe = true,
	};
	uint64_t until = faults_now() + timeout_ms * UINT64_C(1000000);
	struct holds *holds = question->holds;
	struct kv_client *client;
	unsigned i;

	question->n = options.n_replicas;
	if (kv_client_open(&options, &client) < 0) {
		fprintf(stderr, "%s\n", kv_client_error());
		return 1;
	}
	while (faults_now() < until) {
		if (question->is_so(client, question))
			return 0;
		nanosleep(&pause, NULL);
	}
	for (i = 0; i < question->n; i++)
		if (ask(client, i, &holds[i]))
			fprintf(stderr,
			    "replica %u: %s, applied %" PRIu64
			    ", digest %" PRIx64 ", keys %" PRIu64 "\n",
			    i, holds[i].member ? "member" : "joining",
			    holds[i].applied, holds[i].digest, holds[i].keys);
		else
			fprintf(stderr, "replica %u: silent\n", i);
	return 1;
}

/* In its own process, as this one has no context of DFI. */
static bool comes_to_be(
    struct cluster *cluster, struct question *question, unsigned timeout_ms)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(ask_until(cluster, question, timeout_ms));
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid &&
	    WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool cluster_agrees(struct cluster *cluster, unsigned timeout_ms)
{
	struct question question = { .is_so = all_hold_the_same };

	return comes_to_be(cluster, &question, timeout_ms);
}

bool cluster_is_whole(struct cluster *cluster, unsigned timeout_ms)
{
	struct question question = { .is_so = all_are_members };

	return comes_to_be(cluster, &question, timeout_ms);
}

bool cluster_uses_flows(
    struct cluster *cluster, unsigned n_followers, unsigned timeout_ms)
{
	struct question question = {
		.is_so = one_leads_by_flows,
		.n_followers = n_followers,
	};

	return comes_to_be(cluster, &question, timeout_ms);
}
