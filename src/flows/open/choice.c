/* SPDX-License-Identifier: Apache-2.0 */
/* Where tuples without keys go, and what a source that returns has to repeat.
 */
#include "flows/open/choice.h"

#include "base/bits.h"
#include "flows/open/bugs.h"

void dfi__open_choice_init(struct open_tables *tables, uint32_t n_ways,
    uint32_t n_targets, void *memory)
{
	struct open_table *table = &tables->newest;
	uint32_t i;

	dfi__open_tables_init(tables, n_ways, n_targets, memory);
	table->number = 1;
	for (i = 0; i < n_ways; i++)
		table->owners[i] = table->from[i] = n_ways == n_targets
		    ? (uint16_t)i
		    : OPEN_NOBODY;
}

void dfi__open_choice_learn(
    struct open_tables *tables, const struct open_seats *seats)
{
	uint32_t t;

	for (t = 0; t < tables->newest.n_targets; t++)
		tables->newest.incarnations[t] =
		    seats->seats[OPEN_TARGET][t].holder.incarnation;
}

void dfi__open_choose(
    struct open_tables *tables, struct keyed_source *source, uint16_t seat)
{
	tables->newest.owners[0] = tables->newest.from[0] = seat;
	dfi__open_source_reroute(source, 0);
}

bool dfi__open_resume_highest(const struct open_resume *resume,
    const struct open_seats *seats, uint32_t min_targets, uint64_t *highest)
{
	uint64_t position = 0;
	uint32_t t;

	if (!seats->begun || seats->n_attached[OPEN_TARGET] < min_targets)
		return false;
	for (t = 0; t < seats->n[OPEN_TARGET]; t++) {
		uint64_t holder =
		    seats->seats[OPEN_TARGET][t].holder.incarnation;

		if (!holder)
			continue;
		if (resume->incarnations[t] != holder)
			return false;
		position = max_u64(position, resume->positions[t]);
	}
	*highest = position;
	return true;
}
