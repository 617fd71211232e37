/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event files: CSV with the header time,sensor,value, and a row of decimal
 * numbers for each event. FOLDER/events.0.csv is that of producer 0.
 */
#ifndef STREAM_EVENTS_H
#define STREAM_EVENTS_H

#include <stdio.h>

#include "stream.h"

struct events {
	FILE *file;
	char name[4096];
	uint64_t line;
};

/* All calls return 0, or -1 after a complaint that names file and line. */
int events_open(struct events *events, const char *folder, unsigned producer);

/* 1, or 0 at the end of the file. */
int events_next(struct events *events, struct event *event);
void events_close(struct events *events);

/* One of each text's numbers; the rest of the line is to be empty. */
bool event_parse(const char *line, struct event *event);

/*
 * Write a file of n events, rate in a second of event time, always the same for
 * the same producer. Some are late.
 */
int events_generate(
    const char *folder, unsigned producer, uint64_t n, unsigned long rate);

#endif
