/* SPDX-License-Identifier: Apache-2.0 */
/* The provider of libfabric, and texts for its errors: fabric.c. */
#ifndef DFI_TRANSPORT_OFI_FABRIC_H
#define DFI_TRANSPORT_OFI_FABRIC_H

#include "ofi.h"

struct dfi_device_info;

/* The descriptors of an instance, without connections. */
#define OFI_FILES 12

/* Where a call failed, for its error text: the provider and the address. */
struct ofi_location {
	char text[112];
};
struct ofi_location dfi__ofi_location(const struct ofi *ofi);

/* The error of a call that returned err: -EMFILE, -ENOMEM or -EIO. */
int dfi__ofi_fail(const struct ofi *ofi, const char *what, int err);

/*
 * Run fn(arg) in a thread of its own, and return its result and its error text.
 * libfabric may need more stack than the caller's thread has.
 */
int dfi__ofi_apart(int (*fn)(void *arg), void *arg);

/* Set the address and host that settings and route say, without a port. */
void dfi__ofi_choose_address(struct ofi *ofi, const char *route_to);
bool dfi__ofi_is_loopback(const union ip *ip);

/*
 * Find what the provider offers at the address of a struct ofi: ofi->info.
 * -ENODEV, -ENOMEM, -EMFILE, -EIO. For dfi__ofi_apart().
 */
int dfi__ofi_find(void *ofi);

/*
 * Open the provider at the address that settings and route say, and listen.
 * -ENODEV, -EMFILE, -EIO.
 */
int dfi__ofi_open(struct ofi *ofi, const char *route_to);

/* A peer is connected: warn once that tuples are plain text, if off loopback.
 */
void dfi__ofi_warn(const struct ofi *ofi);
void dfi__ofi_close(struct ofi *ofi);

/* What an endpoint to a peer needs; free it by fi_freeinfo(). -EHOSTUNREACH. */
int dfi__ofi_info(
    const struct ofi *ofi, const union ip *peer, struct fi_info **info);

/*
 * Have exec() and forked children close the socket between two addresses, which
 * the provider has opened: it would outlive this process in them. peer NULL:
 * the one that listens. Returns its descriptor, for dfi__fork_remove(), or -1:
 * it is not found.
 */
int dfi__ofi_own_socket(const union ip *local, const union ip *peer);

/* transport_ops.devices() (list.c). */
int dfi__ofi_list(const struct settings *settings,
    int (*fn)(void *arg, const struct dfi_device_info *info), void *arg);

#endif
