/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the machine. What can't be found out is "unknown", not an error. */
#include "host.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "runner.h"

#define TEXT_SIZE 256

/* The value of the first line of /proc/cpuinfo that starts with name. */
static bool cpuinfo(const char *name, char *value)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[TEXT_SIZE];
	bool found = false;
	char *colon;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		colon = strchr(line, ':');
		if (strncmp(line, name, strlen(name)) != 0 || !colon)
			continue;
		colon += 1 + strspn(colon + 1, " \t");
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(value, TEXT_SIZE, "%s", colon);
		found = true;
	}
	fclose(file);
	return found;
}

/* Processor time used and passed since boot, of all cores, in ticks. */
static bool read_stat(double *used, double *passed)
{
	FILE *file = fopen("/proc/stat", "re");
	double user, nice, system, idle, iowait, irq, softirq, steal;
	int n;

	if (!file)
		return false;
	n = fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice,
	    &system, &idle, &iowait, &irq, &softirq, &steal);
	fclose(file);
	if (n != 8)
		return false;
	*used = user + nice + system + irq + softirq + steal;
	*passed = *used + idle + iowait;
	return true;
}

/*
 * How many cores are busy while this process sleeps. The load average lags by a
 * minute, so it still has this benchmark's last run.
 */
static double cores_in_use(uint32_t cores)
{
	const struct timespec pause = { .tv_nsec = 200 * 1000 * 1000 };
	double used[2], passed[2];

	if (!read_stat(&used[0], &passed[0]))
		return 0;
	nanosleep(&pause, NULL);
	if (!read_stat(&used[1], &passed[1]) || passed[1] <= passed[0])
		return 0;
	return cores * (used[1] - used[0]) / (passed[1] - passed[0]);
}

json_t *host_describe(unsigned threads)
{
	struct utsname names = { 0 };
	char cpu[TEXT_SIZE] = "unknown";
	int32_t cpus[MAX_CPUS];
	uint32_t cores = usable_cpus(cpus, MAX_CPUS);
	double load = 0;

	uname(&names);
	if (!cpuinfo("model name", cpu))
		cpuinfo("CPU implementer", cpu);
	getloadavg(&load, 1);
	return json_pack("{s:s, s:s, s:i, s:s, s:s, s:f, s:f, s:b, s:b}",
	    "name", names.nodename, "cpu", cpu, "cores", (int)cores, "kernel",
	    names.release, "arch", names.machine, "load", load, "in_use",
	    cores_in_use(cores), "busy", load > cores / 2.0, "oversubscribed",
	    threads > cores);
}

/* Whether the processors say that a hypervisor runs them. */
static bool is_virtual(void)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[4096];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = strncmp(line, "flags", 5) == 0 &&
		    strstr(line, " hypervisor") != NULL;
	if (file)
		fclose(file);
	return found;
}

void host_device(const char *device, char *text, size_t size)
{
	char path[PATH_MAX];
	bool soft;

	/* Only rdma_rxe has this attribute, the name of its Ethernet device. */
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/parent", device);
	soft = *device && access(path, R_OK) == 0;
	snprintf(text, size, "%s%s", device,
	    !soft              ? ""
		: is_virtual() ? " (soft-RoCE in a VM)"
			       : " (soft-RoCE)");
}
