/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of an open flow's keys, beside tables (table.h): "hand/", "assign",
 * and the input positions in "pairs/" of a flow with replay. Decoding checks
 * the size; false: it is no value of a flow with so many partitions.
 */
#ifndef DFI_FLOWS_OPEN_VALUE_H
#define DFI_FLOWS_OPEN_VALUE_H

#include "flows/open/replay.h"

size_t dfi__open_hand_bytes(uint32_t n_partitions);
void dfi__open_hand_encode(
    const struct open_hand *hand, uint32_t n_partitions, uint8_t *bytes);

/* released, taken: memory of open_bits_words() for the bits of hand. */
bool dfi__open_hand_decode(const uint8_t *bytes, size_t size,
    uint32_t n_partitions, uint64_t *released, uint64_t *taken,
    struct open_hand *hand);

/* The seat of each partition, or OPEN_NOBODY. */
size_t dfi__open_assign_bytes(uint32_t n_partitions);
void dfi__open_assign_encode(
    const uint16_t *owners, uint32_t n_partitions, uint8_t *bytes);
bool dfi__open_assign_decode(
    const uint8_t *bytes, size_t size, uint32_t n_partitions, uint16_t *owners);

/*
 * A value of the registry has 64 KiB, and a position 8 bytes: a flow with
 * replay has at most DFI_MAX_REPLAY_PARTITIONS.
 */

/* What a target has acknowledged of a source, of the partitions that it holds.
 */
size_t dfi__open_positions_bytes(uint32_t n_partitions);
void dfi__open_positions_encode(const struct open_inputs *inputs,
    const struct keyed_target *target, uint8_t *bytes);

/* For dfi__open_resume_pair(). */
bool dfi__open_positions_decode(const uint8_t *bytes, size_t size,
    uint32_t n_partitions, uint64_t *held, uint64_t *positions);

/* Without keys: up to where all targets have acknowledged a source's tuples. */
#define OPEN_LOW_BYTES 8
void dfi__open_low_encode(uint64_t low, uint8_t bytes[OPEN_LOW_BYTES]);
bool dfi__open_low_decode(const uint8_t *bytes, size_t size, uint64_t *low);

/*
 * Behind either of them: how many segments of a pair's ring the target has
 * acknowledged, if sources spill, or if all others of the ring wait for that.
 */
#define OPEN_ACKS_BYTES 16
void dfi__open_acks_encode(
    uint64_t pair, uint64_t segments, uint8_t bytes[OPEN_ACKS_BYTES]);
void dfi__open_acks_decode(
    const uint8_t bytes[OPEN_ACKS_BYTES], uint64_t *pair, uint64_t *segments);

#endif
