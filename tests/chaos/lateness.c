/* SPDX-License-Identifier: Apache-2.0 */
/* A thread on each processor that notes how late it is; see lateness.h. */
#include "lateness.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <time.h>

/* The latest ones are kept: of 13 minutes if each is late. */
#define MAX_DELAYS (1u << 14)
#define MAX_CPUS 64

struct delay {
	int64_t due_ns, woke_ns;
};

static struct watch {
	int64_t due_ns;
	uint64_t n_delays;
	struct delay delays[MAX_DELAYS];
} watches[MAX_CPUS];

static unsigned n_watches;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void note(struct watch *watch)
{
	int64_t woke = now_ns();

	pthread_mutex_lock(&lock);
	watch->delays[watch->n_delays++ % MAX_DELAYS] = (struct delay){
		.due_ns = watch->due_ns,
		.woke_ns = woke,
	};
	/* One sleep is one delay. */
	watch->due_ns += LATENESS_PERIOD_NS;
	if (watch->due_ns < woke)
		watch->due_ns = woke + LATENESS_PERIOD_NS;
	pthread_mutex_unlock(&lock);
}

static void *run_watch(void *arg)
{
	struct watch *watch = arg;
	struct timespec due;

	for (;;) {
		due.tv_sec = watch->due_ns / 1000000000;
		due.tv_nsec = watch->due_ns % 1000000000;
		while (
		    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL))
			;
		note(watch);
	}
	return NULL;
}

static int start_watch(int cpu)
{
	struct watch *watch = &watches[n_watches];
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t set;
	int err;

	watch->due_ns = now_ns() + LATENESS_PERIOD_NS;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	err = pthread_create(&thread, &attr, run_watch, watch);
	pthread_attr_destroy(&attr);
	if (!err)
		n_watches++;
	return err;
}

int lateness_start(void)
{
	cpu_set_t allowed;
	int cpu, err = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return errno;
	for (cpu = 0; !err && cpu < CPU_SETSIZE && n_watches < MAX_CPUS; cpu++)
		if (CPU_ISSET((size_t)cpu, &allowed))
			err = start_watch(cpu);
	return err;
}

/* How much of one interval lies in another. */
static int64_t overlap(int64_t from, int64_t to, int64_t begin, int64_t end)
{
	if (begin < from)
		begin = from;
	if (end > to)
		end = to;
	return end > begin ? end - begin : 0;
}

static int64_t late_on(const struct watch *watch, int64_t from, int64_t to)
{
	uint64_t n = watch->n_delays < MAX_DELAYS ? watch->n_delays
						  : MAX_DELAYS;
	/* One that goes on. */
	int64_t late = overlap(from, to, watch->due_ns, now_ns());
	uint64_t i;

	for (i = 0; i < n; i++)
		late += overlap(from, to, watch->delays[i].due_ns,
		    watch->delays[i].woke_ns);
	return late;
}

int64_t lateness_between(int64_t from_ns, int64_t to_ns)
{
	int64_t late, most = 0;
	unsigned i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < n_watches; i++) {
		late = late_on(&watches[i], from_ns, to_ns);
		if (late > most)
			most = late;
	}
	pthread_mutex_unlock(&lock);
	return most;
}
