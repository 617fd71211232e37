/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/complain.h"

#define HEADER "time,sensor,value\n"

enum {
	SENSORS = 100,
	LATE_OF = 50, /* of so many events one is late */
	LATEST_MS = 3000,
};

static void name_file(
    struct events *events, const char *folder, unsigned producer)
{
	snprintf(events->name, sizeof(events->name), "%s/events.%u.csv", folder,
	    producer);
}

int events_open(struct events *events, const char *folder, unsigned producer)
{
	char header[64];

	name_file(events, folder, producer);
	events->line = 1;
	events->file = fopen(events->name, "re");
	if (!events->file)
		return complain("%s: %s", events->name, strerror(errno));
	if (fgets(header, sizeof(header), events->file) &&
	    !strcmp(header, HEADER))
		return 0;
	fclose(events->file);
	return complain("%s, line 1: the header is to be %.*s", events->name,
	    (int)sizeof(HEADER) - 2, HEADER);
}

/* A decimal number up to its end character. */
static const char *parse(const char *at, char end, bool sign, int64_t *value)
{
	char *behind;

	if (!(*at >= '0' && *at <= '9') && !(sign && *at == '-'))
		return NULL;
	errno = 0;
	*value = strtoll(at, &behind, 10);
	return errno || behind == at || *behind != end ? NULL : behind + 1;
}

bool event_parse(const char *line, struct event *event)
{
	int64_t time, sensor;
	const char *at = parse(line, ',', false, &time);

	if (at)
		at = parse(at, ',', false, &sensor);
	if (at)
		at = parse(at, '\n', true, &event->value);
	if (!at || *at || time < 1)
		return false;
	event->time = (uint64_t)time;
	event->sensor = (uint64_t)sensor;
	return true;
}

int events_next(struct events *events, struct event *event)
{
	char line[128];

	errno = 0;
	if (!fgets(line, sizeof(line), events->file))
		return ferror(events->file)
		    ? complain("%s: %s", events->name, strerror(errno))
		    : 0;
	events->line++;
	if (event_parse(line, event))
		return 1;
	return complain("%s, line %" PRIu64
			": not three decimal numbers: a time from 1 on, a "
			"sensor, a value: %s",
	    events->name, events->line, line);
}

void events_close(struct events *events)
{
	fclose(events->file);
}

static uint64_t random_next(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) +
	    UINT64_C(1442695040888963407);
	return *state >> 33;
}

int events_generate(
    const char *folder, unsigned producer, uint64_t n, unsigned long rate)
{
	uint64_t random = producer + 1, i, time, late;
	struct events events;

	name_file(&events, folder, producer);
	events.file = fopen(events.name, "we");
	if (!events.file)
		return complain("%s: %s", events.name, strerror(errno));
	fputs(HEADER, events.file);
	for (i = 0; i < n; i++) {
		time = 1 + LATEST_MS + i * 1000 / rate;
		late = random_next(&random) % LATE_OF
		    ? 0
		    : random_next(&random) % LATEST_MS;
		fprintf(events.file, "%" PRIu64 ",%" PRIu64 ",%" PRId64 "\n",
		    time - late, random_next(&random) % SENSORS,
		    (int64_t)(random_next(&random) % 2001) - 1000);
	}
	if (ferror(events.file) | fclose(events.file))
		return complain("%s: %s", events.name, strerror(errno));
	return 0;
}
