/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for errors of the operating system and of rdma-core's libraries. */
#ifndef DFI_TRANSPORT_VERBS_DEVICE_FAIL_H
#define DFI_TRANSPORT_VERBS_DEVICE_FAIL_H

#include <stdint.h>

struct verbs_device;

/*
 * Where a call failed, for its error text: the device and port, with the GID if
 * one is known and the network is involved.
 */
struct verbs_location {
	char text[128];
};
struct verbs_location dfi__verbs_port(const struct verbs_device *device);
struct verbs_location dfi__verbs_gid(const struct verbs_device *device);

/*
 * Check a call that failed with this errno value: -EMFILE with a text if it
 * lacked descriptors, else 0.
 */
int dfi__verbs_check_files(const char *what, int err);

/*
 * The error of a call that failed with this errno value: -EMFILE, -ENOMEM or
 * -EIO. The location may be NULL.
 */
int dfi__verbs_fail_os(
    const struct verbs_location *location, const char *what, int err);

/* The same for a call that concerns one queue, region or event of a device. */
int dfi__verbs_fail_port(
    const struct verbs_device *device, const char *what, int err);

/* The same for memory of this many bytes that a device can't have. */
int dfi__verbs_fail_register(
    const struct verbs_device *device, uint64_t size, int err);

/* The same for a call of rdma_cm, which concerns addresses. */
int dfi__verbs_fail_cm(
    const struct verbs_device *device, const char *what, int err);

#endif
