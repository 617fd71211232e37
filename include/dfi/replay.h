/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay: open flows with DFI_ON_LOSS_REPLAY (open_flow.h) lose no tuple while
 * a source or a target of each tuple lives, or its source returns.
 *
 * Each tuple has an input position: the field open.input_position, 1 or more,
 * which is a function of the source's input, and rises from tuple to tuple of a
 * source. A push of another is -EINVAL, and nothing was taken.
 *
 * A ring gets room by dfi_target_ack(), not by giving tuples back, unless the
 * sources spill (open.spill_dir). When a target is lost, or has left, its
 * sources send what it has not acknowledged to the next owners, before all
 * newer tuples of those partitions. A source that is lost and returns reads its
 * input again (dfi_source_resume()). So tuples are sent at least once. A target
 * lends each of them once: of a source's seat and a partition, it drops those
 * that are not above what it has lent, or what dfi_partition_take() says that
 * the store has. They take effect exactly once if the application
 *   - stores the effect of a tuple together with its source, partition and
 *     input position;
 *   - when it has gained a partition, raises its epoch in the store and reads
 *     the positions there, in one transaction, and gives them to
 *     dfi_partition_take();
 *   - has the store refuse effects of a partition with a lower epoch, so that a
 *     target which was declared lost and wakes up changes nothing;
 *   - acknowledges only what is stored, and all of it before
 *     dfi_partition_release().
 * Epochs are above those that the stores of attached targets know, if they open
 * with the highest (dfi_target_attr.store_epoch, of any flow with partitions):
 * so they rise though the registry has lost the flow.
 *
 * A dropped tuple keeps its room in the ring until the next acknowledgement,
 * as the one that was lent may not be stored.
 *
 * A checkpoint interval fits a ring, or sources spill. -ENOBUFS, not sticky:
 * the target has consumed a whole ring and acknowledged nothing, and has called
 * on after it got -ENOBUFS itself (dfi_target_ack()). A push or mark that waits
 * for that ring returns it, and took nothing; the next one waits again.
 *
 * Without keys there are no partitions to filter by: tuples come at least once.
 * What a lost target has not acknowledged goes to another one, with direct and
 * function routing to the next holder of its seat. dfi_target_partition() and
 * the calls about partitions are -EPROTOTYPE there.
 *
 * docs/open-flows.md ("Replay") has the rules. Owner thread only.
 */
#ifndef DFI_REPLAY_H
#define DFI_REPLAY_H

#include <stdint.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

struct dfi_source;
struct dfi_target;

/*
 * Acknowledge all that was consumed and given back: it is never sent again, and
 * its rings have room. A tuple lent by dfi_target_consume() is given back by
 * this call. Of a segment with unread tuples, nothing is acknowledged yet.
 *
 * Consuming returns -ENOBUFS, which is not sticky, when nothing else is there
 * and a whole ring was consumed since the last acknowledgement: its source
 * waits as for a full ring. Acknowledge, or create the flow with more or larger
 * segments, or with open.spill_dir, which ends that limit. -EBUSY: a batch or a
 * cursor is out. -ECANCELED: the target has cancelled. -EPROTOTYPE: no replay.
 */
DFI_API int dfi_target_ack(struct dfi_target *target);

/* The partition of a tuple that the target has got. -EPROTOTYPE: no replay. */
DFI_API int dfi_target_partition(
    struct dfi_target *target, const void *tuple, uint32_t *partition);

/*
 * Take a partition whose DFI_GAINED was taken; before that its tuples wait at
 * their sources. positions[i] is the input position of source i that the store
 * has with it, 0: none; n is n_sources. No tuple that is not above it is lent.
 * NULL and 0: the store has none at all, or the application filters.
 * -EINVAL: the partition was not gained, or n is wrong. -ERANGE: no such
 * partition. -EPROTOTYPE: no replay, so it was taken with its event.
 */
DFI_API int dfi_partition_take(struct dfi_target *target, uint32_t partition,
    const uint64_t *positions, uint32_t n);

/*
 * Set *n to the tuples that this target has dropped, since it has lent them
 * before, or the store has them. 0 without replay, and without keys.
 */
DFI_API int dfi_target_filtered(const struct dfi_target *target, uint64_t *n);

/*
 * The epoch of a partition, from its DFI_GAINED to its release. Each owner has
 * a higher one than those before.
 * -EINVAL: the target has not got it. -ERANGE, -EPROTOTYPE: as above.
 */
DFI_API int dfi_partition_epoch(
    struct dfi_target *target, uint32_t partition, uint64_t *epoch);

/*
 * Where to read the input from: *lowest is the highest input position up to
 * which targets have acknowledged all tuples of this seat, 0: none. positions,
 * unless NULL: n of them, one for each partition, up to which that partition
 * has all. Tuples that are above that are to be pushed again. Waits until all
 * partitions are taken and their owners have answered, at most
 * stall_timeout_ms. -EAGAIN, -ETIMEDOUT: not yet; neither is sticky. -EINVAL: n
 * is not the number of partitions. -EPROTOTYPE: no replay. Without keys it is
 * what targets that are attached know of it, which may be less; positions NULL.
 */
DFI_API int dfi_source_resume(struct dfi_source *source, uint64_t *lowest,
    uint64_t *positions, uint32_t n);

DFI_END_DECLS

#endif
