/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that speak another version of a protocol. */
#ifndef DFI_BASE_VERSION_H
#define DFI_BASE_VERSION_H

#include <stdint.h>

/* For error texts: what helps. The newer end can't speak the older's version.
 */
static inline const char *version_remedy(uint32_t theirs, uint32_t ours)
{
	return theirs < ours ? "upgrade DFI there" : "upgrade DFI here";
}

#endif
