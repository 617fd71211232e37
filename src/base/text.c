/* SPDX-License-Identifier: Apache-2.0 */
/* See text.h. */
#include "text.h"

#include <stddef.h>

/* The first and second byte of a character of several bytes. */
struct lead {
	unsigned char first, last;     /* range of its first byte */
	unsigned char lowest, highest; /* range of its second byte */
	unsigned char size;
};

/*
 * Table 3-7 of the Unicode standard, without U+0080 to U+009F, which may begin
 * control sequences of terminals. All later bytes are 0x80 to 0xbf.
 */
static const struct lead leads[] = {
	{ 0xc2, 0xc2, 0xa0, 0xbf, 2 },
	{ 0xc3, 0xdf, 0x80, 0xbf, 2 },
	{ 0xe0, 0xe0, 0xa0, 0xbf, 3 },
	{ 0xe1, 0xec, 0x80, 0xbf, 3 },
	{ 0xed, 0xed, 0x80, 0x9f, 3 },
	{ 0xee, 0xef, 0x80, 0xbf, 3 },
	{ 0xf0, 0xf0, 0x90, 0xbf, 4 },
	{ 0xf1, 0xf3, 0x80, 0xbf, 4 },
	{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

static bool is_within(unsigned char byte, unsigned char from, unsigned char to)
{
	return byte >= from && byte <= to;
}

/* The size in bytes of the plain character at text, or 0. */
static size_t plain_size(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	const struct lead *lead = leads;
	size_t i;

	if (at[0] < 0x80)
		return at[0] >= ' ' && at[0] != 0x7f;
	while (!is_within(at[0], lead->first, lead->last))
		if (++lead == leads + sizeof(leads) / sizeof(leads[0]))
			return 0;
	/* The NUL at the text's end is outside of the range. */
	if (!is_within(at[1], lead->lowest, lead->highest))
		return 0;
	for (i = 2; i < lead->size; i++)
		if (!is_within(at[i], 0x80, 0xbf))
			return 0;
	return lead->size;
}

bool dfi__text_is_plain(const char *text)
{
	size_t n;

	for (; *text; text += n) {
		n = plain_size(text);
		if (!n)
			return false;
	}
	return true;
}

void dfi__text_make_plain(char *text)
{
	size_t n;

	for (; *text; text += n) {
		n = plain_size(text);
		if (!n)
			text[n++] = '?';
	}
}
