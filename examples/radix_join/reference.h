/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The join of two tables by sorting and merging, to check results. It shares no
 * code with the join: no hash, no partition, no flow.
 */
#ifndef RADIX_JOIN_REFERENCE_H
#define RADIX_JOIN_REFERENCE_H

#include "image.h"

/* 0, or -1 after a complaint. */
int reference_join(
    const struct image_side sides[N_RELATIONS], struct result *expected);

#endif
