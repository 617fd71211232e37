/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's connection to the registry: requests, a lease, and watches. It
 * lives on a context's control thread (struct loop).
 *
 * Calls with a deadline (absolute monotonic ns, base/clock.h) may come from
 * any thread but the loop's, several at once, and return at the deadline at
 * the latest. Besides their own errors each of them returns
 *	-ETIMEDOUT	no answer in time; whether the request took effect is
 *			unknown, and a late answer is dropped
 *	-ENOTCONN	the connection is lost, the text names the address and
 *			the reason; the client connects again by itself
 *	-EINVAL		called on the loop's thread, or a key is not valid
 *	-EMSGSIZE	a key of more than 512 bytes, a value of more than
 *			64 KiB
 *	-ENOSPC		a limit of the registry is reached
 *	-ENOMEM, -EBADMSG
 *
 * Keys are strings of 1 to 512 bytes, compared bytewise. A prefix may be
 * empty: all keys. Revisions count the registry's changes from 1.
 */
#ifndef DFI_REGISTRY_CLIENT_CLIENT_H
#define DFI_REGISTRY_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "security/security.h"

struct loop;
struct registry_client;
struct registry_watch;

enum {
	CLIENT_LEASED = 1, /* bind the key to this client's lease */
	/*
	 * Others may delete the key: follow whether they do, so that it is not
	 * set again when the connection comes back.
	 */
	CLIENT_SHARED = 2,
};

struct registry_value {
	char *key;
	void *data; /* followed by a 0 byte that size does not count */
	size_t size;
	uint64_t revision; /* of the last change of this key */
};

/* A key to be created. */
struct registry_entry {
	const char *key;
	const void *value;
	size_t size;
	uint64_t revision; /* dfi__client_join() sets it: of the creation */
};

enum registry_event_type {
	REGISTRY_PUT = 1, /* key, data, size, revision */
	REGISTRY_DELETE,  /* key, revision */
	REGISTRY_LOST,    /* nothing else: the connection is lost */
	/*
	 * Nothing else: and the registry's machine has not answered for as long
	 * as this client's lease; so the others take this process for dead.
	 */
	REGISTRY_CUT,
	REGISTRY_BACK, /* nothing else: it is there again */
};

/* Valid during the callback only. */
struct registry_event {
	enum registry_event_type type;
	const char *key;
	const void *data;
	size_t size;
	uint64_t revision;
	/* Of a DELETE: the same key follows, which came back with another
	 * value: its owner's, who may never have been away, or another's. */
	bool replaced;
};

/*
 * Connect to address (see dfi_registry_attr.listen), over TLS if it is TCP and
 * security (may be NULL: nothing) names a file, agree on the protocol version
 * and take a lease: the keys bound to it vanish when this process
 * closes the client or dies, or when lease_ttl_ms pass without a sign of life
 * (any request; the loop sends one every third of it, so a stopped process
 * counts as dead).
 * A connection over TCP is lost when the registry's machine acknowledges
 * nothing for that time. lease_ttl_ms 0: the lease lives as long as the
 * connection, however long the process is stopped.
 *
 * -EINVAL: not an address, a ttl outside of 50 ms to 1 h, or a file of
 * security's is not as it must be. -EPERM: a TCP address, and nothing that
 * proves who is there. -ECONNREFUSED: nobody answers there. -EACCES: either
 * side runs as a user that the other does not trust, or has no key or
 * certificate that it accepts. -EPROTO: the peer speaks another version, or is
 * no registry, or one without TLS. -ENOSPC: the registry's limit of
 * connections. -EHOSTUNREACH: the network doesn't lead to its machine.
 * -ETIMEDOUT, -ENOTCONN, -EMFILE, -ENOMEM, -EIO.
 */
int dfi__client_open(struct loop *loop, const char *address,
    const struct registry_security *security, uint32_t lease_ttl_ms,
    int64_t deadline, struct registry_client **client);

/*
 * When the connection is lost, the client connects again, at first after some
 * 50 ms, then after twice as long, up to a second, until it is closed. It then
 * takes a lease anew, sets the keys again that it has set with a flag and that
 * nobody has deleted since, and renews its watches. What it has given up
 * meanwhile goes, also at a registry that lives. A key that exists, and that
 * another client has put last, is somebody else's: it is left alone and logged.
 * Another one gets the value that the last put has set which was answered, even
 * if a later one was carried out, too (dfi__client_renew()).
 * Calls return -ENOTCONN until all this is done, then watches hear BACK.
 *
 * A registry that was restarted has forgotten the keys of the other clients,
 * too, who need some time to set theirs again. A watch hears nothing of a key
 * that comes back with the value it had. One that has not come back when the
 * grace is over, counted from BACK, is a DELETE then; one that comes with
 * another value is a DELETE, which says so, and a PUT.
 */

/* Change the grace, CLIENT_GRACE_MS at first. Any thread. */
#define CLIENT_GRACE_MS 10000
void dfi__client_set_grace(struct registry_client *client, uint32_t ms);

/*
 * Give the lease back, disconnect, free the client and the watches that are
 * left. The leased keys are gone on return if the registry answers within a
 * second. Calls that wait in other threads return -ENOTCONN; no call may start
 * any more. Not on the loop's thread. NULL is allowed.
 */
void dfi__client_close(struct registry_client *client);

/*
 * Set a key that does not exist (-EEXIST), or set a key in any case; flags: 0
 * or CLIENT_LEASED. A put without CLIENT_LEASED takes the key off its lease.
 * *revision (may be NULL): of this change.
 */
int dfi__client_create(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, int64_t deadline,
    uint64_t *revision);
int dfi__client_put(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, int64_t deadline,
    uint64_t *revision);

/*
 * Put a leased key that this client has set before. -EEXIST: it is somebody
 * else's by now, as after a lease that ended, and stays as it is.
 */
int dfi__client_change(struct registry_client *client, const char *key,
    const void *value, size_t size, int64_t deadline);

/*
 * dfi__client_put() that also ends, with -ETIMEDOUT, when over(arg) is true. It
 * is asked ten times a second, by the thread that calls, and may wait for a
 * lock that fn of a watch takes.
 */
int dfi__client_put_unless(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, bool (*over)(void *arg),
    void *arg, int64_t deadline);

/* -ENOENT. The caller frees *value with dfi__registry_value_free(). */
int dfi__client_get(struct registry_client *client, const char *key,
    int64_t deadline, struct registry_value *value);

/* Frees what value holds, not value itself. */
void dfi__registry_value_free(struct registry_value *value);

/*
 * The keys that begin with prefix, in order; *count may be 0, then *values is
 * NULL. A list of more than about 200 KiB is read in pages, and a key that
 * changes meanwhile is seen either way. Freed by dfi__registry_values_free().
 */
int dfi__client_list(struct registry_client *client, const char *prefix,
    int64_t deadline, struct registry_value **values, size_t *count);
void dfi__registry_values_free(struct registry_value *values, size_t count);

/* Delete a key, if its revision is still revision (0: any). -ENOENT if not. */
int dfi__client_delete(struct registry_client *client, const char *key,
    uint64_t revision, int64_t deadline);

/*
 * Delete a key of this client that it has set with a flag, without waiting for
 * an answer, and whatever it is: for saying goodbye. Nothing is done to a key
 * that is somebody else's by now, as after a lease that ended. Leaves
 * dfi_errmsg() alone.
 */
void dfi__client_forget(struct registry_client *client, const char *key);

/*
 * Put a leased key of this client without waiting for an answer, and set it so
 * again when the connection is lost: for what a call has given up to wait for,
 * and a watch says was carried out. Nothing is done to a key that is somebody
 * else's by now, or to none. Leaves dfi_errmsg() alone.
 */
void dfi__client_renew(struct registry_client *client, const char *key,
    const void *value, size_t size);

/*
 * dfi__client_forget() of a leased key, which first gets a last value, if that
 * is not NULL, for those that watch it.
 */
void dfi__client_retire(struct registry_client *client, const char *key,
    const void *value, size_t size);

/*
 * Call fn for each key that begins with prefix, as a PUT in key order, and
 * then for each change, in order and without gaps; when the connection is
 * lost, once with LOST, then maybe once with CUT, and when it is there again,
 * once with BACK. The first PUTs have been delivered on return. On failure fn
 * may have been called, but will not be any more.
 *
 * fn runs on the loop's thread. It may call dfi__client_unwatch(); it may not
 * call the functions that take a deadline, nor wait for a thread that might be
 * in any function of this header.
 */
int dfi__client_watch(struct registry_client *client, const char *prefix,
    void (*fn)(void *arg, const struct registry_event *event), void *arg,
    int64_t deadline, struct registry_watch **watch);

/* The same for one key alone. */
int dfi__client_watch_key(struct registry_client *client, const char *key,
    void (*fn)(void *arg, const struct registry_event *event), void *arg,
    int64_t deadline, struct registry_watch **watch);

/* A watch that is to be made. */
struct registry_interest {
	const char *prefix;
	bool exact; /* it is a key */
	void (*fn)(void *arg, const struct registry_event *event);
	void *arg;
	struct registry_watch *watch; /* on success: the watch */
};

#define CLIENT_INTERESTS 2 /* at most */

/*
 * dfi__client_watch() for each of n interests and then dfi__client_create() of
 * a leased key, in the time that one of them takes. entry NULL: only watches.
 * On failure, of which the text is that of the one that failed, there is
 * neither a watch nor the key.
 */
int dfi__client_join(struct registry_client *client,
    struct registry_interest *interests, size_t n, struct registry_entry *entry,
    int64_t deadline);

/*
 * End and free the watch. After it returns fn is neither running (unless it is
 * fn that calls) nor will run. Any thread, the loop's included; the caller
 * holds no lock that fn takes. NULL is allowed.
 */
void dfi__client_unwatch(struct registry_watch *watch);

/* dfi__client_forget() for a key and dfi__client_unwatch() in one message. */
void dfi__client_leave(struct registry_watch *watch, const char *key);

#endif
