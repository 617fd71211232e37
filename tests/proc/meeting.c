/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meeting REGISTRY NAME MEMBERS INDEX ROUNDS: a member of a barrier, for
 * test_barriers.c. Before the rounds it says "open", and waits for a character
 * on stdin; after the first hundred of more "passed"; after all, or one that
 * fails,
 *	ended RET ROUNDS TEXT
 * While the registry is lost it asks again, and again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <signal.h>

#include <dfi/dfi.h>

static uint32_t number(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_barrier *barrier;
	uint32_t round = 0;
	struct dfi *dfi;
	char order;
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc != 6)
		return EXIT_FAILURE;
	attr.registry = argv[1];
	if (dfi_open(&attr, &dfi) < 0 ||
	    dfi_barrier_open(
		dfi, argv[2], number(argv[3]), number(argv[4]), &barrier) < 0) {
		fprintf(stderr, "meeting: %s\n", dfi_errmsg());
		return EXIT_FAILURE;
	}
	puts("open");
	fflush(stdout);
	if (read(STDIN_FILENO, &order, 1) != 1)
		return EXIT_FAILURE;
	for (ret = 0; !ret && round < number(argv[5]); round += !ret) {
		if (round == 100) {
			puts("passed");
			fflush(stdout);
		}
		while ((ret = dfi_barrier_wait(barrier, 0)) == -ENOTCONN)
			usleep(10000);
	}
	printf("ended %d %u %s\n", ret, round, ret ? dfi_errmsg() : "");
	fflush(stdout);
	dfi_barrier_close(barrier);
	dfi_close(dfi);
	return EXIT_SUCCESS;
}
