/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that others may have written, before they get to a log or a terminal,
 * which control characters could have do things.
 */
#ifndef DFI_BASE_TEXT_H
#define DFI_BASE_TEXT_H

#include <stdbool.h>

/*
 * Whether it has no control characters: those of ASCII, and those that UTF-8
 * has as two bytes. All else is allowed.
 */
bool dfi__text_is_plain(const char *text);

/* Put a '?' in place of each byte of them. */
void dfi__text_make_plain(char *text);

#endif
