/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context's way to other hosts: a transport of networks, started when an
 * endpoint first needs it, and the members of the registry, who alone may
 * connect.
 */
#ifndef DFI_FLOWS_CONTEXT_NETWORK_H
#define DFI_FLOWS_CONTEXT_NETWORK_H

#include <stdbool.h>
#include <stdint.h>
#include <dfi/flow.h>

struct dfi;
struct dfi_context_stats;
struct flow;
struct network;
struct region_address;
struct transport;

/* Nothing is started yet. registry: its address. -ENOMEM, -EIO. */
int dfi__network_new(
    struct dfi *dfi, const char *registry, struct network **network);

/* Before the registry's client is closed. No endpoint is open any more. */
void dfi__network_free(struct network *network);

/* What this process proves its membership with; MEMBER_TOKEN_SIZE bytes. */
const uint8_t *dfi__network_token(const struct network *network);

/*
 * What is to be used for a flow by this context: the flow's transport, or the
 * setting if it leaves that open; never DFI_TRANSPORT_DEFAULT.
 */
enum dfi_transport dfi__network_choice(
    const struct dfi *dfi, const struct flow *flow);

/*
 * Whether sources of the flow may write from other hosts, or must use a network
 * anyhow.
 */
bool dfi__network_may_be_needed(const struct dfi *dfi, const struct flow *flow);

/*
 * The transport by which targets can be reached, started by the first call: of
 * those in the table (transport.h), the first whose device is there. Any
 * thread, as below.
 */
int dfi__network_open(struct dfi *dfi, struct transport **transport);

/* Likewise, one that has multicast: -EOPNOTSUPP: it has none. */
int dfi__network_open_multicast(struct dfi *dfi, struct transport **transport);

/*
 * The one by which a source reaches the target at an address: the same, or if
 * the route there is through another device, one for that.
 */
int dfi__network_reach(struct dfi *dfi, const struct region_address *address,
    struct transport **transport);

/* What people call the way to other hosts, where no transport has started. */
const char *dfi__network_name(void);

/* Add what the transport counted, if it was started. */
void dfi__network_query(
    struct network *network, struct dfi_context_stats *stats);
/* The same on the control thread, which starts it: nothing meanwhile. */
void dfi__network_query_now(
    struct network *network, struct dfi_context_stats *stats);

#endif
