/* SPDX-License-Identifier: Apache-2.0 */
/* Writes sets as texts. */
#include "present.h"

#include <stdio.h>
#include <string.h>

static bool has(const uint64_t *bits, uint32_t index)
{
	return bits[index / 64] >> index % 64 & 1;
}

void dfi__present_list(
    const uint64_t *bits, uint32_t n, bool in, char *text, size_t size)
{
	static const char cut[] = ", ...";
	uint32_t first, last;
	size_t used = 0;
	char piece[32];

	for (first = 0; first < n; first = last + 1) {
		last = first;
		if (has(bits, first) != in)
			continue;
		while (last + 1 < n && has(bits, last + 1) == in)
			last++;
		snprintf(piece, sizeof(piece),
		    last > first ? "%s%u-%u" : "%s%u", used ? ", " : "", first,
		    last);
		if (used + strlen(piece) + sizeof(cut) > size) {
			snprintf(text + used, size - used, "%s", cut);
			return;
		}
		used += (size_t)snprintf(text + used, size - used, "%s", piece);
	}
}
