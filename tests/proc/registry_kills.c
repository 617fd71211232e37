/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_kills BIN_DIR [--runs N] [--seed S]: a registry with a state
 * directory is killed at random moments, under load, and started again. After
 * each start it must have each flow whose creation was acknowledged, and none
 * whose removal was; the flows of processes that were killed meanwhile go
 * within the grace; and a flow that ran all the time notices nothing. Prints
 * what was done, and why it failed. Exit status: 0, 1, or 77 if there is no
 * registry.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dfi/dfi.h>

extern char **environ;

#define N_WORKERS 3
#define N_FLOWS 24 /* of each worker at once */
#define GRACE "2"
#define GRACE_MS 2000
/* Only a hang takes as long. */
#define HANG_MS 60000

static char directory[64], address[128], state[96], program[512];
static const char *self;
static pid_t registry;
static uint64_t seed = 1;

static _Noreturn void fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

static _Noreturn void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(
	    stderr, "registry_kills: seed %llu: ", (unsigned long long)seed);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	fprintf(stderr, "registry_kills: the state is left in %s\n", directory);
	if (registry)
		kill(registry, SIGKILL);
	_exit(EXIT_FAILURE);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void pause_us(uint64_t us)
{
	struct timespec ts = {
		.tv_sec = (time_t)(us / 1000000),
		.tv_nsec = (long)(us % 1000000 * 1000),
	};

	nanosleep(&ts, NULL);
}

static uint64_t draw(uint64_t *random, uint64_t below)
{
	uint64_t x = *random += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (x ^ x >> 31) % below;
}

/* ---- Processes ----------------------------------------------------------- */

/* Start a program whose first line of output is read into line. */
static pid_t start(char *const argv[], char *line, size_t size)
{
	posix_spawn_file_actions_t actions;
	int out[2], err;
	size_t used = 0;
	pid_t pid;

	if (pipe(out))
		fail("pipe: %s", strerror(errno));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, out[0]);
	err = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (err)
		fail("%s: %s", argv[0], strerror(err));
	close(out[1]);
	while (used + 1 < size && read(out[0], line + used, 1) == 1 &&
	    line[used] != '\n')
		used++;
	line[used] = '\0';
	/* Left open: a later line of the program must not end it. */
	if (!used)
		fail("%s does not start", argv[0]);
	close(out[0]);
	return pid;
}

static void start_registry(void)
{
	char *argv[] = { "/usr/bin/setpriv", "--pdeathsig", "KILL", program,
		"--print-address", "--listen", address, "--state", state,
		"--grace", GRACE, NULL };
	char line[128];

	registry = start(argv, line, sizeof(line));
	if (strcmp(line, address) != 0)
		fail("the registry listens at '%s'", line);
}

static void kill_process(pid_t pid)
{
	kill(pid, SIGKILL);
	if (waitpid(pid, NULL, 0) != pid)
		fail("waitpid: %s", strerror(errno));
}

static struct dfi *open_context(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi;

	attr.registry = address;
	if (dfi_open(&attr, &dfi))
		fail("dfi_open: %s", dfi_errmsg());
	return dfi;
}

struct tuple {
	uint64_t number;
};

static const struct dfi_field fields[] = { DFI_FIELD(struct tuple, number) };
static const struct dfi_schema schema = DFI_SCHEMA(struct tuple, fields);

static int create_flow(struct dfi *dfi, const char *name, uint32_t flags)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.n_sources = attr.n_targets = 1;
	attr.flags = flags;
	return dfi_flow_create(dfi, name, &attr);
}

/* A process that has a flow until it is killed. */
static int be_victim(const char *name)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (create_flow(open_context(), name, 0))
		fail("victim: %s", dfi_errmsg());
	printf("%s\n", name);
	fflush(stdout);
	for (;;)
		pause();
}

static pid_t start_victim(char *name)
{
	char *argv[] = { (char *)self, "--victim", address, name, NULL };
	char line[128];

	return start(argv, line, sizeof(line));
}

/* ---- Clients that create and remove flows -------------------------------- */

enum known {
	NOT_THERE,
	THERE,
	UNKNOWN, /* a call failed, and may have done its work */
};

struct worker {
	pthread_t thread;
	uint32_t index;
	struct dfi *dfi;
	uint64_t random;
	uint64_t n_acknowledged;
	enum known flows[N_FLOWS];
};

static struct worker workers[N_WORKERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool stopping, pausing;
static unsigned n_paused;

static void name_of(char name[64], uint32_t worker, uint32_t flow)
{
	snprintf(name, 64, "flow-%u-%02u", worker, flow);
}

/* Odd ones are persistent. */
static void change_flow(struct worker *worker)
{
	uint32_t i = (uint32_t)draw(&worker->random, N_FLOWS);
	enum known *known = &worker->flows[i];
	char name[64];
	int ret;

	name_of(name, worker->index, i);
	if (*known == NOT_THERE)
		ret = create_flow(
		    worker->dfi, name, i % 2 ? DFI_FLOW_PERSISTENT : 0);
	else
		ret = dfi_flow_remove(worker->dfi, name);
	if (!ret)
		*known = *known == NOT_THERE ? THERE : NOT_THERE;
	else if (ret == -ENOENT && *known == UNKNOWN)
		*known = NOT_THERE;
	else if (ret == -ENOTCONN || ret == -ETIMEDOUT)
		*known = UNKNOWN;
	else
		fail("'%s' was %s: %s", name,
		    *known == THERE         ? "acknowledged"
			: *known == UNKNOWN ? "unknown"
					    : "removed",
		    dfi_errmsg());
	worker->n_acknowledged += !ret;
	if (ret == -ENOTCONN)
		pause_us(2000);
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	pthread_mutex_lock(&lock);
	while (!stopping) {
		while (pausing && !stopping) {
			n_paused++;
			pthread_cond_broadcast(&changed);
			pthread_cond_wait(&changed, &lock);
			n_paused--;
		}
		pthread_mutex_unlock(&lock);
		change_flow(worker);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void set_pausing(bool pause)
{
	pthread_mutex_lock(&lock);
	pausing = pause;
	pthread_cond_broadcast(&changed);
	while (pause && n_paused < N_WORKERS)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* ---- What the registry has ----------------------------------------------- */

struct listing {
	char names[512][64];
	size_t n;
};

static int add_name(void *arg, const struct dfi_flow_info *info)
{
	struct listing *listing = arg;

	if (listing->n < 512)
		snprintf(listing->names[listing->n++], 64, "%.63s", info->name);
	return 0;
}

static void list(struct dfi *dfi, struct listing *listing)
{
	uint64_t deadline = now_ms() + HANG_MS;
	int ret;

	do {
		listing->n = 0;
		ret = dfi_flow_list(dfi, add_name, listing);
		if (ret == -ENOTCONN)
			pause_us(1000);
	} while (ret == -ENOTCONN && now_ms() < deadline);
	if (ret)
		fail("the registry can't be asked: %s", dfi_errmsg());
}

static bool has(const struct listing *listing, const char *name)
{
	size_t i;

	for (i = 0; i < listing->n; i++)
		if (!strcmp(listing->names[i], name))
			return true;
	return false;
}

static void check_flows(const struct listing *listing)
{
	char name[64];
	uint32_t w, i;

	for (w = 0; w < N_WORKERS; w++)
		for (i = 0; i < N_FLOWS; i++) {
			name_of(name, w, i);
			if (workers[w].flows[i] == THERE && !has(listing, name))
				fail(
				    "'%s' was acknowledged, and is lost", name);
			if (workers[w].flows[i] == NOT_THERE &&
			    has(listing, name))
				fail("'%s' was removed, and is there", name);
		}
	if (!has(listing, "running"))
		fail("the running flow is lost");
}

static void await_death(struct dfi *dfi, const char *name, uint64_t since)
{
	struct listing listing;

	do {
		list(dfi, &listing);
		if (!has(&listing, name))
			return;
		pause_us(5000);
	} while (now_ms() < since + GRACE_MS + 1000);
	fail("'%s' belongs to a dead process, and is there after the grace",
	    name);
}

/* ---- A flow that runs all the time --------------------------------------- */

static _Atomic bool ending;
static uint64_t n_pushed;
static _Atomic uint64_t n_consumed;

static void *push(void *arg)
{
	struct dfi *dfi = open_context();
	struct tuple tuple = { .number = 0 };
	struct dfi_source *source;

	(void)arg;
	if (dfi_source_open(dfi, "running", 0, NULL, &source))
		fail("source: %s", dfi_errmsg());
	while (!atomic_load(&ending)) {
		if (dfi_source_push(source, &tuple))
			fail("push: %s", dfi_errmsg());
		tuple.number++;
		if (tuple.number % 64 == 0) {
			if (dfi_source_flush(source))
				fail("flush: %s", dfi_errmsg());
			pause_us(1000);
		}
	}
	if (dfi_source_close(source))
		fail("source: %s", dfi_errmsg());
	n_pushed = tuple.number;
	dfi_close(dfi);
	return NULL;
}

static void *consume(void *arg)
{
	struct dfi *dfi = open_context();
	struct dfi_target *target;
	const void *tuple;
	int ret;

	(void)arg;
	if (dfi_target_open(dfi, "running", 0, NULL, &target))
		fail("target: %s", dfi_errmsg());
	while ((ret = dfi_target_consume(target, &tuple)) > 0)
		if (((const struct tuple *)tuple)->number !=
		    atomic_fetch_add(&n_consumed, 1))
			fail("a tuple is lost");
	if (ret)
		fail("the running flow: %s", dfi_errmsg());
	dfi_target_close(target);
	dfi_close(dfi);
	return NULL;
}

/* ---- Runs ---------------------------------------------------------------- */

static void kill_once(struct dfi *dfi, uint64_t *random, unsigned run)
{
	struct listing listing;
	uint64_t when = draw(random, 4), killed = 0;
	pid_t victim = 0;
	char name[64];

	if (when < 3) {
		snprintf(name, sizeof(name), "victim-%u", run);
		victim = start_victim(name);
	}
	pause_us(draw(random, 120000));
	if (victim && when == 0) {
		kill_process(victim);
		pause_us(draw(random, 2000));
	}
	kill_process(registry);
	if (victim && when == 1)
		kill_process(victim);
	pause_us(draw(random, 60000));
	start_registry();
	if (victim && when == 2)
		kill_process(victim);
	killed = now_ms();
	set_pausing(true);
	list(dfi, &listing);
	check_flows(&listing);
	if (victim)
		await_death(dfi, name, killed);
	set_pausing(false);
}

static void run_all(unsigned n_runs)
{
	struct dfi *dfi = open_context();
	pthread_t pusher, consumer;
	uint64_t random = seed, n = 0;
	unsigned i;

	if (create_flow(dfi, "running", 0))
		fail("running: %s", dfi_errmsg());
	pthread_create(&pusher, NULL, push, NULL);
	pthread_create(&consumer, NULL, consume, NULL);
	for (i = 0; i < N_WORKERS; i++) {
		workers[i].index = i;
		workers[i].random = seed + i + 1;
		workers[i].dfi = open_context();
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	/* A flow whose ends are still attaching needs the registry. */
	while (!atomic_load(&n_consumed))
		pause_us(1000);
	for (i = 0; i < n_runs; i++)
		kill_once(dfi, &random, i);
	pthread_mutex_lock(&lock);
	stopping = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (i = 0; i < N_WORKERS; i++) {
		pthread_join(workers[i].thread, NULL);
		n += workers[i].n_acknowledged;
		dfi_close(workers[i].dfi);
	}
	atomic_store(&ending, true);
	pthread_join(pusher, NULL);
	pthread_join(consumer, NULL);
	if (!n_pushed || n_pushed != atomic_load(&n_consumed))
		fail("%llu of %llu tuples have arrived",
		    (unsigned long long)atomic_load(&n_consumed),
		    (unsigned long long)n_pushed);
	dfi_close(dfi);
	printf("registry_kills: killed %u times under load; none of %llu "
	       "acknowledged changes lost, no dead process's flow left after "
	       "the grace, %llu tuples of the running flow in order\n",
	    n_runs, (unsigned long long)n,
	    (unsigned long long)atomic_load(&n_consumed));
}

static void remove_files(void)
{
	static const char *const names[] = { "state/journal",
		"state/journal.new", "state/lock", "socket", "socket.lock" };
	char path[256];
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		unlink(path);
	}
	rmdir(state);
	rmdir(directory);
}

int main(int argc, char **argv)
{
	unsigned n_runs = 10;
	int i;

	self = argv[0];
	setenv("DFI_LOG", "error", 1);
	if (argc == 4 && !strcmp(argv[1], "--victim")) {
		snprintf(address, sizeof(address), "%s", argv[2]);
		return be_victim(argv[3]);
	}
	if (argc < 2) {
		fprintf(stderr,
		    "usage: registry_kills BIN_DIR [--runs N] [--seed S]\n");
		return 64;
	}
	for (i = 2; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--runs"))
			n_runs = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 10);
	}
	snprintf(program, sizeof(program), "%s/dfi-registry", argv[1]);
	if (access(program, X_OK))
		return 77;
	snprintf(directory, sizeof(directory), "/tmp/dfi-kills-XXXXXX");
	if (!mkdtemp(directory))
		fail("mkdtemp: %s", strerror(errno));
	snprintf(address, sizeof(address), "unix:%s/socket", directory);
	snprintf(state, sizeof(state), "%s/state", directory);
	start_registry();
	run_all(n_runs);
	kill_process(registry);
	remove_files();
	return EXIT_SUCCESS;
}
