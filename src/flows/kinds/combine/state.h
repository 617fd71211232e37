/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a combiner flow's sources (state in struct dfi_source), and what
 * its targets fold into.
 */
#ifndef DFI_FLOWS_KINDS_COMBINE_STATE_H
#define DFI_FLOWS_KINDS_COMBINE_STATE_H

#include "flows/endpoint/source.h"
#include "flows/endpoint/target.h"

/* Of a source. */
struct combine_state {
	struct combine_source *combine; /* of a source that combines, or NULL */
	struct source_window *window;   /* of a flow with windows, or NULL */
};

static inline struct combine_source *combine_of(const struct dfi_source *source)
{
	return ((const struct combine_state *)source->state)->combine;
}

static inline struct source_window *window_of(const struct dfi_source *source)
{
	return ((const struct combine_state *)source->state)->window;
}

static inline struct combiner *combiner_of(const struct dfi_target *target)
{
	return target->combiner;
}

#endif
