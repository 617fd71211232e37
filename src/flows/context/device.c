/* SPDX-License-Identifier: Apache-2.0 */
/* The list of RDMA devices, for callers without a context. */
#include <dfi/device.h>

#include "base/cancel.h"
#include "base/error.h"
#include "base/settings.h"
#include "transport/transports.h"

int dfi_device_list(
    int (*fn)(void *arg, const struct dfi_device_info *info), void *arg)
{
	const struct transport_row *row = dfi__transports;
	const struct transport_ops *ops;
	struct settings settings;
	int ret;
	CANCEL_POINT;

	if (!fn)
		return dfi__fail(-EINVAL, "dfi_device_list: fn is NULL");
	ret = dfi__settings_load(&settings);
	if (ret < 0)
		return ret;
	for (; row->name; row++) {
		ret = transport_table(row, &ops);
		if (ret < 0)
			return ret;
		if (ops->devices)
			return ops->devices(&settings, fn, arg);
	}
	return dfi__fail(
	    -ENODEV, "dfi_device_list: no transport of this library uses any");
}
