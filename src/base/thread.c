/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See thread.h. A thread inherits policy, nice value and processors from the
 * thread that starts it. The processors are set before it runs: its starter may
 * never leave the processor that both would share.
 */
#include "thread.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cpus.h"
#include "error.h"
#include "memory.h"
#include "settings.h"

/* The arguments of a new thread, which frees them. */
struct start {
	char name[16];
	void *(*run)(void *arg);
	void *arg;
};

static _Thread_local bool ours;

/* The processors of the process's first thread when the library was loaded. */
static struct cpus process_cpus;
static bool knows_process_cpus;
static int process_nice;

__attribute__((constructor)) static void remember_process(void)
{
	knows_process_cpus = dfi__cpus_of_thread(getpid(), &process_cpus);
	process_nice = getpriority(PRIO_PROCESS, (id_t)getpid());
}

/*
 * Reset what the thread may change. Without a privilege, SCHED_IDLE and a
 * higher nice value stay. 0 means the calling thread, also for setpriority().
 */
static void become_ordinary(void)
{
	static const struct sched_param param = { .sched_priority = 0 };

	if (sched_getscheduler(0) != SCHED_OTHER)
		pthread_setschedparam(pthread_self(), SCHED_OTHER, &param);
	if (getpriority(PRIO_PROCESS, 0) != process_nice)
		(void)setpriority(PRIO_PROCESS, 0, process_nice);
}

static void *begin(void *arg)
{
	struct start start = *(struct start *)arg;

	free(arg);
	ours = true;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	/* Naming it from another thread would need a descriptor. */
	pthread_setname_np(pthread_self(), start.name);
	become_ordinary();
	return start.run(start.arg);
}

/* Whether these are the processors that a new thread has anyway. */
static bool are_own(const struct cpus *cpus)
{
	struct cpus own;

	return dfi__cpus_of_thread(0, &own) &&
	    CPU_EQUAL_S(sizeof(own), own.sets, cpus->sets);
}

static int create(struct start *start, const struct cpus *cpus, pthread_t *out)
{
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	err = cpus && !are_own(cpus)
	    ? pthread_attr_setaffinity_np(&attr, sizeof(*cpus), cpus->sets)
	    : 0;
	if (!err)
		err = pthread_create(out, &attr, begin, start);
	pthread_attr_destroy(&attr);
	return err;
}

/* The caller has blocked all signals. */
static int pin_and_create(struct start *start, pthread_t *out)
{
	const char *list = dfi__settings_control_cpus();
	struct cpus cpus;
	int err;

	if (list) {
		if (dfi__cpus_parse(list, &cpus) < 0)
			return EDOM;
		err = create(start, &cpus, out);
		return err == EINVAL ? EDOM : err;
	}
	err = create(start, knows_process_cpus ? &process_cpus : NULL, out);
	/* The process may not use any of them any more. */
	if (err == EINVAL)
		err = create(start, NULL, out);
	return err;
}

int dfi__thread_start(
    const char *name, void *(*run)(void *arg), void *arg, pthread_t *thread)
{
	struct start *start = malloc(sizeof(*start));
	sigset_t all, old;
	int err;

	if (!start)
		return ENOMEM;
	*start = (struct start){ .run = run, .arg = arg };
	memcpy(start->name, name, strnlen(name, sizeof(start->name) - 1));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pin_and_create(start, thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		free(start);
	return err;
}

static int fail_stack(const char *name, size_t need, const char *kind,
    uint64_t room, uint64_t limit, const char *option)
{
	return dfi__fail(-ENOMEM,
	    "thread '%s' needs %zu bytes of %s for its stack, but %lu are left "
	    "of %lu: raise the limit (ulimit %s), or have smaller stacks "
	    "(ulimit -s)",
	    name, need, kind, (unsigned long)room, (unsigned long)limit,
	    option);
}

/*
 * pthread_create() only says EAGAIN. Most often memory for the stack is short,
 * or a limit on threads is reached.
 */
static int fail_short(const char *name)
{
	uint64_t space_limit, space = dfi__memory_address_room(&space_limit);
	uint64_t data_limit, data = dfi__memory_data_room(&data_limit);
	size_t stack = 0, guard = 0;
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_getstacksize(&attr, &stack);
	pthread_attr_getguardsize(&attr, &guard);
	pthread_attr_destroy(&attr);
	if (space < stack + guard)
		return fail_stack(name, stack + guard, "address space", space,
		    space_limit, "-v");
	/* The guard is not writable, so it does not count. */
	if (data < stack)
		return fail_stack(
		    name, stack, "private memory", data, data_limit, "-d");
	if (sched_getscheduler(0) == SCHED_DEADLINE)
		return dfi__fail(-ENOMEM,
		    "thread '%s' can't be started by a thread of policy "
		    "SCHED_DEADLINE: set SCHED_FLAG_RESET_ON_FORK, or call "
		    "from another thread",
		    name);
	return dfi__fail(-ENOMEM,
	    "thread '%s' can't be started, as there are as many threads as the "
	    "user, the container or the system may have: raise that limit "
	    "(ulimit -u, pids.max of the control group, or sysctl "
	    "kernel.threads-max)",
	    name);
}

int dfi__thread_fail(const char *name, int err)
{
	const char *list = dfi__settings_control_cpus();
	char allowed[128] = "unknown";
	struct cpus cpus;

	switch (err) {
	case EAGAIN:
		return fail_short(name);
	case ENOMEM:
		return dfi__fail(-ENOMEM, "thread '%s': out of memory", name);
	case EDOM:
		/* Errors of the list have a text of their own. */
		if (dfi__cpus_read(
			"DFI_CONTROL_CPUS", list ? list : "", &cpus) < 0)
			return -EINVAL;
		if (dfi__cpus_of_thread(0, &cpus))
			dfi__cpus_format(&cpus, allowed, sizeof(allowed));
		return dfi__fail(-EINVAL,
		    "DFI_CONTROL_CPUS=%.100s: this process may not run on any "
		    "of these "
		    "processors (cpuset.cpus of its control group); the "
		    "calling thread runs on %s",
		    list ? list : "", allowed);
	default:
		return dfi__fail(-EIO, "thread '%s': pthread_create: %s", name,
		    strerrordesc_np(err));
	}
}

bool dfi__thread_is_ours(void)
{
	return ours;
}
