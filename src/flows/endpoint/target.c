/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a target: it reserves its rings, attaches, and ends. */
#include "target.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bits.h"
#include "base/counter.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/log.h"
#include "base/maps.h"
#include "transport/transport.h"
#include "flows/members/attach.h"
#include "flows/declare/declare.h"
#include "flows/context/network.h"
#include "flows/context/region.h"

static const char role[] = "target";

void dfi__target_arm_networks(void *arg)
{
	const struct dfi_target *target = arg;
	const struct export *export = target->region->exports;

	for (; export; export = export->next)
		export->transport->ops->arm(export->transport);
}

void dfi__target_set_spins(struct dfi_target *target, bool spins)
{
	struct export *export = target->region->exports;

	for (; export; export = export->next)
		atomic_set(&export->spins, spins);
}

/* Note the error that was set, as a reason why some sources can't attach. */
static void add_why(struct dfi_target *target)
{
	size_t used = strlen(target->network_why);

	snprintf(target->network_why + used, sizeof(target->network_why) - used,
	    "%s%s", used ? "; " : "", dfi_errmsg());
}

/* Sources on other hosts can't reach the target: an error if they must. */
static int unreachable(struct dfi_target *target, int err)
{
	if (dfi__network_choice(target->dfi, &target->flow) !=
	    DFI_TRANSPORT_AUTO)
		return dfi__fail_within(err, "flow '%s': %s %u",
		    target->flow.name, TARGET_ID(target));
	dfi__log(DFI_LOG_WARN,
	    "flow '%s': %s %u: only sources on this host can attach: %s",
	    target->flow.name, TARGET_ID(target), dfi_errmsg());
	return 0;
}

/* A device does not serve the target; single: there is no other. */
static void leave_out(struct dfi_target *target, bool single)
{
	add_why(target);
	if (single)
		return;
	dfi__log(DFI_LOG_WARN,
	    "flow '%s': %s %u: not each device can be used: %s",
	    target->flow.name, TARGET_ID(target), dfi_errmsg());
}

/*
 * Whether a transport can serve the target, beside the first n of the list.
 * Each instance of one locks the memory anew.
 */
static int check_network(const struct dfi_target *target,
    struct transport *network, uint64_t bytes, const struct network_list *list,
    unsigned n)
{
	int ret = dfi__network_serves(network, &target->flow);
	uint64_t all = bytes;

	while (n-- > 0)
		if (list->at[n]->ops == network->ops)
			all += bytes;
	return ret < 0 ? ret : network->ops->region.export_room(network, all);
}

/*
 * The transports by which sources on other hosts reach the rings. None: there
 * are no such sources, or no transport. Call it before the rings are reserved.
 */
static int find_networks(struct dfi_target *target,
    const struct ring_geometry *geometry, struct network_list *list)
{
	enum dfi_transport choice = dfi__network_choice(
	    target->dfi, &target->flow);
	struct transport *memory = target->dfi->transport;
	uint64_t bytes = memory->ops->region.bytes(
	    memory, region_size(geometry, target->n_readers));
	int ret, err = 0;
	unsigned i, n = 0;

	list->n = 0;
	if (!dfi__network_may_be_needed(target->dfi, &target->flow)) {
		dfi__network_why_none(
		    choice, target->network_why, sizeof(target->network_why));
		return 0;
	}
	ret = dfi__network_open_all(target->dfi, choice, list);
	snprintf(
	    target->network_why, sizeof(target->network_why), "%s", list->why);
	if (ret < 0)
		return unreachable(target, ret);
	for (i = 0; i < list->n; i++) {
		ret = check_network(target, list->at[i], bytes, list, n);
		if (!ret) {
			list->at[n++] = list->at[i];
			continue;
		}
		err = ret;
		leave_out(target, list->n == 1);
	}
	list->n = n;
	return n || !err ? 0 : unreachable(target, err);
}

/* Let sources on other hosts write the rings as well. */
static int export_rings(struct dfi_target *target,
    const struct ring_geometry *geometry, const struct network_list *list)
{
	struct ring_layout layout = ring_layout(geometry, target->n_readers);
	int ret = 0, err = 0;
	unsigned i;

	for (i = 0; i < list->n; i++) {
		ret = list->at[i]->ops->region.export(
		    list->at[i], target->region, &layout);
		if (!ret)
			continue;
		err = ret;
		leave_out(target, list->n == 1);
	}
	if (!target->region->exports)
		return err ? unreachable(target, err) : 0;
	target->wait.arm = dfi__target_arm_networks;
	target->wait.arm_arg = target;
	dfi__target_set_spins(
	    target, !target->wait.sleeps && !(target->flags & DFI_NONBLOCK));
	/* Otherwise sources of this host write through memory. */
	target->wait.fenced = transport_is_network(target->flow.transport);
	/* At most half a credit's worth, so that sources don't wait. */
	if (target->flow.goal == DFI_BANDWIDTH && target->wait.sleeps)
		target->pace.segments = credit_batch(geometry) / 2;
	return 0;
}

/* Reserve the target's region, within the context's bound. */
static int reserve(
    struct dfi_target *target, const struct ring_geometry *geometry)
{
	struct transport *transport = target->dfi->transport;
	uint64_t size = region_size(geometry, target->n_readers);
	uint64_t bytes = transport->ops->region.bytes(transport, size);
	int ret;

	ret = dfi__ring_memory_take(
	    target->dfi, bytes, target->flow.name, TARGET_ID(target));
	if (ret < 0)
		return ret;
	ret = transport->ops->region.create(transport, size, &target->region);
	if (!ret) {
		target->ring_memory += bytes;
		return 0;
	}
	dfi__ring_memory_return(target->dfi, bytes);
	return dfi__fail_within(
	    ret, "flow '%s': %s %u", target->flow.name, TARGET_ID(target));
}

/* Expect the slots from the sources, each of which grants its own. */
static void expect_slots(struct dfi_target *target)
{
	struct ring_geometry slots = dfi__flow_slots_geometry(&target->flow);

	if (target->flow.part.shared_segments)
		slots = ring_geometry_moved(
		    slots, target->flow.part.shared_segments);
	target->region->granted_size = region_size(&slots, 1);
}

/*
 * Reserve the rings and initialise them for their sources. For large rings that
 * takes seconds, which don't count towards the deadline: it moves.
 */
static int create_rings(struct dfi_target *target, int64_t *deadline)
{
	struct ring_geometry geometry = dfi__flow_geometry(&target->flow);
	struct network_list networks = { .n = 0 };
	int64_t start;
	uint32_t i;
	int ret;

	target->readers = dfi__readers_alloc(target->n_readers);
	if (!target->readers)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", target->flow.name);
	ret = flow_is_multicast(&target->flow)
	    ? target->kind->intake.reserve(target)
	    : find_networks(target, &geometry, &networks);
	start = clock_now_ns();
	if (!ret)
		ret = reserve(target, &geometry);
	if (!ret)
		ret = export_rings(target, &geometry, &networks);
	if (ret < 0)
		return ret;
	if (*deadline != DEADLINE_NEVER)
		*deadline += clock_now_ns() - start;
	if (flow_has_shared_ring(&target->flow) ||
	    target->flow.part.shared_segments)
		expect_slots(target);
	dfi__region_init(target->region);
	for (i = 0; i < target->n_readers; i++) {
		dfi__reader_init(&target->readers[i], target->region, &geometry,
		    target->n_readers, i, RING_FIRST_SEGMENT);
		target->readers[i].lossy = target->flow.loss_policy ==
		    DFI_LOSS_NOTIFY;
		target->readers[i].own_bit = target->index < DFI_MAX_SET_TARGETS
		    ? UINT64_C(1) << target->index
		    : 0;
	}
	if (flow_is_multicast(&target->flow))
		ret = target->kind->intake.join(target, *deadline);
	target->prefetches = geometry.segment_tuples == 1 &&
	    geometry.footer_offset >= CACHE_LINE;
	return ret;
}

static void free_rings(struct dfi_target *target)
{
	if (target->region)
		region_close(target->region);
	dfi__notify_free(target->notify);
	dfi__ring_memory_return(target->dfi, target->ring_memory);
	free(target->readers);
	dfi__marks_free(target->marks);
}

static void close_kind(struct dfi_target *target)
{
	if (target->kind->intake.close)
		target->kind->intake.close(target);
}

static void free_target(struct dfi_target *target)
{
	free_rings(target);
	close_kind(target);
	dfi__flow_free(&target->flow);
	dfi__handle_free(target, sizeof(*target));
}

/*
 * Frees what a closed target has left: the peers, the flow and its sequencer.
 */
static void end_tombstone(struct tombstone *tombstone, bool withdraw)
{
	struct dfi_target *target =
	    (struct dfi_target *)(void *)((char *)tombstone -
		offsetof(struct dfi_target, tombstone));
	char key[KEY_SIZE];

	dfi__endpoint_key(key, &target->flow, role, target->index);
	dfi__peers_close(&target->sources, withdraw ? key : NULL);
	close_kind(target);
	dfi__flow_free(&target->flow);
	dfi__handle_free(target, sizeof(*target));
}

/* Watch the sources, and publish the rings. */
static int attach(struct dfi_target *target, int64_t deadline)
{
	int ret;

	target->sources.why_lost = dfi__target_why_lost;
	ret = create_rings(target, &deadline);
	if (!ret && target->kind->intake.open)
		ret = target->kind->intake.open(target);
	if (ret < 0)
		return ret;
	ret = dfi__attach_join(target->dfi, &target->flow, target->index,
	    target->region, target->network_why, target->sequencer,
	    target->datagrams, &target->sources, deadline);
	/* Pairs with find_source() (multicast.c): orders the peers. */
	if (!ret)
		atomic_publish(&target->knows_sources, true);
	return ret;
}

int dfi__target_open(struct dfi *dfi, const struct kind *kind,
    struct flow *flow, uint32_t index, const struct dfi_target_attr *attr,
    const struct wait_policy *wait, int64_t deadline, struct dfi_target **out)
{
	struct dfi_target *target = dfi__handle_alloc(sizeof(*target));
	int ret;

	if (!target) {
		ret = dfi__fail_map(sizeof(*target), "flow '%s'", flow->name);
		dfi__flow_free(flow);
		return ret;
	}
	target->dfi = dfi;
	target->kind = kind;
	target->flow = *flow;
	target->index = index;
	target->flags = attr->flags;
	target->wait_time = wait_time(attr->stall_timeout_ms);
	target->wait_time.tick = dfi__target_tick;
	target->wait = *wait;
	target->n_readers = target->n_open = flow->n_sources;
	target->head.tuple_size = flow->schema->tuple_size;
	target->open_timeout_ms = attr->open_timeout_ms;
	target->wait_time.deadline = context_deadline(
	    dfi, attr->open_timeout_ms);
	ret = flow->kind == DFI_COMBINE
	    ? 0
	    : dfi__marks_open(target, true, attr->idle_after_ms);
	if (!ret)
		ret = attach(target, deadline);
	if (ret < 0) {
		free_target(target);
		return dfi__error_keep(ret);
	}
	target->wait_time.deadline = context_deadline(
	    dfi, attr->open_timeout_ms);
	target->magic = TARGET_MAGIC;
	dfi__stats_add(dfi, &target->stats, dfi__target_stats);
	dfi__target_log_attached(target);
	*out = target;
	return 0;
}

void dfi_target_abort(struct dfi_target *target)
{
	HANDLE_SIGNAL(target, TARGET_MAGIC, &target->aborted,
	    dfi__peers_wake(&target->sources));
}

void dfi_target_interrupt(struct dfi_target *target)
{
	HANDLE_SIGNAL(target, TARGET_MAGIC, &target->interrupted,
	    dfi__peers_wake(&target->sources));
}

/* Tell all sources that the target reads no more. */
static void close_rings(struct dfi_target *target, enum ring_closed closed)
{
	uint32_t i;

	for (i = 0; i < target->n_readers; i++)
		dfi__reader_close(&target->readers[i], closed);
}

/* Publish how the target ends, for sources that attach later. */
static int publish_end(struct dfi_target *target, enum attach_end end)
{
	return dfi__attach_end(target->dfi, &target->flow, target->index,
	    target->region, target->sequencer, end, 0,
	    context_deadline(target->dfi, 0));
}

void dfi__target_refuse_pair(struct dfi_target *end)
{
	end->cancelled = end->cancel_published = true;
	close_rings(end, RING_CANCELLED);
}

int dfi_target_cancel(struct dfi_target *target)
{
	CANCEL_POINT;
	TARGET_CALL(target, TARGET_SHARED(target));
	int ret = dfi__target_check_lent(target);

	if (ret < 0 || target->cancel_published)
		return ret;
	if (target->kind->intake.cancel) {
		ret = target->kind->intake.cancel(target);
		target->cancelled = target->cancel_published = !ret;
		return ret;
	}
	if (!target->cancelled) {
		target->cancelled = true;
		/* The unread tuples of the segment in work are lost. */
		owned_add(&target->readers[target->head.source].total,
		    -target_unread(target));
		target->head.next = target->head.end = NULL;
		target->lends_segment = false;
		close_rings(target, RING_CANCELLED);
	}
	ret = publish_end(target, ATTACH_CANCELLED);
	target->cancel_published = !ret;
	return dfi__error_keep(ret);
}

/* On failure later sources learn less, but the target closes all the same. */
static void try_publish_end(struct dfi_target *target, enum attach_end end)
{
	char text[ERROR_TEXT_SIZE];

	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	if (publish_end(target, end) < 0)
		dfi__log(DFI_LOG_WARN, "%s", dfi_errmsg());
	(void)dfi__fail(-EIO, "%s", text);
}

/*
 * The last answer to datagrams may be lost, and the target answers no more
 * after its close. So its entry says that it has received all, before the entry
 * goes. A source that misses this waits until its timeout.
 */
static void leave_group(struct dfi_target *target)
{
	if (target->datagrams && !target->cancelled && !target->n_open)
		try_publish_end(target, ATTACH_DONE);
	if (target->kind->intake.stop)
		target->kind->intake.stop(target);
}

int dfi_target_close(struct dfi_target *target)
{
	TARGET_LAST_CALL(target, TARGET_SHARED(target));
	struct dfi *dfi;
	char key[KEY_SIZE];
	int ret;

	if (!target)
		return 0;
	ret = handle_check(target, &target->magic, TARGET_MAGIC);
	if (ret < 0)
		return ret;
	/* An abort counts more than a loss that no call has told. */
	if (!target->status && !target->cancelled && !target_aborted(target))
		target->status = target_lost(target);
	if (target->status || target_aborted(target))
		ret = dfi__target_check_slow(target);
	dfi = target->dfi;
	if (target->group)
		dfi__target_group_drop(target);
	if (target->kind->intake.leave) {
		target->kind->intake.leave(target);
		return ret;
	}
	if (!target->cancelled)
		close_rings(target, RING_CLOSED);
	else if (!target->cancel_published &&
	    dfi__peers_expected(&target->sources))
		try_publish_end(target, ATTACH_CANCELLED);
	leave_group(target);
	dfi__stats_remove(dfi, &target->stats);
	dfi__handle_retire(target);
	/*
	 * A later source must find the entry, so that it doesn't wait for the
	 * target. The source of a pair sees that the seat is free.
	 */
	if (target->cancelled && !target->flow.part.pair &&
	    dfi__peers_expected(&target->sources)) {
		dfi__peers_withdraw(&target->sources);
		if (target->kind->intake.rest)
			target->kind->intake.rest(target);
		free_rings(target);
		target->tombstone.peers = &target->sources;
		target->tombstone.end = end_tombstone;
		dfi__tombstone_begin(&target->tombstone);
	} else {
		dfi__endpoint_key(key, &target->flow, role, target->index);
		dfi__peers_close(&target->sources, key);
		free_target(target);
	}
	dfi__context_leave(dfi);
	return ret;
}
