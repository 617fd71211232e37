/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/PID/stat. */
#include "process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool dfi__process_is_stopped(uint32_t pid)
{
	char path[32], line[512];
	const char *state;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (got <= 0)
		return false;
	line[got] = '\0';
	/* "PID (NAME) STATE ...", and a name may have parentheses, too. */
	state = strrchr(line, ')');
	return state &&
	    (!strncmp(state, ") T", 3) || !strncmp(state, ") t", 3));
}
