/* SPDX-License-Identifier: Apache-2.0 */
/* The table of experiments, in two parts. */
#include "experiments.h"

#include <stddef.h>
#include <strings.h>

#include "experiments_impl.h"

uint32_t experiments_count(void)
{
	return n_paper_experiments + n_own_experiments;
}

const struct experiment *experiment_at(uint32_t number)
{
	return number < n_paper_experiments
	    ? &paper_experiments[number]
	    : &own_experiments[number - n_paper_experiments];
}

const struct experiment *experiment_find(const char *text)
{
	const struct experiment *experiment;
	uint32_t i;

	for (i = 0; i < experiments_count(); i++) {
		experiment = experiment_at(i);
		if (strcasecmp(text, experiment->id) == 0 ||
		    strcasecmp(text, experiment->name) == 0)
			return experiment;
	}
	return NULL;
}
