/* SPDX-License-Identifier: Apache-2.0 */
/* Input positions of one source's seat: seen, acknowledged, given back. */
#include <string.h>

#include "base/bits.h"
#include "flows/open/bugs.h"
#include "flows/open/replay.h"

size_t dfi__open_inputs_size(uint32_t n_partitions)
{
	return 2 * sizeof(uint64_t) * n_partitions;
}

void dfi__open_inputs_init(
    struct open_inputs *inputs, uint32_t n_partitions, void *memory)
{
	memset(inputs, 0, sizeof(*inputs));
	memset(memory, 0, dfi__open_inputs_size(n_partitions));
	inputs->n_partitions = n_partitions;
	inputs->seen = memory;
	inputs->acked = inputs->seen + n_partitions;
}

void dfi__open_inputs_take(
    struct open_inputs *inputs, uint32_t partition, uint64_t position)
{
	inputs->seen[partition] = OPEN_BUG(FORGETFUL) ? 0 : position;
	inputs->acked[partition] = position;
	if (!OPEN_BUG(ANY_NEWEST))
		inputs->newest = max_u64(inputs->newest, position);
}

void dfi__open_inputs_mark(
    struct open_inputs *inputs, uint64_t position, uint64_t table)
{
	inputs->mark = position;
	inputs->mark_table = table;
}

void dfi__open_inputs_ack(
    struct open_inputs *inputs, const struct keyed_target *target)
{
	uint32_t p;

	for (p = 0; p < inputs->n_partitions; p++) {
		uint64_t *acked = &inputs->acked[p];

		if (!open_target_holds(target, p))
			continue;
		*acked = max_u64(*acked, inputs->seen[p]);
		if (target->gained[p] <= inputs->mark_table ||
		    OPEN_BUG(ANY_MARK))
			*acked = max_u64(*acked, inputs->mark);
	}
}
