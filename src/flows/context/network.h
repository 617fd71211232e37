/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context's access to other hosts: its network transports, which start when
 * an endpoint first needs one, and the node table. Only members of the registry
 * may connect.
 */
#ifndef DFI_FLOWS_CONTEXT_NETWORK_H
#define DFI_FLOWS_CONTEXT_NETWORK_H

#include <stdbool.h>
#include <stdint.h>
#include <dfi/flow.h>

struct dfi;
struct flow;
struct network;
struct region_address;
struct transport;

/* The most devices that a context uses. */
#define NETWORK_DEVICES 16

/* Starts no transport. registry: its address. -ENOMEM, -EIO. */
int dfi__network_new(
    struct dfi *dfi, const char *registry, struct network **network);

/*
 * Take leave of peers; see transport_ops.leave(). Before the
 * registry's client leaves, when no endpoint is open. Not on the control
 * thread.
 */
void dfi__network_leave(struct network *network, int64_t deadline);

/*
 * Call it before the registry's client closes, when no endpoint is open. On the
 * control thread.
 */
void dfi__network_free(struct network *network);

/* The token that proves this process's membership: MEMBER_TOKEN_SIZE bytes. */
const uint8_t *dfi__network_token(const struct network *network);

/*
 * The transport that this context uses for a flow: the flow's own, or the
 * setting if the flow has the default. Never DFI_TRANSPORT_DEFAULT.
 */
enum dfi_transport dfi__network_choice(
    const struct dfi *dfi, const struct flow *flow);

/*
 * Whether sources of the flow may write from other hosts, or must use a network
 * even on one host.
 */
bool dfi__network_may_be_needed(const struct dfi *dfi, const struct flow *flow);

/*
 * The transport that reaches this host's targets, by a choice that is not
 * shared memory. The first call starts it: the first in the table (transport.h)
 * that the choice allows and that finds a device. Any thread may call this and
 * the next two functions.
 */
int dfi__network_open(
    struct dfi *dfi, enum dfi_transport choice, struct transport **transport);

/* One with multicast; -EOPNOTSUPP: the transport has none. */
int dfi__network_open_multicast(struct dfi *dfi, struct transport **transport);

/*
 * The transport by which a source reaches the target at an address: of the
 * address's kind, the one whose device is on the route, else the first one.
 */
int dfi__network_reach(struct dfi *dfi, const struct region_address *address,
    struct transport **transport);

/*
 * Check that a transport can write this flow's rings: 0, or -EPROTO. The
 * flow may have been created by a library with other transports.
 */
int dfi__network_serves(
    const struct transport *transport, const struct flow *flow);

/* The name of the network for error texts while no transport has started. */
const char *dfi__network_name(void);

/*
 * Write why other hosts can't reach what a process offers: its transport is
 * choice, and dfi__network_may_be_needed() says no.
 */
void dfi__network_why_none(
    enum dfi_transport choice, char *why, size_t why_size);

/* dfi_context_query() without its checks. */
int dfi__network_query(struct network *network,
    int (*fn)(void *arg, const struct dfi_transport_stats *stats), void *arg);

/*
 * Get the counters of all devices on the control thread, which starts
 * transports: no start runs meanwhile. Returns their number.
 */
uint32_t dfi__network_query_now(
    struct network *network, struct dfi_transport_stats stats[NETWORK_DEVICES]);

#endif
