/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inline functions of the public headers once more, as functions that the
 * library exports: bindings of other languages can't use what is inline. No
 * code of the library or of C and C++ programs calls these.
 */
#include <dfi/export.h>

#undef DFI_INLINE
#define DFI_INLINE DFI_API

#include <dfi/route.h>
#include <dfi/push.h>
#include <dfi/target.h>
