/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source's marks. A mark is a segment of its own in the ring of each target,
 * behind all that was pushed before. First each lane gets an open segment,
 * which takes credit but sends nothing. So nothing can fail between the first
 * target and the last, except for a target that has left.
 */
#include "source.h"

#include <errno.h>
#include <dfi/mark.h>
#include "base/error.h"

static int check_value(const struct dfi_source *source, uint64_t value)
{
	if (value > source->marked && value != DFI_NO_MARK)
		return 0;
	return dfi__fail(-ERANGE,
	    "flow '%s': %s %u: mark %lu: the last one was %lu, and marks rise "
	    "(up to %lu)",
	    source->flow.name, SOURCE_ID(source), (unsigned long)value,
	    (unsigned long)source->marked, (unsigned long)(DFI_NO_MARK - 1));
}

static int check(const struct dfi_source *source, uint64_t value)
{
	int ret = dfi__source_check_free(source);

	if (ret < 0)
		return ret;
	return check_value(source, value);
}

/* Send what a lane has, and open it unless nobody wants its tuples. */
static int open_lane(struct dfi_source *source, uint32_t lane)
{
	int ret = source->writers[lane].cancelled ? 0
						  : lane_flush(source, lane);

	if (ret < 0 || source->writers[lane].segment ||
	    source->writers[lane].cancelled)
		return ret;
	ret = dfi__source_make_room(source, lane);
	return ret == -EPIPE ? 0 : ret;
}

/* The next segment of an open lane is the mark. */
static int send_mark(struct dfi_source *source, uint32_t lane, uint64_t value)
{
	int ret;

	if (!source->writers[lane].segment)
		return 0;
	ret = dfi__writer_publish_mark(&source->writers[lane], value);
	if (ret < 0 || source_target_life(source, lane))
		return dfi__source_target_left(source, lane);
	ret = dfi__source_open_segment(source, lane);
	return ret < 0 ? ret : 0;
}

static int mark_lanes(struct dfi_source *source, uint64_t value)
{
	uint32_t i;
	int ret = 0;

	for (i = 0; i < source->n_lanes && !ret; i++)
		ret = open_lane(source, i);
	source->mark_refused = ret;
	for (i = 0; i < source->n_lanes && !ret; i++)
		ret = send_mark(source, i, value);
	return ret;
}

/* The lane is open and empty. */
static int send_replicas(struct dfi_source *source, uint64_t value)
{
	int ret;

	source->replica_writer->mark = value;
	ret = dfi__replica_left(
	    source, dfi__replica_publish(source->replica_writer, FOOTER_MARK));
	if (!ret && !(source->flags & DFI_NONBLOCK))
		ret = source_settle(source);
	/* The mark is taken, so the next call returns -EINTR. */
	if (ret == -EINTR)
		atomic_set(&source->interrupted, true);
	else if (ret < 0 && ret != -ETIMEDOUT)
		return ret;
	ret = dfi__source_open_segment(source, 0);
	return ret < 0 ? ret : 0;
}

/* The same in a replicate flow: the mark is for all targets, as one segment. */
static int mark_replicas(struct dfi_source *source, uint64_t value)
{
	struct replica_writer *replica_writer = source->replica_writer;
	uint64_t targets = replica_writer->targets;
	int ret;

	if (targets)
		replica_writer->targets = dfi__replica_all_targets(
		    source->flow.n_targets);
	ret = source_settle(source);
	if (!ret && source_filled(source, 0)) {
		replica_writer->targets = targets;
		ret = dfi__source_send(source, 0);
		if (!ret)
			ret = source_settle(source);
		if (targets)
			replica_writer->targets = dfi__replica_all_targets(
			    source->flow.n_targets);
	}
	if (!ret && !source->writers[0].segment)
		ret = dfi__source_make_room(source, 0);
	source->mark_refused = ret == -EPIPE ? 0 : ret;
	if (!ret)
		ret = send_replicas(source, value);
	replica_writer->targets = targets;
	return ret == -EPIPE ? 0 : ret;
}

int dfi_source_mark(struct dfi_source *source, uint64_t value)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret = check(source, value);

	if (ret < 0)
		return ret;
	source->claimed = NULL;
	source_lock(source);
	if (source_aborted(source))
		ret = dfi__source_give_up(source);
	else if (source_has_own_marks(source))
		ret = source_own_mark(source, value);
	else if (source->replica_writer)
		ret = mark_replicas(source, value);
	else
		ret = mark_lanes(source, value);
	if (!ret)
		source->marked = value;
	source_unlock(source);
	return ret;
}

int dfi__source_mark_is_whole(const struct dfi_source *source)
{
	/* The source of an open flow that may never push has sent nothing. */
	if (!source->mark_refused || source->mark_refused == -ESHUTDOWN)
		return 0;
	return dfi__fail(source->mark_refused,
	    "flow '%s': %s %u: closed after a mark found no room and was not "
	    "repeated",
	    source->flow.name, SOURCE_ID(source));
}
