/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the floors of src/flows add to each context. This file is
 * above all floors: the context opens and closes the parts without knowing
 * them.
 */
#include "flows/context/context.h"
#include "flows/endpoint/linger.h"
#include "flows/endpoint/stats.h"
#include "flows/members/tombstone.h"

const struct context_part dfi__context_parts[] = {
	{ dfi__linger_clock_open, dfi__linger_clock_close },
	{ dfi__tombstones_open, dfi__tombstones_close },
	{ dfi__stats_start, dfi__stats_stop },
	{ NULL, NULL },
};
