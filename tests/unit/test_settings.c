/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: defaults, what the environment may say, and what it may not. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/context.h>
#include <dfi/error.h>

#include "base/settings.h"

static struct settings settings;

static void setup(void)
{
#define X(kind, member, variable, value, help) unsetenv(variable);
	DFI_SETTINGS(X)
#undef X
}

TestSuite(settings, .init = setup);

static int load_with(const char *variable, const char *value)
{
	setenv(variable, value, 1);
	return dfi__settings_load(&settings);
}

static void refuse(const char *variable, const char *value)
{
	char text[128];

	cr_assert_eq(
	    load_with(variable, value), -EINVAL, "%s=%s", variable, value);
	snprintf(text, sizeof(text), "%s=%s ", variable, value);
	cr_assert(strstr(dfi_errmsg(), text) != NULL, "'%s' is not in '%s'",
	    text, dfi_errmsg());
	unsetenv(variable);
}

Test(settings, defaults_are_those_of_the_table)
{
	cr_assert_eq(dfi__settings_load(&settings), 0, "%s", dfi_errmsg());
	cr_assert_null(settings.registry);
	cr_assert_eq(settings.wait, DFI_WAIT_ADAPTIVE);
	cr_assert_eq(settings.huge_pages, HUGE_PAGES_TRY);
	cr_assert_eq(settings.open_timeout_ms, 10000);
	cr_assert_geq(settings.ring_memory, 1 << 20);
}

Test(settings, empty_variable_means_the_default)
{
	cr_assert_eq(load_with("DFI_OPEN_TIMEOUT", ""), 0);
	cr_assert_eq(settings.open_timeout_ms, 10000);
	cr_assert_eq(load_with("DFI_REGISTRY", ""), 0);
	cr_assert_null(settings.registry);
}

Test(settings, text_is_taken_as_it_is)
{
	cr_assert_eq(load_with("DFI_REGISTRY", "unix:/run/x y"), 0);
	cr_assert_str_eq(settings.registry, "unix:/run/x y");
}

Test(settings, sizes_have_suffixes)
{
	static const struct {
		const char *text;
		uint64_t value;
	} sizes[] = {
		{ "1", 1 },
		{ "4096", 4096 },
		{ "3k", 3 << 10 },
		{ "3K", 3 << 10 },
		{ "5m", 5 << 20 },
		{ "5M", 5 << 20 },
		{ "7G", UINT64_C(7) << 30 },
		{ "7g", UINT64_C(7) << 30 },
		{ "18446744073709551615", UINT64_MAX },
	};
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cr_assert_eq(load_with("DFI_RING_MEMORY", sizes[i].text), 0);
		cr_assert_eq(settings.ring_memory, sizes[i].value);
	}
}

Test(settings, bad_sizes_are_named)
{
	static const char *const bad[] = { "0", "0M", "-1", "x", "M", "1T",
		"1KB", "1 M", "1.5M", "18446744073709551616", "99999999999999G",
		" -1" };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuse("DFI_RING_MEMORY", bad[i]);
}

Test(settings, bad_times_are_named)
{
	static const char *const bad[] = { "0", "-1", "x", "10s", "1.5",
		"4294967296", "2147483648", " -1" };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuse("DFI_OPEN_TIMEOUT", bad[i]);
	cr_assert_eq(load_with("DFI_OPEN_TIMEOUT", "2147483647"), 0);
	cr_assert_eq(settings.open_timeout_ms, INT32_MAX);
}

Test(settings, choices_are_words)
{
	cr_assert_eq(load_with("DFI_WAIT", "spin"), 0);
	cr_assert_eq(settings.wait, DFI_WAIT_SPIN);
	cr_assert_eq(load_with("DFI_WAIT", "block"), 0);
	cr_assert_eq(settings.wait, DFI_WAIT_BLOCK);
	cr_assert_eq(load_with("DFI_HUGE_PAGES", "never"), 0);
	cr_assert_eq(settings.huge_pages, HUGE_PAGES_NEVER);
	cr_assert_eq(load_with("DFI_HUGE_PAGES", "require"), 0);
	cr_assert_eq(settings.huge_pages, HUGE_PAGES_REQUIRE);
	refuse("DFI_WAIT", "Spin");
	refuse("DFI_WAIT", "try"); /* a word of another setting */
	refuse("DFI_HUGE_PAGES", "spin");
}

/* Also where it is read by the application's eyes. */
Test(settings, text_of_a_bad_value_says_what_is_expected)
{
	cr_assert_eq(load_with("DFI_WAIT", "often"), -EINVAL);
	cr_assert(strstr(dfi_errmsg(), "adaptive, spin or block") != NULL);
}
