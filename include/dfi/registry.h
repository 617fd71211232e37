/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry, where flows are published and endpoints find each other. A
 * running flow does not need it.
 *
 * The program dfi-registry runs one; so can any process, such as the first one
 * of a job. Its one thread, "dfi-registry", is scheduled as a context's control
 * thread (context.h), with all signals masked. A client learns how to reach
 * into members' memory; docs/registry.md says whom a registry serves, and its
 * limits.
 *
 * Contexts of one process need none: those with "local:" as the address of
 * their registry share a private one, without a socket, a thread, or limits.
 * "local:NAME" is another one, for each NAME. It begins with the first of these
 * contexts. With the last it ends, and forgets persistent flows. Their leases
 * end when they are closed. A forked child has none of its parent's: it begins
 * with its own. No other process can see it, dfi-info included.
 *
 * "etcd:https://HOST:PORT[,HOST:PORT]...[/PREFIX]" is an etcd: its members'
 * endpoints, and where in it DFI's keys are, by default "dfi". Hosts that are
 * no loopback addresses need https and a user of etcd (DFI_ETCD_USER,
 * DFI_ETCD_PASSWORD_FILE); dfi_attr.registry_ca and the two behind it are as
 * for a dfi-registry. A lease has whole seconds there, 5 if dfi_attr names
 * none. libdfi.a has this only if it was built with -DDFI_STATIC_ALL=ON.
 */
#ifndef DFI_REGISTRY_H
#define DFI_REGISTRY_H

#include <stdint.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

struct dfi_registry;

/* Of a registry, and of the contexts that join it (dfi_attr.registry_flags). */
enum {
	/*
	 * Serve, or join, a registry at a TCP address without proof of who
	 * anybody is: for a closed test network, or loopback where all users of
	 * the host are trusted. The registry's log says so. TLS stays as it is.
	 */
	DFI_REGISTRY_INSECURE = 1,
};

/* All texts are read during the call only. */
struct dfi_registry_attr {
	uint32_t size;  /* DFI_REGISTRY_ATTR_INIT */
	uint32_t flags; /* DFI_REGISTRY_INSECURE */
	/*
	 * Where to listen: unix:PATH (at most 107 bytes, in a directory that
	 * only this user may write to), unix:@NAME (abstract, no file),
	 * tcp:IP:PORT or tcp:[IPV6]:PORT (port 0: any free one; tcp:0.0.0.0
	 * and tcp:[::]: all addresses of this host). NULL: an abstract Unix
	 * socket with a random name.
	 */
	const char *listen;
	uint32_t max_connections; /* 0: 4096; each may hold one lease */
	uint32_t max_keys;        /* 0: 65536 */
	/*
	 * Up to two an endpoint and barrier, and as many again for flows that
	 * their creators follow. 0: 16384, of which a connection may have 4096.
	 */
	uint32_t max_watches;
	/*
	 * Bytes kept for a slow client, without what its watch began with; for
	 * all clients four times that, at least 16 MiB. Beyond, those with most
	 * are disconnected. 0: 16 MiB.
	 */
	uint32_t max_output;
	uint64_t max_bytes; /* of all keys and values; 0: 64 MiB */
	/*
	 * Names of files, for a TCP address. Either key, which
	 * dfi_registry_key_create() made and each member has a copy of. Or, in
	 * PEM, cert (with the chain to its CA), private_key and ca, which
	 * signed the certificates of clients. With DFI_REGISTRY_INSECURE ca may
	 * be NULL; then clients prove nothing.
	 */
	const char *key;
	const char *ca;
	const char *cert;
	const char *private_key;
	uint32_t max_client_keys; /* that vanish with one client; 0: 16384 */
	/*
	 * Further users that a Unix socket serves; its file has mode 0666 then.
	 * They can see and change all flows, but share no memory with other
	 * users. The user of unmapped ones (kernel.overflowuid) is refused.
	 */
	uint32_t n_users; /* at most DFI_MAX_REGISTRY_USERS */
	const uint32_t *users;
	/*
	 * A directory (mode 0700) of this registry alone, made if it is
	 * missing: keys and leases are kept there across restarts,
	 * docs/registry.md. NULL: a registry that ends forgets everything, and
	 * its clients restore it.
	 */
	const char *state;
	/* For clients to come back after a restart with state; 0: 10 s. */
	uint32_t grace_ms;
	uint32_t reserved; /* 0 */
};

#define DFI_MAX_REGISTRY_USERS 32

#define DFI_REGISTRY_ATTR_INIT DFI_INIT(struct dfi_registry_attr)

/*
 * Start a registry; attr NULL means all defaults. It answers when this returns.
 * The caller stops it with dfi_registry_stop(). The file of a Unix socket has
 * mode 0600. A leftover one, at which nobody listens, is replaced under the
 * lock of the file PATH.lock, which a running registry holds.
 *
 * -EINVAL: also, an unknown flag, no address, or a file is missing, wrong or
 * not secret. -EPERM: a TCP address without proof of who clients are. -EEXIST:
 * the address is in use, or the path is another file, or its lock can't be had.
 * -EBUSY: another process holds the lock and nobody answers for 2 s, or another
 * registry has the state directory. -ENOENT, -EACCES: the directory.
 * -EBADMSG: the state is damaged. -ENOSPC, -EIO: the state can't be stored.
 * -ETIMEDOUT: its thread has not run for 10 s.
 */
DFI_API int dfi_registry_start(
    const struct dfi_registry_attr *attr, struct dfi_registry **registry);

/* The address for clients, with the chosen port; valid until the stop. */
DFI_API const char *dfi_registry_address(const struct dfi_registry *registry);

/*
 * Disconnect all clients, end the thread, remove the socket's file, free.
 * Running flows go on. NULL is allowed. No other thread uses the handle
 * meanwhile. -ETIMEDOUT: its thread has not run for 10 s; nothing was done. If
 * the thread stops after that, this returns 0 within 10 s; the thread does the
 * rest when it runs, and the library stays loaded.
 */
DFI_API int dfi_registry_stop(struct dfi_registry *registry);

/*
 * Make a key file: 256 random bits as a line of text, with mode 0600, which it
 * must keep. Each copy makes its owner a member, or a registry. Any thread.
 * -EEXIST: the file exists; it is never overwritten. -ENOENT, -EACCES, -ENOSPC:
 * of its directory.
 */
DFI_API int dfi_registry_key_create(const char *path);

DFI_END_DECLS

#endif
