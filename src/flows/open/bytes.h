/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian numbers in values of the registry. */
#ifndef DFI_FLOWS_OPEN_BYTES_H
#define DFI_FLOWS_OPEN_BYTES_H

#include <stdint.h>

static inline void open_put_number(uint8_t *bytes, uint64_t number, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		bytes[i] = (uint8_t)(number >> 8 * i);
}

static inline uint64_t open_get_number(const uint8_t *bytes, unsigned n)
{
	uint64_t number = 0;

	while (n-- > 0)
		number = number << 8 | bytes[n];
	return number;
}

#endif
