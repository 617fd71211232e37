/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: defaults, and valid and invalid values of the environment. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/context.h>
#include <dfi/error.h>
#include <dfi/log.h>
#include <dfi/setting.h>

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
	cr_assert_eq(settings.ring_memory, 0);
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
	cr_assert_null(settings.registry_key);
	cr_assert_eq(load_with("DFI_REGISTRY_KEY", "/etc/dfi/a key"), 0);
	cr_assert_str_eq(settings.registry_key, "/etc/dfi/a key");
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

Test(settings, limits_are_sizes_or_a_word)
{
	cr_assert_eq(load_with("DFI_RING_MEMORY_LIMIT", "none"), 0);
	cr_assert_eq(settings.ring_memory_limit, UINT64_MAX);
	cr_assert_eq(load_with("DFI_RING_MEMORY_LIMIT", "3M"), 0);
	cr_assert_eq(settings.ring_memory_limit, 3 << 20);
	refuse("DFI_RING_MEMORY_LIMIT", "0");
	refuse("DFI_RING_MEMORY_LIMIT", "None");
	refuse("DFI_RING_MEMORY", "none");
	cr_assert_eq(load_with("DFI_RING_MEMORY", "auto"), 0);
	cr_assert_eq(settings.ring_memory, 0);
}

Test(settings, spare_memory_is_a_size_or_zero)
{
	cr_assert_eq(load_with("DFI_SPARE_MEMORY", ""), 0);
	cr_assert_eq(settings.spare_memory, 32 << 20);
	cr_assert_eq(load_with("DFI_SPARE_MEMORY", "0"), 0);
	cr_assert_eq(settings.spare_memory, 0);
	cr_assert_eq(load_with("DFI_SPARE_MEMORY", "5M"), 0);
	cr_assert_eq(settings.spare_memory, 5 << 20);
	refuse("DFI_SPARE_MEMORY", "none");
	refuse("DFI_SPARE_MEMORY", "-1");
	refuse("DFI_SPARE_MEMORY", "M");
}

Test(settings, linger_may_be_zero)
{
	cr_assert_eq(load_with("DFI_LINGER_US", "250"), 0);
	cr_assert_eq(settings.linger_us, 250);
	cr_assert_eq(load_with("DFI_LINGER_US", "0"), 0);
	cr_assert_eq(settings.linger_us, 0);
	refuse("DFI_LINGER_US", "-1");
	refuse("DFI_LINGER_US", "2147483648");
	refuse("DFI_LINGER_US", "1ms");
}

Test(settings, bad_times_are_named)
{
	static const char *const bad[] = { "0", "-1", "x", "10s", "1.5",
		"4294967296", "2147483648", " -1" };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuse("DFI_OPEN_TIMEOUT", bad[i]);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (strcmp(bad[i], "0") != 0)
			refuse("DFI_LEASE", bad[i]);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuse("DFI_VERBS_RETRY", bad[i]);
	refuse("DFI_LEASE", "49");
	refuse("DFI_LEASE", "3600001");
	refuse("DFI_VERBS_RETRY", "3600001");
	cr_assert_eq(load_with("DFI_LEASE", "3600000"), 0);
	cr_assert_eq(settings.lease_ms, 3600000);
	cr_assert_eq(load_with("DFI_LEASE", "0"), 0);
	cr_assert_eq(settings.lease_ms, 0);
	cr_assert_eq(load_with("DFI_VERBS_RETRY", "1"), 0);
	cr_assert_eq(settings.verbs_retry_ms, 1);
	cr_assert_eq(load_with("DFI_OPEN_TIMEOUT", "2147483647"), 0);
	cr_assert_eq(settings.open_timeout_ms, INT32_MAX);
}

Test(settings, users_are_numbers)
{
	cr_assert_eq(dfi__settings_load(&settings), 0);
	cr_assert_eq(settings.registry_user, UINT32_MAX);
	cr_assert_eq(load_with("DFI_REGISTRY_USER", "0"), 0);
	cr_assert_eq(settings.registry_user, 0);
	refuse("DFI_REGISTRY_USER", "root");
	refuse("DFI_REGISTRY_USER", "-1");
	refuse("DFI_REGISTRY_USER", "4294967295");
}

Test(settings, addresses_are_of_ip)
{
	cr_assert_eq(load_with("DFI_VERBS_ADDRESS", "10.0.0.1"), 0);
	cr_assert_str_eq(settings.verbs_address, "10.0.0.1");
	cr_assert_eq(load_with("DFI_VERBS_ADDRESS", "fd00::1"), 0);
	refuse("DFI_VERBS_ADDRESS", "foo");
	refuse("DFI_VERBS_ADDRESS", "10.0.0.1:80");
	cr_assert_eq(load_with("DFI_VERBS_ADDRESS", "10.0.0.1,fd00::1"), 0);
	refuse("DFI_VERBS_ADDRESS", "10.0.0.1,foo");
	refuse("DFI_VERBS_ADDRESS", "10.0.0.1,10.0.0.1");
}

Test(settings, devices_are_a_list_of_names)
{
	size_t size;

	cr_assert_eq(setting_count(NULL), 0);
	cr_assert_eq(load_with("DFI_VERBS_DEVICE", "rxe0"), 0);
	cr_assert_eq(setting_count(settings.verbs_device), 1);
	cr_assert_eq(load_with("DFI_VERBS_DEVICE", "rxe0,mlx5_10,b,c"), 0);
	cr_assert_eq(setting_count(settings.verbs_device), 4);
	cr_assert(!strncmp(
	    setting_part(settings.verbs_device, 1, &size), "mlx5_10", 7));
	cr_assert_eq(size, 7);
	cr_assert(!strcmp(setting_part(settings.verbs_device, 3, &size), "c"));
	cr_assert_eq(size, 1);
	refuse("DFI_VERBS_DEVICE", "a,b,c,d,e");
	cr_assert_not_null(strstr(dfi_errmsg(), "1 to 4"));
	refuse("DFI_VERBS_DEVICE", "a,,b");
	refuse("DFI_VERBS_DEVICE", ",a");
	refuse("DFI_VERBS_DEVICE", "a,");
	refuse("DFI_VERBS_DEVICE", "a,b,a");
}

Test(settings, numbers_out_of_range_are_refused_with_the_range)
{
	static const char *const numbers[] = { "DFI_OPEN_TIMEOUT",
		"DFI_REGISTRY_GRACE", "DFI_LINGER_US" };
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		refuse(numbers[i], "99999999999999");
		cr_assert_not_null(strstr(dfi_errmsg(), "1 to 2147483647"));
	}
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
	cr_assert_eq(settings.registry_insecure, 0);
	cr_assert_eq(load_with("DFI_REGISTRY_INSECURE", "1"), 0);
	cr_assert_eq(settings.registry_insecure, 1);
	refuse("DFI_REGISTRY_INSECURE", "yes");
	refuse("DFI_WAIT", "Spin");
	refuse("DFI_WAIT", "try"); /* a word of another setting */
	refuse("DFI_HUGE_PAGES", "spin");
}

/* Also if the application's own user may read it. */
Test(settings, text_of_a_bad_value_says_what_is_expected)
{
	cr_assert_eq(load_with("DFI_WAIT", "often"), -EINVAL);
	cr_assert(strstr(dfi_errmsg(), "adaptive, spin or block") != NULL);
}

Test(settings, text_of_a_long_bad_value_says_so_too)
{
	char value[4000];

	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	cr_assert_eq(load_with("DFI_WAIT", value), -EINVAL);
	cr_assert(strstr(dfi_errmsg(), "DFI_WAIT=xxx"));
	cr_assert(strstr(dfi_errmsg(), "xxx... is not valid"));
	cr_assert(strstr(dfi_errmsg(), "adaptive, spin or block"));
}

Test(settings, log_level_is_one_of_them)
{
	cr_assert_eq(dfi__settings_load(&settings), 0);
	cr_assert_eq(settings.log_level, DFI_LOG_WARN);
	refuse("DFI_LOG", "loud");
}

Test(settings, processors_are_a_list_of_those_that_are_online)
{
	static const char *const wrong[] = { "x", "0,", ",0", "0-", "-1", "1-0",
		"0 ", "0;1", "8191", "8192", "99999999999999999999" };
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		refuse("DFI_CONTROL_CPUS", wrong[i]);
		cr_assert(strstr(dfi_errmsg(), "online are 0") != NULL, "%s",
		    dfi_errmsg());
	}
	cr_assert_eq(load_with("DFI_CONTROL_CPUS", "0"), 0, "%s", dfi_errmsg());
	cr_assert_str_eq(settings.control_cpus, "0");
	cr_assert_eq(load_with("DFI_CONTROL_CPUS", "0-0,0"), 0);
	cr_assert_eq(load_with("DFI_CONTROL_CPUS", ""), 0);
	cr_assert_null(settings.control_cpus);
}

Test(settings, nearest_name_is_found_for_what_is_misspelt)
{
	static const struct {
		const char *name;
		const char *nearest;
	} names[] = {
		{ "DFI_WIAT=spin", "DFI_WAIT" },
		{ "DFI_RING_MEMROY", "DFI_RING_MEMORY" },
		{ "DFI_REGISTRY_KEYS=/x", "DFI_REGISTRY_KEY" },
		{ "DFI_REGISTRYKEY", "DFI_REGISTRY_KEY" },
		{ "DFI_HUGEPAGES", "DFI_HUGE_PAGES" },
		{ "DFI_OPEN_TIMEOUT_MS=5", "DFI_OPEN_TIMEOUT" },
		{ "DFI_OPENTIME", "DFI_OPEN_TIMEOUT" },
		{ "DFI_TIMEOUT", "DFI_OFI_TIMEOUT" },
		{ "DFI_wait", "DFI_WAIT" },
		{ "DFI_TEST", "DFI_LEASE" },
	};
	char endless[4096] = "DFI_LO";
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_assert_str_eq(dfi__settings_nearest(names[i].name),
		    names[i].nearest, "%s", names[i].name);
	memset(endless + strlen(endless), 'G', 4000);
	cr_assert_not_null(dfi__settings_nearest(endless));
	cr_assert_not_null(dfi__settings_nearest("DFI_"));
}

Test(settings, own_names_and_those_of_the_project_are_no_mistakes)
{
	static const char *const known[] = { "DFI_WAIT=", "DFI_LOG=x",
		"DFI_REGISTRY", "DFI_JOBS=2", "DFI_TEST_DEVICE=rxe0",
		"DFI_TESTBED=x", "DFI_TESTBED_CACHE=/x" };
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		cr_assert_null(dfi__settings_nearest(known[i]), "%s", known[i]);
	cr_assert_not_null(dfi__settings_nearest("DFI_JOBS2"));
}

static unsigned n_warnings;

static void count_warning(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	cr_assert_eq(level, DFI_LOG_WARN);
	cr_assert(strstr(line, "DFI_WIAT is no setting") != NULL, "%s", line);
	cr_assert(strstr(line, "DFI_WAIT ") != NULL, "%s", line);
	n_warnings++;
}

Test(settings, unknown_variable_is_warned_of_once)
{
	setenv("DFI_WIAT", "spin", 1);
	setenv("DFI_TEST_SEED", "1", 1);
	dfi_log_set(DFI_LOG_WARN, count_warning, NULL);
	cr_assert_eq(dfi__settings_load(&settings), 0);
	cr_assert_eq(dfi__settings_load(&settings), 0);
	cr_assert_eq(n_warnings, 1);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

struct listed {
	struct dfi_setting_info wait, registry, key, timeout, lease;
	char wait_error[256];
	unsigned n;
};

static int note(void *arg, const struct dfi_setting_info *info)
{
	struct listed *listed = arg;

	listed->n++;
	if (!strcmp(info->variable, "DFI_WAIT")) {
		listed->wait = *info;
		snprintf(listed->wait_error, sizeof(listed->wait_error), "%s",
		    info->error ? info->error : "");
	} else if (!strcmp(info->variable, "DFI_REGISTRY")) {
		listed->registry = *info;
	} else if (!strcmp(info->variable, "DFI_REGISTRY_KEY")) {
		listed->key = *info;
	} else if (!strcmp(info->variable, "DFI_OPEN_TIMEOUT")) {
		listed->timeout = *info;
	} else if (!strcmp(info->variable, "DFI_LEASE")) {
		listed->lease = *info;
	}
	return 0;
}

Test(settings, list_says_where_values_come_from)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct listed listed = { .n = 0 };
	struct settings all;

	setenv("DFI_REGISTRY", "unix:@a", 1);
	setenv("DFI_REGISTRY_KEY", "/a", 1);
	cr_assert_eq(dfi_setting_list(NULL, note, &listed), 0);
	/* All, and each once. */
	cr_assert_gt(listed.n, 10);
	cr_assert_leq(listed.n, sizeof(all) / sizeof(uint32_t));
	cr_assert_eq(listed.wait.origin, DFI_SETTING_DEFAULT);
	cr_assert_str_eq(listed.wait.value, "adaptive");
	cr_assert_str_eq(listed.wait.initial, "adaptive");
	cr_assert_eq(listed.registry.origin, DFI_SETTING_ENVIRONMENT);
	cr_assert_str_eq(listed.registry.value, "unix:@a");
	cr_assert_null(listed.registry.initial);
	cr_assert_eq(listed.key.origin, DFI_SETTING_ENVIRONMENT);

	attr.registry = "unix:@b";
	attr.registry_ca = "/ca";
	attr.open_timeout_ms = 7;
	attr.lease_ttl_ms = DFI_NO_LEASE;
	cr_assert_eq(dfi_setting_list(&attr, note, &listed), 0);
	cr_assert_eq(listed.registry.origin, DFI_SETTING_ATTRIBUTE);
	cr_assert_str_eq(listed.registry.value, "unix:@b");
	/* A named file replaces all that the environment names. */
	cr_assert_eq(listed.key.origin, DFI_SETTING_ATTRIBUTE);
	cr_assert_null(listed.key.value);
	cr_assert_eq(listed.timeout.origin, DFI_SETTING_ATTRIBUTE);
	cr_assert_eq(listed.lease.origin, DFI_SETTING_ATTRIBUTE);
}

static int stop(void *arg, const struct dfi_setting_info *info)
{
	(void)arg;
	(void)info;
	return 17;
}

Test(settings, list_goes_on_past_what_is_not_valid)
{
	struct listed listed = { .n = 0 }, good = { .n = 0 };

	cr_assert_eq(dfi_setting_list(NULL, note, &good), 0);
	setenv("DFI_WAIT", "often", 1);
	cr_assert_eq(dfi_setting_list(NULL, note, &listed), 0);
	cr_assert_eq(listed.n, good.n);
	cr_assert_str_eq(listed.wait.value, "often");
	cr_assert(strstr(listed.wait_error, "adaptive, spin or block") != NULL);
	cr_assert_null(listed.registry.error);
	cr_assert_eq(dfi_setting_list(NULL, NULL, NULL), -EINVAL);
	cr_assert_eq(dfi_setting_list(NULL, stop, NULL), 17);
}

Test(settings, text_says_what_nobody_sees_in_a_value)
{
	static const char *const values[][2] = {
		{ "spin\r", "ends in a carriage return" },
		{ "spin ", "ends in a space" },
		{ " spin", "begins with a space" },
		{ "\"spin\"", "quotes around it" },
	};
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		cr_assert_eq(load_with("DFI_WAIT", values[i][0]), -EINVAL);
		cr_assert(
		    strstr(dfi_errmsg(), values[i][1]), "%s", dfi_errmsg());
	}
	cr_assert_eq(load_with("DFI_WAIT", "SPIN"), -EINVAL);
	cr_assert(strstr(dfi_errmsg(), "SPIN is not valid; it sets"), "%s",
	    dfi_errmsg());
}

Test(settings, text_of_a_size_says_which_units_there_are)
{
	cr_assert_eq(load_with("DFI_RING_MEMORY", "1T"), -EINVAL);
	cr_assert(strstr(dfi_errmsg(), "64K, 8M or 1G"), "%s", dfi_errmsg());
}
