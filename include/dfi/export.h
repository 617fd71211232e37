/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DFI_API marks what the shared library exports; everything else is hidden.
 */
#ifndef DFI_EXPORT_H
#define DFI_EXPORT_H

#define DFI_API __attribute__((visibility("default")))

#endif
