/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of all networks, for callers without a context. */
#include <dfi/device.h>

#include <errno.h>
#include <stdio.h>
#include "base/cancel.h"
#include "base/error.h"
#include "base/settings.h"
#include "transport/table.h"

struct list {
	int (*fn)(void *arg, const struct dfi_device_info *info);
	void *arg;
	int stopped; /* what fn returned */
};

static int report(void *arg, const struct dfi_device_info *info)
{
	struct list *list = arg;

	list->stopped = list->fn(list->arg, info);
	return list->stopped;
}

/* The error text says why the transport has no devices. */
static int report_none(struct list *list, const char *transport)
{
	struct dfi_device_info info = { .gid_index = -1 };

	snprintf(info.transport, sizeof(info.transport), "%s", transport);
	snprintf(info.reason, sizeof(info.reason), "%s", dfi_errmsg());
	return report(list, &info);
}

int dfi_device_list(
    int (*fn)(void *arg, const struct dfi_device_info *info), void *arg)
{
	struct list list = { .fn = fn, .arg = arg };
	const struct transport_row *row = dfi__transports;
	const struct transport_ops *ops;
	struct settings settings;
	int ret;
	CANCEL_POINT;

	if (!fn)
		return dfi__fail(-EINVAL, "dfi_device_list: fn is NULL");
	ret = dfi__settings_load(&settings);
	for (; !ret && row->name; row++) {
		ret = transport_table(row, &ops);
		if (!ret && ops->devices)
			ret = ops->devices(&settings, report, &list);
		if (ret == -ENODEV && !list.stopped)
			ret = report_none(&list, row->name);
	}
	return ret;
}
