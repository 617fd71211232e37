/* SPDX-License-Identifier: Apache-2.0 */
/* dfi-kv-load: puts load on a replicated store that runs. */
#include "load_kv.h"
#include "load_main.h"

int main(int argc, char **argv)
{
	static const struct load_backend *const stores[] = {
		&load_kv,
		&load_kv_index,
		NULL,
	};

	return load_main(argc, argv,
	    "Put load on a replicated store, and print its throughput and "
	    "latencies.",
	    stores);
}
