/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The errors of a source: its sticky error, the tuples that it has refused, and
 * the targets that have left it.
 */
#include "source.h"

#include <stdio.h>
#include "base/error.h"
#include "base/error_list.h"
#include "transport/transport.h"

int dfi__source_fail(struct dfi_source *source, int err)
{
	uint32_t t;

	source->status = dfi__error_keep(err);
	snprintf(source->status_text, sizeof(source->status_text), "%s",
	    dfi_errmsg());
	for (t = 0; t < source->n_lanes; t++) {
		source->writers[t].segment = NULL;
		lane_forget(source, t);
		source_close_lane(source, t);
	}
	return err;
}

int dfi__source_refuse(struct dfi_source *source, int err)
{
	source->refusal = err;
	source->refusal_taken = dfi__source_taken(source);
	snprintf(source->status_text, sizeof(source->status_text), "%s",
	    dfi_errmsg());
	return err;
}

static int was_aborted(const struct dfi_source *source)
{
	return dfi__fail(-ECANCELED,
	    "flow '%s': %s %u was aborted here (dfi_%s_abort())",
	    source->flow.name, SOURCE_ID(source),
	    flow_source_word(&source->flow));
}

int dfi__source_interrupted(struct dfi_source *source)
{
	atomic_set(&source->interrupted, false);
	return dfi__fail_text(
	    -EINTR, "the source was interrupted (dfi_source_interrupt())");
}

int dfi__source_give_up(struct dfi_source *source)
{
	return dfi__source_fail(source, was_aborted(source));
}

int dfi__source_check_slow(const struct dfi_source *source)
{
	int ret = handle_check(
	    source, source ? &source->magic : NULL, SOURCE_MAGIC);

	if (!ret && source->status)
		ret = dfi__fail(source->status, "%s", source->status_text);
	else if (!ret && source_aborted(source))
		ret = was_aborted(source);
	return ret;
}

int dfi__source_check_free(const struct dfi_source *source)
{
	int ret = source_check(source);

	if (!ret && source->cursor_open)
		return dfi__fail(-EBUSY,
		    "flow '%s': %s %u: a cursor is open: close it first",
		    source->flow.name, SOURCE_ID(source));
	return ret;
}

int dfi__source_no_target(const struct dfi_source *source, uint32_t target)
{
	if (source->flow.partitions)
		return dfi__fail(-ERANGE,
		    "flow '%s': %s %u: target %u: in this version an open flow "
		    "with partitions takes tuples by dfi_source_push() and "
		    "dfi_source_push_batch() only, which route by the key",
		    source->flow.name, SOURCE_ID(source), target);
	if (source->flow.input_position && flow_names_seats(&source->flow))
		return dfi__fail(-ERANGE,
		    "flow '%s': %s %u: target %u: with DFI_ON_LOSS_REPLAY a "
		    "source takes tuples by pushes and batches only "
		    "(dfi_source_push_to(), dfi_source_push_batch_to()), for "
		    "the seats 0 to %u",
		    source->flow.name, SOURCE_ID(source), target,
		    source->flow.n_targets - 1);
	if (source->flow.input_position)
		return dfi__fail(-ERANGE,
		    "flow '%s': %s %u: target %u: with this routing and "
		    "DFI_ON_LOSS_REPLAY a source takes tuples by "
		    "dfi_source_push() and dfi_source_push_batch() only, and "
		    "chooses their targets",
		    source->flow.name, SOURCE_ID(source), target);
	if (!source->head.n_targets)
		return dfi__fail(-ERANGE,
		    "flow '%s': %s %u: target %u: each tuple of a "
		    "replicate flow goes to all: name DFI_ALL_TARGETS",
		    source->flow.name, SOURCE_ID(source), target);
	if (source->flow.part.combiner)
		return dfi__fail(-ERANGE,
		    "flow '%s': %s %u: target %u: with fan_in all tuples of a "
		    "source go to its combiner: name target 0",
		    source->flow.name, SOURCE_ID(source), target);
	if (source->flow.membership && source->n_lanes < source->flow.n_targets)
		return dfi__fail(-ERANGE,
		    "flow '%s': %s %u: target %u: in an open flow with this "
		    "routing the source chooses the target: name 0, or create "
		    "the flow with DFI_ROUTE_DIRECT",
		    source->flow.name, SOURCE_ID(source), target);
	return dfi__fail(-ERANGE,
	    "flow '%s': %s %u: target %u: the flow has %u, numbered from 0",
	    source->flow.name, SOURCE_ID(source), target, source->n_lanes);
}

/* Drop what was not sent to this target yet. */
static void forget_target(struct dfi_source *source, uint32_t target)
{
	struct writer *ring = &source->rings[target];

	source_forget(source, target);
	ring->cancelled = true;
	ring->wanted = false;
	ring->segment = NULL;
	if (source->replica_writer)
		return; /* the other targets share its lane */
	ring->refused = 0;
	lane_forget(source, target);
	source_close_lane(source, target);
}

enum target_life dfi__source_settled_life(
    struct dfi_source *source, uint32_t target)
{
	const struct remote *remote = source->rings[target].remote;
	enum target_life life = source_target_life(source, target);

	if (life == TARGET_CANCELLED || !remote ||
	    !remote->transport->ops->settle)
		return life;
	remote->transport->ops->settle(remote->transport);
	return source_target_life(source, target);
}

int dfi__source_target_left(struct dfi_source *source, uint32_t target)
{
	if (dfi__source_settled_life(source, target) != TARGET_CANCELLED)
		return dfi__source_fail(
		    source, dfi__peers_lost(&source->targets, target));
	forget_target(source, target);
	return 0;
}
