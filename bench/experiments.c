/* SPDX-License-Identifier: Apache-2.0 */
/* The table of experiments, in parts. */
#include "experiments.h"

#include <stddef.h>
#include <strings.h>

#include "experiments_impl.h"

static const struct {
	const struct experiment *first;
	const uint32_t *n;
} parts[] = {
	{ paper_experiments, &n_paper_experiments },
	{ case_experiments, &n_case_experiments },
	{ own_experiments, &n_own_experiments },
	{ load_experiments, &n_load_experiments },
	{ limits_experiments, &n_limits_experiments },
};

#define N_PARTS (sizeof(parts) / sizeof(parts[0]))

uint32_t experiments_count(void)
{
	uint32_t n = 0;
	size_t i;

	for (i = 0; i < N_PARTS; i++)
		n += *parts[i].n;
	return n;
}

const struct experiment *experiment_at(uint32_t number)
{
	size_t i;

	for (i = 0; number >= *parts[i].n; i++)
		number -= *parts[i].n;
	return &parts[i].first[number];
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
