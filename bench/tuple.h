/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that producers write and consumers read tuples with. It is the same
 * for every flow and baseline, so that a ratio compares only transports.
 *
 * A tuple is a sequence of 64-bit words. The words of a source's tuples count
 * up from the source's first word, through all its tuples. So each word of
 * memory changes with each lap of a ring, word 0 serves as the key, and the sum
 * of all words has a closed form. The bytes after the last whole word are the
 * same in all tuples. A tuple of less than 8 bytes has one word of 4, 2 or 1,
 * with the low bytes of the count.
 */
#ifndef DFI_BENCH_TUPLE_H
#define DFI_BENCH_TUPLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define force_inline inline __attribute__((always_inline))

/* Two words that are added and stored as one. */
#define WORD_PAIR __attribute__((vector_size(16)))

#define TAIL_BYTE 0x5a

/* The bytes of a tuple's word. */
static force_inline size_t tuple_word_size(size_t size)
{
	return size >= 8 ? 8 : size >= 4 ? 4 : size >= 2 ? 2 : 1;
}

/* How many words a tuple has. */
static force_inline size_t tuple_words(size_t size)
{
	return size >= 8 ? size / 8 : 1;
}

/* How many bytes are after its last word. */
static force_inline size_t tuple_tail_size(size_t size)
{
	return size & (tuple_word_size(size) - 1);
}

/* The bytes after a tuple's last whole word, as tuple_sum() adds them. */
static force_inline uint64_t tuple_tail(size_t size)
{
	uint64_t word = 0;

	memset(&word, TAIL_BYTE, tuple_tail_size(size));
	return word;
}

/* What a tuple's word has of a count. */
static force_inline uint64_t tuple_count(uint64_t count, size_t size)
{
	return size >= 8
	    ? count
	    : count & ((UINT64_C(1) << 8 * tuple_word_size(size)) - 1);
}

/* Write a tuple that is smaller than a word of 8 bytes. */
static force_inline void tuple_put_small(char *to, size_t size, uint64_t count)
{
	uint32_t four = (uint32_t)count;
	uint16_t two = (uint16_t)count;

	if (size >= 4)
		memcpy(to, &four, 4);
	else if (size >= 2)
		memcpy(to, &two, 2);
	else
		*to = (char)count;
	memset(to + tuple_word_size(size), TAIL_BYTE, tuple_tail_size(size));
}

/* The word of such a tuple. */
static force_inline uint64_t tuple_get_small(const char *from, size_t size)
{
	uint32_t four;
	uint16_t two;

	if (size >= 4) {
		memcpy(&four, from, 4);
		return four;
	}
	if (size >= 2) {
		memcpy(&two, from, 2);
		return two;
	}
	return (unsigned char)*from;
}

/* The next two words that a source will write. */
struct pattern {
	uint64_t next WORD_PAIR;
};

/* Independent partial sums, so that no addition waits for another. */
struct word_sum {
	uint64_t pair0 WORD_PAIR;
	uint64_t pair1 WORD_PAIR;
	uint64_t pair2 WORD_PAIR;
	uint64_t pair3 WORD_PAIR;
	uint64_t odd;
};

/* Each source counts in a separate range. */
#define SOURCE_SHIFT 44

static inline uint64_t source_first_word(uint32_t source)
{
	return (uint64_t)source << SOURCE_SHIFT;
}

static inline uint32_t word_source(uint64_t word)
{
	return (uint32_t)(word >> SOURCE_SHIFT);
}

static force_inline struct pattern pattern_from(uint64_t first)
{
	return (struct pattern){ .next = { first, first + 1 } };
}

/* The key of the next tuple. */
static force_inline uint64_t pattern_key(const struct pattern *pattern)
{
	return pattern->next[0];
}

/* Write one tuple. With a constant size this takes a few vector stores. */
static force_inline void tuple_fill(
    void *tuple, size_t size, struct pattern *pattern)
{
	char *to = tuple;
	uint64_t v0 WORD_PAIR = pattern->next;
	uint64_t v1 WORD_PAIR, v2 WORD_PAIR, v3 WORD_PAIR;
	size_t i;

	if (size < 8) {
		tuple_put_small(to, size, v0[0]);
		pattern->next = v0 + UINT64_C(1);
		return;
	}
	for (i = 0; i + 64 <= size; i += 64) {
		v1 = v0 + UINT64_C(2);
		v2 = v0 + UINT64_C(4);
		v3 = v0 + UINT64_C(6);
		memcpy(to + i, &v0, 16);
		memcpy(to + i + 16, &v1, 16);
		memcpy(to + i + 32, &v2, 16);
		memcpy(to + i + 48, &v3, 16);
		v0 += UINT64_C(8);
	}
	for (; i + 16 <= size; i += 16) {
		memcpy(to + i, &v0, 16);
		v0 += UINT64_C(2);
	}
	if (i + 8 <= size) {
		memcpy(to + i, &v0, 8);
		v0 += UINT64_C(1);
	}
	if (size % 8)
		memset(to + size / 8 * 8, TAIL_BYTE, size % 8);
	pattern->next = v0;
}

/*
 * Make a tuple outside of a ring. A small one is made member by member, as an
 * application makes a struct, so that it may stay in registers.
 */
static force_inline void tuple_make(uint64_t *tuple, size_t size, uint64_t key)
{
	struct pattern pattern;
	size_t i;

	if (size > 64) {
		pattern = pattern_from(key);
		tuple_fill(tuple, size, &pattern);
		return;
	}
	if (size < 8) {
		tuple_put_small((char *)tuple, size, key);
		return;
	}
#pragma GCC unroll 8
	for (i = 0; i < size / 8; i++)
		tuple[i] = key + i;
	if (size % 8)
		memset((char *)tuple + size / 8 * 8, TAIL_BYTE, size % 8);
}

/* Read one tuple. */
static force_inline void tuple_sum(
    const void *tuple, size_t size, struct word_sum *sum)
{
	const char *from = tuple;
	uint64_t v0 WORD_PAIR, v1 WORD_PAIR, v2 WORD_PAIR, v3 WORD_PAIR;
	uint64_t word = 0;
	size_t i;

	if (size < 8) {
		memcpy(
		    &word, from + tuple_word_size(size), tuple_tail_size(size));
		sum->odd += tuple_get_small(from, size) + word;
		return;
	}
	for (i = 0; i + 64 <= size; i += 64) {
		memcpy(&v0, from + i, 16);
		memcpy(&v1, from + i + 16, 16);
		memcpy(&v2, from + i + 32, 16);
		memcpy(&v3, from + i + 48, 16);
		sum->pair0 += v0;
		sum->pair1 += v1;
		sum->pair2 += v2;
		sum->pair3 += v3;
	}
	for (; i + 16 <= size; i += 16) {
		memcpy(&v0, from + i, 16);
		sum->pair0 += v0;
	}
	if (i + 8 <= size) {
		memcpy(&word, from + i, 8);
		sum->odd += word;
	}
	if (size % 8) {
		word = 0;
		memcpy(&word, from + size / 8 * 8, size % 8);
		sum->odd += word;
	}
}

static force_inline void word_sum_add(
    struct word_sum *sum, const struct word_sum *part)
{
	sum->pair0 += part->pair0;
	sum->pair1 += part->pair1;
	sum->pair2 += part->pair2;
	sum->pair3 += part->pair3;
	sum->odd += part->odd;
}

static force_inline uint64_t tuple_key(const void *tuple, size_t size)
{
	uint64_t key;

	if (size < 8)
		return tuple_get_small(tuple, size);
	memcpy(&key, tuple, sizeof(key));
	return key;
}

static force_inline uint64_t word_sum_total(const struct word_sum *sum)
{
	uint64_t all WORD_PAIR = sum->pair0 + sum->pair1 + sum->pair2 +
	    sum->pair3;

	return all[0] + all[1] + sum->odd;
}

/* The sum of n words that count up from first. */
static inline uint64_t word_sum_expected(uint64_t first, uint64_t n)
{
	uint64_t triangle = n % 2 ? n * ((n - 1) / 2) : n / 2 * (n - 1);

	return first * n + triangle;
}

/* The sum of the words of n tuples, the first of which has this count. */
static inline uint64_t tuple_sum_expected(
    size_t size, uint64_t first, uint64_t n)
{
	uint64_t counts, rest, head;

	if (size >= 8)
		return word_sum_expected(first, n * tuple_words(size));
	counts = tuple_count(UINT64_MAX, size) + 1;
	first = tuple_count(first, size);
	rest = n % counts;
	head = rest < counts - first ? rest : counts - first;
	return n / counts * word_sum_expected(0, counts) +
	    word_sum_expected(first, head) + word_sum_expected(0, rest - head);
}

/*
 * Return fn(arg, size). The usual sizes are constants, so that the compiler
 * makes a loop for each. fn is force_inline.
 */
#define RETURN_BY_SIZE(fn, arg, size)         \
	do {                                  \
		switch (size) {               \
		case 8:                       \
			return fn(arg, 8);    \
		case 16:                      \
			return fn(arg, 16);   \
		case 32:                      \
			return fn(arg, 32);   \
		case 64:                      \
			return fn(arg, 64);   \
		case 256:                     \
			return fn(arg, 256);  \
		case 1024:                    \
			return fn(arg, 1024); \
		case 8192:                    \
			return fn(arg, 8192); \
		default:                      \
			return fn(arg, size); \
		}                             \
	} while (0)

/*
 * Return fn(arg, tuple, size) with a constant size, as RETURN_BY_SIZE does.
 * tuple is memory for a tuple: for a small one a local variable of exactly its
 * size, which the compiler can keep in registers; for a larger one
 * arg->scratch.
 */
#define RETURN_WITH_TUPLE(fn, arg, size)                        \
	do {                                                    \
		uint64_t *scratch = (arg)->scratch;             \
		uint64_t of_8[1], of_16[2], of_32[4], of_64[8]; \
                                                                \
		switch (size) {                                 \
		case 8:                                         \
			return fn(arg, of_8, 8);                \
		case 16:                                        \
			return fn(arg, of_16, 16);              \
		case 32:                                        \
			return fn(arg, of_32, 32);              \
		case 64:                                        \
			return fn(arg, of_64, 64);              \
		case 256:                                       \
			return fn(arg, scratch, 256);           \
		case 1024:                                      \
			return fn(arg, scratch, 1024);          \
		case 8192:                                      \
			return fn(arg, scratch, 8192);          \
		default:                                        \
			return fn(arg, scratch, size);          \
		}                                               \
	} while (0)

#endif
