/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ordered set of byte strings: a crit-bit tree. Each inner node names the
 * first bit in which its two halves differ, so a string takes at most as many
 * steps as it has bits, whatever else is in the tree: clients can't slow down
 * others by their choice of keys. There is no hash to attack and nothing to
 * rebalance.
 *
 * Leaves live in the caller's objects. A leaf's text must not change while the
 * leaf is in a tree. Order is bytewise, and a prefix comes before the strings
 * that it begins. One thread at a time.
 */
#ifndef DFI_REGISTRY_SERVER_KEY_TREE_H
#define DFI_REGISTRY_SERVER_KEY_TREE_H

#include <stddef.h>
#include <stdint.h>

#define TREE_TEXT_MAX 4096 /* bytes of a text */

struct tree_inner;

struct tree_node {
	struct tree_inner *parent; /* NULL: the root */
	uint16_t byte;             /* inner node: where its halves differ, */
	uint16_t mask;             /* and in which bit; 0: a leaf */
};

struct tree_leaf {
	struct tree_node node;
	uint32_t size;
	const void *text;
};

/* Zeroed, it is empty. */
struct tree {
	struct tree_node *root;
	size_t n_leaves;
};

/* The leaf of exactly this text, or NULL. */
struct tree_leaf *dfi__tree_find(
    const struct tree *tree, const void *text, size_t size);

/* The text is set and not in the tree. -ENOMEM: nothing has changed. */
int dfi__tree_insert(struct tree *tree, struct tree_leaf *leaf);

/* In constant time. */
void dfi__tree_remove(struct tree *tree, struct tree_leaf *leaf);

/* Put leaf in the place of old, which has the same text, in constant time. */
void dfi__tree_replace(
    struct tree *tree, struct tree_leaf *old, struct tree_leaf *leaf);

/* The first leaf that is not before this text, or NULL. */
struct tree_leaf *dfi__tree_from(
    const struct tree *tree, const void *text, size_t size);

/* The leaf after this one, or NULL. */
struct tree_leaf *dfi__tree_next(const struct tree_leaf *leaf);

/*
 * Find the leaves whose texts are prefixes of this one, itself included,
 * shortest first. Returns their number; prefixes has room for size + 1.
 */
size_t dfi__tree_prefixes(const struct tree *tree, const void *text,
    size_t size, struct tree_leaf **prefixes);

#endif
