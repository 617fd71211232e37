/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread: where calls run, what they return, and its effects on the
 * process.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/loop_impl.h"
#include "base/memory.h"
#include "tests/unit/stop_loop.h"

static struct loop *loop;

/* 0, or why no thread is started: no limit holds for root. */
static int thread_error;

int pthread_create(pthread_t *restrict thread,
    const pthread_attr_t *restrict attr, void *(*run)(void *),
    void *restrict arg)
{
	int (*next)(
	    pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (thread_error)
		return thread_error;
	*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	return next(thread, attr, run, arg);
}

static void setup(void)
{
	cr_assert_eq(dfi__loop_start("fifteen-letters", &loop), 0);
}

static void teardown(void)
{
	stop_loop(loop);
}

TestSuite(loop, .init = setup, .fini = teardown);

static void expect_text(const char *word)
{
	cr_assert_not_null(strstr(dfi_errmsg(), word), "'%s' is not in '%s'",
	    word, dfi_errmsg());
}

static int is_current(void *arg)
{
	(void)arg;
	return dfi__loop_is_current(loop);
}

Test(loop, calls_run_on_the_loops_thread)
{
	cr_assert_not(dfi__loop_is_current(loop));
	cr_assert_eq(dfi__loop_call(loop, is_current, NULL, DEADLINE_NEVER), 1);
}

static int fail(void *arg)
{
	return dfi__fail(-ERANGE, "the %s text", (const char *)arg);
}

static int fail_nested(void *arg)
{
	return dfi__loop_call(loop, fail, arg, DEADLINE_NEVER);
}

Test(loop, an_error_comes_back_with_its_text)
{
	cr_assert_eq(
	    dfi__loop_call(loop, fail, "first", DEADLINE_NEVER), -ERANGE);
	cr_assert_str_eq(dfi_errmsg(), "the first text");
	cr_assert_eq(
	    dfi__loop_call(loop, fail_nested, "nested", DEADLINE_NEVER),
	    -ERANGE);
	cr_assert_str_eq(dfi_errmsg(), "the nested text");
}

static int succeed_after_an_error(void *arg)
{
	fail(arg);
	return 7;
}

Test(loop, success_leaves_the_callers_text_alone)
{
	dfi__fail(-EINVAL, "mine");
	cr_assert_eq(
	    dfi__loop_call(loop, succeed_after_an_error, "x", DEADLINE_NEVER),
	    7);
	cr_assert_str_eq(dfi_errmsg(), "mine");
}

static int look_at_thread(void *arg)
{
	sigset_t masked;
	char name[16];

	(void)arg;
	cr_assert_eq(pthread_sigmask(SIG_SETMASK, NULL, &masked), 0);
	cr_assert_eq(sigismember(&masked, SIGTERM), 1);
	cr_assert_eq(sigismember(&masked, SIGPIPE), 1);
	cr_assert_eq(sigismember(&masked, SIGPROF), 1);
	pthread_getname_np(pthread_self(), name, sizeof(name));
	cr_assert_str_eq(name, "fifteen-letters");
	return 0;
}

Test(loop, its_thread_is_named_and_takes_no_signals)
{
	sigset_t masked;

	cr_assert_eq(
	    dfi__loop_call(loop, look_at_thread, NULL, DEADLINE_NEVER), 0);
	cr_assert_eq(pthread_sigmask(SIG_SETMASK, NULL, &masked), 0);
	cr_assert_eq(sigismember(&masked, SIGTERM), 0);
}

struct scheduling {
	int policy, nice;
	cpu_set_t cpus;
};

static int look_at_scheduling(void *arg)
{
	struct scheduling *scheduling = arg;

	scheduling->policy = sched_getscheduler(0);
	scheduling->nice = getpriority(PRIO_PROCESS, 0);
	return sched_getaffinity(
	    0, sizeof(scheduling->cpus), &scheduling->cpus);
}

/* Of the thread of a loop that the caller starts. */
static struct scheduling scheduling_of_loop(void)
{
	struct scheduling scheduling;
	struct loop *other;

	cr_assert_eq(dfi__loop_start("other", &other), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi__loop_call(other, look_at_scheduling, &scheduling,
			 DEADLINE_NEVER),
	    0);
	stop_loop(other);
	return scheduling;
}

/* The last processor that this thread may use. */
static int last_cpu(const cpu_set_t *cpus)
{
	int cpu = CPU_SETSIZE - 1;

	while (cpu > 0 && !CPU_ISSET((size_t)cpu, cpus))
		cpu--;
	return cpu;
}

static void bind_to(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

Test(loop, its_thread_runs_where_the_process_may_not_only_its_starter)
{
	struct scheduling before, scheduling;

	look_at_scheduling(&before);
	bind_to(last_cpu(&before.cpus));
	scheduling = scheduling_of_loop();
	cr_assert(CPU_EQUAL(&scheduling.cpus, &before.cpus));
}

static void expect_ordinary(void)
{
	struct scheduling scheduling = scheduling_of_loop();

	cr_assert_eq(scheduling.policy, SCHED_OTHER);
	cr_assert_eq(scheduling.nice, 0, "nice %d", scheduling.nice);
}

Test(loop, its_thread_is_ordinary_whatever_starts_it)
{
	struct sched_param param = { .sched_priority = 0 };

	if (getpriority(PRIO_PROCESS, 0) != 0)
		cr_skip_test("the tests run with another nice value");
	cr_assert_eq(sched_setscheduler(0, SCHED_BATCH, &param), 0);
	expect_ordinary();
	param.sched_priority = 1;
	if (sched_setscheduler(0, SCHED_FIFO, &param) < 0)
		cr_skip_test("no right to real-time scheduling");
	expect_ordinary();
	cr_assert_eq(
	    sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &param), 0);
	expect_ordinary();
	param.sched_priority = 0;
	cr_assert_eq(sched_setscheduler(0, SCHED_OTHER, &param), 0);
	cr_assert_eq(setpriority(PRIO_PROCESS, 0, -5), 0);
	expect_ordinary();
	cr_assert_eq(setpriority(PRIO_PROCESS, 0, 5), 0);
	expect_ordinary();
}

Test(loop, its_thread_runs_where_the_setting_says)
{
	struct scheduling before, scheduling;
	struct loop *other;
	char list[16];

	look_at_scheduling(&before);
	snprintf(list, sizeof(list), "%d", last_cpu(&before.cpus));
	setenv("DFI_CONTROL_CPUS", list, 1);
	scheduling = scheduling_of_loop();
	cr_assert_eq(CPU_COUNT(&scheduling.cpus), 1);
	cr_assert(CPU_ISSET((size_t)last_cpu(&before.cpus), &scheduling.cpus));
	setenv("DFI_CONTROL_CPUS", "8000", 1);
	cr_assert_eq(dfi__loop_start("other", &other), -EINVAL);
	expect_text("DFI_CONTROL_CPUS=8000 is not valid");
	setenv("DFI_CONTROL_CPUS", "1-", 1);
	cr_assert_eq(dfi__loop_start("other", &other), -EINVAL);
	expect_text("DFI_CONTROL_CPUS=1- is not valid");
	unsetenv("DFI_CONTROL_CPUS");
}

Test(loop, a_longer_name_is_einval)
{
	struct loop *other;

	cr_assert_eq(dfi__loop_start("sixteen--letters", &other), -EINVAL);
}

Test(loop, whose_thread_is_one_too_many_names_the_limits)
{
	struct loop *other;

	thread_error = EAGAIN;
	cr_assert_eq(dfi__loop_start("other", &other), -ENOMEM);
	expect_text("thread 'other' can't be started");
	expect_text("ulimit -u");
	expect_text("pids.max");
	thread_error = EPERM;
	cr_assert_eq(dfi__loop_start("other", &other), -EIO);
	expect_text("thread 'other': ");
}

Test(loop, whose_stack_has_no_room_names_the_limit)
{
	struct rlimit before, low;
	struct loop *other;
	uint64_t limit;
	int ret;

	cr_assert_eq(getrlimit(RLIMIT_AS, &before), 0);
	low = before;
	/* With some room, but less than a stack. */
	low.rlim_cur = before.rlim_max - 1;
	cr_assert_eq(setrlimit(RLIMIT_AS, &low), 0);
	low.rlim_cur -= dfi__memory_address_room(&limit) - (1 << 20);
	cr_assert_eq(setrlimit(RLIMIT_AS, &low), 0);
	thread_error = EAGAIN;
	ret = dfi__loop_start("other", &other);
	cr_assert_eq(setrlimit(RLIMIT_AS, &before), 0);
	cr_assert_eq(ret, -ENOMEM);
	expect_text("thread 'other' needs ");
	expect_text("bytes of address space for its stack");
	expect_text("ulimit -v");
}

Test(loop, whose_stack_has_no_private_memory_names_the_limit)
{
	struct rlimit before, low;
	struct loop *other;
	uint64_t limit;
	int ret;

	cr_assert_eq(getrlimit(RLIMIT_DATA, &before), 0);
	low = before;
	low.rlim_cur = before.rlim_max - 1;
	cr_assert_eq(setrlimit(RLIMIT_DATA, &low), 0);
	low.rlim_cur -= dfi__memory_data_room(&limit) - (1 << 20);
	cr_assert_eq(setrlimit(RLIMIT_DATA, &low), 0);
	ret = dfi__loop_start("other", &other);
	cr_assert_eq(setrlimit(RLIMIT_DATA, &before), 0);
	cr_assert_eq(ret, -ENOMEM);
	expect_text("thread 'other' needs ");
	expect_text("bytes of private memory for its stack");
	expect_text("ulimit -d");
}

static int count_up(void *arg)
{
	/* Not atomic: the loop's thread is the only one. */
	int *count = arg;

	return ++*count;
}

static void *call_often(void *arg)
{
	int i;

	for (i = 0; i < 1000; i++)
		cr_assert_gt(
		    dfi__loop_call(loop, count_up, arg, DEADLINE_NEVER), i);
	return NULL;
}

Test(loop, calls_of_many_threads_run_one_at_a_time)
{
	pthread_t threads[4];
	int count = 0, i;

	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, call_often, &count);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(count, 4000);
}

/* ---- A loop that does not run ---------------------------------------------
 */

static sem_t entered, may_leave;

static int hold_loop(void *arg)
{
	(void)arg;
	sem_post(&entered);
	sem_wait(&may_leave);
	return 0;
}

static void *hold_in_thread(void *arg)
{
	dfi__loop_call(loop, hold_loop, arg, DEADLINE_NEVER);
	return NULL;
}

Test(loop, a_call_is_withdrawn_at_its_deadline)
{
	pthread_t thread;
	int count = 0;

	sem_init(&entered, 0, 0);
	sem_init(&may_leave, 0, 0);
	pthread_create(&thread, NULL, hold_in_thread, NULL);
	sem_wait(&entered);
	cr_assert_eq(dfi__loop_call(loop, count_up, &count, deadline_in_ms(50)),
	    -ETIMEDOUT);
	expect_text("thread 'fifteen-letters' has not run in time");
	cr_assert_eq(dfi__loop_check(loop, deadline_in_ms(1)), -ETIMEDOUT);
	sem_post(&may_leave);
	pthread_join(thread, NULL);
	cr_assert_eq(
	    dfi__loop_call(loop, count_up, &count, deadline_in_ms(60000)), 1);
}

struct begun {
	pthread_t caller;
	int ret;
	char text[200];
};

static void call_briefly(struct begun *begun, int (*fn)(void *arg))
{
	begun->ret = dfi__loop_call(loop, fn, NULL, deadline_in_ms(50));
	snprintf(begun->text, sizeof(begun->text), "%s", dfi_errmsg());
}

static void *call_in_vain(void *arg)
{
	call_briefly(arg, hold_loop);
	return NULL;
}

/* The stack of its caller is gone before it returns. */
Test(loop, a_call_that_has_begun_ends_at_its_deadline_and_goes_on)
{
	struct begun begun = { .ret = 0 };
	int count = 0;

	sem_init(&entered, 0, 0);
	sem_init(&may_leave, 0, 0);
	pthread_create(&begun.caller, NULL, call_in_vain, &begun);
	sem_wait(&entered);
	pthread_join(begun.caller, NULL);
	cr_assert_eq(begun.ret, -ETIMEDOUT);
	cr_assert_not_null(strstr(begun.text, "thread 'fifteen-letters' has"));
	cr_assert_eq(dfi__loop_call(loop, count_up, &count, deadline_in_ms(1)),
	    -ETIMEDOUT);
	sem_post(&may_leave);
	cr_assert_eq(
	    dfi__loop_call(loop, count_up, &count, deadline_in_ms(60000)), 1);
}

/* The loop's thread stops right after it has taken a call, once. */
static _Atomic bool stop_after_taking;

/* See tests/CMakeLists.txt. */
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int ret = __real_pthread_mutex_unlock(mutex);

	if (loop && mutex == &loop->lock && dfi__loop_is_current(loop) &&
	    loop->running && atomic_exchange(&stop_after_taking, false)) {
		sem_post(&entered);
		while (sem_wait(&may_leave) < 0)
			;
	}
	return ret;
}

static int n_ran;

static int count_run(void *arg)
{
	(void)arg;
	return ++n_ran;
}

static void *call_untouched(void *arg)
{
	call_briefly(arg, count_run);
	return NULL;
}

/* The stack of its caller is gone before the thread looks at the call. */
Test(loop, a_call_that_is_taken_and_has_not_begun_never_runs)
{
	struct begun begun = { .ret = 0 };

	sem_init(&entered, 0, 0);
	sem_init(&may_leave, 0, 0);
	atomic_store(&stop_after_taking, true);
	pthread_create(&begun.caller, NULL, call_untouched, &begun);
	sem_wait(&entered);
	pthread_join(begun.caller, NULL);
	cr_assert_eq(begun.ret, -ETIMEDOUT);
	sem_post(&may_leave);
	cr_assert_eq(
	    dfi__loop_call(loop, count_run, NULL, deadline_in_ms(60000)), 1);
}

static sem_t finished;

static void count_end(void *arg)
{
	(void)arg;
	sem_post(&finished);
}

static int end_on_loop(void *arg)
{
	dfi__loop_end(loop, arg, DEADLINE_NEVER);
	return sem_trywait(&finished);
}

Test(loop, an_end_runs_once_before_it_returns_or_when_the_thread_runs)
{
	struct loop_post end = { .fn = count_end };
	pthread_t thread;

	sem_init(&finished, 0, 0);
	dfi__loop_end(loop, &end, deadline_in_ms(60000));
	cr_assert_eq(sem_trywait(&finished), 0);
	cr_assert_eq(dfi__loop_call(loop, end_on_loop, &end, DEADLINE_NEVER), 0,
	    "there it runs at once");
	sem_init(&entered, 0, 0);
	sem_init(&may_leave, 0, 0);
	pthread_create(&thread, NULL, hold_in_thread, NULL);
	sem_wait(&entered);
	dfi__fail(-EINVAL, "mine");
	dfi__loop_end(loop, &end, deadline_in_ms(50));
	cr_assert_str_eq(dfi_errmsg(), "mine");
	cr_assert_eq(sem_trywait(&finished), -1);
	sem_post(&may_leave);
	pthread_join(thread, NULL);
	sem_wait(&finished);
}

static void finish(void *arg)
{
	/* On its own thread a call runs at once. */
	if (dfi__loop_call(arg, hold_loop, NULL, DEADLINE_NEVER) == 0)
		sem_post(&finished);
}

static void hold_post(void *arg)
{
	hold_loop(arg);
}

Test(loop, that_is_finished_while_it_is_stuck_does_the_rest_when_it_runs)
{
	struct loop_post post = { .fn = hold_post };
	struct loop *other;

	sem_init(&entered, 0, 0);
	sem_init(&may_leave, 0, 0);
	sem_init(&finished, 0, 0);
	cr_assert_eq(dfi__loop_start("other", &other), 0);
	dfi__loop_post(other, &post);
	sem_wait(&entered);
	dfi__loop_finish(other, finish, other, deadline_in_ms(50));
	cr_assert_eq(sem_trywait(&finished), -1);
	sem_post(&may_leave);
	sem_post(&may_leave);
	sem_wait(&finished);
}

Test(loop, that_is_finished_while_it_runs_has_done_all)
{
	struct loop *other;

	sem_init(&entered, 0, 0);
	sem_init(&may_leave, 0, 1);
	sem_init(&finished, 0, 0);
	cr_assert_eq(dfi__loop_start("other", &other), 0);
	dfi__loop_finish(other, finish, other, deadline_in_ms(60000));
	cr_assert_eq(sem_trywait(&finished), 0);
}

static void count_post(void *arg)
{
	(*(int *)arg)++;
}

static int read_count(void *arg)
{
	return *(int *)arg;
}

Test(loop, a_post_waits_for_nobody_and_runs_once_before_later_calls)
{
	int count = 0;
	struct loop_post post = { .fn = count_post, .arg = &count };
	pthread_t thread;

	sem_init(&entered, 0, 0);
	sem_init(&may_leave, 0, 0);
	pthread_create(&thread, NULL, hold_in_thread, NULL);
	sem_wait(&entered);
	dfi__loop_post(loop, &post);
	dfi__loop_post(loop, &post);
	sem_post(&may_leave);
	cr_assert_eq(
	    dfi__loop_call(loop, read_count, &count, DEADLINE_NEVER), 1);
	pthread_join(thread, NULL);
	dfi__loop_post(loop, &post);
	cr_assert_eq(
	    dfi__loop_call(loop, read_count, &count, DEADLINE_NEVER), 2);
}

struct withdrawal {
	struct loop_post *post;
	int *count;
};

static int post_and_withdraw(void *arg)
{
	struct withdrawal *withdrawal = arg;

	dfi__loop_post(loop, withdrawal->post);
	dfi__loop_unpost(loop, withdrawal->post);
	return *withdrawal->count;
}

Test(loop, a_post_that_is_withdrawn_does_not_run)
{
	int count = 0;
	struct loop_post post = { .fn = count_post, .arg = &count };
	struct withdrawal withdrawal = { &post, &count };

	cr_assert_eq(dfi__loop_call(
			 loop, post_and_withdraw, &withdrawal, DEADLINE_NEVER),
	    0);
	cr_assert_eq(
	    dfi__loop_call(loop, read_count, &count, DEADLINE_NEVER), 0);
	dfi__loop_post(loop, &post);
	cr_assert_eq(
	    dfi__loop_call(loop, read_count, &count, DEADLINE_NEVER), 1);
}

/* Close the descriptors that a loop has opened; n: of those, the first ones. */
static void close_those_of(struct loop **other, unsigned n)
{
	bool before[256];
	unsigned fd;

	for (fd = 0; fd < 256; fd++)
		before[fd] = fcntl((int)fd, F_GETFD) >= 0;
	cr_assert_eq(dfi__loop_start("other", other), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi__loop_check(*other, deadline_in_ms(60000)), 0);
	for (fd = 0; fd < 256 && n > 0; fd++)
		if (!before[fd] && fcntl((int)fd, F_GETFD) >= 0) {
			close((int)fd);
			n--;
		}
}

/* The eventfd comes first. */
Test(loop, without_the_descriptor_that_wakes_it_runs_calls)
{
	struct loop *other;
	int count = 0;

	close_those_of(&other, 1);
	cr_assert_eq(
	    dfi__loop_call(other, count_up, &count, DEADLINE_NEVER), 1);
	stop_loop(other);
}

Test(loop, without_any_descriptor_runs_calls_and_is_broken)
{
	int64_t deadline = deadline_in_ms(60000);
	struct loop *other;
	int count = 0;

	close_those_of(&other, 256);
	cr_assert_eq(
	    dfi__loop_call(other, count_up, &count, DEADLINE_NEVER), 1);
	while (!dfi__loop_is_broken(other) && clock_now_ns() < deadline)
		cr_assert_gt(
		    dfi__loop_call(other, count_up, &count, DEADLINE_NEVER), 0);
	cr_assert(dfi__loop_is_broken(other));
	stop_loop(other);
}
