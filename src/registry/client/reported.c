/* SPDX-License-Identifier: Apache-2.0 */
/* See reported.h. */
#include "reported.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct reported_key *)a)->key,
	    ((const struct reported_key *)b)->key);
}

struct reported_key *dfi__reported(
    struct reported_keys *keys, const char *key, bool add)
{
	size_t size = strlen(key) + 1;
	struct reported_key *new = calloc(1, sizeof(*new) + size);
	void *node;

	if (!new)
		return NULL;
	memcpy(new->key, key, size);
	node = add ? tsearch(new, &keys->tree, compare)
		   : tfind(new, &keys->tree, compare);
	if (!node || *(struct reported_key **)node != new)
		free(new);
	return node ? *(struct reported_key **)node : NULL;
}

void dfi__reported_forget(
    struct reported_keys *keys, struct reported_key *reported)
{
	tdelete(reported, &keys->tree, compare);
	free(reported);
}

static void miss(const void *node, VISIT visit, void *arg)
{
	(void)arg;
	if (visit == postorder || visit == leaf)
		(*(struct reported_key *const *)node)->missing = true;
}

void dfi__reported_miss(struct reported_keys *keys)
{
	twalk_r(keys->tree, miss, NULL);
}

static void collect_missing(const void *node, VISIT visit, void *arg)
{
	struct reported_key *reported = *(struct reported_key *const *)node;
	struct reported_keys *keys = arg;

	if ((visit == postorder || visit == leaf) && reported->missing) {
		reported->next = keys->expired;
		keys->expired = reported;
	}
}

void dfi__reported_expire(struct reported_keys *keys)
{
	struct reported_key *reported;

	twalk_r(keys->tree, collect_missing, keys);
	for (reported = keys->expired; reported; reported = reported->next)
		tdelete(reported, &keys->tree, compare);
}

struct reported_key *dfi__reported_take(struct reported_keys *keys)
{
	struct reported_key *first = keys->expired;

	if (first)
		keys->expired = first->next;
	return first;
}

void dfi__reported_free(struct reported_keys *keys)
{
	struct reported_key *expired;

	while ((expired = dfi__reported_take(keys)))
		free(expired);
	tdestroy(keys->tree, free);
}
