/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that others may have written, before they get to a log or a terminal,
 * which control characters could have do things; and some take single bytes
 * from 0x80 to 0x9f for control characters.
 */
#ifndef DFI_BASE_TEXT_H
#define DFI_BASE_TEXT_H

#include <stdbool.h>

/*
 * Whether it is valid UTF-8 without control characters: those of ASCII, and
 * U+0080 to U+009F.
 */
bool dfi__text_is_plain(const char *text);

/* Put a '?' in place of each byte of what is not so. */
void dfi__text_make_plain(char *text);

#endif
