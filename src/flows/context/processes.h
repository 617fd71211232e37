/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of this host that hold peers of a context. The kernel reports
 * the end of each process, so a context notices deaths even without a registry.
 *
 * With a registry, the registry decides: only it reports in order what a
 * process did before its end, such as cancelling a target.
 */
#ifndef DFI_FLOWS_CONTEXT_PROCESSES_H
#define DFI_FLOWS_CONTEXT_PROCESSES_H

#include <stdbool.h>
#include <sys/queue.h>

struct dfi;
struct node;
struct processes;

/* Receives the ends of processes; embedded in the struct that has the peers. */
struct process_watcher {
	TAILQ_ENTRY(process_watcher) link;
	/*
	 * A process has ended. at_last: the registry has had time to report
	 * that itself. Without at_last, a watcher acts only if it has lost the
	 * registry or needs no order. Runs on the control thread; it must not
	 * call the functions of this header.
	 */
	void (*ended)(struct process_watcher *watcher, const struct node *node,
	    bool at_last);
};

/* -ENOMEM. */
int dfi__processes_new(struct dfi *dfi, struct processes **processes);

/*
 * Call it without watchers, after the registry's client has closed. On the
 * control thread.
 */
void dfi__processes_free(struct processes *processes);

/*
 * Add or remove a watcher. After the removal its callback is not running. Never
 * call these under a lock that ended() takes.
 */
void dfi__processes_add(
    struct processes *processes, struct process_watcher *watcher);
void dfi__processes_remove(
    struct processes *processes, struct process_watcher *watcher);

/*
 * Watch a peer's process until it ends, if it is another process of this host.
 * One file descriptor serves all peers of a process. If the kernel refuses, the
 * log has a warning. On the control thread.
 */
void dfi__processes_watch(struct processes *processes, const struct node *node);

/*
 * Whether the process is known to have ended within the last half second. On
 * the control thread.
 */
bool dfi__processes_has_died(
    const struct processes *processes, const struct node *node);

#endif
