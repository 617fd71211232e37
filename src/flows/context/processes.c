/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pidfd for each process, on the control thread's loop. It stays open when
 * a flow ends, for the next flow with the same process, and closes when that
 * process ends.
 *
 * Watchers hear of a death at once, and again half a second later. Peers act on
 * the first report only without a registry, and ask again when they lose it.
 * Users of a sequencer act on the first report, as they need no order.
 */
#include "processes.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/process.h"
#include "context.h"
#include "flows/descriptor/descriptor.h"

/* The time in which the registry should report the end itself. */
static const struct timeval registry_time = { .tv_usec = 500000 };

struct process {
	TAILQ_ENTRY(process) link;
	struct processes *all;
	struct node node;
	int pidfd;           /* -1: it has ended */
	struct event *event; /* its end, then of the registry's time */
};

struct processes {
	struct dfi *dfi;
	TAILQ_HEAD(process_list, process) list; /* control thread only */
	struct log_throttle unwatched;
	pthread_mutex_t lock; /* of watchers; taken before theirs */
	TAILQ_HEAD(watcher_list, process_watcher) watchers;
};

int dfi__processes_new(struct dfi *dfi, struct processes **out)
{
	struct processes *processes = calloc(1, sizeof(*processes));

	if (!processes)
		return dfi__fail(-ENOMEM, "dfi_open: out of memory");
	processes->dfi = dfi;
	TAILQ_INIT(&processes->list);
	TAILQ_INIT(&processes->watchers);
	pthread_mutex_init(&processes->lock, NULL);
	*out = processes;
	return 0;
}

static void free_process(struct process *process)
{
	TAILQ_REMOVE(&process->all->list, process, link);
	if (process->event)
		event_free(process->event);
	if (process->pidfd >= 0)
		close(process->pidfd);
	free(process);
}

void dfi__processes_free(struct processes *processes)
{
	while (!TAILQ_EMPTY(&processes->list))
		free_process(TAILQ_FIRST(&processes->list));
	pthread_mutex_destroy(&processes->lock);
	free(processes);
}

void dfi__processes_add(
    struct processes *processes, struct process_watcher *watcher)
{
	pthread_mutex_lock(&processes->lock);
	TAILQ_INSERT_TAIL(&processes->watchers, watcher, link);
	pthread_mutex_unlock(&processes->lock);
}

void dfi__processes_remove(
    struct processes *processes, struct process_watcher *watcher)
{
	pthread_mutex_lock(&processes->lock);
	TAILQ_REMOVE(&processes->watchers, watcher, link);
	pthread_mutex_unlock(&processes->lock);
}

/* at_last: notify the watchers that have a registry as well. */
static void notify(const struct process *process, bool at_last)
{
	struct processes *processes = process->all;
	struct process_watcher *watcher;

	pthread_mutex_lock(&processes->lock);
	TAILQ_FOREACH(watcher, &processes->watchers, link)
	{
		watcher->ended(watcher, &process->node, at_last);
	}
	pthread_mutex_unlock(&processes->lock);
}

static void on_time_over(evutil_socket_t fd, short what, void *arg)
{
	struct process *process = arg;

	(void)fd;
	(void)what;
	notify(process, true);
	free_process(process);
}

static void has_ended(struct process *process)
{
	struct loop *loop = process->all->dfi->loop;

	if (process->event)
		event_free(process->event);
	if (process->pidfd >= 0)
		close(process->pidfd);
	process->pidfd = -1;
	notify(process, false);
	process->event = evtimer_new(
	    dfi__loop_base(loop), on_time_over, process);
	/* Without memory for a timer, the registry's time ends now. */
	if (!process->event || evtimer_add(process->event, &registry_time) < 0)
		on_time_over(-1, 0, process);
}

static void on_end(evutil_socket_t pidfd, short what, void *arg)
{
	(void)pidfd;
	(void)what;
	has_ended(arg);
}

static struct process *find(
    const struct processes *processes, const struct node *node)
{
	struct process *process;

	TAILQ_FOREACH(process, &processes->list, link)
	{
		if (dfi__node_is_process(&process->node, node))
			break;
	}
	return process;
}

static void cannot_watch(
    struct processes *processes, const struct node *node, int err)
{
	/* Two descriptors: the pidfd, which stays, and one to read /proc. */
	dfi__fail_files(
	    err, 2, "pidfd_open, /proc/PID/stat", "watching a peer's process");
	dfi__log_seldom(&processes->unwatched, DFI_LOG_WARN,
	    "node %s (host %s, pid %u): if it dies while there is no registry, "
	    "nobody will notice: %s",
	    node->name, node->host, node->pid, dfi_errmsg());
}

/* 0, or an errno value; ESRCH: the process has ended. */
static int watch(struct process *process)
{
	struct loop *loop = process->all->dfi->loop;
	const struct node *node = &process->node;

	process->pidfd = file_up((int)syscall(SYS_pidfd_open, node->pid, 0));
	if (process->pidfd < 0)
		return errno;
	process->event = event_new(
	    dfi__loop_base(loop), process->pidfd, EV_READ, on_end, process);
	if (!process->event || event_add(process->event, NULL) < 0)
		return ENOMEM;
	return 0;
}

/*
 * Explain by errno why no start time of a process can be read. 0: it has ended.
 * With hidepid=2, /proc hides live processes in the same way.
 */
static int why_unseen(const struct process *process)
{
	struct pollfd end = { .fd = process->pidfd, .events = POLLIN };
	int err = errno;

	return poll(&end, 1, 0) == 1 ? 0 : err;
}

void dfi__processes_watch(struct processes *processes, const struct node *node)
{
	const struct node *self = &processes->dfi->node;
	struct process *process;
	uint64_t start;
	int err;

	if (!node->pid_space || node->pid_space != self->pid_space ||
	    dfi__host_distance(&node->at, &self->at) != HOST_SAME ||
	    node->pid == self->pid || find(processes, node))
		return;
	process = calloc(1, sizeof(*process));
	if (!process) {
		cannot_watch(processes, node, ENOMEM);
		return;
	}
	process->all = processes;
	process->node = *node;
	TAILQ_INSERT_TAIL(&processes->list, process, link);
	err = watch(process);
	if (err == ESRCH) {
		has_ended(process);
		return;
	}
	/*
	 * The pidfd is open, so the process that has this pid now had it when
	 * the pidfd was opened. If that is another process, the peer had
	 * already gone, and the registry, which reported the peer, will report
	 * its end.
	 */
	errno = 0;
	start = err ? 0 : dfi__process_start(node->pid);
	/* No descriptor may be left for /proc, or no right to read it. */
	if (!err && !start)
		err = why_unseen(process);
	if (err || start != node->start) {
		free_process(process);
		if (err)
			cannot_watch(processes, node, err);
	}
}

bool dfi__processes_has_died(
    const struct processes *processes, const struct node *node)
{
	const struct process *process = find(processes, node);

	return process && process->pidfd < 0;
}
