/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a region, for its owner. */
#ifndef DFI_FLOWS_CONTEXT_REGION_H
#define DFI_FLOWS_CONTEXT_REGION_H

#include "transport/transport.h"

/*
 * End all exports. The region is destroyed now, or when no peer can write to it
 * any more.
 */
static inline void region_close(struct region *region)
{
	struct export *export = region->exports, *next;

	for (; export; export = next) {
		next = export->next;
		export->transport->ops->region.unexport(export);
	}
	if (region_leave(region))
		region->transport->ops->region.destroy(region);
}

#endif
