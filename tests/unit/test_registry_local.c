/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry inside a process: who shares it, when it ends, and forks; its
 * calls are in test_registry_each.c.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dfi/error.h>

#include "registry/local/events.h"
#include "registry_help.h"

enum {
	LARGE = 60000, /* bytes; nothing else allocates as much at once */
};

static struct loop *loop, *other_loop;
static struct registry_client *client, *other;
static struct ear ear;
static _Atomic bool memory_is_short;

/* The linker replaces the library's calls of malloc(). */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
	return memory_is_short && size >= LARGE ? NULL : __real_malloc(size);
}

static void setup(void)
{
	ear_init(&ear);
	loop = start_loop();
	other_loop = start_loop();
	client = open_client_at(loop, "local:");
	other = open_client_at(other_loop, "local:");
}

static void teardown(void)
{
	dfi__client_close(client);
	dfi__client_close(other);
	stop_loop(loop);
	stop_loop(other_loop);
}

TestSuite(local, .init = setup, .fini = teardown);

Test(local, another_name_is_another_registry)
{
	struct registry_client *apart = open_client_at(loop, "local:tests");

	cr_assert_eq(put_text(client, "a", "1"), 0);
	cr_assert_eq(count_keys(apart, ""), 0);
	cr_assert_eq(put_text(apart, "b", "1"), 0);
	cr_assert_eq(put_text(apart, "c", "1"), 0);
	cr_assert_eq(count_keys(other, ""), 1);
	dfi__client_close(apart);
}

/* A sanitizer notices what the last client leaves. */
Test(local, ends_with_the_last_client)
{
	struct registry_client *first = open_client_at(loop, "local:short");
	struct registry_client *last = open_client_at(loop, "local:short");

	cr_assert_eq(put_text(first, "a", "1"), 0);
	dfi__client_close(first);
	cr_assert_eq(count_keys(last, ""), 1);
	dfi__client_close(last);
	last = open_client_at(loop, "local:short");
	cr_assert_eq(count_keys(last, ""), 0);
	dfi__client_close(last);
}

Test(local, a_client_without_memory_for_an_event_is_lost_and_says_so)
{
	struct registry_watch *watch;
	char *large = calloc(1, LARGE);

	cr_assert_eq(
	    dfi__client_watch(client, "", ear_hear, &ear, soon(), &watch), 0);
	memory_is_short = true;
	cr_assert_eq(dfi__client_put(other, "a", large, LARGE, 0, soon(), NULL),
	    0, "%s", dfi_errmsg());
	memory_is_short = false;
	ear_expect(&ear, "LOST ");
	cr_assert_eq(put_text(client, "b", "1"), -ENOTCONN);
	cr_assert(
	    strstr(dfi_errmsg(), "no memory for an event"), "%s", dfi_errmsg());
	cr_assert_eq(put_text(other, "b", "1"), 0);
	cr_assert_str_eq(ear.log, "LOST ");
	free(large);
}

enum {
	N_WATCHES = 65536,
};

/* The reports to watches of a lost client, on its loop's thread. */
struct loss {
	_Atomic unsigned n;
	int64_t first, last;
	struct registry_watch *next; /* the first one ends it */
};

static int64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void hear_loss(void *arg, const struct registry_event *event)
{
	struct loss *loss = arg;

	if (event->type != REGISTRY_LOST)
		return;
	loss->last = thread_ns();
	if (loss->n == 0) {
		loss->first = loss->last;
		dfi__client_unwatch(loss->next);
	}
	loss->n++;
}

/* With a walk over all watches for each one, this would be 10^9 steps. */
Test(local, a_lost_client_notifies_many_watches)
{
	struct loss loss = { .n = 0 };
	struct registry_interest interest = {
		.prefix = "none",
		.fn = hear_loss,
		.arg = &loss,
	};
	char *large = calloc(1, LARGE);
	struct registry_watch *watch;
	int64_t deadline;
	int i;

	cr_assert_eq(
	    dfi__client_watch(client, "a", hear_loss, &loss, soon(), &watch),
	    0);
	pthread_mutex_lock(&dfi__local_lock);
	for (i = 0; i < N_WATCHES; i++) {
		cr_assert_eq(dfi__local_watch(local_of(client),
				 local_watch_of(watch)->table, &interest),
		    0);
		if (i == 0)
			loss.next = interest.watch;
	}
	pthread_mutex_unlock(&dfi__local_lock);
	memory_is_short = true;
	cr_assert_eq(dfi__client_put(other, "a", large, LARGE, 0, soon(), NULL),
	    0, "%s", dfi_errmsg());
	memory_is_short = false;
	deadline = soon();
	while (loss.n < N_WATCHES)
		cr_assert_lt(clock_now_ns(), deadline, "%u", loss.n);
	cr_assert_lt(loss.last - loss.first, NS_PER_S);
	free(large);
}

enum {
	N_OPENERS = 4,
	N_OPENINGS = 50,
};

static void ignore(void *arg, const struct registry_event *event)
{
	(void)event;
	atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

/* Open, join, leave and close, while others do. Returns a text if it failed. */
static void *open_often(void *arg)
{
	struct registry_client *opened;
	struct registry_interest interest = { .prefix = "", .fn = ignore };
	struct registry_entry entry = { .value = "x", .size = 1 };
	_Atomic unsigned heard = 0;
	struct loop *own;
	char key[16];
	int i;

	interest.arg = (void *)&heard;
	snprintf(key, sizeof(key), "%d", *(int *)arg);
	entry.key = key;
	if (dfi__loop_start("opener", &own))
		return "no loop";
	for (i = 0; i < N_OPENINGS; i++) {
		if (dfi__client_open(
			own, "local:crowd", NULL, 0, soon(), &opened))
			return "cannot open";
		if (dfi__client_join(opened, &interest, 1, &entry, soon()))
			return "cannot join";
		dfi__client_leave(interest.watch, key);
		dfi__client_close(opened);
	}
	stop_loop(own);
	return NULL;
}

Test(local, many_threads_open_and_close_at_once)
{
	pthread_t threads[N_OPENERS];
	int i, numbers[N_OPENERS];
	void *failed;

	for (i = 0; i < N_OPENERS; i++) {
		numbers[i] = i;
		cr_assert_eq(
		    pthread_create(&threads[i], NULL, open_often, &numbers[i]),
		    0);
	}
	for (i = 0; i < N_OPENERS; i++) {
		pthread_join(threads[i], &failed);
		cr_assert_null(failed, "%s", (char *)failed);
	}
	dfi__client_close(client);
	client = open_client_at(loop, "local:crowd");
	cr_assert_eq(count_keys(client, ""), 0);
}

static _Atomic bool forked;

/*
 * The allocator of AddressSanitizer does not survive a fork while another
 * thread starts, ends, or allocates.
 */
#ifdef __SANITIZE_ADDRESS__
#define FORKS_BESIDE_CALLS false
#else
#define FORKS_BESIDE_CALLS true
#endif

/* It takes the lock of all registries. */
static void *delete_until_forked(void *arg)
{
	while (!forked)
		if (dfi__client_delete(arg, "none", 0, soon()) != -ENOENT)
			return "deletes what is not there";
	return NULL;
}

/* Returns a step that failed. */
static int use_in_child(void)
{
	struct registry_client *own;
	struct registry_value value;
	struct loop *child_loop;

	if (dfi__loop_start("child", &child_loop))
		return 1;
	if (dfi__client_open(child_loop, "local:", NULL, 0, soon(), &own))
		return 2;
	if (dfi__client_get(own, "a", soon(), &value) != -ENOENT)
		return 3;
	if (put_text(own, "b", "1"))
		return 4;
	dfi__client_close(own);
	stop_loop(child_loop);
	return 0;
}

/* The parent's other thread may be within a call as it forks. */
Test(local, a_forked_child_begins_with_its_own)
{
	pthread_t thread;
	void *failed;
	int i, status;
	pid_t pid;

	cr_assert_eq(put_text(client, "a", "1"), 0);
	if (FORKS_BESIDE_CALLS)
		cr_assert_eq(
		    pthread_create(&thread, NULL, delete_until_forked, client),
		    0);
	for (i = 0; i < 20; i++) {
		pid = fork();
		if (!pid)
			_exit(use_in_child());
		cr_assert_gt(pid, 0);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert_eq(status, 0, "the child's status: %#x", status);
	}
	forked = true;
	if (FORKS_BESIDE_CALLS) {
		pthread_join(thread, &failed);
		cr_assert_null(failed, "%s", (char *)failed);
	}
	cr_assert_eq(count_keys(other, ""), 1);
}
