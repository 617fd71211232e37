/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of flows: each has a folder and a row here. tests/checks/floors.txt
 * lists the floors that a kind may use, flows/descriptor has its rules.
 */
#ifndef DFI_FLOWS_KINDS_KINDS_H
#define DFI_FLOWS_KINDS_KINDS_H

#include "flows/endpoint/kind.h"

/* ROW(number, name): dfi__NAME_kind is in its folder. */
#define EACH_KIND(ROW)                \
	ROW(DFI_SHUFFLE, shuffle)     \
	ROW(DFI_REPLICATE, replicate) \
	ROW(DFI_COMBINE, combine)

#define ROW(number, name) extern const struct kind dfi__##name##_kind;
EACH_KIND(ROW)
#undef ROW

#endif
