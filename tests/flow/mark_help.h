/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of marks. These helpers fail the test. */
#ifndef DFI_TESTS_MARK_HELP_H
#define DFI_TESTS_MARK_HELP_H

#include <dfi/event.h>

#include "flow_help.h"

/* dfi_source_mark(), also where credit is on its way. */
void mark_soon(struct dfi_source *source, uint64_t value);

uint64_t watermark_of(const struct dfi_target *target);

/* The next is an event that tells of this watermark. */
void expect_mark(struct dfi_target *target, uint64_t value);

/* Skip other events: who joins, and ends, is in test_open. Returns the event.
 */
struct dfi_event next_event(struct dfi_target *target, uint32_t type);

/* The next such event tells of this watermark, with these flags. */
void expect_open_mark(
    struct dfi_target *target, uint64_t value, uint64_t flags);

#endif
