/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NULL where a call needs a pointer: -EINVAL with a text that names it, and no
 * effect. Each exported function is in this table, or in a list with the
 * reason.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "flow_help.h"

static struct rig rig;
static struct dfi *dfi;
static struct dfi_source *source;
static struct dfi_target *target;
static struct dfi_target_group *group;
static struct dfi_barrier *barrier;
static struct dfi_sequencer *sequencer;
static struct dfi_flow_attr flow_attr;

/* Outputs that no failing call may change: each has this in all its bytes. */
#define UNTOUCHED 0xa5
static struct {
	void *handle;
	const void *tuple;
	uint64_t number;
	uint32_t flags;
	struct dfi_batch batch;
	struct dfi_target_group_batch group_batch;
	struct dfi_span span;
	struct dfi_gap gap;
	struct dfi_event event;
	struct dfi_flow_info info;
	struct dfi_flow_needs estimate;
	struct dfi_transport_stats stats;
	struct dfi_schema *schema;
} out;

static void setup(void)
{
	rig_start(&rig);
	dfi = rig.dfi;
	memset(&out, UNTOUCHED, sizeof(out));
	create_kv_flow(dfi, "f", 1, 1, 4, 4);
	target = open_target(dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(dfi, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(dfi_target_group_open(dfi, NULL, &group), 0);
	cr_assert_eq(dfi_barrier_open(dfi, "b", 1, 0, &barrier), 0);
	cr_assert_eq(dfi_sequencer_create(dfi, "s", 0, &sequencer), 0);
	flow_attr = (struct dfi_flow_attr)DFI_FLOW_ATTR_INIT;
	flow_attr.kind = DFI_SHUFFLE;
	flow_attr.schema = &kv_schema;
	flow_attr.n_sources = flow_attr.n_targets = 1;
}

static void teardown(void)
{
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
	cr_assert_eq(dfi_barrier_close(barrier), 0);
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
	rig_stop(&rig);
}

TestSuite(null, .init = setup, .fini = teardown);

/* Calls that return nothing, or something else than an error. */
#define VOID(call) ((call), -EINVAL)
#define PUT(member) ((void *)&out.member)

#define CALLS(X)                                                              \
	X(dfi_open(NULL, NULL), "dfi is NULL")                                \
	X(dfi_context_query(NULL, NULL, NULL), "context")                     \
	X(dfi_context_query(dfi, NULL, NULL), "fn is NULL")                   \
	X(dfi_transport_counter(NULL, "", &out.number), "stats is NULL")      \
	X(dfi_transport_counter(&out.stats, NULL, &out.number),               \
	    "name is NULL")                                                   \
	X(dfi_transport_counter(&out.stats, "", NULL), "value is NULL")       \
	X(dfi_device_list(NULL, NULL), "fn is NULL")                          \
	X(dfi_error_list(NULL, NULL), "fn is NULL")                           \
	X(dfi_setting_list(NULL, NULL, NULL), "fn is NULL")                   \
	X(dfi_registry_start(NULL, NULL), "registry is NULL")                 \
	X(VOID(dfi_registry_address(NULL)), "registry is NULL")               \
	X(dfi_registry_key_create(NULL), "path is NULL")                      \
	X(dfi_flow_create(NULL, "g", &flow_attr), "context")                  \
	X(dfi_flow_create(dfi, NULL, &flow_attr), "name is NULL")             \
	X(dfi_flow_create(dfi, "g", NULL), "attr is NULL")                    \
	X(dfi_flow_estimate(NULL, &flow_attr, &out.estimate), "context")      \
	X(dfi_flow_estimate(dfi, NULL, &out.estimate), "attr is NULL")        \
	X(dfi_flow_estimate(dfi, &flow_attr, NULL), "estimate is NULL")       \
	X(dfi_flow_finish(NULL, "f"), "context")                              \
	X(dfi_flow_give_up(NULL, "f", 0), "context")                          \
	X(dfi_flow_give_up(dfi, NULL, 0), "name is NULL")                     \
	X(dfi_flow_assign(NULL, "f", NULL, 0), "context")                     \
	X(dfi_flow_assign(dfi, NULL, NULL, 0), "name is NULL")                \
	X(dfi_flow_finish(dfi, NULL), "name is NULL")                         \
	X(dfi_member_list(NULL, "f", NULL, NULL), "context")                  \
	X(dfi_member_list(dfi, NULL, NULL, NULL), "name is NULL")             \
	X(dfi_member_list(dfi, "f", NULL, NULL), "fn is NULL")                \
	X(dfi_flow_result_schema(NULL, "f", &out.schema), "context")          \
	X(dfi_flow_result_schema(dfi, NULL, &out.schema), "name is NULL")     \
	X(dfi_flow_result_schema(dfi, "f", NULL), "schema is NULL")           \
	X(dfi_flow_remove(NULL, "f"), "context")                              \
	X(dfi_flow_remove(dfi, NULL), "name is NULL")                         \
	X(dfi_flow_lookup(NULL, "f", &out.info), "context")                   \
	X(dfi_flow_lookup(dfi, NULL, &out.info), "name is NULL")              \
	X(dfi_flow_lookup(dfi, "f", NULL), "info is NULL")                    \
	X(dfi_flow_list(NULL, NULL, NULL), "context")                         \
	X(dfi_flow_list(dfi, NULL, NULL), "fn is NULL")                       \
	X(dfi_node_list(NULL, NULL, NULL), "context")                         \
	X(dfi_node_list(dfi, NULL, NULL), "fn is NULL")                       \
	X(dfi_stats_list(NULL, NULL, NULL), "context")                        \
	X(dfi_stats_list(dfi, NULL, NULL), "fn is NULL")                      \
	X(dfi_barrier_open(NULL, "c", 1, 0, PUT(handle)), "context")          \
	X(dfi_barrier_open(dfi, NULL, 1, 0, PUT(handle)), "barrier name")     \
	X(dfi_barrier_open(dfi, "c", 1, 0, NULL), "barrier is NULL")          \
	X(dfi_barrier_wait(NULL, 1), "barrier is NULL")                       \
	X(VOID(dfi_barrier_interrupt(NULL)), "")                              \
	X(dfi_sequencer_create(NULL, "t", 0, PUT(handle)), "context")         \
	X(dfi_sequencer_create(dfi, NULL, 0, PUT(handle)), "sequencer name")  \
	X(dfi_sequencer_create(dfi, "t", 0, NULL), "sequencer is NULL")       \
	X(dfi_sequencer_open(NULL, "s", 1, PUT(handle)), "context")           \
	X(dfi_sequencer_open(dfi, NULL, 1, PUT(handle)), "NULL")              \
	X(dfi_sequencer_open(dfi, "s", 1, NULL), "sequencer is NULL")         \
	X(dfi_sequencer_next(NULL, 1, &out.number), "sequencer is NULL")      \
	X(dfi_sequencer_next(sequencer, 1, NULL), "first is NULL")            \
	X(dfi_source_open(NULL, "f", 0, NULL, PUT(handle)), "context")        \
	X(dfi_source_open(dfi, NULL, 0, NULL, PUT(handle)), "name is NULL")   \
	X(dfi_source_open(dfi, "f", 0, NULL, NULL), "source is NULL")         \
	X(VOID(dfi_source_abort(NULL)), "")                                   \
	X(VOID(dfi_source_interrupt(NULL)), "")                               \
	X(dfi_source_flush(NULL), "source is NULL")                           \
	X(dfi_source_mark(NULL, 1), "source is NULL")                         \
	X(dfi_source_fd(NULL), "source is NULL")                              \
	X(VOID(dfi_source_query(source, NULL)), "stats is NULL")              \
	X(dfi_source_dropped(NULL, &out.number), "source is NULL")            \
	X(dfi_source_dropped(source, NULL), "n is NULL")                      \
	X(dfi_source_seat(NULL), "source is NULL")                            \
	X(dfi_source_resume(NULL, &out.number, NULL, 0), "source is NULL")    \
	X(dfi_source_event(NULL, &out.event), "source is NULL")               \
	X(dfi_source_event(source, NULL), "event is NULL")                    \
	X(dfi_source_choose(NULL, 1), "source is NULL")                       \
	X(dfi_source_push_batch(NULL, PUT(tuple), 1), "source is NULL")       \
	X(dfi_source_push_batch(source, NULL, 1), "tuples is NULL")           \
	X(dfi_source_push_batch_to(NULL, 0, PUT(tuple), 1), "source is NULL") \
	X(dfi_source_push_batch_to(source, 0, NULL, 1), "tuples is NULL")     \
	X(dfi_source_claim(NULL, 0, &out.span), "source is NULL")             \
	X(dfi_source_claim(source, 0, NULL), "span is NULL")                  \
	X(dfi_source_claim_n(NULL, 0, 1, &out.span), "source is NULL")        \
	X(dfi_source_claim_n(source, 0, 1, NULL), "span is NULL")             \
	X(dfi_source_commit(NULL, &out.span, 0), "source is NULL")            \
	X(dfi_source_commit(source, NULL, 0), "span is NULL")                 \
	X(dfi_source_commit_more(NULL, &out.span, 0), "source is NULL")       \
	X(dfi_source_commit_more(source, NULL, 0), "span is NULL")            \
	X(dfi_source_cursor_open(NULL, 0, 16).status, "source is NULL")       \
	X(dfi_source_cursor_close(dfi_source_cursor_open(NULL, 0, 16)),       \
	    "source is NULL")                                                 \
	X(dfi_target_open(NULL, "f", 0, NULL, PUT(handle)), "context")        \
	X(dfi_target_open(dfi, NULL, 0, NULL, PUT(handle)), "name is NULL")   \
	X(dfi_target_open(dfi, "f", 0, NULL, NULL), "target is NULL")         \
	X(VOID(dfi_target_abort(NULL)), "")                                   \
	X(VOID(dfi_target_interrupt(NULL)), "")                               \
	X(dfi_target_cancel(NULL), "target is NULL")                          \
	X(dfi_target_fd(NULL), "target is NULL")                              \
	X(VOID(dfi_target_query(target, NULL)), "stats is NULL")              \
	X(dfi_target_filtered(NULL, &out.number), "target is NULL")           \
	X(dfi_target_filtered(target, NULL), "n is NULL")                     \
	X(dfi_target_seat(NULL), "target is NULL")                            \
	X(dfi_target_leave(NULL), "target is NULL")                           \
	X(dfi_partition_release(NULL, 0), "target is NULL")                   \
	X(dfi_partition_take(NULL, 0, NULL, 0), "target is NULL")             \
	X(dfi_partition_epoch(NULL, 0, &out.number), "target is NULL")        \
	X(dfi_target_ack(NULL), "target is NULL")                             \
	X(dfi_target_partition(NULL, PUT(tuple), PUT(number)),                \
	    "target is NULL")                                                 \
	X(dfi_target_event(NULL, &out.event), "target is NULL")               \
	X(dfi_target_event(target, NULL), "event is NULL")                    \
	X(dfi_target_gap(NULL, &out.gap), "target is NULL")                   \
	X(dfi_target_gap(target, NULL), "gap is NULL")                        \
	X(dfi_target_window(NULL, &out.number), "target is NULL")             \
	X(dfi_target_window_flags(NULL, &out.flags), "target is NULL")        \
	X(dfi_target_late(NULL), "target is NULL")                            \
	X(dfi_target_position(NULL, &out.number), "target is NULL")           \
	X(dfi_target_position(target, NULL), "position is NULL")              \
	X(dfi_target_watermark(NULL, &out.number), "target is NULL")          \
	X(dfi_target_watermark(target, NULL), "value is NULL")                \
	X(dfi_target_window(target, NULL), "window is NULL")                  \
	X(dfi_target_window_flags(target, NULL), "flags is NULL")             \
	X(dfi_target_consume_slow(NULL, &out.tuple), "target is NULL")        \
	X(dfi_target_consume(target, NULL), "tuple is NULL")                  \
	X(dfi_target_consume_batch(NULL, &out.batch), "target is NULL")       \
	X(dfi_target_consume_batch(target, NULL), "batch is NULL")            \
	X(VOID(dfi_target_release(NULL, &out.batch)), "target is NULL")       \
	X(VOID(dfi_target_release(target, NULL)), "")                         \
	X(dfi_target_cursor_open(NULL, 16).status, "target is NULL")          \
	X(dfi_target_cursor_close(dfi_target_cursor_open(NULL, 16)),          \
	    "target is NULL")                                                 \
	X(dfi_target_group_open(NULL, NULL, PUT(handle)), "context")          \
	X(dfi_target_group_open(dfi, NULL, NULL), "group is NULL")            \
	X(dfi_target_group_add(NULL, target, NULL), "group")                  \
	X(dfi_target_group_add(group, NULL, NULL), "target is NULL")          \
	X(dfi_target_group_remove(NULL, target), "group")                     \
	X(dfi_target_group_remove(group, NULL), "target is NULL")             \
	X(dfi_target_group_consume_batch(NULL, &out.group_batch), "group")    \
	X(dfi_target_group_consume_batch(group, NULL), "batch is NULL")       \
	X(VOID(dfi_target_group_release(NULL, &out.group_batch)), "group")    \
	X(VOID(dfi_target_group_release(group, NULL)), "")                    \
	X(VOID(dfi_target_group_interrupt(NULL)), "")                         \
	X(dfi_target_group_fd(NULL), "group")                                 \
	X(dfi_combiner_open(NULL, "f", 0, NULL, PUT(handle)), "context")      \
	X(dfi_combiner_open(dfi, NULL, 0, NULL, PUT(handle)), "name is NULL") \
	X(dfi_combiner_open(dfi, "f", 0, NULL, NULL), "combiner is NULL")     \
	X(dfi_combiner_run(NULL), "combiner is NULL")                         \
	X(dfi_combiner_fd(NULL), "combiner is NULL")                          \
	X(VOID(dfi_combiner_abort(NULL)), "")                                 \
	X(VOID(dfi_combiner_interrupt(NULL)), "")                             \
	X(VOID(dfi_combiner_query(NULL, NULL)), "stats is NULL")

/* text: "" if the call takes NULL. */
static void refuses(const char *call, int ret, const char *text)
{
	const unsigned char *byte = (const unsigned char *)&out;
	size_t i;

	cr_assert_eq(ret, -EINVAL, "%s returns %d", call, ret);
	cr_assert(strstr(dfi_errmsg(), text), "%s: no '%s' in '%s'", call, text,
	    dfi_errmsg());
	for (i = 0; i < sizeof(out); i++)
		cr_assert_eq(byte[i], UNTOUCHED, "%s changed an output", call);
}

Test(null, is_refused_by_every_call_that_needs_something)
{
	static const struct kv kv = { 1, 2 };

#define X(call, text) refuses(#call, call, text);
	CALLS(X)
#undef X
	/* A refused batch fails the close, unless the source takes a tuple. */
	cr_assert_eq(dfi_source_push(source, &kv), 0);
}

Test(null, is_nothing_to_close)
{
	cr_assert_eq(dfi_close(NULL), 0);
	cr_assert_eq(dfi_registry_stop(NULL), 0);
	cr_assert_eq(dfi_source_close(NULL), 0);
	cr_assert_eq(dfi_target_close(NULL), 0);
	cr_assert_eq(dfi_target_group_close(NULL), 0);
	cr_assert_eq(dfi_barrier_close(NULL), 0);
	cr_assert_eq(dfi_sequencer_close(NULL), 0);
	cr_assert_eq(dfi_combiner_close(NULL), 0);
}

/* Also if a tuple has come already, and the inline function has it. */
Test(null, takes_no_tuple_along)
{
	struct kv kv = { 1, 2 };
	struct dfi_span span;
	const void *tuple;
	int i;

	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_source_push(source, &kv), 0);
	cr_assert_eq(dfi_source_claim(source, 0, NULL), -EINVAL);
	cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
	memcpy(span.tuples, &kv, sizeof(kv));
	cr_assert_eq(dfi_source_commit(source, &span, 1), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	for (i = 0; i < 3; i++) {
		cr_assert_eq(dfi_target_consume(target, NULL), -EINVAL);
		cr_assert_eq(dfi_target_consume(target, &tuple), 1);
		cr_assert_eq(memcmp(tuple, &kv, sizeof(kv)), 0);
	}
	cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
}

/* The list of exported functions. */
Test(null, is_tried_on_all_functions)
{
#define X(call, text) #call,
	static const char *const calls[] = { CALLS(X)
		/* For these NULL means nothing to close, or has a meaning. */
		"dfi_close dfi_registry_stop dfi_source_close dfi_target_close "
		"dfi_target_group_close dfi_barrier_close dfi_sequencer_close "
		"dfi_combiner_close dfi_log_set "
		/* They take no pointers, or bytes. */
		"dfi_errmsg dfi_strerror dfi_version dfi_hash_bytes dfi_hash64 "
		"dfi_hash_partition dfi_hash64_partition dfi_radix_partition "
		/* Inline functions look into the handle. */
		"dfi_source_push_to dfi_source_push_set dfi_source_cursor_push "
		"dfi_target_cursor_get "
		/* So the functions behind them need no check. */
		"dfi_source_push_slow dfi_source_push_to_slow "
		"dfi_source_lane_full dfi_source_table_full "
		"dfi_source_choose_to_push dfi_source_cursor_slow "
		"dfi_target_cursor_slow " };
#undef X
	char line[256], name[128];
	const size_t n_calls = sizeof(calls) / sizeof(calls[0]);
	FILE *map = fopen(DFI_MAP, "r");
	unsigned n = 0;
	size_t i;

	cr_assert_not_null(map, "%s", DFI_MAP);
	while (fgets(line, sizeof(line), map)) {
		if (sscanf(line, " %127[a-z_0-9];", name) != 1 ||
		    strncmp(name, "dfi_", 4) != 0)
			continue;
		n++;
		for (i = 0; i < n_calls && !strstr(calls[i], name); i++)
			;
		cr_assert_lt(i, n_calls, "%s is in no call", name);
	}
	fclose(map);
	cr_assert_gt(n, 60);
}
