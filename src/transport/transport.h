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

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bits.h"
#include "base/clock.h"
#include "footer.h"

struct dfi_context_stats;
struct dfi_device_info;
struct loop;
struct multicast_attr;
struct multicast_port;
struct settings;

/* Longest text form of an address, the end included. */
#define TRANSPORT_ADDRESS_SIZE 128

/* Room for what describe() says. */
#define TRANSPORT_WAY_SIZE 160

/* What a peer needs to open a region; travels through the registry. */
struct region_name {
	char address[TRANSPORT_ADDRESS_SIZE]; /* of the owner's transport */
	uint64_t key;                         /* a random capability */
	uint64_t size;                        /* in bytes */
};

/*
 * Who this process is to its peers: a number and a secret that the registry
 * gives to members only, and how to find another's.
 */
#define MEMBER_TOKEN_SIZE 16

struct member {
	/* A peer whose route decides what to use, if the settings don't. */
	const char *route_to;
	uint64_t node;
	uint8_t token[MEMBER_TOKEN_SIZE];
	/* The secret of a node; false: it is no member. */
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
 * Memory of this process that peers write into. Page-aligned; it may hold
 * anything, such as what another flow has left there. One transport makes it;
 * another may export it, too, so that some rings are written through the one
 * and some through the other.
 */
struct region {
	struct transport *transport;
	void *base;
	struct region_name name;
	struct export *export; /* NULL: by nobody else */
	/*
	 * For the owner to set before others know of it: what is shown for a
	 * ring of it was made for so many bytes; 0: nothing is.
	 */
	uint64_t shown_size;
};

/* A region as another transport shows it to peers. */
struct export
{
	struct transport *transport;
	struct region_name name;
	/* Counts the writers that were lost; see ring_lost(). */
	_Atomic uint32_t changes;
	/* Some ring is written without telling this process. */
	_Atomic bool silent;
	/* Of some, the segments are seen only after progress() took them in. */
	_Atomic bool told;
	/*
	 * For the owner to set: its reader never sleeps, so that rings that are
	 * opened now may be silent.
	 */
	_Atomic bool spins;
};

/* What a transport must know of the rings of a region. */
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
	 * 0: these are no rings, but words that any number of peers open and
	 * change by add() alone.
	 */
	uint32_t n_slots;
	struct segment_shape shape;
	/* The one before the first segment's: see footer_next(). */
	uint64_t first_footer[2];
};

/*
 * Memory of this process that a writer sends to several rings from, instead of
 * filling an image of each.
 */
struct stage {
	struct transport *transport; /* that made it */
	char *at;
};

/* A device may read so far behind what is sent. */
#define TRANSPORT_STAGE_PAD (2 * CACHE_LINE)

/*
 * A ring of a peer's region, for its one writer. ring is the ring's memory
 * itself if it can be mapped (in_place); else an image of it in this process,
 * from which write() sends and into whose first words the owner's credits
 * arrive. With a stage it is an image without slots, and write() sends from the
 * stage.
 */
struct remote {
	struct transport *transport;
	char *ring;
	struct stage *stage;
	const void *queue; /* remotes that have the same one share it */
	bool in_place;
	_Atomic bool lost; /* the owner can't be reached any more */
};

/* Whether the owner of a ring has left. */
enum ring_closed {
	RING_OPEN = 0,
	RING_CLOSED,    /* left, or gave up */
	RING_CANCELLED, /* left because it wants no more */
};

/*
 * What the owner of a ring tells its writer, in the first words of the ring:
 * how many segments it has given back, and whether it has left.
 */
struct ring_credit {
	_Atomic uint64_t consumed;
	_Atomic uint32_t closed; /* enum ring_closed */
};

/*
 * One segment to write: the payload, and then the 16-byte footer, of which the
 * second word publishes both. A reader that observes that word (acquire) sees
 * all that was written before it. The payload lies in the remote's ring, at the
 * same offset, or, if that has a stage, in this. Offsets count from the start
 * of the ring.
 */
struct transport_write {
	const char *staged; /* where the payload lies, with a stage */
	uint64_t payload_offset;
	uint64_t payload_size;
	uint64_t footer_offset; /* 16-byte aligned */
	uint64_t footer[2];
	bool more; /* it may be held until the next write, or post() */
};

/*
 * The first word of a region is where its reader sleeps (base/wait.h). Further
 * on there is a word of the transport's own.
 */
#define REGION_WAIT_OFFSET 0
#define REGION_LET_GO_OFFSET 64

/*
 * A transport that learns of an end mark's arrival in another way than by its
 * footer writes it with footer_hold() and publishes it when it knows. Of a
 * segment it need not write the footer at all, or may write another one, if no
 * byte of the low half of its second word is that of the segment's number: the
 * owner makes it with footer_next(). A transport that writes payload and footer
 * together may have the payload of a partial segment end before its footer
 * (FOOTER_FLAG_SHIFTED).
 */

/*
 * How long who opens a ring waits for its owner. given_up: may be NULL; whether
 * the owner is known to be gone. It is called now and then, with locks of the
 * transport held, and may not call that.
 */
struct wait_limit {
	int64_t deadline;
	bool (*given_up)(void *arg);
	void *arg;
};

/* Until then, whatever becomes of the owner. */
#define WAIT_LIMIT(until) (&(const struct wait_limit){ .deadline = (until) })

static inline bool wait_limit_given_up(const struct wait_limit *wait_limit)
{
	return wait_limit->given_up && wait_limit->given_up(wait_limit->arg);
}

/* How long to sleep in poll(2) before the next look at given_up. */
static inline int wait_limit_look_ms(const struct wait_limit *wait_limit)
{
	int64_t look = clock_now_ns() + INT64_C(100) * NS_PER_MS;

	return deadline_left_ms(
	    look < wait_limit->deadline ? look : wait_limit->deadline);
}

/* What became of a ring's writer. */
enum ring_loss {
	RING_KEPT = 0,
	RING_LOST_UNWRITTEN, /* it had written nothing: another may come */
	RING_LOST,
};

/*
 * The tables of a transport. Each entry says who may call it, whether it may
 * block, and which errors it has beside -ENOMEM; "any" is any thread. They lie
 * in struct transport_ops by value, so that a call costs one load and one
 * indirect call. An entry is NULL where a transport does not have it, which the
 * entry then says.
 */

/* Memory of this process that peers write into: the owner's side. */
struct region_ops {
	/*
	 * What create() takes for size bytes, if it finds no reserved huge
	 * pages that it need not have. Any; never blocks; no errors. NULL, as
	 * are the next two: it makes no memory, and only exports that of
	 * others.
	 */
	uint64_t (*bytes)(const struct transport *transport, uint64_t size);

	/*
	 * Reserve size bytes, backed by memory now, so that no later access
	 * can fail, and touched by a thread of the caller's memory node. Any;
	 * blocks as dfi__reservation_begin() does. -EMFILE, -EIO.
	 */
	int (*create)(
	    struct transport *transport, uint64_t size, struct region **region);

	/*
	 * Give up the owner's hold. Peers that have the region open may still
	 * write into it; the memory goes when the last of them closes. Any;
	 * never blocks.
	 */
	void (*destroy)(struct region *region);

	/*
	 * Whether so many bytes more may be exported, before they are reserved.
	 * Any; never blocks. -ENOMEM with need, limit and remedy. NULL, as are
	 * the next two: peers open what create() made.
	 */
	int (*export_room)(struct transport *transport, uint64_t size);

	/*
	 * Show a region that another transport made to this one's peers; sets
	 * region->export. The endpoint that made it; never blocks.
	 * -EOPNOTSUPP: the device can't add, for a layout of counters. -EIO.
	 */
	int (*export)(struct transport *transport, struct region *region,
	    const struct ring_layout *layout);

	/*
	 * End that, and destroy the region; its memory goes when no peer may
	 * write to it any more. As export().
	 */
	void (*unexport)(struct region *region);

	/*
	 * Where regions can be mapped: show one to the owner of ring number
	 * ring, who can read it as long as it has that ring, whatever becomes
	 * of this process. The writer; blocks up to its wait limit. -EBADMSG:
	 * not of shown_size. -EMFILE: also, if the owner may have no more
	 * descriptors. -ECONNRESET, -ETIMEDOUT. NULL: nothing can be mapped.
	 */
	int (*show)(struct region *shown, const struct region_name *to,
	    uint32_t ring, const struct wait_limit *wait_limit);

	/*
	 * What was shown for a ring of a region under that key, and how large
	 * it is; NULL: nothing was. The ring's reader; never blocks.
	 */
	const void *(*shown)(
	    struct region *region, uint32_t ring, uint64_t key, uint64_t *size);
};

/*
 * One ring between one writer and its owner. It is made by open() and unmade by
 * close(), while the flow and the other rings of its region go on. The entries
 * on a struct remote are its writer's, one thread at a time; those on a region
 * or an export are the owner's.
 */
struct ring_ops {
	/*
	 * Whether what all remotes of a writer take can be had, before the
	 * first of them is opened: so many bytes, of which some are locked, by
	 * one or several devices. Any; never blocks. -ENOMEM with need, limit
	 * and remedy.
	 */
	int (*room)(
	    struct transport *transport, uint64_t size, uint64_t locked);

	/*
	 * Reserve a stage, locked, which remotes of all instances of this
	 * transport can be opened with. The writer; never blocks. NULL, as is
	 * the next: rings are mapped.
	 */
	int (*stage_create)(
	    struct transport *transport, uint64_t size, struct stage **stage);

	/*
	 * Nobody may write from it any more; remotes that are closing may keep
	 * it for a while. The writer; never blocks.
	 */
	void (*stage_free)(struct stage *stage);

	/*
	 * Connect to the owner and open ring number ring. Remotes of one writer
	 * may share a connection. stage: NULL, or what is sent lies there. Any;
	 * blocks up to its wait limit. -EEXIST: the ring has had a writer.
	 * -ECONNRESET, -ETIMEDOUT: also, if it was given up. -EHOSTUNREACH,
	 * -EACCES, -EMFILE, -EBADMSG, -EIO.
	 */
	int (*open)(struct transport *transport, const void *writer,
	    const struct region_name *name, const struct ring_layout *layout,
	    uint32_t ring, struct stage *stage,
	    const struct wait_limit *wait_limit, struct remote **remote);

	/* Leave the ring, whatever is under way. The writer; never blocks. */
	void (*close)(struct remote *remote);

	/*
	 * Write a segment and wake its reader. Writes of one remote become
	 * visible in the order of the calls. The footer lies inside the ring:
	 * the caller checked that with the layout. The writer; never blocks.
	 * -ECONNRESET: the remote is lost.
	 */
	int (*write)(
	    struct remote *remote, const struct transport_write *write);

	/*
	 * Hold no longer what was written with "more" to any remote of this
	 * queue. The writer calls it before it waits or returns, unless its own
	 * caller promised more; never blocks. If it fails, the remotes are
	 * lost, which the next call finds. NULL: rings are mapped.
	 */
	void (*post)(struct remote *remote);

	/* Wake the region's reader, as write() does. The writer; never blocks.
	 */
	void (*wake)(struct remote *remote);

	/*
	 * Whether a slot that the target has given back may be filled now: 1,
	 * or 0 while too much is under way. The writer; never blocks.
	 * -ECONNRESET. NULL, as are the next four: rings are mapped.
	 */
	int (*slot_is_free)(struct remote *remote);

	/*
	 * Whether all that was written has arrived: 1, or 0. The writer; never
	 * blocks. -ECONNRESET.
	 */
	int (*drained)(struct remote *remote);

	/*
	 * As transport_ops.progress(), for a writer that waits for credit. The
	 * writer; never blocks. -ECONNRESET.
	 */
	int (*progress)(struct remote *remote);

	/* As transport_ops.arm(), before sleeping for credit or slots. */
	void (*arm)(struct remote *remote);

	/*
	 * Why a remote was lost, for an error text; NULL: the peer closed the
	 * connection, or nothing was lost. The writer; never blocks.
	 */
	const char *(*owner_why)(const struct remote *remote);

	/*
	 * Publish a ring's credit to its writer, and wake it: 1, or 0 if the
	 * ring isn't written through this transport. The reader; never blocks.
	 * -ECONNRESET.
	 */
	int (*give_credit)(struct region *region,
	    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
	    enum ring_closed closed);

	/*
	 * Whether the ring's writer was lost before its end mark came. node:
	 * the id of its process by now, or 0 if that is not known; another
	 * writer that was lost before, and had written nothing, doesn't count.
	 * The owner; never blocks. NULL, as is the next: it exports nothing.
	 */
	enum ring_loss (*lost)(
	    const struct export *export, uint32_t ring, uint64_t node);

	/* Why, as owner_why() tells it. The owner; never blocks. */
	const char *(*writer_why)(
	    const struct export *export, uint32_t ring, uint64_t node);
};

/* Words of a region that many add to: remotes of a layout without slots. */
struct counter_ops {
	/*
	 * Add to the word at an offset in what the remote has opened, in one
	 * step for all who do the same through the owner's transport; the
	 * owner's processor may not add to it meanwhile. Who opened the remote;
	 * never blocks. -ECONNRESET: nobody knows whether it was added.
	 */
	int (*add)(struct remote *remote, uint64_t offset, uint64_t n);

	/*
	 * What the word was before: 1, or 0 while that is not known; it is 1
	 * before the next add(). What peers did before they got lower numbers
	 * is not known by that. As add().
	 */
	int (*added)(struct remote *remote, uint64_t offset, uint64_t *before);
};

/* Datagrams to many (multicast.h). */
struct mcast_ops {
	/* Whether groups have IPv6 addresses. Any; never blocks. */
	bool (*is_v6)(const struct transport *transport);

	/*
	 * How large datagrams may be; 0 if that can't be found out. Any; never
	 * blocks.
	 */
	uint32_t (*size)(const struct transport *transport);

	/*
	 * What a port takes, and locks, beside the memory that it sends from,
	 * which it locks as well; transport NULL: where no device limits it.
	 * Any; never blocks.
	 */
	uint64_t (*bytes)(const struct transport *transport,
	    const struct multicast_attr *attr);

	/*
	 * Whether that can be had. Any; never blocks. -ENOMEM with need, limit
	 * and remedy.
	 */
	int (*room)(
	    struct transport *transport, const struct multicast_attr *attr);

	/*
	 * Open a port, which must be closed before stop(). Any; blocks until
	 * the deadline. Its errors are in multicast.h.
	 */
	int (*open)(struct transport *transport,
	    const struct multicast_attr *attr, int64_t deadline,
	    struct multicast_port **port);
};

/*
 * What processes of this host and user may ask each other beside regions: a
 * report on their endpoints, of TRANSPORT_REPORT_MAX bytes at most.
 */
#define TRANSPORT_REPORT_MAX (128 << 10)

struct report_ops {
	/*
	 * From now on report(arg, after, &size) makes one on the control
	 * thread, in memory that is freed with free() (NULL: there is none).
	 * What after means is between the two ends. NULL: none is given any
	 * more, when the call returns. Any; blocks until the control thread has
	 * taken that.
	 */
	int (*serve)(struct transport *transport,
	    void *(*report)(void *arg, uint64_t after, size_t *size),
	    void *arg);

	/*
	 * Ask the process at an address for its report; the caller frees *data.
	 * Any; blocks until the deadline. -ECONNRESET: it is gone, -EACCES:
	 * another user's, -ETIMEDOUT: it doesn't answer, -EPROTO: it has
	 * another version, -EBADMSG, -EMFILE, -EIO.
	 */
	int (*fetch)(const char *address, uint64_t after, int64_t deadline,
	    void **data, size_t *size);
};

struct transport_ops {
	const char *name; /* in registry entries: it never changes */

	/*
	 * Start serving peers on the context's control thread. The settings
	 * must outlive the transport. Any but the control thread; blocks until
	 * that has taken the events. -ENODEV, -EMFILE, -EIO, -EOWNERDEAD.
	 */
	int (*start)(struct loop *loop, const struct settings *settings,
	    const struct member *self, struct transport **transport);

	/*
	 * Stop; all its regions and remotes must be gone. As start(); may wait
	 * for peers for some seconds.
	 */
	void (*stop)(struct transport *transport);

	/*
	 * Whether the route to the owner at an address is through what this
	 * transport uses, or it is to be tried anyhow, because the settings say
	 * so or nothing is known. Any; never blocks. NULL: it serves one host.
	 */
	bool (*reaches)(const struct transport *transport, const char *address);

	/*
	 * Take in what has arrived, for all endpoints, unless another thread
	 * just does; while nothing is there, it looks so many times. Any that
	 * waits, again and again; never blocks. It wakes without a fence, as
	 * arm() orders both (wait_wake_locked()). NULL, as are the next two:
	 * what is written is there.
	 */
	void (*progress)(struct transport *transport, uint32_t looks);

	/*
	 * Take in all that arrived before the call. Any; blocks while another
	 * thread takes in.
	 */
	void (*settle)(struct transport *transport);

	/*
	 * Have the control thread take in, and wake sleepers, from now on. Any,
	 * before it sleeps and once its wait word is set; it looks once more
	 * then. Blocks as settle().
	 */
	void (*arm)(struct transport *transport);

	/*
	 * The device, port and GID in use, for people; with a remote also how
	 * its owner learns of segments. Any; never blocks. NULL: no device.
	 */
	void (*describe)(const struct transport *transport,
	    const struct remote *remote, char text[TRANSPORT_WAY_SIZE]);

	/* Add what was counted. Any; never blocks. NULL: nothing is. */
	void (*query)(
	    struct transport *transport, struct dfi_context_stats *stats);

	/*
	 * What dfi_device_list() does, with these settings. Any; never blocks.
	 * NULL: it uses no devices.
	 */
	int (*devices)(const struct settings *settings,
	    int (*fn)(void *arg, const struct dfi_device_info *info),
	    void *arg);

	struct region_ops region;
	struct ring_ops ring;
	struct counter_ops counter;      /* all NULL: the word can be mapped */
	const struct mcast_ops *mcast;   /* NULL: there are no datagrams */
	const struct report_ops *report; /* NULL: it serves several hosts */
};

/*
 * Memory for a stage, or for the image of a ring: see struct remote. Of huge
 * pages if they are required; if they are only tried, it may be as much.
 */
#define TRANSPORT_IMAGE_PAGE 4096
#define TRANSPORT_HUGE_PAGE (UINT64_C(2) << 20)
static inline uint64_t transport_image_bytes(uint64_t size, bool huge)
{
	return align_up(
	    size, huge ? TRANSPORT_HUGE_PAGE : TRANSPORT_IMAGE_PAGE);
}

/*
 * Whether a region that was made for so many bytes can be as large as a peer
 * says, who may have pages of another size. Else it isn't worth being looked
 * at: whoever maps it would have all of its memory.
 */
static inline bool transport_region_fits(uint64_t size, uint64_t bytes)
{
	return size >= bytes && size <= align_up(bytes, TRANSPORT_HUGE_PAGE);
}

/*
 * How much an image has of the ring: with a stage, what is before the slots,
 * and the footers, which may differ from ring to ring, one behind the other.
 */
static inline uint64_t transport_image_size(
    const struct ring_layout *layout, bool staged)
{
	return staged ? layout->first_slot +
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

/*
 * The table of transports (transports.c), which ends with NULL. The first makes
 * regions, in memory that the contexts of one host share. The others export
 * these to other hosts; of them, a context starts the first whose device it
 * has.
 */
extern const struct transport_ops *const dfi__transports[];

extern const struct transport_ops dfi__shm_ops;
extern const struct transport_ops dfi__verbs_ops;

#endif
