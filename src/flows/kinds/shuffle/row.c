/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shuffle flows add nothing: their lanes are rings, and targets read these in
 * turn.
 */
#include "flows/kinds/kinds.h"

const struct kind dfi__shuffle_kind;
