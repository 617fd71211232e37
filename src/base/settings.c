/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings from the environment. */
#include "settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dfi/context.h>
#include <dfi/flow.h>
#include <dfi/log.h>
#include "cpus.h"
#include "error.h"
#include "ip.h"

struct choice {
	const char *variable;
	const char *word;
	uint32_t value;
};

static const struct choice choices[] = {
	{ "DFI_REGISTRY_INSECURE", "0", 0 },
	{ "DFI_REGISTRY_INSECURE", "1", 1 },
	{ "DFI_WAIT", "adaptive", DFI_WAIT_ADAPTIVE },
	{ "DFI_WAIT", "spin", DFI_WAIT_SPIN },
	{ "DFI_WAIT", "block", DFI_WAIT_BLOCK },
	{ "DFI_HUGE_PAGES", "try", HUGE_PAGES_TRY },
	{ "DFI_HUGE_PAGES", "never", HUGE_PAGES_NEVER },
	{ "DFI_HUGE_PAGES", "require", HUGE_PAGES_REQUIRE },
	{ "DFI_DUMP_RINGS", "0", 0 },
	{ "DFI_DUMP_RINGS", "1", 1 },
	{ "DFI_TRANSPORT", "auto", DFI_TRANSPORT_AUTO },
	{ "DFI_TRANSPORT", "shm", DFI_TRANSPORT_SHM },
	{ "DFI_TRANSPORT", "verbs", DFI_TRANSPORT_VERBS },
	{ "DFI_TRANSPORT", "ofi", DFI_TRANSPORT_OFI },
	{ "DFI_VERIFY", "none", DFI_VERIFY_NONE },
	{ "DFI_VERIFY", "checksum", DFI_VERIFY_CHECKSUM },
	{ "DFI_VERBS_NOTIFY", "auto", VERBS_NOTIFY_AUTO },
	{ "DFI_VERBS_NOTIFY", "footer", VERBS_NOTIFY_FOOTER },
	{ "DFI_VERBS_NOTIFY", "imm", VERBS_NOTIFY_IMM },
	{ "DFI_VERBS_NOTIFY", "checksum", VERBS_NOTIFY_CHECKSUM },
	{ "DFI_LOG", "error", DFI_LOG_ERROR },
	{ "DFI_LOG", "warn", DFI_LOG_WARN },
	{ "DFI_LOG", "info", DFI_LOG_INFO },
	{ "DFI_LOG", "debug", DFI_LOG_DEBUG },
};

/* Names a value's invisible characters, which values from files may have. */
static const char *hidden(const char *value)
{
	char first = value[0], last = value[strlen(value) - 1];

	if (last == '\r')
		return " (it ends in a carriage return: is it from a file "
		       "with CRLF line ends?)";
	if (isspace((unsigned char)last))
		return " (it ends in a space)";
	if (isspace((unsigned char)first))
		return " (it begins with a space)";
	if (first == '"' || first == '\'')
		return " (it has quotes around it)";
	return "";
}

/* A long value must not push the rest out of the text. */
static int invalid(const char *variable, const char *value, const char *help)
{
	return dfi__fail(-EINVAL, "%s=%.100s%s is not valid%s; it sets %s",
	    variable, value, strlen(value) > 100 ? "..." : "", hidden(value),
	    help);
}

static int read_text(
    const char *variable, const char *value, const char *help, const char **out)
{
	(void)variable;
	(void)help;
	*out = value;
	return 0;
}

static int read_address(
    const char *variable, const char *value, const char *help, const char **out)
{
	union ip ip;

	if (value && !dfi__ip_parse_host(value, &ip))
		return invalid(variable, value, help);
	*out = value;
	return 0;
}

/* No part is empty, or as another one. */
static int read_names(
    const char *variable, const char *value, const char *help, const char **out)
{
	uint32_t n = setting_count(value), i, j;
	const char *part, *other;
	size_t size, other_size;

	for (i = 0; i < n; i++) {
		part = setting_part(value, i, &size);
		if (!size || n > SETTING_PARTS)
			return invalid(variable, value, help);
		for (j = 0; j < i; j++) {
			other = setting_part(value, j, &other_size);
			if (size == other_size && !memcmp(part, other, size))
				return invalid(variable, value, help);
		}
	}
	*out = value;
	return 0;
}

static int read_addresses(
    const char *variable, const char *value, const char *help, const char **out)
{
	uint32_t n = setting_count(value), i;
	int ret = read_names(variable, value, help, out);
	char text[IP_TEXT_SIZE];
	const char *part;
	size_t size;
	union ip ip;

	for (i = 0; !ret && i < n; i++) {
		part = setting_part(value, i, &size);
		snprintf(text, sizeof(text), "%.*s", (int)size, part);
		if (size >= sizeof(text) || !dfi__ip_parse_host(text, &ip))
			ret = invalid(variable, value, help);
	}
	return ret;
}

static int read_room(
    const char *variable, const char *value, const char *help, uint64_t *out)
{
	unsigned shift = 0;
	char *end;
	unsigned long long number;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (*end == 'K' || *end == 'k')
		shift = 10;
	else if (*end == 'M' || *end == 'm')
		shift = 20;
	else if (*end == 'G' || *end == 'g')
		shift = 30;
	if (shift)
		end++;
	if (errno || end == value || *end ||
	    !isdigit((unsigned char)value[0]) || number > UINT64_MAX >> shift)
		return invalid(variable, value, help);
	*out = (uint64_t)number << shift;
	return 0;
}

static int read_size(
    const char *variable, const char *value, const char *help, uint64_t *out)
{
	uint64_t size;
	int ret = read_room(variable, value, help, &size);

	if (!ret && !size)
		ret = invalid(variable, value, help);
	if (!ret)
		*out = size;
	return ret;
}

static int read_limit(
    const char *variable, const char *value, const char *help, uint64_t *out)
{
	if (strcmp(value, "none") != 0)
		return read_size(variable, value, help, out);
	*out = UINT64_MAX;
	return 0;
}

static int read_auto_size(
    const char *variable, const char *value, const char *help, uint64_t *out)
{
	if (strcmp(value, "auto") != 0)
		return read_size(variable, value, help, out);
	*out = 0;
	return 0;
}

static int read_uid(
    const char *variable, const char *value, const char *help, uint32_t *out)
{
	unsigned long number;
	char *end;

	*out = UINT32_MAX;
	if (!value)
		return 0;
	errno = 0;
	number = strtoul(value, &end, 10);
	if (errno || end == value || *end ||
	    !isdigit((unsigned char)value[0]) || number >= UINT32_MAX)
		return invalid(variable, value, help);
	*out = (uint32_t)number;
	return 0;
}

static int read_us(
    const char *variable, const char *value, const char *help, uint32_t *out)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(value, &end, 10);
	if (errno || end == value || *end ||
	    !isdigit((unsigned char)value[0]) || number > INT32_MAX)
		return invalid(variable, value, help);
	*out = (uint32_t)number;
	return 0;
}

static int read_ms(
    const char *variable, const char *value, const char *help, uint32_t *out)
{
	uint32_t number;
	int ret = read_us(variable, value, help, &number);

	if (!ret && !number)
		ret = invalid(variable, value, help);
	if (!ret)
		*out = number;
	return ret;
}

#define HOUR_MS 3600000u
#define LEASE_MIN_MS 50u /* the least that a registry allows */

static int read_lease(
    const char *variable, const char *value, const char *help, uint32_t *out)
{
	uint32_t number;
	int ret = read_us(variable, value, help, &number);

	if (!ret && number && (number < LEASE_MIN_MS || number > HOUR_MS))
		ret = invalid(variable, value, help);
	if (!ret)
		*out = number;
	return ret;
}

static int read_retry(
    const char *variable, const char *value, const char *help, uint32_t *out)
{
	uint32_t number;
	int ret = read_ms(variable, value, help, &number);

	if (!ret && number > HOUR_MS)
		ret = invalid(variable, value, help);
	if (!ret)
		*out = number;
	return ret;
}

static int read_cpus(
    const char *variable, const char *value, const char *help, const char **out)
{
	struct cpus cpus;
	int ret = value ? dfi__cpus_read(variable, value, &cpus) : 0;

	(void)help;
	if (!ret)
		*out = value;
	return ret;
}

static int read_choice(
    const char *variable, const char *value, const char *help, uint32_t *out)
{
	size_t i;

	for (i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
		if (!strcmp(choices[i].variable, variable) &&
		    !strcmp(choices[i].word, value)) {
			*out = choices[i].value;
			return 0;
		}
	return invalid(variable, value, help);
}

static const char *from_environment(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value ? value : NULL;
}

const char *dfi__settings_control_cpus(void)
{
	return from_environment("DFI_CONTROL_CPUS");
}

int dfi__settings_load(struct settings *settings)
{
	const char *value;
	int ret;

	dfi__settings_check_environment();
#define X(kind, member, variable, initial, help)                     \
	value = from_environment(variable);                          \
	if (!value)                                                  \
		value = initial;                                     \
	ret = read_##kind(variable, value, help, &settings->member); \
	if (ret < 0)                                                 \
		return ret;
	DFI_SETTINGS(X)
#undef X
	return 0;
}

int dfi__settings_each(
    int (*fn)(void *arg, const struct setting *setting), void *arg)
{
	struct settings settings;
	struct setting setting;
	const char *value;
	int ret;

	dfi__settings_check_environment();
#define X(kind, member, name, default_value, text)                \
	value = from_environment(name);                           \
	setting = (struct setting){                               \
		.variable = name,                                 \
		.value = value ? value : default_value,           \
		.initial = default_value,                         \
		.help = text,                                     \
		.in_environment = value != NULL,                  \
	};                                                        \
	setting.ret = read_##kind(                                \
	    name, setting.value, setting.help, &settings.member); \
	ret = fn(arg, &setting);                                  \
	if (ret)                                                  \
		return ret;
	DFI_SETTINGS(X)
#undef X
	return 0;
}
