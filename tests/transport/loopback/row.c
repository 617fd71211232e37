/* SPDX-License-Identifier: Apache-2.0 */
/* The table of transports of a library that has the loopback as well. */
#include "loopback.h"

const struct transport_ops *const dfi__transports[] = {
	&dfi__shm_ops,
	&loopback_ops,
	&dfi__verbs_ops,
	NULL,
};
