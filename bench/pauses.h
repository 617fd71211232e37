/* SPDX-License-Identifier: Apache-2.0 */
/* `dfi-bench pauses`, and its members that are processes of their own. */
#ifndef DFI_BENCH_PAUSES_H
#define DFI_BENCH_PAUSES_H

#include "options.h"

struct pauses_options {
	struct common_options common;
};

void pauses_options_parse(
    int argc, char **argv, struct pauses_options *options);

#define MEMBER_COMMAND "open-member"

/* Its main function: the registry's address and the flow's name. */
int pauses_member(int argc, char **argv);

#endif
