/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks: a source says up to which value its tuples are complete, such as a
 * time or the number of a checkpoint, and each target learns the least value of
 * all sources. In an ordered open flow all targets learn it at the same place
 * of the order, except for idle sources. docs/open-flows.md ("Marks") has the
 * rules. Owner thread only.
 */
#ifndef DFI_MARK_H
#define DFI_MARK_H

#include <stdint.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

struct dfi_source;
struct dfi_target;

#define DFI_NO_MARK UINT64_MAX /* no mark's value */

enum {
	/*
	 * In dfi_target_attr.flags, with DFI_EVENTS: align the sources, as for
	 * checkpoints. The target takes nothing behind a source's mark before
	 * the watermark is there; meanwhile that source waits when its ring is
	 * full. So at an event DFI_MARK the target has had all that each source
	 * pushed before its first mark that is not below the watermark, and
	 * nothing behind that. A source that has ended or is lost holds up
	 * nobody; with DFI_ON_LOSS_REPLAY a lost one does, until it returns or
	 * is given up. -EINVAL: an ordered flow, whose order has the marks; a
	 * flow whose losses are told (DFI_LOSS_NOTIFY), which may lose marks.
	 */
	DFI_ALIGN = 16,
};

/*
 * Tell all targets that have not cancelled that the tuples pushed so far are
 * all up to value, which rises from mark to mark (dfi_target_watermark()).
 * Sends what is buffered. In a flow with DFI_WINDOW_MARKED it ends the source's
 * window. Waits until each target's ring has room, as a push does, and until no
 * tuple waits for its partition's next owner; after -EAGAIN and -ETIMEDOUT no
 * target has the mark: repeat it, or dfi_source_close() fails. A span that is
 * lent ends. Owner thread only. Not sticky: -ERANGE: not above the last mark,
 * or DFI_NO_MARK. -EPROTOTYPE: a combiner flow whose windows end by themselves,
 * or that has none.
 */
DFI_API int dfi_source_mark(struct dfi_source *source, uint64_t value);

/*
 * The watermark: the least of the last marks (dfi_source_mark()) of all sources
 * that have not ended, among what was consumed or passed so far; 0 before all
 * have marked. It never falls. Behind the tuples that were consumed last, a
 * source may be further. In a combiner flow, the mark that all have passed.
 * With DFI_ON_LOSS_REPLAY a source that is lost counts until it is given up.
 * One that is idle does not count (dfi_target_late()).
 */
DFI_API int dfi_target_watermark(
    const struct dfi_target *target, uint64_t *value);

/*
 * Whether the tuples that were consumed last are late: 1, or 0. With
 * dfi_target_attr.idle_after_ms a source from which nothing has come for so
 * long, or for up to a half longer, and whose ring is empty, does not hold the
 * watermark: idle or stopped, it counts no more until its next mark. From then
 * on its tuples are late, up to its first mark that is not below the watermark.
 * If all are idle, the watermark stays. Not in combiner flows: -EINVAL at open.
 */
DFI_API int dfi_target_late(const struct dfi_target *target);

/*
 * Of an ordered flow: all segments with a lower position were consumed, and
 * none from this one on, except for a part of this one. Positions rise, in an
 * open flow not by one where the order has a gap. So a program that begins with
 * another's state knows what is new to it. -EAGAIN: an open flow's target does
 * not know yet where it begins. -EPROTOTYPE: the flow is not ordered.
 */
DFI_API int dfi_target_position(
    const struct dfi_target *target, uint64_t *position);

DFI_END_DECLS

#endif
