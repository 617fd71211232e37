/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd as the registry where libcurl and jansson are not linked in: the
 * function of etcd.h, which calls the module's. A libdfi.a without etcd has no
 * module either.
 */
#include <errno.h>
#include <stddef.h>
#include "base/error.h"
#include "etcd.h"

#if DFI_MODULES
#include "modules/module.h"

static int load(const struct etcd_ops **ops)
{
	static struct module_location location = {
		.file = "libdfi-etcd.so",
		.what = "etcd as the registry",
		.option = "DFI_ETCD",
		.packages = "libcurl4 and libjansson4",
		.abi = MODULE_ABI(struct etcd_ops),
	};
	const void *table;
	int ret = dfi__module_open(&location, &table);

	*ops = table;
	return ret;
}
#else
static int load(const struct etcd_ops **ops)
{
	*ops = NULL;
	return dfi__fail(-ENODEV,
	    "etcd as the registry: this library has none: build DFI with "
	    "-DDFI_ETCD=ON and, for libdfi.a, with -DDFI_STATIC_ALL=ON");
}
#endif

int dfi__etcd_open(struct loop *loop, const char *address,
    const struct registry_security *security, uint32_t lease_ttl_ms,
    int64_t deadline, struct registry_client **client)
{
	const struct etcd_ops *ops;
	int ret = load(&ops);

	return ret < 0 ? ret
		       : ops->etcd_open(loop, address, security, lease_ttl_ms,
			     deadline, client);
}
