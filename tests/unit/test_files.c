/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Without a free file descriptor, each error says how many are needed and for
 * what, the limit, and how to raise it. The library's descriptors are never 0,
 * 1 or 2.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/context.h>
#include <dfi/error.h>
#include <dfi/registry.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/loop.h"
#include "base/notify.h"
#include "base/settings.h"
#include "registry/client/client.h"
#include "security/key_file.h"
#include "transport/transport.h"
#include "tests/unit/stop_loop.h"

static struct rlimit before;

/* Only this many numbers are left; open ones stay open. */
static void limit_files(int n)
{
	struct rlimit low;
	int next = 0;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	while (n || fcntl(next, F_GETFD) >= 0)
		n -= fcntl(next++, F_GETFD) < 0;
	low.rlim_cur = (rlim_t)next;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
}

static void assert_remedy(int ret, const char *who, unsigned n)
{
	struct rlimit limit;
	char need[64], have[64];

	cr_assert_eq(ret, -EMFILE, "%d %s", ret, dfi_errmsg());
	getrlimit(RLIMIT_NOFILE, &limit);
	snprintf(need, sizeof(need), "needs %u file descriptor%s,", n,
	    n == 1 ? "" : "s");
	snprintf(
	    have, sizeof(have), "may have %lu ", (unsigned long)limit.rlim_cur);
	cr_assert_eq(
	    strncmp(dfi_errmsg(), who, strlen(who)), 0, "%s", dfi_errmsg());
	cr_assert(strstr(dfi_errmsg(), need), "%s", dfi_errmsg());
	cr_assert(strstr(dfi_errmsg(), have), "%s", dfi_errmsg());
	cr_assert(strstr(dfi_errmsg(),
		      "too few are free: raise the limit (ulimit -n)"),
	    "%s", dfi_errmsg());
}

/* With any number of descriptors; one more would have been enough. */
Test(files, that_a_thread_needs_are_in_the_error)
{
	struct loop *loop;
	int n;

	for (n = 0; n < 4; n++) {
		limit_files(n);
		assert_remedy(dfi__loop_start("t", &loop), "thread 't'", 4);
		setrlimit(RLIMIT_NOFILE, &before);
	}
	limit_files(4);
	cr_assert_eq(dfi__loop_start("t", &loop), 0, "%s", dfi_errmsg());
	setrlimit(RLIMIT_NOFILE, &before);
	stop_loop(loop);
}

#define N_LOOPS 2000

static void *start_loops(void *arg)
{
	_Atomic unsigned *n_started = arg;
	struct loop *loop;
	int i, ret;

	for (i = 0; i < N_LOOPS; i++) {
		ret = dfi__loop_start("t", &loop);
		cr_assert(!ret || ret == -EMFILE, "%s", dfi_errmsg());
		if (ret)
			continue;
		++*n_started;
		stop_loop(loop);
	}
	return NULL;
}

/* libevent would end the process that gets only some. */
Test(files, that_several_threads_need_at_once_end_no_process)
{
	pthread_t threads[3];
	_Atomic unsigned n_started = 0;
	unsigned i;

	limit_files(8);
	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, start_loops, &n_started);
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	setrlimit(RLIMIT_NOFILE, &before);
	cr_assert_gt(n_started, 0);
}

Test(files, that_a_descriptor_to_poll_needs_are_in_the_error)
{
	struct notify *notify;
	int n;

	for (n = 0; n < 3; n++) {
		limit_files(n);
		assert_remedy(
		    dfi__notify_new(&notify), "a descriptor to poll", 3);
		setrlimit(RLIMIT_NOFILE, &before);
	}
	limit_files(3);
	cr_assert_eq(dfi__notify_new(&notify), 0, "%s", dfi_errmsg());
	setrlimit(RLIMIT_NOFILE, &before);
	dfi__notify_free(notify);
}

Test(files, that_a_registry_and_its_client_need_are_in_the_error)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct registry_client *client;
	struct dfi_registry *registry;
	char text[64];
	struct loop *loop;

	snprintf(text, sizeof(text), "unix:@dfi-files-%ld", (long)getpid());
	attr.listen = text;
	limit_files(0);
	assert_remedy(
	    dfi_registry_start(&attr, &registry), "registry address", 1);
	assert_remedy(dfi_registry_key_create("/tmp/none"), "key file", 1);
	assert_remedy(
	    dfi__secret_file_open("/dev/null", "secret", SECRET_OWNER),
	    "secret '/dev/null'", 1);
	setrlimit(RLIMIT_NOFILE, &before);
	cr_assert_eq(dfi__loop_start("t", &loop), 0);
	cr_assert_eq(dfi_registry_start(&attr, &registry), 0);
	limit_files(0);
	assert_remedy(dfi__client_open(
			  loop, text, NULL, 0, deadline_in_ms(60000), &client),
	    "registry unix:@dfi-files-", 1);
	setrlimit(RLIMIT_NOFILE, &before);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

/* A process with a registry at this address, until it is killed. */
static pid_t fork_registry(const char *address)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry;
	int started[2];
	char word;
	pid_t pid;

	attr.listen = address;
	cr_assert_eq(pipe(started), 0);
	pid = fork();
	if (!pid) {
		if (dfi_registry_start(&attr, &registry) ||
		    write(started[1], "", 1) < 1)
			_exit(EXIT_FAILURE);
		for (;;)
			pause();
	}
	cr_assert_gt(pid, 0);
	close(started[1]);
	cr_assert_eq(read(started[0], &word, 1), 1);
	close(started[0]);
	return pid;
}

/* Whichever it is of all that it opens. */
Test(files, that_a_context_needs_are_in_the_error)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	int n, ret = -EMFILE, status;
	struct dfi *dfi;
	char text[64];
	pid_t pid;

	snprintf(text, sizeof(text), "unix:@dfi-files-%ld", (long)getpid());
	attr.registry = text;
	pid = fork_registry(text);
	for (n = 0; ret && n < 100; n++) {
		limit_files(n);
		ret = dfi_open(&attr, &dfi);
		setrlimit(RLIMIT_NOFILE, &before);
		cr_assert(!ret ||
			(ret == -EMFILE && strstr(dfi_errmsg(), "(ulimit -n)")),
		    "%d files: %d %s", n, ret, dfi_errmsg());
	}
	cr_assert_eq(ret, 0);
	cr_assert_gt(n, 6);
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
}

Test(files, that_shared_memory_needs_are_in_the_error)
{
	static const struct ring_layout layout = { .n_rings = 1,
		.ring_size = 4096 };
	struct transport *transports[2];
	struct settings settings;
	struct region *region;
	struct remote *remote;
	struct loop *loop;
	int i;

	cr_assert_eq(dfi__settings_load(&settings), 0);
	cr_assert_eq(dfi__loop_start("t", &loop), 0);
	for (i = 0; i < 3; i++) {
		limit_files(i);
		assert_remedy(
		    dfi__shm_ops.start(loop, &settings, NULL, &transports[0]),
		    "shared memory: ", i ? 2 : 1);
		setrlimit(RLIMIT_NOFILE, &before);
	}
	for (i = 0; i < 2; i++)
		cr_assert_eq(
		    dfi__shm_ops.start(loop, &settings, NULL, &transports[i]),
		    0);
	cr_assert_eq(
	    dfi__shm_ops.region.create(transports[0], 4096, &region), 0);
	limit_files(0);
	assert_remedy(
	    dfi__shm_ops.ring.open(transports[1], NULL, &region->name, &layout,
		0, NULL, WAIT_LIMIT(deadline_in_ms(60000)), &remote),
	    "shared memory: getting a region", 2);
	assert_remedy(dfi__shm_ops.region.create(transports[0], 4096, &region),
	    "shared memory: a region", 1);
	setrlimit(RLIMIT_NOFILE, &before);
	dfi__shm_ops.region.destroy(region);
	for (i = 0; i < 2; i++)
		dfi__shm_ops.stop(transports[i]);
	stop_loop(loop);
}

Test(files, of_the_system_have_another_remedy)
{
	cr_assert_eq(dfi__fail_files(ENFILE, 2, "open", "it, %d", 1), -EMFILE);
	cr_assert_str_eq(dfi_errmsg(),
	    "it, 1 needs 2 file descriptors, but all that the system may have "
	    "are open: raise the limit (sysctl fs.file-max)");
	cr_assert_eq(dfi__fail_files(ENOMEM, 2, "open", "it"), -ENOMEM);
	cr_assert_eq(dfi__fail_files(EPERM, 2, "open", "it"), -EIO);
	cr_assert_str_eq(dfi_errmsg(), "it: open: Operation not permitted");
}

Test(files, of_a_process_have_the_remedy_for_the_limit_that_was_met)
{
	struct rlimit limit;
	char text[128];

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	dfi__files_nr_open = limit.rlim_cur - 1;
	cr_assert_eq(dfi__fail_files(EMFILE, 1, "open", "it"), -EMFILE);
	snprintf(text, sizeof(text), "lets a process have %lu and",
	    (unsigned long)limit.rlim_cur - 1);
	cr_assert(strstr(dfi_errmsg(), text), "%s", dfi_errmsg());
	cr_assert(
	    strstr(dfi_errmsg(), "(sysctl fs.nr_open)"), "%s", dfi_errmsg());
	dfi__files_nr_open = limit.rlim_cur;
	dfi__fail_files(EMFILE, 1, "open", "it");
	cr_assert(strstr(dfi_errmsg(), "(sysctl fs.nr_open, then ulimit -n)"),
	    "%s", dfi_errmsg());
	dfi__files_nr_open = limit.rlim_cur + 1;
	dfi__fail_files(EMFILE, 1, "open", "it");
	cr_assert(strstr(dfi_errmsg(), "(ulimit -n)"), "%s", dfi_errmsg());
}

Test(files, of_the_system_are_known_before_they_are_used_up)
{
	struct loop *loop;

	dfi__files_nr_open = 0;
	cr_assert_eq(dfi__loop_start("loop", &loop), 0);
	cr_assert_gt(dfi__files_nr_open, 0);
	stop_loop(loop);
}

/* In a child without standard files. Returns the line that fails. */
static int look_at_standard_files(void)
{
	struct loop *loop;
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		close(fd);
	fd = file_up(open("/dev/null", O_RDONLY));
	if (fd <= STDERR_FILENO || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
		return __LINE__;
	if (file_up(fd) != fd || file_up(-1) != -1)
		return __LINE__;
	dfi__files_take_standard();
	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (read(fd, &(char){ 0 }, 1) >= 0 || write(fd, "", 1) >= 0 ||
		    errno == EBADF)
			return __LINE__;
	dfi__files_free_standard();
	if (dfi__loop_start("loop", &loop))
		return __LINE__;
	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return __LINE__;
	return 0;
}

Test(files, of_ours_are_no_standard_ones)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(look_at_standard_files() % 256);
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "%#x: the line, modulo 256", status);
}
