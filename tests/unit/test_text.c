/* SPDX-License-Identifier: Apache-2.0 */
/* What others have written can't do things to who reads it. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

#define HOSTILE "a\033[2Jb\nc\302\233d\177"
#define HARMLESS "a?[2Jb?c??d?"

static void assert_plain(const char *text, bool plain)
{
	cr_assert_eq(dfi__text_is_plain(text), plain, "'%s'", text);
}

Test(text, with_control_characters_is_not_plain)
{
	char text[] = "axb";
	int c;

	assert_plain("", true);
	for (c = 1; c < 256; c++) {
		text[1] = (char)c;
		assert_plain(text, (c >= ' ' && c != 0x7f));
	}
	/* U+007F to U+00A0, and what is none of them. */
	assert_plain("Stra\303\237e \302\240 \342\202\254", true);
	for (c = 0x80; c < 0xc0; c++) {
		const char pair[] = { (char)0xc2, (char)c, '\0' };

		assert_plain(pair, c >= 0xa0);
	}
	assert_plain("\302", true);
}

Test(text, is_made_plain_byte_by_byte)
{
	char text[] = HOSTILE, plain[] = "Stra\303\237e", cut[] = "a\302";

	dfi__text_make_plain(text);
	cr_assert_str_eq(text, HARMLESS);
	assert_plain(text, true);
	dfi__text_make_plain(plain);
	cr_assert_str_eq(plain, "Stra\303\237e");
	dfi__text_make_plain(cut);
	cr_assert_str_eq(cut, "a\302");
}

Test(text, of_an_error_is_plain)
{
	cr_assert_eq(dfi__fail(-EIO, "flow '%s'", HOSTILE), -EIO);
	cr_assert_str_eq(dfi_errmsg(), "flow '" HARMLESS "'");
	cr_assert_eq(dfi__fail_within(-EIO, "%s", HOSTILE), -EIO);
	cr_assert_str_eq(dfi_errmsg(), HARMLESS ": flow '" HARMLESS "'");
}

static char last_line[600];

static void keep_line(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	strcpy(last_line, line);
}

Test(text, of_a_line_in_the_log_is_plain)
{
	struct log_throttle throttle = { 0, 0 };

	dfi_log_set(DFI_LOG_WARN, keep_line, NULL);
	dfi__log(DFI_LOG_WARN, "node '%s'", HOSTILE);
	cr_assert_str_eq(last_line, "node '" HARMLESS "'");
	dfi__log_seldom(&throttle, DFI_LOG_WARN, "key '%s'", HOSTILE);
	cr_assert_str_eq(last_line, "key '" HARMLESS "'");
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}
