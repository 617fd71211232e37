/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of libdfi.so: transports with a network are modules. */
#include "modules/module.h"
#include "transports.h"

static int load(
    struct module_location *location, const struct transport_ops **ops)
{
	const void *table;
	int ret = dfi__module_open(location, &table);

	*ops = table;
	return ret;
}

static int load_verbs(const struct transport_ops **ops)
{
	static struct module_location location = {
		.file = "libdfi-verbs.so",
		.what = "transport verbs (RDMA)",
		.option = "DFI_VERBS",
		.packages = "libibverbs1 and librdmacm1",
		.abi = MODULE_ABI(struct transport_ops),
	};

	return load(&location, ops);
}

static int load_ofi(const struct transport_ops **ops)
{
	static struct module_location location = {
		.file = "libdfi-ofi.so",
		.what = "transport ofi (libfabric)",
		.option = "DFI_OFI",
		.packages = "libfabric1",
		.abi = MODULE_ABI(struct transport_ops),
	};

	return load(&location, ops);
}

const struct transport_row dfi__transports[] = {
	{ .name = "shm", .choice = DFI_TRANSPORT_SHM, .ops = &dfi__shm_ops },
	{ .name = "verbs", .choice = DFI_TRANSPORT_VERBS, .load = load_verbs },
	{ .name = "ofi",
	    .choice = DFI_TRANSPORT_OFI,
	    .load = load_ofi,
	    .processor_adds = true },
	{ .name = NULL },
};

const enum footer_side dfi__footer_side = FOOTER_BEHIND;
