/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA devices of this host, as the library sees them: which one a context
 * would use for flows to other hosts, and why another can't be used. Needs no
 * context and no registry; "dfi-info devices" shows it.
 */
#ifndef DFI_DEVICE_H
#define DFI_DEVICE_H

#include <stdint.h>
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A port of a device, with one of its IP addresses. What could not be learnt
 * is "" or 0.
 */
struct dfi_device_info {
	char device[64];     /* "mlx5_0" */
	char state[16];      /* of the port: "active", "down", "init", ... */
	char link_layer[16]; /* "InfiniBand", "Ethernet" */
	char interface[16];  /* the network interface that has the address */
	char address[48];    /* IPv4 or IPv6; "": the port has none */
	char gid[40];        /* that traffic from the address uses; over
				Ethernet the RoCE v2 one of that address; "":
				there is none */
	char reason[256];    /* why it can't be used; "": it can */
	uint32_t port;       /* from 1 */
	uint32_t mtu;        /* active MTU in bytes */
	int32_t gid_index;   /* of gid; -1: none */
	uint32_t chosen; /* 1: a context takes this one; at most one has it */
};

/*
 * Call fn for each port of each RDMA device of this host and each IP address
 * that it has, once for a port without any, in the order of the kernel's list.
 * DFI_VERBS_DEVICE and DFI_VERBS_ADDRESS count: what they exclude can't be
 * used. Without them the address on the route to DFI_REGISTRY, if set, is
 * chosen, else the first one: of IPv4, then of IPv6, link-local ones last. A
 * non-zero return of fn ends the call, which returns it. info is valid during
 * the call of fn only. Any thread; it takes some milliseconds, and counts as a
 * use of RDMA: a child of a later fork() can't use it.
 *
 * -EINVAL: fn is NULL, or a variable of the environment has a value that it
 * can't have. -ENODEV: this host has no RDMA device, or no driver for any; the
 * text says what is missing. -EOWNERDEAD: a process used RDMA before it forked
 * this one. -ENOMEM, -EIO.
 */
DFI_API int dfi_device_list(
    int (*fn)(void *arg, const struct dfi_device_info *info), void *arg);

#ifdef __cplusplus
}
#endif

#endif
