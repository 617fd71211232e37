/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport on libfabric: networks without RDMA devices, by connected
 * endpoints (FI_EP_MSG) of a provider, tcp by default. A writer sends segments
 * by writes with completion data, which say that the payload is in memory;
 * nothing relies on the order of memory. All else are messages.
 *
 *	fabric.c    the provider, the address, and errors as texts
 *	arrive.c    completions, and when the control thread takes them
 *	descriptors.c   what it sleeps on meanwhile
 *	message.c   what both ends tell each other
 *	events.c    connections that are asked for, made and shut
 *	connect.c   the connecting side
 *	break.c     connections that end, and signs of life
 *	export.c    the owner's end of rings
 *	remote.c, write.c, memory.c   the writer's end
 *
 * A provider works only inside its calls. So some thread must look at the
 * completion queue: a thread that waits, or the control thread.
 *
 * Locks. Completions and events are taken under the poll lock. The tables of
 * connections, exports and links change under both locks, so holding either is
 * enough to read them. Endpoints are closed under both, by the control thread.
 * A writer posts to its connection without a lock. Order: poll, table.
 */
#ifndef DFI_TRANSPORT_OFI_OFI_H
#define DFI_TRANSPORT_OFI_OFI_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/ip.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/settings.h"
#include "transport/handshake.h"
#include "transport/transport.h"

struct event;
struct pollfd;
struct ofi_conn;
struct ofi_export;
struct ofi_link;

/* The version of libfabric's interface that is asked for. */
#define OFI_API FI_VERSION(1, 17)

#define OFI_HANDSHAKE_MAGIC UINT32_C(0x4f494644) /* "DFIO" */
#define OFI_HANDSHAKE_VERSION 2

/* Requests by purpose; see dfi_transport_stats. Any thread adds to them. */
struct ofi_counts {
	_Atomic uint64_t writes, bytes, credits, messages, completions;
};

/* What the control thread sleeps on for the queue: descriptors.c. */
struct ofi_descriptors {
	int set;       /* of epoll(7), of those that are watched; or -1 */
	bool has_list; /* the queue has a list, else one descriptor */
	struct pollfd *listed, *watched;
	uint32_t n_listed, n_watched, room;
	uint32_t n_skipped; /* at the start of the list, never watched */
};

struct ofi {
	struct transport base;
	struct loop *loop;
	struct loop_post end; /* frees it */
	const struct settings *settings;
	struct member self;
	union ip address; /* with the port that it listens at */
	char host[IP_TEXT_SIZE];
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_pep *listener;
	int listener_fd;        /* its socket, or -1 */
	struct fid_mr *credits; /* what peers write credits to: no bytes */
	uint64_t inject_size;   /* the most that a write copies at once */
	uint32_t max_sends; /* writes under way, of an end of a connection */

	int wake; /* eventfd: something for the control thread */
	struct event *wake_event, *cq_event, *eq_event;
	struct event *idle_timer, *beat_timer;
	_Atomic bool breaks; /* a connection is to be ended */
	struct ofi_descriptors descriptors;
	_Atomic bool watching;  /* the control thread sees what arrives */
	bool has_events;        /* of the control thread: it sleeps on them */
	uint32_t watched_looks; /* by endpoints, while it watches */
	_Atomic uint32_t polls; /* by endpoints: is any active? */
	uint32_t seen_polls;
	_Atomic bool sleeper;    /* an endpoint has armed since then */
	_Atomic uint32_t n_idle; /* looks in a row that found nothing */
	int64_t beat_due;
	struct log_throttle other_versions; /* of peers that connect */

	struct lock poll;
	_Atomic uint32_t n_waiting; /* to wait for poll */

	pthread_mutex_t table;
	pthread_cond_t answered; /* with table: a message, event or break */
	struct ofi_conn *conns;
	struct ofi_export *exports;
	struct ofi_link *links;
	uint32_t n_links;
	_Atomic uint32_t n_broken;
	struct ofi_counts counts;
};

static inline void ofi_count(_Atomic uint64_t *count, uint64_t n)
{
	atomic_fetch_add_explicit(count, n, memory_order_relaxed);
}

struct handshake_self dfi__ofi_handshake(const struct ofi *ofi);

#endif
