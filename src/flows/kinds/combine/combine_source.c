/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing here waits except a flush. What finds no room in the ring is held,
 * and the lane opens no segment before that is sent. So the source waits, or
 * returns -EAGAIN, where its next segment doesn't open, as in other flows.
 */
#include "combine_source.h"

#include <stdlib.h>
#include <string.h>
#include "base/bits.h"
#include "base/counter.h"
#include "base/error.h"
#include "base/log.h"
#include "combine.h"
#include "flows/declare/combine_flow.h"
#include "flows/declare/declare.h"
#include "flows/endpoint/source.h"
#include "state.h"
#include "window.h"

/*
 * Combining must at least halve the bytes and the tuples that the target folds.
 * Otherwise folding costs more time at the source than it saves.
 */
#define MIN_REDUCTION 2
/*
 * A table with this share of its groups in use, in which almost no tuple met an
 * existing group, is given up before it is full.
 */
#define EARLY_SHARE 4    /* of its groups */
#define EARLY_REPEATS 32 /* of the tuples */
/*
 * A source that does not combine tries again after a pause, which grows from
 * the first of these to the last, counted in tables full of tuples.
 */
#define FIRST_PAUSE 128
#define LAST_PAUSE 8192

static void init_lanes(struct combine_source *combine,
    const struct combine_sizes *sizes, uint32_t n_lanes)
{
	char *memory = combine->memory;
	struct combine_lane *lane;
	uint32_t t;

	for (t = 0; t < n_lanes; t++) {
		lane = &combine->lanes[t];
		dfi__partials_init(
		    &lane->table, combine->plan, sizes->max, memory);
		memory += sizes->table;
		lane->stage = memory;
		memory += align_up(sizes->stage, CACHE_LINE);
		lane->combines = true;
		lane->pause = (uint64_t)FIRST_PAUSE * sizes->max;
	}
}

int dfi__combine_source_open(struct dfi_source *source)
{
	const struct flow *flow = &source->flow;
	uint32_t n = flow->n_targets;
	struct ring_geometry geometry = dfi__flow_geometry(flow);
	struct combine_source *combine;
	struct combine_sizes sizes;
	int ret;

	combine = calloc(1, sizeof(*combine) + n * sizeof(combine->lanes[0]));
	if (!combine)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	((struct combine_state *)source->state)->combine = combine;
	ret = dfi__combine_plan(flow, &combine->plan);
	if (ret < 0)
		return ret;
	sizes = dfi__combine_sizes(flow, combine->plan);
	ret = dfi__ring_memory_take(
	    source->dfi, sizes.all, flow->name, SOURCE_ID(source));
	if (ret < 0)
		return ret;
	source->ring_memory += sizes.all;
	combine->memory = aligned_alloc(CACHE_LINE, sizes.all);
	if (!combine->memory)
		return dfi__fail(-ENOMEM,
		    "flow '%s': source %u: no memory for partial aggregates: "
		    "%lu bytes",
		    flow->name, source->index, (unsigned long)sizes.all);
	combine->adapts = flow->combining == DFI_COMBINING_ADAPTIVE;
	combine->record_size = plan_record_size(combine->plan);
	combine->segment_records = geometry.segment_bytes /
	    combine->record_size;
	combine->stage_size = (uint32_t)sizes.stage;
	/* The creator of the flow refuses this. */
	if (!combine->segment_records)
		return dfi__fail(-EBADMSG,
		    "flow '%s': its entry in the registry is damaged: a "
		    "partial aggregate of %u bytes doesn't fit a segment",
		    flow->name, combine->record_size);
	init_lanes(combine, &sizes, n);
	return 0;
}

void dfi__combine_source_close(struct dfi_source *source)
{
	if (!combine_of(source))
		return;
	dfi__plan_free(combine_of(source)->plan);
	free(combine_of(source)->memory);
	free(combine_of(source));
}

/* ---- Folding and sending --------------------------------------------------
 */

static void fold_rest(struct combine_source *combine, struct combine_lane *lane)
{
	uint32_t size = combine->plan->tuple_size;
	uint64_t n = (uint64_t)(lane->rest_end - lane->rest) / size;
	uint64_t taken = dfi__partials_fold(&lane->table, lane->rest, n);

	lane->rest += taken * size;
	lane->folded += taken;
	owned_add(&lane->combined, taken);
	if (taken < n)
		lane->sends = true;
	else if (combine->adapts && !lane->sent &&
	    lane->table.n >= lane->table.max / EARLY_SHARE &&
	    lane->folded - lane->table.n < lane->folded / EARLY_REPEATS)
		lane->sends = true;
}

/* Log the first time that the source stops combining. */
static void log_stop(const struct dfi_source *source, uint32_t target,
    uint64_t folded, uint64_t sent)
{
	dfi__log(DFI_LOG_INFO,
	    "flow '%s': %s %u stops combining for %s %u for a while: its last "
	    "%lu tuples were of %lu groups; combining_bytes, which are %lu, "
	    "hold %u groups for each",
	    source->flow.name, SOURCE_ID(source),
	    PEER_ID(&source->targets, target), (unsigned long)folded,
	    (unsigned long)sent, (unsigned long)combining_bytes(&source->flow),
	    combine_of(source)->lanes[target].table.max);
}

/* The table was sent: decide whether to continue combining. */
static void judge(struct dfi_source *source, uint32_t target)
{
	struct combine_source *combine = combine_of(source);
	struct combine_lane *lane = &combine->lanes[target];
	uint64_t folded = lane->folded, sent = lane->sent;
	uint64_t in = folded * combine->plan->tuple_size;
	uint64_t out = sent * combine->record_size;

	if (!combine->adapts || sent < lane->table.max / EARLY_SHARE)
		return;
	lane->folded = lane->sent = 0;
	if (in >= out * MIN_REDUCTION && folded >= sent * MIN_REDUCTION) {
		lane->pause = (uint64_t)FIRST_PAUSE * lane->table.max;
		return;
	}
	lane->combines = false;
	if (!atomic_peek(&combine->stops))
		log_stop(source, target, folded, sent);
	owned_add(&combine->stops, 1);
	lane->left = lane->pause;
	lane->pause = min_u64(
	    2 * lane->pause, (uint64_t)LAST_PAUSE * lane->table.max);
}

/*
 * Send one segment with as many partial aggregates as fit: 1, 0 without credit,
 * or an error.
 */
static int send_some(struct combine_source *combine, struct combine_lane *lane,
    struct writer *writer)
{
	uint64_t n = min_u64(
	    lane->table.n - lane->next, combine->segment_records);
	uint64_t bytes = n * combine->record_size;
	uint64_t used = (bytes + combine->plan->tuple_size - 1) /
	    combine->plan->tuple_size * combine->plan->tuple_size;
	int ret = writer_credit(writer);

	if (ret <= 0)
		return ret;
	/*
	 * Leave writer->end as it is: the owner reads that of the stage without
	 * the lock.
	 */
	writer->segment = writer_payload(writer);
	memcpy(
	    writer->segment, partials_record(&lane->table, lane->next), bytes);
	memset(writer->segment + bytes, 0, used - bytes);
	writer->records = n;
	ret = dfi__writer_publish(writer, used);
	writer->records = 0;
	lane->next += (uint32_t)n;
	owned_add(&lane->records, n);
	return ret < 0 ? ret : 1;
}

/* Send the whole table. An open segment stays open. */
static int send_records(struct dfi_source *source, uint32_t target)
{
	struct combine_source *combine = combine_of(source);
	struct combine_lane *lane = &combine->lanes[target];
	struct writer *writer = &source->writers[target];
	char *segment = writer->segment;
	int ret = 1;

	while (ret > 0 && lane->next < lane->table.n)
		ret = send_some(combine, lane, writer);
	writer->segment = segment;
	if (ret <= 0)
		return ret;
	lane->sent += lane->table.n;
	lane->sends = false;
	lane->next = 0;
	judge(source, target);
	dfi__partials_clear(&lane->table);
	return 1;
}

/*
 * Continue with what the lane holds: 1, 0 while there is no room, or an error.
 */
static int proceed(struct dfi_source *source, uint32_t target)
{
	struct combine_source *combine = combine_of(source);
	struct combine_lane *lane = &combine->lanes[target];
	int ret;

	for (;;) {
		if (!lane->sends && lane->rest != lane->rest_end)
			fold_rest(combine, lane);
		if (!lane->sends && lane->rest == lane->rest_end) {
			if (!lane->table.n ||
			    (lane->combines && !lane->flushes)) {
				lane->flushes = false;
				return 1;
			}
			lane->sends = true;
		}
		if (!lane->sends)
			continue;
		ret = send_records(source, target);
		if (ret <= 0)
			return ret;
	}
}

/* ---- A lane ----------------------------------------------------------------
 */

int dfi__combine_lane_open(struct dfi_source *source, uint32_t target)
{
	struct combine_lane *lane = &combine_of(source)->lanes[target];
	struct writer *writer = &source->writers[target];
	int ret = proceed(source, target);

	if (ret <= 0)
		return ret;
	if (!lane->combines && !lane->left)
		lane->combines = true;
	lane->staged = lane->combines && !lane->raw_next;
	if (!lane->staged) {
		ret = writer_open(writer);
		lane->raw_next &= ret <= 0;
		return ret;
	}
	lane->rest = lane->rest_end = NULL;
	writer->segment = lane->stage;
	writer->end = lane->stage + combine_of(source)->stage_size;
	return 1;
}

/* Count used bytes of tuples that go unchanged. */
static void count_raw(
    struct dfi_source *source, struct combine_lane *lane, uint64_t used)
{
	uint64_t n = used / source->head.tuple_size;

	lane->left -= min_u64(lane->left, n);
	owned_add(&lane->raw, n);
}

/* Add the first used bytes of the open stage to the part to fold. */
static void add_rest(
    struct combine_lane *lane, const struct writer *writer, uint64_t used)
{
	if (lane->rest == lane->rest_end)
		lane->rest = writer->segment;
	lane->rest_end = writer->segment + used;
}

int dfi__combine_lane_publish(
    struct dfi_source *source, uint32_t target, uint64_t used)
{
	struct combine_lane *lane = &combine_of(source)->lanes[target];
	struct writer *writer = &source->writers[target];

	if (!lane->staged) {
		count_raw(source, lane, used);
		return dfi__writer_publish(writer, used);
	}
	add_rest(lane, writer, used);
	if (!lane->sends)
		fold_rest(combine_of(source), lane);
	writer->segment = NULL;
	lane->staged = false;
	return 0;
}

int dfi__combine_lane_publish_part(
    struct dfi_source *source, uint32_t target, uint64_t used)
{
	struct combine_lane *lane = &combine_of(source)->lanes[target];
	struct writer *writer = &source->writers[target];
	int ret;

	if (writer->segment && !lane->staged) {
		ret = dfi__writer_publish_part(writer, used);
		if (ret > 0)
			count_raw(source, lane, used);
		return ret;
	}
	if (used) {
		add_rest(lane, writer, used);
		writer->segment += used;
	}
	lane->flushes = true;
	return proceed(source, target);
}

bool dfi__combine_holds(const struct dfi_source *source, uint32_t target)
{
	const struct combine_lane *lane = &combine_of(source)->lanes[target];

	return lane->table.n || lane->rest != lane->rest_end;
}

void dfi__combine_forget(struct dfi_source *source, uint32_t target)
{
	struct combine_lane *lane = &combine_of(source)->lanes[target];

	lane->rest = lane->rest_end = NULL;
	lane->sends = lane->flushes = lane->staged = false;
	lane->next = 0;
	lane->raw_next = false;
	dfi__partials_clear(&lane->table);
}

/* ---- Flushing --------------------------------------------------------------
 */

int dfi__combine_flush(struct dfi_source *source, uint32_t target)
{
	struct combine_lane *lane = &combine_of(source)->lanes[target];
	struct writer *writer = &source->writers[target];
	uint64_t bytes = source_filled(source, target);
	int refused = writer->refused;
	int err, ret;

	if (!bytes && !dfi__combine_holds(source, target))
		return 0;
	if (writer->segment && !lane->staged)
		return window_of(source) ? dfi__window_send(source, target)
					 : dfi__source_send(source, target);
	if (writer->segment) {
		if (window_of(source))
			dfi__window_count(source, target);
		(void)dfi__combine_lane_publish(source, target, bytes);
	}
	lane->flushes = true;
	ret = dfi__source_make_room(source, target);
	if (!ret && refused) {
		/* A push was refused before: its next try finds this room. */
		writer->segment = NULL;
		lane->staged = false;
		source_close_lane(source, target);
		writer->refused = refused;
	}
	if (ret == -EPIPE)
		ret = 0;
	if (window_of(source) && !source->status) {
		err = dfi__window_settle(source);
		ret = err < 0 ? err : ret;
	}
	return ret;
}

void dfi__combine_carry(struct dfi_source *source, uint32_t target)
{
	struct combine_lane *lane = &combine_of(source)->lanes[target];
	struct writer *writer = &source->writers[target];
	uint64_t bytes = source_filled(source, target);

	if (writer->cancelled || (writer->segment && !lane->staged))
		return;
	if (writer->segment) {
		dfi__window_count(source, target);
		(void)dfi__combine_lane_publish(source, target, bytes);
		source_close_lane(source, target);
	}
	lane->flushes = lane->raw_next = true;
}

int dfi__combine_finish(struct dfi_source *source, int64_t deadline)
{
	struct notify *notify = source->notify;
	uint32_t t, flags = source->flags;
	int ret;

	for (t = 0; notify && t < source->n_remotes; t++)
		if (source->rings[t].wanted)
			dfi__notify_withdraw(
			    dfi__writer_wait_word(&source->rings[t]));
	source->notify = NULL;
	source->flags &= ~(uint32_t)DFI_NONBLOCK;
	source->wait_time.deadline = deadline;
	ret = dfi_source_flush(source);
	source->wait_time.deadline = DEADLINE_NEVER;
	source->flags = flags;
	source->notify = notify;
	return ret;
}
