/* SPDX-License-Identifier: Apache-2.0 */
/* The provider and the address that a context would use, for users. */
#include "fabric.h"

#include <errno.h>
#include <stdio.h>
#include <dfi/device.h>
#include "base/error.h"
#include "base/files.h"

int dfi__ofi_list(const struct settings *settings,
    int (*fn)(void *arg, const struct dfi_device_info *info), void *arg)
{
	struct dfi_device_info info = { .transport = "ofi", .gid_index = -1 };
	struct ofi ofi = { .settings = settings };
	int ret;

	dfi__ofi_choose_address(&ofi, settings->registry);
	snprintf(
	    info.device, sizeof(info.device), "%s", settings->ofi_provider);
	snprintf(info.address, sizeof(info.address), "%s", ofi.host);
	info.plain_text = !dfi__ofi_is_loopback(&ofi.address);
	dfi__files_take_standard();
	ret = dfi__ofi_apart(dfi__ofi_find, &ofi);
	dfi__files_free_standard();
	if (ret < 0 && ret != -ENODEV)
		return ret;
	if (ret < 0)
		snprintf(info.reason, sizeof(info.reason), "%s", dfi_errmsg());
	else
		snprintf(info.interface, sizeof(info.interface), "%s",
		    ofi.info->domain_attr->name);
	info.chosen = !ret;
	fi_freeinfo(ofi.info);
	return fn(arg, &info);
}
