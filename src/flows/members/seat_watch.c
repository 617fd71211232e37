/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys below flows/<name>/<instance>/, in the order of the registry's changes.
 * A key that does not exist can be created once, so a seat has one holder.
 */
#include "seat_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <dfi/open_flow.h>
#include "base/clock.h"
#include "base/error.h"
#include "flows/context/context.h"
#include "flows/open/keys.h"
#include "eviction.h"
#include "tables_watch.h"
#include "registry/client/client.h"

static const char *const words[] = {
	[OPEN_SOURCE] = "source",
	[OPEN_TARGET] = "target",
};

/* An id's lowest bits are the attempt; the others name the pair. */
#define ATTEMPTS (UINT64_C(1) << 16)

static bool is_same_pair(uint64_t a, uint64_t b)
{
	return a / ATTEMPTS == b / ATTEMPTS;
}

uint64_t dfi__seat_watch_pair(
    const struct seat_watch *watch, uint64_t incarnation, uint32_t attempt)
{
	bool is_source = watch->role == OPEN_SOURCE;
	uint64_t source = is_source ? watch->incarnation : incarnation;
	uint64_t target = is_source ? incarnation : watch->incarnation;
	uint64_t pair = (source * UINT64_C(0x9e3779b97f4a7c15)) ^ target;

	if (pair < ATTEMPTS)
		pair |= ATTEMPTS;
	return pair - pair % ATTEMPTS + attempt % ATTEMPTS;
}

/* Who holds seats of the other role: returns how many. */
static uint32_t note_holders(const struct seat_watch *watch, uint64_t *holders)
{
	uint32_t i, n = 0;

	for (i = 0; i < watch->n_others; i++) {
		holders[n] = seat_watch_holder(watch, i);
		n += holders[n] != 0;
	}
	return n;
}

/* The own key is there. What came before counts for this endpoint. */
static void note_before(struct seat_watch *watch)
{
	watch->finished_before = watch->finished;
	if (watch->before)
		watch->n_before = note_holders(watch, watch->before);
}

static void see_view_key(struct seat_watch *watch, const struct open_key *key,
    const struct registry_event *event)
{
	uint64_t newest = watch->views.newest.number;

	dfi__open_views_see(
	    &watch->views, key, event->data, event->size, event->revision);
	if (watch->views.newest.number != newest)
		watch->n_in_view = note_holders(watch, watch->in_view);
}

/* Under the lock, as the next ones: somebody has taken a seat, or changed. */
static void put_seat(struct seat_watch *watch, enum open_role role,
    uint32_t seat, const struct registry_event *event)
{
	struct endpoint endpoint;
	struct open_holder holder;
	struct open_events events;

	if (dfi__endpoint_decode(event->data, event->size, &endpoint) < 0 ||
	    !endpoint.incarnation)
		return;
	holder = (struct open_holder){
		.incarnation = endpoint.incarnation,
		.store_epoch = endpoint.store_epoch,
	};
	if (open_seat_is(&watch->seats, role, seat, holder.incarnation))
		holder.leaving = watch->seats.seats[role][seat].holder.leaving;
	if (endpoint.incarnation == watch->incarnation && !watch->seats.begun)
		note_before(watch);
	else if (role == OPEN_SOURCE && watch->finished &&
	    event->revision > watch->finished_at &&
	    !open_seat_is(&watch->seats, role, seat, holder.incarnation))
		return; /* a source that comes later counts for nobody */
	dfi__open_seats_put(
	    &watch->seats, role, seat, &holder, event->revision, &events);
}

static void see_seat(struct seat_watch *watch, enum open_role role,
    uint32_t seat, const struct registry_event *event)
{
	struct open_events events;

	if (event->type == REGISTRY_PUT)
		put_seat(watch, role, seat, event);
	else if (!event->replaced)
		dfi__open_seats_delete(&watch->seats, role, seat, &events);
}

/* A side of a pair with some holder of a seat: its id tells whether of ours. */
static void note_pair(struct seat_watch *watch, uint32_t seat, uint64_t pair)
{
	if (!is_same_pair(pair,
		dfi__seat_watch_pair(watch, seat_watch_holder(watch, seat), 0)))
		return;
	if (!is_same_pair(pair, watch->pairs[seat][0]))
		watch->pairs[seat][1] = watch->pairs[seat][0];
	watch->pairs[seat][0] = pair;
}

/* Without memory, that pair is not made. */
static void keep_early(struct seat_watch *watch, uint32_t seat, uint64_t pair)
{
	struct early_pair *early;

	if (watch->n_early == watch->early_room) {
		early = reallocarray(
		    watch->early, watch->early_room * 2 + 16, sizeof(*early));
		if (!early)
			return;
		watch->early = early;
		watch->early_room = watch->early_room * 2 + 16;
	}
	watch->early[watch->n_early++] = (struct early_pair){ pair, seat };
}

/* pairs/<id>/sources/<i> or .../targets/<j> */
static void see_pair(
    struct seat_watch *watch, const char *key, const char *rest)
{
	char *end;
	uint64_t pair = strtoull(rest, &end, 16);
	uint32_t seat;

	if (*end != '/' ||
	    strncmp(end + 1, words[watch->other], strlen(words[0])) != 0 ||
	    !dfi__endpoint_index(key, &seat) || seat >= watch->n_others)
		return;
	note_pair(watch, seat, pair);
	if (watch->restoring)
		keep_early(watch, seat, pair);
}

/* The connection is lost, or restored: all holders are known again. */
static void see_connection(struct seat_watch *watch, bool restored)
{
	size_t i;

	watch->restoring = !restored;
	if (!restored)
		return;
	for (i = 0; i < watch->n_early; i++)
		note_pair(watch, watch->early[i].seat, watch->early[i].pair);
	watch->n_early = 0;
}

/* The own key of a pair is gone. */
static void see_own_end(
    struct seat_watch *watch, const char *key, const char *rest)
{
	char *end;
	uint64_t pair = strtoull(rest, &end, 16);
	uint32_t index, seat;

	if (*end != '/' ||
	    strncmp(end + 1, words[watch->role], strlen(words[0])) != 0 ||
	    !dfi__endpoint_index(key, &index) || index != watch->seats.own_seat)
		return;
	for (seat = 0; seat < watch->n_others; seat++)
		if (is_same_pair(pair,
			dfi__seat_watch_pair(
			    watch, seat_watch_holder(watch, seat), 0)))
			watch->withdrawn[seat] = pair;
}

uint64_t dfi__seat_watch_attached(
    const struct seat_watch *watch, uint32_t seat, uint64_t incarnation)
{
	uint64_t pair = dfi__seat_watch_pair(watch, incarnation, 0);
	uint32_t i;

	for (i = 0; i < SEAT_WATCH_PAIRS; i++)
		if (is_same_pair(watch->pairs[seat][i], pair))
			return watch->pairs[seat][i];
	return 0;
}

/*
 * A watch begins with all keys that are there, in any order. So revisions tell
 * which sources came before.
 */
static void finish(struct seat_watch *watch, uint64_t revision)
{
	if (!watch->finished)
		watch->finished_at = revision;
	watch->finished = true;
}

static void see_key(
    struct seat_watch *watch, const struct registry_event *event)
{
	char prefix[KEY_SIZE];
	struct open_key key;
	const char *rest;

	dfi__flow_prefix(prefix, watch->flow);
	rest = event->key + strlen(prefix);
	if (!strcmp(rest, "finished") && event->type == REGISTRY_PUT)
		finish(watch, event->revision);
	else if (dfi__eviction_see(watch, rest, event))
		return;
	else if (watch->resume &&
	    dfi__open_key_read(
		rest, watch->flow->n_sources, watch->flow->n_targets, &key) &&
	    key.kind == OPEN_KEY_PAIR)
		dfi__tables_watch_see(watch, &key, event);
	else if (!strncmp(rest, "pairs/", strlen("pairs/")) &&
	    event->type == REGISTRY_PUT)
		see_pair(watch, event->key, rest + strlen("pairs/"));
	else if (!strncmp(rest, "pairs/", strlen("pairs/")))
		see_own_end(watch, event->key, rest + strlen("pairs/"));
	else if (!dfi__open_key_read(rest, watch->flow->n_sources,
		     watch->flow->n_targets, &key))
		return;
	else if (key.kind == OPEN_KEY_SOURCE)
		see_seat(watch, OPEN_SOURCE, key.source, event);
	else if (key.kind == OPEN_KEY_TARGET)
		see_seat(watch, OPEN_TARGET, key.target, event);
	else if (watch->flow->ordered && event->type == REGISTRY_PUT)
		see_view_key(watch, &key, event);
	else if (key.kind == OPEN_KEY_GIVEN_UP) {
		if (event->type == REGISTRY_PUT)
			dfi__open_seats_give_up(
			    &watch->seats, key.source, event->revision);
	} else if (watch->tables)
		dfi__tables_watch_see(watch, &key, event);
}

void dfi__seat_watch_see(
    struct seat_watch *watch, const struct registry_event *event)
{
	pthread_mutex_lock(&watch->lock);
	if (event->type == REGISTRY_LOST || event->type == REGISTRY_BACK)
		see_connection(watch, event->type == REGISTRY_BACK);
	else if (event->type == REGISTRY_PUT || event->type == REGISTRY_DELETE)
		see_key(watch, event);
	seat_watch_call(watch);
	pthread_mutex_unlock(&watch->lock);
}

static void on_event(void *arg, const struct registry_event *event)
{
	dfi__seat_watch_see(arg, event);
}

/* Whether the key still names this flow, and not another of the same name. */
static bool is_our_flow(
    const struct seat_watch *watch, const struct registry_event *event)
{
	struct flow flow;
	bool ours;

	if (event->type != REGISTRY_PUT ||
	    dfi__flow_decode(
		watch->flow->name, event->data, event->size, &flow) < 0)
		return false;
	ours = flow.instance == watch->flow->instance;
	dfi__flow_free(&flow);
	return ours;
}

/* Nobody can come to a flow that was removed. */
static void on_flow_event(void *arg, const struct registry_event *event)
{
	struct seat_watch *watch = arg;
	bool ours;

	if (event->type != REGISTRY_PUT && event->type != REGISTRY_DELETE)
		return;
	ours = is_our_flow(watch, event);
	pthread_mutex_lock(&watch->lock);
	watch->removed |= !ours && !event->replaced;
	watch->finished |= watch->removed;
	seat_watch_call(watch);
	pthread_mutex_unlock(&watch->lock);
}

static int init(struct seat_watch *watch, struct dfi *dfi,
    const struct flow *flow, enum open_role role)
{
	size_t n = (size_t)flow->n_sources + flow->n_targets;
	pthread_condattr_t attr;

	*watch = (struct seat_watch){
		.dfi = dfi,
		.flow = flow,
		.role = role,
		.other = role == OPEN_SOURCE ? OPEN_TARGET : OPEN_SOURCE,
		.n_others = role == OPEN_SOURCE ? flow->n_targets
						: flow->n_sources,
	};
	if (getrandom(&watch->incarnation, sizeof(watch->incarnation), 0) !=
	    sizeof(watch->incarnation))
		return dfi__fail(
		    -EIO, "flow '%s': getrandom failed", flow->name);
	watch->incarnation |= 1; /* 0 is nobody */
	watch->memory = calloc(n, sizeof(watch->memory[0]));
	watch->pairs = calloc(watch->n_others, sizeof(watch->pairs[0]));
	watch->put_out[OPEN_SOURCE] = calloc(n, sizeof(uint64_t));
	watch->put_out[OPEN_TARGET] = watch->put_out[OPEN_SOURCE];
	if (watch->put_out[OPEN_SOURCE])
		watch->put_out[OPEN_TARGET] += flow->n_sources;
	watch->withdrawn = calloc(watch->n_others, sizeof(watch->withdrawn[0]));
	if (flow->ordered)
		watch->before = calloc(
		    watch->n_others, 2 * sizeof(watch->before[0]));
	if (watch->before)
		watch->in_view = watch->before + watch->n_others;
	if (!watch->memory || !watch->pairs || !watch->put_out[OPEN_SOURCE] ||
	    !watch->withdrawn || (flow->ordered && !watch->before) ||
	    dfi__tables_watch_new(watch)) {
		free(watch->memory);
		free(watch->pairs);
		free(watch->put_out[OPEN_SOURCE]);
		free(watch->withdrawn);
		free(watch->before);
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	}
	dfi__open_seats_init(
	    &watch->seats, flow->n_sources, flow->n_targets, watch->memory);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&watch->changed, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&watch->lock, NULL);
	return 0;
}

static int start(struct seat_watch *watch, int64_t deadline)
{
	char prefix[KEY_SIZE], flow_key[KEY_SIZE];
	struct registry_interest interests[] = {
		{ .prefix = prefix, .fn = on_event, .arg = watch },
		{ .prefix = flow_key,
		    .exact = true,
		    .fn = on_flow_event,
		    .arg = watch },
	};
	int ret;

	dfi__flow_prefix(prefix, watch->flow);
	dfi__flow_key(flow_key, watch->flow->name);
	ret = dfi__client_join(
	    watch->dfi->registry, interests, 2, NULL, deadline);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s'", watch->flow->name);
	watch->watch = interests[0].watch;
	watch->flow_watch = interests[1].watch;
	return 0;
}

static int claim(struct seat_watch *watch, uint32_t index, int64_t deadline)
{
	struct endpoint endpoint = {
		.node = watch->dfi->node,
		.incarnation = watch->incarnation,
		.store_epoch = watch->store_epoch,
	};
	size_t size;
	void *data = dfi__endpoint_encode(&endpoint, &size);
	/* One who was evicted must not set its key again. */
	unsigned shared = watch->flow->on_loss != DFI_ON_LOSS_FAIL ||
		watch->flow->ordered
	    ? CLIENT_SHARED
	    : 0;
	char key[KEY_SIZE];
	int ret;

	if (!data)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", watch->flow->name);
	pthread_mutex_lock(&watch->lock);
	dfi__open_seats_set_own(
	    &watch->seats, watch->role, index, watch->incarnation);
	pthread_mutex_unlock(&watch->lock);
	dfi__endpoint_key(key, watch->flow, words[watch->role], index);
	/* When the lease has ended, others have seen that this one is gone. */
	ret = dfi__client_create(watch->dfi->registry, key, data, size,
	    CLIENT_LEASED | CLIENT_ONCE | shared, deadline, NULL);
	free(data);
	if (!ret)
		memcpy(watch->key, key, sizeof(key));
	return ret;
}

static bool is_free(struct seat_watch *watch, uint32_t index)
{
	bool is_free;

	pthread_mutex_lock(&watch->lock);
	is_free = !watch->seats.seats[watch->role][index].holder.incarnation;
	pthread_mutex_unlock(&watch->lock);
	return is_free;
}

/* Try those that look free, from a random one on. */
static int claim_any(struct seat_watch *watch, int64_t deadline)
{
	uint32_t n = watch->seats.n[watch->role], i, index;
	uint32_t first = (uint32_t)(watch->incarnation >> 32) % n;
	int ret = -EEXIST;

	for (i = 0; ret == -EEXIST && i < n; i++) {
		index = (first + i) % n;
		if (is_free(watch, index))
			ret = claim(watch, index, deadline);
	}
	return ret != -EEXIST
	    ? ret
	    : dfi__fail(-EBUSY,
		  "flow '%s': all %u seats of %ss are taken: wait until one "
		  "leaves, or create the flow with more (n_%ss)",
		  watch->flow->name, n, words[watch->role], words[watch->role]);
}

static int claim_one(struct seat_watch *watch, uint32_t index, int64_t deadline)
{
	int ret = claim(watch, index, deadline);

	return ret == -EEXIST
	    ? dfi__fail(ret,
		  "flow '%s': %s %u is attached already: name a free seat, or "
		  "DFI_ANY_SEAT",
		  watch->flow->name, words[watch->role], index)
	    : ret;
}

/* What comes before the own key counts for this endpoint. */
static int await_own(struct seat_watch *watch, int64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);
	bool begun, late;
	int err = 0;

	pthread_mutex_lock(&watch->lock);
	while (!watch->seats.begun && err != ETIMEDOUT)
		err = pthread_cond_timedwait(
		    &watch->changed, &watch->lock, &until);
	begun = watch->seats.begun;
	late = watch->finished_before && watch->role == OPEN_SOURCE;
	pthread_mutex_unlock(&watch->lock);
	if (!begun)
		return dfi__fail(-ETIMEDOUT,
		    "flow '%s': the registry has not reported the seat that "
		    "was taken",
		    watch->flow->name);
	return late ? dfi__fail(-ESHUTDOWN,
			  "flow '%s' is finished (dfi_flow_finish()), or was "
			  "removed: no more sources can come",
			  watch->flow->name)
		    : 0;
}

int dfi__seat_watch_open(struct seat_watch *watch, struct dfi *dfi,
    const struct flow *flow, enum open_role role, uint32_t index,
    uint64_t store_epoch, int64_t deadline)
{
	int ret = init(watch, dfi, flow, role);

	if (ret < 0)
		return ret;
	watch->store_epoch = store_epoch;
	ret = start(watch, deadline);
	if (!ret)
		ret = index == DFI_ANY_SEAT ? claim_any(watch, deadline)
					    : claim_one(watch, index, deadline);
	if (!ret)
		ret = await_own(watch, deadline);
	if (ret < 0)
		dfi__seat_watch_close(watch);
	return ret;
}

bool dfi__seat_watch_finds(const struct seat_watch *watch, enum open_role role,
    uint64_t incarnation, uint32_t *seat)
{
	for (*seat = 0; *seat < watch->seats.n[role]; (*seat)++)
		if (open_seat_is(&watch->seats, role, *seat, incarnation))
			return true;
	return false;
}

/*
 * The key of one that was evicted may be the next holder's by now, also in this
 * context. It is not set again, as it is shared. Other losses of a seat leave
 * it to the client whose key it is.
 */
static bool owns_key(struct seat_watch *watch)
{
	bool evicted;

	pthread_mutex_lock(&watch->lock);
	evicted = watch->seats.evicted && watch->has_evictor;
	pthread_mutex_unlock(&watch->lock);
	return watch->key[0] && !evicted;
}

void dfi__seat_watch_leave(struct seat_watch *watch)
{
	bool may_be_last = dfi__tables_watch_leave(watch);

	if (owns_key(watch))
		dfi__client_forget(watch->dfi->registry, watch->key);
	watch->key[0] = '\0';
	if (may_be_last)
		dfi__tables_watch_forget(watch);
}

void dfi__seat_watch_close(struct seat_watch *watch)
{
	bool may_be_last = dfi__tables_watch_leave(watch);

	dfi__client_unwatch(watch->flow_watch);
	if (owns_key(watch))
		dfi__client_leave(watch->watch, watch->key);
	else
		dfi__client_unwatch(watch->watch);
	if (may_be_last)
		dfi__tables_watch_forget(watch);
	pthread_cond_destroy(&watch->changed);
	pthread_mutex_destroy(&watch->lock);
	free(watch->tables);
	free(watch->resume);
	free(watch->acks);
	free(watch->memory);
	free(watch->pairs);
	free(watch->put_out[OPEN_SOURCE]);
	free(watch->early);
	free(watch->withdrawn);
	free(watch->before);
	dfi__open_views_free(&watch->views);
}
