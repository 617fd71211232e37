/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a library that has the loopback as well. */
#include "loopback.h"

const struct transport_row dfi__transports[] = {
	{ .name = "shm", .ops = &dfi__shm_ops },
	{ .name = "loopback", .ops = &loopback_ops },
#if DFI_VERBS
	{ .name = "verbs", .ops = &dfi__verbs_ops },
#endif
	{ .name = NULL },
};
