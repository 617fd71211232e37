/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry: where flows are published and endpoints find each other. It is
 * never on the data path: a running flow does not need it.
 *
 * The program dfi-registry runs one; so can any process of its own, such as a
 * test or the first process of a job. A started registry has one thread of its
 * own, named "dfi-registry", with all signals masked.
 */
#ifndef DFI_REGISTRY_H
#define DFI_REGISTRY_H

#include <stdint.h>
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dfi_registry;

struct dfi_registry_attr {
	uint32_t size;  /* DFI_REGISTRY_ATTR_INIT */
	uint32_t flags; /* 0 */
	/*
	 * Where to listen: unix:PATH, unix:@NAME (abstract, no file),
	 * tcp:127.0.0.1:PORT or tcp:[::1]:PORT (port 0: any free one).
	 * NULL: an abstract Unix socket with a random name. Read during the
	 * call only.
	 */
	const char *listen;
	uint32_t max_connections; /* 0: 4096; each may hold one lease */
	uint32_t max_keys;        /* 0: 65536 */
	uint32_t max_watches;     /* 0: 16384 in all, 4096 per connection */
	uint32_t max_output;      /* bytes kept for a slow client; 0: 16 MiB */
	uint64_t max_bytes;       /* of all keys and values; 0: 64 MiB */
};

#define DFI_REGISTRY_ATTR_INIT DFI_INIT(struct dfi_registry_attr)

/*
 * Start a registry; attr NULL means all defaults. It answers when this
 * returns. The caller stops it with dfi_registry_stop().
 *
 * A Unix socket's file has mode 0600; only processes of the same user, or of
 * root, are served. A socket file that nobody listens at any more, left by a
 * killed process, is replaced.
 *
 * -EINVAL: a size of 0, an unknown flag, or listen is not an address.
 * -E2BIG: the struct is newer than the library. -EPERM: a routable address:
 * whoever reaches the registry gets the addresses of rings, and this version
 * has no transport security. -EEXIST: the address is in use, or the path is
 * another kind of file. -EBUSY: another process is just replacing the same
 * leftover socket. -ENOENT, -EACCES: no such directory, or no right to use it.
 * -EMFILE, -ENOMEM, -EIO.
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
 * process; nothing was done.
 */
DFI_API
int dfi_registry_stop(struct dfi_registry *registry);

#ifdef __cplusplus
}
#endif

#endif
