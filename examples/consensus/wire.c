/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t kv_cluster_id(const char *cluster)
{
	return XXH3_64bits(cluster, strlen(cluster));
}

bool kv_cluster_valid(const char *cluster)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz0123456789_-";
	size_t size = strlen(cluster);

	return size && size <= KV_MAX_CLUSTER &&
	    strspn(cluster, allowed) == size;
}

void kv_peer_flow(char *name, const char *cluster, unsigned from, unsigned to)
{
	snprintf(name, LINK_MAX_NAME, "%s.%u-%u", cluster, from, to);
}

void kv_replica_flow(
    char *name, const char *cluster, unsigned replica, const char *what)
{
	snprintf(name, LINK_MAX_NAME, "%s.%u.%s", cluster, replica, what);
}

void kv_ordered_flow(char *name, const char *cluster, uint64_t id)
{
	snprintf(name, LINK_MAX_NAME, "%s.o%016llx", cluster,
	    (unsigned long long)id);
}

int kv_random_id(uint64_t *id)
{
	/* The kernel gives up to 256 bytes whole, or not at all. */
	for (*id = 0; *id <= KV_VACANT;)
		if (getrandom(id, sizeof(*id), 0) < 0 && errno != EINTR)
			return -errno;
	return 0;
}
