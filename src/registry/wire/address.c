/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address texts, which of them other hosts can reach, and who may be at the
 * other end of a Unix socket: the same user or root. It asks no name service:
 * that could block, and the service would decide which host is trusted.
 */
#include "address.h"

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

static int parse_port(const char *text, const char *digits, union ip *ip)
{
	unsigned long value;

	if (strspn(digits, "0123456789") != strlen(digits) || !*digits)
		return bad_address(text, "the port is not a number");
	value = strtoul(digits, NULL, 10);
	if (value > 65535)
		return bad_address(text, "the port is greater than 65535");
	dfi__ip_set_port(ip, (uint16_t)value);
	return 0;
}

static int parse_tcp(const char *text, struct address *address)
{
	const char *host = text + strlen("tcp:");
	const char *colon = strrchr(host, ':');
	union ip *ip = &address->socket.ip;
	char digits[IP_TEXT_SIZE] = "";
	bool brackets;
	size_t size;

	if (!colon)
		return bad_address(text, "the port is missing");
	size = (size_t)(colon - host);
	brackets = size > 2 && host[0] == '[' && colon[-1] == ']';
	if (brackets) {
		host++;
		size -= 2;
	}
	if (size < sizeof(digits))
		memcpy(digits, host, size);
	if (!dfi__ip_parse_host(digits, ip) ||
	    brackets != (ip->any.sa_family == AF_INET6))
		return bad_address(text, "the host is not a numeric address");
	address->size = brackets ? sizeof(ip->in6) : sizeof(ip->in);
	return parse_port(text, colon + 1, ip);
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
	else if (!strncmp(text, "local:", strlen("local:")))
		ret = dfi__fail(-EINVAL,
		    "registry address '%s': contexts of one process share it "
		    "without a dfi-registry, which listens at %s",
		    text, ADDRESS_SYNTAX);
	else if (!strncmp(text, "etcd:", strlen("etcd:")))
		ret = dfi__fail(-EINVAL,
		    "registry address '%s': an etcd takes the place of a "
		    "dfi-registry, which listens at %s",
		    text, ADDRESS_SYNTAX);
	else
		ret = dfi__fail(-EINVAL,
		    "registry address '%s': unknown kind; use %s, "
		    "etcd:https://HOST:PORT for an etcd, or local: within one "
		    "process",
		    text, ADDRESS_SYNTAX);
	if (ret)
		return ret;
	*address = parsed;
	return 0;
}

bool dfi__address_is_routable(const struct address *address)
{
	struct in6_addr ip;

	if (dfi__address_is_unix(address))
		return false;
	ip = dfi__ip_as_v6(&address->socket.ip);
	return IN6_IS_ADDR_V4MAPPED(&ip) ? ip.s6_addr[12] != 127
					 : !IN6_IS_ADDR_LOOPBACK(&ip);
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
	 * TCP_USER_TIMEOUT at the registry would also end the connection of a
	 * stopped client whose buffers are full.
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

void dfi__address_limit_quiet_time(int fd, uint32_t ms)
{
	unsigned int value = ms;

	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, sizeof(value));
}

void dfi__address_tcp_text(
    const struct address *address, char text[ADDRESS_TEXT_SIZE])
{
	char ip[IP_PORT_TEXT_SIZE];

	dfi__ip_text(&address->socket.ip, ip);
	snprintf(text, ADDRESS_TEXT_SIZE, "tcp:%s", ip);
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
