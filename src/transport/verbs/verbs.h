/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs transport from inside: RDMA through rdma-core. What its parts
 * share:
 *
 *	verbs.c                  starting and stopping, exports, remotes
 *	stats.c                  counters
 *	fail.c                   errors of the system, as texts
 *	device/device.c          which device and address to use
 *	device/device_list.c     what users are told about devices
 *	device/events.c          errors that devices report
 *	connection/connection.c  reliable queue pairs, made by rdma_cm
 *	connection/handshake.c   what both ends tell at first
 *	connection/connect.c     the connecting side
 *	connection/accept.c      the accepting side, rdma_cm's events
 *	connection/break.c       connections that break
 *	connection/drain.c       what is under way at the end
 *	connection/message.c     rings are opened and left
 *	data/shadow.c            memory to send from, for each ring
 *	data/send_buffer.c       the same for all rings of a writer
 *	data/receives.c          the shared receive queue
 *	data/post.c              work requests and their completions
 *	data/counter.c           words that many add to
 *	data/credit.c            credits, and what waits for room
 *	data/arrive.c            messages, segments and credits arrive
 *	data/checksum.c          whether a segment is whole
 *	multicast/               multicast ports: multicast/multicast.h
 *
 * Who touches what. Completions of the shared receive queue ("arrivals") are
 * taken under the poll lock, by whoever waits, by the control thread, and now
 * and then by who writes. The tables of connections, exports and links change
 * under both locks, so holding either is enough to read them. A connection that
 * this process initiated is used by one writer at a time, without a lock;
 * accepted ones carry the credits of several targets and are posted to under
 * the table lock. Locks are taken in this order: poll, table.
 */
#ifndef DFI_TRANSPORT_VERBS_VERBS_H
#define DFI_TRANSPORT_VERBS_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/ip.h"
#include "base/lock.h"
#include "security/mac.h"
#include "base/settings.h"
#include "transport/transport.h"

struct event;
struct reservation;
struct verbs_port;

/*
 * Receives, and so segments that may arrive at once: how many are posted at
 * first, and more at a time if rings need them; and the most there will be,
 * which with their queues take 3 MiB.
 */
#define VERBS_RECEIVES 4096
#define VERBS_MAX_RECEIVES (4 * VERBS_RECEIVES)

/* Receives are posted again so many at a time. */
#define VERBS_REPOST 32

/* Work requests that may be under way on a connection; devices may take fewer.
 */
#define VERBS_SENDS 512

/* The least of both with which connections work as they should. */
#define VERBS_LEAST 64

/* At least one of so many is signalled; more on a small queue. */
#define VERBS_SIGNAL_INTERVAL 32

/* Bytes that are asked for to be sent inline; devices may give fewer. */
#define VERBS_INLINE 128

/* Of memory, in a write. */
#define VERBS_PARTS 2

/* A text that says why a connection broke. */
#define VERBS_WHY_SIZE 160

/* A message between the two ends of a connection. Little-endian. */
enum verbs_message_type {
	VERBS_OPEN = 1, /* writer: may I write ring `ring` of region `key`? */
	VERBS_OPENED,   /* owner: yes, at address with rkey; or error */
	VERBS_CLOSE,    /* writer: no more writes */
	VERBS_CLOSED,   /* owner: no more credits */
};

struct verbs_message {
	uint32_t type;
	uint32_t link;    /* the sender's, for immediate data and answers */
	uint32_t to_link; /* the receiver's; not in OPEN */
	int32_t error;    /* OPENED: 0, or a negative errno value */
	uint64_t key;     /* OPEN: the region's capability */
	uint64_t address; /* OPEN: of the credit; OPENED: of the ring */
	uint64_t size;    /* OPEN: of the ring */
	uint32_t rkey;    /* for address */
	uint32_t ring;    /* OPEN: its number */
	uint32_t notify;  /* OPENED: enum verbs_notify */
	uint32_t reserved[3];
};
_Static_assert(sizeof(struct verbs_message) == 64, "verbs message");

/* Immediate data: a link of the receiver, and what has arrived for it. */
enum verbs_imm {
	VERBS_IMM_SEGMENT,
	VERBS_IMM_END,
	VERBS_IMM_CREDIT,
};
#define VERBS_IMM_BITS 2

/* What two processes agree on before they have a queue pair. */
#define VERBS_HELLO_MAGIC UINT32_C(0x56494644) /* "DFIV" */
#define VERBS_HELLO_VERSION 5

struct verbs_handshake {
	uint32_t magic;
	uint16_t version;
	uint16_t refusal; /* in a rejection: a positive errno value */
	uint64_t node;
	uint64_t nonce; /* made up by who connects */
	uint8_t proof[MAC_SIZE];
};
/* rdma_cm has room for 56 bytes of who connects. */
_Static_assert(sizeof(struct verbs_handshake) == 40, "private data");

/* What a device can hold, of what we would like. */
struct verbs_limits {
	uint32_t sends;    /* work requests under way on a connection */
	uint32_t receives; /* posted to the shared queue */
	uint8_t reads;     /* and atomic operations, under way; at most 1 */
	bool atomics;      /* it has them */
};

/* An address of this host at which a device can be used. */
struct verbs_device {
	union ip address;
	char address_text[IP_TEXT_SIZE];
	uint32_t interface; /* index of the network interface */
	/* The GID of its traffic, and its index; -1: none is known. */
	char gid[40];
	int32_t gid_index;
	char name[64]; /* the device's */
	uint8_t port;
	struct verbs_limits limits;
	struct ibv_context *context;
};

/* An address of this host, of a network interface that is up. */
struct verbs_candidate {
	struct verbs_device device; /* name "": it is on none */
	const char *interface;
	bool loopback;
	bool wanted;     /* the settings name no other address */
	const char *why; /* it can't be used; NULL: it can */
};

/*
 * Work requests, by what for. Written by who posts to the connection, read at
 * any time; see dfi_context_stats.
 */
struct verbs_counts {
	_Atomic uint64_t writes, inline_writes, bytes;
	_Atomic uint64_t credits, messages, signalled, doorbells;
};

/* There is only one writer, so no atomic addition is needed. */
static inline void verbs_count(_Atomic uint64_t *count, uint64_t n)
{
	atomic_set(count, atomic_peek(count) + n);
}

/* So many writes of a batch are posted together. */
#define VERBS_CHAIN 4

/* One that waits for the others. */
struct verbs_held {
	struct ibv_send_wr request;
	struct ibv_sge parts[VERBS_PARTS];
};

struct verbs_conn {
	struct verbs *verbs;
	struct verbs_conn *next;
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct ibv_cq *sends;
	/* Those who use it do so one at a time, so no lock is needed in it;
	 * NULL: the device has none. */
	struct ibv_td *thread;
	struct ibv_pd *domain;
	char peer[TRANSPORT_ADDRESS_SIZE];
	bool accepted;
	uint64_t node;            /* of who was accepted: its id, proved */
	uint64_t nonce;           /* of our hello */
	bool established;         /* as far as this end knows */
	_Atomic bool breaking;    /* somebody writes why */
	_Atomic bool broken;      /* it is to be used no more */
	char why[VERBS_WHY_SIZE]; /* if it is broken; "": the peer has gone */
	/* The queue pair's end; see connection/drain.c. */
	bool stopped; /* it is in an error state */
	int64_t stopped_at;
	uint64_t mark;          /* its last work request; 0: not posted */
	bool flushed;           /* all that was posted has completed */
	_Atomic bool gave_back; /* and all that arrived */
	bool drained;           /* it may be destroyed */
	bool failed;            /* a send has failed, and so will all others */
	bool refused;           /* a post has: nothing may go behind the hole */
	const void *writer;     /* who uses it; NULL: it may be taken */
	uint32_t n_remotes;     /* of that writer */
	uint32_t max_inline;
	uint32_t max_sends; /* under way */
	uint32_t interval;  /* one of so many is signalled */
	/* Work requests since the connection was made. */
	uint64_t posted, completed;
	uint32_t unsignalled; /* the last ones */
	uint32_t n_held;      /* the last ones, not posted yet */
	struct verbs_held held[VERBS_CHAIN];
	uint32_t n_owing;   /* links with something that waits for room */
	int64_t next_probe; /* not before */
	bool read;          /* of what was accepted: a ring is written */
	uint64_t swept;     /* posted, when that was last looked at */
	struct verbs_counts counts;
};

enum verbs_owing {
	VERBS_OWES_NOTHING,
	VERBS_OWES_CREDIT,
	VERBS_OWES_CLOSED, /* then there is no ring any more */
};

/* The other end of a ring, by the number that immediate data carries. */
struct verbs_link {
	struct verbs_conn *conn; /* NULL: free */
	uint32_t to_link;        /* the peer's number */
	/* A ring of ours, that the peer writes ... */
	struct verbs_export *export; /* NULL: not such a link */
	uint32_t ring;
	uint32_t slot;                 /* of the next segment */
	_Atomic uint64_t *next_footer; /* in that slot */
	uint64_t footer[2];            /* of the last one, if it is made here */
	uint32_t blank_slot;           /* behind those that are ready */
	uint64_t credit_address;
	uint32_t credit_rkey;
	uint64_t first_state; /* of the first footer when it was opened */
	bool ended;           /* the writer's end mark is here */
	/* What the peer is to be told once the connection has room. */
	enum verbs_owing owing;
	struct ring_credit credit; /* the last one that was given */
	/* ... or a ring of the peer's, that we write. */
	struct verbs_remote *remote;
};

struct verbs_export {
	struct export base;
	struct verbs_export *next;
	struct region *region;
	struct ring_layout layout;
	struct ibv_mr *mr;
	struct verbs_ring *rings;
	uint32_t n_links; /* peers that may write */
	bool closing;     /* nobody reads; freed when n_links is 0 */
};

/* What became of a ring of ours. */
struct verbs_ring {
	_Atomic bool used;     /* a writer opened it, now or before */
	_Atomic uint32_t lost; /* enum ring_loss: the connection broke */
	uint32_t link;         /* while it is written, else NO_LINK */
	enum verbs_notify notify;
	char why[VERBS_WHY_SIZE]; /* it was lost; "": the peer has gone */
	uint64_t writer;          /* it was lost: its node's id */
};
#define NO_LINK UINT32_MAX

/* Memory of this process to send from, registered. */
struct verbs_memory {
	void *at;
	uint64_t size;
	struct ibv_mr *mr;
};

struct verbs_remote {
	struct remote base;
	struct verbs_conn *conn;
	struct ring_layout layout;
	struct verbs_memory image; /* of the ring */
	uint32_t stage_key;        /* the stage's local key, if it has one */
	uint32_t link;             /* ours */
	uint32_t to_link;
	uint64_t address; /* of the owner's ring */
	uint32_t rkey;
	enum verbs_notify notify;
	int opened;     /* 1, or a negative errno value; 0: not answered yet */
	bool closing;   /* freed when the owner says CLOSED */
	uint64_t last;  /* work request that wrote last */
	bool unsent;    /* a write could not be posted */
	uint32_t waits; /* looks for credit */
	/* For writes: to clear all of one each time would take longer than to
	 * fill it in. */
	struct ibv_send_wr request;
};

struct verbs {
	struct transport base;
	struct verbs *next; /* of this process; see device/events.c */
	struct loop *loop;
	const struct settings *settings;
	struct member self;
	struct verbs_device device;
	_Atomic(const char *) failed; /* the device, and why; NULL: it works */
	_Atomic uint32_t fatal_events, port_downs;
	_Atomic uint32_t n_broken; /* connections */
	struct event *async_event;
	struct ibv_pd *pd;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *listener;
	struct event *cm_event;
	int breaks; /* eventfd: a connection broke */
	struct event *breaks_event;
	struct event *drain_timer;
	struct event *sweep_timer;

	struct lock poll;
	_Atomic uint32_t n_waiting; /* for poll */
	struct ibv_comp_channel *channel;
	struct rdma_cm_id *hold; /* on the device */
	struct ibv_cq *arrivals;
	struct ibv_srq *receives;
	struct verbs_message *messages;
	struct ibv_mr *messages_mr[VERBS_MAX_RECEIVES / VERBS_RECEIVES];
	_Atomic uint32_t n_receives;  /* posted, or about to be again */
	uint64_t needed;              /* if all rings are full */
	uint64_t spent[VERBS_REPOST]; /* receives to post again */
	uint32_t n_spent;
	struct event *arrivals_event;
	struct event *arm_timer;
	_Atomic uint32_t polls; /* by endpoints; tells whether any is active */
	uint32_t seen_polls;
	_Atomic bool sleeper;   /* some endpoint has armed since then */
	bool woke;              /* an arrival has woken one since then */
	uint32_t sleeping_link; /* where a writer was last seen to sleep */

	pthread_mutex_t table;
	pthread_cond_t answered; /* with table: a message came, or a break */
	struct verbs_conn *conns;
	struct verbs_export *exports;
	struct verbs_link *links;
	uint32_t n_links;
	uint32_t *polled; /* numbers of links whose footers have checksums */
	uint32_t n_polled;
	struct verbs_counts retired; /* of connections that were freed */
	_Atomic uint32_t n_stages;   /* registered */

	/* Multicast; see device/events.c. */
	struct verbs_port *ports;
	struct verbs_counts retired_ports;
};

/* data/shadow.c */

/* Whether so many bytes more may be locked: 0, or -ENOMEM. */
int dfi__verbs_lock_room(const struct verbs *verbs, uint64_t size);

/*
 * Whether size bytes more can be had for devices, and so many of this process
 * be locked: 0, or -ENOMEM with need, limit and remedy. huge_pages: of such as
 * in the settings.
 */
int dfi__verbs_room(const struct verbs *verbs, uint64_t size, uint64_t locked,
    uint32_t huge_pages);

/*
 * The same of ordinary pages, which the caller is to fill before it ends the
 * reservation (base/reservation.h).
 */
int dfi__verbs_reserve(const struct verbs *verbs, uint64_t size,
    uint64_t locked, struct reservation *reservation);

/* Reserve and register memory, with pages as the settings say. */
int dfi__verbs_memory_create(const struct verbs *verbs, uint64_t size,
    unsigned access, struct verbs_memory *memory);
void dfi__verbs_memory_free(const struct verbs_memory *memory);

/* Make the image of a remote's ring, and use its stage, if it has one. */
int dfi__verbs_create_shadow(struct verbs *verbs, struct verbs_remote *remote);
/* No queue pair may send from these any more. */
void dfi__verbs_free_shadow(struct verbs_remote *remote);

/* data/send_buffer.c: the transport's operations, and: */

int dfi__verbs_stage_create(
    struct transport *transport, uint64_t size, struct stage **stage);
void dfi__verbs_stage_free(struct stage *stage);

/* A remote of an instance begins to use its stage, and ends. */
int dfi__verbs_stage_enter(struct verbs *verbs, struct verbs_remote *remote);
void dfi__verbs_stage_leave(struct verbs_remote *remote);

/* device/device.c */

/*
 * Call fn for each address of this host; a non-zero return of fn ends it and is
 * returned. -ENODEV: no RDMA at all. -EOWNERDEAD: in a forked child.
 */
int dfi__verbs_candidates(const struct settings *settings,
    int (*fn)(void *arg, const struct verbs_candidate *candidate), void *arg);

/*
 * This host's address on the route to a peer, "tcp:ADDRESS:PORT", such as the
 * registry, which all members reach; whether there is one.
 */
bool dfi__verbs_preferred(const char *route_to, union ip *preferred);

/*
 * The device and address that the settings name, or the one on the route to a
 * peer, or the first active one: of IPv4, then of IPv6, then link-local.
 * -ENODEV says what is there and why it can't be used.
 */
int dfi__verbs_choose(const struct settings *settings, const char *route_to,
    struct verbs_device *device);

/* The transport's operation: by the device on the route. */
bool dfi__verbs_reaches(const struct transport *transport, const char *address);

/*
 * What to ask of a device with these attributes. NULL, or why it can't be used
 * at all.
 */
const char *dfi__verbs_limits(
    const struct ibv_device_attr *attr, struct verbs_limits *limits);

/* data/receives.c */

int dfi__verbs_receives_start(struct verbs *verbs);
/* After all queue pairs are gone. */
void dfi__verbs_receives_stop(struct verbs *verbs);

/* Post receives of these numbers, not more than VERBS_REPOST; an errno value.
 */
int dfi__verbs_post_receives(
    struct verbs *verbs, const uint64_t *numbers, uint32_t n);

/* Have so many more receives, or fewer. Both locks are held. */
void dfi__verbs_receives_need(struct verbs *verbs, uint64_t n);
void dfi__verbs_receives_spare(struct verbs *verbs, uint64_t n);

/* verbs/stats.c */

/* Keep the counts of a connection that goes; both locks are held. */
void dfi__verbs_retire(struct verbs_conn *conn);

void dfi__verbs_describe(const struct transport *transport,
    const struct remote *remote, char text[TRANSPORT_WAY_SIZE]);

void dfi__verbs_query(
    struct transport *transport, struct dfi_context_stats *stats);

/* connection/connection.c */

/* NULL: out of memory. It isn't listed yet. */
struct verbs_conn *dfi__verbs_new_conn(
    struct verbs *verbs, struct rdma_cm_id *id, bool accepted);

/* The queue pair, once the id has a device. */
int dfi__verbs_create_qp(struct verbs_conn *conn);

/* What rdma_cm can't be told; once the queue pair is connected. */
void dfi__verbs_tune(struct verbs_conn *conn);

struct rdma_conn_param dfi__verbs_conn_param(
    const struct verbs *verbs, const struct verbs_handshake *hello);

/* Free a connection that isn't listed. */
void dfi__verbs_destroy_conn(struct verbs_conn *conn);

/* Free a connection; both locks are held, or nobody else is left. */
void dfi__verbs_free_conn(struct verbs_conn *conn);

/* connection/handshake.c */

/* What we connect with, once the id has its addresses. -EIO. */
int dfi__verbs_send_handshake(const struct verbs *verbs, struct rdma_cm_id *id,
    struct verbs_handshake *hello);

/* What we accept with, who has sent this nonce. -EIO. */
int dfi__verbs_answer(const struct verbs *verbs, struct rdma_cm_id *id,
    uint64_t nonce, struct verbs_handshake *hello);

struct verbs_handshake dfi__verbs_refusal(
    const struct verbs *verbs, uint16_t refusal);

/*
 * Of who wants to connect: 0, and what it has said and proved; or a positive
 * errno value to refuse with.
 */
uint16_t dfi__verbs_check_handshake(const struct verbs *verbs,
    struct rdma_cm_id *id, const struct rdma_conn_param *param,
    struct verbs_handshake *proved);

/* Who accepted must be a member, too: not who took a dead one's port. */
int dfi__verbs_accepted(const struct verbs *verbs,
    const struct rdma_cm_event *event, uint64_t nonce, const char *peer);

/* The error that a rejection by peer means. */
int dfi__verbs_refused(const struct verbs *verbs,
    const struct rdma_cm_event *event, const char *peer);

/* connection/accept.c */

/* No events of rdma_cm are handled any more, so no new connections come. */
void dfi__verbs_unlisten_quiet(struct verbs *verbs);

/*
 * Keep the device open until rdma_destroy_id(verbs->hold): librdmacm closes one
 * that was removed when the last id on it goes.
 */
int dfi__verbs_hold(struct verbs *verbs);
int dfi__verbs_listen(struct verbs *verbs);
/* Frees all connections, too, which are drained. */
void dfi__verbs_unlisten(struct verbs *verbs);

/*
 * A channel for events that never waits: librdmacm keeps some events for itself
 * and then, in a channel that waits, waits for the next one.
 */
int dfi__verbs_channel(
    const struct verbs_device *device, struct rdma_event_channel **channel);

/* verbs/fail.c */

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

/* Of memory of so many bytes that a device can't have. */
int dfi__verbs_fail_register(
    const struct verbs_device *device, uint64_t size, int err);

/* Of a call of rdma_cm, which has to do with addresses. */
int dfi__verbs_fail_cm(
    const struct verbs_device *device, const char *what, int err);

/* connection/connect.c */

/* A connection to the process at an address for this writer alone. */
int dfi__verbs_connect(struct verbs *verbs, const void *writer,
    const char *address, const struct wait_limit *wait_limit,
    struct verbs_conn **conn);

/* connection/break.c */

int dfi__verbs_breaks_start(struct verbs *verbs);
/* The control thread looks no more; connections may go. */
void dfi__verbs_breaks_quiet(struct verbs *verbs);
void dfi__verbs_breaks_stop(struct verbs *verbs);

/* Something that connections wait for has come. Any thread. */
void dfi__verbs_breaks_wake(struct verbs *verbs);

/*
 * The connection can't be used any more. The control thread will tell all that
 * depend on it. Any locks may be held.
 */
void dfi__verbs_break(struct verbs_conn *conn, const char *why);

/* The same, but no error of the connection: its peer closed it. */
void dfi__verbs_left(struct verbs_conn *conn);

/* A break of all connections, and none can be made any more. why lives for
 * ever. */
void dfi__verbs_break_all(struct verbs *verbs, const char *why);

/* Why it is broken; NULL: it isn't, or the peer has gone. */
const char *dfi__verbs_why(const struct verbs_conn *conn);

/* connection/drain.c */

/* Have the queue pair end what is under way. The table lock is held, and nobody
 * posts to it any more. */
void dfi__verbs_stop_conn(struct verbs_conn *conn);

/* Whether all that was under way has ended, or the time for it has passed. */
bool dfi__verbs_is_drained(struct verbs_conn *conn);

/*
 * Wait until the writers whose end marks are here have gone, or are lost; a
 * third of the time that queue pairs try, and 2 s, at most.
 */
void dfi__verbs_see_off(struct verbs *verbs);

/* Stop all connections, and wait until they are drained; a few ms, and 0.2 s at
 * most. No new ones come, but devices' reports still do. */
void dfi__verbs_drain_all(struct verbs *verbs);

/* device/events.c */

int dfi__verbs_events_start(struct verbs *verbs);
/* Before any queue pair is destroyed. */
void dfi__verbs_events_stop(struct verbs *verbs);

/* One of those whose devices' reports concern it; for tests. */
void dfi__verbs_events_list(struct verbs *verbs);
void dfi__verbs_events_unlist(struct verbs *verbs);

/* Handle a report, which is acknowledged after; no lock is held. */
void dfi__verbs_event(
    const struct ibv_context *context, const struct ibv_async_event *event);

/* Ports whose queue pairs and queues devices may report errors of; before
 * these are destroyed. They keep what was counted. */
void dfi__verbs_list_port(struct verbs_port *port);
void dfi__verbs_unlist_port(struct verbs_port *port);
/* Add what was counted on ports that there are, and were. */
void dfi__verbs_query_ports(
    const struct verbs *verbs, struct dfi_context_stats *stats);

/* multicast/multicast.c, multicast/port.c; as the transport's operations. */
uint32_t dfi__verbs_multicast_size(const struct transport *transport);
uint64_t dfi__verbs_multicast_bytes(
    const struct transport *transport, const struct multicast_attr *attr);
int dfi__verbs_multicast_room(
    struct transport *transport, const struct multicast_attr *attr);
int dfi__verbs_multicast_open(struct transport *transport,
    const struct multicast_attr *attr, int64_t deadline,
    struct multicast_port **port);

/* data/credit.c */

/*
 * Tell the writer of a ring how much of it is free: now, or when the connection
 * has room again. Credits are absolute, so of those that wait the last is
 * enough. 1, or 0 if the ring isn't written through a connection.
 */
int dfi__verbs_give_credit(struct region *region,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed);

/* Tell the peer that its link, whose ring it has left, gets no more credits;
 * the link is free then. Both locks are held. */
void dfi__verbs_say_closed(struct verbs_link *link);

/* Sends have completed: post what waits for room. Both locks are held. */
void dfi__verbs_pay(struct verbs_conn *conn);

/* data/post.c */

/*
 * A connection has room for all that its writer may have under way if no more
 * than so many remotes share it: two segments each, and their end marks.
 */
static inline uint32_t verbs_most_remotes(const struct verbs_conn *conn)
{
	return conn->max_sends / 4;
}

/*
 * Whether so much is under way that credits, which anybody's slowness may
 * delay, have to wait: the other half of the queue is for answers. The control
 * thread is then woken when it may be different.
 */
bool dfi__verbs_is_busy(struct verbs_conn *conn);

/* Of a connection that is broken, or full by what is known; and of a post that
 * the device refused, with an errno value. 0, or -ECONNRESET. */
int dfi__verbs_make_room(struct verbs_conn *conn);
int dfi__verbs_not_posted(struct verbs_conn *conn, int err);

/* The number of the next work request, and whether it is signalled. */
static inline int verbs_number(
    struct verbs_conn *conn, struct ibv_send_wr *wr, bool signal)
{
	if (unlikely(atomic_peek(&conn->broken) || conn->refused ||
		conn->posted - conn->completed >= conn->max_sends) &&
	    dfi__verbs_make_room(conn))
		return -ECONNRESET;
	wr->wr_id = ++conn->posted;
	if (++conn->unsignalled >= conn->interval || signal) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		verbs_count(&conn->counts.signalled, 1);
		conn->unsignalled = 0;
	}
	return 0;
}

/* What is held, and behind it one that has its number. */
int dfi__verbs_post_behind(struct verbs_conn *conn, struct ibv_send_wr *wr);

/*
 * Post a work request, which gets the next number. Never waits: who posts has
 * seen to it that there is room, else the connection breaks. -ECONNRESET: it is
 * broken.
 */
static inline int verbs_post(
    struct verbs_conn *conn, struct ibv_send_wr *wr, bool signal)
{
	struct ibv_send_wr *bad;
	int err;

	if (unlikely(verbs_number(conn, wr, signal)))
		return -ECONNRESET;
	if (unlikely(conn->n_held))
		return dfi__verbs_post_behind(conn, wr);
	verbs_count(&conn->counts.doorbells, 1);
	err = ibv_post_send(conn->qp, wr, &bad);
	return likely(!err) ? 0 : dfi__verbs_not_posted(conn, err);
}

/* Hold a write until there are enough, or something else is posted. */
int dfi__verbs_post_later(struct verbs_conn *conn, struct ibv_send_wr *wr);

/* Post what is held. */
int dfi__verbs_post_held(struct verbs_conn *conn);

/*
 * Take the completions of sends that are there, also after the peer has left,
 * who may have acknowledged them before. -ECONNRESET: a send has failed.
 */
int dfi__verbs_poll_sends(struct verbs_conn *conn);

/*
 * Called again and again by who waits for the peer: write nothing to it now and
 * then, so that the queue pair finds out if it has vanished.
 */
void dfi__verbs_probe(struct verbs_conn *conn);

/* Send a message; as verbs_post(). */
int dfi__verbs_send(
    struct verbs_conn *conn, const struct verbs_message *message);

/* data/counter.c */

/* 0, or -EOPNOTSUPP: the device can't add. */
int dfi__verbs_check_atomics(const struct verbs *verbs);

int dfi__verbs_add(struct remote *base, uint64_t offset, uint64_t n);
int dfi__verbs_added(struct remote *base, uint64_t offset, uint64_t *before);

/* connection/message.c */

/* A free link, taken; NO_LINK: no memory. Both locks are held. */
uint32_t dfi__verbs_link_take(struct verbs *verbs, struct verbs_conn *conn);

/* The link that a peer's number names, if it is of that peer. */
static inline struct verbs_link *verbs_link_at(
    struct verbs *verbs, uint32_t number, uint32_t qp_num)
{
	struct verbs_link *link;

	if (number >= verbs->n_links)
		return NULL;
	link = &verbs->links[number];
	if (!link->conn || link->conn->qp->qp_num != qp_num)
		return NULL;
	return link;
}

/* The poll lock is held, the table lock isn't. */
void dfi__verbs_message_arrived(
    struct verbs_conn *conn, const struct verbs_message *message);

/* data/arrive.c */

/*
 * Take all segments of a link that were there at the call, if its footers have
 * checksums; and no more in all than the ring has slots. The poll lock is held.
 */
void dfi__verbs_take_ring(struct verbs *verbs, struct verbs_link *link);

int dfi__verbs_arrivals_start(struct verbs *verbs);
/* The control thread takes no more; connections may go. */
void dfi__verbs_arrivals_quiet(struct verbs *verbs);
void dfi__verbs_arrivals_stop(struct verbs *verbs);
/* Take the poll lock before all who only try. */
void dfi__verbs_lock_poll(struct verbs *verbs);
/* Take what is there; the poll lock is held, the table lock isn't. */
void dfi__verbs_take(struct verbs *verbs);
void dfi__verbs_progress(struct transport *transport, uint32_t looks);
/* Take some of what is there, unless another thread just does; who calls it is
 * not there to do it for others. */
void dfi__verbs_take_some(struct verbs *verbs);
void dfi__verbs_settle(struct transport *transport);
void dfi__verbs_arm(struct transport *transport);

/* data/checksum.c */

/* Of a segment with that payload, make its footer the one that travels. */
void dfi__verbs_seal(const void *payload, uint64_t bytes, uint64_t footer[2]);

/* The low half of footer[1] on its way, of the segment of that number: all top
 * bits are set, the others inverted. */
static inline uint32_t verbs_sealed_number(uint32_t number)
{
	return ~number | UINT32_C(0x80808080);
}

/*
 * Whether the link's next segment is there, whose footer[1] on its way was
 * observed to be this; how many bytes its payload has, and the flags of its
 * footer[1].
 */
bool dfi__verbs_is_whole(const struct verbs_link *link, uint64_t sealed,
    uint64_t *bytes, uint64_t *flags);

/*
 * Make the slots of a ring ready for such footers that nobody has written; and
 * later so many more, which were given back, from the one behind those that
 * are.
 */
void dfi__verbs_blank_new(struct verbs_link *link);
void dfi__verbs_blank(struct verbs_link *link, uint64_t n);

/* Whether somebody has written a ring, through memory or else. */
bool dfi__verbs_is_written(const struct verbs_export *export, uint32_t ring);

/* Links whose rings have such footers: -ENOMEM. Both locks are held. */
int dfi__verbs_poll_ring(struct verbs *verbs, uint32_t link);
void dfi__verbs_unpoll_ring(struct verbs *verbs, const struct verbs_link *link);

/* verbs.c */

/*
 * A peer can't write any more; both locks are held. Whether it has written: if
 * not, the ring is as if it had never been opened.
 */
bool dfi__verbs_leave_export(struct verbs_link *link);
void dfi__verbs_put_export(struct verbs_export *export);

/* -ECONNRESET: why the connection of a remote broke. */
int dfi__verbs_lost(const struct verbs_remote *remote);

/* Free what a remote holds; both locks are held. */
void dfi__verbs_free_remote(struct verbs_remote *remote);

static inline char *verbs_ring_base(
    const struct verbs_export *export, uint32_t ring)
{
	return (char *)export->region->base + export->layout.first_ring +
	    ring * export->layout.ring_size;
}

static inline _Atomic uint64_t *verbs_footer_at(
    const struct verbs_link *link, uint32_t slot)
{
	const struct ring_layout *layout = &link->export->layout;

	return (_Atomic uint64_t *)(void *)(verbs_ring_base(
						link->export, link->ring) +
	    layout->first_slot + (uint64_t)slot * layout->slot_size +
	    layout->shape.footer_offset);
}

/* The footer behind that of a slot, which becomes that one's; for each, a
 * product would cost. */
static inline _Atomic uint64_t *verbs_footer_behind(
    const struct verbs_link *link, _Atomic uint64_t *footer, uint32_t *slot)
{
	const struct ring_layout *layout = &link->export->layout;

	if (likely(++*slot < layout->n_slots))
		return (_Atomic uint64_t *)(void *)((char *)footer +
		    layout->slot_size);
	*slot = 0;
	return verbs_footer_at(link, 0);
}

/* So many bytes between payload and footer are not worth a part of their own.
 */
#define VERBS_MOST_PADDING 128
_Static_assert(
    VERBS_MOST_PADDING <= TRANSPORT_STAGE_PAD, "what is read of a stage");

/*
 * Where in its slot the payload of a segment lies whose footer travels with it,
 * in one write, with so much room before the footer; not 0 means
 * FOOTER_FLAG_SHIFTED.
 */
static inline uint64_t verbs_payload_at(uint64_t room, uint64_t bytes)
{
	return likely(room - bytes < VERBS_MOST_PADDING)
	    ? 0
	    : footer_shifted_at(room, bytes);
}

/* The second word of a footer. */
static inline uint64_t verbs_footer_state(
    const struct verbs_export *export, uint32_t ring, uint64_t footer)
{
	return atomic_peek(
	    (_Atomic uint64_t *)(void *)(verbs_ring_base(export, ring) +
		footer + 8));
}

#endif
