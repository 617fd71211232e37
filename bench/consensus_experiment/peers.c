/* SPDX-License-Identifier: Apache-2.0 */
/*
 * consensus_peers: puts the load of dfi-kv-load on the stores to compare with,
 * if their libraries are installed. README.md here describes it.
 */
#include "../../examples/consensus/load_main.h"
#include "peers.h"

int main(int argc, char **argv)
{
	static const struct load_backend *const stores[] = {
#ifdef PEERS_ETCD
		&etcd_backend,
#endif
#ifdef PEERS_REDIS
		&redis_backend,
#endif
		NULL,
	};

	return load_main(argc, argv,
	    "Put load on a store that the replicated store of DFI is compared "
	    "with.",
	    stores);
}
