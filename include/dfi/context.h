/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context: a process's membership in a registry. Its control thread (named
 * "dfi-control", all signals masked) runs the registry connection and passes
 * memory between processes; tuples never pass through it. The library has no
 * other thread, except for log lines (log.h).
 *
 * Control thread. It runs as SCHED_OTHER, with the nice value and on the
 * processors of the process's first thread when the library was loaded, or on
 * DFI_CONTROL_CPUS. Leave it a processor without real-time threads. While it
 * does not run, calls that need it return -ETIMEDOUT and may be repeated;
 * handles other than contexts are closed without it (docs/design.md,
 * "Threads").
 *
 * Registry. If the connection is lost, attached flows go on, and notice deaths
 * of peers on this host and of RDMA connections; calls that need the registry
 * return -ENOTCONN and may be repeated. The context connects again by itself
 * and publishes what it had published (docs/design.md, "Failure").
 *
 * Handles are closed once; closing NULL returns 0. Calls with one of the last
 * 64 handles that the process has closed return -EBADF. After 64 further closes
 * use of a handle is undefined. Calls without a result ignore closed handles
 * and NULL. Inline functions, except dfi_target_consume(), don't check the
 * handle.
 *
 * Signals. A call that waits goes on after a signal handler. A handler, or any
 * thread, ends it by the handle's _interrupt(): that wait, or else the next
 * call that would wait or return -EAGAIN, returns -EINTR, once; nothing is
 * lost, and the call may be repeated. _abort() ends the flow instead. Only
 * these two are async-signal-safe, also while and after the handle is closed
 * (see above); they keep errno. Waits for the registry end by time-outs only.
 *
 * Polling. The _fd() of a handle with DFI_NONBLOCK (else -EINVAL) is for poll()
 * and the like. It is always the same one, and the handle closes it; don't read
 * it. It is readable until a call returns -EAGAIN, and again when that can go
 * on or there is an error to report. So call until -EAGAIN, then poll. It may
 * be readable for nothing, some ten times a second.
 *
 * Calls that list. A non-zero return of fn ends the call, which returns it.
 * The arguments of fn are valid during its call only.
 *
 * fork(). In the child calls with handles of the parent return -EOWNERDEAD; it
 * opens its own. The child does not have the memory of tuples, spans, batches
 * and cursors that were lent before: SIGSEGV.
 *
 * pthread_cancel() takes effect as a call begins that opens, closes, lists or
 * asks, never within one; asynchronous cancellation is not supported. A stack
 * of 16 KiB is enough for any call, beside callbacks and RDMA drivers.
 * Descriptors of the library are never 0, 1 or 2. An application that closes
 * them can only close its handles: other calls return -ENOTCONN or time out.
 */
#ifndef DFI_CONTEXT_H
#define DFI_CONTEXT_H

#include <stdint.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

#define DFI_VERSION_MAJOR 0
#define DFI_VERSION_MINOR 1
#define DFI_VERSION_PATCH 0

struct dfi;

/*
 * Attribute structs start with their size: use the _INIT macro or a designated
 * initialiser with .size. Zero in a member means its default. A member that is
 * not 0 and that this library doesn't know is -E2BIG.
 */
struct dfi_attr {
	uint32_t size;
	/*
	 * Milliseconds without a sign of life, which this process gives every
	 * third of that, after which it counts as dead: 50 to 3600000. 0: as
	 * DFI_LEASE, else DFI_NO_LEASE: only its end, or that of its connection
	 * to the registry, counts. A stopped process is not dead then.
	 */
	uint32_t lease_ttl_ms;
	/*
	 * The address of a registry, or "local:", see registry.h. Default
	 * DFI_REGISTRY.
	 */
	const char *registry;
	const char *node_name;    /* shown to peers: 1 to 63 characters of
				     printable ASCII; default the host name */
	uint32_t open_timeout_ms; /* default DFI_OPEN_TIMEOUT, 10000 */
	uint32_t reserved;        /* 0 */
	/*
	 * For a registry at a TCP address: names of the files of
	 * dfi_registry_attr. registry_ca has signed the registry's certificate;
	 * the last two are this process's own. All NULL: DFI_REGISTRY_KEY,
	 * DFI_REGISTRY_CA, DFI_REGISTRY_CERT, DFI_REGISTRY_PRIVATE_KEY. Read
	 * during the call only.
	 */
	const char *registry_key;
	const char *registry_ca;
	const char *registry_cert;
	const char *registry_private_key;
	uint32_t registry_flags; /* DFI_REGISTRY_INSECURE, also a variable */
	uint32_t reserved2;      /* 0 */
};
#define DFI_NO_LEASE UINT32_MAX
#define DFI_ATTR_INIT DFI_INIT(struct dfi_attr)

/*
 * How a waiting call waits. Sleepers are woken at once, except targets whose
 * segments come over RDMA with footers (DFI_VERBS_NOTIFY), and all on kernels
 * without membarrier(2). These, and their descriptors, look after 1 ms or a
 * hundredth of the time since data came, whichever is longer, at most 10 ms.
 */
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
 * Join the registry at attr->registry within open_timeout_ms. attr NULL means
 * all defaults. A process may have several contexts. The caller closes *dfi
 * with dfi_close(). Any thread.
 *
 * -EINVAL: also, no registry is named, or a setting or file is not valid.
 * -ECONNREFUSED: nobody answers there; -EHOSTUNREACH: no network leads there.
 * -ETIMEDOUT: also, the control thread has not run; the library stays loaded.
 * -EPROTO: no registry, or of another version, or without TLS. -EACCES: it has
 * another user, or key, or a side refuses a certificate. -EPERM: a TCP address
 * without key or CA. -ENOTCONN: it died or was stopped meanwhile; try again.
 */
DFI_API int dfi_open(const struct dfi_attr *attr, struct dfi **dfi);

/*
 * Leave the registry and free the context; flows that it created and that are
 * not persistent are removed. Over RDMA it waits, 2 s at most, for sources to
 * close whose flows have ended here. Any thread; calls of others with the
 * context meanwhile return -EBUSY or -EBADF.
 *
 * -EBUSY: a source, target or barrier is open, or another thread is in a call
 * with the context. -ETIMEDOUT: the control thread has not run for
 * open_timeout_ms. After both nothing has happened. If the control thread stops
 * after that, this returns 0 within the same time again; the thread frees the
 * rest when it runs, and the library stays loaded.
 */
DFI_API int dfi_close(struct dfi *dfi);

/* A number that only one transport counts. */
struct dfi_counter {
	char name[24];
	uint64_t value;
};
#define DFI_MAX_COUNTERS 32

/*
 * What a context did through one device to other hosts, and what it holds of it
 * now. A transport names its further numbers in counters; docs/rdma.md lists
 * those of "verbs".
 */
struct dfi_transport_stats {
	char transport[16];   /* its name: "verbs" */
	char device[64];      /* "mlx5_0" */
	char address[48];     /* of this context, IPv4 or IPv6 */
	uint64_t writes;      /* one a segment, and one an end mark */
	uint64_t bytes;       /* of writes, with footers that targets
				 poll */
	uint64_t credits;     /* writes that return segments to a source */
	uint64_t messages;    /* that open and close rings, and numbers
				 taken from sequencers */
	uint64_t completions; /* asked for, of all of these */
	uint32_t connections; /* now; over RDMA: queue pairs, also those
				 that wait for a source */
	uint32_t broken_connections; /* so far, before their peer ended */
	uint32_t memory_regions;     /* registered with the device now */
	uint32_t receives;           /* posted now for what arrives */
	uint32_t is_known;           /* 0: this library lacks the transport, the
					process that counted has it */
	uint32_t n_counters;
	struct dfi_counter counters[DFI_MAX_COUNTERS]; /* unused ones are 0 */
};

/*
 * Call fn for each device that the context uses, that of its targets first. A
 * context that has used shared memory only has none. Waits for a transport that
 * is starting. Any thread.
 */
DFI_API int dfi_context_query(struct dfi *dfi,
    int (*fn)(void *arg, const struct dfi_transport_stats *stats), void *arg);

/* Get a counter by its name. -ENOENT: the transport has none of this name. */
DFI_API int dfi_transport_counter(
    const struct dfi_transport_stats *stats, const char *name, uint64_t *value);

/* The version of the library at run time, "0.1.0". */
DFI_API const char *dfi_version(void);

DFI_END_DECLS

#endif
