/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reload LIBRARY: repeatedly load the library, move tuples through a flow, and
 * unload it, as a database does with an extension. It must be unloaded each
 * time, without remaining threads or descriptors, except that a thread that
 * could not be joined still has to end. So this program is not linked with it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dfi/dfi.h>

#define N_ROUNDS 100
#define N_LOGGING 6

struct kv {
	uint64_t key, val;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct kv, key),
	DFI_FIELD(struct kv, val),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct kv, fields);

/* The calls, by the names that the headers give them. */
#define CALLS(X)                    \
	X(dfi_registry_start)       \
	X(dfi_registry_address)     \
	X(dfi_registry_stop)        \
	X(dfi_open)                 \
	X(dfi_close)                \
	X(dfi_flow_create)          \
	X(dfi_source_open)          \
	X(dfi_source_push_batch)    \
	X(dfi_source_close)         \
	X(dfi_target_open)          \
	X(dfi_target_consume_batch) \
	X(dfi_target_release)       \
	X(dfi_target_close)         \
	X(dfi_errmsg)

#define DECLARE(name) __typeof__(&name) name;
static struct {
	CALLS(DECLARE)
} call;

static void check(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "reload: %s: %s\n", what, call.dfi_errmsg());
	exit(EXIT_FAILURE);
}

static unsigned count(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* A thread that was joined may still be listed for a moment. */
static bool threads_are(unsigned n)
{
	time_t wait_limit = time(NULL) + 30;

	while (count("/proc/self/task") != n && time(NULL) < wait_limit)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return count("/proc/self/task") == n;
}

static void find(void *library, const char *name, void *at)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "reload: %s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	memcpy(at, &found, sizeof(found));
}

static void move_tuples(struct dfi *dfi)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *target;
	struct kv kvs[4] = { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 4 } };
	struct dfi_batch batch;
	uint32_t n = 0;
	int ret;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.n_sources = attr.n_targets = 1;
	check(call.dfi_flow_create(dfi, "f", &attr), "create");
	check(call.dfi_target_open(dfi, "f", 0, NULL, &target), "target");
	check(call.dfi_source_open(dfi, "f", 0, NULL, &source), "source");
	check(call.dfi_source_push_batch(source, kvs, 4), "push");
	check(call.dfi_source_close(source), "close source");
	while ((ret = call.dfi_target_consume_batch(target, &batch)) > 0) {
		n += batch.count;
		call.dfi_target_release(target, &batch);
	}
	check(ret, "consume");
	check(call.dfi_target_close(target), "close target");
	if (n != 4)
		exit(EXIT_FAILURE);
}

static void use(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi *dfi;

	if (!library) {
		fprintf(stderr, "reload: %s\n", dlerror());
		exit(EXIT_FAILURE);
	}
#define FIND(name) find(library, #name, &call.name);
	CALLS(FIND)
	check(call.dfi_registry_start(NULL, &registry), "registry");
	attr.registry = call.dfi_registry_address(registry);
	check(call.dfi_open(&attr, &dfi), "open");
	move_tuples(dfi);
	check(call.dfi_close(dfi), "close");
	check(call.dfi_registry_stop(registry), "stop");
	dlclose(library);
}

static int full_reader;

static _Atomic bool held;

/*
 * Replaces the C library's call: control threads stay in it while they are
 * held.
 */
int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
	int (*wait)(int, struct epoll_event *, int, int);
	char name[16] = "";
	int ret;

	find(RTLD_NEXT, "epoll_wait", &wait);
	ret = wait(fd, events, n, timeout);
	prctl(PR_GET_NAME, name);
	while (atomic_load(&held) && !strcmp(name, "dfi-control"))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return ret;
}

/* Opening gives up on a thread that does not run; the thread ends later. */
static void use_in_vain(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi *dfi;

	if (!library)
		exit(EXIT_FAILURE);
	CALLS(FIND)
	check(call.dfi_registry_start(NULL, &registry), "registry");
	attr.registry = call.dfi_registry_address(registry);
	attr.open_timeout_ms = 100;
	atomic_store(&held, true);
	if (call.dfi_open(&attr, &dfi) != -ETIMEDOUT) {
		fprintf(stderr, "reload: a context opens without its thread\n");
		exit(EXIT_FAILURE);
	}
	check(call.dfi_registry_stop(registry), "stop");
	dlclose(library);
	atomic_store(&held, false);
}

/* Replace stderr with a pipe that takes nothing. */
static void fill_stderr(void)
{
	static const char dots[4096] = "fill";
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		exit(EXIT_FAILURE);
	while (write(ends[1], dots, sizeof(dots)) > 0)
		;
	fcntl(ends[1], F_SETFL, 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	/* Otherwise it would be a broken one. */
	full_reader = ends[0];
}

/* The thread that writes the log ends with the library, wherever it waits. */
static void use_logging(const char *path)
{
	int before = dup(STDERR_FILENO), nothing = open("/dev/null", O_WRONLY);
	int i;

	setenv("DFI_LOG", "info", 1);
	for (i = 0; i < N_LOGGING; i++) {
		if (i % 2) {
			dup2(nothing, STDERR_FILENO);
			use(path);
			continue;
		}
		fill_stderr();
		use(path);
		close(full_reader);
	}
	unsetenv("DFI_LOG");
	dup2(before, STDERR_FILENO);
	close(before);
	close(nothing);
}

/* From here on, the library is not called. */
static bool forks(void)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(EXIT_SUCCESS);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
	unsigned descriptors, i;
	void *left;

	if (argc != 2)
		return EXIT_FAILURE;
	/* By then the libraries below have their permanent resources. */
	use(argv[1]);
	descriptors = count("/proc/self/fd");
	for (i = 1; i < N_ROUNDS; i++)
		use(argv[1]);
	use_logging(argv[1]);
	left = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
	if (left) {
		fprintf(stderr, "reload: the library is still loaded\n");
		return EXIT_FAILURE;
	}
	if (!forks()) {
		fprintf(stderr, "reload: a child dies in fork()\n");
		return EXIT_FAILURE;
	}
	/* "." and "..", and this one. */
	if (!threads_are(3)) {
		fprintf(stderr, "reload: threads are left\n");
		return EXIT_FAILURE;
	}
	if (count("/proc/self/fd") != descriptors) {
		fprintf(stderr, "reload: %u descriptors, %u before\n",
		    count("/proc/self/fd"), descriptors);
		return EXIT_FAILURE;
	}
	use_in_vain(argv[1]);
	if (!threads_are(3)) {
		fprintf(stderr, "reload: the late thread does not end\n");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
