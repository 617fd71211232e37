/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of libdfi.a, which has all transports linked in. */
#include "transports.h"

const struct transport_row dfi__transports[] = {
	{ .name = "shm", .choice = DFI_TRANSPORT_SHM, .ops = &dfi__shm_ops },
#if DFI_VERBS
	{ .name = "verbs",
	    .choice = DFI_TRANSPORT_VERBS,
	    .ops = &dfi__verbs_ops },
#endif
#if DFI_OFI
	{ .name = "ofi",
	    .choice = DFI_TRANSPORT_OFI,
	    .ops = &dfi__ofi_ops,
	    .processor_adds = true },
#endif
	{ .name = NULL },
};

const enum footer_side dfi__footer_side = FOOTER_BEHIND;
