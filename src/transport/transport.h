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
#include <stddef.h>
#include <stdint.h>

struct loop;
struct settings;

/* Longest text form of an address, the end included. */
#define TRANSPORT_ADDRESS_SIZE 128

/* What a peer needs to open a region; travels through the registry. */
struct region_name {
	char address[TRANSPORT_ADDRESS_SIZE]; /* of the owner's transport */
	uint64_t key;                         /* a random capability */
	uint64_t size;                        /* in bytes */
};

/* A process's instance of a transport; one per context. */
struct transport {
	const struct transport_ops *ops;
	char address[TRANSPORT_ADDRESS_SIZE];
};

/* Memory of this process that peers write into. Page-aligned, zeroed. */
struct region {
	struct transport *transport;
	void *base;
	struct region_name name;
};

/*
 * A peer's region. Where the transport can address it with loads and stores,
 * direct is its base, and tuples are built in place; else direct is NULL and
 * every byte goes through write().
 */
struct remote {
	struct transport *transport;
	char *direct;
	uint64_t size;
};

/*
 * One segment to write: the payload, and then the 16-byte footer, of which the
 * second word publishes both. A reader that observes that word (acquire) sees
 * all that was written before it.
 */
struct transport_write {
	const void *payload;     /* == direct + payload_offset: in place */
	uint64_t payload_offset; /* in the remote region */
	uint64_t payload_size;
	uint64_t footer_offset; /* 16-byte aligned */
	uint64_t footer[2];
	uint64_t wake_offset; /* the reader's wait word */
};

struct transport_ops {
	const char *name;

	/*
	 * Start serving peers on the context's control thread. The settings
	 * must outlive the transport.
	 */
	int (*start)(struct loop *loop, const struct settings *settings,
	    struct transport **transport);

	/* Stop; all its regions and remotes must be gone. */
	void (*stop)(struct transport *transport);

	/*
	 * Reserve size bytes, backed by memory now, so that no later access
	 * can fail, and touched by the calling thread.
	 */
	int (*region_create)(
	    struct transport *transport, uint64_t size, struct region **region);

	/*
	 * Give up the owner's hold. Peers that have the region open may still
	 * write into it; the memory goes when the last of them closes.
	 */
	void (*region_destroy)(struct region *region);

	/* Connect to the owner and open its region. Waits till deadline. */
	int (*remote_open)(struct transport *transport,
	    const struct region_name *name, int64_t deadline,
	    struct remote **remote);
	void (*remote_close)(struct remote *remote);

	/*
	 * Write a segment and wake its reader. Writes of one remote become
	 * visible in the order of the calls. The footer must lie inside the
	 * region; the caller checked that when it computed the layout.
	 */
	int (*write)(
	    struct remote *remote, const struct transport_write *write);

	/*
	 * The owner's side of credits: publish a ring's consumed count to the
	 * source that writes it, and wake the source. Both offsets are in the
	 * owner's region.
	 */
	int (*give_credit)(struct region *region, uint64_t credit_offset,
	    uint64_t consumed, uint64_t wake_offset);
};

extern const struct transport_ops dfi__shm_ops;

#endif
