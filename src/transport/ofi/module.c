/* SPDX-License-Identifier: Apache-2.0 */
/* The transport on libfabric as a module, libdfi-ofi.so. */
#include "modules/module.h"
#include "transport/transport.h"

const struct module dfi_module = {
	.abi = MODULE_ABI(struct transport_ops),
	.table = &dfi__ofi_ops,
	.services = &dfi__module_services,
};
