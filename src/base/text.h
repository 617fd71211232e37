/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make texts from strangers safe for a log or a terminal, where control
 * characters could have effects. Some terminals also take single bytes from
 * 0x80 to 0x9f for control characters.
 */
#ifndef DFI_BASE_TEXT_H
#define DFI_BASE_TEXT_H

#include <stdbool.h>

/*
 * Whether a text is valid UTF-8 without control characters (ASCII's, and U+0080
 * to U+009F).
 */
bool dfi__text_is_plain(const char *text);

/* Replace each byte that is not plain with '?'. */
void dfi__text_make_plain(char *text);

#endif
