/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of all kinds. */
#include "kinds.h"

#include <dfi/flow.h>

/* Its lanes are rings, and its targets read them in turn. */
static const struct kind shuffle_kind;

static const struct kind *const kinds[] = {
	[DFI_SHUFFLE] = &shuffle_kind,
	[DFI_REPLICATE] = &dfi__replicate_kind,
	[DFI_COMBINE] = &dfi__combine_kind,
};

const struct kind *dfi__kind(uint32_t flow_kind)
{
	return kinds[flow_kind];
}
