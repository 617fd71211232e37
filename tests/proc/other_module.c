/* SPDX-License-Identifier: Apache-2.0 */
/* A module that was built for another version of DFI. */
#include "modules/module.h"

const struct module dfi_module = {
	.abi = { MODULE_INTERFACE + 1, { 9, 8, 7 }, 6, 5 },
	.table = NULL,
	.services = NULL, /* libdfi.so must not get this far */
};
