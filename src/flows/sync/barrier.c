/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers: each participant has an entry in the registry with the round at
 * which it has arrived, and watches the entries of all. barrier_participants.c
 * interprets the entries. This file writes and watches them, and waits.
 */
#include "barrier_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/maps.h"
#include "registry/client/client.h"
#include "flows/context/context.h"

_Static_assert(
    offsetof(struct dfi_barrier, magic) == HANDLE_MAGIC_OFFSET, "handle");
_Static_assert(
    offsetof(struct dfi_barrier, aborters) == HANDLE_ABORTERS_OFFSET, "handle");

#define BARRIER_USER(barrier)                                              \
	((barrier) && (barrier)->magic == BARRIER_MAGIC ? &(barrier)->user \
							: NULL)
#define BARRIER_SHARED(barrier) \
	dfi__handle_shared(call.other, "barrier '%s'", (barrier)->name)

static void free_barrier(struct dfi_barrier *barrier)
{
	dfi__client_unwatch(barrier->watch);
	if (barrier->processes.ended)
		dfi__processes_remove(
		    barrier->dfi->processes, &barrier->processes);
	pthread_mutex_destroy(&barrier->lock);
	free(barrier->participants.participant);
	dfi__handle_free(barrier, sizeof(*barrier));
}

static int check(struct dfi_barrier *barrier)
{
	int ret;

	pthread_mutex_lock(&barrier->lock);
	ret = dfi__barrier_check(barrier);
	pthread_mutex_unlock(&barrier->lock);
	return ret;
}

/* Whether all rounds have ended, whatever the registry's state. */
static bool is_over(void *arg)
{
	return check(arg) < 0;
}

/* Encode this participant's current entry; NULL: no memory. */
static void *encode_self(
    const struct dfi_barrier *barrier, char key[KEY_SIZE], size_t *size)
{
	void *data = dfi__participant_encode(&barrier->self, size);

	if (!data)
		dfi__fail(
		    -ENOMEM, "barrier '%s': out of memory", barrier->name);
	dfi__participant_key(key, barrier->name, barrier->participants.self);
	return data;
}

static int publish(struct dfi_barrier *barrier, bool create, int64_t deadline)
{
	struct registry_client *client = barrier->dfi->registry;
	char key[KEY_SIZE];
	size_t size;
	void *data;
	int ret;

	data = encode_self(barrier, key, &size);
	if (!data)
		return -ENOMEM;
	ret = create ? dfi__client_create(client, key, data, size,
			   CLIENT_LEASED, deadline, NULL)
		     : dfi__client_put_unless(client, key, data, size,
			   CLIENT_LEASED, is_over, barrier, deadline);
	free(data);
	if (ret < 0 && ret != -EEXIST)
		dfi__fail_within(ret, "barrier '%s'", barrier->name);
	return ret;
}

static void end_publishing(struct dfi_barrier *barrier)
{
	pthread_mutex_lock(&barrier->lock);
	barrier->publishing = false;
	pthread_mutex_unlock(&barrier->lock);
	dfi__barrier_withdraw(barrier);
}

/* -EEXIST; the text names the participant that has the index. */
static int fail_taken(struct dfi_barrier *barrier, int64_t deadline)
{
	uint32_t index = barrier->participants.self;
	struct barrier_participant holder = { .id = 0 };
	struct registry_value value;
	char key[KEY_SIZE], name[256];

	dfi__participant_key(key, barrier->name, index);
	if (!dfi__client_get(barrier->dfi->registry, key, deadline, &value)) {
		dfi__participant_decode(value.data, value.size, &holder);
		dfi__registry_value_free(&value);
	}
	dfi__barrier_name(name, sizeof(name), index, &holder);
	return dfi__fail(
	    -EEXIST, "barrier '%s': %s is open already", barrier->name, name);
}

static int join(struct dfi_barrier *barrier, int64_t deadline)
{
	char prefix[KEY_SIZE];
	int ret;

	dfi__participant_prefix(prefix, barrier->name);
	barrier->suspect = barrier->participants.n;
	barrier->publishing = true;
	barrier->processes.ended = dfi__barrier_process_ended;
	dfi__processes_add(barrier->dfi->processes, &barrier->processes);
	ret = dfi__client_watch(barrier->dfi->registry, prefix,
	    dfi__barrier_event, barrier, deadline, &barrier->watch);
	if (ret < 0)
		return dfi__fail_within(ret, "barrier '%s'", barrier->name);
	ret = check(barrier);
	if (ret < 0)
		return ret;
	ret = publish(barrier, true, deadline);
	if (!ret)
		end_publishing(barrier);
	return ret == -EEXIST ? fail_taken(barrier, deadline) : ret;
}

static int check_arguments(
    const char *name, uint32_t n_participants, uint32_t index, const void *out)
{
	if (!out)
		return dfi__fail(-EINVAL, "dfi_barrier_open: barrier is NULL");
	if (dfi__check_name("barrier", name) < 0)
		return dfi__fail_within(-EINVAL, "dfi_barrier_open");
	if (!n_participants || n_participants > DFI_MAX_PARTICIPANTS)
		return dfi__fail(-EINVAL,
		    "barrier '%s': n_participants %u is not 1 to %d", name,
		    n_participants, DFI_MAX_PARTICIPANTS);
	if (index >= n_participants)
		return dfi__fail(-ERANGE,
		    "barrier '%s': participant %u: the barrier has %u, "
		    "numbered from 0",
		    name, index, n_participants);
	return 0;
}

int dfi_barrier_open(struct dfi *dfi, const char *name, uint32_t n_participants,
    uint32_t index, struct dfi_barrier **out)
{
	struct dfi_barrier *barrier;
	int64_t deadline;
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = check_arguments(name, n_participants, index, out);
	if (ret < 0)
		return ret;
	deadline = context_deadline(dfi, 0);
	barrier = dfi__handle_alloc(sizeof(*barrier));
	if (!barrier)
		return dfi__fail_map(sizeof(*barrier), "barrier '%s'", name);
	pthread_mutex_init(&barrier->lock, NULL);
	barrier->dfi = dfi;
	snprintf(barrier->name, sizeof(barrier->name), "%s", name);
	barrier->self.node = dfi->node;
	barrier->self.n_participants = n_participants;
	if (getrandom(&barrier->self.id, sizeof(barrier->self.id), 0) !=
	    sizeof(barrier->self.id))
		ret = dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	else if (dfi__participants_init(&barrier->participants, n_participants,
		     index, barrier->self.id) < 0)
		ret = dfi__fail(-ENOMEM, "barrier '%s': out of memory", name);
	else
		ret = join(barrier, deadline);
	if (ret < 0) {
		free_barrier(barrier);
		return dfi__error_keep(ret);
	}
	barrier->magic = BARRIER_MAGIC;
	context_use_keep(&use);
	*out = barrier;
	return 0;
}

/*
 * Sleep until news or `until`. The caller holds the lock, which it releases
 * meanwhile. -EINTR, once for each dfi_barrier_interrupt(). A thread with news
 * takes the lock, one that interrupts does not: see wait_wake_fenced().
 */
static int sleep_until_news(struct dfi_barrier *barrier, int64_t until)
{
	bool interrupted;

	atomic_set(&barrier->sleeping, WAIT_BY_FUTEX);
	fence_full();
	interrupted = atomic_peek(&barrier->interrupted);
	if (!interrupted) {
		pthread_mutex_unlock(&barrier->lock);
		dfi__wait_sleep(&barrier->sleeping, until);
		pthread_mutex_lock(&barrier->lock);
	}
	atomic_set(&barrier->sleeping, 0);
	if (!interrupted)
		return 0;
	atomic_set(&barrier->interrupted, false);
	return dfi__fail(-EINTR,
	    "barrier '%s': interrupted (dfi_barrier_interrupt())",
	    barrier->name);
}

/*
 * Wait until all participants have attached (round 0), or have arrived at the
 * round. Under the lock.
 */
static int await(struct dfi_barrier *barrier, uint64_t round, int64_t deadline)
{
	struct barrier_participants *participants = &barrier->participants;
	int64_t next;
	int ret;

	for (;;) {
		if (round ? participants->completed >= round
			  : participants->set != 0)
			return 0;
		ret = dfi__barrier_check(barrier);
		if (ret < 0)
			return ret;
		if (clock_now_ns() >= deadline)
			return dfi__barrier_missing(
			    barrier, barrier->arrived + !round);
		next = deadline;
		if (barrier->suspect < participants->n &&
		    barrier->suspect_until < deadline)
			next = barrier->suspect_until;
		ret = sleep_until_news(barrier, next);
		if (ret < 0)
			return ret;
	}
}

/*
 * A call that gave up waiting may still have arrived; the handle's own watch
 * shows that. Under the lock.
 */
static bool has_arrived(const struct dfi_barrier *barrier)
{
	const struct barrier_participants *participants =
	    &barrier->participants;
	const struct barrier_participant *self =
	    &participants->participant[participants->self];

	return self->present && self->id == barrier->self.id &&
	    self->round > barrier->arrived;
}

/*
 * Wait until all have attached. 1: the others know the arrival already. 0: it
 * must be published. Or an error.
 */
static int prepare(struct dfi_barrier *barrier, int64_t deadline)
{
	int ret;

	pthread_mutex_lock(&barrier->lock);
	ret = await(barrier, 0, deadline);
	if (!ret && has_arrived(barrier))
		ret = 1;
	if (!ret)
		ret = dfi__barrier_check(barrier);
	barrier->publishing = !ret;
	if (!ret)
		barrier->self.set = barrier->participants.set;
	pthread_mutex_unlock(&barrier->lock);
	return ret;
}

/* The deadline for the registry: with timeout_ms 0, the context's limit. */
static int64_t soon(const struct dfi_barrier *barrier, int64_t deadline)
{
	return deadline == DEADLINE_NEVER ? context_deadline(barrier->dfi, 0)
					  : deadline;
}

/*
 * Set the entry again. A lost registry does not get back an entry whose change
 * it never confirmed, and may have dropped it already.
 */
static int renew(struct dfi_barrier *barrier)
{
	char key[KEY_SIZE];
	size_t size;
	void *data;

	data = encode_self(barrier, key, &size);
	if (!data)
		return -ENOMEM;
	dfi__client_renew(barrier->dfi->registry, key, data, size);
	free(data);
	return 0;
}

/* Publish the arrival at the next round. */
static int arrive(struct dfi_barrier *barrier, int64_t deadline)
{
	int ret = prepare(barrier, soon(barrier, deadline)), over;

	if (ret > 0) {
		ret = renew(barrier);
	} else if (!ret) {
		barrier->self.round = barrier->arrived + 1;
		ret = publish(barrier, false, soon(barrier, deadline));
		end_publishing(barrier);
		if (ret == -ETIMEDOUT && (over = check(barrier)) < 0)
			ret = over;
	}
	if (ret >= 0)
		barrier->arrived++;
	return ret < 0 ? ret : 0;
}

/* A time-out that the caller asked for is not logged as an error. */
static int keep_error(int ret, uint32_t timeout_ms)
{
	return ret == -ETIMEDOUT && timeout_ms ? ret : dfi__error_keep(ret);
}

int dfi_barrier_wait(struct dfi_barrier *barrier, uint32_t timeout_ms)
{
	HANDLE_WAITING_CALL(BARRIER_USER(barrier), BARRIER_SHARED(barrier));
	int64_t deadline = DEADLINE_NEVER;
	int ret = handle_check(
	    barrier, barrier ? &barrier->magic : NULL, BARRIER_MAGIC);

	if (ret < 0)
		return ret;
	if (timeout_ms)
		deadline = deadline_in_ms(timeout_ms);
	/* Otherwise the last call arrived and then gave up at its deadline. */
	if (barrier->passed == barrier->arrived)
		ret = arrive(barrier, deadline);
	if (ret < 0)
		return keep_error(ret, timeout_ms);
	pthread_mutex_lock(&barrier->lock);
	ret = await(barrier, barrier->arrived, deadline);
	pthread_mutex_unlock(&barrier->lock);
	if (!ret)
		barrier->passed++;
	/* The call may be the first to notice the loss. */
	else if (ret == -ECONNRESET)
		dfi__barrier_withdraw(barrier);
	return keep_error(ret, timeout_ms);
}

void dfi_barrier_interrupt(struct dfi_barrier *barrier)
{
	HANDLE_SIGNAL(barrier, BARRIER_MAGIC, &barrier->interrupted,
	    wait_wake_fenced(&barrier->sleeping));
}

/*
 * Whether the caller is the first to withdraw; afterwards the control thread
 * does not.
 */
static bool is_first_to_withdraw(struct dfi_barrier *barrier)
{
	bool first;

	pthread_mutex_lock(&barrier->lock);
	first = !barrier->withdrawn;
	barrier->withdrawn = true;
	pthread_mutex_unlock(&barrier->lock);
	return first;
}

int dfi_barrier_close(struct dfi_barrier *barrier)
{
	HANDLE_LAST_CALL(BARRIER_USER(barrier), BARRIER_SHARED(barrier));
	struct dfi *dfi;
	char key[KEY_SIZE];
	int ret;

	if (!barrier)
		return 0;
	ret = handle_check(barrier, &barrier->magic, BARRIER_MAGIC);
	if (ret < 0)
		return ret;
	dfi = barrier->dfi;
	dfi__handle_retire(barrier);
	dfi__barrier_withdraw(barrier);
	dfi__participant_key(key, barrier->name, barrier->participants.self);
	if (is_first_to_withdraw(barrier))
		dfi__client_retire(dfi->registry, key, NULL, 0);
	free_barrier(barrier);
	dfi__context_leave(dfi);
	return 0;
}
