/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a registry listens, as text and as a socket address.
 */
#ifndef DFI_REGISTRY_WIRE_ADDRESS_H
#define DFI_REGISTRY_WIRE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/ip.h"

#define ADDRESS_SYNTAX                                                      \
	"unix:PATH, unix:@NAME, tcp:IP:PORT or tcp:[IPV6]:PORT, the IP in " \
	"digits"

/* Room for any address as text. */
#define ADDRESS_TEXT_SIZE 128

/* Room for the description of a peer. */
#define PEER_NAME_SIZE 96

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_un un;
		union ip ip;
	} socket;
	socklen_t size;
};

/* -EINVAL: not an address; the text states the syntax. */
int dfi__address_parse(const char *text, struct address *address);

/* The text of a TCP address, as dfi__address_parse() reads it. */
void dfi__address_tcp_text(
    const struct address *address, char text[ADDRESS_TEXT_SIZE]);

bool dfi__address_is_unix(const struct address *address);

/* Tells whether it is TCP, and no loopback address. */
bool dfi__address_is_routable(const struct address *address);

/* "the client at tcp:IP:PORT", of a connected TCP socket. */
void dfi__address_peer_name(int fd, char name[PEER_NAME_SIZE]);

/*
 * Send small messages at once. If the peer's host vanishes, an idle connection
 * ends within half a minute. A stopped process does not end it: its kernel
 * answers.
 */
void dfi__address_tune_tcp(int fd);

/*
 * Make a connection fail if the peer's machine acknowledges nothing for ms
 * milliseconds.
 */
void dfi__address_limit_quiet_time(int fd, uint32_t ms);

/* A path in the file system; NULL for TCP and abstract addresses. */
const char *dfi__address_path(const struct address *address);

#endif
