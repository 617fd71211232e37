/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of views. Cuts and views are bound to no lease: they outlive who wrote
 * them. The client that wrote one sets it again if the registry has lost it.
 */
#include "seat_views.h"

#include <errno.h>
#include <string.h>
#include "flows/context/context.h"
#include "flows/open/bytes.h"
#include "flows/open/keys.h"
#include "registry/client/client.h"

const char *dfi__seat_views_why(struct seat_watch *watch)
{
	bool away;

	pthread_mutex_lock(&watch->lock);
	away = watch->restoring;
	pthread_mutex_unlock(&watch->lock);
	return away ? ": the next view waits for the registry, which does not "
		      "answer"
		    : "";
}

static void write_key(char text[KEY_SIZE], const struct seat_watch *watch,
    enum open_key_kind kind, uint64_t view)
{
	struct open_key key = {
		.kind = kind,
		.number = view,
		.incarnation = watch->incarnation,
	};

	dfi__flow_prefix(text, watch->flow);
	dfi__open_key_write(text + strlen(text), &key);
}

static int create(struct seat_watch *watch, enum open_key_kind kind,
    uint64_t view, const uint8_t *value, size_t size, unsigned flags,
    int64_t deadline)
{
	char key[KEY_SIZE];

	write_key(key, watch, kind, view);
	return dfi__client_create(
	    watch->dfi->registry, key, value, size, flags, deadline, NULL);
}

static int unless_there(int ret)
{
	return ret == -EEXIST ? 0 : ret;
}

int dfi__seat_views_cut(
    struct seat_watch *watch, uint64_t view, int64_t deadline)
{
	return unless_there(create(watch, OPEN_KEY_CUT, view,
	    (const uint8_t *)"", 0, CLIENT_SHARED, deadline));
}

int dfi__seat_views_flush(
    struct seat_watch *watch, uint64_t view, uint64_t end, int64_t deadline)
{
	uint8_t value[sizeof(end)];

	open_put_number(value, end, sizeof(end));
	return unless_there(create(watch, OPEN_KEY_FLUSH, view, value,
	    sizeof(value), CLIENT_LEASED, deadline));
}

int dfi__seat_views_report(struct seat_watch *watch, uint64_t view,
    const uint8_t *value, size_t size, int64_t deadline)
{
	return unless_there(create(watch, OPEN_KEY_REPORT, view, value, size,
	    CLIENT_LEASED, deadline));
}

void dfi__seat_views_forget(struct seat_watch *watch, uint64_t view)
{
	char key[KEY_SIZE];

	write_key(key, watch,
	    watch->role == OPEN_SOURCE ? OPEN_KEY_FLUSH : OPEN_KEY_REPORT,
	    view);
	dfi__client_forget(watch->dfi->registry, key);
}

/* One that stays is ignored, as its number is lower. */
static void delete_old(struct seat_watch *watch, enum open_key_kind kind,
    uint64_t view, int64_t deadline)
{
	char key[KEY_SIZE];

	write_key(key, watch, kind, view);
	(void)dfi__client_delete(watch->dfi->registry, key, 0, deadline);
}

int dfi__seat_views_begin(struct seat_watch *watch, uint64_t view,
    const uint8_t *value, size_t size, int64_t deadline)
{
	int ret = create(
	    watch, OPEN_KEY_VIEW, view, value, size, CLIENT_SHARED, deadline);

	if (!ret && view > 1) {
		delete_old(watch, OPEN_KEY_CUT, view - 1, deadline);
		delete_old(watch, OPEN_KEY_VIEW, view - 1, deadline);
	}
	return ret;
}
