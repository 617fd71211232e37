/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitioning by hash, with and without the vector instructions, whatever this
 * machine's processor would choose; and the list of targets itself. tests/flow
 * tests full rings and all routings.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "flows/kinds/shuffle/partition.h"
#include "flows/kinds/shuffle/target_list.h"

#define N_TUPLES 1500
#define MAX_SIZE 64
#define MAX_TARGETS 16

static uint64_t random_word(void)
{
	static uint64_t state = 1;

	state = state * UINT64_C(6364136223846793005) + 1;
	return state ^ state >> 32;
}

static char *random_tuples(size_t size)
{
	char *tuples = malloc(size);
	size_t i;

	cr_assert_not_null(tuples);
	for (i = 0; i < size; i++)
		tuples[i] = (char)random_word();
	return tuples;
}

static uint32_t target_of(const char *key_at, uint32_t n_targets)
{
	uint64_t key;

	memcpy(&key, key_at, sizeof(key));
	return dfi_hash_partition(dfi_hash64(key), n_targets);
}

/* Lanes with room for all tuples each, so that nothing is sent. */
struct rings {
	struct dfi_source_lane lanes[MAX_TARGETS];
	char *memory[MAX_TARGETS];
};

static void rings_make(struct rings *rings, uint32_t n, size_t size)
{
	uint32_t t;

	for (t = 0; t < n; t++) {
		rings->memory[t] = malloc(size + 1);
		cr_assert_not_null(rings->memory[t]);
		rings->lanes[t].next = rings->memory[t];
		rings->lanes[t].end = rings->memory[t] + size + 1;
	}
}

/* Each ring has its share, in order, and is freed. */
static void rings_expect(
    struct rings *rings, const char *tuples, const struct dfi_source_head *head)
{
	const size_t size = head->tuple_size;
	const char *at[MAX_TARGETS], *tuple = tuples;
	uint32_t t, i;

	memcpy(at, rings->memory, sizeof(at));
	for (i = 0; i < N_TUPLES; i++, tuple += size) {
		t = target_of(tuple + head->key_offset, head->n_targets);
		cr_assert_eq(memcmp(at[t], tuple, size), 0,
		    "tuple %u of %zu bytes, %u targets", i, size,
		    head->n_targets);
		at[t] += size;
	}
	for (t = 0; t < head->n_targets; t++) {
		cr_assert_eq(rings->lanes[t].next, at[t]);
		free(rings->memory[t]);
	}
}

static void expect_shares(uint32_t tuple_size, uint32_t n_targets, bool lists)
{
	struct dfi_source *source = calloc(1, sizeof(*source));
	struct rings rings = { .memory = { NULL } };
	char *tuples = random_tuples((size_t)N_TUPLES * tuple_size);
	int ret = -1;

	cr_assert_not_null(source);
	rings_make(&rings, n_targets, (size_t)N_TUPLES * tuple_size);
	source->n_lanes = n_targets;
	source->head = (struct dfi_source_head){
		.lanes = rings.lanes,
		.n_targets = n_targets,
		.tuple_size = tuple_size,
		.inline_routing = DFI_INLINE_HASH64,
		.key_offset = tuple_size - 8,
	};
	cr_assert_eq(
	    dfi__partition(source, tuples, N_TUPLES, lists, &ret), N_TUPLES);
	cr_assert_eq(ret, 0);
	rings_expect(&rings, tuples, &source->head);
	free(tuples);
	free(source);
}

static void expect_all_shares(bool lists)
{
	static const uint32_t sizes[] = { 8, 12, 16, 20, 24, 32, 40, 64 };
	static const uint32_t n_targets[] = { 2, 3, 4, 8, 9, 16 };
	size_t i, j;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (j = 0; j < sizeof(n_targets) / sizeof(n_targets[0]); j++)
			expect_shares(sizes[i], n_targets[j], lists);
}

Test(partition, every_target_gets_its_share_without_lists)
{
	expect_all_shares(false);
}

Test(partition, every_target_gets_its_share_with_lists)
{
	if (!dfi__lists_targets())
		cr_skip_test("this processor has no such instructions");
	expect_all_shares(true);
}

Test(target_list, names_the_target_of_each_hash)
{
	uint32_t targets[40], n, size, i, n_targets;
	char *tuples;

	if (!dfi__lists_targets())
		cr_skip_test("this processor has no such instructions");
	for (n = 0; n < 40; n++) {
		size = 8 + (uint32_t)(random_word() % (MAX_SIZE - 7));
		n_targets = 1 + (uint32_t)(random_word() % UINT32_MAX);
		tuples = random_tuples((size_t)(n + 1) * size);
		memset(targets, 0, sizeof(targets));
		dfi__list_targets(tuples, n, size, n_targets, targets);
		for (i = 0; i < n; i++)
			cr_assert_eq(targets[i],
			    target_of(tuples + (size_t)i * size, n_targets));
		for (; i < 40; i++)
			cr_assert_eq(targets[i], 0);
		free(tuples);
	}
}
