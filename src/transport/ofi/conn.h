/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection, and the two ends of a ring that is written over it: the owner's
 * exported region, the writer's remote, and a link at each end, whose number
 * the other end puts into completion data.
 */
#ifndef DFI_TRANSPORT_OFI_CONN_H
#define DFI_TRANSPORT_OFI_CONN_H

#include <sys/types.h>
#include "message.h"
#include "ofi.h"
#include "transport/network_ring.h"
#include "transport/send_memory.h"

/* Messages of a connection that may arrive before they are handled. */
#define OFI_RECEIVES 16

/* One write in this many reports its local completion. */
#define OFI_SIGNAL_INTERVAL 32

/*
 * A larger payload is sent in pieces of this size. Each is a sign of life, so a
 * slow network breaks no connection.
 */
#define OFI_PIECE (UINT64_C(256) << 10)

/* What a completion is of. */
struct ofi_operation {
	struct ofi_conn *conn;
	struct ofi_message *message; /* a receive; NULL: writes */
};

enum ofi_conn_state {
	OFI_CONNECTING,
	OFI_ANSWERED, /* the peer has accepted: its proof is in answer */
	OFI_REFUSED,
	OFI_ESTABLISHED,
};

struct ofi_conn {
	struct ofi *ofi;
	struct ofi_conn *next;
	struct fid_ep *ep; /* NULL: closed */
	int fd;            /* its socket, or -1 */
	char peer[TRANSPORT_ADDRESS_SIZE];
	/* Where the peer listens; "": unknown. Under the table lock. */
	char listens_at[TRANSPORT_ADDRESS_SIZE];
	bool accepted;
	uint64_t node; /* the peer's id, proved */
	/* The answer to our request, under the table lock. */
	enum ofi_conn_state state;
	int error; /* OFI_REFUSED: a positive errno value */
	uint8_t answer[sizeof(struct handshake)];
	size_t answer_size;
	_Atomic bool breaking;      /* a thread is writing why */
	_Atomic bool broken;        /* it must not be used any more */
	char why[NETWORK_WHY_SIZE]; /* "": the peer has left */
	const void *writer;         /* its user at this end; NULL: it is free */
	uint32_t n_remotes;         /* of that writer */
	uint32_t n_links;           /* at this end */
	/* Writes since the connection was made. */
	uint64_t posted;
	_Atomic uint64_t completed;
	/* Heartbeats: what was sent and came, and what was when last looked. */
	_Atomic uint32_t sent;
	uint32_t heard, sent_seen, heard_seen;
	int64_t heard_at;
	struct ofi_operation writes;
	struct ofi_operation receives[OFI_RECEIVES];
	struct ofi_message messages[OFI_RECEIVES];
};

/* One end of a ring. */
struct ofi_link {
	struct ofi_conn *conn; /* NULL: free */
	uint32_t tag;          /* of this use of the link */
	uint32_t to_link;      /* the peer's name for it */
	/* A ring of ours that the peer writes ... */
	struct ofi_export *export; /* NULL: not such a link */
	uint32_t ring;
	uint32_t slot;                 /* of the next segment */
	_Atomic uint64_t *next_footer; /* in that slot */
	uint64_t footer[2];            /* of the last segment */
	uint64_t credit_key;
	bool written, ended; /* by the writer */
	/* ... or a ring of the peer that we write. */
	struct ofi_remote *remote;
};

struct ofi_export {
	struct export base;
	struct ofi_export *next;
	struct region *region;
	struct ring_layout layout;
	struct fid_mr *mr;
	struct network_ring *rings;
	uint32_t n_links; /* links of peers that may still write */
	bool closing;     /* no reader any more; freed when n_links is 0 */
};

struct ofi_remote {
	struct remote base;
	struct ofi_conn *conn;
	struct ring_layout layout;
	struct send_memory shadow; /* the shadow ring */
	uint32_t link;             /* the name of our link */
	uint32_t to_link;
	uint64_t key;     /* of the owner's region */
	uint64_t address; /* of the ring there */
	int opened;       /* 1, or a negative errno value; 0: no answer yet */
	bool closing;     /* freed when the owner answers CLOSED */
	bool unsent;      /* a write could not be posted */
	uint64_t written; /* segments and end marks */
	uint64_t asked;   /* as many the owner was asked to confirm */
	_Atomic uint64_t confirmed;
	_Atomic bool owner_left; /* it confirms, but nobody reads the ring */
	/* Words: whether an addition is under way, and the answer. */
	_Atomic bool adding;
	uint64_t before;
};

static inline char *ofi_ring_base(
    const struct ofi_export *export, uint32_t ring)
{
	return (char *)export->region->base + export->layout.first_ring +
	    ring * export->layout.ring_size;
}

static inline _Atomic uint64_t *ofi_footer_at(
    const struct ofi_link *link, uint32_t slot)
{
	return (_Atomic uint64_t *)(void *)(ofi_ring_base(
						link->export, link->ring) +
	    layout_footer(&link->export->layout, slot));
}

/*
 * The name of a link, for the peer: its number, and a tag that tells the uses
 * of the number apart.
 */
#define OFI_LINK_BITS 20
static inline uint32_t ofi_link_name(uint32_t number, uint32_t tag)
{
	return tag << OFI_LINK_BITS | number;
}

/* arrive.c */

/* Take what has arrived; the poll lock is held, the table lock isn't. */
void dfi__ofi_take(struct ofi *ofi);
void dfi__ofi_lock_poll(struct ofi *ofi);
void dfi__ofi_progress(struct transport *transport, uint32_t looks);
void dfi__ofi_settle(struct transport *transport);
void dfi__ofi_arm(struct transport *transport);

/* Wake the endpoint that sleeps at a word, under the poll lock. */
void dfi__ofi_wake_reader(const struct ofi_export *export);
void dfi__ofi_wake_writer(const struct ofi_remote *remote);

/*
 * The control thread takes what arrives and happens, until it stops that. Both
 * on that thread. -ENOMEM: quiet() is still to be called.
 */
int dfi__ofi_watch(struct ofi *ofi);
void dfi__ofi_quiet(struct ofi *ofi);

/* Have the control thread look: a connection broke, or an endpoint sleeps. */
void dfi__ofi_wake(struct ofi *ofi);

/* descriptors.c */

/* After the queue is opened. Returns 0 or an error for dfi__ofi_fail(). */
int dfi__ofi_descriptors_open(struct ofi *ofi);
void dfi__ofi_descriptors_close(struct ofi *ofi);

/*
 * Watch what the queue waits for now, or nothing any more. The poll lock is
 * held, except while nobody else knows the transport. false: it can't be
 * watched, for want of memory, and nothing is.
 */
bool dfi__ofi_descriptors_watch(struct ofi *ofi);
void dfi__ofi_descriptors_leave(struct ofi *ofi);
/* Whether the queue waits for something else than what is watched. */
bool dfi__ofi_descriptors_changed(struct ofi *ofi);

/* events.c: handle some events; the poll lock is held. Whether none is left. */
bool dfi__ofi_take_events(struct ofi *ofi);

/* connect.c */

/* Make a connection with its endpoint; it isn't listed. */
int dfi__ofi_new_conn(struct ofi *ofi, struct fi_info *info, bool accepted,
    struct ofi_conn **conn);
/* Children close the socket of an established connection. */
void dfi__ofi_own_conn(struct ofi_conn *conn);
/* Close the endpoint: nothing moves on it any more. Both locks are held. */
void dfi__ofi_close_conn(struct ofi_conn *conn);
/* Unlist and free a connection; both locks are held. */
void dfi__ofi_free_conn(struct ofi_conn *conn);
/* Both locks are held. */
void dfi__ofi_list_conn(struct ofi_conn *conn);

/*
 * A connection to the process at an address, for this writer alone at this end.
 * may_share: also one that the process has made for a writer of its own.
 */
int dfi__ofi_connect(struct ofi *ofi, const void *writer, const char *address,
    bool may_share, const struct wait_limit *wait_limit,
    struct ofi_conn **conn);

/*
 * Whether nobody needs a connection any more, so that the end that made it may
 * close it. The table lock is held.
 */
static inline bool ofi_conn_is_unused(const struct ofi_conn *conn)
{
	return !conn->accepted && !conn->writer && !conn->n_links;
}

/* break.c */

/*
 * Mark a connection as unusable. The control thread will inform all that depend
 * on it. Any locks may be held. why NULL: the peer has left.
 */
void dfi__ofi_break(struct ofi_conn *conn, const char *why);

/* A broken connection has lost its writer: have the control thread end it. */
void dfi__ofi_end_broken(struct ofi *ofi);

/* Returns why it is broken; NULL: it isn't, or the peer has left. */
const char *dfi__ofi_why(const struct ofi_conn *conn);

/* Report -ECONNRESET, with the reason why a remote's connection broke. */
int dfi__ofi_lost(const struct ofi_remote *remote);

/* End broken connections. On the control thread, without locks. */
void dfi__ofi_handle_breaks(struct ofi *ofi);

/* The application has closed the descriptors: all connections are lost. */
void dfi__ofi_lose_all(struct ofi *ofi);

/* The control thread looks at what was heard, and sends signs of life. */
void dfi__ofi_beat(struct ofi *ofi);
/* How often, in milliseconds. */
uint32_t dfi__ofi_beat_ms(const struct ofi *ofi);

/* Wait until the peers that still need this process have gone. */
void dfi__ofi_see_off(struct ofi *ofi, int64_t deadline);

/* message.c */

/* Returns the link with this name of the peer's making; NULL: it is stale. */
struct ofi_link *dfi__ofi_link(struct ofi *ofi, uint32_t name);
/* Take a free link and return its name; NETWORK_NO_LINK. Both locks are held.
 */
uint32_t dfi__ofi_link_take(struct ofi *ofi, struct ofi_conn *conn);
void dfi__ofi_link_free(struct ofi_link *link);
/* Free what a remote holds; both locks are held. */
void dfi__ofi_free_remote(struct ofi_remote *remote);

/* Send a message; never waits. -ECONNRESET, without a text: it is broken. */
int dfi__ofi_send(struct ofi_conn *conn, const struct ofi_message *message);
/* The poll lock is held, the table lock isn't. */
void dfi__ofi_message_arrived(
    struct ofi_conn *conn, const struct ofi_message *message);

/* export.c: the transport's operations, and: */

int dfi__ofi_export_room(struct transport *transport, uint64_t size);
int dfi__ofi_export(struct transport *transport, struct region *region,
    const struct ring_layout *layout);
void dfi__ofi_unexport(struct export *base);
enum ring_loss dfi__ofi_ring_lost(
    const struct export *base, uint32_t ring, uint64_t node);
const char *dfi__ofi_ring_why(
    const struct export *base, uint32_t ring, uint64_t node);
int dfi__ofi_give_credit(struct region *region, struct export *base,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed);

/*
 * Detach a peer that can't write any more; both locks are held. Returns whether
 * it has written: if not, the ring is as if it had never been opened.
 */
bool dfi__ofi_leave_export(struct ofi_link *link);
void dfi__ofi_put_export(struct ofi_export *export);
/* Free all exports, when the transport stops. */
void dfi__ofi_free_exports(struct ofi *ofi);

/* memory.c: the transport's operations, and: */

int dfi__ofi_room(struct transport *transport, uint64_t size, uint64_t locked);
int dfi__ofi_send_buffer_create(struct transport *transport, uint64_t size,
    struct send_buffer **send_buffer);
void dfi__ofi_send_buffer_free(struct send_buffer *send_buffer);
/* Make the shadow ring of a remote's ring, and use its send buffer, if any. */
int dfi__ofi_create_shadow(struct ofi *ofi, struct ofi_remote *remote);
/* Call once no connection sends from these any more. */
void dfi__ofi_free_shadow(struct ofi_remote *remote);

/* remote.c, write.c: the transport's operations. */

int dfi__ofi_remote_open(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct send_buffer *send_buffer,
    const struct wait_limit *wait_limit, struct remote **out);
void dfi__ofi_remote_close(struct remote *base);
int dfi__ofi_write(struct remote *base, const struct transport_write *write);
void dfi__ofi_post_remote(struct remote *base);
int dfi__ofi_slot_is_free(struct remote *base);
int dfi__ofi_drained(struct remote *base);
int dfi__ofi_remote_progress(struct remote *base);
void dfi__ofi_arm_remote(struct remote *base);
const char *dfi__ofi_remote_why(const struct remote *remote);
int dfi__ofi_add(struct remote *base, uint64_t offset, uint64_t n);
int dfi__ofi_added(struct remote *base, uint64_t offset, uint64_t *before);

/* stats.c: the transport's operations. */

void dfi__ofi_describe(const struct transport *transport,
    const struct remote *remote, char text[TRANSPORT_WAY_SIZE]);
void dfi__ofi_query(
    struct transport *transport, struct dfi_transport_stats *stats);

#endif
