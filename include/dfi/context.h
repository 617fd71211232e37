/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context: a process's membership in a registry. It owns one control
 * thread (named "dfi-control", all signals masked), on which the registry
 * connection and the passing of memory between processes run. Tuples never
 * pass through it, and nothing else runs behind the application's back.
 */
#ifndef DFI_CONTEXT_H
#define DFI_CONTEXT_H

#include <stdint.h>
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DFI_VERSION_MAJOR 0
#define DFI_VERSION_MINOR 1
#define DFI_VERSION_PATCH 0

struct dfi;

/*
 * Attribute structs start with their size, as the caller's compiler knows it;
 * zero in a member means its default. Use the _INIT macro or a designated
 * initialiser with .size. Size 0 is -EINVAL; a struct newer than the library,
 * with a member set that it doesn't know, is -E2BIG.
 */
struct dfi_attr {
	uint32_t size;
	/*
	 * Milliseconds without a sign of life after which the process counts as
	 * dead, 50 to 3600000. 0: only the end of the process or of its
	 * connection to the registry counts, so that a stopped one is not dead.
	 */
	uint32_t lease_ttl_ms;
	const char *registry;     /* default DFI_REGISTRY; see registry.h */
	const char *node_name;    /* shown to peers; default the host name */
	uint32_t open_timeout_ms; /* default DFI_OPEN_TIMEOUT, 10000 */
	uint32_t reserved;        /* 0 */
};
#define DFI_ATTR_INIT DFI_INIT(struct dfi_attr)

/* How a waiting call waits. */
enum dfi_wait {
	DFI_WAIT_DEFAULT = 0, /* DFI_WAIT, else adaptive */
	DFI_WAIT_ADAPTIVE,    /* spin, then yield, then sleep */
	DFI_WAIT_SPIN,        /* never give up the processor */
	DFI_WAIT_BLOCK,       /* sleep at once */
};

/* Flags of sources and targets. */
enum {
	/* A call that would have to wait for a peer returns -EAGAIN. */
	DFI_NONBLOCK = 1,
};

/*
 * Join the registry at attr->registry. attr NULL means all defaults. Returns
 * within open_timeout_ms. On success *dfi is the context, to be closed with
 * dfi_close(). A process may have several. Any thread.
 *
 * -EINVAL: no registry is named, or an attribute is not valid.
 * -ECONNREFUSED: nobody answers there. -ETIMEDOUT: no answer in time.
 * -EPROTO: the registry speaks another version. -EACCES: it belongs to another
 * user. -EPERM: a routable address. -ENOSPC: the registry is full. -ENOMEM,
 * -EMFILE, -EIO.
 */
DFI_API int dfi_open(const struct dfi_attr *attr, struct dfi **dfi);

/*
 * Leave the registry and free the context. Flows that it created and that are
 * not persistent are removed. -EBUSY if sources or targets are still open; then
 * nothing happened. Any thread, but no other call may use the context any more.
 */
DFI_API int dfi_close(struct dfi *dfi);

/* The version of the library at run time, "0.1.0". */
DFI_API const char *dfi_version(void);

#ifdef __cplusplus
}
#endif

#endif
