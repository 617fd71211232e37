/* SPDX-License-Identifier: Apache-2.0 */
/* The target set of the next tuples of a replicate flow with groups. */
#include "flows/endpoint/source.h"

#include "base/compiler.h"
#include "base/error.h"

static int check_set(const struct dfi_source *source, uint64_t targets)
{
	uint32_t n = source->flow.n_targets;

	/* In other flows the word may be a table. */
	if (!dfi__flow_has_groups(&source->flow))
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s': source %u: a set of targets, but the flow has "
		    "no groups: declare it DFI_REPLICATE with routing "
		    "DFI_ROUTE_DIRECT or DFI_ROUTE_FUNCTION",
		    source->flow.name, source->index);
	if (!targets)
		return dfi__fail(-EINVAL,
		    "flow '%s': source %u: the set of targets is empty",
		    source->flow.name, source->index);
	if (targets & ~dfi__replica_all_targets(n))
		return dfi__fail(-ERANGE,
		    "flow '%s': source %u: the set of targets %#lx: the flow "
		    "has %u, numbered from 0",
		    source->flow.name, source->index, (unsigned long)targets,
		    n);
	return 0;
}

/*
 * The open segment is for the previous set: send it. If no target of the new
 * set wants tuples, drop the segment that was opened next. The next push then
 * reports the reason (dfi__source_make_room()).
 */
static int change_set(struct dfi_source *source, uint64_t targets)
{
	int ret = 0;

	if (lane_chooses(source))
		return lane_choose(source, targets);
	if (source_filled(source, 0))
		ret = dfi__source_send(source, 0);
	if (ret < 0)
		return ret;
	source->head.targets = targets;
	source->replica_writer->targets = targets;
	if (source->writers[0].segment && dfi__replica_is_wanted(source) < 0) {
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
