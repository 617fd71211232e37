/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs the peer that an endpoint waits for, with flow, endpoint and process. On
 * the same host it also logs whether that process is stopped.
 */
#include "stall.h"

#include <stdio.h>
#include "base/counter.h"
#include "base/log.h"
#include "base/process.h"
#include "source.h"
#include "target.h"

/* The most sources of a target to look up in /proc each second. */
#define LOOK_UPS 64

static long stalled_ms(const struct stall *stall)
{
	return (long)((clock_now_ns() - stall->since) / NS_PER_MS);
}

/*
 * Whether a second has passed since the stall began, or since its last look.
 * began: the start of the wait; 0: now.
 */
static bool is_due(struct stall *stall, uint64_t progress, int64_t began)
{
	int64_t now = clock_now_ns();

	if (!stall->since || stall->progress != progress)
		*stall = (struct stall){
			.progress = progress,
			.since = began ? began : now,
			.next_look = (began ? began : now) + WAIT_TICK_NS,
		};
	if (now < stall->next_look)
		return false;
	stall->next_look = now + WAIT_TICK_NS;
	return true;
}

/*
 * Whether a peer's process is known to be stopped. The pid of a process in
 * another PID namespace means another process here.
 */
static bool is_stopped(
    struct peers *peers, uint32_t index, const struct dfi *dfi)
{
	const struct node *node = &peers->peer[index].endpoint.node;

	return peers_state(peers, index) == PEER_PRESENT && node->pid_space &&
	    node->pid_space == dfi->node.pid_space &&
	    dfi__host_distance(&node->at, &dfi->node.at) == HOST_SAME &&
	    node->pid != dfi->node.pid && dfi__process_is_stopped(node->pid);
}

/* consumed: how many segments the target has given back. */
static void source_waits(struct dfi_source *source, uint32_t target,
    uint64_t consumed, int64_t began)
{
	struct stall *stall = &source->target_stalls[target];
	bool stopped;
	char name[256];

	if (!is_due(stall, consumed, began) || stall->logged_stopped)
		return;
	stopped = is_stopped(&source->targets, target, source->dfi);
	if (stall->logged && !stopped)
		return;
	dfi__peers_name(&source->targets, target, name, sizeof(name));
	dfi__log(stopped ? DFI_LOG_WARN : DFI_LOG_INFO,
	    "flow '%s': %s %u has waited %ld ms for %s, which %s",
	    source->flow.name, SOURCE_ID(source), stalled_ms(stall), name,
	    stopped ? "is stalled: its process is stopped"
		    : "gives no segments back");
	if (!stall->logged)
		counter_add(&source->long_stalls, 1);
	stall->logged = true;
	stall->logged_stopped = stopped;
}

void dfi__source_tick(void *arg)
{
	struct target_wait *wait = arg;
	struct dfi_source *source = wait->source;
	uint64_t consumed;

	/*
	 * The source waits without its lock; the control thread may send
	 * meanwhile.
	 */
	source_lock(source);
	consumed = source->rings[wait->target].consumed;
	source_unlock(source);
	source_waits(source, wait->target, consumed,
	    atomic_peek(&source->wait_time.counts.since));
}

void dfi__source_found_no_room(struct dfi_source *source, uint32_t target)
{
	source_waits(source, target, source->rings[target].consumed, 0);
}

void dfi__source_goes_on(struct dfi_source *source, uint32_t target)
{
	struct stall *stall = &source->target_stalls[target];

	if (likely(!stall->since))
		return;
	if (stall->logged)
		dfi__log(DFI_LOG_INFO,
		    "flow '%s': %s %u: %s %u goes on after %ld ms",
		    source->flow.name, SOURCE_ID(source),
		    PEER_ID(&source->targets, target), stalled_ms(stall));
	stall->since = 0;
	stall->logged = stall->logged_stopped = false;
}

/* Whether the target expects more from an attached source. */
static bool is_awaited(struct dfi_target *target, uint32_t source)
{
	return !target->readers[source].end && !target->readers[source].held &&
	    peers_state(&target->sources, source) == PEER_PRESENT;
}

/* A source whose process is stopped, or n_readers. */
static uint32_t find_stopped(struct dfi_target *target)
{
	uint32_t i, source, look_ups = 0;

	for (i = 0; i < target->n_readers && look_ups < LOOK_UPS; i++) {
		source = target->stall.next_peer++ % target->n_readers;
		if (!is_awaited(target, source))
			continue;
		look_ups++;
		if (is_stopped(&target->sources, source, target->dfi))
			return source;
	}
	return target->n_readers;
}

static uint32_t count_awaited(struct dfi_target *target, uint32_t *first)
{
	uint32_t i, n = 0;

	for (i = 0; i < target->n_readers; i++)
		if (is_awaited(target, i) && !n++)
			*first = i;
	return n;
}

static void log_target(
    struct dfi_target *target, uint32_t source, uint32_t n, bool stopped)
{
	char name[256], more[32] = "";

	dfi__peers_name(&target->sources, source, name, sizeof(name));
	if (n > 1)
		snprintf(more, sizeof(more), " and %u more", n - 1);
	dfi__log(stopped ? DFI_LOG_WARN : DFI_LOG_INFO,
	    "flow '%s': %s %u has waited %ld ms for data of %s%s",
	    target->flow.name, TARGET_ID(target), stalled_ms(&target->stall),
	    name,
	    stopped ? ", which is stalled: its process is stopped" : more);
}

static void target_waits(struct dfi_target *target, int64_t began)
{
	struct stall *stall = &target->stall;
	uint32_t n, source = 0, stopped;

	if (!is_due(stall, atomic_peek(&target->segments), began) ||
	    stall->logged_stopped)
		return;
	n = count_awaited(target, &source);
	if (!n)
		return;
	stopped = find_stopped(target);
	stall->logged_stopped = stopped < target->n_readers;
	if (stall->logged_stopped)
		log_target(target, stopped, n, true);
	else if (!stall->logged)
		log_target(target, source, n, false);
	if (!stall->logged)
		counter_add(&target->long_stalls, 1);
	stall->logged = true;
}

void dfi__target_tick(void *arg)
{
	struct dfi_target *target = arg;

	target_waits(target, atomic_peek(&target->wait_time.counts.since));
}

void dfi__target_found_nothing(struct dfi_target *target)
{
	target_waits(target, 0);
}

void dfi__target_goes_on(struct dfi_target *target)
{
	struct stall *stall = &target->stall;

	if (likely(!stall->since))
		return;
	if (stall->logged)
		dfi__log(DFI_LOG_INFO, "flow '%s': %s %u goes on after %ld ms",
		    target->flow.name, TARGET_ID(target), stalled_ms(stall));
	stall->since = 0;
	stall->logged = stall->logged_stopped = false;
}
