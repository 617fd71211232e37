/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A partition's file is a struct header, and the results. It is replaced by
 * rename(), under a lock on FOLDER/partition.N.lock.
 */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "../../common/complain.h"

#define MAGIC UINT64_C(0x314d525453494644)

struct header {
	uint64_t magic, instance, epoch, n;
	uint64_t seen[PRODUCERS];
};

enum {
	FIRST_ROOM = 64
};

/* ---- In memory ---- */

static struct result *find(
    struct result *results, uint64_t room, uint64_t window, uint64_t sensor)
{
	uint64_t at = dfi_hash64(window ^ dfi_hash64(sensor)) & (room - 1);

	while (results[at].count &&
	    (results[at].window != window || results[at].sensor != sensor))
		at = (at + 1) & (room - 1);
	return &results[at];
}

/* Room for one more result. */
static int grow(struct partition *partition)
{
	uint64_t room = partition->room ? partition->room * 2 : FIRST_ROOM, i;
	struct result *results, *from;

	if (partition->n * 2 < partition->room)
		return 0;
	results = calloc(room, sizeof(*results));
	if (!results)
		return -ENOMEM;
	for (i = 0; i < partition->room; i++) {
		from = &partition->results[i];
		if (from->count)
			*find(
			    results, room, from->window, from->sensor) = *from;
	}
	free(partition->results);
	partition->results = results;
	partition->room = room;
	return 0;
}

int partition_add(
    struct partition *partition, const struct tuple *tuple, bool late)
{
	uint64_t window = tuple->time / WINDOW_MS * WINDOW_MS;
	struct result *result;

	if (grow(partition) < 0)
		return -ENOMEM;
	result = find(
	    partition->results, partition->room, window, tuple->sensor);
	if (!result->count) {
		partition->n++;
		*result = (struct result){
			.window = window,
			.sensor = tuple->sensor,
			.min = tuple->value,
			.max = tuple->value,
		};
	}
	result->count++;
	result->sum += tuple->value;
	if (tuple->value < result->min)
		result->min = tuple->value;
	if (tuple->value > result->max)
		result->max = tuple->value;
	result->corrections += late;
	return 0;
}

void partition_free(struct partition *partition)
{
	free(partition->results);
	*partition = (struct partition){ .number = partition->number };
}

/* ---- Files ---- */

static void name_file(char *name, size_t size, const char *folder,
    unsigned number, const char *end)
{
	snprintf(name, size, "%s/partition.%u%s", folder, number, end);
}

/* 1: read; 0: there is no file; -1: a complaint. */
static int read_header(FILE *file, const char *name, struct header *header)
{
	if (fread(header, sizeof(*header), 1, file) == 1 &&
	    header->magic == MAGIC)
		return 0;
	return complain("%s: no partition of this program", name);
}

static int read_results(
    FILE *file, const char *name, struct partition *partition, uint64_t n)
{
	struct result result;
	uint64_t i;

	for (i = 0; i < n; i++) {
		if (fread(&result, sizeof(result), 1, file) != 1 ||
		    !result.count)
			return complain("%s: it is cut off", name);
		if (grow(partition) < 0)
			return complain("%s: no memory", name);
		*find(partition->results, partition->room, result.window,
		    result.sensor) = result;
		partition->n++;
	}
	return 0;
}

/* results: also them. */
static int read_file(const char *folder, unsigned number, bool results,
    struct partition *partition)
{
	struct header header;
	char name[4096];
	FILE *file;
	int ret;

	*partition = (struct partition){ .number = number };
	name_file(name, sizeof(name), folder, number, "");
	file = fopen(name, "re");
	if (!file)
		return errno == ENOENT
		    ? 0
		    : complain("%s: %s", name, strerror(errno));
	ret = read_header(file, name, &header);
	if (!ret) {
		partition->instance = header.instance;
		partition->epoch = header.epoch;
		memcpy(partition->seen, header.seen, sizeof(header.seen));
	}
	if (!ret && results)
		ret = read_results(file, name, partition, header.n);
	fclose(file);
	if (ret < 0)
		partition_free(partition);
	return ret;
}

int partition_load(
    const char *folder, unsigned number, struct partition *partition)
{
	return read_file(folder, number, true, partition);
}

static int write_results(const struct partition *partition, FILE *file)
{
	struct header header = {
		.magic = MAGIC,
		.instance = partition->instance,
		.epoch = partition->epoch,
		.n = partition->n,
	};
	uint64_t i;

	memcpy(header.seen, partition->seen, sizeof(header.seen));
	fwrite(&header, sizeof(header), 1, file);
	for (i = 0; i < partition->room; i++)
		if (partition->results[i].count)
			fwrite(&partition->results[i], sizeof(struct result), 1,
			    file);
	return ferror(file) ? -1 : 0;
}

static int write_file(const char *folder, const struct partition *partition)
{
	char name[4096], new[4096];
	FILE *file;

	name_file(name, sizeof(name), folder, partition->number, "");
	name_file(new, sizeof(new), folder, partition->number, ".new");
	file = fopen(new, "we");
	if (!file)
		return complain("%s: %s", new, strerror(errno));
	if (write_results(partition, file) | fclose(file) ||
	    rename(new, name) < 0)
		return complain("%s: %s", new, strerror(errno));
	return 0;
}

/* A descriptor that holds the lock, or -1 after a complaint. */
static int lock(const char *folder, unsigned number)
{
	char name[4096];
	int fd, ret;

	name_file(name, sizeof(name), folder, number, ".lock");
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return complain("%s: %s", name, strerror(errno));
	while ((ret = flock(fd, LOCK_EX)) < 0 && errno == EINTR)
		;
	if (!ret)
		return fd;
	complain("%s: %s", name, strerror(errno));
	close(fd);
	return -1;
}

/* Whether the file has a later owner. A flow that was made anew begins anew. */
static bool is_later(
    const struct partition *file, uint64_t instance, uint64_t epoch)
{
	return file->instance == instance && file->epoch > epoch;
}

int partition_take(const char *folder, unsigned number, uint64_t instance,
    uint64_t epoch, struct partition *partition)
{
	int fd = lock(folder, number);
	int ret = fd < 0 ? -1 : read_file(folder, number, true, partition);

	if (!ret && is_later(partition, instance, epoch)) {
		partition_free(partition);
		ret = -ESTALE;
	}
	if (!ret) {
		partition->instance = instance;
		partition->epoch = epoch;
		ret = write_file(folder, partition);
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

int partition_save(const char *folder, const struct partition *partition)
{
	struct partition file;
	int fd = lock(folder, partition->number);
	int ret = fd < 0 ? -1
			 : read_file(folder, partition->number, false, &file);

	/* Of another flow: this owner is from before it was made anew. */
	if (!ret &&
	    (file.instance != partition->instance ||
		file.epoch != partition->epoch))
		ret = -ESTALE;
	if (!ret)
		ret = write_file(folder, partition);
	if (fd >= 0)
		close(fd);
	return ret;
}

/* ---- All partitions ---- */

int store_seen(const char *folder, unsigned producer, uint64_t *seen)
{
	struct partition file;
	unsigned i;

	for (i = 0; i < PARTITIONS; i++) {
		if (read_file(folder, i, false, &file) < 0)
			return -1;
		seen[i] = file.seen[producer];
	}
	return 0;
}

int store_sums(const char *folder, struct store_sums *sums)
{
	struct partition partition;
	unsigned i, j;
	uint64_t at;

	*sums = (struct store_sums){ .events = 0 };
	for (i = 0; i < PARTITIONS; i++) {
		if (partition_load(folder, i, &partition) < 0)
			return -1;
		for (j = 0; j < PRODUCERS; j++)
			sums->events += partition.seen[j];
		sums->results += partition.n;
		for (at = 0; at < partition.room; at++)
			sums->corrections += partition.results[at].corrections;
		partition_free(&partition);
	}
	return 0;
}

static int by_window(const void *a, const void *b)
{
	const struct result *x = a, *y = b;

	if (x->window != y->window)
		return x->window < y->window ? -1 : 1;
	return x->sensor < y->sensor ? -1 : x->sensor > y->sensor;
}

static void print_results(struct result *results, uint64_t n)
{
	uint64_t i;

	qsort(results, n, sizeof(*results), by_window);
	for (i = 0; i < n; i++)
		printf("%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64
		       ",%" PRId64 ",%" PRId64 "\n",
		    results[i].window, results[i].sensor, results[i].count,
		    results[i].sum, results[i].min, results[i].max);
}

int store_print(const char *folder)
{
	struct partition partition;
	struct result *all = NULL, *more;
	uint64_t n = 0, at;
	unsigned i;
	int ret = 0;

	for (i = 0; !ret && i < PARTITIONS; i++) {
		ret = partition_load(folder, i, &partition);
		if (ret < 0)
			break;
		more = realloc(all, (n + partition.n + 1) * sizeof(*all));
		if (more)
			all = more;
		else
			ret = complain("no memory for %" PRIu64 " results", n);
		for (at = 0; more && at < partition.room; at++)
			if (partition.results[at].count)
				all[n++] = partition.results[at];
		partition_free(&partition);
	}
	if (!ret)
		print_results(all, n);
	free(all);
	return ret;
}
