/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program as in a sandbox that forbids system calls: old profiles of
 * containers refuse unknown ones.
 *
 * forbid CALL ERROR PROGRAM [ARGUMENT]...
 *
 * ERROR is EPERM or ENOSYS. Exit status 77: this system has no seccomp filters.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	const char *name;
	uint32_t number;
} calls[] = {
	{ "faccessat2", SYS_faccessat2 },
	{ "fallocate", SYS_fallocate },
	{ "linkat", SYS_linkat },
	{ "madvise", SYS_madvise },
	{ "memfd_create", SYS_memfd_create },
};
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		    offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };
	size_t i;

	if (argc < 4)
		return EXIT_FAILURE;
	for (i = 0; i < N_CALLS && strcmp(calls[i].name, argv[1]) != 0; i++)
		;
	if (i == N_CALLS)
		return EXIT_FAILURE;
	code[1].k = calls[i].number;
	code[2].k |= strcmp(argv[2], "EPERM") == 0 ? EPERM : ENOSYS;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		perror("seccomp");
		return 77;
	}
	execv(argv[3], argv + 3);
	perror(argv[3]);
	return EXIT_FAILURE;
}
