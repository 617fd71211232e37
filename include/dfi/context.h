/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context: a process's membership in a registry. It owns one control
 * thread (named "dfi-control", all signals masked), on which the registry
 * connection and the passing of memory between processes run. Tuples never
 * pass through it, and nothing else runs behind the application's back but the
 * thread that writes log lines (log.h).
 *
 * The control thread does not inherit the scheduling of the thread that calls
 * dfi_open(), which may be a real-time thread that never yields. It runs as
 * SCHED_OTHER, with the nice value and on the processors that the process's
 * first thread had when the library was loaded, or on those of
 * DFI_CONTROL_CPUS. Leave it one that no real-time thread keeps for itself.
 *
 * If the control thread does not run, calls that need it return -ETIMEDOUT
 * after their time-out, and may be repeated. dfi_close(), dfi_registry_stop()
 * and the first use of RDMA check that it runs, and then wait for it. Sources,
 * targets, groups, combiners, barriers and sequencers are closed without it:
 * the registry and its members hear of that as soon as it runs again.
 *
 * If the connection to the registry is lost, flows that are attached go on,
 * and notice deaths of peers on this host (where the kernel has pidfds, and
 * /proc tells that both are in one PID namespace) and of RDMA connections.
 * Calls that need the registry return -ENOTCONN with the reason. The control
 * thread connects again, as soon as a registry answers at the same address, and
 * publishes there what this context had published; DFI_REGISTRY_GRACE is the
 * time that peers have to do the same before they count as dead. Applications
 * just repeat what was refused.
 *
 * A thread cannot be cancelled (pthread_cancel()) within a call. A request
 * takes effect as the next call begins that opens, closes, lists or asks
 * something, or at a cancellation point of the application. Asynchronous
 * cancellation is not supported.
 *
 * Descriptors of the library are never 0, 1 or 2. An application that closes
 * them, as by close_range(), cuts its contexts off: calls that need the
 * registry return -ENOTCONN, or wait for their deadline, and what is left to do
 * is to close the handles.
 *
 * Handles (contexts, sources, targets, groups, barriers, sequencers) are closed
 * once, like memory is freed: closing NULL does nothing and returns 0. A handle
 * that is among the last 64 that the process has closed is still known as such:
 * calls with it, closing it again among them, do nothing and return -EBADF.
 * Once 64 more were closed, using it is a fault, or uses another handle.
 *
 * NULL where a call needs a handle, a name, or a place for its output is
 * -EINVAL, and nothing happens; those that return nothing do nothing. Inline
 * functions, except dfi_target_consume(), look into the handle that they are
 * given.
 *
 * Signals: a call that waits goes on after a signal handler has returned. A
 * handler ends it by the _interrupt() call of the handle: that wait, or if
 * there is none the next one, returns -EINTR, once, and the program goes on as
 * it likes. An _abort() call ends the flow instead. These calls, of sources,
 * targets, groups, combiners and barriers, are async-signal-safe, and no others
 * of the library are: a handler on any thread may make them, whatever it has
 * interrupted, as long as the handle is open or known as closed, see above.
 * They leave errno as it is. Waits for the registry end with their time-outs.
 *
 * A thread with a stack of 16 KiB (PTHREAD_STACK_MIN) can make any call. What
 * callbacks of the application and drivers of RDMA devices take comes on top.
 *
 * In the child of a fork() nothing of it lives on: calls with a context, source
 * or target of the parent return -EOWNERDEAD, and the child opens its own. What
 * was lent before (tuples, spans, batches) and open cursors are pointers into
 * memory that the child does not have: using them there is a fault (SIGSEGV).
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
	 * dead, 50 to 3600000; it gives one every third of that. Default 0: as
	 * DFI_LEASE says, and else DFI_NO_LEASE: only the end of the process or
	 * of its connection to the registry counts, so that a stopped one is
	 * not dead.
	 */
	uint32_t lease_ttl_ms;
	const char *registry;     /* default DFI_REGISTRY; see registry.h */
	const char *node_name;    /* shown to peers: 1 to 63 characters of
				     printable ASCII; default the host name */
	uint32_t open_timeout_ms; /* default DFI_OPEN_TIMEOUT, 10000 */
	uint32_t reserved;        /* 0 */
	/*
	 * How the registry and this process prove who they are, where it is at
	 * a TCP address: the names of the files of dfi_registry_attr, where
	 * registry_ca is who signed the registry's certificate, and
	 * registry_cert and registry_private_key are this process's own. If all
	 * are NULL: those of DFI_REGISTRY_KEY, DFI_REGISTRY_CA,
	 * DFI_REGISTRY_CERT, DFI_REGISTRY_PRIVATE_KEY. Read during the call
	 * only.
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
 * How a waiting call waits. Sleepers are woken at once, but for targets whose
 * segments come over RDMA with footers (DFI_VERBS_NOTIFY; also by themselves
 * where DFI_WAIT_SPIN was asked for), and all on kernels without membarrier(2).
 * These look by themselves, and so does a descriptor: after 1 ms, or a
 * hundredth of the silence if that is longer, at most 10 ms.
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
 * Join the registry at attr->registry. attr NULL means all defaults. Returns
 * within open_timeout_ms. On success *dfi is the context, to be closed with
 * dfi_close(). A process may have several. Any thread.
 *
 * -EINVAL: no registry is named, an attribute or a setting is not valid, or a
 * key or certificate file is not as it must be. -ECONNREFUSED: nobody answers
 * there. -ETIMEDOUT: no answer in time, or the control thread has not run; then
 * the library stays loaded until the process ends. -EPROTO: what answers is no
 * registry, one of another version, or one without TLS. -EACCES: it belongs to
 * another user, or it and this process don't have the same key, or don't accept
 * each other's certificates. -EPERM: a TCP address, and no key or CA to know
 * the registry by. -ENOSPC: the registry is full. -ENOTCONN: it died, or was
 * stopped, meanwhile; another attempt may find it again. -EHOSTUNREACH: the
 * network doesn't lead to its machine. -ENOMEM, -EMFILE, -EIO.
 */
DFI_API int dfi_open(const struct dfi_attr *attr, struct dfi **dfi);

/*
 * Leave the registry and free the context. Flows that it created and that are
 * not persistent are removed. -EBUSY if sources, targets or barriers are still
 * open, or another thread is in a call that was given the context, also in this
 * one; -ETIMEDOUT if the control thread has not run for the context's
 * open_timeout_ms; then nothing happened. -EBADF: it was closed before. Over
 * RDMA it waits, 2 s at most, until sources whose flows have ended here have
 * closed. Any thread; what another one asks of the context meanwhile or later
 * fails, with -EBUSY or -EBADF.
 */
DFI_API int dfi_close(struct dfi *dfi);

/*
 * What a context did over RDMA since it first needed it, and holds of it now.
 * All zero before.
 */
struct dfi_context_stats {
	uint64_t writes;        /* one for each segment, whole or partial, and
				   for each end mark */
	uint64_t inline_writes; /* of them, sent without a copy by the device */
	uint64_t bytes;         /* of writes: what is used of segments, and
				   footers where targets poll them */
	uint64_t credits;       /* writes that gave segments back to a source */
	uint64_t messages;      /* that open and close rings, and numbers
				   taken from sequencers */
	uint64_t completions;   /* asked for, of all of these */
	uint64_t doorbells;     /* calls of the driver that posted all of these;
				   see dfi_source_commit_more() */
	uint32_t queue_pairs;   /* now, also those that wait for a source */
	uint32_t memory_regions;
	/*
	 * Rings that are open now, at either end, whose target polls the
	 * footers for segments, but for those of checksum_rings; and those
	 * where a completion tells it.
	 */
	uint32_t footer_rings, imm_rings;
	/*
	 * Since then: connections that broke otherwise than by their peer's
	 * end, fatal errors that the device reported, and how often the link
	 * of the port went down.
	 */
	uint32_t broken_connections, fatal_events, port_downs;
	uint32_t port;     /* of device */
	uint32_t receives; /* that are posted for what arrives */
	/* Of queue_pairs, those for which the driver takes no locks. */
	uint32_t thread_domains;
	char device[64];
	char address[48]; /* IPv4 or IPv6, of this context */
	/* Rings whose target polls footers that have checksums. */
	uint32_t checksum_rings;
	uint32_t reserved; /* 0 */
};

/*
 * Read the counters, which may be some operations behind those of other
 * threads. Waits for a transport that is being started. Any thread. -EINVAL:
 * stats is NULL.
 */
DFI_API int dfi_context_query(struct dfi *dfi, struct dfi_context_stats *stats);

/* The version of the library at run time, "0.1.0". */
DFI_API const char *dfi_version(void);

#ifdef __cplusplus
}
#endif

#endif
