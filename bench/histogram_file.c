/* SPDX-License-Identifier: Apache-2.0 */
/* Writes histograms. A line is of one bucket, whose width is below 0.8 %. */
#include "histogram_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "../common/complain.h"

bool histogram_file_open(struct histogram_file *file, const char *name)
{
	*file = (struct histogram_file){ .name = name };
	if (!name)
		return true;
	file->file = fopen(name, "we");
	if (!file->file) {
		complain(
		    "--histogram: cannot write %s: %s", name, strerror(errno));
		return false;
	}
	fputs("side,tuple_size,targets,ns,count\n", file->file);
	return true;
}

void histogram_file_add(
    struct histogram_file *file, const char *name, const struct side *side)
{
	const struct histogram *trips = side->trips;
	unsigned i;

	for (i = 0; file->file && i < HISTOGRAM_BUCKETS; i++)
		if (trips->buckets[i])
			fprintf(file->file,
			    "%s,%" PRIu32 ",%" PRIu32 ",%.1f,%" PRIu64 "\n",
			    name, side->plan.tuple_size, side->plan.n_targets,
			    histogram_middle(i) / side->ticks_per_ns,
			    trips->buckets[i]);
}

bool histogram_file_close(struct histogram_file *file)
{
	bool failed;

	if (!file->file)
		return true;
	failed = ferror(file->file);
	if (fclose(file->file) == 0 && !failed)
		return true;
	complain(
	    "--histogram: cannot write %s: %s", file->name, strerror(errno));
	return false;
}
