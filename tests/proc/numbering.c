/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbering REGISTRY NAME [FIRST]: take numbers of a sequencer, for
 * test_sequencers.c; with FIRST, create it. Says "open", and then for each
 * character on stdin, until a q,
 *	number N	or	error RET TEXT
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <dfi/dfi.h>

int main(int argc, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_sequencer *sequencer;
	uint64_t number;
	struct dfi *dfi;
	char order;
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc != 3 && argc != 4)
		return EXIT_FAILURE;
	attr.registry = argv[1];
	ret = dfi_open(&attr, &dfi);
	if (!ret && argc == 4)
		ret = dfi_sequencer_create(
		    dfi, argv[2], strtoull(argv[3], NULL, 10), &sequencer);
	else if (!ret)
		ret = dfi_sequencer_open(dfi, argv[2], 0, &sequencer);
	if (ret < 0) {
		fprintf(stderr, "numbering: %s\n", dfi_errmsg());
		return EXIT_FAILURE;
	}
	puts("open");
	fflush(stdout);
	while (read(STDIN_FILENO, &order, 1) == 1 && order != 'q') {
		ret = dfi_sequencer_next(sequencer, 1, &number);
		if (ret < 0)
			printf("error %d %s\n", ret, dfi_errmsg());
		else
			printf("number %" PRIu64 "\n", number);
		fflush(stdout);
	}
	dfi_sequencer_close(sequencer);
	dfi_close(dfi);
	return EXIT_SUCCESS;
}
