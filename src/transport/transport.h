/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports: how one process writes into another's memory.
 *
 * A target's process creates a region and publishes its name; a source's
 * process opens the remote region by that name and writes segments into it,
 * one-sided: the owner's processor takes no part. The table is called when
 * endpoints are made and once per segment, never per tuple.
 *
 * Calls return 0 or a negative errno value with an error text. Unless said
 * otherwise they may come from any thread and don't wait.
 */
#ifndef DFI_TRANSPORT_TRANSPORT_H
#define DFI_TRANSPORT_TRANSPORT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <dfi/context.h>
#include "base/bits.h"
#include "base/clock.h"
#include "footer.h"

struct dfi_device_info;
struct loop;
struct multicast_attr;
struct multicast_endpoint;
struct settings;

/* Longest text form of an address, the end included. */
#define TRANSPORT_ADDRESS_SIZE 128

/* Room for the text of describe(). */
#define TRANSPORT_WAY_SIZE 160

/* What a peer needs to open a region; travels through the registry. */
struct region_name {
	char address[TRANSPORT_ADDRESS_SIZE]; /* the transport of the owner */
	uint64_t key;                         /* a random capability */
	uint64_t size;                        /* in bytes */
};

/*
 * The identity of this process towards its peers: a number, and a secret that
 * the registry gives to members only; and how to find the identity of another.
 */
#define MEMBER_TOKEN_SIZE 16

struct member {
	/* A peer; the route to it selects the device by default. */
	const char *route_to;
	/* Which of the transport_ops.n_devices() to use. */
	uint32_t device;
	uint64_t node;
	uint8_t token[MEMBER_TOKEN_SIZE];
	/* Get the secret of a node; false: the node is no member. */
	bool (*find)(
	    void *arg, uint64_t node, uint8_t token[MEMBER_TOKEN_SIZE]);
	void *arg;
};

/* A process's instance of a transport; one per context. */
struct transport {
	const struct transport_ops *ops;
	char address[TRANSPORT_ADDRESS_SIZE];
};

/*
 * Memory of this process that peers write into. It is page-aligned, and may
 * still hold data of another flow. One transport makes a region. Other
 * transports, and several instances of one, may export it as well: each ring is
 * written through one of them all.
 */
struct region {
	struct transport *transport;
	void *base;
	struct region_name name;
	struct export
	    *exports; /* a list, the best first; NULL: there is none */
	_Atomic uint32_t n_exports; /* see region_leave() */
	/*
	 * The owner sets it before others know of the region: how many bytes a
	 * region that is granted for a ring has; 0: none is granted.
	 */
	uint64_t granted_size;
};

/* A region as another transport offers it to peers. */
struct export
{
	struct transport *transport;
	struct export *next; /* of the region */
	struct region_name name;
	/* Counts the writers that were lost; see ring_lost(). */
	_Atomic uint32_t changes;
	/* Some ring is written without a completion here. */
	_Atomic bool unwoken;
	/* The segments of some rings are seen only after progress(). */
	_Atomic bool queued;
	/* Set by the owner: its reader never sleeps. */
	_Atomic bool spins;
};

/* Append an export, as region_ops.export() does when all else is done. */
static inline void region_add_export(
    struct region *region, struct export *export)
{
	struct export **end = &region->exports;

	while (*end)
		end = &(*end)->next;
	export->next = NULL;
	*end = export;
	atomic_fetch_add(&region->n_exports, 1);
}

/*
 * The owner and each export hold a region, and leave it in any order. true:
 * this was the last one, which calls region_ops.destroy().
 */
static inline bool region_leave(struct region *region)
{
	if (atomic_fetch_sub(&region->n_exports, 1))
		return false;
	atomic_store(&region->n_exports, 0);
	return true;
}

/* What a transport must know about the rings of a region. */
struct ring_layout {
	uint32_t n_rings;
	uint64_t first_ring; /* offset in the region */
	uint64_t ring_size;
	/* Offsets in a ring: */
	uint32_t wait_offset; /* where its writer sleeps */
	uint32_t end_footer;  /* of the end mark */
	uint32_t first_slot;
	uint32_t slot_size;
	/*
	 * 0: the region has no rings, but words that any number of peers open
	 * and change by add() only.
	 */
	uint32_t n_slots;
	struct segment_shape shape;
	/* The footer before the first segment's: see footer_next(). */
	uint64_t first_footer[2];
};

/* Offset of a slot's footer in its ring. */
static inline uint64_t layout_footer(
    const struct ring_layout *layout, uint32_t slot)
{
	return layout->first_slot + (uint64_t)layout->slot_size * slot +
	    (uint64_t)layout->shape.footer_offset;
}

/*
 * A send buffer: memory of this process from which a writer sends to several
 * rings, so that it need not fill a shadow ring of each.
 */
struct send_buffer {
	struct transport *transport; /* the transport that made it */
	char *at;
};

/* A device may read this far beyond the bytes that are sent. */
#define TRANSPORT_SEND_BUFFER_PAD (2 * CACHE_LINE)

/*
 * A ring of a peer's region, for its one writer. ring is the ring's memory
 * itself if it can be mapped (in_place). Otherwise ring is its shadow ring in
 * this process: write() sends from it, and the owner's credits arrive in its
 * first words. With a send buffer, the shadow ring has no slots, and write()
 * sends from the send buffer.
 */
struct remote {
	struct transport *transport;
	char *ring;
	struct send_buffer *send_buffer;
	const void *queue; /* remotes with the same queue share a connection */
	bool in_place;
	_Atomic bool lost; /* the owner can no longer be reached */
};

/* Whether the owner of a ring has left. */
enum ring_closed {
	RING_OPEN = 0,
	RING_CLOSED,    /* left, or gave up */
	RING_CANCELLED, /* left because it wants no more */
};

/*
 * What the owner of a ring tells its writer, in the first words of the ring:
 * the number of segments that it has given back, and whether it has left.
 */
struct ring_credit {
	_Atomic uint64_t consumed;
	_Atomic uint32_t closed; /* enum ring_closed */
};

/*
 * One segment to write: the payload, and then the 16-byte footer, whose second
 * word publishes both. A reader that observes that word (acquire) sees all that
 * was written before it, wherever the footer stands. The payload lies in the
 * remote's ring at the same offset, or in the remote's send buffer if it has
 * one. Offsets count from the start of the ring.
 */
struct transport_write {
	const char *buffered; /* where the payload lies in the send buffer */
	uint64_t payload_offset;
	uint64_t payload_size;  /* 0: of an end mark, and of a mark */
	uint64_t footer_offset; /* 16-byte aligned */
	uint64_t footer[2];
	bool more; /* it may wait until the next write, or post() */
};

/*
 * In the first word of a region its reader sleeps (base/wait.h). A later word
 * belongs to the transport.
 */
#define REGION_WAIT_OFFSET 0
#define REGION_RELEASED_OFFSET 64

/*
 * A transport may learn of an end mark's arrival by something else than its
 * footer. It then writes the end mark with footer_hold(), and publishes it when
 * it knows of the arrival. It may leave out the footer of a segment, or write
 * another one in which no byte of the second word's low half is that of the
 * segment's number: the owner makes the footer with footer_next(). A transport
 * that writes payload and footer together, in this order, needs FOOTER_BEHIND.
 * It may have the payload of a partial segment end where its footer begins
 * (FOOTER_FLAG_SHIFTED).
 */

/*
 * How long the opening of a ring waits for its owner. given_up (may be NULL)
 * tells whether the owner is known to be gone. It is called now and then with
 * locks of the transport held, so it must not call the transport.
 */
struct wait_limit {
	int64_t deadline;
	bool (*given_up)(void *arg);
	void *arg;
};

/* A wait until this time, even if the owner is gone. */
#define WAIT_LIMIT(until) (&(const struct wait_limit){ .deadline = (until) })

static inline bool wait_limit_given_up(const struct wait_limit *wait_limit)
{
	return wait_limit->given_up && wait_limit->given_up(wait_limit->arg);
}

/* How long to sleep in poll(2) before given_up is called again. */
static inline int wait_limit_look_ms(const struct wait_limit *wait_limit)
{
	int64_t look = clock_now_ns() + INT64_C(100) * NS_PER_MS;

	return deadline_left_ms(
	    look < wait_limit->deadline ? look : wait_limit->deadline);
}

/*
 * What an export knows of a ring's writer. A writer may have tried one export
 * and then have taken another, so of several answers the highest is true.
 */
enum ring_loss {
	RING_KEPT = 0,       /* none was lost, or none came */
	RING_LOST_UNWRITTEN, /* it had written nothing */
	RING_TAKEN,          /* it, or one that came later, has the ring */
	RING_LOST,
};

/*
 * The tables of a transport. Each entry says who may call it, whether it may
 * block, and which errors it has beside -ENOMEM; "any" is any thread. The
 * tables lie in struct transport_ops by value, so that a call costs one load
 * and one indirect call. An entry may be NULL only where its comment says so.
 */

/* Memory of this process that peers write into: the owner's side. */
struct region_ops {
	/*
	 * Returns how much memory create() takes for size bytes, without
	 * optional huge pages. Any; never blocks; no errors. NULL, as are the
	 * next two: the transport makes no memory, and only exports regions of
	 * others.
	 */
	uint64_t (*bytes)(const struct transport *transport, uint64_t size);

	/*
	 * Reserve size bytes of memory that exists from now on, so that no
	 * later access can fail. The calling thread touches it first, so it
	 * lies on that thread's memory node. Any; blocks as
	 * dfi__reservation_begin() does. -EMFILE, -EIO.
	 */
	int (*create)(
	    struct transport *transport, uint64_t size, struct region **region);

	/*
	 * Give up the owner's reference. Peers that have the region open may
	 * still write into it; the memory is freed when the last of them
	 * closes. Any; never blocks.
	 */
	void (*destroy)(struct region *region);

	/*
	 * Check, before the memory is reserved, that size more bytes may be
	 * exported. Any; never blocks. -ENOMEM with need, limit and remedy.
	 * NULL, as are the next two: peers open the region that create() made.
	 */
	int (*export_room)(struct transport *transport, uint64_t size);

	/*
	 * Offer a region that another transport made to the peers of this one:
	 * region_add_export(). The endpoint that made it; blocks as create()
	 * does. -EOPNOTSUPP: the device can't add, for a layout of counters.
	 * -EIO.
	 */
	int (*export)(struct transport *transport, struct region *region,
	    const struct ring_layout *layout);

	/*
	 * End the export. When no peer can write through it any more, it is
	 * freed, and leaves the region (region_leave()). The endpoint that made
	 * it, after its last call on the export; never blocks.
	 */
	void (*unexport)(struct export *export);

	/*
	 * Where regions can be mapped: grant one to the owner of ring number
	 * ring, who can read it as long as it has that ring, even after this
	 * process has ended. The writer; blocks up to its wait limit. -EBADMSG:
	 * its size is not granted_size. -EMFILE: also, if the owner may have no
	 * more descriptors. -ECONNRESET, -ETIMEDOUT. NULL: nothing can be
	 * mapped.
	 */
	int (*grant)(struct region *granted, const struct region_name *to,
	    uint32_t ring, const struct wait_limit *wait_limit);

	/*
	 * Returns the region that was granted under that key for a ring, and
	 * its size; NULL: none was. The ring's reader; never blocks.
	 */
	const void *(*granted)(
	    struct region *region, uint32_t ring, uint64_t key, uint64_t *size);

	/*
	 * Unmap all regions that were granted for a ring so far. The ring's
	 * reader; never blocks. NULL: as before.
	 */
	void (*forget)(struct region *region, uint32_t ring);
};

/*
 * One ring between one writer and its owner. open() makes it and close()
 * unmakes it, while the flow and the other rings of its region go on. The
 * writer calls the entries on a struct remote, one thread at a time; the owner
 * calls those on a region or an export.
 */
struct ring_ops {
	/*
	 * Check, before the first remote of a writer is opened, that all its
	 * remotes together can have size bytes of memory, of which locked bytes
	 * are locked, for one or several devices. Any; never blocks. -ENOMEM
	 * with need, limit and remedy.
	 */
	int (*room)(
	    struct transport *transport, uint64_t size, uint64_t locked);

	/*
	 * Reserve and lock a send buffer, with which remotes of all instances
	 * of this transport can be opened. The writer; blocks as
	 * region_ops.create() does. NULL, as is the next: rings are mapped.
	 */
	int (*send_buffer_create)(struct transport *transport, uint64_t size,
	    struct send_buffer **send_buffer);

	/*
	 * Free a send buffer that nobody writes from any more; remotes that are
	 * closing may keep it for a while. The writer; never blocks.
	 */
	void (*send_buffer_free)(struct send_buffer *send_buffer);

	/*
	 * Connect to the owner and open ring number ring. Remotes that have the
	 * same writer, any address, may share a connection: one thread at a
	 * time uses them all, until the last is closed. send_buffer: as
	 * remote.send_buffer, or NULL. Any; blocks up to its wait limit, and as
	 * region_ops.create() does. -EEXIST: the ring has had a writer.
	 * -ECONNRESET, -ETIMEDOUT: also, if the wait was given up.
	 * -EHOSTUNREACH, -EACCES, -EMFILE, -EBADMSG, -EIO.
	 */
	int (*open)(struct transport *transport, const void *writer,
	    const struct region_name *name, const struct ring_layout *layout,
	    uint32_t ring, struct send_buffer *send_buffer,
	    const struct wait_limit *wait_limit, struct remote **remote);

	/* Leave the ring at any time. The writer; never blocks. */
	void (*close)(struct remote *remote);

	/*
	 * Write a segment and wake its reader. Writes of one remote become
	 * visible in the order of the calls. The footer lies inside the ring:
	 * the caller has checked that with the layout. The writer; never
	 * blocks. -ECONNRESET: the remote is lost.
	 */
	int (*write)(
	    struct remote *remote, const struct transport_write *write);

	/*
	 * Post all writes with "more" that remotes of this queue still hold.
	 * The writer calls it before it waits or returns, unless its own caller
	 * promised more; never blocks. If it fails, the remotes are lost; the
	 * next call reports that. NULL: rings are mapped.
	 */
	void (*post)(struct remote *remote);

	/* Wake the region's reader, as write() does. The writer; never blocks.
	 */
	void (*wake)(struct remote *remote);

	/*
	 * Returns 1 if a slot that the target has given back may be filled now,
	 * or 0 while too many writes are under way. The writer; never blocks.
	 * -ECONNRESET. NULL, as are the next four: rings are mapped.
	 */
	int (*slot_is_free)(struct remote *remote);

	/*
	 * Returns 1 if all that was written has arrived, else 0. The writer;
	 * never blocks. -ECONNRESET.
	 */
	int (*drained)(struct remote *remote);

	/*
	 * Like transport_ops.progress(), for a writer that waits for credit.
	 * The writer; never blocks. -ECONNRESET.
	 */
	int (*progress)(struct remote *remote);

	/* Like transport_ops.arm(), before sleeping for credit or slots. */
	void (*arm)(struct remote *remote);

	/*
	 * Returns why a remote was lost, for an error text; NULL: the peer
	 * closed the connection, or nothing was lost. The writer; never blocks.
	 */
	const char *(*owner_why)(const struct remote *remote);

	/*
	 * Publish a ring's credit to its writer, and wake it. export: one of
	 * the region's; NULL: the transport made the region. Returns 1, or 0
	 * if the ring is not written through it. The reader; never blocks.
	 * -ECONNRESET.
	 */
	int (*give_credit)(struct region *region, struct export *export,
	    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
	    enum ring_closed closed);

	/*
	 * Tells whether the ring's writer was lost before its end mark came.
	 * node: the id of its process, or 0 if that is not known yet. An
	 * earlier writer that was lost before it wrote anything does not count.
	 * The owner; never blocks. NULL, as is the next: the transport exports
	 * nothing.
	 */
	enum ring_loss (*lost)(
	    const struct export *export, uint32_t ring, uint64_t node);

	/* Returns why, as owner_why() does. The owner; never blocks. */
	const char *(*writer_why)(
	    const struct export *export, uint32_t ring, uint64_t node);
};

/* Words that many processes add to: a layout without slots. */
struct counter_ops {
	/*
	 * Add to the word at an offset of the remote, atomically towards all
	 * that add through the owner's transport. The owner's processor must
	 * not add to the word meanwhile. The thread that opened the remote;
	 * never blocks. -ECONNRESET: the addition may or may not have happened.
	 */
	int (*add)(struct remote *remote, uint64_t offset, uint64_t n);

	/*
	 * Get the word's value before the addition. Returns 1, or 0 while the
	 * value is not known; it must return 1 before the next add(). Memory
	 * that peers wrote before they got lower numbers need not be visible
	 * then. Call rule as for add().
	 */
	int (*added)(struct remote *remote, uint64_t offset, uint64_t *before);
};

/* Datagrams to many (multicast.h). */
struct mcast_ops {
	/* Tells whether groups have IPv6 addresses. Any; never blocks. */
	bool (*is_v6)(const struct transport *transport);

	/*
	 * Returns the largest size of a datagram; 0 if it can't be found out.
	 * Any; never blocks.
	 */
	uint32_t (*size)(const struct transport *transport);

	/*
	 * Returns how much memory an endpoint takes and locks. It also locks
	 * the memory that it sends from, which does not count here. transport
	 * NULL: no device limits it. Any; never blocks.
	 */
	uint64_t (*bytes)(const struct transport *transport,
	    const struct multicast_attr *attr);

	/*
	 * Check that this memory can be had. Any; never blocks. -ENOMEM with
	 * need, limit and remedy.
	 */
	int (*room)(
	    struct transport *transport, const struct multicast_attr *attr);

	/*
	 * Open an endpoint; it must be closed before stop(). Any; blocks until
	 * the deadline. multicast.h lists its errors.
	 */
	int (*open)(struct transport *transport,
	    const struct multicast_attr *attr, int64_t deadline,
	    struct multicast_endpoint **endpoint);
};

/*
 * What processes of the same host and user may ask each other beside regions: a
 * report about their endpoints, of TRANSPORT_REPORT_MAX bytes at most.
 */
#define TRANSPORT_REPORT_MAX (128 << 10)

struct report_ops {
	/*
	 * From now on, answer requests with report(arg, after, &size). It runs
	 * on the control thread and returns memory that is freed with free()
	 * (NULL: there is none). The two ends agree on the meaning of after.
	 * Any; never blocks. report NULL: no reports are given any more; on the
	 * control thread.
	 */
	void (*serve)(struct transport *transport,
	    void *(*report)(void *arg, uint64_t after, size_t *size),
	    void *arg);

	/*
	 * Ask the process at an address for its report; the caller frees *data.
	 * Any; blocks until the deadline. -ECONNRESET: the process is gone.
	 * -EACCES: it belongs to another user. -ETIMEDOUT: it doesn't answer.
	 * -EPROTO: it has another version. -EBADMSG, -EMFILE, -EIO.
	 */
	int (*fetch)(const char *address, uint64_t after, int64_t deadline,
	    void **data, size_t *size);
};

struct transport_ops {
	const char *name; /* in registry entries, so it never changes */

	/*
	 * Where the footers of its rings may stand: FOOTER_SIDES_BOTH, or the
	 * FOOTER_SIDE() that it needs. The first transport of the table serves
	 * both.
	 */
	uint32_t footer_sides;

	/*
	 * Bytes move only while some thread of the process looks for arrivals,
	 * so a target that sleeps unseen holds up its sources.
	 */
	bool moves_by_looks;

	/*
	 * Returns how many devices the settings name, 1 if they name none: as
	 * many instances serve a process, which have member.device from 0 on.
	 * Any; never blocks. NULL: one serves.
	 */
	uint32_t (*n_devices)(const struct settings *settings);

	/*
	 * Start serving peers on the context's control thread. The settings
	 * must outlive the control thread. Any but the control thread; blocks
	 * until that has added the events, and for settings->open_timeout_ms at
	 * most. -ENODEV, -EMFILE, -EIO, -EOWNERDEAD, -ETIMEDOUT.
	 */
	int (*start)(struct loop *loop, const struct settings *settings,
	    const struct member *self, struct transport **transport);

	/*
	 * Wait for peers that still need this process, some seconds at most,
	 * and for the control thread until the deadline. Only stop() may
	 * follow. Any but the control thread. NULL: no peer does.
	 */
	void (*leave)(struct transport *transport, int64_t deadline);

	/*
	 * Stop; all regions and remotes of the transport must be gone. Any. On
	 * the control thread it does so at once. Otherwise it blocks as start()
	 * does; after that time, the control thread does it when it runs.
	 */
	void (*stop)(struct transport *transport);

	/*
	 * Tells whether to try this instance for the owner at an address: the
	 * route there uses its device, or both are of one network, or the
	 * settings demand it, or nothing is known. Any; never blocks. NULL: the
	 * transport serves one host.
	 */
	bool (*reaches)(const struct transport *transport, const char *address);

	/*
	 * Take in what has arrived, for all endpoints, unless another thread is
	 * doing that. While nothing is there, it looks as often as looks says.
	 * Any thread that waits, repeatedly; never blocks. It wakes without a
	 * fence, as arm() orders both (wait_wake_locked()). NULL, as are the
	 * next two: what peers write is visible at once.
	 */
	void (*progress)(struct transport *transport, uint32_t looks);

	/*
	 * Take in all that arrived before the call. Any; blocks while another
	 * thread does so.
	 */
	void (*settle)(struct transport *transport);

	/*
	 * From now on, the control thread takes in arrivals and wakes sleepers.
	 * Any, before it sleeps and after it has set its wait word; it then
	 * looks once more. Blocks as settle() does.
	 */
	void (*arm)(struct transport *transport);

	/*
	 * Describe the device, port and GID in use, for people; with a remote,
	 * also how its owner learns of segments. Any; never blocks. NULL: no
	 * device.
	 */
	void (*describe)(const struct transport *transport,
	    const struct remote *remote, char text[TRANSPORT_WAY_SIZE]);

	/*
	 * Fill in this instance's counters, its device and its address; the
	 * rest of *stats is set, and all else is 0. A transport's own counters
	 * come by stats_count(). Any; never blocks. May be NULL.
	 */
	void (*query)(
	    struct transport *transport, struct dfi_transport_stats *stats);

	/*
	 * Serve dfi_device_list() with these settings. Any; never blocks.
	 * -ENODEV: there is none. NULL: the transport uses no devices.
	 */
	int (*devices)(const struct settings *settings,
	    int (*fn)(void *arg, const struct dfi_device_info *info),
	    void *arg);

	struct region_ops region;
	struct ring_ops ring;
	struct counter_ops counter;      /* entries NULL: words are mapped */
	const struct mcast_ops *mcast;   /* NULL: it has no datagrams */
	const struct report_ops *report; /* NULL: it serves several hosts */
};

/* Append a transport's own counter: at most DFI_MAX_COUNTERS. */
static inline void stats_count(
    struct dfi_transport_stats *stats, const char *name, uint64_t value)
{
	struct dfi_counter *counter = &stats->counters[stats->n_counters++];

	assert(stats->n_counters <= DFI_MAX_COUNTERS &&
	    strlen(name) < sizeof(counter->name));
	memcpy(counter->name, name, strlen(name) + 1);
	counter->value = value;
}

/*
 * The size of memory for a send buffer or a shadow ring (struct remote). huge:
 * of required huge pages; with optional ones it may take as much.
 */
#define TRANSPORT_SHADOW_PAGE 4096
#define TRANSPORT_HUGE_PAGE (UINT64_C(2) << 20)
static inline uint64_t transport_shadow_bytes(uint64_t size, bool huge)
{
	return align_up(
	    size, huge ? TRANSPORT_HUGE_PAGE : TRANSPORT_SHADOW_PAGE);
}

/*
 * Check the size that a peer states for a region that was made for bytes: the
 * peer may have pages of another size. Mapping a region allocates all of its
 * memory, so a wrong size must be refused first.
 */
static inline bool transport_region_fits(uint64_t size, uint64_t bytes)
{
	return size >= bytes && size <= align_up(bytes, TRANSPORT_HUGE_PAGE);
}

/*
 * How many bytes of the ring a shadow ring has. With a send buffer, it has what
 * precedes the slots, and then the footers, which may differ from ring to ring.
 */
static inline uint64_t transport_shadow_size(
    const struct ring_layout *layout, bool buffered)
{
	return buffered ? layout->first_slot +
		(uint64_t)layout->n_slots * sizeof(struct segment_footer)
			: layout->ring_size;
}

/*
 * What may arrive at once for a ring that a device writes to, beside its
 * segments: messages and the end mark for its reader, messages and credits for
 * its writer; and for all rings of a region.
 */
#define TRANSPORT_RING_RECEIVES UINT64_C(4)
static inline uint64_t transport_region_receives(
    const struct ring_layout *layout)
{
	return layout->n_rings * (layout->n_slots + TRANSPORT_RING_RECEIVES);
}

extern const struct transport_ops dfi__shm_ops;
extern const struct transport_ops dfi__ofi_ops;
extern const struct transport_ops dfi__verbs_ops;

#endif
