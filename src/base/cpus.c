/* SPDX-License-Identifier: Apache-2.0 */
/* See cpus.h. The kernel's own lists in /sys have the same form. */
#include "cpus.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kernel_file.h"

static bool has(const struct cpus *cpus, unsigned cpu)
{
	return CPU_ISSET_S(cpu, sizeof(*cpus), cpus->sets);
}

/* Parse the number at *at, and move *at past it. */
static int take_number(const char **at, unsigned *number)
{
	if (!isdigit((unsigned char)**at))
		return -EINVAL;
	for (*number = 0; isdigit((unsigned char)**at); ++*at) {
		*number = *number * 10 + (unsigned)(**at - '0');
		if (*number >= CPUS_MAX)
			return -EINVAL;
	}
	return 0;
}

int dfi__cpus_parse(const char *list, struct cpus *cpus)
{
	unsigned first, last;

	memset(cpus, 0, sizeof(*cpus));
	for (;;) {
		if (take_number(&list, &first) < 0)
			return -EINVAL;
		last = first;
		if (*list == '-') {
			list++;
			if (take_number(&list, &last) < 0 || last < first)
				return -EINVAL;
		}
		for (; first <= last; first++)
			CPU_SET_S(first, sizeof(*cpus), cpus->sets);
		if (!*list)
			return 0;
		if (*list++ != ',')
			return -EINVAL;
	}
}

void dfi__cpus_format(const struct cpus *cpus, char *list, size_t size)
{
	unsigned first, last;
	size_t used = 0;
	int n;

	list[0] = '\0';
	for (first = 0; first < CPUS_MAX; first = last + 1) {
		last = first;
		if (!has(cpus, first))
			continue;
		while (last + 1 < CPUS_MAX && has(cpus, last + 1))
			last++;
		n = first == last
		    ? snprintf(list + used, size - used, "%s%u",
			  used ? "," : "", first)
		    : snprintf(list + used, size - used, "%s%u-%u",
			  used ? "," : "", first, last);
		if (n < 0 || (size_t)n >= size - used) {
			if (size > 3)
				strcpy(
				    list + (used < size - 4 ? used : size - 4),
				    "...");
			return;
		}
		used += (size_t)n;
	}
}

/* The processors that are online; false: unknown. */
static bool read_online(struct cpus *cpus)
{
	char *list = dfi__kernel_text("/sys/devices/system/cpu/online");
	bool known = false;

	if (list) {
		list[strcspn(list, "\n")] = '\0';
		known = dfi__cpus_parse(list, cpus) == 0;
	}
	free(list);
	return known;
}

static bool is_within(const struct cpus *cpus, const struct cpus *all)
{
	struct cpus both;

	CPU_AND_S(sizeof(both), both.sets, cpus->sets, all->sets);
	return CPU_EQUAL_S(sizeof(both), both.sets, cpus->sets);
}

int dfi__cpus_read(const char *variable, const char *list, struct cpus *cpus)
{
	struct cpus online;
	char allowed[128] = "unknown";
	bool known = read_online(&online);

	if (dfi__cpus_parse(list, cpus) == 0 &&
	    (!known || is_within(cpus, &online)))
		return 0;
	if (known)
		dfi__cpus_format(&online, allowed, sizeof(allowed));
	return dfi__fail(-EINVAL,
	    "%s=%.100s%s is not valid; it is a list of processors such as "
	    "0-3,8, and those that are online are %s",
	    variable, list, strlen(list) > 100 ? "..." : "", allowed);
}

bool dfi__cpus_of_thread(int tid, struct cpus *cpus)
{
	memset(cpus, 0, sizeof(*cpus));
	return sched_getaffinity(tid, sizeof(*cpus), cpus->sets) == 0;
}
