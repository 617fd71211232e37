/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library as the parent uses it: a registry of its own or a given one, and
 * the flows of the rounds, each with a name of its own. Errors are complained
 * about where they are found; the functions return false then.
 */
#ifndef DFI_BENCH_SESSION_H
#define DFI_BENCH_SESSION_H

#include <dfi/dfi.h>
#include "options.h"
#include "peer.h"
#include "plan.h"

struct session {
	struct dfi_registry *registry; /* NULL: somebody else's */
	const char *address;
	struct dfi *dfi;
	uint64_t n_flows;   /* created so far */
	uint32_t transport; /* enum dfi_transport, of the flows */
	struct peer *peer;  /* with the targets; NULL: there is none */
	struct peer the_peer;
};

/*
 * Start a registry unless the options name one, and join it. Whoever has the
 * role of the sources meets the targets, too.
 */
bool session_open(
    const struct common_options *options, struct session *session);
void session_close(struct session *session);

/*
 * Create the flow of a plan's next round, or both flows of an echo, and put
 * the names into the plan. asked is the geometry; 0 is the library's choice.
 */
bool session_create_flows(struct session *session, struct plan *plan,
    const struct raw_geometry *asked);
void session_remove_flows(struct session *session, const struct plan *plan);

/* What those flows reserve in this invocation. */
bool session_needs(struct session *session, const struct plan *plan,
    const struct raw_geometry *asked, uint64_t *bytes);

/* Put into the plan what such a flow really is: its geometry, and whether its
 * segments are datagrams. */
bool session_look_up(struct session *session, struct plan *plan,
    const struct raw_geometry *asked);

/* Whether the tuples of a plan that was looked up need RDMA, also on one host:
 * then memory is nothing to compare them with. */
bool session_needs_network(
    const struct session *session, const struct plan *plan);

#endif
