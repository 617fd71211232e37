/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices: which one of this host and which of its addresses are used, and
 * what it can hold.
 */
#ifndef DFI_TRANSPORT_VERBS_DEVICE_DEVICE_H
#define DFI_TRANSPORT_VERBS_DEVICE_DEVICE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/ip.h"

struct dfi_device_info;
struct settings;

/*
 * Receives, and so segments that may arrive at once: how many are posted at
 * first, how many more at a time if rings need them, and the largest number,
 * which takes 3 MiB with its queues.
 */
#define VERBS_RECEIVES 4096
#define VERBS_MAX_RECEIVES (4 * VERBS_RECEIVES)

/* Requests that may be under way on a connection; devices may allow fewer. */
#define VERBS_SENDS 512

/* The smallest number of either with which connections work properly. */
#define VERBS_LEAST 64

/* Bytes to send inline, as requested; devices may allow fewer. */
#define VERBS_INLINE 128

/* Parts of memory in a write. */
#define VERBS_PARTS 2

/* What a device allows, at most what we request. */
struct verbs_limits {
	uint32_t sends;    /* work requests under way on a connection */
	uint32_t receives; /* posted to the shared queue */
	uint8_t reads; /* including atomic operations, under way; at most 1 */
	bool atomics;  /* it supports them */
};

/* An address of this host at which a device can be used. */
struct verbs_device {
	union ip address;
	char address_text[IP_TEXT_SIZE];
	unsigned network_bits; /* of the address: those of its network */
	uint32_t interface;    /* index of the network interface */
	/* The GID of its traffic, and its index; -1: unknown. */
	char gid[40];
	int32_t gid_index;
	char name[64]; /* the device's */
	uint8_t port;
	struct verbs_limits limits;
	struct ibv_context *context;
};

/* An address of this host, of a network interface that is up. */
struct verbs_candidate {
	struct verbs_device device; /* name "": no device has the address */
	const char *interface;
	bool loopback;
	bool wanted;     /* the settings name no other address */
	const char *why; /* why it can't be used; NULL: it can */
};

/*
 * Call fn for each address of this host; a non-zero return of fn ends the loop
 * and is returned. -ENODEV: no RDMA at all. -EOWNERDEAD: in a forked child.
 */
int dfi__verbs_candidates(const struct settings *settings,
    int (*fn)(void *arg, const struct verbs_candidate *candidate), void *arg);

/*
 * Find this host's address on the route to a peer, "tcp:ADDRESS:PORT", such as
 * the registry, which all members reach; false: there is none.
 */
bool dfi__verbs_preferred(const char *route_to, union ip *preferred);

/* transport_ops.n_devices(). */
uint32_t dfi__verbs_n_devices(const struct settings *settings);

/*
 * The device and address of that number in the settings, or the one on the
 * route to a peer, or the first active one: of IPv4, then of IPv6, then
 * link-local. -ENODEV says what is there and why it can't be used.
 */
int dfi__verbs_choose(const struct settings *settings, uint32_t number,
    const char *route_to, struct verbs_device *device);

/* What to request from a device. Returns NULL, or why it can't be used. */
const char *dfi__verbs_limits(
    const struct ibv_device_attr *attr, struct verbs_limits *limits);

/*
 * Create a channel whose events are read without waiting. librdmacm consumes
 * some events itself; in a blocking channel it then waits for the next one.
 */
int dfi__verbs_channel(
    const struct verbs_device *device, struct rdma_event_channel **channel);

/* transport_ops.devices() (device_list.c). */
int dfi__verbs_list(const struct settings *settings,
    int (*fn)(void *arg, const struct dfi_device_info *info), void *arg);

#endif
