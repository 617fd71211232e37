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
#include "base/error.h"
#include "flows/descriptor/descriptor.h"

struct dfi;
struct network;

/* The most devices that a context uses, and of those, that serve it. */
#define NETWORK_DEVICES 16
#define NETWORK_SERVES (REGION_MAX_ADDRESSES - 1)

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

/* Transports by which peers reach this process, the best first. */
struct network_list {
	struct transport *at[NETWORK_SERVES];
	unsigned n;
	char why[ENDPOINT_WHY_SIZE]; /* why there are no more, or "" */
};

/*
 * Start all transports that serve this process: of each row that the choice
 * allows (transports.h), those of the devices that the settings name. Any
 * thread. If there is none, the first one's error, with all texts.
 */
int dfi__network_open_all(
    struct dfi *dfi, enum dfi_transport choice, struct network_list *list);

/*
 * Start those that an endpoint of an open flow will need, which may take most
 * of a second, before it takes its seat and others count on it: in a hand-over
 * its partitions would wait. A source that may do without starts none. Errors
 * show when a pair is made.
 */
void dfi__network_prepare(
    struct dfi *dfi, const struct flow *flow, bool is_target);

/* The first of them. */
int dfi__network_open(
    struct dfi *dfi, enum dfi_transport choice, struct transport **transport);

/* One with multicast; -EOPNOTSUPP: the transport has none. */
int dfi__network_open_multicast(struct dfi *dfi, struct transport **transport);

/* How many there would be at most; starts none, but loads modules. */
uint32_t dfi__network_count(struct dfi *dfi, enum dfi_transport choice);

/* A transport, and the address of a region that it can open. */
struct network_way {
	struct transport *transport;
	const struct region_address *address;
};

struct network_ways {
	struct network_way at[NETWORK_SERVES];
	unsigned n;
	const struct transport_row *last; /* their transport */
	bool more;                 /* a later one may have more of them */
	char why[ERROR_TEXT_SIZE]; /* why earlier ones have none, or "" */
};

/*
 * The ways to a region that has a network address, of the first transport in
 * the table, behind after if that isn't NULL, that has any: its addresses that
 * a device of this process reaches, in turn by ring. If there is no such
 * transport, those that none seems to reach. Any thread. -EHOSTUNREACH: the
 * choice allows none; or the first one's error.
 */
int dfi__network_ways(struct dfi *dfi, enum dfi_transport choice,
    const struct published_region *published, uint32_t ring,
    const struct transport_row *after, struct network_ways *ways);

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
