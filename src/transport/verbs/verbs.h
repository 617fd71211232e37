/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs transport, RDMA through rdma-core: an instance of it, which all its
 * parts share. The folders, each of which includes those above it:
 *
 *	device/      which device is used, and errors as texts
 *	data/        memory, rings at both ends, and what is sent and arrives
 *	connection/  queue pairs that are made, break, and end
 *	multicast/   datagrams to many
 *
 * Locks. A thread takes completions of the shared receive queue ("arrivals")
 * under the poll lock: any that waits, the control thread, and now and then a
 * writer. The tables of connections, exports and links change under both locks,
 * so holding either is enough to read them. A connection that this process
 * initiated has one writer, a source or several that share, which one thread at
 * a time uses without a lock. Accepted connections carry the credits of several
 * targets; threads post to them under the table lock. Locks are taken in this
 * order: poll, table.
 */
#ifndef DFI_TRANSPORT_VERBS_VERBS_H
#define DFI_TRANSPORT_VERBS_VERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/settings.h"
#include "device/device.h"
#include "transport/transport.h"

struct event;
struct verbs_conn;
struct verbs_export;
struct verbs_link;
struct verbs_message;
struct verbs_endpoint;

/* Receives are posted again this many at a time. */
#define VERBS_REPOST 32

/*
 * Work requests by purpose. The thread that posts to the connection writes
 * them, and any thread reads them at any time; see dfi_transport_stats.
 */
struct verbs_counts {
	_Atomic uint64_t writes, inline_writes, bytes;
	_Atomic uint64_t credits, messages, signalled, doorbells;
};

/* There is one writer, so the addition need not be atomic. */
static inline void verbs_count(_Atomic uint64_t *count, uint64_t n)
{
	atomic_set(count, atomic_peek(count) + n);
}

struct verbs {
	struct transport base;
	struct verbs *next; /* of this process; see events.c */
	struct loop *loop;
	struct loop_post end; /* frees it */
	const struct settings *settings;
	struct member self;
	struct verbs_device device;
	_Atomic(const char *)
	    failed; /* why the device failed; NULL: it works */
	_Atomic uint32_t fatal_events, port_downs;
	_Atomic uint32_t n_broken; /* connections */
	struct event *async_event;
	struct ibv_pd *pd;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *listener;
	struct event *cm_event;
	struct log_throttle other_versions; /* of peers that connect */
	int breaks;                         /* eventfd: a connection broke */
	struct event *breaks_event;
	struct event *drain_timer;
	struct event *sweep_timer;

	struct lock poll;
	_Atomic uint32_t n_waiting; /* to wait for poll */
	struct ibv_comp_channel *channel;
	struct rdma_cm_id *hold; /* on the device */
	struct ibv_cq *arrivals;
	struct ibv_srq *receives;
	struct verbs_message *messages;
	struct ibv_mr *messages_mr[VERBS_MAX_RECEIVES / VERBS_RECEIVES];
	_Atomic uint32_t n_receives;   /* posted, or about to be posted again */
	_Atomic uint64_t needed;       /* as if all rings were full */
	_Atomic int64_t refused_until; /* see receives.c */
	uint64_t spent[VERBS_REPOST];  /* receives to post again */
	uint32_t n_spent;
	struct event *arrivals_event;
	struct event *arm_timer;
	_Atomic uint32_t polls; /* by endpoints: is any active? */
	uint32_t seen_polls;
	_Atomic bool sleeper; /* some endpoint has armed since then */
	bool woke;            /* since then an arrival has woken an endpoint */
	uint32_t sleeping_link; /* where a sleeping writer was last seen */

	pthread_mutex_t table;
	pthread_cond_t answered; /* with table: a message or a break */
	struct verbs_conn *conns;
	struct verbs_export *exports;
	struct verbs_link *links;
	uint32_t n_links;
	uint32_t *polled; /* numbers of links whose footers have checksums */
	uint32_t n_polled;
	struct verbs_counts retired;     /* of freed connections */
	_Atomic uint32_t n_send_buffers; /* registered */

	/* See multicast/multicast.c. */
	struct verbs_endpoint *endpoints;
	struct verbs_counts retired_endpoints;
};

#endif
