/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of flows: each has a folder and a row. tests/checks/floors.txt
 * lists the floors that a kind may use.
 */
#ifndef DFI_FLOWS_KINDS_KINDS_H
#define DFI_FLOWS_KINDS_KINDS_H

#include "flows/endpoint/kind.h"

extern const struct kind dfi__replicate_kind, dfi__combine_kind;

#endif
