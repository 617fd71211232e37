/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On all machines but the first, the process that the user starts only starts
 * nodes, and ends when they have. They get their task, and report, by flows.
 */
#include "share.h"
#include "children.h"

#include <time.h>

/* How long nodes get to end when one has failed: they hear it by their flows.
 */
#define FAILURE_GRACE_MS 5000

int share_run(const struct options *options, char **argv)
{
	static const struct timespec tick = { 0, 20000000 };
	struct children children;
	int ret;

	ret = children_start(
	    &children, options, argv, options->registry, options->run, -1);
	/* For as long as the join takes: each node's waits have their limits.
	 */
	while (ret == 0 && children.n_running > 0) {
		nanosleep(&tick, NULL);
		ret = children_check(&children);
	}
	if (children.pids && children_end(&children, FAILURE_GRACE_MS))
		ret = -1;
	return ret;
}
