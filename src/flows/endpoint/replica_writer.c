/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The targets of a source whose one lane goes to all of them. If one dies or
 * closes early, the source fails. If one cancels, the source continues with the
 * others.
 */
#include "source.h"

#include "base/compiler.h"
#include "base/error.h"

bool dfi__replica_has_left(struct dfi_source *source)
{
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++)
		if (!source->rings[t].cancelled &&
		    source_target_life(source, t))
			return true;
	return false;
}

int dfi__replica_left(struct dfi_source *source, int err)
{
	uint32_t t;
	int ret;

	for (t = 0; t < source->n_remotes; t++) {
		if (source->rings[t].cancelled)
			continue;
		if (likely(!source_target_life(source, t) &&
			!(err < 0 && t == source->replica_writer->short_of &&
			    !source->replica_writer->undrawn)))
			continue;
		ret = dfi__source_target_left(source, t);
		if (ret < 0)
			return ret;
	}
	/* No target is gone, so err is about the sequencer. */
	return source->replica_writer->undrawn && err < 0
	    ? dfi__source_fail(source, err)
	    : 0;
}

int dfi__replica_is_wanted(const struct dfi_source *source)
{
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++)
		if (likely(!source->rings[t].cancelled &&
			replica_addresses(source->replica_writer, t)))
			return 0;
	if (source->replica_writer->targets)
		return dfi__fail(-EPIPE,
		    "flow '%s': source %u: all targets of the set %#lx have "
		    "cancelled: they take no more tuples",
		    source->flow.name, source->index,
		    (unsigned long)source->replica_writer->targets);
	return dfi__fail(-EPIPE,
	    "flow '%s': source %u: all %u targets have cancelled: they take "
	    "no more tuples",
	    source->flow.name, source->index, source->n_remotes);
}
