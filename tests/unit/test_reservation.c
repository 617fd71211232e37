/* SPDX-License-Identifier: Apache-2.0 */
/* Checking and taking room as one step, on an invented machine. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/error.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/reservation.h"

#define MIB (UINT64_C(1) << 20)
#define ROOM (100 * MIB)

static char root[] = "/tmp/dfi-reservation-XXXXXX";
static char lock_file[128];
static _Atomic unsigned n_warnings;
static char warning[512];

static void note(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	snprintf(warning, sizeof(warning), "%s", line);
	atomic_fetch_add(&n_warnings, 1);
}

static void set_room(uint64_t bytes)
{
	char name[128];
	FILE *file;

	snprintf(name, sizeof(name), "%s/proc/meminfo", root);
	file = fopen(name, "we");
	cr_assert_not_null(file);
	fprintf(file, "MemAvailable: %lu kB\n", (unsigned long)(bytes >> 10));
	cr_assert_eq(fclose(file), 0);
}

/* A machine with ROOM. The user's folder is /run, as the user made it. */
static void setup(void)
{
	char name[128];

	cr_assert_not_null(mkdtemp(root));
	snprintf(name, sizeof(name), "%s/proc", root);
	cr_assert_eq(mkdir(name, 0700), 0);
	set_room(ROOM);
	snprintf(name, sizeof(name), "%s/run", root);
	cr_assert_eq(mkdir(name, 0755), 0);
	snprintf(lock_file, sizeof(lock_file), "%s/run/dfi-memory-%u.lock",
	    root, geteuid());
	dfi_log_set(DFI_LOG_WARN, note, NULL);
}

static void teardown(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", root);
	cr_assert_eq(system(command), 0);
}

TestSuite(reservation, .init = setup, .fini = teardown, .timeout = 300);

static int begin(struct reservation *reservation, uint64_t bytes)
{
	return dfi__reservation_begin(
	    reservation, root, bytes, "here: a thing");
}

static void expect_text(const char *text)
{
	cr_assert(strstr(dfi_errmsg(), text) != NULL, "'%s' is not in '%s'",
	    text, dfi_errmsg());
}

Test(reservation, what_does_not_fit_is_refused_at_once)
{
	struct reservation reservation;
	int64_t start = clock_now_ns();

	cr_assert_eq(begin(&reservation, 200 * MIB), -ENOMEM);
	expect_text("here: a thing of 209715200 bytes needs 212402176 ");
	expect_text("but 104857600 are left (MemAvailable of /proc/meminfo): ");
	cr_assert_eq(
	    dfi__reservation_check(root, 200 * MIB, "here: a thing"), -ENOMEM);
	expect_text("here: a thing of 209715200 bytes needs 212402176 ");
	cr_assert_eq(dfi__reservation_check(root, 90 * MIB, "here"), 0);
	cr_assert_lt(clock_now_ns() - start, dfi__reservation_wait_limit_ns);
}

/* The kernel's tables must fit, and the process's later needs. */
Test(reservation, all_that_is_left_is_not_given)
{
	struct reservation reservation;

	cr_assert_eq(begin(&reservation, ROOM), -ENOMEM);
	cr_assert_eq(begin(&reservation, ROOM - 2 * MIB), 0);
	dfi__reservation_end(&reservation);
}

Test(reservation, where_nothing_is_known_anything_fits)
{
	struct reservation reservation;

	cr_assert_eq(dfi__reservation_begin(
			 &reservation, "/nowhere", UINT64_MAX, "here"),
	    0);
	dfi__reservation_end(&reservation);
}

Test(reservation, what_fits_beside_others_is_not_held_up)
{
	struct reservation several[3];
	unsigned i;

	dfi__reservation_wait_limit_ns = 0;
	for (i = 0; i < 3; i++)
		cr_assert_eq(begin(&several[i], 30 * MIB), 0);
	for (i = 0; i < 3; i++)
		dfi__reservation_end(&several[i]);
}

Test(reservation, what_others_take_is_named_when_it_lasts)
{
	struct reservation one, other;

	cr_assert_eq(begin(&one, 60 * MIB), 0);
	dfi__reservation_wait_limit_ns = NS_PER_MS;
	cr_assert_eq(begin(&other, 60 * MIB), -ENOMEM);
	expect_text("104857600 are left (MemAvailable of /proc/meminfo), of "
		    "which other threads or processes just take 644");
	dfi__reservation_end(&one);
	cr_assert_eq(begin(&other, 60 * MIB), 0);
	/* As the kernel does when a process dies. */
	close(other.fd);
	cr_assert_eq(begin(&one, 60 * MIB), 0);
	dfi__reservation_end(&one);
}

static _Atomic unsigned n_inside, most_inside;

/* Several at once, each for a moment. */
static void *come_and_go(void *arg)
{
	struct reservation reservation;
	unsigned i, j, inside, most;

	for (i = 0; i < 20; i++) {
		if (begin(&reservation, 30 * MIB) < 0)
			return arg;
		inside = atomic_fetch_add(&n_inside, 1) + 1;
		most = atomic_load(&most_inside);
		while (inside > most &&
		    !atomic_compare_exchange_weak(&most_inside, &most, inside))
			;
		for (j = 0; j < 50; j++)
			sched_yield();
		atomic_fetch_sub(&n_inside, 1);
		dfi__reservation_end(&reservation);
	}
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[8];
	unsigned i;
	void *ret;

	dfi__reservation_wait_limit_ns = INT64_C(200) * NS_PER_S;
	for (i = 0; i < 8; i++)
		cr_assert_eq(
		    pthread_create(&threads[i], NULL, come_and_go, root), 0);
	for (i = 0; i < 8; i++) {
		cr_assert_eq(pthread_join(threads[i], &ret), 0);
		cr_assert_null(ret);
	}
}

Test(reservation, threads_never_hold_more_than_there_is)
{
	run_threads();
	cr_assert_leq(atomic_load(&most_inside), 3);
	cr_assert_eq(atomic_load(&n_warnings), 0);
}

Test(reservation, more_than_a_file_has_places_for_wait)
{
	struct reservation all[128], one;
	unsigned i;

	set_room(10 * ROOM);
	dfi__reservation_wait_limit_ns = NS_PER_MS;
	for (i = 0; i < 128; i++)
		cr_assert_eq(begin(&all[i], 1), 0, "%u", i);
	cr_assert_eq(begin(&one, 1), -ENOMEM);
	expect_text("other threads or processes just take");
	dfi__reservation_end(&all[77]);
	cr_assert_eq(begin(&all[77], 1), 0);
	for (i = 0; i < 128; i++)
		dfi__reservation_end(&all[i]);
}

Test(reservation, file_is_of_this_user_alone)
{
	struct reservation reservation;
	struct stat stat;

	cr_assert_eq(begin(&reservation, MIB), 0);
	dfi__reservation_end(&reservation);
	cr_assert_eq(lstat(lock_file, &stat), 0);
	cr_assert(S_ISREG(stat.st_mode));
	cr_assert_eq(stat.st_mode & 0777, 0600);
	cr_assert_eq(stat.st_size, 0);
}

/* Without the file, one thread at a time. */
static void expect_alone(const char *why)
{
	struct reservation one, other;
	int status;
	pid_t pid;

	cr_assert_eq(begin(&one, MIB), 0);
	cr_assert(one.alone);
	cr_assert_eq(one.fd, -1);
	cr_assert_eq(atomic_load(&n_warnings), 1);
	cr_assert(strstr(warning, lock_file) != NULL, "%s", warning);
	cr_assert(strstr(warning, why) != NULL, "%s", warning);
	dfi__reservation_wait_limit_ns = NS_PER_MS;
	cr_assert_eq(begin(&other, MIB), 0);
	cr_assert_not(other.alone);
	cr_assert_eq(atomic_load(&n_warnings), 2);
	cr_assert(strstr(warning, "is not waited for") != NULL, "%s", warning);
	/* A child has no thread that would release it. */
	pid = fork();
	if (!pid)
		_exit(begin(&other, MIB) || !other.alone);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	dfi__reservation_end(&one);
	run_threads();
	cr_assert_eq(atomic_load(&most_inside), 1);
}

Test(reservation, file_that_others_may_open_is_no_lock)
{
	int fd = open(lock_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fchmod(fd, 0644), 0);
	expect_alone("another's, or open to others");
	close(fd);
}

Test(reservation, link_is_not_followed)
{
	char name[128];

	snprintf(name, sizeof(name), "%s/run/else", root);
	cr_assert_eq(symlink(name, lock_file), 0);
	expect_alone("Too many levels of symbolic links");
	cr_assert_eq(access(name, F_OK), -1);
}

Test(reservation, pipe_in_the_place_of_the_file_holds_nobody_up)
{
	cr_assert_eq(mkfifo(lock_file, 0600), 0);
	expect_alone("another's, or open to others");
}

/* The result of a child without a number, as its exit status. */
enum found {
	FOUND_NONE = 1, /* no file, and said so */
	FOUND_LOCK,
	FOUND_NO_NAMESPACE,
};

static enum found begin_without_number(void)
{
	struct reservation reservation;

	if (unshare(CLONE_NEWUSER) < 0)
		return FOUND_NO_NAMESPACE;
	if (begin(&reservation, MIB) || !reservation.alone)
		return FOUND_LOCK;
	dfi__reservation_end(&reservation);
	return access(lock_file, F_OK) < 0 &&
		strstr(warning, "does not map its user")
	    ? FOUND_NONE
	    : FOUND_LOCK;
}

/* Its number is that of all others without one in this namespace. */
Test(reservation, file_of_a_user_without_a_number_is_no_lock)
{
	int status;
	pid_t pid;

	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid)
		_exit(begin_without_number());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "%x", (unsigned)status);
	if (WEXITSTATUS(status) == FOUND_NO_NAMESPACE)
		cr_skip_test("no user namespace");
	cr_assert_eq(WEXITSTATUS(status), FOUND_NONE);
}

/* Such as one that was stopped while it looked. */
Test(reservation, one_that_looks_for_ever_is_not_waited_for)
{
	int fd = open(lock_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct flock lock = { .l_type = F_WRLCK, .l_len = 1 };
	struct reservation reservation;

	cr_assert_geq(fd, 0);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	dfi__reservation_wait_limit_ns = NS_PER_MS;
	cr_assert_eq(begin(&reservation, MIB), 0);
	dfi__reservation_end(&reservation);
	cr_assert_eq(begin(&reservation, 200 * MIB), -ENOMEM);
	cr_assert_eq(atomic_load(&n_warnings), 2);
	cr_assert(strstr(warning, "is not waited for") != NULL, "%s", warning);
	close(fd);
	cr_assert_eq(begin(&reservation, MIB), 0);
	cr_assert_eq(atomic_load(&n_warnings), 2);
	dfi__reservation_end(&reservation);
}

Test(reservation, forked_child_holds_nothing)
{
	struct reservation one, other;
	int born[2], pending_auth[2], status;
	pid_t child;
	char byte;

	cr_assert_eq(pipe2(born, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(pending_auth, O_CLOEXEC), 0);
	cr_assert_eq(begin(&one, 60 * MIB), 0);
	child = fork();
	if (!child) {
		close(born[1]);
		close(pending_auth[1]);
		_exit(read(pending_auth[0], &byte, 1) != 0);
	}
	cr_assert_gt(child, 0);
	close(born[1]);
	cr_assert_eq(read(born[0], &byte, 1), 0);
	/* As the kernel does when this process dies. */
	close(one.fd);
	dfi__reservation_wait_limit_ns = 0;
	cr_assert_eq(begin(&other, 60 * MIB), 0);
	dfi__reservation_end(&other);
	close(pending_auth[1]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}
