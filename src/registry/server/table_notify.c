/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of changes of the registry's table, in the order of their
 * revisions, until the watches that they concern were notified. A notification
 * can stop after any watch: the next call continues there, whatever watches
 * were made and ended meanwhile. This file changes no key.
 */
#include "table_impl.h"

#include <stdlib.h>
#include <string.h>

/* Copying this much of a value counts as a step. */
#define STEP_BYTES 4096

static size_t bytes_of(const struct entry *entry)
{
	return sizeof(*entry) + entry->by_key.size + 1 + entry->size;
}

void dfi__table_unref(struct entry *entry)
{
	if (--entry->n_refs == 0)
		free(entry);
}

void dfi__table_queue(
    struct table *table, struct entry *entry, enum table_event_type type)
{
	struct change *change = type == TABLE_PUT ? &entry->put
						  : &entry->deletion;

	change->entry = entry;
	change->type = type;
	change->revision = ++table->revision;
	entry->n_refs++;
	table->untold_bytes += bytes_of(entry);
	STAILQ_INSERT_TAIL(&table->changes, change, link);
}

/* Find the lists of the watches that the first change concerns. */
static void begin(struct table *table)
{
	const struct change *change = STAILQ_FIRST(&table->changes);
	const struct tree_leaf *key = &change->entry->by_key;
	struct tree_leaf *prefixes[TABLE_KEY_MAX + 1];
	struct notifying *notifying = &table->notifying;
	struct watched *watched;
	size_t n, i;

	notifying->begun = true;
	notifying->next = NULL;
	notifying->n_lists = notifying->at = 0;
	n = dfi__tree_prefixes(&table->watched, key->text, key->size, prefixes);
	for (i = 0; i < n; i++) {
		watched = CONTAINER(prefixes[i], struct watched, leaf);
		notifying->lists[notifying->n_lists++] = &watched->of_prefix;
		if (watched->leaf.size == key->size)
			notifying->lists[notifying->n_lists++] =
			    &watched->of_key;
	}
}

/* The next watch that the first change concerns, or NULL. */
static struct watch *advance(struct notifying *notifying, uint64_t revision)
{
	struct watch *watch = notifying->next;
	struct watch_list *list;

	/* The watches after one that is too young are younger. */
	while (!watch || watch->since >= revision) {
		if (notifying->at == notifying->n_lists) {
			notifying->next = NULL;
			return NULL;
		}
		list = notifying->lists[notifying->at++];
		watch = list ? TAILQ_FIRST(list) : NULL;
	}
	notifying->next = TAILQ_NEXT(watch, link);
	return watch;
}

/* All watches were notified of the first change. */
static void finish(struct table *table)
{
	struct change *change = STAILQ_FIRST(&table->changes);

	STAILQ_REMOVE_HEAD(&table->changes, link);
	table->notifying.begun = false;
	table->untold_bytes -= bytes_of(change->entry);
	dfi__table_unref(change->entry);
}

void dfi__table_forget_changes(struct table *table)
{
	while (!STAILQ_EMPTY(&table->changes))
		finish(table);
}

static struct table_notice notice_of(
    const struct change *change, const struct watch *watch)
{
	struct table_notice notice = {
		.watcher = watch->id.watcher,
		.tag = watch->id.tag,
		.type = change->type,
		.item = { .key = change->entry->key,
		    .revision = change->revision },
	};

	if (change->type == TABLE_PUT)
		notice.item = dfi__table_item(change->entry);
	return notice;
}

/* Steps of notifying one watch. */
static size_t steps_of(const struct change *change)
{
	return 1 +
	    (change->type == TABLE_PUT ? change->entry->size / STEP_BYTES : 0);
}

bool dfi__table_notice(
    struct table *table, size_t max, size_t *n, struct table_notice *notice)
{
	struct notifying *notifying = &table->notifying;
	const struct change *change;
	struct watch *watch;

	while (*n < max && !STAILQ_EMPTY(&table->changes)) {
		if (!notifying->begun)
			begin(table);
		change = STAILQ_FIRST(&table->changes);
		watch = advance(notifying, change->revision);
		if (watch) {
			*n += steps_of(change);
			*notice = notice_of(change, watch);
			return true;
		}
		++*n;
		finish(table);
	}
	return false;
}

void dfi__table_skip_watch(struct table *table, const struct watch *watch)
{
	if (table->notifying.begun && table->notifying.next == watch)
		table->notifying.next = TAILQ_NEXT(watch, link);
}

void dfi__table_skip_watched(struct table *table, const struct watched *watched)
{
	struct notifying *notifying = &table->notifying;
	size_t i;

	for (i = notifying->at; notifying->begun && i < notifying->n_lists; i++)
		if (notifying->lists[i] == &watched->of_prefix ||
		    notifying->lists[i] == &watched->of_key)
			notifying->lists[i] = NULL;
}

uint64_t dfi__table_notified(const struct table *table)
{
	const struct change *first = STAILQ_FIRST(&table->changes);

	return first ? first->revision - 1 : table->revision;
}

size_t dfi__table_untold_bytes(const struct table *table)
{
	return table->untold_bytes;
}
