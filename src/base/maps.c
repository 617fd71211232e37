/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the lines of /proc/self/maps: proc(5). */
#include "maps.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "files.h"

/*
 * The kernel refuses one more when there are as many, and some that a mapping
 * would have split or joined are not told from it.
 */
#define MARGIN 4

/* It needs no memory: there may be none for anything that is mapped. */
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
