/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches: each gets those of the stream's changes that concern it. A watch
 * that is being made, or read again, keeps changes back until the keys that
 * exist have come; then it drops those that these have already.
 */
#ifndef DFI_REGISTRY_ETCD_WATCH_H
#define DFI_REGISTRY_ETCD_WATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "registry/client/ops.h"
#include "registry/client/reported.h"
#include "request.h"

struct etcd_client;
struct late_change;
struct watched;

struct etcd_watch {
	struct registry_watch base;
	TAILQ_ENTRY(etcd_watch) link;    /* in the client's watches */
	TAILQ_ENTRY(etcd_watch) of_same; /* in watched->watches */
	struct watched *watched;
	void (*fn)(void *arg, const struct registry_event *event);
	void *arg;
	bool made;      /* by a join that has ended */
	bool reading;   /* keeps changes back */
	bool sent;      /* in this restoration, */
	unsigned slot;  /* and awaited: its place in restore.watches + 1 */
	uint64_t since; /* it has all changes up to this revision */
	enum registry_event_type reported;
	struct reported_keys keys;
	STAILQ_HEAD(, late_change) late;
};

static inline struct etcd_watch *etcd_watch_of(struct registry_watch *base)
{
	return (struct etcd_watch *)base;
}

/* Make a watch, which begins to keep changes back. NULL: no memory. */
struct etcd_watch *dfi__etcd_watch_new(
    struct etcd_client *client, const struct registry_interest *interest);
/* Any thread that has entered, also a watch's function. */
void dfi__etcd_watch_free(struct etcd_watch *watch);

/* Whether it gets changes of a key. */
bool dfi__etcd_watch_concerns(const struct etcd_watch *watch, const char *key);

/* The operation that reads its keys. NULL: no memory. */
json_t *dfi__watch_range(const struct etcd_watch *watch);

/*
 * The answer to it: report keys that are new or have changed, and what was kept
 * back. A key that is not there any more is missing: for good with `forgets`,
 * or until dfi__etcd_watch_expire(). The watch's function may free any watch:
 * false means this one. (loop)
 */
bool dfi__etcd_watch_fill(struct etcd_watch *watch, const json_t *range,
    uint64_t revision, bool forgets);

/* A change of the stream. (loop) */
void dfi__etcd_watch_change(
    struct etcd_client *client, const struct etcd_value *value, bool deleted);

/*
 * Let a watch keep changes back, until it is filled again; anew: revisions have
 * begun anew.
 */
void dfi__etcd_watch_read_again(struct etcd_watch *watch, bool anew);

/* Report LOST, CUT or BACK to all that don't know it. (loop) */
void dfi__etcd_watch_report(
    struct etcd_client *client, enum registry_event_type type);

/* A key is not coming back: report it as deleted, unless it is there. (loop) */
void dfi__etcd_watch_gone(struct etcd_client *client, const char *key);

/* The grace is over: report the missing keys as deleted. (loop) */
void dfi__etcd_watch_expire(struct etcd_client *client);

#endif
