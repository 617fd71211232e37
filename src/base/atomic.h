/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory orderings that rings and handles use, each named after its use.
 * Every publish names the observe that it pairs with, and what it protects.
 */
#ifndef DFI_BASE_ATOMIC_H
#define DFI_BASE_ATOMIC_H

#include <stdatomic.h>

/* Store a word that lets peers read everything written before it. */
#define atomic_publish(word, value) \
	atomic_store_explicit((word), (value), memory_order_release)

/* Load a word that a peer publishes. Read what it protects only after it. */
#define atomic_observe(word) atomic_load_explicit((word), memory_order_acquire)

/* Load or store a word that protects nothing else. */
#define atomic_peek(word) atomic_load_explicit((word), memory_order_relaxed)
#define atomic_set(word, value) \
	atomic_store_explicit((word), (value), memory_order_relaxed)

#endif
