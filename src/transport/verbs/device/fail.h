/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the operating system and of rdma-core's libraries, as texts. */
#ifndef DFI_TRANSPORT_VERBS_DEVICE_FAIL_H
#define DFI_TRANSPORT_VERBS_DEVICE_FAIL_H

#include <stdint.h>

struct verbs_device;

/* Where something fails, for its text: the device and port, with its GID if one
 * is known and the network is involved. */
struct verbs_place {
	char text[128];
};
struct verbs_place dfi__verbs_port(const struct verbs_device *device);
struct verbs_place dfi__verbs_gid(const struct verbs_device *device);

/*
 * -EMFILE with a text, if what failed with this errno value did so because no
 * descriptors are left; else 0.
 */
int dfi__verbs_check_files(const char *what, int err);

/* The error of what failed with this errno value: -EMFILE, -ENOMEM, -EIO. The
 * place may be NULL. */
int dfi__verbs_fail_os(
    const struct verbs_place *place, const char *what, int err);

/* Of a call that is for one queue, region or event of a device. */
int dfi__verbs_fail_port(
    const struct verbs_device *device, const char *what, int err);

/* For memory of this many bytes that a device can't have. */
int dfi__verbs_fail_register(
    const struct verbs_device *device, uint64_t size, int err);

/* Of a call of rdma_cm, which has to do with addresses. */
int dfi__verbs_fail_cm(
    const struct verbs_device *device, const char *what, int err);

#endif
