/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of libraries that have the loopback as well. Each is built with its
 * own DFI_TEST_FOOTER_SIDE.
 */
#include "loopback.h"

const struct transport_row dfi__transports[] = {
	{ .name = "shm", .choice = DFI_TRANSPORT_SHM, .ops = &dfi__shm_ops },
	{ .name = "loopback",
	    .choice = DFI_TRANSPORT_VERBS,
	    .ops = &loopback_ops },
	{ .name = "detour",
	    .choice = DFI_TRANSPORT_VERBS,
	    .ops = &loopback_detour_ops },
#if DFI_VERBS
	{ .name = "verbs",
	    .choice = DFI_TRANSPORT_VERBS,
	    .ops = &dfi__verbs_ops },
#endif
	{ .name = NULL },
};

const enum footer_side dfi__footer_side = DFI_TEST_FOOTER_SIDE;
