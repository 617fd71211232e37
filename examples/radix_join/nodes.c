/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of node processes; see nodes.h. */
#include "nodes.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_EXTRA 4

int nodes_start(struct children *children, const struct options *options,
    char **argv, const char *registry, const char *run, int image_fd)
{
	char node[32], run_text[MAX_RUN_NAME + 16], image[32], address[512];
	char *extra[MAX_EXTRA + 1] = { node, run_text };
	uint32_t i, n = 2;
	char name[32];

	snprintf(run_text, sizeof(run_text), "--run=%s", run);
	if (registry) {
		snprintf(address, sizeof(address), "--registry=%s", registry);
		extra[n++] = address;
	}
	if (image_fd >= 0) {
		snprintf(image, sizeof(image), "--image-fd=%d", CHILD_FD);
		extra[n++] = image;
	}
	for (i = 0; i < options->local_nodes; i++) {
		snprintf(name, sizeof(name), "node %" PRIu32,
		    options->first_node + i);
		snprintf(node, sizeof(node), "--node=%" PRIu32,
		    options->first_node + i);
		if (children_spawn(children, name, argv, extra, image_fd))
			return -1;
	}
	return 0;
}
