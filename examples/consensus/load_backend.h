/* SPDX-License-Identifier: Apache-2.0 */
/* A store under load: the interface of the load generator. C and C++. */
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
	LOAD_UNKNOWN, /* unknown: the store may have done it */
	LOAD_REFUSED, /* it was not done */
};

/*
 * The back-end reports a request that has ended. value: the result of a read,
 * valid during the call.
 */
typedef void load_done(void *arg, uint32_t lane, enum load_outcome outcome,
    const char *value, size_t value_size);

/*
 * A store, as one client sees it. Each of its lanes has at most one request
 * outstanding. One thread calls it.
 */
struct load_backend {
	const char *name;
	/* Where the store is by default; and what that means. */
	const char *where, *where_help;
	uint32_t max_lanes;
	/*
	 * Connect. NULL after a complaint. number: of this client, from 0. Only
	 * poll() calls done(arg, ...).
	 */
	void *(*open)(const char *where, uint32_t number, uint32_t lanes,
	    load_done *done, void *arg);
	void (*close)(void *client);
	/*
	 * Begin a request and copy its data. Returns 1; 0: no room until poll()
	 * is called; -1 after a complaint.
	 */
	int (*submit)(
	    void *client, uint32_t lane, const struct load_request *request);
	/*
	 * Report requests that have ended; wait for one, at most wait_ns.
	 * Returns 0, or -1 after a complaint.
	 */
	int (*poll)(void *client, uint64_t wait_ns);
};

#ifdef __cplusplus
}
#endif

#endif
