/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this host reaches others: its RDMA devices, which one a context would
 * use, and why it can't use another; and the provider of libfabric. Needs no
 * context; "dfi-info devices" shows it.
 */
#ifndef DFI_DEVICE_H
#define DFI_DEVICE_H

#include <stdint.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

/*
 * A port of an RDMA device with one of its IP addresses; or a provider of
 * libfabric with the address at which a context listens. "" or 0: not known.
 */
struct dfi_device_info {
	char transport[16];  /* "verbs" (RDMA), "ofi" (libfabric) */
	char device[64];     /* "mlx5_0", "tcp"; "": the transport has none */
	char state[16];      /* of the port: "active", "down", "init", ... */
	char link_layer[16]; /* "InfiniBand", "Ethernet" */
	char interface[16];  /* the network interface that has the address */
	char address[48];    /* IPv4 or IPv6; "": the port has none */
	char gid[40];        /* of traffic from the address, over Ethernet
				that of RoCE v2; "": there is none */
	char reason[512];    /* why it can't be used; "": it can */
	uint32_t port;       /* from 1 */
	uint32_t mtu;        /* active MTU in bytes */
	int32_t gid_index;   /* of gid; -1: none */
	uint32_t chosen;     /* 1: a context takes this one */
	uint32_t plain_text; /* 1: tuples leave this host unencrypted */
};

/*
 * Call fn for each IP address of each port of each RDMA device, once for a port
 * without any, in the kernel's order; then for DFI_OFI_PROVIDER. Of a transport
 * without device, driver or module, one call has the reason. DFI_VERBS_DEVICE
 * and DFI_VERBS_ADDRESS exclude others, and each that they name is chosen. Else
 * the address on the route to DFI_REGISTRY is, if that is set; else the first
 * of IPv4, of IPv6, of link-local ones. Any thread. It takes up to a second,
 * and counts as a use of RDMA: a child of a later fork() can't use it.
 *
 * Returns what fn returns if that is not 0. -EINVAL: also, a setting is not
 * valid.
 */
DFI_API int dfi_device_list(
    int (*fn)(void *arg, const struct dfi_device_info *info), void *arg);

DFI_END_DECLS

#endif
