/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of a registry's keys and leases as bytes. Numbers are
 * little-endian.
 *
 *	type 1
 *	GRANT	lease 8, client 8, start 8, location 8, ttl_ms 4, pid 4
 *	PUT	revision 8, lease 8, client 8, key 2, value 4; key, 0, value
 *	DELETE	revision 8, key 2; key, 0
 *	END	revision 8, lease 8
 *	COUNT	revision 8, lease 8
 */
#ifndef DFI_REGISTRY_JOURNAL_RECORD_H
#define DFI_REGISTRY_JOURNAL_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum journal_type {
	/* A client has a lease, or another process has it now. */
	JOURNAL_GRANT = 1,
	JOURNAL_PUT,
	JOURNAL_DELETE,
	JOURNAL_END, /* of a lease and its keys */
	/* The last revision and lease so far. */
	JOURNAL_COUNT,
};

struct journal_change {
	enum journal_type type;
	uint64_t revision; /* of the registry after it */
	uint64_t lease;    /* PUT: that the key is bound to; 0: none */
	uint64_t client; /* which has the lease, or puts the key; 0: unknown */
	const char *key;
	size_t key_size; /* without the final 0 */
	const void *value;
	size_t size;
	uint32_t ttl_ms; /* of the lease; 0: as long as the connection */
	/* Of the client's process, if it is on this host; else 0. */
	uint32_t pid;
	uint64_t start;    /* when the process started, */
	uint64_t location; /* and where both numbers mean the same */
};

/* Growing bytes; zeroed, they are none. */
struct journal_bytes {
	uint8_t *at;
	size_t size, room;
};

/* -ENOMEM: nothing has changed. */
int dfi__journal_bytes_add(
    struct journal_bytes *bytes, const void *from, size_t size);
void dfi__journal_bytes_free(struct journal_bytes *bytes);

/* Append a change. -ENOMEM: nothing has changed. */
int dfi__journal_encode(
    struct journal_bytes *bytes, const struct journal_change *change);

/*
 * Read the change at *from, which then moves behind it. The change points into
 * these bytes. -EBADMSG: there is none.
 */
int dfi__journal_decode(
    const uint8_t **from, const uint8_t *end, struct journal_change *change);

#endif
