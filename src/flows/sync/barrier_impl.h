/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of barriers share: barrier.c (the calls) and barrier_news.c
 * (what a barrier hears of its members, and what calls return for it).
 */
#ifndef DFI_FLOWS_SYNC_BARRIER_IMPL_H
#define DFI_FLOWS_SYNC_BARRIER_IMPL_H

#include <dfi/barrier.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/wait.h"
#include "flows/context/handle.h"
#include "barrier_members.h"
#include "flows/context/processes.h"

struct registry_event;
struct registry_watch;

struct dfi_barrier {
	char unused[HANDLE_MAGIC_OFFSET];
	uint32_t magic;
	_Atomic uint32_t aborters; /* see handle.h */
	_Atomic uint32_t user;     /* HANDLE_CALL() */
	_Atomic bool interrupted;  /* by any thread: its next wait ends */
	_Atomic uint32_t sleeping; /* the owner, for news: see base/wait.h */
	char name[DFI_MAX_FLOW_NAME + 1];
	struct dfi *dfi;
	struct barrier_member self;
	uint64_t arrived; /* the last round that the registry knows of */
	uint64_t passed;  /* and the last that a call returned from */
	struct registry_watch *watch;
	pthread_mutex_t lock; /* protects what follows */
	struct barrier_members members;
	bool registry_lost;
	bool publishing; /* by its owner, who alone uses the entry then */
	bool withdrawn;  /* the entry */
	/*
	 * A member whose process has ended, or n: it is lost at that time, if
	 * the registry has not told by then how far it had come.
	 */
	uint32_t suspect;
	int64_t suspect_until;
	/* From here on by locks of their own. */
	struct process_watcher processes;
};

/* What the registry tells of the keys of all members. */
void dfi__barrier_event(void *arg, const struct registry_event *event);

/* What the system tells of its members' processes. */
void dfi__barrier_process_ended(
    struct process_watcher *watcher, const struct node *node, bool at_last);

/*
 * Once a member is lost: tell the others whom, and leave. Not under the lock.
 */
void dfi__barrier_withdraw(struct dfi_barrier *barrier);

/* "member 2 (node N, host H, pid P)" */
void dfi__barrier_name(char *text, size_t size, uint32_t index,
    const struct barrier_member *member);

/* What ends all rounds, with its text; 0: nothing so far. Under the lock. */
int dfi__barrier_check(struct dfi_barrier *barrier);

/* -ETIMEDOUT; the text names the missing participants. Under the lock. */
int dfi__barrier_missing(const struct dfi_barrier *barrier, uint64_t round);

#endif
