/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequencers: a shared counter in the creator's process, whose name is in the
 * registry. The registry reports the death of the creator. On the same host the
 * kernel does so as well, even without a registry.
 */
#include <dfi/sequencer.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/log.h"
#include "base/maps.h"
#include "registry/client/client.h"
#include "flows/context/context.h"
#include "flows/context/shared_counter.h"
#include "flows/context/handle.h"
#include "flows/context/processes.h"

struct dfi_sequencer {
	char unused[HANDLE_MAGIC_OFFSET];
	uint32_t magic;
	_Atomic uint32_t user; /* HANDLE_CALL() */
	_Atomic bool lost;     /* the creator's entry or process is gone */
	bool created;          /* this handle made it and has the counter */
	struct shared_counter shared_counter;
	struct shared_counter_user user_end;
	char name[DFI_MAX_FLOW_NAME + 1];
	struct dfi *dfi;
	struct registry_watch *watch;
	pthread_mutex_t lock; /* protects what follows until it is open */
	pthread_cond_t changed;
	bool found, registry_lost;
	int error; /* of the entry, with its text: */
	char error_text[ERROR_TEXT_SIZE];
	struct endpoint creator;
	/* Has locks of its own. */
	struct process_watcher processes;
};

_Static_assert(
    offsetof(struct dfi_sequencer, magic) == HANDLE_MAGIC_OFFSET, "handle");

#define SEQUENCER_USER(sequencer)                             \
	((sequencer) && (sequencer)->magic == SEQUENCER_MAGIC \
		? &(sequencer)->user                          \
		: NULL)
#define SEQUENCER_SHARED(sequencer) \
	dfi__handle_shared(call.other, "sequencer '%s'", (sequencer)->name)

/* The key's ending is in no other name's key. */
static void sequencer_key(char key[KEY_SIZE], const char *name)
{
	snprintf(key, KEY_SIZE, "sequencers/%s/counter", name);
}

/*
 * Acts at once, without waiting for the registry: numbers of a dead creator are
 * useless, whatever it did before.
 */
static void on_process_end(
    struct process_watcher *watcher, const struct node *node, bool at_last)
{
	struct dfi_sequencer *sequencer = (void *)((char *)watcher -
	    offsetof(struct dfi_sequencer, processes));

	(void)at_last;
	pthread_mutex_lock(&sequencer->lock);
	if (sequencer->found &&
	    dfi__node_is_process(&sequencer->creator.node, node))
		atomic_set(&sequencer->lost, true);
	pthread_mutex_unlock(&sequencer->lock);
}

/* Whether it is the awaited entry. */
static bool on_put(
    struct dfi_sequencer *sequencer, const struct registry_event *event)
{
	struct endpoint creator;
	int ret = dfi__endpoint_decode(event->data, event->size, &creator);

	if (ret < 0 && !sequencer->found) {
		sequencer->error = ret;
		snprintf(sequencer->error_text, sizeof(sequencer->error_text),
		    "%s", dfi_errmsg());
	} else if (ret == 0 && !sequencer->found) {
		sequencer->error = 0;
		sequencer->creator = creator;
		sequencer->found = true;
		return true;
	} else if (ret < 0 ||
	    !dfi__region_is_same(
		&creator.sequencer, &sequencer->creator.sequencer)) {
		/* Another sequencer has the same name. */
		atomic_set(&sequencer->lost, true);
	}
	return false;
}

static void on_event(void *arg, const struct registry_event *event)
{
	struct dfi_sequencer *sequencer = arg;
	bool found = false;

	pthread_mutex_lock(&sequencer->lock);
	if (event->type == REGISTRY_LOST)
		sequencer->registry_lost = true;
	else if (event->type == REGISTRY_BACK)
		sequencer->registry_lost = false;
	else if (event->type == REGISTRY_PUT)
		found = on_put(sequencer, event);
	else if (event->type == REGISTRY_DELETE && sequencer->found)
		atomic_set(&sequencer->lost, true);
	pthread_cond_signal(&sequencer->changed);
	pthread_mutex_unlock(&sequencer->lock);
	/* The entry that was found first counts. */
	if (found)
		dfi__processes_watch(
		    sequencer->dfi->processes, &sequencer->creator.node);
}

static struct dfi_sequencer *alloc(struct dfi *dfi, const char *name)
{
	struct dfi_sequencer *sequencer = dfi__handle_alloc(sizeof(*sequencer));
	pthread_condattr_t attr;

	if (!sequencer) {
		dfi__fail_map(sizeof(*sequencer), "sequencer '%s'", name);
		return NULL;
	}
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&sequencer->changed, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&sequencer->lock, NULL);
	sequencer->dfi = dfi;
	snprintf(sequencer->name, sizeof(sequencer->name), "%s", name);
	return sequencer;
}

static void free_sequencer(struct dfi_sequencer *sequencer)
{
	dfi__client_unwatch(sequencer->watch);
	if (sequencer->processes.ended)
		dfi__processes_remove(
		    sequencer->dfi->processes, &sequencer->processes);
	dfi__shared_counter_close(&sequencer->user_end);
	dfi__shared_counter_destroy(&sequencer->shared_counter);
	pthread_cond_destroy(&sequencer->changed);
	pthread_mutex_destroy(&sequencer->lock);
	dfi__handle_free(sequencer, sizeof(*sequencer));
}

static int check_arguments(const char *call, const char *name, const void *out)
{
	if (!out)
		return dfi__fail(-EINVAL, "%s: sequencer is NULL", call);
	if (dfi__check_name("sequencer", name) < 0)
		return dfi__fail_within(-EINVAL, "%s", call);
	return 0;
}

/* Create the counter, and open it as any other user does. */
static int reserve(
    struct dfi_sequencer *sequencer, uint64_t first, int64_t deadline)
{
	struct dfi *dfi = sequencer->dfi;
	char what[DFI_MAX_FLOW_NAME + 16];
	int ret;

	snprintf(what, sizeof(what), "sequencer '%s'", sequencer->name);
	ret = dfi__shared_counter_create(dfi, DFI_TRANSPORT_DEFAULT, what,
	    first, &sequencer->shared_counter);

	if (!ret)
		ret = dfi__shared_counter_open(dfi, DFI_TRANSPORT_DEFAULT,
		    &dfi->node, &sequencer->shared_counter.published,
		    WAIT_LIMIT(deadline), &sequencer->user_end);
	sequencer->created = !ret;
	return ret < 0
	    ? dfi__fail_within(ret, "sequencer '%s'", sequencer->name)
	    : 0;
}

/* -EEXIST; the text names the creator that has the name. */
static int fail_taken(
    const struct dfi_sequencer *sequencer, const char *key, int64_t deadline)
{
	struct registry_value value;
	struct endpoint holder;
	char name[200] = "";

	if (!dfi__client_get(sequencer->dfi->registry, key, deadline, &value)) {
		if (!dfi__endpoint_decode(value.data, value.size, &holder))
			snprintf(name, sizeof(name),
			    ", by node %s, host %s, pid %u", holder.node.name,
			    holder.node.host, holder.node.pid);
		dfi__registry_value_free(&value);
	}
	return dfi__fail(-EEXIST, "sequencer '%s': it was created already%s",
	    sequencer->name, name);
}

static int publish(struct dfi_sequencer *sequencer)
{
	struct dfi *dfi = sequencer->dfi;
	int64_t deadline = context_deadline(dfi, 0);
	struct endpoint *creator = &sequencer->creator;
	char key[KEY_SIZE];
	size_t size;
	void *data;
	int ret;

	creator->node = dfi->node;
	creator->sequencer = sequencer->shared_counter.published;
	data = dfi__endpoint_encode(creator, &size);
	if (!data)
		return dfi__fail(
		    -ENOMEM, "sequencer '%s': out of memory", sequencer->name);
	sequencer_key(key, sequencer->name);
	ret = dfi__client_create(
	    dfi->registry, key, data, size, CLIENT_LEASED, deadline, NULL);
	free(data);
	if (ret == -EEXIST)
		return fail_taken(sequencer, key, deadline);
	if (ret < 0)
		return dfi__fail_within(ret, "sequencer '%s'", sequencer->name);
	return 0;
}

int dfi_sequencer_create(struct dfi *dfi, const char *name, uint64_t first,
    struct dfi_sequencer **out)
{
	struct dfi_sequencer *sequencer;
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = check_arguments("dfi_sequencer_create", name, out);
	if (ret < 0)
		return ret;
	sequencer = alloc(dfi, name);
	if (!sequencer)
		return -ENOMEM;
	ret = reserve(sequencer, first, context_deadline(dfi, 0));
	if (!ret)
		ret = publish(sequencer);
	if (ret < 0) {
		free_sequencer(sequencer);
		return dfi__error_keep(ret);
	}
	sequencer->magic = SEQUENCER_MAGIC;
	context_use_keep(&use);
	*out = sequencer;
	return 0;
}

static int fail_lost(const struct dfi_sequencer *sequencer)
{
	const struct node *node = &sequencer->creator.node;

	return dfi__fail(-ECONNRESET,
	    "sequencer '%s': its creator (node %s, host %s, pid %u) has closed "
	    "it, or died",
	    sequencer->name, node->name, node->host, node->pid);
}

/* If the creator has closed the sequencer, that is the error. */
static int fail_take(const struct dfi_sequencer *sequencer, int err)
{
	const struct node *node = &sequencer->creator.node;

	if (atomic_peek(&sequencer->lost))
		return dfi__error_keep(fail_lost(sequencer));
	return dfi__error_keep(
	    dfi__fail_within(err, "sequencer '%s' (node %s, host %s, pid %u)",
		sequencer->name, node->name, node->host, node->pid));
}

/* Wait until the creator is found. Under the lock. */
static int await(struct dfi_sequencer *sequencer, int64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);
	int err = 0;
	CANCEL_OFF;

	while (!sequencer->found) {
		if (sequencer->registry_lost)
			return dfi__fail(-ENOTCONN,
			    "sequencer '%s': the connection to the registry "
			    "was lost while waiting for its creator",
			    sequencer->name);
		if (sequencer->error)
			return dfi__fail(sequencer->error, "sequencer '%s': %s",
			    sequencer->name, sequencer->error_text);
		if (err == ETIMEDOUT)
			return dfi__fail(-ETIMEDOUT,
			    "sequencer '%s': nobody has created it",
			    sequencer->name);
		err = pthread_cond_timedwait(
		    &sequencer->changed, &sequencer->lock, &until);
	}
	return 0;
}

/* Watch for the creator's entry, which may come later, and its process. */
static int find(struct dfi_sequencer *sequencer, int64_t deadline)
{
	char key[KEY_SIZE];
	int ret;

	sequencer_key(key, sequencer->name);
	sequencer->processes.ended = on_process_end;
	dfi__processes_add(sequencer->dfi->processes, &sequencer->processes);
	ret = dfi__client_watch(sequencer->dfi->registry, key, on_event,
	    sequencer, deadline, &sequencer->watch);
	if (ret < 0)
		return dfi__fail_within(ret, "sequencer '%s'", sequencer->name);
	pthread_mutex_lock(&sequencer->lock);
	ret = await(sequencer, deadline);
	pthread_mutex_unlock(&sequencer->lock);
	return ret;
}

static bool is_lost(void *arg)
{
	struct dfi_sequencer *sequencer = arg;

	return atomic_peek(&sequencer->lost);
}

/* Open the counter. The creator's entry doesn't change, but may go. */
static int reach(struct dfi_sequencer *sequencer, int64_t deadline)
{
	struct wait_limit wait_limit = { deadline, is_lost, sequencer };
	struct dfi *dfi = sequencer->dfi;
	const struct endpoint *creator = &sequencer->creator;
	int ret;

	ret = dfi__shared_counter_open(dfi, DFI_TRANSPORT_DEFAULT,
	    &creator->node, &creator->sequencer, &wait_limit,
	    &sequencer->user_end);
	/* Its proof of membership came too late. */
	if (ret == -EACCES && is_lost(sequencer))
		return fail_lost(sequencer);
	return ret < 0
	    ? dfi__fail_within(ret, "sequencer '%s' (node %s, host %s, pid %u)",
		  sequencer->name, creator->node.name, creator->node.host,
		  creator->node.pid)
	    : 0;
}

int dfi_sequencer_open(struct dfi *dfi, const char *name,
    uint32_t open_timeout_ms, struct dfi_sequencer **out)
{
	struct dfi_sequencer *sequencer;
	int64_t deadline;
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = check_arguments("dfi_sequencer_open", name, out);
	if (ret < 0)
		return ret;
	deadline = context_deadline(dfi, open_timeout_ms);
	sequencer = alloc(dfi, name);
	if (!sequencer)
		return -ENOMEM;
	ret = find(sequencer, deadline);
	if (!ret)
		ret = reach(sequencer, deadline);
	if (ret < 0) {
		free_sequencer(sequencer);
		return dfi__error_keep(ret);
	}
	sequencer->magic = SEQUENCER_MAGIC;
	context_use_keep(&use);
	*out = sequencer;
	return 0;
}

/* Looks before the thread yields, which soft-RoCE may need. */
#define LOOKS 256

/* Wait until the numbers arrive, the connection ends, or the creator goes. */
static int take(struct dfi_sequencer *sequencer, uint32_t n, uint64_t *number)
{
	unsigned looks = 0;
	int ret;

	while (
	    (ret = shared_counter_take(&sequencer->user_end, n, number)) == 0) {
		if (atomic_peek(&sequencer->lost))
			return fail_lost(sequencer);
		if (++looks % LOOKS == 0)
			sched_yield();
	}
	return ret < 0 ? ret : 0;
}

int dfi_sequencer_next(
    struct dfi_sequencer *sequencer, uint32_t n, uint64_t *first)
{
	HANDLE_CALL(SEQUENCER_USER(sequencer), SEQUENCER_SHARED(sequencer));
	int ret = handle_check(
	    sequencer, sequencer ? &sequencer->magic : NULL, SEQUENCER_MAGIC);
	uint64_t number;

	if (ret < 0)
		return ret;
	if (unlikely(!n || !first))
		return dfi__fail(-EINVAL, "sequencer '%s': next: %s",
		    sequencer->name, n ? "first is NULL" : "n is 0");
	ret = take(sequencer, n, &number);
	if (unlikely(ret < 0))
		return fail_take(sequencer, ret);
	if (unlikely(shared_counter_is_closed(&sequencer->user_end) ||
		atomic_peek(&sequencer->lost)))
		return dfi__error_keep(fail_lost(sequencer));
	*first = number;
	return 0;
}

int dfi_sequencer_close(struct dfi_sequencer *sequencer)
{
	HANDLE_LAST_CALL(
	    SEQUENCER_USER(sequencer), SEQUENCER_SHARED(sequencer));
	char key[KEY_SIZE];
	struct dfi *dfi;
	int ret;

	if (!sequencer)
		return 0;
	ret = handle_check(sequencer, &sequencer->magic, SEQUENCER_MAGIC);
	if (ret < 0)
		return ret;
	dfi = sequencer->dfi;
	if (sequencer->created) {
		dfi__shared_counter_close(&sequencer->user_end);
		dfi__shared_counter_destroy(&sequencer->shared_counter);
		sequencer_key(key, sequencer->name);
		dfi__client_forget(dfi->registry, key);
	}
	free_sequencer(sequencer);
	dfi__context_leave(dfi);
	return 0;
}
