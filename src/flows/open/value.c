/* SPDX-License-Identifier: Apache-2.0 */
/* Values of keys: numbers, and bits in words of 8 bytes, little-endian. */
#include <string.h>

#include "flows/open/bytes.h"
#include "flows/open/value.h"

/* Both return what is behind the words. */
static uint8_t *put_words(uint8_t *bytes, const uint64_t *words, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		open_put_number(bytes + 8 * (size_t)i, words[i], 8);
	return bytes + 8 * (size_t)n;
}

static const uint8_t *get_words(
    const uint8_t *bytes, uint64_t *words, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		words[i] = open_get_number(bytes + 8 * (size_t)i, 8);
	return bytes + 8 * (size_t)n;
}

size_t dfi__open_hand_bytes(uint32_t n_partitions)
{
	return 8 + 16 * (size_t)open_bits_words(n_partitions);
}

void dfi__open_hand_encode(
    const struct open_hand *hand, uint32_t n_partitions, uint8_t *bytes)
{
	uint32_t n = open_bits_words(n_partitions);

	bytes = put_words(bytes, &hand->table, 1);
	bytes = put_words(bytes, hand->released, n);
	put_words(bytes, hand->taken, n);
}

bool dfi__open_hand_decode(const uint8_t *bytes, size_t size,
    uint32_t n_partitions, uint64_t *released, uint64_t *taken,
    struct open_hand *hand)
{
	uint32_t n = open_bits_words(n_partitions);

	if (size != dfi__open_hand_bytes(n_partitions))
		return false;
	bytes = get_words(bytes, &hand->table, 1);
	bytes = get_words(bytes, released, n);
	get_words(bytes, taken, n);
	hand->released = released;
	hand->taken = taken;
	return true;
}

size_t dfi__open_assign_bytes(uint32_t n_partitions)
{
	return 2 * (size_t)n_partitions;
}

void dfi__open_assign_encode(
    const uint16_t *owners, uint32_t n_partitions, uint8_t *bytes)
{
	uint32_t p;

	for (p = 0; p < n_partitions; p++)
		open_put_number(bytes + 2 * (size_t)p, owners[p], 2);
}

bool dfi__open_assign_decode(
    const uint8_t *bytes, size_t size, uint32_t n_partitions, uint16_t *owners)
{
	uint32_t p;

	if (size != dfi__open_assign_bytes(n_partitions))
		return false;
	for (p = 0; p < n_partitions; p++)
		owners[p] = (uint16_t)open_get_number(bytes + 2 * (size_t)p, 2);
	return true;
}

size_t dfi__open_positions_bytes(uint32_t n_partitions)
{
	return 8 * ((size_t)open_bits_words(n_partitions) + n_partitions);
}

void dfi__open_positions_encode(const struct open_inputs *inputs,
    const struct keyed_target *target, uint8_t *bytes)
{
	uint32_t p, n = inputs->n_partitions;

	memset(bytes, 0, 8 * (size_t)open_bits_words(n));
	for (p = 0; p < n; p++)
		if (open_target_holds(target, p))
			bytes[p / 8] |= (uint8_t)(1 << p % 8);
	put_words(bytes + 8 * (size_t)open_bits_words(n), inputs->acked, n);
}

bool dfi__open_positions_decode(const uint8_t *bytes, size_t size,
    uint32_t n_partitions, uint64_t *held, uint64_t *positions)
{
	if (size != dfi__open_positions_bytes(n_partitions))
		return false;
	bytes = get_words(bytes, held, open_bits_words(n_partitions));
	get_words(bytes, positions, n_partitions);
	return true;
}

void dfi__open_low_encode(uint64_t low, uint8_t bytes[OPEN_LOW_BYTES])
{
	open_put_number(bytes, low, OPEN_LOW_BYTES);
}

bool dfi__open_low_decode(const uint8_t *bytes, size_t size, uint64_t *low)
{
	if (size != OPEN_LOW_BYTES)
		return false;
	*low = open_get_number(bytes, OPEN_LOW_BYTES);
	return true;
}

void dfi__open_acks_encode(
    uint64_t pair, uint64_t segments, uint8_t bytes[OPEN_ACKS_BYTES])
{
	open_put_number(bytes, pair, 8);
	open_put_number(bytes + 8, segments, 8);
}

void dfi__open_acks_decode(
    const uint8_t bytes[OPEN_ACKS_BYTES], uint64_t *pair, uint64_t *segments)
{
	*pair = open_get_number(bytes, 8);
	*segments = open_get_number(bytes + 8, 8);
}
