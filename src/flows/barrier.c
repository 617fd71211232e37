/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers: each member has an entry in the registry that says at which round
 * it has arrived, and watches those of all. What the entries mean is in
 * member.c; here are the entries' way there and back, and the waiting.
 */
#include <dfi/barrier.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/error_list.h"
#include "../base/log.h"
#include "../registry/client.h"
#include "context.h"
#include "handle.h"
#include "member.h"

#define NAMED_MISSING 3 /* members that a text names */

struct dfi_barrier {
	char unused[HANDLE_MAGIC_OFFSET];
	uint32_t magic;
	_Atomic uint32_t user; /* HANDLE_CALL() */
	char name[DFI_MAX_FLOW_NAME + 1];
	struct dfi *dfi;
	struct barrier_member self;
	uint64_t arrived; /* the last round that the registry knows of */
	uint64_t passed;  /* and the last that a call returned from */
	struct registry_watch *watch;
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t changed;
	struct barrier_members members;
	bool registry_lost;
};

_Static_assert(
    offsetof(struct dfi_barrier, magic) == HANDLE_MAGIC_OFFSET, "handle");

#define BARRIER_USER(barrier)                                              \
	((barrier) && (barrier)->magic == BARRIER_MAGIC ? &(barrier)->user \
							: NULL)
#define BARRIER_SHARED(barrier) \
	dfi__handle_shared(call.other, "barrier '%s'", (barrier)->name)

static void on_put(
    struct dfi_barrier *barrier, const struct registry_event *event)
{
	struct barrier_member member;
	uint32_t index;

	if (!dfi__endpoint_index(event->key, &index))
		return;
	if (dfi__member_decode(event->data, event->size, &member) < 0) {
		dfi__log(DFI_LOG_WARN, "%s: %s", event->key, dfi_errmsg());
		return;
	}
	dfi__members_put(&barrier->members, index, &member);
}

static void on_event(void *arg, const struct registry_event *event)
{
	struct dfi_barrier *barrier = arg;
	uint32_t index;

	pthread_mutex_lock(&barrier->lock);
	if (event->type == REGISTRY_LOST)
		barrier->registry_lost = true;
	else if (event->type == REGISTRY_BACK)
		barrier->registry_lost = false;
	else if (event->type == REGISTRY_PUT)
		on_put(barrier, event);
	else if (event->type == REGISTRY_DELETE &&
	    dfi__endpoint_index(event->key, &index))
		dfi__members_delete(&barrier->members, index);
	pthread_cond_signal(&barrier->changed);
	pthread_mutex_unlock(&barrier->lock);
}

static void init_lock(struct dfi_barrier *barrier)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&barrier->changed, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&barrier->lock, NULL);
}

static void free_barrier(struct dfi_barrier *barrier)
{
	dfi__client_unwatch(barrier->watch);
	pthread_cond_destroy(&barrier->changed);
	pthread_mutex_destroy(&barrier->lock);
	free(barrier->members.member);
	dfi__handle_free(barrier, sizeof(*barrier));
}

/* "member 2 (node N, host H, pid P)" */
static void name_member(char *text, size_t size, uint32_t index,
    const struct barrier_member *member)
{
	if (!member->id)
		snprintf(text, size, "member %u", index);
	else
		snprintf(text, size, "member %u (node %s, host %s, pid %u)",
		    index, member->node.name, member->node.host,
		    member->node.pid);
}

/* What ends all rounds, with its text; 0: nothing so far. Under the lock. */
static int check(const struct dfi_barrier *barrier)
{
	const struct barrier_members *members = &barrier->members;
	char name[256];

	if (members->disagree) {
		name_member(
		    name, sizeof(name), members->other_index, &members->other);
		return dfi__fail(-EPROTOTYPE,
		    "barrier '%s': %s has opened it for %u members, and "
		    "member %u for %u: all must name the same number",
		    barrier->name, name, members->other.n_members,
		    members->self, members->n);
	}
	if (members->lost < members->n) {
		name_member(name, sizeof(name), members->lost,
		    &members->member[members->lost]);
		return dfi__fail(-ECONNRESET,
		    "barrier '%s': %s died or closed before round %llu was "
		    "complete",
		    barrier->name, name,
		    (unsigned long long)members->completed + 1);
	}
	if (barrier->registry_lost)
		return dfi__fail(-ENOTCONN,
		    "barrier '%s': the connection to the registry is lost",
		    barrier->name);
	return 0;
}

static int publish(struct dfi_barrier *barrier, bool create, int64_t deadline)
{
	struct registry_client *client = barrier->dfi->registry;
	char key[KEY_SIZE];
	size_t size;
	void *data;
	int ret;

	data = dfi__member_encode(&barrier->self, &size);
	if (!data)
		return dfi__fail(
		    -ENOMEM, "barrier '%s': out of memory", barrier->name);
	dfi__member_key(key, barrier->name, barrier->members.self);
	ret = create ? dfi__client_create(client, key, data, size,
			   CLIENT_LEASED, deadline, NULL)
		     : dfi__client_put(client, key, data, size, CLIENT_LEASED,
			   deadline, NULL);
	free(data);
	if (ret < 0 && ret != -EEXIST)
		dfi__fail_within(ret, "barrier '%s'", barrier->name);
	return ret;
}

/* -EEXIST with a text that says who has the index. */
static int fail_taken(struct dfi_barrier *barrier, int64_t deadline)
{
	uint32_t index = barrier->members.self;
	struct barrier_member holder = { .id = 0 };
	struct registry_value value;
	char key[KEY_SIZE], name[256];

	dfi__member_key(key, barrier->name, index);
	if (!dfi__client_get(barrier->dfi->registry, key, deadline, &value)) {
		dfi__member_decode(value.data, value.size, &holder);
		dfi__registry_value_free(&value);
	}
	name_member(name, sizeof(name), index, &holder);
	return dfi__fail(
	    -EEXIST, "barrier '%s': %s is open already", barrier->name, name);
}

static int join(struct dfi_barrier *barrier, int64_t deadline)
{
	char prefix[KEY_SIZE];
	int ret;

	dfi__member_prefix(prefix, barrier->name);
	ret = dfi__client_watch(barrier->dfi->registry, prefix, on_event,
	    barrier, deadline, &barrier->watch);
	if (ret < 0)
		return dfi__fail_within(ret, "barrier '%s'", barrier->name);
	pthread_mutex_lock(&barrier->lock);
	ret = check(barrier);
	pthread_mutex_unlock(&barrier->lock);
	if (ret < 0)
		return ret;
	ret = publish(barrier, true, deadline);
	return ret == -EEXIST ? fail_taken(barrier, deadline) : ret;
}

static int check_arguments(
    const char *name, uint32_t n_members, uint32_t index, const void *out)
{
	if (!out)
		return dfi__fail(-EINVAL, "dfi_barrier_open: barrier is NULL");
	if (dfi__flow_check_name(name) < 0)
		return dfi__fail_within(-EINVAL, "dfi_barrier_open");
	if (!n_members || n_members > DFI_MAX_MEMBERS)
		return dfi__fail(-EINVAL,
		    "barrier '%s': n_members %u is not 1 to %d", name,
		    n_members, DFI_MAX_MEMBERS);
	if (index >= n_members)
		return dfi__fail(-ERANGE,
		    "barrier '%s': member %u: the barrier has %u, numbered "
		    "from 0",
		    name, index, n_members);
	return 0;
}

int dfi_barrier_open(struct dfi *dfi, const char *name, uint32_t n_members,
    uint32_t index, struct dfi_barrier **out)
{
	struct dfi_barrier *barrier;
	int64_t deadline;
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = check_arguments(name, n_members, index, out);
	if (ret < 0)
		return ret;
	deadline = context_deadline(dfi, 0);
	barrier = dfi__handle_alloc(sizeof(*barrier));
	if (!barrier)
		return dfi__fail(-ENOMEM, "barrier '%s': out of memory", name);
	init_lock(barrier);
	barrier->dfi = dfi;
	snprintf(barrier->name, sizeof(barrier->name), "%s", name);
	barrier->self.node = dfi->node;
	barrier->self.n_members = n_members;
	if (getrandom(&barrier->self.id, sizeof(barrier->self.id), 0) !=
	    sizeof(barrier->self.id))
		ret = dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	else if (dfi__members_init(
		     &barrier->members, n_members, index, barrier->self.id) < 0)
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

/* A text that grows, and is cut at its end. */
struct text {
	char at[400];
	size_t used;
};

static void __attribute__((format(printf, 2, 3)))
append(struct text *text, const char *fmt, ...)
{
	va_list ap;
	int length;

	va_start(ap, fmt);
	length = vsnprintf(
	    text->at + text->used, sizeof(text->at) - text->used, fmt, ap);
	va_end(ap);
	if (length > 0)
		text->used += (size_t)length;
	if (text->used >= sizeof(text->at))
		text->used = sizeof(text->at) - 1;
}

/* Whether a member is what the round waits for. */
static bool is_missing(
    const struct barrier_members *members, uint32_t i, uint64_t round)
{
	if (!members->set)
		return !member_joined(members, i);
	return members->member[i].round < round;
}

static int fail_missing(const struct dfi_barrier *barrier, uint64_t round)
{
	const struct barrier_members *members = &barrier->members;
	struct text text = { .used = 0 };
	uint32_t i, n_missing = 0;
	char name[256];

	for (i = 0; i < members->n; i++) {
		if (!is_missing(members, i, round) ||
		    n_missing++ >= NAMED_MISSING)
			continue;
		if (member_joined(members, i))
			name_member(name, sizeof(name), i, &members->member[i]);
		else
			snprintf(name, sizeof(name), "member %u", i);
		append(&text, "%s%s has not %s", n_missing > 1 ? ", " : "",
		    name, members->set ? "arrived" : "opened it");
	}
	if (n_missing > NAMED_MISSING)
		append(&text, ", and %u more", n_missing - NAMED_MISSING);
	return dfi__fail(-ETIMEDOUT, "barrier '%s': round %llu of %u: %s",
	    barrier->name, (unsigned long long)round, members->n, text.at);
}

/*
 * Wait until all members are there (round 0), or have arrived at the round.
 * Under the lock.
 */
static int await(struct dfi_barrier *barrier, uint64_t round, int64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);
	struct barrier_members *members = &barrier->members;
	int err = 0, ret;

	for (;;) {
		if (round ? members->completed >= round : members->set != 0)
			return 0;
		ret = check(barrier);
		if (ret < 0)
			return ret;
		if (err == ETIMEDOUT)
			return fail_missing(barrier, barrier->arrived + !round);
		if (deadline == DEADLINE_NEVER)
			pthread_cond_wait(&barrier->changed, &barrier->lock);
		else
			err = pthread_cond_timedwait(
			    &barrier->changed, &barrier->lock, &until);
	}
}

/* Tell the others. A late answer is no harm: it is told again, or known. */
static int arrive(struct dfi_barrier *barrier, int64_t deadline)
{
	int64_t soon = deadline == DEADLINE_NEVER
	    ? context_deadline(barrier->dfi, 0)
	    : deadline;
	int ret;

	pthread_mutex_lock(&barrier->lock);
	ret = await(barrier, 0, soon);
	if (!ret)
		ret = check(barrier);
	barrier->self.set = barrier->members.set;
	pthread_mutex_unlock(&barrier->lock);
	if (ret < 0)
		return ret;
	barrier->self.round = barrier->arrived + 1;
	ret = publish(barrier, false, soon);
	if (!ret)
		barrier->arrived++;
	return ret;
}

int dfi_barrier_wait(struct dfi_barrier *barrier, uint32_t timeout_ms)
{
	HANDLE_CALL(BARRIER_USER(barrier), BARRIER_SHARED(barrier));
	int64_t deadline = DEADLINE_NEVER;
	int ret = handle_check(
	    barrier, barrier ? &barrier->magic : NULL, BARRIER_MAGIC);

	if (ret < 0)
		return ret;
	if (timeout_ms)
		deadline = deadline_in_ms(timeout_ms);
	/* Else the last call gave up at its deadline, having arrived. */
	if (barrier->passed == barrier->arrived)
		ret = arrive(barrier, deadline);
	if (ret < 0)
		return dfi__error_keep(ret);
	pthread_mutex_lock(&barrier->lock);
	ret = await(barrier, barrier->arrived, deadline);
	pthread_mutex_unlock(&barrier->lock);
	if (!ret)
		barrier->passed++;
	return dfi__error_keep(ret);
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
	dfi__member_key(key, barrier->name, barrier->members.self);
	dfi__client_forget(dfi->registry, key);
	free_barrier(barrier);
	dfi__context_leave(dfi);
	return 0;
}
