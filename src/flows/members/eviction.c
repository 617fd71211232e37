/* SPDX-License-Identifier: Apache-2.0 */
/* See eviction.h. The name of an evicted endpoint's key is "evicted/<its
 * incarnation>"; it comes before the seat's key goes. */
#include "eviction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "flows/context/context.h"
#include "registry/client/client.h"

#define EVICTED "evicted/"

static const char *const words[] = {
	[OPEN_SOURCE] = "source",
	[OPEN_TARGET] = "target",
};

/* ---- Who was evicted ----------------------------------------------------- */

static void see(struct seat_watch *watch, uint64_t incarnation, bool there)
{
	struct open_seats *seats = &watch->seats;
	uint32_t role, i;

	for (role = 0; role < OPEN_ROLES; role++)
		for (i = 0; i < seats->n[role]; i++) {
			if (seats->seats[role][i].holder.incarnation !=
			    incarnation)
				continue;
			/* It stays, if its seat is not gone by now. */
			watch->put_out[role][i] = there ? incarnation : 0;
		}
}

bool dfi__eviction_see(struct seat_watch *watch, const char *rest,
    const struct registry_event *event)
{
	bool there = event->type == REGISTRY_PUT;
	uint64_t incarnation;
	char *end;

	if (strncmp(rest, EVICTED, strlen(EVICTED)) != 0)
		return false;
	incarnation = strtoull(rest + strlen(EVICTED), &end, 16);
	if (*end || !incarnation ||
	    (there && event->size != sizeof(watch->evictor)) ||
	    (!there && event->replaced))
		return true;
	if (there && incarnation == watch->incarnation) {
		memcpy(&watch->evictor, event->data, sizeof(watch->evictor));
		watch->has_evictor = true;
	}
	see(watch, incarnation, there);
	return true;
}

/* ---- Evicting ------------------------------------------------------------ */

/* Delete the key of a seat, if it has this holder: 0 if it has not. */
static int delete_seat(
    struct seat_watch *watch, const struct eviction *eviction, int64_t deadline)
{
	struct registry_client *registry = watch->dfi->registry;
	struct registry_value value;
	struct endpoint endpoint;
	char key[KEY_SIZE];
	int ret;

	dfi__endpoint_key(
	    key, watch->flow, words[eviction->role], eviction->seat);
	ret = dfi__client_get(registry, key, deadline, &value);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (!dfi__endpoint_decode(value.data, value.size, &endpoint) &&
	    endpoint.incarnation == eviction->incarnation)
		ret = dfi__client_delete(
		    registry, key, value.revision, deadline);
	dfi__registry_value_free(&value);
	return ret == -ENOENT ? 0 : ret;
}

static bool is_noted(
    const struct seat_watch *watch, const struct eviction *eviction)
{
	return watch->put_out[eviction->role][eviction->seat] ==
	    eviction->incarnation;
}

static void note_key(char key[KEY_SIZE], const struct seat_watch *watch,
    const struct eviction *eviction)
{
	size_t n;

	dfi__flow_prefix(key, watch->flow);
	n = strlen(key);
	snprintf(key + n, KEY_SIZE - n, EVICTED "%lx",
	    (unsigned long)eviction->incarnation);
}

static int write_note(
    struct seat_watch *watch, struct eviction *eviction, int64_t deadline)
{
	const struct eviction_note by = {
		.role = watch->role,
		.seat = watch->seats.own_seat,
		.why = eviction->why,
	};
	char key[KEY_SIZE];
	int ret;

	note_key(key, watch, eviction);
	ret = dfi__client_create(watch->dfi->registry, key, &by, sizeof(by),
	    CLIENT_LEASED, deadline, NULL);
	eviction->has_note = !ret;
	/* Another one has the same plan, and may be stopped by now. */
	return ret == -EEXIST ? 0 : ret;
}

static void forget_note(
    struct seat_watch *watch, const struct eviction *eviction)
{
	char key[KEY_SIZE];

	note_key(key, watch, eviction);
	if (eviction->has_note)
		dfi__client_forget(watch->dfi->registry, key);
}

/* Wait until the watch shows the note, or that the holder has gone. */
static int await_note(
    struct seat_watch *watch, const struct eviction *eviction, int64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);
	int err = 0;

	pthread_mutex_lock(&watch->lock);
	while (!is_noted(watch, eviction) && !err &&
	    open_seat_is(&watch->seats, eviction->role, eviction->seat,
		eviction->incarnation))
		err = pthread_cond_timedwait(
		    &watch->changed, &watch->lock, &until);
	pthread_mutex_unlock(&watch->lock);
	return err ? dfi__fail(-ETIMEDOUT,
			 "flow '%s': the registry has not reported an "
			 "eviction that was begun",
			 watch->flow->name)
		   : 0;
}

int dfi__eviction_begin(
    struct seat_watch *watch, struct eviction *eviction, int64_t deadline)
{
	int ret = write_note(watch, eviction, deadline);

	if (!ret)
		ret = await_note(watch, eviction, deadline);
	if (ret < 0)
		forget_note(watch, eviction);
	return ret;
}

int dfi__eviction_end(struct seat_watch *watch, struct eviction *eviction,
    bool is_due, int64_t deadline)
{
	int ret = is_due ? delete_seat(watch, eviction, deadline) : 0;
	bool counts = is_due && !ret && eviction->has_note &&
	    eviction->why != EVICTION_NO_MEMBER;

	pthread_mutex_lock(&watch->lock);
	watch->n_evicted += counts;
	pthread_mutex_unlock(&watch->lock);
	forget_note(watch, eviction);
	return ret;
}

int dfi__evict(
    struct seat_watch *watch, struct eviction *eviction, int64_t deadline)
{
	int ret = write_note(watch, eviction, deadline);

	return ret < 0 ? ret
		       : dfi__eviction_end(watch, eviction, true, deadline);
}

/* ---- Texts --------------------------------------------------------------- */

static const char *reason(uint32_t why)
{
	switch (why) {
	case EVICTION_FULL:
		return "its ring stayed full";
	case EVICTION_MARK:
		return "it kept partitions from moving, as nothing came of it";
	case EVICTION_RELEASE:
		return "it did not release partitions that were to leave "
		       "(dfi_partition_release())";
	case EVICTION_TAKE:
		return "it did not take partitions that it was to get "
		       "(dfi_target_event())";
	case EVICTION_WINDOW:
		return "it kept a window from ending, as nothing came of it";
	case EVICTION_VIEW:
		return "it held up a change of the view";
	case EVICTION_NUMBER:
		return "it gave no numbers of the order";
	case EVICTION_UNANSWERED:
		return "it did not say that it has all";
	default:
		return "it held up others";
	}
}

const char *dfi__eviction_text(
    struct seat_watch *watch, char text[EVICTION_TEXT])
{
	const struct eviction_note *by = &watch->evictor;

	pthread_mutex_lock(&watch->lock);
	if (watch->has_evictor && by->why == EVICTION_NO_MEMBER)
		snprintf(text, EVICTION_TEXT,
		    "was evicted, as it lacks segments that the others have: "
		    "open it again");
	else if (watch->has_evictor && by->why == EVICTION_BROKEN)
		snprintf(text, EVICTION_TEXT,
		    "was evicted by source %u: the connection between them "
		    "broke, so it lacks what was sent: open it again",
		    by->seat);
	else if (watch->has_evictor)
		snprintf(text, EVICTION_TEXT,
		    "was evicted by %s %u: %s for %u ms "
		    "(open.evict_after_ms): open it again",
		    by->role == OPEN_SOURCE ? words[OPEN_SOURCE]
					    : words[OPEN_TARGET],
		    by->seat, reason(by->why), watch->flow->evict_after_ms);
	else if (watch->flow->evict_after_ms)
		snprintf(text, EVICTION_TEXT,
		    "was evicted, as it held up others for %u ms "
		    "(open.evict_after_ms), or its lease has ended "
		    "(DFI_LEASE): open it again",
		    watch->flow->evict_after_ms);
	else
		snprintf(text, EVICTION_TEXT,
		    "has lost its seat: its key in the registry is gone, as "
		    "when its lease ends (DFI_LEASE): open it again");
	pthread_mutex_unlock(&watch->lock);
	return text;
}
