/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's log sink. line_lock makes the callback serial. fork() does not
 * wait for it, as the callback may wait for a lock of the forking thread. A
 * child that is forked during a line finds it free.
 */
#include "log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cancel.h"
#include "clock.h"
#include "fork.h"
#include "lock.h"
#include "log_writer.h"
#include "text.h"

#define QUIET_NS (INT64_C(60) * NS_PER_S)

static struct lock line_lock;
/*
 * Both locks protect max_level, sink and sink_arg, so that a child sees them
 * consistent.
 */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static int max_level; /* 0: not yet read from the environment */
static void (*sink)(void *arg, enum dfi_log_level level, const char *line);
static void *sink_arg;

static const char *const level_name[] = {
	[DFI_LOG_ERROR] = "error",
	[DFI_LOG_WARN] = "warn",
	[DFI_LOG_INFO] = "info",
	[DFI_LOG_DEBUG] = "debug",
};

static void at_fork(enum fork_phase phase)
{
	if (phase == FORK_PREPARE) {
		pthread_mutex_lock(&sink_lock);
		return;
	}
	if (phase == FORK_CHILD)
		atomic_set(&line_lock.state, LOCK_FREE);
	pthread_mutex_unlock(&sink_lock);
}

static struct fork_hook hook = { .fn = at_fork };

static void write_line(enum dfi_log_level level, const char *line)
{
	char text[LOG_LINE_SIZE];
	int length = snprintf(
	    text, sizeof(text), "dfi: %s: %s\n", level_name[level], line);

	dfi__log_write(text, (size_t)length);
}

/* The level of DFI_LOG, or the default. *wrong is a value that is no level. */
static int level_from_environment(const char **wrong)
{
	const char *value = getenv("DFI_LOG");
	int level;

	if (value && !*value)
		value = NULL;
	for (level = DFI_LOG_ERROR; value && level <= DFI_LOG_DEBUG; level++)
		if (!strcmp(value, level_name[level]))
			return level;
	*wrong = value;
	return DFI_LOG_WARN;
}

void dfi_log_set(enum dfi_log_level level,
    void (*fn)(void *arg, enum dfi_log_level level, const char *line),
    void *arg)
{
	dfi__fork_follow(&hook);
	dfi__lock_take(&line_lock);
	pthread_mutex_lock(&sink_lock);
	max_level = (int)level;
	sink = fn;
	sink_arg = arg;
	pthread_mutex_unlock(&sink_lock);
	lock_release(&line_lock);
}

/*
 * Whether the line goes to stderr. If not, the callback has had it, or its
 * level is not logged. The first line checks DFI_LOG.
 */
static bool pass_on(
    enum dfi_log_level level, const char *line, const char **wrong)
{
	bool wanted, called;

	dfi__lock_take(&line_lock);
	if (!max_level)
		max_level = level_from_environment(wrong);
	wanted = (int)level <= max_level;
	called = wanted && sink;
	if (called)
		sink(sink_arg, level, line);
	lock_release(&line_lock);
	return wanted && !called;
}

void dfi__log(enum dfi_log_level level, const char *fmt, ...)
{
	const char *wrong = NULL;
	char line[LOG_TEXT_SIZE], text[128];
	bool to_stderr;
	va_list ap;
	CANCEL_OFF;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	dfi__text_make_plain(line);

	dfi__fork_follow(&hook);
	to_stderr = pass_on(level, line, &wrong);
	if (wrong) {
		snprintf(text, sizeof(text),
		    "DFI_LOG=%.50s is not a level: use error, warn, info or "
		    "debug",
		    wrong);
		dfi__text_make_plain(text);
		write_line(DFI_LOG_WARN, text);
	}
	if (to_stderr)
		write_line(level, line);
}

void dfi__log_seldom(struct log_throttle *throttle, enum dfi_log_level level,
    const char *fmt, ...)
{
	int64_t now = clock_now_ns();
	char line[LOG_TEXT_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (now < throttle->quiet_until) {
		throttle->n_unsaid++;
		dfi__log(DFI_LOG_DEBUG, "%s", line);
		return;
	}
	if (throttle->n_unsaid)
		dfi__log(level, "%.450s (and %llu before it)", line,
		    (unsigned long long)throttle->n_unsaid);
	else
		dfi__log(level, "%s", line);
	throttle->n_unsaid = 0;
	throttle->quiet_until = now + QUIET_NS;
}

bool dfi__log_is_due(struct log_throttle *throttle)
{
	if (clock_now_ns() >= throttle->quiet_until)
		return true;
	throttle->n_unsaid++;
	return false;
}
