/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A forked child and the descriptors that it has to close. Its exit status is
 * the result.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork_files.h"

#define N_MANY 100

/* Fork; the status that check() returns in the child. */
static int in_child(int (*check)(const int *fds), const int *fds)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(check(fds));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "%x", (unsigned)status);
	return WEXITSTATUS(status);
}

/* 0: neither is a pipe's any more, and the next files get other numbers. */
static int are_gone(const int *fds)
{
	int other = open("/dev/null", O_RDONLY);
	char byte = 0;

	if (other < 0 || other == fds[0] || other == fds[1])
		return 1;
	if (read(fds[0], &byte, 1) >= 0 || write(fds[1], &byte, 1) >= 0)
		return 2;
	return 0;
}

static int are_there(const int *fds)
{
	char byte = 1;

	return write(fds[1], &byte, 1) == 1 && read(fds[0], &byte, 1) == 1 ? 0
									   : 1;
}

Test(fork_files, are_of_no_use_in_a_child_and_their_numbers_stay_taken)
{
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(dfi__fork_add(fds[0]), 0);
	cr_assert_eq(dfi__fork_add(fds[1]), 0);
	cr_assert_eq(in_child(are_gone, fds), 0);
	cr_assert_eq(are_there(fds), 0, "the parent's are as they were");
	dfi__fork_remove(fds[0]);
	dfi__fork_remove(fds[1]);
	cr_assert_eq(in_child(are_there, fds), 0);
}

Test(fork_files, are_not_kept_open_by_a_child_that_lives_on)
{
	struct pollfd end = { .events = POLLIN };
	int fds[2], hold[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(pipe(hold), 0);
	cr_assert_eq(dfi__fork_add(fds[1]), 0);
	pid = fork();
	if (!pid) {
		close(hold[1]);
		_exit(read(hold[0], &byte, 1) != 0);
	}
	dfi__fork_remove(fds[1]);
	close(fds[1]);
	end.fd = fds[0];
	cr_assert_eq(poll(&end, 1, 60000), 1);
	cr_assert(end.revents & POLLHUP);
	close(hold[1]);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(fork_files, that_were_added_twice_are_removed_twice)
{
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(dfi__fork_add(fds[0]), 0);
	cr_assert_eq(dfi__fork_add(fds[1]), 0);
	cr_assert_eq(dfi__fork_add(fds[1]), 0);
	dfi__fork_remove(fds[1]);
	cr_assert_eq(in_child(are_gone, fds), 0);
	dfi__fork_remove(fds[1]);
	dfi__fork_remove(fds[0]);
	dfi__fork_remove(fds[0]); /* once too often does no harm */
	cr_assert_eq(in_child(are_there, fds), 0);
}

/* 0: no file of those is open. */
static int many_are_gone(const int *fds)
{
	char byte = 0;
	int i;

	for (i = 0; i < N_MANY; i++)
		if (write(fds[i], &byte, 1) >= 0)
			return 1;
	return 0;
}

Test(fork_files, may_be_many)
{
	int fds[N_MANY], i;

	for (i = 0; i < N_MANY; i++) {
		fds[i] = open("/dev/null", O_WRONLY);
		cr_assert_eq(dfi__fork_add(fds[i]), 0);
	}
	cr_assert_eq(in_child(many_are_gone, fds), 0);
	for (i = 0; i < N_MANY; i++)
		dfi__fork_remove(fds[i]);
	cr_assert_neq(in_child(many_are_gone, fds), 0);
}

static const void *mapped, *other;

/* 0: one is not mapped any more, and the other is as it was. */
static int is_unmapped(const int *fds)
{
	unsigned char resident;

	(void)fds;
	if (mincore((void *)(uintptr_t)mapped, 4096, &resident) == 0)
		return 1;
	return *(const char *)other == 'x' ? 0 : 2;
}

Test(fork_files, are_not_mapped_in_a_child)
{
	int fds[2], i;
	void *at[2];

	for (i = 0; i < 2; i++) {
		fds[i] = memfd_create("file", MFD_CLOEXEC);
		cr_assert_eq(ftruncate(fds[i], 8192), 0);
		cr_assert_eq(write(fds[i], "x", 1), 1);
		at[i] = mmap(
		    NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
		cr_assert_neq(at[i], MAP_FAILED);
	}
	mapped = at[0];
	other = at[1];
	cr_assert_eq(dfi__fork_add(fds[0]), 0);
	cr_assert_eq(in_child(is_unmapped, fds), 0);
	cr_assert_eq(*(char *)at[0], 'x', "the parent's is as it was");
	dfi__fork_remove(fds[0]);
	cr_assert_eq(in_child(is_unmapped, fds), 1);
}

/* Then the numbers are free: no more can be done. */
Test(fork_files, are_closed_where_no_other_can_be_opened)
{
	struct rlimit limit;
	int fds[2], next;

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(dfi__fork_add(fds[1]), 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	next = dup(fds[0]);
	cr_assert_gt(next, fds[1]);
	limit.rlim_cur = (rlim_t)next + 1;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_lt(dup(fds[0]), 0, "a descriptor was left");
	fds[0] = next;
	cr_assert_neq(in_child(are_there, fds), 0);
	dfi__fork_remove(fds[1]);
	cr_assert_eq(in_child(are_there, fds), 0);
}
