/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of network.h only. */
#ifndef DFI_FLOWS_CONTEXT_NETWORK_IMPL_H
#define DFI_FLOWS_CONTEXT_NETWORK_IMPL_H

#include <pthread.h>
#include "transport/table.h"
#include "network.h"
#include "node_table.h"

/* An instance of a transport that has started. */
struct network_instance {
	struct transport *transport;
	/*
	 * Its number among those that serve this process's regions
	 * (transport_ops.n_devices()); NETWORK_ROUTE: it is for peers whose
	 * route uses another device.
	 */
	uint32_t device;
};
#define NETWORK_ROUTE UINT32_MAX

struct network {
	struct dfi *dfi;
	bool registry_is_local;
	char *registry;
	uint8_t token[MEMBER_TOKEN_SIZE];
	pthread_mutex_t start; /* protects started */
	struct network_instance started[NETWORK_DEVICES];
	unsigned n_started;
	struct registry_watch *watch;
	pthread_mutex_t lock; /* protects nodes */
	struct node_table nodes;
};

/*
 * Start an instance of a row's transport, and list it. route_to: a peer, as
 * member.route_to. The start lock is held. The errors of transport_table() and
 * transport_ops.start(); -EMFILE: NETWORK_DEVICES have started.
 */
int dfi__network_start(struct network *network, const struct transport_row *row,
    const char *route_to, uint32_t device, struct transport **transport);

/* Stop the instance that started last. The start lock is held. */
void dfi__network_stop_last(struct network *network);

#endif
