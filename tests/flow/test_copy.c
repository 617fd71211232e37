/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuples of the size of small variables. The inline functions know their sizes,
 * and copy each size in its own way. All tuples arrive whole and in order.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "flow_help.h"

#define N_TARGETS 2
#define SEGMENT_TUPLES 3 /* so that lanes become full as well */

/* The pushes of one function for each tuple size. */
#define N_TUPLES 10

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(copy, .init = setup, .fini = teardown, .timeout = 300);

static void fill(void *tuple, size_t size, uint32_t number)
{
	size_t i;

	for (i = 0; i < size; i++)
		((unsigned char *)tuple)[i] = (unsigned char)mix(number, i);
}

/* A function for each size of a variable, called with that of a tuple. */
#define SIZES_A(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define SIZES_B(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(20) X(23) X(24)
#define SIZES_C(X) X(28) X(31) X(32) X(33) X(36) X(40) X(41) X(44) X(47) X(48)
#define SIZES_D(X) X(49) X(52) X(56) X(57) X(60) X(63) X(64) X(65) X(72)
#define SIZES(X) SIZES_A(X) SIZES_B(X) SIZES_C(X) SIZES_D(X)

#define X(size)                                                              \
	static int push_##size(                                              \
	    struct dfi_source *source, uint32_t tuple_size, uint32_t target) \
	{                                                                    \
		struct dfi_source_cursor cursor;                             \
		struct {                                                     \
			unsigned char bytes[size];                           \
		} tuple;                                                     \
		uint32_t i;                                                  \
		int ret = 0;                                                 \
                                                                             \
		for (i = 0; i < N_TUPLES && !ret; i++) {                     \
			fill(&tuple, sizeof(tuple), i);                      \
			ret = target < N_TARGETS                             \
			    ? dfi_source_push_to(source, target, &tuple)     \
			    : dfi_source_push(source, &tuple);               \
		}                                                            \
		if (ret || tuple_size != (size))                             \
			return ret;                                          \
		cursor = dfi_source_cursor_open(source, 0, size);            \
		for (i = 0; i < N_TUPLES; i++) {                             \
			fill(&tuple, sizeof(tuple), i);                      \
			if (dfi_source_cursor_push(&cursor, &tuple, size))   \
				break;                                       \
		}                                                            \
		return dfi_source_cursor_close(cursor);                      \
	}
SIZES(X)
#undef X

static const struct way {
	uint32_t size;
	int (*push)(
	    struct dfi_source *source, uint32_t tuple_size, uint32_t target);
} ways[] = {
#define X(size) { size, push_##size },
	SIZES(X)
#undef X
};

static void expect_tuples(struct dfi_target *target, uint32_t size, uint32_t n)
{
	unsigned char bytes[128];
	const void *tuple;
	uint32_t i;

	for (i = 0; i < n; i++) {
		fill(bytes, size, i % N_TUPLES);
		cr_assert_eq(
		    consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
		cr_assert_eq(memcmp(tuple, bytes, size), 0,
		    "tuple %u of %u bytes", i, size);
	}
}

static void create_flow(uint32_t tuple_size, uint32_t routing)
{
	struct dfi_field field = { "bytes", NULL, DFI_BYTES, 0, tuple_size, 0 };
	struct dfi_schema schema = { &field, 1, tuple_size };
	struct dfi_flow_attr attr = { .size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = 1,
		.n_targets = routing == DFI_ROUTE_DIRECT ? N_TARGETS : 1,
		.routing = routing,
		.segment_size = SEGMENT_TUPLES * tuple_size,
		.segment_count = 2 * N_TUPLES };

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "copy", &attr), 0, "%s", dfi_errmsg());
}

/* One target, which makes pushes the shortest; or several, named. */
static void move(const struct way *way, uint32_t tuple_size, uint32_t routing)
{
	uint32_t cursor = way->size == tuple_size ? N_TUPLES : 0, t, n = 0;
	uint32_t n_targets = routing == DFI_ROUTE_DIRECT ? N_TARGETS : 1;
	struct dfi_target *targets[N_TARGETS];
	struct dfi_source *source;
	const void *tuple;

	create_flow(tuple_size, routing);
	for (t = 0; t < n_targets; t++)
		targets[t] = open_target(rig.dfi, "copy", t, DFI_NONBLOCK);
	source = open_source(rig.dfi, "copy", 0, DFI_NONBLOCK);
	if (routing == DFI_ROUTE_DIRECT)
		for (t = 0; t < n_targets; t++)
			cr_assert_eq(way->push(source, tuple_size, t), 0);
	else
		cr_assert_eq(way->push(source, tuple_size, UINT32_MAX), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	for (t = 0; t < n_targets; t++) {
		/* Cursors push to target 0, once for each call. */
		n = N_TUPLES + (t ? 0 : n_targets * cursor);
		expect_tuples(targets[t], tuple_size, n);
		cr_assert_eq(consume_soon(targets[t], &tuple), 0);
		cr_assert_eq(dfi_target_close(targets[t]), 0);
	}
	cr_assert_eq(dfi_flow_remove(rig.dfi, "copy"), 0);
}

Test(copy, variable_of_any_size_is_a_tuple)
{
	size_t i;

	for (i = 0; i < N_ELEMENTS(ways); i++) {
		move(&ways[i], ways[i].size, DFI_ROUTE_HASH);
		move(&ways[i], ways[i].size, DFI_ROUTE_DIRECT);
	}
}

Test(copy, variable_may_be_larger_than_the_tuple)
{
	static const uint32_t steps[] = { 1, 3, 4, 8, 11, 16 };
	size_t i, s;

	for (i = 0; i < N_ELEMENTS(ways); i++)
		for (s = 0; s < N_ELEMENTS(steps); s++)
			if (steps[s] < ways[i].size)
				move(&ways[i], ways[i].size - steps[s],
				    s % 2 ? DFI_ROUTE_HASH : DFI_ROUTE_DIRECT);
}
