/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record CLUSTER N HISTORY NAME: runs clients on a new store of N running
 * replicas until there is a file NAME.stop. Then the file HISTORY has their
 * commands and answers, for check-history. The file NAME.counters repeatedly
 * gets the counters of all replicas, as dfi-kv-client status prints them, until
 * there is a file NAME.end. Meanwhile it prints
 *
 *	serves
 *	replica 1 leads
 *	mark 1: served after 812 ms
 *
 * where a mark is a file NAME.mark.1, then 2, and so on, which the caller
 * makes, and served is the first command begun after the mark was seen.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../examples/consensus/client.h"
#include "faults.h"

#define MS UINT64_C(1000000)
#define LOOK_MS 100
#define COUNT_MS 500
#define QUIET_NS (2000 * MS) /* a replica that does not tell its counters */
#define OPEN_MS 400000
/* They leave emulated machines idle now and then. */
#define N_CLIENTS 2
#define THINK_MS 250

struct recorder {
	const char *history, *name;
	struct setting setting;
	struct plan plan;
	struct cluster cluster;
	struct board *board;
	pid_t clients[N_CLIENTS], counter;
	unsigned mark;      /* the last one that was seen */
	uint64_t marked_at; /* 0: it was served */
	int leader;
	bool serves;
};

static void pause_ms(unsigned ms)
{
	struct timespec pause = { .tv_nsec = (long)ms * 1000000 };

	nanosleep(&pause, NULL);
}

static unsigned n_ok(const struct recorder *recorder)
{
	unsigned i, n = 0;

	for (i = 0; i < N_CLIENTS; i++)
		n += atomic_load(&recorder->board->clients[i].n_ok);
	return n;
}

static bool write_counters(
    const struct recorder *recorder, struct kv_client *client)
{
	char path[256], next[264], text[4096];
	FILE *file;
	unsigned i;

	snprintf(path, sizeof(path), "%s.counters", recorder->name);
	snprintf(next, sizeof(next), "%s.next", path);
	file = fopen(next, "w");
	if (!file)
		return false;
	for (i = 0; i < recorder->plan.n_replicas; i++)
		if (kv_client_status(client, i, QUIET_NS, text, sizeof(text)) <
		    0)
			fprintf(file, "replica %u\nrole silent\n\n", i);
		else
			fprintf(file, "%s\n", text);
	return fclose(file) == 0 && rename(next, path) == 0;
}

/* A process that only does this. */
static pid_t start_counter(const struct recorder *recorder)
{
	const struct kv_client_options options = {
		.registry = recorder->setting.registry,
		.cluster = recorder->cluster.name,
		.n_replicas = recorder->plan.n_replicas,
		.observe = true,
		.open_timeout_ns = OPEN_MS * MS,
	};
	struct kv_client *client;
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (kv_client_open(&options, &client) < 0) {
		fprintf(stderr, "record: %s\n", kv_client_error());
		_exit(3);
	}
	while (write_counters(recorder, client))
		pause_ms(COUNT_MS);
	perror("record: writing counters");
	_exit(3);
}

static bool is_there(const struct recorder *recorder, const char *what)
{
	char path[256];

	snprintf(path, sizeof(path), "%s.%s", recorder->name, what);
	return access(path, F_OK) == 0;
}

static void look_for_mark(struct recorder *recorder)
{
	char what[32];

	snprintf(what, sizeof(what), "mark.%u", recorder->mark + 1);
	if (!is_there(recorder, what))
		return;
	recorder->mark++;
	recorder->marked_at = faults_now();
}

static void look_for_service(struct recorder *recorder)
{
	unsigned i;

	for (i = 0; i < N_CLIENTS; i++)
		if (atomic_load(&recorder->board->clients[i].last_invoked) >
		    recorder->marked_at)
			break;
	if (i == N_CLIENTS)
		return;
	printf("mark %u: served after %" PRIu64 " ms\n", recorder->mark,
	    (faults_now() - recorder->marked_at) / MS);
	recorder->marked_at = 0;
}

static void look(struct recorder *recorder)
{
	int leader = atomic_load(&recorder->board->leader);

	if (!recorder->serves && n_ok(recorder)) {
		recorder->serves = true;
		printf("serves\n");
	}
	if (leader != recorder->leader && leader >= 0) {
		recorder->leader = leader;
		printf("replica %d leads\n", leader);
	}
	if (recorder->marked_at)
		look_for_service(recorder);
	else
		look_for_mark(recorder);
}

/* A client that ends by itself has failed, and said why. */
static bool processes_live(void)
{
	return waitpid(-1, NULL, WNOHANG) == 0;
}

static bool end_clients(struct recorder *recorder)
{
	bool good = true;
	unsigned i;
	int status;

	atomic_store(&recorder->board->stop, true);
	for (i = 0; i < N_CLIENTS; i++)
		if (waitpid(recorder->clients[i], &status, 0) < 0 || status)
			good = false;
	return good;
}

static bool write_history(struct recorder *recorder)
{
	struct lin_history history = { .n = 0 };
	size_t n_unknown = 0;
	bool good;

	good = history_gather(recorder->board, &history, &n_unknown) &&
	    history_save(&history, recorder->history);
	if (good)
		printf("%zu operations, of %zu of which the outcome is "
		       "unknown\n",
		    history.n, n_unknown);
	else
		fprintf(stderr, "record: %s: %s\n", recorder->history,
		    strerror(errno));
	lin_free(&history);
	return good;
}

static void open_recorder(struct recorder *recorder, char **argv)
{
	const char *registry = getenv("DFI_REGISTRY");

	recorder->history = argv[3];
	recorder->name = argv[4];
	recorder->leader = -1;
	recorder->setting.open_ms = OPEN_MS;
	recorder->setting.think_ms = THINK_MS;
	recorder->plan.n_replicas = (unsigned)strtoul(argv[2], NULL, 10);
	snprintf(recorder->setting.registry, sizeof(recorder->setting.registry),
	    "%s", registry ? registry : "");
	snprintf(recorder->cluster.name, sizeof(recorder->cluster.name), "%s",
	    argv[1]);
	recorder->cluster.setting = &recorder->setting;
	recorder->cluster.plan = &recorder->plan;
	recorder->board = mmap(NULL, sizeof(*recorder->board),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

int main(int argc, char **argv)
{
	struct recorder recorder = { .mark = 0 };
	bool good = true;
	unsigned i;

	if (argc != 5) {
		fprintf(
		    stderr, "usage: record CLUSTER REPLICAS HISTORY NAME\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_recorder(&recorder, argv);
	if (recorder.board == MAP_FAILED) {
		perror("record");
		return 2;
	}
	atomic_store(&recorder.board->leader, -1);
	recorder.counter = start_counter(&recorder);
	good = recorder.counter > 0;
	for (i = 0; i < N_CLIENTS; i++) {
		recorder.clients[i] = client_start(
		    &recorder.cluster, recorder.board, i);
		good = good && recorder.clients[i] > 0;
	}
	while (!is_there(&recorder, "stop") && good) {
		pause_ms(LOOK_MS);
		good = processes_live();
		look(&recorder);
	}
	good = end_clients(&recorder) && good;
	good = write_history(&recorder) && good;
	while (!is_there(&recorder, "end") && good) {
		pause_ms(LOOK_MS);
		good = processes_live();
	}
	kill(recorder.counter, SIGTERM);
	waitpid(recorder.counter, NULL, 0);
	return good ? 0 : 1;
}
