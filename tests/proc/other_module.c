/* SPDX-License-Identifier: Apache-2.0 */
/* A module that was built for another version of DFI. */
#include <stdlib.h>
#include "modules/module.h"

static void use(const struct services *services)
{
	(void)services;
	abort(); /* libdfi.so must not get this far */
}

const struct module dfi_module = {
	.abi = { MODULE_INTERFACE + 1, { 9, 8, 7 }, 6, 5 },
	.table = NULL,
	.use = use,
};
