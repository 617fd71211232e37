/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA devices of this host: which one a context would use for flows to
 * other hosts, and why it can't use another. Needs no context; "dfi-info
 * devices" shows it.
 */
#ifndef DFI_DEVICE_H
#define DFI_DEVICE_H

#include <stdint.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

/* A port of a device with one of its IP addresses. "" or 0: not known. */
struct dfi_device_info {
	char device[64];     /* "mlx5_0" */
	char state[16];      /* of the port: "active", "down", "init", ... */
	char link_layer[16]; /* "InfiniBand", "Ethernet" */
	char interface[16];  /* the network interface that has the address */
	char address[48];    /* IPv4 or IPv6; "": the port has none */
	char gid[40];        /* of traffic from the address, over Ethernet
				that of RoCE v2; "": there is none */
	char reason[256];    /* why it can't be used; "": it can */
	uint32_t port;       /* from 1 */
	uint32_t mtu;        /* active MTU in bytes */
	int32_t gid_index;   /* of gid; -1: none */
	uint32_t chosen;     /* 1: a context takes this one */
};

/*
 * Call fn for each IP address of each port of each RDMA device, once for a port
 * without any, in the kernel's order. DFI_VERBS_DEVICE and DFI_VERBS_ADDRESS
 * exclude others, and each that they name is chosen. Without them the chosen
 * address is the one on the route to
 * DFI_REGISTRY, if that is set, else the first of IPv4, of IPv6, of link-local
 * ones. Any thread. It takes some milliseconds, and counts as a use of RDMA: a
 * child of a later fork() can't use it.
 *
 * -EINVAL: also, a setting is not valid. -ENODEV: there is no RDMA device, no
 * driver for one, or no libdfi-verbs.so; the text says what is missing.
 */
DFI_API int dfi_device_list(
    int (*fn)(void *arg, const struct dfi_device_info *info), void *arg);

DFI_END_DECLS

#endif
