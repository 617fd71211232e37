/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The targets of a replicate flow, as one of its sources sees them. A tuple
 * goes to all of them, so each counts: one that dies or closes early fails the
 * source, and one that cancels is left out, while the others get all. With
 * groups it goes to a set of them; which one, is chosen here.
 */
#include "flows/endpoint/source.h"

#include "base/compiler.h"
#include "base/error.h"

bool dfi__fan_has_left(struct dfi_source *source)
{
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++)
		if (!source->rings[t].cancelled &&
		    source_target_life(source, t))
			return true;
	return false;
}

int dfi__fan_left(struct dfi_source *source, int err)
{
	uint32_t t;
	int ret;

	for (t = 0; t < source->n_remotes; t++) {
		if (source->rings[t].cancelled)
			continue;
		if (likely(!source_target_life(source, t) &&
			!(err < 0 && t == source->fan->short_of &&
			    !source->fan->undrawn)))
			continue;
		ret = dfi__source_target_left(source, t);
		if (ret < 0)
			return ret;
	}
	/* What was said first is about the sequencer, if a target is not gone.
	 */
	return source->fan->undrawn && err < 0 ? dfi__source_fail(source, err)
					       : 0;
}

int dfi__fan_is_wanted(const struct dfi_source *source)
{
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++)
		if (likely(!source->rings[t].cancelled &&
			fan_addresses(source->fan, t)))
			return 0;
	if (source->fan->targets)
		return dfi__fail(-EPIPE,
		    "flow '%s': source %u: all targets of the set %#lx have "
		    "cancelled: they take no more tuples",
		    source->flow.name, source->index,
		    (unsigned long)source->fan->targets);
	return dfi__fail(-EPIPE,
	    "flow '%s': source %u: all %u targets have cancelled: they take "
	    "no more tuples",
	    source->flow.name, source->index, source->n_remotes);
}

static int check_set(const struct dfi_source *source, uint64_t targets)
{
	uint32_t n = source->flow.n_targets;

	if (!source->head.targets)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s': source %u: a set of targets, but the flow has "
		    "no groups: declare it DFI_REPLICATE with routing "
		    "DFI_ROUTE_DIRECT or DFI_ROUTE_FUNCTION",
		    source->flow.name, source->index);
	if (!targets)
		return dfi__fail(-EINVAL,
		    "flow '%s': source %u: the set of targets is empty",
		    source->flow.name, source->index);
	if (targets & ~dfi__fan_all_targets(n))
		return dfi__fail(-ERANGE,
		    "flow '%s': source %u: the set of targets %#lx: the flow "
		    "has %u, numbered from 0",
		    source->flow.name, source->index, (unsigned long)targets,
		    n);
	return 0;
}

/*
 * What is buffered is for others: send it. An open segment that nobody wants is
 * given up; the next push finds out why (dfi__source_make_room()).
 */
static int change_set(struct dfi_source *source, uint64_t targets)
{
	int ret = 0;

	if (source_filled(source, 0))
		ret = dfi__source_send(source, 0);
	if (ret < 0)
		return ret;
	source->head.targets = targets;
	source->fan->targets = targets;
	if (source->writers[0].segment && dfi__fan_is_wanted(source) < 0) {
		source->writers[0].segment = NULL;
		source_close_lane(source, 0);
	}
	return 0;
}

static int choose(struct dfi_source *source, uint64_t targets, bool to_push)
{
	int ret = dfi__source_check_free(source);

	if (ret < 0)
		return ret;
	ret = check_set(source, targets);
	if (ret < 0)
		return to_push ? dfi__source_refuse(source, ret) : ret;
	source_lock(source);
	if (targets != source->head.targets)
		ret = change_set(source, targets);
	source_unlock(source);
	source->claimed = NULL;
	return ret;
}

int dfi_source_choose(struct dfi_source *source, uint64_t targets)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));

	return choose(source, targets, false);
}

int dfi_source_choose_to_push(struct dfi_source *source, uint64_t targets)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));

	return choose(source, targets, true);
}
