/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd as the registry: its keys, leases and watches, through the gateway that
 * speaks JSON over HTTP. It is a module, libdfi-etcd.so, with a table of one
 * function; libdfi.a has the function itself.
 */
#ifndef DFI_REGISTRY_ETCD_ETCD_H
#define DFI_REGISTRY_ETCD_ETCD_H

#include "registry/client/ops.h"

#define ETCD_SCHEME "etcd:"

/*
 * dfi__client_open() for an address that begins with ETCD_SCHEME. A lease has
 * whole seconds, and at least as many as etcd wants; 0: ETCD_TTL_MS. -EPERM:
 * an endpoint is not at a loopback address, and there is no TLS or no user.
 * -ENODEV: there is no module.
 */
int dfi__etcd_open(struct loop *loop, const char *address,
    const struct registry_security *security, uint32_t lease_ttl_ms,
    int64_t deadline, struct registry_client **client);

#define ETCD_TTL_MS 5000

/* What the module has. */
struct etcd_ops {
	__typeof__(dfi__etcd_open) *etcd_open;
};

#endif
