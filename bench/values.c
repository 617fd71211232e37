/* SPDX-License-Identifier: Apache-2.0 */
/* Reads values from text, and names enums, whichever option a value is for. */
#include "values.h"

#include <dfi/dfi.h>
#include <errno.h>
#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/usage.h"
#include "options.h"
#include "peer.h"

/* Read a size at the start of text; *rest is what follows. */
static bool read_size(const char *text, uint64_t *size, const char **rest)
{
	static const char suffixes[] = "KMG";
	const char *suffix;
	uint64_t value;
	unsigned shift;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return false;
	suffix = *end ? strchr(suffixes, *end) : NULL;
	if (suffix) {
		shift = 10 * ((unsigned)(suffix - suffixes) + 1);
		if (value > UINT64_MAX >> shift)
			return false;
		value <<= shift;
		end++;
	}
	*size = value;
	*rest = end;
	return true;
}

bool parse_size(const char *text, uint64_t *size)
{
	const char *rest;

	return read_size(text, size, &rest) && !*rest;
}

bool parse_duration(const char *text, double *seconds)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "ms", 1e-3 }, { "us", 1e-6 },
		{ "m", 60 }, { "h", 3600 } };
	char *end;
	double number = strtod(text, &end);
	size_t i;

	if (end == text || !isfinite(number))
		return false;
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].unit) == 0) {
			*seconds = number * units[i].seconds;
			return true;
		}
	return false;
}

bool parse_size_list(
    const char *text, uint64_t *sizes, uint32_t max, uint32_t *n)
{
	uint32_t used = 0;

	for (;;) {
		if (used == max || !read_size(text, &sizes[used], &text))
			return false;
		used++;
		if (!*text)
			break;
		if (*text++ != ',')
			return false;
	}
	*n = used;
	return true;
}

bool parse_cpu_list(const char *text, int32_t *cpus, uint32_t max, uint32_t *n)
{
	uint32_t used = 0;
	uint64_t first, last;

	for (;;) {
		if (!read_size(text, &first, &text))
			return false;
		last = first;
		if (*text == '-' && !read_size(text + 1, &last, &text))
			return false;
		if (last < first || last >= CPU_SETSIZE)
			return false;
		for (; first <= last; first++) {
			if (used == max)
				return false;
			cpus[used++] = (int32_t)first;
		}
		if (!*text)
			break;
		if (*text++ != ',')
			return false;
	}
	*n = used;
	return true;
}

bool parse_geometry(const char *text, struct raw_geometry *geometry)
{
	uint64_t size, count;
	const char *rest;

	if (!read_size(text, &size, &rest) || *rest != 'x' ||
	    !parse_size(rest + 1, &count) || size < 8 ||
	    size > DFI_MAX_SEGMENT_SIZE || !count ||
	    count > DFI_MAX_SEGMENT_COUNT)
		return false;
	*geometry = (struct raw_geometry){
		.segment_size = (uint32_t)size,
		.segment_count = (uint32_t)count,
	};
	return true;
}

int64_t parse_number(const struct argp_state *state, const char *option,
    const char *text, int64_t min, int64_t max)
{
	int64_t value;
	char *end;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (end == text || *end || errno || value < min || value > max)
		usage_error(state, "--%s '%s': not a number from %lld to %lld",
		    option, text, (long long)min, (long long)max);
	return value;
}

uint32_t parse_name(const struct argp_state *state, const char *option,
    const char *text, const char *(*name)(uint32_t), uint32_t n)
{
	char names[512] = "";
	size_t used = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (name(i) && strcmp(name(i), text) == 0)
			return i;
	for (i = 0; i < n; i++)
		if (name(i))
			used += (size_t)snprintf(names + used,
			    sizeof(names) - used, "%s%s", used ? ", " : "",
			    name(i));
	usage_error(state, "--%s '%s': choose from %s", option, text, names);
	return 0;
}

void parse_names(const struct argp_state *state, const char *option,
    const char *text, const char *(*name)(uint32_t), uint32_t *values,
    uint32_t max, uint32_t *n)
{
	char names[256], *rest = NULL, *one;
	uint32_t used = 0;

	if (strlen(text) >= sizeof(names))
		usage_error(
		    state, "--%s '%s': more than %u names", option, text, max);
	snprintf(names, sizeof(names), "%s", text);
	for (one = strtok_r(names, ",", &rest); one;
	     one = strtok_r(NULL, ",", &rest)) {
		if (used == max)
			usage_error(state, "--%s '%s': more than %u names",
			    option, text, max);
		values[used++] = parse_name(state, option, one, name, max);
	}
	if (!used)
		usage_error(state, "--%s '%s': no name is given", option, text);
	*n = used;
}

void parse_counts(const struct argp_state *state, const char *option,
    const char *text, const struct count_list *list, uint32_t *n)
{
	uint32_t i;

	if (!parse_size_list(text, list->values, list->max, n))
		usage_error(state,
		    "--%s '%s': not a list of at most %u numbers, as 1,2,4",
		    option, text, list->max);
	for (i = 0; i < *n; i++)
		if (list->values[i] < list->least ||
		    list->values[i] > list->most)
			usage_error(state,
			    "--%s '%s': %lu is not from %lu to %lu", option,
			    text, (unsigned long)list->values[i],
			    (unsigned long)list->least,
			    (unsigned long)list->most);
}

const char *api_name(uint32_t api)
{
	static const char *const names[] = {
		[API_PUSH] = "push",
		[API_CURSOR] = "cursor",
		[API_BATCH] = "batch",
		[API_CLAIM] = "claim",
	};

	return names[api];
}

const char *wait_name(uint32_t wait)
{
	static const char *const names[] = {
		[DFI_WAIT_ADAPTIVE] = "adaptive",
		[DFI_WAIT_SPIN] = "spin",
		[DFI_WAIT_BLOCK] = "block",
	};

	return names[wait];
}

const char *routing_name(uint32_t routing)
{
	static const char *const names[] = {
		[DFI_ROUTE_HASH] = "hash",
		[DFI_ROUTE_ROUND_ROBIN] = "round-robin",
		[DFI_ROUTE_DIRECT] = "direct",
	};

	return names[routing];
}

const char *how_name(uint32_t how)
{
	static const char *const names[] = {
		[HOW_CONSUME] = "consume",
		[HOW_FD] = "fd",
		[HOW_GROUP] = "group",
	};

	return names[how];
}

const char *mode_name(uint32_t mode)
{
	static const char *const names[] = {
		[MODE_NAIVE] = "naive",
		[MODE_MULTICAST] = "multicast",
		[MODE_ORDERED] = "ordered",
	};

	return names[mode];
}

const char *measure_name(uint32_t measure)
{
	static const char *const names[] = {
		[MEASURE_SEGMENTS] = "segments",
		[MEASURE_BATCHES] = "batches",
		[MEASURE_TRIPS] = "trips",
		[MEASURE_TUPLES] = "tuples",
		[MEASURE_SHUFFLE] = "shuffle",
		[MEASURE_REPLICATE] = "replicate",
		[MEASURE_COMBINE] = "combine",
		[MEASURE_THREADS] = "threads",
	};

	return names[measure];
}

const char *rival_name(uint32_t rival)
{
	static const char *const names[] = {
		[RIVAL_FABRIC] = "fi_write",
		[RIVAL_IPERF3] = "iperf3",
		[RIVAL_SEND] = "send",
		[RIVAL_ZEROMQ] = "zeromq",
		[RIVAL_PINGPONG] = "fi_pingpong",
		[RIVAL_MEMCPY] = "memcpy",
		[RIVAL_RAW] = "raw",
		[RIVAL_OPENMPI_SEND] = "openmpi-send",
		[RIVAL_OPENMPI_PUT] = "openmpi-put",
		[RIVAL_MPICH_SEND] = "mpich-send",
		[RIVAL_MPICH_PUT] = "mpich-put",
		[RIVAL_UCX_TAG] = "ucx-tag",
		[RIVAL_UCX_PUT] = "ucx-put",
		[RIVAL_UCX_AM] = "ucx-am",
		[RIVAL_FABRIC_SHM] = "libfabric-shm",
		[RIVAL_PIPE] = "pipe",
		[RIVAL_UNIX] = "unix",
		[RIVAL_ZEROMQ_IPC] = "zeromq-ipc",
		[RIVAL_NNG] = "nng",
		[RIVAL_OPENMPI_ALLTOALL] = "openmpi-alltoall",
		[RIVAL_OPENMPI_ALLTOALLV] = "openmpi-alltoallv",
		[RIVAL_MPICH_ALLTOALL] = "mpich-alltoall",
		[RIVAL_MPICH_ALLTOALLV] = "mpich-alltoallv",
		[RIVAL_OPENMPI_BCAST] = "openmpi-bcast",
		[RIVAL_OPENMPI_REDUCE] = "openmpi-reduce",
		[RIVAL_OPENMPI_THREADS] = "openmpi-threads",
		[RIVAL_OPENMPI_PROCESSES] = "openmpi-processes",
		[RIVAL_MPICH_BCAST] = "mpich-bcast",
		[RIVAL_MPICH_REDUCE] = "mpich-reduce",
		[RIVAL_MPICH_THREADS] = "mpich-threads",
		[RIVAL_MPICH_PROCESSES] = "mpich-processes",
	};

	return names[rival];
}

const char *peer_name(uint32_t rival)
{
	return rival < RIVAL_MEMCPY ? NULL : rival_name(rival);
}

const char *tcp_measure_name(uint32_t measure)
{
	return measure >= MEASURE_TUPLES ? NULL : measure_name(measure);
}

const char *peers_measure_name(uint32_t measure)
{
	return measure == MEASURE_SEGMENTS ? NULL : measure_name(measure);
}

const char *combining_name(uint32_t combining)
{
	static const char *const names[] = {
		[DFI_COMBINING_OFF] = "off",
		[DFI_COMBINING_ADAPTIVE] = "on",
		[DFI_COMBINING_ALWAYS] = "always",
	};

	return names[combining];
}

const char *transport_name(uint32_t transport)
{
	static const char *const names[] = {
		[DFI_TRANSPORT_AUTO] = "auto",
		[DFI_TRANSPORT_SHM] = "shm",
		[DFI_TRANSPORT_VERBS] = "verbs",
		[DFI_TRANSPORT_OFI] = "ofi",
	};

	return names[transport];
}

const char *role_name(uint32_t role)
{
	static const char *const names[] = {
		[BENCH_SOURCE] = "source",
		[BENCH_TARGET] = "target",
	};

	return names[role];
}

const char *notify_name(uint32_t notify)
{
	static const char *const names[] = {
		[NOTIFY_NONE] = "-",
		[NOTIFY_FOOTER] = "footer",
		[NOTIFY_IMM] = "imm",
		[NOTIFY_DATAGRAM] = "datagram",
		[NOTIFY_CHECKSUM] = "checksum",
		[NOTIFY_DATA] = "data",
	};

	return notify <= NOTIFY_DATA && names[notify] ? names[notify] : "mixed";
}
