/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/PID/stat and the namespaces of this process. */
#include "process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "files.h"

/* After the name of the program in /proc/PID/stat, counted from 1. */
#define STATE 1
#define START_TIME 20

/*
 * Field number of "PID (NAME) STATE ...", as far as it fits the line; a name
 * may have parentheses, too.
 */
static const char *read_field(uint32_t pid, unsigned number, char line[512])
{
	char path[32], *at;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = file_up(open(path, O_RDONLY | O_CLOEXEC));
	if (fd < 0)
		return NULL;
	got = read(fd, line, 511);
	close(fd);
	if (got <= 0)
		return NULL;
	line[got] = '\0';
	for (at = strrchr(line, ')'); at && number; number--) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	return at;
}

bool dfi__process_is_stopped(uint32_t pid)
{
	char line[512];
	const char *state = read_field(pid, STATE, line);

	return state && (*state == 'T' || *state == 't');
}

uint64_t dfi__process_start(uint32_t pid)
{
	char line[512];
	const char *start = read_field(pid, START_TIME, line);

	return start ? strtoull(start, NULL, 10) : 0;
}

static uint64_t namespace(const char *path)
{
	struct stat ns;

	return stat(path, &ns) == 0 ? ns.st_ino : 0;
}

uint64_t dfi__process_space(void)
{
	uint64_t pids = namespace("/proc/self/ns/pid");
	ssize_t length;
	char self[32];

	length = readlink("/proc/self", self, sizeof(self) - 1);
	if (length <= 0 || !pids)
		return 0;
	self[length] = '\0';
	if (strtoul(self, NULL, 10) != (unsigned long)getpid())
		return 0;
	/* The numbers of namespaces are of 32 bits. */
	return pids << 32 ^ namespace("/proc/self/ns/time");
}
