/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parent's use of the library: its own or a given registry, and the flows
 * of the rounds, which have unique names. Functions print an error where they
 * find it, and then return false.
 */
#ifndef DFI_BENCH_SESSION_H
#define DFI_BENCH_SESSION_H

#include <dfi/dfi.h>
#include "options.h"
#include "peer.h"
#include "plan.h"

struct session {
	struct dfi_registry *registry; /* NULL: another process's */
	const char *address;
	struct dfi *dfi;
	uint64_t n_flows;   /* created so far */
	uint32_t transport; /* enum dfi_transport, of the flows */
	struct peer *peer;  /* with the targets; NULL: there is none */
	struct peer the_peer;
};

/*
 * Start a registry unless the options name one, and join it. The invocation
 * with the sources also meets the one with the targets.
 */
bool session_open(
    const struct common_options *options, struct session *session);
void session_close(struct session *session);

/*
 * Create the flow of a plan's next round, or both flows of an echo, and store
 * their names in the plan. asked is the geometry; 0: the library chooses.
 */
bool session_create_flows(struct session *session, struct plan *plan,
    const struct raw_geometry *asked);
void session_remove_flows(struct session *session, const struct plan *plan);

/* The bytes that those flows reserve in this invocation. */
bool session_needs(struct session *session, const struct plan *plan,
    const struct raw_geometry *asked, uint64_t *bytes);

/*
 * Store in the plan the actual geometry of such a flow, and whether its
 * segments are datagrams.
 */
bool session_look_up(struct session *session, struct plan *plan,
    const struct raw_geometry *asked);

/*
 * Whether the tuples of a looked-up plan need RDMA even on one host. In that
 * case a comparison with memory is pointless.
 */
bool session_needs_network(
    const struct session *session, const struct plan *plan);

#endif
