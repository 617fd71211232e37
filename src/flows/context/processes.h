/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of this host in which a context has peers. The system tells of
 * the end of each, so that deaths are noticed also while there is no registry.
 *
 * While there is one, it has the first word: of what a process did before its
 * end, such as cancelling a target, only the registry tells in order.
 */
#ifndef DFI_FLOWS_CONTEXT_PROCESSES_H
#define DFI_FLOWS_CONTEXT_PROCESSES_H

#include <stdbool.h>
#include <sys/queue.h>

struct dfi;
struct node;
struct processes;

/* Gets the ends of processes: part of the struct that has the peers. */
struct process_watcher {
	TAILQ_ENTRY(process_watcher) link;
	/*
	 * A process has ended. at_last: the registry has had its time to say
	 * so; else only who has lost it, or need not know what came before,
	 * makes something of this. On the control thread; may not call the
	 * functions of this header.
	 */
	void (*ended)(struct process_watcher *watcher, const struct node *node,
	    bool at_last);
};

/* -ENOMEM. */
int dfi__processes_new(struct dfi *dfi, struct processes **processes);

/* No watchers are left, and the registry's client is closed. */
void dfi__processes_free(struct processes *processes);

/*
 * Have a watcher told, or not any more: then it is not running either. Not
 * under a lock that ended() takes.
 */
void dfi__processes_add(
    struct processes *processes, struct process_watcher *watcher);
void dfi__processes_remove(
    struct processes *processes, struct process_watcher *watcher);

/*
 * Watch a peer's process until it ends, if it is another one of this host; it
 * takes one file descriptor, however many peers the process has. Where the
 * system doesn't let it be watched, the log says so. On the control thread.
 */
void dfi__processes_watch(struct processes *processes, const struct node *node);

/*
 * Whether it is known to have ended, in the last half second. On the control
 * thread.
 */
bool dfi__processes_has_died(
    const struct processes *processes, const struct node *node);

#endif
