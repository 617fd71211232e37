/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a registry listens, as text and as a socket address.
 */
#ifndef DFI_REGISTRY_ADDRESS_H
#define DFI_REGISTRY_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ADDRESS_SYNTAX \
	"unix:PATH, unix:@NAME, tcp:127.0.0.1:PORT or tcp:[::1]:PORT"

/* Room for any address as text. */
#define ADDRESS_TEXT_SIZE 128

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_un un;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} socket;
	socklen_t size;
};

/*
 * -EINVAL: not an address, the text says the syntax. -EPERM: not of this host;
 * this version has no transport security.
 */
int dfi__address_parse(const char *text, struct address *address);

/* The text of a TCP address, as dfi__address_parse() reads it. */
void dfi__address_tcp_text(
    const struct address *address, char text[ADDRESS_TEXT_SIZE]);

bool dfi__address_is_unix(const struct address *address);

/* A path in the file system; NULL for TCP and abstract addresses. */
const char *dfi__address_path(const struct address *address);

/*
 * Whether the peer of a connected Unix socket may be trusted: it runs as the
 * same user or as root. 0, or -EACCES or -EIO with a text, in which peer says
 * what it is.
 */
int dfi__address_check_peer(int fd, const char *peer);

#endif
