/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and credits under way: each has a time of arrival. A thread sleeps
 * until the first of them; polling threads do the same work.
 */
#include "loopback.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/thread.h"
#include "base/wait.h"

/* The longest that anything travels. */
#define LONGEST_NS (50 * INT64_C(1000))

pthread_mutex_t loopback_lock = PTHREAD_MUTEX_INITIALIZER;
struct loopback_remote *loopback_remotes;

static pthread_cond_t sooner;
static pthread_t thread;
static uint32_t n_users;
static bool stopping;
static uint64_t random_state;
static _Atomic int64_t first_due = DEADLINE_NEVER;

uint64_t loopback_random(void)
{
	uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* The arrival time of a transfer that leaves now. */
static int64_t arrival(void)
{
	int64_t due = clock_now_ns() +
	    (int64_t)(loopback_random() % LONGEST_NS);

	if (due < atomic_peek(&first_due)) {
		atomic_set(&first_due, due);
		pthread_cond_signal(&sooner);
	}
	return due;
}

/* Behind what is in the queue, even if it comes at the same time. */
static void enqueue(
    struct loopback_queue *queue, struct loopback_request *request)
{
	struct loopback_request *last = TAILQ_LAST(queue, loopback_queue);

	request->due = arrival();
	if (last && request->due < last->due)
		request->due = last->due;
	TAILQ_INSERT_TAIL(queue, request, link);
}

void loopback_send(
    struct loopback_remote *remote, struct loopback_request *request)
{
	remote->n_under_way++;
	enqueue(&remote->sent, request);
}

/* A newer one overtakes it: only the newest counts. */
void loopback_send_credit(
    struct loopback_remote *remote, uint64_t consumed, enum ring_closed closed)
{
	remote->consumed = consumed;
	remote->closed = closed;
	if (!remote->credit_due)
		remote->credit_due = arrival();
}

/* ---- At the owner ------------------------------------------------------ */

/* In two parts, of which either may come first. */
static void copy_payload(char *to, const char *from, uint64_t size)
{
	uint64_t cut = loopback_random() % (size + 1);
	bool backwards = loopback_random() % 2;

	if (!size)
		return; /* from may be NULL */
	if (backwards)
		memcpy(to + cut, from + cut, size - cut);
	memcpy(to, from, cut);
	if (!backwards)
		memcpy(to + cut, from + cut, size - cut);
}

static void write_segment(const struct loopback_remote *remote,
    struct loopback_ring *ring, const struct transport_write *write, char *base)
{
	_Atomic uint64_t *footer = (_Atomic uint64_t *)(void *)(base +
	    write->footer_offset);
	uint64_t at = write->payload_offset;
	uint64_t next[2] = { write->footer[0], write->footer[1] };

	if (write->payload_size && ring->bare) {
		footer_next_sent(&remote->layout.shape,
		    sent_bytes(write->payload_size, write->footer[1]),
		    ring->footer);
		memcpy(next, ring->footer, sizeof(next));
	} else if (write->payload_size && loopback_random() % 2 &&
	    remote->layout.shape.footer_offset > 0) {
		at += footer_shifted_at(
		    write->footer_offset - at, write->payload_size);
		if (at != write->payload_offset)
			next[1] |= FOOTER_FLAG_SHIFTED;
	}
	copy_payload(base + at,
	    remote->base.send_buffer
		? write->buffered
		: remote->base.ring + write->payload_offset,
	    write->payload_size);
	atomic_set(&footer[0], next[0]);
	/* Pairs with the reader's observe of this word (reader.c). */
	atomic_publish(&footer[1], next[1]);
}

static void arrive(
    struct loopback_remote *remote, const struct loopback_request *request)
{
	struct loopback_export *export = remote->export;
	char *region = export->region->base;
	char *base = region + remote->layout.first_ring +
	    remote->ring * remote->layout.ring_size;

	if (!remote->layout.n_slots) {
		remote->before = atomic_fetch_add(
		    (_Atomic uint64_t *)(void *)(base + request->offset),
		    request->n);
		return;
	}
	write_segment(
	    remote, &export->rings[remote->ring], &request->write, base);
	wait_wake_fenced(
	    (_Atomic uint32_t *)(void *)(region + REGION_WAIT_OFFSET));
}

/* ---- At the writer ----------------------------------------------------- */

static void take_credit(struct loopback_remote *remote)
{
	struct ring_credit *credit =
	    (struct ring_credit *)(void *)remote->base.ring;

	remote->credit_due = 0;
	/* They pair with dfi__writer_room() and writer_closed(). */
	atomic_publish(&credit->consumed, remote->consumed);
	if (remote->closed)
		atomic_publish(&credit->closed, remote->closed);
}

static void wake_writer(struct loopback_remote *remote)
{
	wait_wake_fenced((_Atomic uint32_t *)(void *)(remote->base.ring +
	    remote->layout.wait_offset));
}

static void sooner_of(int64_t *first, int64_t due)
{
	if (due && due < *first)
		*first = due;
}

static int64_t due_of(const struct loopback_queue *queue)
{
	const struct loopback_request *request = TAILQ_FIRST(queue);

	return request ? request->due : 0;
}

/* Deliver the due transfers of a remote. Returns the time of the next one. */
static int64_t step(struct loopback_remote *remote, int64_t now)
{
	struct loopback_request *request;
	int64_t next = DEADLINE_NEVER;
	bool news = false;

	while ((request = TAILQ_FIRST(&remote->sent)) && request->due <= now) {
		TAILQ_REMOVE(&remote->sent, request, link);
		arrive(remote, request);
		enqueue(&remote->arrived, request);
	}
	if (remote->credit_due && remote->credit_due <= now) {
		take_credit(remote);
		news = true;
	}
	while (
	    (request = TAILQ_FIRST(&remote->arrived)) && request->due <= now) {
		TAILQ_REMOVE(&remote->arrived, request, link);
		free(request);
		remote->n_under_way--;
		news = true;
	}
	if (news)
		wake_writer(remote);
	sooner_of(&next, due_of(&remote->sent));
	sooner_of(&next, due_of(&remote->arrived));
	sooner_of(&next, remote->credit_due);
	return next;
}

void loopback_deliver(int64_t now)
{
	struct loopback_remote *remote, *next;
	int64_t first = DEADLINE_NEVER;

	for (remote = loopback_remotes; remote; remote = next) {
		next = remote->next;
		sooner_of(&first, step(remote, now));
		if (remote->closing && !remote->n_under_way)
			loopback_free_remote(remote);
	}
	atomic_set(&first_due, first);
}

void loopback_cut(struct loopback_remote *remote)
{
	struct loopback_request *request;

	while ((request = TAILQ_FIRST(&remote->sent))) {
		TAILQ_REMOVE(&remote->sent, request, link);
		free(request);
		remote->n_under_way--;
	}
	remote->export = NULL;
	remote->credit_due = 0;
	atomic_set(&remote->base.lost, true);
	wake_writer(remote);
}

void loopback_look(void)
{
	int64_t now = clock_now_ns();

	if (now < atomic_peek(&first_due) ||
	    pthread_mutex_trylock(&loopback_lock) != 0)
		return;
	loopback_deliver(now);
	pthread_mutex_unlock(&loopback_lock);
}

/* ---- The thread -------------------------------------------------------- */

static void *run(void *arg)
{
	struct timespec until;
	int64_t due;

	(void)arg;
	pthread_mutex_lock(&loopback_lock);
	while (!stopping) {
		loopback_deliver(clock_now_ns());
		due = atomic_peek(&first_due);
		until = deadline_timespec(due);
		if (due == DEADLINE_NEVER)
			pthread_cond_wait(&sooner, &loopback_lock);
		else
			pthread_cond_timedwait(&sooner, &loopback_lock, &until);
	}
	pthread_mutex_unlock(&loopback_lock);
	return NULL;
}

static int start_thread(uint64_t seed)
{
	pthread_condattr_t attr;
	int err;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&sooner, &attr);
	pthread_condattr_destroy(&attr);
	random_state = seed;
	stopping = false;
	err = dfi__thread_start("dfi-loopback", run, NULL, &thread);
	if (!err)
		return 0;
	pthread_cond_destroy(&sooner);
	return dfi__thread_fail("dfi-loopback", err);
}

/* One starts or stops at a time. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

int loopback_wire_start(uint64_t seed)
{
	int ret = 0;

	pthread_mutex_lock(&start_lock);
	if (!n_users)
		ret = start_thread(seed);
	if (!ret)
		n_users++;
	pthread_mutex_unlock(&start_lock);
	return ret;
}

void loopback_wire_stop(void)
{
	pthread_mutex_lock(&start_lock);
	if (!--n_users) {
		pthread_mutex_lock(&loopback_lock);
		assert(!loopback_remotes);
		stopping = true;
		pthread_cond_signal(&sooner);
		pthread_mutex_unlock(&loopback_lock);
		pthread_join(thread, NULL);
		pthread_cond_destroy(&sooner);
	}
	pthread_mutex_unlock(&start_lock);
}
