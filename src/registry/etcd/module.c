/* SPDX-License-Identifier: Apache-2.0 */
/* etcd as the registry as a module, libdfi-etcd.so. */
#include "modules/module.h"
#include "etcd.h"

static const struct etcd_ops ops = {
	.etcd_open = dfi__etcd_open,
};

const struct module dfi_module = {
	.abi = MODULE_ABI(ops),
	.table = &ops,
	.services = &dfi__module_services,
};
