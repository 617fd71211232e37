/* SPDX-License-Identifier: Apache-2.0 */
/* See text.h. */
#include "text.h"

#include <stddef.h>

/* How many bytes the control character has that text begins with, or 0. */
static size_t control_size(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	if ((*at && *at < ' ') || *at == 0x7f)
		return 1;
	/* U+0080 to U+009F, with what begins the sequences of terminals. */
	return *at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0 ? 2 : 0;
}

bool dfi__text_is_plain(const char *text)
{
	for (; *text; text++)
		if (control_size(text))
			return false;
	return true;
}

void dfi__text_make_plain(char *text)
{
	size_t n;

	while (*text) {
		n = control_size(text);
		if (!n)
			text++;
		for (; n; n--)
			*text++ = '?';
	}
}
