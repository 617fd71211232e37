/* SPDX-License-Identifier: Apache-2.0 */
/* Half of the partitions of an open flow move to a target that joins. */
#ifndef DFI_BENCH_HANDOVER_H
#define DFI_BENCH_HANDOVER_H

#include "session.h"

struct handover {
	/* From the opening of the new target until the old owner is told. */
	double drain_ms;
	/* From then until the new owner has a tuple of the last partition. */
	double value_ms;
	bool verified; /* all tuples came, to one of the two */
};

/* Measure one, under load. false: it failed, after a complaint. */
bool handover_measure(struct session *session, struct handover *result);

#endif
