/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See log_writer.h. Lines go through a ring of bytes to a thread that writes
 * them. Only a thread works for every kind of file: O_NONBLOCK would affect all
 * processes that share the file, poll() promises nothing if others write as
 * well, and opening the file again needs a permission. The thread starts with
 * the first line, and ends after a second without lines.
 *
 *	written      taken       added
 *	   |  being    |  waiting  |    left out, until
 *	   |  written  |           |    the ring is empty
 */
#include "log_writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cancel.h"
#include "clock.h"
#include "fork.h"
#include "thread.h"

#define RING_SIZE (64 << 10)
/* A write has whole lines and is atomic in a pipe. */
#define CHUNK_SIZE 4096
#define IDLE_NS ((int64_t)NS_PER_S)
/* How long to wait for pending lines at the end of the process. */
#define END_NS (INT64_C(100) * NS_PER_MS)

enum writer_state {
	WRITER_NONE = 0,
	WRITER_RUNS,
	WRITER_ENDED, /* the thread has ended; join it */
	WRITER_CLOSED /* the library is being unloaded, or the process ends */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static pthread_cond_t emptied = PTHREAD_COND_INITIALIZER;
static pthread_t thread;
static enum writer_state state;
static char ring[RING_SIZE];
/*
 * Counts of bytes since the start. Modulo RING_SIZE they are offsets in the
 * ring.
 */
static uint64_t added, taken, written;
static uint64_t n_left_out; /* lines left out and not told of yet */
static bool full;           /* lines are left out until the ring is empty */
static bool failing;        /* the last write failed */
static bool stuck; /* a caller has waited in vain since the last write */
static bool writing;

static bool has_room(size_t length)
{
	/* Taken lines were copied to a chunk. */
	if (added == taken)
		full = false;
	return !full && length <= RING_SIZE - (added - taken);
}

static void add(const char *line, size_t length)
{
	size_t at = added % RING_SIZE, first = RING_SIZE - at;

	if (first > length)
		first = length;
	memcpy(ring + at, line, first);
	memcpy(ring, line + first, length - first);
	added += length;
}

/* Bytes up to the end of the next line in the ring. */
static size_t next_line(void)
{
	uint64_t end = taken;

	while (ring[end++ % RING_SIZE] != '\n')
		;
	return (size_t)(end - taken);
}

struct chunk {
	char text[CHUNK_SIZE];
	size_t length;
	uint64_t n_lines;
	uint64_t n_reported; /* lines left out before, as the text says */
};

static void take_line(struct chunk *chunk, size_t length)
{
	for (; length > 0; length--)
		chunk->text[chunk->length++] = ring[taken++ % RING_SIZE];
	chunk->n_lines++;
}

static void add_report(struct chunk *chunk)
{
	chunk->n_reported = n_left_out;
	chunk->length = (size_t)snprintf(chunk->text, sizeof(chunk->text),
	    "dfi: warn: %llu lines were left out here, as stderr did not take "
	    "them\n",
	    (unsigned long long)n_left_out);
}

/* Take as many whole lines as fit, after a line about those left out. */
static void take(struct chunk *chunk)
{
	chunk->length = 0;
	chunk->n_lines = chunk->n_reported = 0;
	if (n_left_out && (!full || added == taken))
		add_report(chunk);
	while (added != taken && chunk->length + next_line() <= CHUNK_SIZE)
		take_line(chunk, next_line());
}

/* Here the thread may wait and be cancelled. */
static bool write_all(const char *text, size_t length)
{
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t n;

	while (length > 0) {
		n = write(STDERR_FILENO, text, length);
		if (n > 0) {
			text += n;
			length -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			poll(&out, 1, -1);
		} else if (n == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}

/* The lock is held, except during the write. */
static void write_chunk(void)
{
	struct chunk chunk;
	bool done;

	take(&chunk);
	writing = true;
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	done = write_all(chunk.text, chunk.length);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_mutex_lock(&lock);
	writing = false;
	written = taken;
	failing = !done;
	if (done)
		n_left_out -= chunk.n_reported;
	else
		n_left_out += chunk.n_lines;
	if (written == added)
		stuck = false;
	pthread_cond_broadcast(&emptied);
}

/*
 * Whether there are lines to write, or a count of lost ones that can be
 * written.
 */
static bool has_work(void)
{
	return added != taken || (n_left_out && !failing);
}

static int wait_until(pthread_cond_t *condition, int64_t deadline)
{
	struct timespec when = deadline_timespec(deadline);

	return pthread_cond_clockwait(condition, &lock, CLOCK_MONOTONIC, &when);
}

static void *run(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	while (state == WRITER_RUNS) {
		if (has_work())
			write_chunk();
		else if (wait_until(&filled, clock_now_ns() + IDLE_NS) &&
		    state == WRITER_RUNS && !has_work())
			state = WRITER_ENDED;
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Start the thread if necessary. Returns whether it runs. The lock is held. */
static bool start(void)
{
	if (state == WRITER_ENDED) {
		pthread_join(thread, NULL);
		state = WRITER_NONE;
	}
	if (state == WRITER_NONE &&
	    dfi__thread_start("dfi-log", run, NULL, &thread) == 0)
		state = WRITER_RUNS;
	return state == WRITER_RUNS;
}

/*
 * The thread can't start. Write a line at once if stderr has room for it. The
 * write may wait only if others fill stderr at the same time.
 */
static void write_alone(const char *line, size_t length)
{
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
	struct chunk chunk = { .length = 0 };

	if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT)) {
		n_left_out++;
		return;
	}
	if (n_left_out)
		add_report(&chunk);
	memcpy(chunk.text + chunk.length, line, length);
	if (write(STDERR_FILENO, chunk.text, chunk.length + length) > 0)
		n_left_out = 0;
	else
		n_left_out++;
}

/* Wait until the line that ends at this count is written. */
static void wait_for(uint64_t end)
{
	int64_t deadline = clock_now_ns() + (int64_t)LOG_WAIT_MS * NS_PER_MS;

	while (!stuck && written < end && state == WRITER_RUNS)
		if (wait_until(&emptied, deadline) && written < end)
			stuck = true;
}

/*
 * The parent writes its pending lines. The child has neither the writer thread
 * nor waiting threads.
 */
static void at_fork(enum fork_phase phase)
{
	if (phase == FORK_PREPARE) {
		pthread_mutex_lock(&lock);
		return;
	}
	if (phase == FORK_CHILD) {
		filled = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
		emptied = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
		if (state != WRITER_CLOSED)
			state = WRITER_NONE;
		taken = written = added;
		n_left_out = 0;
		full = failing = stuck = writing = false;
	}
	pthread_mutex_unlock(&lock);
}

static struct fork_hook hook = { .fn = at_fork };

void dfi__log_write(const char *line, size_t length)
{
	CANCEL_OFF;

	dfi__fork_follow(&hook);
	pthread_mutex_lock(&lock);
	if (!start()) {
		write_alone(line, length);
	} else if (!has_room(length)) {
		full = true;
		n_left_out++;
	} else {
		add(line, length);
		pthread_cond_signal(&filled);
		if (!dfi__thread_is_ours())
			wait_for(added);
	}
	pthread_mutex_unlock(&lock);
}

/*
 * Runs when the library is unloaded or the process ends. The thread's code may
 * be unmapped afterwards. The thread can be cancelled where it may wait long.
 * No wait here is endless, even if a signal handler ends the process.
 */
__attribute__((destructor)) static void end(void)
{
	struct timespec until;
	bool is_there, is_stuck;

	/*
	 * No monotonic clock here: ThreadSanitizer of gcc 12 does not know that
	 * call.
	 */
	clock_gettime(CLOCK_REALTIME, &until);
	until = deadline_timespec(
	    (int64_t)until.tv_sec * NS_PER_S + until.tv_nsec + END_NS);
	if (pthread_mutex_timedlock(&lock, &until))
		return;
	until = deadline_timespec(clock_now_ns() + END_NS);
	while (state == WRITER_RUNS && !stuck && (writing || has_work()) &&
	    !pthread_cond_clockwait(&emptied, &lock, CLOCK_MONOTONIC, &until))
		;
	is_there = state == WRITER_RUNS || state == WRITER_ENDED;
	is_stuck = writing;
	state = WRITER_CLOSED;
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
	if (!is_there)
		return;
	if (!is_stuck) {
		pthread_join(thread, NULL);
		return;
	}
	pthread_cancel(thread);
	until = deadline_timespec(clock_now_ns() + END_NS);
	pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until);
}
