/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DFI_REGISTRY_CONNECT_H
#define DFI_REGISTRY_CONNECT_H

#include <stdint.h>

/*
 * A connected non-blocking socket to the registry at the address text, whose
 * process is trusted; or a negative errno value, see dfi__client_open().
 */
int dfi__connect(const char *text, int64_t deadline);

#endif
