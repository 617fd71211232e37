/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs transport as a module, libdfi-verbs.so. */
#include "modules/module.h"
#include "transport/transport.h"

const struct module dfi_module = {
	.abi = MODULE_ABI(struct transport_ops),
	.table = &dfi__verbs_ops,
	.services = &dfi__module_services,
};
