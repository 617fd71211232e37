/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc. A container or a service may hide some or all of it. */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "error.h"
#include "files.h"

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* FNV-1a. */
static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t size)
{
	const unsigned char *at = bytes;

	for (; size > 0; size--, at++)
		hash = (hash ^ *at) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t read_boot(void)
{
	int fd = file_up(
	    open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
	char text[64];
	ssize_t got;

	if (fd < 0)
		return 0;
	got = read(fd, text, sizeof(text));
	close(fd);
	return got > 0 ? mix_bytes(HASH_START, text, (size_t)got) : 0;
}

void dfi__host_read(struct host *host)
{
	struct stat ns;

	host->boot = read_boot();
	host->net = stat("/proc/self/ns/net", &ns) == 0 ? ns.st_ino : 0;
	host->id = host->boot && host->net
	    ? mix_bytes(host->boot, &host->net, sizeof(host->net))
	    : 0;
}

enum host_distance dfi__host_distance(
    const struct host *a, const struct host *b)
{
	if (a->id && a->id == b->id)
		return HOST_SAME;
	if (!a->boot || !b->boot)
		return HOST_UNKNOWN;
	if (a->boot != b->boot)
		return HOST_OTHER;
	return a->net && b->net ? HOST_OTHER_NETWORK : HOST_UNKNOWN;
}

const char *dfi__host_why_apart(enum host_distance distance)
{
	switch (distance) {
	case HOST_OTHER:
		return "it is on another machine";
	case HOST_OTHER_NETWORK:
		return "it is in another network namespace of this machine, "
		       "where the abstract socket that passes memory can't be "
		       "reached from here: have both in one network namespace";
	case HOST_UNKNOWN:
		return "whether it is on this machine, and in this network "
		       "namespace, can't be told, as /proc (sys/kernel/random/"
		       "boot_id, self/ns/net) is hidden from it or from this "
		       "process";
	default:
		return "it is on this machine";
	}
}

int dfi__host_explain(int err, enum host_distance distance)
{
	char said[ERROR_TEXT_SIZE];

	if (err != -ECONNRESET || distance != HOST_UNKNOWN)
		return err;
	snprintf(said, sizeof(said), "%s", dfi_errmsg());
	return dfi__fail(err, "%s, or can't be reached from here: %s", said,
	    dfi__host_why_apart(distance));
}
