/* SPDX-License-Identifier: Apache-2.0 */
/* The table of transports: the one place that knows which there are. */
#include "transport.h"

const struct transport_ops *const dfi__transports[] = {
	&dfi__shm_ops,
	&dfi__verbs_ops,
	NULL,
};
