/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the lines of /proc/self/maps: proc(5). */
#include "maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "error.h"
#include "files.h"
#include "memory.h"

/*
 * The kernel refuses a mapping at the limit. The margin is for mappings that
 * the refused one would have split or joined.
 */
#define MARGIN 4

/* Without memory: there may be none for mappings. */
static unsigned long count_lines(int fd)
{
	char text[4096], *at;
	unsigned long n = 0;
	ssize_t got;

	while ((got = read(fd, text, sizeof(text))) > 0)
		for (at = text;
		     (at = memchr(at, '\n', (size_t)(text + got - at))); at++)
			n++;
	return n;
}

bool dfi__maps_are_full(unsigned long *limit)
{
	char text[32] = "";
	unsigned long n = 0;
	ssize_t got;
	int fd;

	fd = file_up(open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC));
	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	*limit = got > 0 ? strtoul(text, NULL, 10) : 0;
	fd = file_up(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
	if (fd < 0)
		return false;
	n = count_lines(fd);
	close(fd);
	return *limit && n + MARGIN >= *limit;
}

int dfi__fail_map(uint64_t size, const char *who, ...)
{
	uint64_t space, data;
	unsigned long limit;
	int err = errno;
	char name[256];
	va_list ap;

	va_start(ap, who);
	vsnprintf(name, sizeof(name), who, ap);
	va_end(ap);
	if (err != ENOMEM && err != EAGAIN)
		return dfi__fail(-EIO,
		    "%s: mmap or madvise: %s: look at what confines the "
		    "process (seccomp, a security module)",
		    name, strerrordesc_np(err));
	if (dfi__maps_are_full(&limit))
		return dfi__fail(-ENOMEM,
		    "%s: memory can't be mapped, as the process has as many "
		    "mappings as it may: %lu: raise the limit (sysctl "
		    "vm.max_map_count), or have fewer",
		    name, limit);
	if (dfi__memory_address_room(&space) < size)
		return dfi__fail(-ENOMEM,
		    "%s: %" PRIu64 " bytes don't fit the address space that "
		    "the process may have, of %" PRIu64 " bytes: raise the "
		    "limit (ulimit -v)",
		    name, size, space);
	if (dfi__memory_data_room(&data) < size)
		return dfi__fail(-ENOMEM,
		    "%s: %" PRIu64 " bytes don't fit the private memory that "
		    "the process may have, of %" PRIu64 " bytes: raise the "
		    "limit (ulimit -d)",
		    name, size, data);
	return dfi__fail(-ENOMEM,
	    "%s: %" PRIu64 " bytes could not be had: out of memory", name,
	    size);
}
