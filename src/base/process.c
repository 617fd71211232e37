/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/PID/stat and the namespaces of this process. */
#include "process.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "kernel_file.h"

/* Field numbers after the program's name in /proc/PID/stat, counted from 1. */
#define STATE 1
#define START_TIME 20

/* Find a field of "PID (NAME) STATE ...". The name may have parentheses. */
static const char *find_field(const char *text, unsigned number)
{
	const char *at = text ? strrchr(text, ')') : NULL;

	for (; at && number; number--) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	return at;
}

bool dfi__process_is_stopped(uint32_t pid)
{
	char *text = dfi__kernel_text("/proc/%u/stat", pid);
	const char *state = find_field(text, STATE);
	bool is = state && (*state == 'T' || *state == 't');

	free(text);
	return is;
}

uint64_t dfi__process_start(uint32_t pid)
{
	char *text = dfi__kernel_text("/proc/%u/stat", pid);
	const char *start = find_field(text, START_TIME);
	uint64_t time = start ? strtoull(start, NULL, 10) : 0;

	free(text);
	return time;
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
	/* Numbers of namespaces have 32 bits. */
	return pids << 32 ^ namespace("/proc/self/ns/time");
}
