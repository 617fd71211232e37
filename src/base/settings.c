/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings from the environment. */
#include "settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <dfi/context.h>
#include "error.h"

struct choice {
	const char *variable;
	const char *word;
	uint32_t value;
};

static const struct choice choices[] = {
	{ "DFI_WAIT", "adaptive", DFI_WAIT_ADAPTIVE },
	{ "DFI_WAIT", "spin", DFI_WAIT_SPIN },
	{ "DFI_WAIT", "block", DFI_WAIT_BLOCK },
	{ "DFI_HUGE_PAGES", "try", HUGE_PAGES_TRY },
	{ "DFI_HUGE_PAGES", "never", HUGE_PAGES_NEVER },
	{ "DFI_HUGE_PAGES", "require", HUGE_PAGES_REQUIRE },
};

static int invalid(const char *variable, const char *value, const char *help)
{
	return dfi__fail(
	    -EINVAL, "%s=%s is not valid: it is the %s", variable, value, help);
}

static int read_text(
    const char *variable, const char *value, const char *help, const char **out)
{
	(void)variable;
	(void)help;
	*out = value;
	return 0;
}

static int read_size(
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
	    !isdigit((unsigned char)value[0]) || !number ||
	    number > UINT64_MAX >> shift)
		return invalid(variable, value, help);
	*out = (uint64_t)number << shift;
	return 0;
}

static int read_ms(
    const char *variable, const char *value, const char *help, uint32_t *out)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(value, &end, 10);
	if (errno || end == value || *end ||
	    !isdigit((unsigned char)value[0]) || !number || number > INT32_MAX)
		return invalid(variable, value, help);
	*out = (uint32_t)number;
	return 0;
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

int dfi__settings_load(struct settings *settings)
{
	const char *value;
	int ret;

#define X(kind, member, variable, initial, help)                     \
	value = getenv(variable);                                    \
	if (!value || !*value)                                       \
		value = initial;                                     \
	ret = read_##kind(variable, value, help, &settings->member); \
	if (ret < 0)                                                 \
		return ret;
	DFI_SETTINGS(X)
#undef X
	return 0;
}
