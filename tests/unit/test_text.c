/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of others can't harm their reader. */
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
		assert_plain(text, c >= ' ' && c < 0x7f);
	}
	/* U+007F to U+00A0. */
	assert_plain("Stra\303\237e \302\240 \342\202\254", true);
	for (c = 0x80; c < 0xc0; c++) {
		const char pair[] = { (char)0xc2, (char)c, '\0' };

		assert_plain(pair, c >= 0xa0);
	}
}

/* The first and last character of each length, and their neighbours. */
Test(text, that_is_no_utf8_is_not_plain)
{
	static const char *const plain[] = { "\302\240", "\337\277",
		"\340\240\200", "\355\237\277", "\356\200\200", "\357\277\277",
		"\360\220\200\200", "\364\217\277\277", "\360\237\230\200x" };
	static const char *const invalid[] = { "\2332J", "\300\257", "\301\277",
		"\340\237\277", "\355\240\200", "\355\277\277",
		"\360\217\277\277", "\364\220\200\200", "\365\200\200\200",
		"\377", "\302", "\342\202", "\342\202x", "\360\237\230",
		"\342\202\254\254" };
	size_t i;

	for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		assert_plain(plain[i], true);
	for (i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
		assert_plain(invalid[i], false);
}

Test(text, is_made_plain_byte_by_byte)
{
	char text[] = HOSTILE, plain[] = "Stra\303\237e", cut[] = "a\302";
	char raw[] = "a\2332J\342\202\254\360\237\233x";

	dfi__text_make_plain(text);
	cr_assert_str_eq(text, HARMLESS);
	assert_plain(text, true);
	dfi__text_make_plain(plain);
	cr_assert_str_eq(plain, "Stra\303\237e");
	dfi__text_make_plain(cut);
	cr_assert_str_eq(cut, "a?");
	dfi__text_make_plain(raw);
	cr_assert_str_eq(raw, "a?2J\342\202\254???x");
	assert_plain(raw, true);
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
