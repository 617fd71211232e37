/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combiners of a tree: a target of one part of the flow, and a source of the
 * part above. The source gets the partial aggregates into which the target has
 * folded its input. Each end waits, and fails, as it does alone. While the
 * target waits, it also checks for changes among the targets above
 * (dfi_target.above).
 */
#include <dfi/combiner.h>
#include <dfi/mark.h>

#include <stdio.h>
#include <string.h>
#include "base/attr.h"
#include "base/bits.h"
#include "base/counter.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/maps.h"
#include "flows/members/attach.h"
#include "combine.h"
#include "flows/context/context.h"
#include "flows/endpoint/source.h"
#include "state.h"
#include "window.h"
#include "flows/endpoint/target.h"
#include "flows/kinds/kinds.h"
#include "flows/declare/tree.h"

struct dfi_combiner {
	char unused[HANDLE_MAGIC_OFFSET];
	uint32_t magic;
	_Atomic uint32_t aborters; /* see handle.h */
	_Atomic uint32_t user;     /* HANDLE_CALL() */
	bool ended;                /* it has sent all that is wanted */
	struct dfi_target *input;
	struct dfi_source *output;
};

_Static_assert(
    offsetof(struct dfi_combiner, magic) == HANDLE_MAGIC_OFFSET, "handle");
_Static_assert(
    offsetof(struct dfi_combiner, aborters) == HANDLE_ABORTERS_OFFSET,
    "handle");

#define COMBINER_USER(combiner)                                                \
	((combiner) && (combiner)->magic == COMBINER_MAGIC ? &(combiner)->user \
							   : NULL)
#define COMBINER_SHARED(combiner)                                \
	dfi__handle_shared(call.other, "flow '%s': combiner %u", \
	    (combiner)->input->flow.name, (combiner)->input->index)
#define COMBINER_CALL(combiner) \
	HANDLE_WAITING_CALL(COMBINER_USER(combiner), COMBINER_SHARED(combiner))

static int combiner_check(const struct dfi_combiner *combiner)
{
	return handle_check(
	    combiner, combiner ? &combiner->magic : NULL, COMBINER_MAGIC);
}

/* ---- Opening ---------------------------------------------------------------
 */

static int check_attr(const struct dfi_combiner_attr *attr)
{
	if (attr->flags & ~(uint32_t)DFI_NONBLOCK)
		return dfi__fail(-EINVAL,
		    "dfi_combiner_attr.flags %#x are not all known",
		    attr->flags);
	if (attr->max_groups > DFI_MAX_GROUPS)
		return dfi__fail(-EINVAL,
		    "dfi_combiner_attr.max_groups %lu is more than %lu",
		    (unsigned long)attr->max_groups,
		    (unsigned long)DFI_MAX_GROUPS);
	return 0;
}

/* Takes the flow over, even on failure. */
static int open_output(struct dfi *dfi, struct flow *flow, uint32_t index,
    const struct dfi_combiner_attr *from, const struct wait_policy *wait,
    int64_t deadline, struct dfi_source **output)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	int ret = dfi__context_enter(dfi);

	if (ret < 0) {
		dfi__flow_free(flow);
		return ret;
	}
	attr.flags = from->flags;
	attr.open_timeout_ms = from->open_timeout_ms;
	attr.stall_timeout_ms = from->stall_timeout_ms;
	attr.close_timeout_ms = from->close_timeout_ms;
	attr.linger_us = DFI_NO_LINGER;
	ret = dfi__source_open(dfi, &dfi__combine_kind, flow, index, &attr,
	    wait, deadline, output);
	if (ret < 0)
		dfi__context_leave(dfi);
	return ret;
}

/* Takes the flow over, even on failure. */
static int open_input(struct dfi *dfi, struct flow *flow, uint32_t index,
    const struct dfi_combiner_attr *from, const struct wait_policy *wait,
    int64_t deadline, struct dfi_target **input)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	int ret = dfi__context_enter(dfi);

	if (ret < 0) {
		dfi__flow_free(flow);
		return ret;
	}
	attr.flags = from->flags;
	attr.open_timeout_ms = from->open_timeout_ms;
	attr.stall_timeout_ms = from->stall_timeout_ms;
	if (from->max_groups)
		flow->max_groups = from->max_groups;
	ret = dfi__target_open(
	    dfi, &dfi__combine_kind, flow, index, &attr, wait, deadline, input);
	if (ret < 0)
		dfi__context_leave(dfi);
	return ret;
}

/* The stream is incomplete; the targets above may learn the cause. */
static void give_up_output(struct dfi_source *output, uint32_t cause)
{
	output->cause = cause;
	dfi_source_abort(output);
	(void)dfi_source_close(output);
}

/*
 * Opens the upper end first: it waits for other endpoints, and an open that
 * gives up waiting leaves nothing visible.
 */
static int open_both(struct dfi_combiner *combiner, struct dfi *dfi,
    const char *name, uint32_t index, const struct dfi_combiner_attr *attr,
    const struct wait_policy *wait)
{
	int64_t deadline = context_deadline(dfi, attr->open_timeout_ms);
	struct flow input, output;
	char text[ERROR_TEXT_SIZE];
	int ret = dfi__attach_find_combiner(
	    dfi, name, index, deadline, &input, &output);

	if (ret < 0)
		return dfi__error_keep(ret);
	ret = open_output(
	    dfi, &output, index, attr, wait, deadline, &combiner->output);
	if (ret < 0) {
		dfi__flow_free(&input);
		return ret;
	}
	ret = open_input(
	    dfi, &input, index, attr, wait, deadline, &combiner->input);
	if (ret < 0) {
		snprintf(text, sizeof(text), "%s", dfi_errmsg());
		give_up_output(combiner->output, TREE_UNKNOWN);
		return dfi__fail(ret, "%s", text);
	}
	/*
	 * Check first for targets that have left since the upper end was
	 * opened.
	 */
	combiner->input->seen_above = 0;
	combiner->input->above = &combiner->output->targets;
	return 0;
}

int dfi_combiner_open(struct dfi *dfi, const char *flow, uint32_t index,
    const struct dfi_combiner_attr *user, struct dfi_combiner **out)
{
	struct dfi_combiner_attr attr;
	struct dfi_combiner *combiner;
	struct wait_policy wait;
	CONTEXT_USE(dfi, ret);

	if (!ret && !out)
		ret = dfi__fail(-EINVAL, "dfi_combiner_open: combiner is NULL");
	if (!ret)
		ret = dfi__attr_load(
		    &attr, sizeof(attr), user, "dfi_combiner_attr");
	if (!ret)
		ret = check_attr(&attr);
	if (!ret)
		ret = dfi__context_wait(
		    dfi, attr.wait, "dfi_combiner_attr", &wait);
	if (ret < 0)
		return ret;
	combiner = dfi__handle_alloc(sizeof(*combiner));
	if (!combiner)
		return dfi__fail_map(sizeof(*combiner), "dfi_combiner_open");
	ret = open_both(combiner, dfi, flow, index, &attr, &wait);
	if (ret < 0) {
		dfi__handle_free(combiner, sizeof(*combiner));
		return ret;
	}
	combiner->magic = COMBINER_MAGIC;
	*out = combiner;
	return 0;
}

/* ---- Running ---------------------------------------------------------------
 */

/* No target wants tuples: cancel the input and end. */
static int cancel(struct dfi_combiner *combiner)
{
	int ret = dfi_target_cancel(combiner->input);

	if (ret < 0 && !combiner->input->cancelled)
		return ret;
	/* The refused mark has no receiver any more. */
	combiner->output->mark_refused = 0;
	combiner->ended = true;
	return 0;
}

/*
 * Check the targets above: fail if one is gone, cancel if all have cancelled.
 */
static int look_above(struct dfi_combiner *combiner)
{
	struct dfi_source *output = combiner->output;
	bool wanted = false;
	uint32_t t;
	int ret = 0;

	for (t = 0; t < output->n_remotes && !ret; t++) {
		if (source_target_life(output, t))
			ret = dfi__source_target_left(output, t);
		else
			wanted = true;
	}
	return ret < 0 || wanted ? ret : cancel(combiner);
}

static int send_records(
    struct dfi_combiner *combiner, const void *records, uint64_t n)
{
	int ret = dfi_source_push_batch(
	    combiner->output, records, (uint32_t)min_u64(n, INT32_MAX));

	if (ret > 0) {
		dfi__combine_sent(combiner->input, (uint64_t)ret);
		return 0;
	}
	if (ret != -EPIPE)
		return ret;
	/* No target wants that partial aggregate. */
	dfi__combine_sent(combiner->input, 1);
	return look_above(combiner);
}

/* Do the next step; -EAGAIN: there is none for now. */
static int step(struct dfi_combiner *combiner)
{
	struct dfi_target *input = combiner->input;
	const void *records;
	uint64_t n;
	int ret = source_check(combiner->output);

	/* The error of the output stays, even if targets cancel later. */
	if (!ret)
		ret = target_check(input);
	if (ret < 0)
		return ret;
	if (target_is_called(input)) {
		/* Read this before the check. */
		input->seen_above = peers_changes(input->above);
		ret = look_above(combiner);
		if (ret < 0 || combiner->ended)
			return ret;
	}
	ret = dfi__combine_output(input, &records, &n);
	if (ret == -EAGAIN && target_is_called(input))
		return 0;
	if (ret == COMBINE_RECORDS)
		return send_records(combiner, records, n);
	if (ret == COMBINE_MARK) {
		ret = dfi_source_mark(
		    combiner->output, combiner_of(input)->mark);
		return ret < 0 ? ret : dfi__combine_marked(input);
	}
	combiner->ended = ret == COMBINE_END;
	return ret;
}

/* Both ends were interrupted, and one has returned -EINTR. */
static void forget_interrupt(struct dfi_combiner *combiner)
{
	atomic_set(&combiner->input->interrupted, false);
	atomic_set(&combiner->output->interrupted, false);
}

int dfi_combiner_run(struct dfi_combiner *combiner)
{
	COMBINER_CALL(combiner);
	int ret = combiner_check(combiner);

	while (!ret && !combiner->ended)
		ret = step(combiner);
	if (ret == -EINTR)
		forget_interrupt(combiner);
	return ret;
}

/*
 * Both ends share one descriptor. When a call returns -EAGAIN, one end has
 * asked for a notice there and has looked again. The descriptor also reports
 * targets above that leave or cancel.
 */
int dfi_combiner_fd(struct dfi_combiner *combiner)
{
	COMBINER_CALL(combiner);
	struct notify *notify;
	int ret = combiner_check(combiner);

	if (ret < 0)
		return ret;
	ret = dfi_target_fd(combiner->input);
	if (ret < 0 || combiner->output->notify)
		return ret;
	notify = combiner->input->notify;
	combiner->output->notify = notify;
	atomic_publish(&combiner->output->targets.sleeping, &notify->self.word);
	return ret;
}

void dfi_combiner_abort(struct dfi_combiner *combiner)
{
	if (!combiner || !dfi__handle_hold(combiner, COMBINER_MAGIC))
		return;
	dfi_target_abort(combiner->input);
	dfi_source_abort(combiner->output);
	dfi__handle_release(combiner);
}

void dfi_combiner_interrupt(struct dfi_combiner *combiner)
{
	if (!combiner || !dfi__handle_hold(combiner, COMBINER_MAGIC))
		return;
	dfi_target_interrupt(combiner->input);
	dfi_source_interrupt(combiner->output);
	dfi__handle_release(combiner);
}

/* ---- Closing ---------------------------------------------------------------
 */

/* The first hard error, with its text; there is one unless all was sent. */
static int first_error(const struct dfi_combiner *combiner)
{
	const struct dfi_target *input = combiner->input;
	const struct dfi_source *output = combiner->output;

	if (output->status && output->status != -ECANCELED)
		return dfi__source_check_slow(output);
	if (input->status || target_aborted(input))
		return dfi__target_check_slow(input);
	if (target_lost(input))
		return dfi__fail(target_lost(input), "%s", input->status_text);
	if (output->status)
		return dfi__source_check_slow(output);
	return dfi__fail(-ECANCELED,
	    "flow '%s': combiner %u: closed before its inputs had ended, or "
	    "before all was sent",
	    input->flow.name, input->index);
}

int dfi_combiner_close(struct dfi_combiner *combiner)
{
	HANDLE_LAST_CALL(COMBINER_USER(combiner), COMBINER_SHARED(combiner));
	char text[ERROR_TEXT_SIZE];
	struct dfi_source *output;
	struct dfi_target *input;
	int ret;

	if (!combiner)
		return 0;
	ret = combiner_check(combiner);
	if (ret < 0)
		return ret;
	dfi__handle_retire(combiner);
	input = combiner->input;
	output = combiner->output;
	/* The input owns the descriptor and closes it last. */
	dfi__peers_withdraw(&output->targets);
	output->notify = NULL;
	input->above = NULL;
	if (combiner->ended) {
		ret = dfi_source_close(output);
		snprintf(text, sizeof(text), "%s", dfi_errmsg());
	} else {
		ret = first_error(combiner);
		snprintf(text, sizeof(text), "%s", dfi_errmsg());
		give_up_output(output, input->cause);
	}
	(void)dfi_target_close(input);
	dfi__handle_free(combiner, sizeof(*combiner));
	return ret < 0 ? dfi__fail(ret, "%s", text) : 0;
}

/* ---- Counters --------------------------------------------------------------
 */

void dfi_combiner_query(
    const struct dfi_combiner *combiner, struct dfi_combiner_stats *stats)
{
	struct dfi_target_stats taken;
	struct dfi_source_stats sent;

	if (!stats) {
		dfi__fail(-EINVAL, "dfi_combiner_query: stats is NULL");
		return;
	}
	memset(stats, 0, sizeof(*stats));
	if (combiner_check(combiner) < 0)
		return;
	dfi_target_query(combiner->input, &taken);
	dfi_source_query(combiner->output, &sent);
	*stats = (struct dfi_combiner_stats){
		.tuples = taken.tuples,
		.bytes = taken.bytes,
		.segments = taken.segments,
		.records = sent.tuples,
		.record_bytes = sent.bytes,
		.record_segments = sent.segments,
		.windows = combiner_of(combiner->input)->n_windows,
		.early = combiner_of(combiner->input)->early,
		.stalls = taken.stalls,
		.stall_ns = taken.stall_ns,
		.send_stalls = sent.stalls,
		.send_stall_ns = sent.stall_ns,
	};
}
