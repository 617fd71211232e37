/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the tuples that leave a flow: each is whole, at the right target and
 * in its source's order; none is missing, and none comes twice. The sources'
 * sequences are known, so it stores only the position in each.
 */
#include "flow_job.h"

/* A source's sequence of tuples, as seen by one target. */
struct sequence {
	uint64_t first_word;
	uint64_t words;  /* of a tuple */
	uint64_t length; /* after it, the sequence starts again */
};

static struct sequence source_sequence(const struct plan *plan, uint32_t source)
{
	return (struct sequence){
		.first_word = source_first_word(source),
		.words = tuple_words(plan->tuple_size),
		.length = plan->api == API_BATCH ? plan_table_tuples(plan)
						 : UINT64_MAX,
	};
}

static uint64_t after(const struct sequence *sequence, uint64_t i)
{
	return i + 1 == sequence->length ? 0 : i + 1;
}

/* Whether the content of a tuple determines its target. */
static bool routed_by_content(const struct plan *plan)
{
	return plan_lanes(plan) == 1 ||
	    (plan->routing == DFI_ROUTE_HASH &&
		(plan->api == API_PUSH || plan->api == API_BATCH));
}

static bool routed_to(const struct plan *plan, uint64_t key, uint32_t target)
{
	key = tuple_count(key, plan->tuple_size);
	return plan->replicates || plan->paired ||
	    dfi_hash_partition(dfi_hash64(key), plan->n_targets) == target;
}

static bool tuple_is_whole(const char *tuple, uint32_t tuple_size)
{
	uint64_t key = tuple_key(tuple, tuple_size);
	uint32_t i;

	for (i = 8; i + 8 <= tuple_size; i += 8)
		if (tuple_key(tuple + i, 8) != key + i / 8)
			return false;
	for (i = tuple_size - (uint32_t)tuple_tail_size(tuple_size);
	     i < tuple_size; i++)
		if (tuple[i] != TAIL_BYTE)
			return false;
	return true;
}

/*
 * Below 8 bytes a tuple only has the low bytes of its count. So it is compared
 * with that of the next tuple for this target, if that is known.
 */
static bool check_small(struct receiver *receiver, uint32_t index,
    const char *tuple, uint32_t source)
{
	const struct plan *plan = receiver->plan;
	struct sequence sequence;
	uint64_t *next, expected, n;

	if (source == ANY_SOURCE && plan->paired)
		source = receiver_target(receiver, index);
	if (source == ANY_SOURCE && plan->n_sources == 1)
		source = 0;
	if (source == ANY_SOURCE || !routed_by_content(plan))
		return true;
	if (source >= plan->n_sources)
		return false;
	sequence = source_sequence(plan, source);
	next = &receiver->next[index * plan->n_sources + source];
	expected = *next;
	/* After so many tuples the low bytes, or the table, begin again. */
	n = tuple_count(UINT64_MAX, plan->tuple_size);
	if (n > sequence.length)
		n = sequence.length;
	for (; !routed_to(plan, expected, receiver_target(receiver, index));
	     n--) {
		if (!n)
			return false;
		expected = after(&sequence, expected);
	}
	*next = after(&sequence, expected);
	return tuple_key(tuple, plan->tuple_size) ==
	    tuple_count(expected, plan->tuple_size);
}

bool flow_check(struct receiver *receiver, uint32_t index, const char *tuple,
    uint32_t known)
{
	const struct plan *plan = receiver->plan;
	uint64_t key = tuple_key(tuple, plan->tuple_size), i, expected;
	uint32_t source = word_source(key);
	struct sequence sequence;
	uint64_t *next;

	if (!tuple_is_whole(tuple, plan->tuple_size))
		return false;
	if (plan->tuple_size < 8)
		return check_small(receiver, index, tuple, known);
	if (source >= plan->n_sources ||
	    (known != ANY_SOURCE && known != source))
		return false;
	if (plan->paired && source != receiver_target(receiver, index))
		return false;
	sequence = source_sequence(plan, source);
	next = &receiver->next[index * plan->n_sources + source];
	i = (key - sequence.first_word) / sequence.words;
	if (i >= sequence.length)
		return false;
	expected = *next;
	*next = after(&sequence, i);
	if (!routed_by_content(plan))
		return i >= expected;
	while (!routed_to(plan, sequence.first_word + expected * sequence.words,
	    receiver_target(receiver, index)))
		expected = after(&sequence, expected);
	return i == expected;
}
