/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store under load: what the load generator needs of it. C and C++.
 */
#ifndef KV_LOAD_BACKEND_H
#define KV_LOAD_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct load_request {
	const char *key;
	size_t key_size;
	const char *value; /* NULL: a read */
	size_t value_size;
};

enum load_outcome {
	LOAD_OK,      /* a read has a value */
	LOAD_MISSING, /* a read: no such key */
	LOAD_UNKNOWN, /* it may have been done or not */
	LOAD_REFUSED, /* it was not done */
};

/*
 * Told by a back-end of a request that has ended. value: of a read, for as long
 * as the call lasts.
 */
typedef void load_done(void *arg, uint32_t lane, enum load_outcome outcome,
    const char *value, size_t value_size);

/*
 * A store, as one client sees it. Each of its lanes has at most one request
 * outstanding. One thread.
 */
struct load_backend {
	const char *name;
	/* Where the store is if the user does not say; and what that means. */
	const char *where, *where_help;
	uint32_t max_lanes;
	/*
	 * Connect. NULL after a complaint. number: of this client, from 0.
	 * poll() calls done(arg, ...), and nothing else does.
	 */
	void *(*open)(const char *where, uint32_t number, uint32_t lanes,
	    load_done *done, void *arg);
	void (*close)(void *client);
	/*
	 * Begin a request; what it points to is copied. 1; 0: there is no room
	 * until poll() has been called; -1 after a complaint.
	 */
	int (*submit)(
	    void *client, uint32_t lane, const struct load_request *request);
	/*
	 * Tell of requests that have ended; wait for one, wait_ns at most.
	 * 0, or -1 after a complaint.
	 */
	int (*poll)(void *client, uint64_t wait_ns);
};

#ifdef __cplusplus
}
#endif

#endif
