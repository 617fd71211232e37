/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On all machines except the first, the process that the user starts only
 * starts nodes, and ends when they have ended. Flows carry their task and
 * reports.
 */
#include "share.h"
#include "nodes.h"

int share_run(const struct options *options, char **argv)
{
	struct children children = { .list = NULL };
	int ret;

	ret = nodes_start(
	    &children, options, argv, options->registry, options->run, -1);
	/* No limit: each node limits its own waits. */
	if (children_end(&children, ret ? 0 : -1))
		ret = -1;
	return ret;
}
