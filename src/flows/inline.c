/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports the inline functions of the public headers as functions, for bindings
 * of other languages. Neither the library nor C and C++ programs call these.
 */
#include <dfi/export.h>

#undef DFI_INLINE
#define DFI_INLINE DFI_API

#include <dfi/route.h>
#include <dfi/push.h>
#include <dfi/target.h>
