/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting and stopping a registry while its thread does not run. The thread is
 * held as it adds or removes an event.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <dfi/error.h>
#include <dfi/registry.h>

#include "registry/server/server.h"
#include "registry_help.h"

/* Long enough to be seen, and short for calls that can't succeed. */
#define LOOP_MS 100

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool held, stopped;

static void wait_if_held(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	stopped = stopped || held;
	while (held)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* In place of the C library's, which libevent calls. */
int epoll_ctl(int fd, int op, int of, struct epoll_event *event)
{
	char name[16] = "";
	int ret = (int)syscall(SYS_epoll_ctl, fd, op, of, event);

	prctl(PR_GET_NAME, name);
	if (strcmp(name, "dfi-registry") == 0)
		wait_if_held(NULL);
	return ret;
}

static void hold(bool on)
{
	pthread_mutex_lock(&lock);
	held = on;
	stopped = stopped && !on;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static bool was_stopped(void)
{
	bool was;

	pthread_mutex_lock(&lock);
	was = stopped;
	pthread_mutex_unlock(&lock);
	return was;
}

/* Only once the thread has freed the first registry. */
static void expect_that_another_starts_at(const char *address)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry;
	int64_t deadline = soon();

	attr.listen = address;
	dfi__server_loop_ms = 20000;
	while (dfi_registry_start(&attr, &registry) < 0) {
		cr_assert_lt(clock_now_ns(), deadline, "%s", dfi_errmsg());
		sched_yield();
	}
	cr_assert_eq(dfi_registry_stop(registry), 0, "%s", dfi_errmsg());
}

Test(registry_stopped, starts_in_time_or_not_at_all)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry = NULL;

	attr.listen = fresh_address("r");
	hold(true);
	dfi__server_loop_ms = LOOP_MS;
	cr_assert_eq(dfi_registry_start(&attr, &registry), -ETIMEDOUT);
	cr_assert_not_null(strstr(dfi_errmsg(), "thread 'dfi-registry'"));
	cr_assert_null(registry);
	hold(false);
	expect_that_another_starts_at(attr.listen);
}

Test(registry_stopped, stops_in_time_and_its_thread_does_the_rest)
{
	const char *address = fresh_address("r");
	struct dfi_registry *registry = start_at(address);
	struct loop *loop = start_loop();
	struct registry_client *client = open_client(loop, registry);
	int64_t deadline = soon();
	int ret;

	hold(true);
	dfi__server_loop_ms = LOOP_MS;
	/* On a busy machine the thread may be late: then nothing was done. */
	do
		ret = dfi_registry_stop(registry);
	while (
	    ret == -ETIMEDOUT && !was_stopped() && clock_now_ns() < deadline);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert(was_stopped());
	hold(false);
	expect_that_another_starts_at(address);
	dfi__client_close(client);
	stop_loop(loop);
}

Test(registry_stopped, stays_if_its_thread_does_not_run)
{
	const char *address = fresh_address("r");
	struct loop_post post = { .fn = wait_if_held };
	struct dfi_registry *registry = start_at(address);
	/* A registry begins with its server. */
	const struct server *server = (const struct server *)(void *)registry;

	hold(true);
	dfi__loop_post(server->loop, &post);
	while (!was_stopped())
		sched_yield();
	dfi__server_loop_ms = LOOP_MS;
	cr_assert_eq(dfi_registry_stop(registry), -ETIMEDOUT);
	cr_assert_not_null(strstr(dfi_errmsg(), "thread 'dfi-registry'"));
	hold(false);
	dfi__server_loop_ms = 20000;
	cr_assert_eq(dfi_registry_stop(registry), 0, "%s", dfi_errmsg());
	expect_that_another_starts_at(address);
}
