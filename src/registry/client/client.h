/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's connection to the registry: requests, a lease, and watches. It
 * lives on a context's control thread (struct loop).
 *
 * Several threads may call at once, but the loop's may not call what takes a
 * deadline: absolute monotonic ns (base/clock.h). Such a call returns at its
 * deadline at the latest. All of them return, besides their own errors,
 *	-ETIMEDOUT	no answer in time: whether the request took effect is
 *			unknown, and a late answer is dropped
 *	-ENOTCONN	the connection is lost; the client connects again
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
	 * Others may delete the key: note if they do, so that it is not set
	 * again when the connection comes back.
	 */
	CLIENT_SHARED = 2,
	/*
	 * Do not set the key again when an etcd has deleted it with the lease,
	 * as others have seen that; watches report the deletion before BACK. A
	 * dfi-registry has reported it to this client as to others.
	 */
	CLIENT_ONCE = 4,
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
	uint64_t revision; /* of the creation; dfi__client_join() sets it */
};

enum registry_event_type {
	REGISTRY_PUT = 1, /* key, data, size, revision */
	REGISTRY_DELETE,  /* key, revision */
	REGISTRY_LOST,    /* nothing else: the connection is lost */
	/*
	 * Nothing else: the registry's machine has not answered for as long as
	 * this client's lease, so others consider this process dead.
	 */
	REGISTRY_CUT,
	REGISTRY_BACK, /* nothing else: the connection is restored */
};

/* Valid during the callback only. */
struct registry_event {
	enum registry_event_type type;
	const char *key;
	const void *data;
	size_t size;
	uint64_t revision;
	/*
	 * DELETE: the key came back with another value, whose PUT follows. It
	 * may be of the same owner, who never left, or of another.
	 */
	bool replaced;
};

/*
 * Connect to address (see dfi_registry_attr.listen), over TLS if it is TCP and
 * security (may be NULL) names a file, and take a lease. Its keys vanish when
 * this process closes the client, dies, or gives no sign of life for
 * lease_ttl_ms (50 ms to 1 h; 0: only with the connection). The loop gives one
 * every third of that, and a TCP connection without any answer is lost then.
 *
 * -EINVAL: an argument, or a faulty file of security. -EPERM: nothing proves
 * who a registry at a TCP address is. -EACCES: one side distrusts the other's
 * user, key or certificate. -EPROTO: another version, or no TLS. -ENOSPC: too
 * many connections. -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT, -ENOTCONN,
 * -EMFILE, -ENOMEM, -EIO.
 */
int dfi__client_open(struct loop *loop, const char *address,
    const struct registry_security *security, uint32_t lease_ttl_ms,
    int64_t deadline, struct registry_client **client);

/*
 * When the connection is lost, the client connects again until it is closed:
 * after some 50 ms, then after twice as long, up to a second. It takes a new
 * lease, sets again the keys that it has set with a flag and that nobody has
 * deleted, and renews its watches. It deletes keys that were given up
 * meanwhile. A key that another client has put last is left alone, and logged.
 * Until all this is done, calls return -ENOTCONN; then watches get BACK.
 *
 * A registry that was restarted has also forgotten the keys of other clients,
 * which need some time to set them again. A watch gets no event of a key that
 * comes back with the same value. A key with another value causes a DELETE,
 * which says so, and a PUT. A key that is not back at the end of the grace,
 * counted from BACK, causes a DELETE.
 */

/* Change the grace, CLIENT_GRACE_MS at first. Any thread. */
#define CLIENT_GRACE_MS 10000
void dfi__client_set_grace(struct registry_client *client, uint32_t ms);

/*
 * Give the lease back. The leased keys are gone on return if the registry
 * answers within a second. Only dfi__client_close() may follow. Not on the
 * loop's thread.
 */
void dfi__client_revoke(struct registry_client *client);

/*
 * Revoke, except on the loop's thread, disconnect, and free the client and its
 * watches. Calls that wait in other threads return -ENOTCONN; none may start
 * any more. If the loop does not run for 10 s, it does the rest when it runs.
 * NULL is allowed.
 */
void dfi__client_close(struct registry_client *client);

/*
 * Set a key that does not exist (-EEXIST), or any key. A put without
 * CLIENT_LEASED takes the key off its lease. *revision (may be NULL): of this
 * change.
 */
int dfi__client_create(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, int64_t deadline,
    uint64_t *revision);
int dfi__client_put(struct registry_client *client, const char *key,
    const void *value, size_t size, unsigned flags, int64_t deadline,
    uint64_t *revision);

/*
 * Put a leased key that this client has set before. -EEXIST: since a lease
 * ended, it belongs to another client; it is not changed.
 */
int dfi__client_change(struct registry_client *client, const char *key,
    const void *value, size_t size, int64_t deadline);

/*
 * Like dfi__client_put(), and ends with -ETIMEDOUT when over(arg) is true. The
 * calling thread calls over() ten times a second; it may wait for a lock that
 * fn of a watch takes.
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
 * List the keys that begin with prefix, in order. *values is NULL if there are
 * none. A list of more than about 200 KiB is read in pages, and has a key that
 * changes meanwhile before or after the change. The caller frees the list with
 * dfi__registry_values_free().
 */
int dfi__client_list(struct registry_client *client, const char *prefix,
    int64_t deadline, struct registry_value **values, size_t *count);
void dfi__registry_values_free(struct registry_value *values, size_t count);

/* Delete a key, if its revision is still revision (0: any). -ENOENT if not. */
int dfi__client_delete(struct registry_client *client, const char *key,
    uint64_t revision, int64_t deadline);

/*
 * The next three calls wait for no answer, leave dfi_errmsg() alone, and do not
 * change a key that belongs to another client since a lease ended.
 *
 * Delete a key that this client has set with a flag.
 */
void dfi__client_forget(struct registry_client *client, const char *key);

/*
 * Put a leased key of this client, and restore it when the connection is lost:
 * for a call that timed out, when a watch shows that the registry carried it
 * out.
 */
void dfi__client_renew(struct registry_client *client, const char *key,
    const void *value, size_t size);

/* Delete a leased key; a value that is not NULL is put before. */
void dfi__client_retire(struct registry_client *client, const char *key,
    const void *value, size_t size);

/*
 * Call fn for each key that begins with prefix, as a PUT in key order, and then
 * for each change, in order and without gaps. When the connection is lost, fn
 * gets LOST once, then CUT at most once, and BACK once the connection is
 * restored. On return the first PUTs have been delivered. After a failure fn is
 * not called any more.
 *
 * fn runs on the loop's thread. It may call dfi__client_unwatch(). It must not
 * call functions that take a deadline, nor wait for a thread that may be in any
 * function of this header.
 */
int dfi__client_watch(struct registry_client *client, const char *prefix,
    void (*fn)(void *arg, const struct registry_event *event), void *arg,
    int64_t deadline, struct registry_watch **watch);

/* The same for one key alone. */
int dfi__client_watch_key(struct registry_client *client, const char *key,
    void (*fn)(void *arg, const struct registry_event *event), void *arg,
    int64_t deadline, struct registry_watch **watch);

/* A watch to be made. */
struct registry_interest {
	const char *prefix;
	bool exact; /* prefix is a key */
	void (*fn)(void *arg, const struct registry_event *event);
	void *arg;
	struct registry_watch *watch; /* on success: the watch */
};

#define CLIENT_INTERESTS 2 /* at most */

/*
 * dfi__client_watch() for each of n interests and then dfi__client_create() of
 * a leased key, in the time of one call. entry NULL: only watches. On failure,
 * which has the text of the call that failed, there is neither a watch nor the
 * key.
 */
int dfi__client_join(struct registry_client *client,
    struct registry_interest *interests, size_t n, struct registry_entry *entry,
    int64_t deadline);

/*
 * End and free the watch. After it returns fn does not run any more, except if
 * fn made this call. Any thread, the loop's included; the caller holds no lock
 * that fn takes. NULL is allowed.
 */
void dfi__client_unwatch(struct registry_watch *watch);

/* dfi__client_forget() for a key and dfi__client_unwatch() in one message. */
void dfi__client_leave(struct registry_watch *watch, const char *key);

#endif
