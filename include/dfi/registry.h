/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry: where flows are published and endpoints find each other. It is
 * never on the data path: a running flow does not need it.
 *
 * The program dfi-registry runs one; so can any process of its own, such as a
 * test or the first process of a job. A started registry has one thread of its
 * own, named "dfi-registry", with all signals masked, which is scheduled as a
 * context's control thread is (context.h).
 *
 * Whoever reaches a registry learns how to reach into its members' memory.
 * Over a Unix socket, only processes of the same user or of root are served,
 * and those of users that are named. Over TCP, which every user of the host can
 * reach also at a loopback address, TLS 1.3 with a key file or with
 * certificates makes sure of both sides.
 */
#ifndef DFI_REGISTRY_H
#define DFI_REGISTRY_H

#include <stdint.h>
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dfi_registry;

/* Of a registry, and of the contexts that join it (dfi_attr.registry_flags). */
enum {
	/*
	 * For a closed test network, or loopback on a host whose users are all
	 * trusted: serve, or join, a registry at a TCP address where nobody
	 * proves who he is. The registry's log says so at every start. What TLS
	 * does is not changed by it.
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
	 * and tcp:[::]: all of this host's addresses). NULL: an abstract Unix
	 * socket with a random name.
	 */
	const char *listen;
	uint32_t max_connections; /* 0: 4096; each may hold one lease */
	uint32_t max_keys;        /* 0: 65536 */
	/*
	 * Up to two for each endpoint and barrier; apart from these, as many
	 * flows are followed by their creators. 0: 16384 in all, of which one
	 * connection may have 4096.
	 */
	uint32_t max_watches;
	/*
	 * Bytes kept for one slow client; the entries that are there when it
	 * begins to watch come in pages and do not count. For all clients, four
	 * times as many are kept, and at least 16 MiB. A client for which more
	 * waits is disconnected. When too much waits for all, those for which
	 * most waits are. 0: 16 MiB.
	 */
	uint32_t max_output;
	uint64_t max_bytes; /* of all keys and values; 0: 64 MiB */
	/*
	 * For TCP, the names of PEM files and of a key file. Either key: a file
	 * that dfi_registry_key_create() made, of which all members have a
	 * copy. Or cert, with what leads to its CA, and private_key; then
	 * clients prove themselves by certificates that ca signed. Without ca
	 * they do not, which takes DFI_REGISTRY_INSECURE. NULL: none.
	 */
	const char *key;
	const char *ca;
	const char *cert;
	const char *private_key;
	uint32_t max_client_keys; /* that vanish with one client; 0: 16384 */
	/*
	 * Numbers of further users whose processes a Unix socket serves; its
	 * file then has mode 0666. They can see and change all flows, but share
	 * no memory with other users. The number of those that this process's
	 * user namespace does not map (kernel.overflowuid) is refused.
	 */
	uint32_t n_users; /* at most DFI_MAX_REGISTRY_USERS */
	const uint32_t *users;
};

#define DFI_MAX_REGISTRY_USERS 32

#define DFI_REGISTRY_ATTR_INIT DFI_INIT(struct dfi_registry_attr)

/*
 * Start a registry; attr NULL means all defaults. It answers when this
 * returns. The caller stops it with dfi_registry_stop().
 *
 * A Unix socket's file has mode 0600; only processes of the same user, of root,
 * or of dfi_registry_attr.users, are served, in whichever PID namespace. Others
 * get -EACCES, and so do users whom the registry's user namespace does not map,
 * as they all have one number there. A socket file at which nobody listens any
 * more, left by a killed process, is replaced. That takes the lock of the file
 * PATH.lock, mode 0600, which the registry makes and holds as long as it runs.
 *
 * Connections that have not proved who they are, or not said hello, count
 * towards no limit. 1024 of them have a place (at most an eighth of the file
 * descriptors), of one user or one address half of these, for 10 s, or 5 s with
 * TLS. If there are more, some are closed, and dfi_open() tries again until its
 * timeout. With TLS, the first message of a handshake leads to one of 256
 * places more. A client that is refused is told why and has 2 s to read it,
 * another user's none. The reason is logged, once a minute for each reason.
 *
 * A client that is at a limit of its own, or of the registry, is told which by
 * -ENOSPC: max_connections, max_keys, max_client_keys, max_watches, max_bytes;
 * or no file descriptor is left, of which each takes one, and two at a Unix
 * socket (ulimit -n; the program dfi-registry raises it as far as it may).
 * Not limits to be set: keys of 512 bytes, values of 64 KiB (-EMSGSIZE) and
 * messages of 256 KiB, beyond which the client is disconnected.
 *
 * -EINVAL: a size of 0, an unknown flag, listen is not an address, or a file is
 * missing, not what it should be, or not secret. -E2BIG: the struct is newer
 * than the library. -EPERM: a TCP address, and nothing by which clients prove
 * who they are. -EEXIST: the address is in use, or the path is another
 * kind of file, or a leftover socket whose lock can't be had. -EBUSY: another
 * process holds that lock, and nobody answers at the path for 2 s. -ENOENT,
 * -EACCES: no such directory, or no right to use it. -ETIMEDOUT: its thread has
 * not run for 10 s. -EMFILE, -ENOMEM, -EIO.
 */
DFI_API
int dfi_registry_start(
    const struct dfi_registry_attr *attr, struct dfi_registry **registry);

/*
 * The address at which clients find it, with the port that was chosen; valid
 * until the registry is stopped. Any thread.
 */
DFI_API
const char *dfi_registry_address(const struct dfi_registry *registry);

/*
 * Disconnect all clients, end the thread, remove the socket's file, free. Flows
 * that are running go on. NULL is allowed. One thread, while no other one uses
 * the handle. -EOWNERDEAD: the registry belongs to the parent of this forked
 * process; -ETIMEDOUT: its thread has not run for 10 s; nothing was done.
 */
DFI_API
int dfi_registry_stop(struct dfi_registry *registry);

/*
 * Make a key file: 256 random bits as a line of text, with mode 0600, which it
 * must keep. Whoever has a copy can be a member, and can be the registry. Any
 * thread.
 *
 * -EEXIST: a file of this name exists; it is never overwritten. -ENOENT,
 * -EACCES: of its directory. -EMFILE, -ENOSPC, -ENOMEM, -EIO. -EINVAL: path is
 * NULL.
 */
DFI_API
int dfi_registry_key_create(const char *path);

#ifdef __cplusplus
}
#endif

#endif
