/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of settings for callers: the values of the environment, overridden
 * by the attributes of a context.
 */
#include <dfi/setting.h>

#include <stdio.h>
#include <string.h>
#include <dfi/context.h>
#include <dfi/registry.h>
#include "base/attr.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/settings.h"

struct listing {
	struct dfi_attr attr;
	char open_timeout_ms[16], lease_ms[16];
	int (*fn)(void *arg, const struct dfi_setting_info *info);
	void *arg;
};

static bool names_files(const struct dfi_attr *attr)
{
	return attr->registry_key || attr->registry_ca || attr->registry_cert ||
	    attr->registry_private_key;
}

/* Whether the attributes override a setting, and the value they set. */
static bool overrides(
    struct listing *listing, const char *variable, const char **value)
{
	const struct dfi_attr *attr = &listing->attr;
	const struct {
		const char *variable;
		const char *value;
		bool decides;
	} members[] = {
		{ "DFI_REGISTRY", attr->registry, attr->registry },
		/* Any of these attributes replaces all of these variables. */
		{ "DFI_REGISTRY_KEY", attr->registry_key, names_files(attr) },
		{ "DFI_REGISTRY_CA", attr->registry_ca, names_files(attr) },
		{ "DFI_REGISTRY_CERT", attr->registry_cert, names_files(attr) },
		{ "DFI_REGISTRY_PRIVATE_KEY", attr->registry_private_key,
		    names_files(attr) },
		{ "DFI_REGISTRY_INSECURE", "1",
		    attr->registry_flags & DFI_REGISTRY_INSECURE },
		{ "DFI_OPEN_TIMEOUT", listing->open_timeout_ms,
		    attr->open_timeout_ms },
		{ "DFI_LEASE", listing->lease_ms, attr->lease_ttl_ms },
	};
	size_t i;

	for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		if (!members[i].decides ||
		    strcmp(members[i].variable, variable) != 0)
			continue;
		*value = members[i].value;
		return true;
	}
	return false;
}

static int add(void *arg, const struct setting *setting)
{
	struct listing *listing = arg;
	struct dfi_setting_info info = {
		.variable = setting->variable,
		.value = setting->value,
		.initial = setting->initial,
		.help = setting->help,
		.origin = setting->in_environment ? DFI_SETTING_ENVIRONMENT
						  : DFI_SETTING_DEFAULT,
	};

	/*
	 * An invalid value fails dfi_open(), even if an attribute overrides it.
	 */
	if (setting->ret < 0)
		info.error = dfi_errmsg();
	else if (overrides(listing, setting->variable, &info.value))
		info.origin = DFI_SETTING_ATTRIBUTE;
	return listing->fn(listing->arg, &info);
}

int dfi_setting_list(const struct dfi_attr *attr,
    int (*fn)(void *arg, const struct dfi_setting_info *info), void *arg)
{
	struct listing listing = { .fn = fn, .arg = arg };
	int ret;
	CANCEL_POINT;

	if (!fn)
		return dfi__fail(-EINVAL, "dfi_setting_list: fn is NULL");
	ret = dfi__attr_load(
	    &listing.attr, sizeof(listing.attr), attr, "dfi_attr");
	if (ret < 0)
		return ret;
	snprintf(listing.open_timeout_ms, sizeof(listing.open_timeout_ms), "%u",
	    listing.attr.open_timeout_ms);
	snprintf(listing.lease_ms, sizeof(listing.lease_ms), "%u",
	    listing.attr.lease_ttl_ms == DFI_NO_LEASE
		? 0
		: listing.attr.lease_ttl_ms);
	return dfi__settings_each(add, &listing);
}
