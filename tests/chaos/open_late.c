/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that looks how long others wait for a processor; see open_late.h. */
#include "open_late.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "runner.h"

#define PERIOD_NS INT64_C(20000000)
#define MAX_WAITS 256
#define MAX_THREADS 128
#define SLOT_NS INT64_C(10000000)

static struct {
	int64_t from_ns, to_ns;
} waits[MAX_WAITS]; /* the latest */
static unsigned n_waits;

static struct {
	int tid;
	long long delay_ns; /* for a processor, since it began */
} threads[MAX_THREADS];
static unsigned n_threads;

static int64_t due_ns; /* of the next look */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add(int64_t from_ns, int64_t to_ns)
{
	if (to_ns - from_ns < OPEN_LATE_NS)
		return;
	waits[n_waits % MAX_WAITS].from_ns = from_ns;
	waits[n_waits++ % MAX_WAITS].to_ns = to_ns;
}

void open_late_note(int64_t from_ns, int64_t to_ns)
{
	pthread_mutex_lock(&lock);
	add(from_ns, to_ns);
	pthread_mutex_unlock(&lock);
}

/* Without scheduler statistics only the look itself tells. */
static long long delay_of(int tasks, const char *tid)
{
	long long delay = 0;
	char path[300], text[80];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/schedstat", tid);
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = 0;
	return sscanf(text, "%*u %lld", &delay) == 1 ? delay : 0;
}

/* Those that end leave their entries to the next ones. */
static void look_at_thread(int tid, long long delay, int64_t now)
{
	unsigned i;

	for (i = 0; i < n_threads && threads[i].tid != tid; i++)
		;
	if (i == n_threads && n_threads == MAX_THREADS)
		i = (unsigned)tid % MAX_THREADS;
	else if (i == n_threads)
		n_threads++;
	if (threads[i].tid != tid)
		threads[i].delay_ns = 0;
	add(now - (delay - threads[i].delay_ns), now);
	threads[i].tid = tid;
	threads[i].delay_ns = delay;
}

static void look(void)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	int64_t now;

	pthread_mutex_lock(&lock);
	now = runner_now_ns();
	add(due_ns, now);
	due_ns = now + PERIOD_NS;
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			look_at_thread(atoi(entry->d_name),
			    delay_of(dirfd(dir), entry->d_name), now);
	pthread_mutex_unlock(&lock);
	if (dir)
		closedir(dir);
}

static void *run(void *arg)
{
	(void)arg;
	for (;;) {
		nanosleep(&(struct timespec){ .tv_nsec = PERIOD_NS }, NULL);
		look();
	}
	return NULL;
}

int open_late_start(void)
{
	pthread_t thread;

	due_ns = runner_now_ns() + PERIOD_NS;
	return pthread_create(&thread, NULL, run, NULL);
}

static int is_in_wait(int64_t at)
{
	unsigned i, n = n_waits < MAX_WAITS ? n_waits : MAX_WAITS;

	for (i = 0; i < n; i++)
		if (at >= waits[i].from_ns && at < waits[i].to_ns)
			return 1;
	return 0;
}

int64_t open_late_within(int64_t ns)
{
	int64_t now, at, late = 0;

	look();
	now = runner_now_ns();
	pthread_mutex_lock(&lock);
	for (at = now - ns; at < now; at += SLOT_NS)
		late += is_in_wait(at) * SLOT_NS;
	pthread_mutex_unlock(&lock);
	return late;
}
