/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd as the registry where libcurl and jansson are not linked in: the
 * function of etcd.h, which calls the module's. A libdfi.a without etcd has no
 * module either.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include "base/atomic.h"
#include "base/error.h"
#include "etcd.h"

#if DFI_MODULES
#include "modules/module.h"

/* NULL: not opened yet. load() publishes it after the module got its services.
 */
static _Atomic(const struct etcd_ops *) loaded;

static int load(const struct etcd_ops **ops)
{
	static const struct module_location location = {
		.file = "libdfi-etcd.so",
		.what = "etcd as the registry",
		.option = "DFI_ETCD",
		.packages = "libcurl4 and libjansson4",
		.abi = MODULE_ABI(struct etcd_ops),
	};
	const void *table;
	int ret;

	*ops = atomic_observe(&loaded); /* pairs with the publish below */
	if (*ops)
		return 0;
	ret = dfi__module_open(&location, &table);
	if (ret < 0)
		return ret;
	*ops = table;
	atomic_publish(&loaded, *ops); /* protects nothing that load() writes */
	return 0;
}
#else
static int load(const struct etcd_ops **ops)
{
	*ops = NULL;
	return dfi__fail(-ENODEV,
	    "etcd as the registry: this library has none: libdfi.so has one if "
	    "it was built with -DDFI_ETCD=ON, libdfi.a never");
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
