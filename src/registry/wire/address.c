/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address texts, which of them other hosts can reach, and who may be at the
 * other end of a Unix socket: the same user or root. May not ask a name
 * service: that could block, and whoever answers would decide who is trusted.
 */
#include "address.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static int bad_address(const char *text, const char *what)
{
	return dfi__fail(-EINVAL, "registry address '%s': %s; use %s", text,
	    what, ADDRESS_SYNTAX);
}

static int parse_unix(const char *text, struct address *address)
{
	const char *name = text + strlen("unix:");
	struct sockaddr_un *un = &address->socket.un;
	size_t size = strlen(name), most = sizeof(un->sun_path) - 1;
	char what[96];

	if (size == 0 || !strcmp(name, "@"))
		return bad_address(text, "the name is empty");
	if (size > most) {
		snprintf(what, sizeof(what),
		    "its name has %zu bytes, a Unix socket's at most %zu", size,
		    most);
		return bad_address(text, what);
	}
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, name, size);
	address->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
	    size);
	if (name[0] == '@')
		un->sun_path[0] = '\0';
	else
		address->size++;
	return 0;
}

static int parse_port(const char *text, const char *digits, in_port_t *port)
{
	char *end;
	unsigned long value;

	if (strspn(digits, "0123456789") != strlen(digits) || !*digits)
		return bad_address(text, "the port is not a number");
	value = strtoul(digits, &end, 10);
	if (value > 65535)
		return bad_address(text, "the port is greater than 65535");
	*port = htons((in_port_t)value);
	return 0;
}

static bool is_loopback(const struct address *address)
{
	const struct in6_addr *ip6 = &address->socket.in6.sin6_addr;

	if (address->socket.any.sa_family == AF_INET)
		return ntohl(address->socket.in.sin_addr.s_addr) >> 24 == 127;
	if (IN6_IS_ADDR_V4MAPPED(ip6))
		return ip6->s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(ip6);
}

static int parse_tcp(const char *text, struct address *address)
{
	const char *host = text + strlen("tcp:");
	const char *colon = strrchr(host, ':');
	struct sockaddr_in *in = &address->socket.in;
	struct sockaddr_in6 *in6 = &address->socket.in6;
	char ip[INET6_ADDRSTRLEN + 2];
	size_t size;
	int ret;

	if (!colon)
		return bad_address(text, "the port is missing");
	size = (size_t)(colon - host);
	if (size >= sizeof(ip))
		return bad_address(text, "the host is not a numeric address");
	memcpy(ip, host, size);
	ip[size] = '\0';
	if (size > 2 && ip[0] == '[' && ip[size - 1] == ']') {
		ip[size - 1] = '\0';
		if (inet_pton(AF_INET6, ip + 1, &in6->sin6_addr) != 1)
			return bad_address(
			    text, "the host is not a numeric address");
		in6->sin6_family = AF_INET6;
		address->size = sizeof(*in6);
		ret = parse_port(text, colon + 1, &in6->sin6_port);
	} else {
		if (inet_pton(AF_INET, ip, &in->sin_addr) != 1)
			return bad_address(
			    text, "the host is not a numeric address");
		in->sin_family = AF_INET;
		address->size = sizeof(*in);
		ret = parse_port(text, colon + 1, &in->sin_port);
	}
	return ret;
}

int dfi__address_parse(const char *text, struct address *address)
{
	struct address parsed;
	int ret;

	memset(&parsed, 0, sizeof(parsed));
	if (!strncmp(text, "unix:", strlen("unix:")))
		ret = parse_unix(text, &parsed);
	else if (!strncmp(text, "tcp:", strlen("tcp:")))
		ret = parse_tcp(text, &parsed);
	else
		ret = bad_address(text, "unknown kind");
	if (ret)
		return ret;
	*address = parsed;
	return 0;
}

bool dfi__address_is_routable(const struct address *address)
{
	return !dfi__address_is_unix(address) && !is_loopback(address);
}

void dfi__address_peer_name(int fd, char name[PEER_NAME_SIZE])
{
	struct address peer = { .size = sizeof(peer.socket) };
	char text[ADDRESS_TEXT_SIZE];

	if (getpeername(fd, &peer.socket.any, &peer.size))
		snprintf(text, sizeof(text), "socket %d", fd);
	else
		dfi__address_tcp_text(&peer, text);
	snprintf(name, PEER_NAME_SIZE, "the client at %.80s", text);
}

void dfi__address_tune_tcp(int fd)
{
	/*
	 * Not TCP_USER_TIMEOUT at the registry: it would also end the
	 * connection of a client that is stopped, when what it doesn't read
	 * fills its buffers.
	 */
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 10 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 5 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 4 },
	};
	size_t i;

	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name,
		    &options[i].value, sizeof(options[i].value));
}

void dfi__address_limit_silence(int fd, uint32_t ms)
{
	unsigned int value = ms;

	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, sizeof(value));
}

void dfi__address_tcp_text(
    const struct address *address, char text[ADDRESS_TEXT_SIZE])
{
	const struct sockaddr_in *in = &address->socket.in;
	const struct sockaddr_in6 *in6 = &address->socket.in6;
	char ip[INET6_ADDRSTRLEN] = "";

	if (in->sin_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		snprintf(text, ADDRESS_TEXT_SIZE, "tcp:%s:%u", ip,
		    (unsigned)ntohs(in->sin_port));
	} else {
		inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
		snprintf(text, ADDRESS_TEXT_SIZE, "tcp:[%s]:%u", ip,
		    (unsigned)ntohs(in6->sin6_port));
	}
}

bool dfi__address_is_unix(const struct address *address)
{
	return address->socket.any.sa_family == AF_UNIX;
}

const char *dfi__address_path(const struct address *address)
{
	const char *path = address->socket.un.sun_path;

	return dfi__address_is_unix(address) && path[0] ? path : NULL;
}
