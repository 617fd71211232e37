/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a store on one machine: see run_cluster.h. */
#include "run_cluster.h"

#include <dfi/dfi.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../../common/complain.h"
#include "client.h"

#define READY_MS 30000
#define OBSERVE_MS 30000 /* the time limit of the store's first start */
#define STATUS_NS UINT64_C(200000000)
#define OPEN_NS UINT64_C(20000000000)
#define GRACE_MS 5000

struct run_page {
	_Atomic uint32_t registry; /* 1: its address is there */
	char address[RUN_MAX_ADDRESS];
	_Atomic uint32_t asked, answered; /* numbers of observations */
	struct run_observation observation;
};

static void sleep_briefly(void)
{
	static const struct timespec step = { .tv_nsec = 1000000 };

	nanosleep(&step, NULL);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Wait until a word of the page has a value. */
static int await_word(struct run_cluster *cluster, _Atomic uint32_t *word,
    uint32_t value, uint64_t limit_ms, const char *what)
{
	uint64_t limit = now_ms() + limit_ms;

	while (atomic_load_explicit(word, memory_order_acquire) != value) {
		if (run_cluster_check(cluster))
			return -1;
		if (now_ms() > limit)
			return complain("%s does not answer for %ju s", what,
			    (uintmax_t)limit_ms / 1000);
		sleep_briefly();
	}
	return 0;
}

/* ---- The registry ------------------------------------------------------- */

static int registry_main(void *arg)
{
	struct run_page *page = arg;
	struct dfi_registry *registry;
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (dfi_registry_start(NULL, &registry)) {
		complain("cannot start a registry: %s", dfi_errmsg());
		return EXIT_FAILURE;
	}
	snprintf(page->address, sizeof(page->address), "%s",
	    dfi_registry_address(registry));
	/* Pairs with await_word(): the address is there. */
	atomic_store_explicit(&page->registry, 1, memory_order_release);
	sigwait(&set, &number);
	dfi_registry_stop(registry);
	return EXIT_SUCCESS;
}

/* ---- Replicas ----------------------------------------------------------- */

static int replica_main(void *arg)
{
	struct run_cluster *cluster = arg;
	char id[12], replicas[12], memory[12], log[4096];
	const char *argv[20];
	int n = 0;

	snprintf(id, sizeof(id), "%u", cluster->next);
	snprintf(replicas, sizeof(replicas), "%u", cluster->options.replicas);
	argv[n++] = "dfi-kv";
	argv[n++] = "--id";
	argv[n++] = id;
	argv[n++] = "--replicas";
	argv[n++] = replicas;
	snprintf(memory, sizeof(memory), "%u", cluster->options.memory_mib);
	argv[n++] = "--memory";
	argv[n++] = memory;
	argv[n++] = "--registry";
	argv[n++] = cluster->page->address;
	argv[n++] = "--cluster";
	argv[n++] = RUN_CLUSTER;
	if (cluster->bootstrap)
		argv[n++] = "--bootstrap";
	if (strcmp(cluster->options.protocol, "paxos") != 0) {
		argv[n++] = "--protocol";
		argv[n++] = cluster->options.protocol;
	}
	if (cluster->options.flows) {
		argv[n++] = "--wiring";
		argv[n++] = "flows";
	}
	if (cluster->options.log) {
		snprintf(log, sizeof(log), "%s/%u", cluster->options.log,
		    cluster->next);
		argv[n++] = "--log";
		argv[n++] = log;
	}
	if (!cluster->options.verbose)
		argv[n++] = "--quiet";
	argv[n] = NULL;
	execv(cluster->program, (char *const *)argv);
	complain("cannot run %s: %s", cluster->program, strerror(errno));
	return EXIT_FAILURE;
}

/* The index in children of a process that was just forked. */
static int fork_child(struct run_cluster *cluster, const char *name,
    int (*run)(void *arg), void *arg, uint32_t *index)
{
	if (children_fork(&cluster->children, name, run, arg))
		return -1;
	*index = cluster->children.n - 1;
	return 0;
}

static int start_replica(struct run_cluster *cluster, uint32_t replica)
{
	char name[32];

	cluster->next = replica;
	snprintf(name, sizeof(name), "replica %u", replica);
	return fork_child(
	    cluster, name, replica_main, cluster, &cluster->replicas[replica]);
}

/* The program of replicas, beside this one. */
static int find_program(struct run_cluster *cluster)
{
	ssize_t n = readlink("/proc/self/exe", cluster->program,
	    sizeof(cluster->program) - sizeof("dfi-kv"));
	char *slash;

	if (n <= 0)
		return complain(
		    "cannot tell where this program is: %s", strerror(errno));
	cluster->program[n] = '\0';
	slash = strrchr(cluster->program, '/');
	strcpy(slash ? slash + 1 : cluster->program, "dfi-kv");
	if (access(cluster->program, X_OK))
		return complain(
		    "there is no %s: build the examples", cluster->program);
	return 0;
}

/* ---- The observer ------------------------------------------------------- */

static uint64_t value_of(const char *text, const char *name)
{
	size_t size = strlen(name);

	for (; text; text = strchr(text, '\n')) {
		if (*text == '\n')
			text++;
		if (strncmp(text, name, size) == 0 && text[size] == ' ')
			return strtoull(text + size + 1, NULL, 10);
	}
	return 0;
}

static void observe(
    struct kv_client *client, uint32_t n, struct run_observation *observation)
{
	char text[4096];
	uint32_t i;
	struct run_replica *replica;
	uint64_t best = 0;

	memset(observation, 0, sizeof(*observation));
	observation->leader = -1;
	for (i = 0; i < n; i++) {
		replica = &observation->replicas[i];
		if (kv_client_status(client, i, STATUS_NS, text, sizeof(text)))
			continue;
		replica->answers = true;
		replica->leads = strstr(text, "role leader\n") != NULL;
		replica->ballot = value_of(text, "ballot_round");
		replica->messages = value_of(text, "messages_sent");
		replica->segments = value_of(text, "segments_out");
		replica->chosen = value_of(text, "commit");
		replica->applied = value_of(text, "applied");
		replica->snapshots_loaded = value_of(text, "snapshots_loaded");
		replica->by_flows = value_of(text, "flow_accepts") +
		    value_of(text, "flow_accepts_spared");
		if (replica->leads && replica->ballot >= best) {
			best = replica->ballot;
			observation->leader = (int)i;
		}
	}
}

static void ignore_answer(void *arg, const struct kv_client_answer *answer)
{
	(void)arg;
	(void)answer;
}

static int observer_main(void *arg)
{
	struct run_cluster *cluster = arg;
	struct run_page *page = cluster->page;
	struct kv_client_options options = {
		.registry = page->address,
		.cluster = RUN_CLUSTER,
		.n_replicas = cluster->options.replicas,
		.lanes = 1,
		.open_timeout_ns = OPEN_NS,
		.done = ignore_answer,
	};
	struct kv_client *client;
	uint32_t asked = 0, next;

	if (kv_client_open(&options, &client)) {
		complain("the store does not come up: %s", kv_client_error());
		return EXIT_FAILURE;
	}
	for (;;) { /* until it is killed */
		next = atomic_load_explicit(&page->asked, memory_order_acquire);
		if (next == asked) {
			kv_client_poll(client);
			sleep_briefly();
			continue;
		}
		asked = next;
		observe(client, cluster->options.replicas, &page->observation);
		/* Pairs with await_word() in run_cluster_observe(). */
		atomic_store_explicit(
		    &page->answered, asked, memory_order_release);
	}
}

int run_cluster_observe(
    struct run_cluster *cluster, struct run_observation *observation)
{
	struct run_page *page = cluster->page;
	uint32_t number =
	    atomic_load_explicit(&page->asked, memory_order_relaxed) + 1;

	atomic_store_explicit(&page->asked, number, memory_order_release);
	if (await_word(cluster, &page->answered, number, OBSERVE_MS,
		"the process that asks replicas"))
		return -1;
	*observation = page->observation;
	return 0;
}

/* ---- All of them -------------------------------------------------------- */

static int start_all(struct run_cluster *cluster)
{
	struct run_observation observation;
	uint64_t limit = now_ms() + READY_MS;
	uint32_t i;

	if (fork_child(cluster, "registry", registry_main, cluster->page,
		&cluster->registry) ||
	    await_word(
		cluster, &cluster->page->registry, 1, READY_MS, "the registry"))
		return -1;
	snprintf(cluster->where, sizeof(cluster->where), "%s:%u@%s",
	    RUN_CLUSTER, cluster->options.replicas, cluster->page->address);
	cluster->bootstrap = true;
	for (i = 0; i < cluster->options.replicas; i++)
		if (start_replica(cluster, i))
			return -1;
	cluster->bootstrap = false;
	if (fork_child(cluster, "observer", observer_main, cluster,
		&cluster->observer))
		return -1;
	do {
		if (now_ms() > limit)
			return complain(
			    "no replica leads after %d s", READY_MS / 1000);
		if (run_cluster_observe(cluster, &observation))
			return -1;
	} while (observation.leader < 0);
	return 0;
}

int run_cluster_start(
    struct run_cluster *cluster, const struct run_options *options)
{
	*cluster = (struct run_cluster){
		.options = *options,
		.registry = RUN_NO_CHILD,
		.observer = RUN_NO_CHILD,
	};
	if (find_program(cluster))
		return -1;
	/* Other texts report the loss of a registry or a replica. */
	if (!options->verbose)
		setenv("DFI_LOG", "error", 0);
	if (options->log && mkdir(options->log, 0777) && errno != EEXIST)
		return complain("cannot make the folder %s: %s", options->log,
		    strerror(errno));
	cluster->page = mmap(NULL, sizeof(*cluster->page),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (cluster->page == MAP_FAILED) {
		cluster->page = NULL;
		return complain("no memory: %s", strerror(errno));
	}
	return start_all(cluster);
}

int run_cluster_check(struct run_cluster *cluster)
{
	if (children_check(&cluster->children))
		return -1;
	if (cluster->children.n_running + cluster->n_killed <
	    cluster->children.n)
		return complain("a process of the store has ended by itself");
	return 0;
}

void run_cluster_kill(struct run_cluster *cluster, uint32_t index)
{
	struct child *child = &cluster->children.list[index];

	if (child->pid == 0)
		return;
	kill(child->pid, SIGKILL);
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
	child->pid = 0;
	cluster->children.n_running--;
	cluster->n_killed++;
}

/* A child that has ended gets no command. */
static void signal_replica(
    struct run_cluster *cluster, uint32_t index, int number)
{
	if (index != RUN_NO_CHILD && cluster->children.list[index].pid)
		kill(cluster->children.list[index].pid, number);
}

void run_cluster_stop(struct run_cluster *cluster, uint32_t index)
{
	signal_replica(cluster, index, SIGSTOP);
}

void run_cluster_continue(struct run_cluster *cluster, uint32_t index)
{
	signal_replica(cluster, index, SIGCONT);
}

int run_cluster_restart(struct run_cluster *cluster, uint32_t replica)
{
	return start_replica(cluster, replica);
}

/* A stopped child ends when it continues. */
static void terminate(struct run_cluster *cluster, uint32_t index)
{
	signal_replica(cluster, index, SIGTERM);
	signal_replica(cluster, index, SIGCONT);
}

int run_cluster_end(struct run_cluster *cluster)
{
	uint64_t limit = now_ms() + GRACE_MS;
	uint32_t i;
	int ret;

	if (cluster->observer != RUN_NO_CHILD)
		run_cluster_kill(cluster, cluster->observer);
	/* End replicas before their registry. */
	for (i = 0; i < cluster->children.n; i++)
		if (i != cluster->registry)
			terminate(cluster, i);
	while (cluster->children.n_running > 1 && now_ms() < limit) {
		children_check(&cluster->children);
		sleep_briefly();
	}
	terminate(cluster, cluster->registry);
	ret = children_end(&cluster->children, GRACE_MS);
	if (cluster->page)
		munmap(cluster->page, sizeof(*cluster->page));
	cluster->page = NULL;
	return ret;
}
