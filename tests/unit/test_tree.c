/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's tree of byte strings, against a sorted array: random texts of
 * few letters, so that many are prefixes of others.
 */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "registry/server/key_tree.h"

#define N_TEXTS 200
#define TEXT_MAX 6

struct item {
	struct tree_leaf leaf; /* the first member */
	unsigned char text[TEXT_MAX];
	bool present;
};

static struct item items[N_TEXTS];
static struct tree tree;
static unsigned seed;

static unsigned draw(unsigned below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

static int compare_texts(
    const void *a, size_t a_size, const void *b, size_t b_size)
{
	size_t least = a_size < b_size ? a_size : b_size;
	int order = least ? memcmp(a, b, least) : 0;

	return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare(const void *a, const void *b)
{
	const struct item *one = a, *other = b;

	return compare_texts(
	    one->text, one->leaf.size, other->text, other->leaf.size);
}

/* Distinct texts in order, of the bytes that are most easily mixed up. */
static void make_items(void)
{
	static const unsigned char letters[] = { 0, 1, 'a', 0x80, 0xff };
	size_t i, j, n = 0;

	memset(items, 0, sizeof(items));
	while (n < N_TEXTS) {
		struct item *item = &items[n];

		item->leaf.size = draw(TEXT_MAX + 1);
		for (i = 0; i < item->leaf.size; i++)
			item->text[i] = letters[draw(sizeof(letters))];
		for (j = 0; j < n; j++)
			if (!compare(&items[j], item))
				break;
		n += j == n;
	}
	qsort(items, N_TEXTS, sizeof(items[0]), compare);
	for (i = 0; i < N_TEXTS; i++)
		items[i].leaf.text = items[i].text;
}

static struct item *naive_from(const void *text, size_t size)
{
	size_t i;

	for (i = 0; i < N_TEXTS; i++)
		if (items[i].present &&
		    compare_texts(
			items[i].text, items[i].leaf.size, text, size) >= 0)
			return &items[i];
	return NULL;
}

static void check_prefixes(const struct item *of)
{
	struct tree_leaf *prefixes[TEXT_MAX + 1];
	size_t n, i, expected = 0;

	n = dfi__tree_prefixes(&tree, of->text, of->leaf.size, prefixes);
	for (i = 0; i < N_TEXTS; i++) {
		const struct item *item = &items[i];

		if (!item->present || item->leaf.size > of->leaf.size ||
		    memcmp(item->text, of->text, item->leaf.size) != 0)
			continue;
		cr_assert_lt(expected, n);
		cr_assert_eq(prefixes[expected], &item->leaf);
		expected++;
	}
	cr_assert_eq(n, expected);
}

static void check_all(void)
{
	const struct tree_leaf *leaf = dfi__tree_from(&tree, "", 0);
	size_t i, n = 0;

	for (i = 0; i < N_TEXTS; i++) {
		struct item *item = &items[i];
		void *from = dfi__tree_from(&tree, item->text, item->leaf.size);

		cr_assert_eq(from, naive_from(item->text, item->leaf.size));
		cr_assert_eq(
		    (void *)dfi__tree_find(&tree, item->text, item->leaf.size),
		    item->present ? item : NULL);
		check_prefixes(item);
		if (!item->present)
			continue;
		cr_assert_eq(leaf, &item->leaf);
		leaf = dfi__tree_next(leaf);
		n++;
	}
	cr_assert_null(leaf);
	cr_assert_eq(tree.n_leaves, n);
}

static void step(void)
{
	struct item *item = &items[draw(N_TEXTS)];

	if (item->present) {
		dfi__tree_remove(&tree, &item->leaf);
	} else {
		cr_assert_eq(dfi__tree_insert(&tree, &item->leaf), 0);
	}
	item->present = !item->present;
}

Test(tree, agrees_with_a_sorted_array)
{
	int i, round;

	for (round = 0; round < 10; round++) {
		make_items();
		for (i = 0; i < 400; i++) {
			step();
			if (i % 8 == 0)
				check_all();
		}
		for (i = 0; i < N_TEXTS; i++)
			if (items[i].present)
				dfi__tree_remove(&tree, &items[i].leaf);
		cr_assert_null(tree.root);
		cr_assert_eq(tree.n_leaves, 0);
	}
}

Test(tree, a_leaf_can_take_the_place_of_another)
{
	struct tree_leaf a = { .text = "a", .size = 1 };
	struct tree_leaf b = { .text = "b", .size = 1 };
	struct tree_leaf new = { .text = "a", .size = 1 };

	cr_assert_eq(dfi__tree_insert(&tree, &a), 0);
	dfi__tree_replace(&tree, &a, &new);
	cr_assert_eq(dfi__tree_find(&tree, "a", 1), &new);
	cr_assert_eq(dfi__tree_insert(&tree, &b), 0);
	dfi__tree_replace(&tree, &new, &a);
	cr_assert_eq(dfi__tree_find(&tree, "a", 1), &a);
	cr_assert_eq(dfi__tree_next(&a), &b);
	dfi__tree_remove(&tree, &b);
	cr_assert_eq(tree.root, &a.node);
	dfi__tree_remove(&tree, &a);
	cr_assert_null(tree.root);
}

/* The deepest tree that there is: a text that differs from each in one bit. */
Test(tree, the_longest_texts_take_no_more_steps_than_they_have_bits)
{
	static unsigned char texts[9 * 64][64];
	static struct tree_leaf leaves[9 * 64];
	const struct tree_node *node;
	size_t i, steps = 0;

	for (i = 0; i < 9 * 64; i++) {
		size_t byte = i / 9, bit = i % 9;

		leaves[i].text = texts[i];
		leaves[i].size = (uint32_t)(bit ? 64 : byte);
		if (bit)
			texts[i][byte] = (unsigned char)(1 << (bit - 1));
		if (bit || byte)
			cr_assert_eq(dfi__tree_insert(&tree, &leaves[i]), 0);
	}
	for (i = 1; i < 9 * 64; i++) {
		cr_assert_eq(
		    dfi__tree_find(&tree, leaves[i].text, leaves[i].size),
		    &leaves[i]);
		for (node = &leaves[i].node, steps = 0; node->parent; steps++)
			node = (const struct tree_node *)node->parent;
		cr_assert_leq(steps, 9 * 64);
	}
	for (i = 1; i < 9 * 64; i++)
		dfi__tree_remove(&tree, &leaves[i]);
}
