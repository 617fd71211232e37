/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the lanes of a source of an open flow, and how much they take. */
#include "open_source.h"

#include "base/error.h"

/* Nobody is there for what was refused, or nobody can come. */
static bool is_for_nobody(int refused)
{
	return refused == -ENXIO || refused == -ESHUTDOWN;
}

/* Also the last look at the targets before the end. */
int dfi__open_lane_check_whole(const struct dfi_source *source)
{
	struct dfi_source *self = open_source(source)->source;
	uint32_t t;
	int ret = dfi__open_adopt(self);

	if (!ret)
		ret = dfi__open_drop_lost(self);
	for (t = 0; !ret && t < source->n_lanes; t++)
		if (source->writers[t].refused &&
		    !is_for_nobody(source->writers[t].refused))
			ret = dfi__fail(source->writers[t].refused,
			    "flow '%s': %s %u: closed after a push found no "
			    "room and was not repeated",
			    source->flow.name, SOURCE_ID(source));
	return ret;
}

/* Round robin takes one tuple at a time. */
uint32_t dfi__open_lane_most_room(const struct dfi_source *source, uint32_t n,
    const char **why, const char **instead)
{
	if (source->router.routing != DFI_ROUTE_ROUND_ROBIN)
		return n;
	*why = "do not go to one target by DFI_ROUTE_ROUND_ROBIN";
	*instead = "create the flow with DFI_ROUTE_ANY or DFI_ROUTE_DIRECT";
	return 1;
}

/* The rest of begun segments, to which no lane points. */
uint64_t dfi__open_lane_waiting_bytes(const struct dfi_source *source)
{
	const struct open_source *open = open_source(source);
	bool points = source->writers[0].segment != NULL;
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; open->routed && i < open_seats(source); i++)
		if (open->ends[i] && !(points && i == open->chosen))
			bytes += source_filled(open->ends[i], 0);
	return bytes;
}
