/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of barriers: barrier.c (the calls) and barrier_news.c
 * (the news of participants, and the errors of calls that follow from it).
 */
#ifndef DFI_FLOWS_SYNC_BARRIER_IMPL_H
#define DFI_FLOWS_SYNC_BARRIER_IMPL_H

#include <dfi/barrier.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/wait.h"
#include "flows/context/handle.h"
#include "barrier_participants.h"
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
	struct barrier_participant self;
	uint64_t arrived; /* the last round confirmed by the registry */
	uint64_t passed;  /* the last round from which a call returned */
	struct registry_watch *watch;
	pthread_mutex_t lock; /* protects what follows */
	struct barrier_participants participants;
	bool registry_lost;
	bool publishing; /* the owner publishes, and alone uses the entry */
	bool withdrawn;  /* the entry is */
	/*
	 * A participant whose process has ended, or n. It counts as lost at
	 * suspect_until, unless the registry reports its progress before.
	 */
	uint32_t suspect;
	int64_t suspect_until;
	/* Has locks of its own. */
	struct process_watcher processes;
};

/* Receives the registry's events of all participants' keys. */
void dfi__barrier_event(void *arg, const struct registry_event *event);

/* Receives the ends of the participants' processes. */
void dfi__barrier_process_ended(
    struct process_watcher *watcher, const struct node *node, bool at_last);

/*
 * Once a participant is lost: publish which one, and leave. Not under the lock.
 */
void dfi__barrier_withdraw(struct dfi_barrier *barrier);

/* Writes "participant 2 (node N, host H, pid P)". */
void dfi__barrier_name(char *text, size_t size, uint32_t index,
    const struct barrier_participant *participant);

/* The error that ends all rounds, with its text; 0: none. Under the lock. */
int dfi__barrier_check(struct dfi_barrier *barrier);

/* -ETIMEDOUT; the text names the missing participants. Under the lock. */
int dfi__barrier_missing(const struct dfi_barrier *barrier, uint64_t round);

#endif
