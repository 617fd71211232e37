/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See key_tree.h. A text is read as 9 bits for each byte: one says that the
 * byte exists, the others are the byte. All bits after the end are 0. So no
 * text is a prefix of another one in that form, any byte may occur, and if some
 * texts of an inner node end where others go on, one half is a single leaf.
 *
 * Only an insertion allocates memory: a removal can't fail.
 */
#include "key_tree.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define PRESENT 0x100u

struct tree_inner {
	struct tree_node node;
	struct tree_node *half[2];
};

static bool is_leaf(const struct tree_node *node)
{
	return !node->mask;
}

/* The node is the first member of both. */
static struct tree_leaf *as_leaf(const struct tree_node *node)
{
	return (struct tree_leaf *)node;
}

static struct tree_inner *as_inner(const struct tree_node *node)
{
	return (struct tree_inner *)node;
}

static unsigned symbol(const void *text, size_t size, size_t at)
{
	return at < size ? PRESENT | ((const unsigned char *)text)[at] : 0;
}

/* Tells to which half of the inner node the text belongs. */
static unsigned side(
    const struct tree_node *node, const void *text, size_t size)
{
	return (symbol(text, size, node->byte) & node->mask) != 0;
}

static struct tree_leaf *outermost(const struct tree_node *node, unsigned half)
{
	while (!is_leaf(node))
		node = as_inner(node)->half[half];
	return as_leaf(node);
}

/* Find the leaf that shares most with the text; the tree is not empty. */
static struct tree_leaf *nearest(
    const struct tree *tree, const void *text, size_t size)
{
	const struct tree_node *node = tree->root;

	while (!is_leaf(node))
		node = as_inner(node)->half[side(node, text, size)];
	return as_leaf(node);
}

static size_t common_bytes(
    const struct tree_leaf *leaf, const void *text, size_t size)
{
	size_t least = size < leaf->size ? size : leaf->size, n = 0;
	const unsigned char *a = leaf->text, *b = text;

	while (n < least && a[n] == b[n])
		n++;
	return n;
}

/* Find the first bit in which they differ; mask 0: they are equal. */
static struct tree_node difference(
    const struct tree_leaf *leaf, const void *text, size_t size)
{
	size_t at = common_bytes(leaf, text, size);
	unsigned bits = symbol(leaf->text, leaf->size, at) ^
	    symbol(text, size, at);
	struct tree_node critical = { .byte = (uint16_t)at };

	if (bits)
		critical.mask = (uint16_t)(1u << (31 - __builtin_clz(bits)));
	return critical;
}

static bool is_before(const struct tree_node *a, const struct tree_node *b)
{
	return a->byte < b->byte || (a->byte == b->byte && a->mask > b->mask);
}

/* Find the largest part whose texts agree up to the critical bit. */
static struct tree_node *part_at(const struct tree *tree,
    const struct tree_node *critical, const void *text, size_t size)
{
	struct tree_node *node = tree->root;

	while (!is_leaf(node) && is_before(node, critical))
		node = as_inner(node)->half[side(node, text, size)];
	return node;
}

/* Put new in the place of old. */
static void replace(struct tree *tree, const struct tree_node *old,
    struct tree_inner *parent, struct tree_node *new)
{
	new->parent = parent;
	if (!parent)
		tree->root = new;
	else
		parent->half[parent->half[1] == old] = new;
}

struct tree_leaf *dfi__tree_find(
    const struct tree *tree, const void *text, size_t size)
{
	struct tree_leaf *leaf;

	if (!tree->root)
		return NULL;
	leaf = nearest(tree, text, size);
	return difference(leaf, text, size).mask ? NULL : leaf;
}

int dfi__tree_insert(struct tree *tree, struct tree_leaf *leaf)
{
	struct tree_node critical, *part;
	struct tree_inner *inner;
	unsigned half;

	leaf->node = (struct tree_node){ .parent = NULL };
	if (!tree->root) {
		tree->root = &leaf->node;
		tree->n_leaves = 1;
		return 0;
	}
	inner = malloc(sizeof(*inner));
	if (!inner)
		return dfi__fail(-ENOMEM, "no memory for a registry key");
	critical = difference(
	    nearest(tree, leaf->text, leaf->size), leaf->text, leaf->size);
	part = part_at(tree, &critical, leaf->text, leaf->size);
	half = side(&critical, leaf->text, leaf->size);
	inner->node = critical;
	replace(tree, part, part->parent, &inner->node);
	inner->half[half] = &leaf->node;
	inner->half[!half] = part;
	leaf->node.parent = part->parent = inner;
	tree->n_leaves++;
	return 0;
}

void dfi__tree_remove(struct tree *tree, struct tree_leaf *leaf)
{
	struct tree_inner *inner = leaf->node.parent;

	tree->n_leaves--;
	if (!inner) {
		tree->root = NULL;
		return;
	}
	replace(tree, &inner->node, inner->node.parent,
	    inner->half[inner->half[0] == &leaf->node]);
	free(inner);
}

void dfi__tree_replace(
    struct tree *tree, struct tree_leaf *old, struct tree_leaf *leaf)
{
	leaf->node = old->node;
	replace(tree, &old->node, old->node.parent, &leaf->node);
}

struct tree_leaf *dfi__tree_from(
    const struct tree *tree, const void *text, size_t size)
{
	struct tree_node critical, *part;
	struct tree_leaf *leaf;

	if (!tree->root)
		return NULL;
	leaf = nearest(tree, text, size);
	critical = difference(leaf, text, size);
	if (!critical.mask)
		return leaf;
	part = part_at(tree, &critical, text, size);
	/* The bit is 0 in the text and 1 in the part: all of it comes after. */
	if (!side(&critical, text, size))
		return outermost(part, 0);
	return dfi__tree_next(outermost(part, 1));
}

struct tree_leaf *dfi__tree_next(const struct tree_leaf *leaf)
{
	const struct tree_node *node = &leaf->node;

	while (node->parent && node->parent->half[1] == node)
		node = &node->parent->node;
	return node->parent ? outermost(node->parent->half[1], 0) : NULL;
}

size_t dfi__tree_prefixes(const struct tree *tree, const void *text,
    size_t size, struct tree_leaf **prefixes)
{
	const struct tree_node *node = tree->root;
	struct tree_leaf *last;
	size_t common, n = 0;

	if (!node)
		return 0;
	last = nearest(tree, text, size);
	common = common_bytes(last, text, size);
	for (; !is_leaf(node) && node->byte <= common;
	     node = as_inner(node)->half[side(node, text, size)]) {
		/* One text ends where the others and this one go on. */
		if (node->mask == PRESENT && node->byte < size)
			prefixes[n++] = as_leaf(as_inner(node)->half[0]);
	}
	if (last->size == common)
		prefixes[n++] = last;
	return n;
}
