/* SPDX-License-Identifier: Apache-2.0 */
/* TLS and message authentication as a module, libdfi-tls.so. */
#include "modules/module.h"
#include "ops.h"

static const struct security_ops ops = {
	.tls_create = dfi__tls_create,
	.tls_destroy = dfi__tls_destroy,
	.tls_stream = dfi__tls_stream,
	.tls_check = dfi__tls_check,
	.tls_failure = dfi__tls_failure,
	.mac_ready = dfi__mac_ready,
	.mac_make = dfi__mac_make,
	.mac_check = dfi__mac_check,
};

const struct module dfi_module = {
	.abi = MODULE_ABI(ops),
	.table = &ops,
	.services = &dfi__module_services,
};
