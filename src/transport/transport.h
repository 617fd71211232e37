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
struct patience {
	int64_t deadline;
	bool (*given_up)(void *arg);
	void *arg;
};

/* Until then, whatever becomes of the owner. */
#define PATIENCE(until) (&(const struct patience){ .deadline = (until) })

static inline bool patience_given_up(const struct patience *patience)
{
	return patience->given_up && patience->given_up(patience->arg);
}

/* How long to sleep in poll(2) before the next look at given_up. */
static inline int patience_look_ms(const struct patience *patience)
{
	int64_t look = clock_now_ns() + INT64_C(100) * NS_PER_MS;

	return deadline_left_ms(
	    look < patience->deadline ? look : patience->deadline);
}

/* What became of a ring's writer. */
enum ring_loss {
	RING_KEPT = 0,
	RING_LOST_UNWRITTEN, /* it had written nothing: another may come */
	RING_LOST,
};

struct transport_ops {
	const char *name;

	/*
	 * Start serving peers on the context's control thread. The settings
	 * must outlive the transport.
	 */
	int (*start)(struct loop *loop, const struct settings *settings,
	    const struct member *self, struct transport **transport);

	/* Stop; all its regions and remotes must be gone. */
	void (*stop)(struct transport *transport);

	/*
	 * What region_create() takes for size bytes, if it finds no reserved
	 * huge pages that it need not have.
	 */
	uint64_t (*region_bytes)(
	    const struct transport *transport, uint64_t size);

	/*
	 * Reserve size bytes, backed by memory now, so that no later access
	 * can fail, and touched by a thread of the calling one's memory node.
	 * Waits as dfi__reservation_begin() does.
	 */
	int (*region_create)(
	    struct transport *transport, uint64_t size, struct region **region);

	/*
	 * Give up the owner's hold. Peers that have the region open may still
	 * write into it; the memory goes when the last of them closes.
	 */
	void (*region_destroy)(struct region *region);

	/*
	 * Whether so many bytes more may be exported, before they are reserved:
	 * 0, or -ENOMEM with need, limit and remedy.
	 */
	int (*export_room)(struct transport *transport, uint64_t size);

	/*
	 * Show a region that another transport made to this one's peers, until
	 * unexport(), which also destroys the region; its memory goes when no
	 * peer may write to it any more. Sets region->export. -EOPNOTSUPP: the
	 * device can't do add(), for a layout that is there for that.
	 */
	int (*export)(struct transport *transport, struct region *region,
	    const struct ring_layout *layout);
	void (*unexport)(struct region *region);

	/*
	 * Whether the route to the owner at an address is through what this
	 * transport uses, or it is to be tried anyhow, because the settings say
	 * so or nothing is known.
	 */
	bool (*reaches)(const struct transport *transport, const char *address);

	/*
	 * Where rings can't be mapped: reserve a stage, locked, which remotes
	 * of all instances of this transport can be opened with. After
	 * stage_free() nobody may write from it, but those that are closing may
	 * keep it for a while. -ENOMEM.
	 */
	int (*stage_create)(
	    struct transport *transport, uint64_t size, struct stage **stage);
	void (*stage_free)(struct stage *stage);

	/*
	 * Whether what all remotes of a writer take can be had, before the
	 * first of them is opened: so many bytes, of which some are locked,
	 * once or by several devices. 0, or -ENOMEM with need, limit and
	 * remedy.
	 */
	int (*remote_room)(
	    struct transport *transport, uint64_t size, uint64_t locked);

	/*
	 * Connect to the owner and open ring number ring. The remotes of one
	 * writer, which one thread at a time uses, may share a connection.
	 * stage: NULL, or where all that is sent to the ring will lie; only
	 * where rings can't be mapped. -EEXIST: the ring has had a writer.
	 * -ECONNRESET, -ETIMEDOUT: also, if it was given up.
	 */
	int (*remote_open)(struct transport *transport, const void *writer,
	    const struct region_name *name, const struct ring_layout *layout,
	    uint32_t ring, struct stage *stage, const struct patience *patience,
	    struct remote **remote);
	void (*remote_close)(struct remote *remote);

	/*
	 * Write a segment and wake its reader. Writes of one remote become
	 * visible in the order of the calls. The footer must lie inside the
	 * ring; the caller checked that when it computed the layout.
	 */
	int (*write)(
	    struct remote *remote, const struct transport_write *write);

	/*
	 * Of remotes that are not in place: what was written with "more", to
	 * any remote of this one's queue, is held no longer. The caller does so
	 * before it waits for anything, and before it returns, unless its own
	 * caller has promised more. If it fails, the remotes are lost, which
	 * the next call finds.
	 */
	void (*post)(struct remote *remote);

	/*
	 * Where regions can be mapped: show a region of this process to the
	 * owner of another one, for a ring of that. It can read it from now on,
	 * and as long as it has its own, whatever becomes of this process.
	 * -EBADMSG: it is not of the size that the owner wants (shown_size).
	 * -EMFILE: also, if the owner's process may have no more descriptors.
	 * -ECONNRESET, -ETIMEDOUT: also, if it was given up. What is shown is
	 * not made a spare.
	 */
	int (*show)(struct region *shown, const struct region_name *to,
	    uint32_t ring, const struct patience *patience);

	/*
	 * The owner's side: what was shown for a ring of its region under that
	 * key, and how large it is; NULL: nothing was.
	 */
	const void *(*shown)(
	    struct region *region, uint32_t ring, uint64_t key, uint64_t *size);

	/*
	 * Of a remote that is not in place: add to the word at an offset in
	 * what it has opened, in one step for all who do the same through the
	 * owner's transport. The owner's processor may not add to it meanwhile.
	 * What the word was before, added() says, when that is known: 1, or 0;
	 * it must have been before the next add(). What peers did before they
	 * got lower numbers is not known by that. Neither waits. -ECONNRESET:
	 * nobody knows whether it was added.
	 */
	int (*add)(struct remote *remote, uint64_t offset, uint64_t n);
	int (*added)(struct remote *remote, uint64_t offset, uint64_t *before);

	/* Wake the reader of the remote's region, as write() does. */
	void (*wake)(struct remote *remote);

	/*
	 * The owner's side of credits: publish a ring's credit to its writer,
	 * and wake it. 1, or 0 if the ring isn't written through this
	 * transport, or an error.
	 */
	int (*give_credit)(struct region *region,
	    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
	    enum ring_closed closed);

	/*
	 * For remotes that are not in place, and exports. Whether a slot of the
	 * ring's image that the target has given back may be filled now: 1, or
	 * 0 while too much is under way, or -ECONNRESET.
	 */
	int (*slot_is_free)(struct remote *remote);

	/* Whether all that was written has arrived: 1, 0 or -ECONNRESET. */
	int (*drained)(struct remote *remote);

	/*
	 * Whether the ring's writer was lost before its end mark came. node:
	 * the id of the process that it is by now, or 0 if that is not known:
	 * another one that was lost before, and had written nothing, doesn't
	 * count.
	 */
	enum ring_loss (*ring_lost)(
	    const struct export *export, uint32_t ring, uint64_t node);

	/*
	 * Why a remote, or a ring's writer, was lost, for an error text; NULL:
	 * the peer closed the connection, or nothing was lost.
	 */
	const char *(*remote_why)(const struct remote *remote);
	const char *(*ring_why)(
	    const struct export *export, uint32_t ring, uint64_t node);

	/*
	 * Take in what has arrived, for all endpoints, unless another thread
	 * just does; whoever waits calls it again and again. While nothing is
	 * there, it looks so many times. arm() before sleeping, once the
	 * endpoint's wait word is set, and look once more: from then on the
	 * control thread does it, and wakes sleepers. Who takes in and wakes
	 * needs no fence, as arm() orders both (wait_wake_locked()).
	 */
	void (*progress)(struct transport *transport, uint32_t looks);

	/* The same for who waits for a remote's credit: -ECONNRESET. */
	int (*remote_progress)(struct remote *remote);

	/* All that arrived before the call is taken in when it returns. */
	void (*settle)(struct transport *transport);
	void (*arm)(struct transport *transport);

	/* The same before sleeping for a remote's credit or slots. */
	void (*arm_remote)(struct remote *remote);

	/*
	 * The device, port and GID in use, for people; with a remote also how
	 * its owner learns of segments.
	 */
	void (*describe)(const struct transport *transport,
	    const struct remote *remote, char text[TRANSPORT_WAY_SIZE]);

	/*
	 * Datagrams to many, where the network has them (multicast.h): how
	 * large they may be, 0 if that can't be found out, and a port for them,
	 * which must be closed before stop(). NULL: there are none.
	 */
	uint32_t (*multicast_size)(const struct transport *transport);
	/*
	 * What a port takes, and locks, beside the memory that it sends from,
	 * which it locks, too; transport NULL: where no device limits it. And
	 * whether that can be had: 0, or -ENOMEM with need, limit and remedy.
	 */
	uint64_t (*multicast_bytes)(const struct transport *transport,
	    const struct multicast_attr *attr);
	int (*multicast_room)(
	    struct transport *transport, const struct multicast_attr *attr);
	int (*multicast_open)(struct transport *transport,
	    const struct multicast_attr *attr, int64_t deadline,
	    struct multicast_port **port);

	/* Add what was counted. */
	void (*query)(
	    struct transport *transport, struct dfi_context_stats *stats);
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

extern const struct transport_ops dfi__shm_ops;
extern const struct transport_ops dfi__verbs_ops;

/*
 * Over shared memory's socket, processes of this host and user may also ask for
 * a report: from now on report(arg, after, &size) makes one on the control
 * thread, in memory that is freed with free() (NULL: there is none), and not
 * larger than SHM_REPORT_MAX. What after means is between the two ends. NULL:
 * none is given any more, when the call returns.
 */
#define SHM_REPORT_MAX (128 << 10)
int dfi__shm_report(struct transport *transport,
    void *(*report)(void *arg, uint64_t after, size_t *size), void *arg);

/*
 * Ask the process at an address for its report; the caller frees *data.
 * -ECONNRESET: it is gone, -EACCES: another user's, -ETIMEDOUT: it doesn't
 * answer, -EPROTO: it has another version, -EBADMSG, -ENOMEM, -EMFILE, -EIO.
 */
int dfi__shm_report_fetch(const char *address, uint64_t after, int64_t deadline,
    void **data, size_t *size);

/* What dfi_device_list() does, with these settings. */
int dfi__verbs_list(const struct settings *settings,
    int (*fn)(void *arg, const struct dfi_device_info *info), void *arg);

#endif
