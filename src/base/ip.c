/* SPDX-License-Identifier: Apache-2.0 */
#include "ip.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "files.h"

bool dfi__ip_parse_host(const char *text, union ip *ip)
{
	memset(ip, 0, sizeof(*ip));
	if (inet_pton(AF_INET, text, &ip->in.sin_addr) == 1) {
		ip->any.sa_family = AF_INET;
		return true;
	}
	if (inet_pton(AF_INET6, text, &ip->in6.sin6_addr) == 1) {
		ip->any.sa_family = AF_INET6;
		return true;
	}
	return false;
}

bool dfi__ip_parse(const char *text, union ip *ip)
{
	const char *colon = strrchr(text, ':');
	bool brackets = text[0] == '[';
	char host[IP_TEXT_SIZE], *end;
	unsigned long port;
	size_t size;

	if (!colon)
		return false;
	size = (size_t)(colon - text);
	if (brackets && (size < 2 || colon[-1] != ']'))
		return false;
	if (brackets) {
		text++;
		size -= 2;
	}
	if (size >= sizeof(host))
		return false;
	memcpy(host, text, size);
	host[size] = '\0';
	port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || !port ||
	    port > UINT16_MAX || !dfi__ip_parse_host(host, ip) ||
	    brackets != (ip->any.sa_family == AF_INET6))
		return false;
	dfi__ip_set_port(ip, (uint16_t)port);
	return true;
}

bool dfi__ip_copy(const struct sockaddr *sa, union ip *ip)
{
	if (!sa || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return false;
	memset(ip, 0, sizeof(*ip));
	memcpy(ip, sa,
	    sa->sa_family == AF_INET ? sizeof(ip->in) : sizeof(ip->in6));
	return true;
}

void dfi__ip_host_text(const union ip *ip, char text[IP_TEXT_SIZE])
{
	const void *address = ip->any.sa_family == AF_INET
	    ? (const void *)&ip->in.sin_addr
	    : (const void *)&ip->in6.sin6_addr;

	if (!inet_ntop(ip->any.sa_family, address, text, IP_TEXT_SIZE))
		strcpy(text, "?");
}

void dfi__ip_text(const union ip *ip, char text[IP_PORT_TEXT_SIZE])
{
	bool v6 = ip->any.sa_family == AF_INET6;
	char host[IP_TEXT_SIZE];

	dfi__ip_host_text(ip, host);
	snprintf(text, IP_PORT_TEXT_SIZE, "%s%s%s:%u", v6 ? "[" : "", host,
	    v6 ? "]" : "", dfi__ip_port(ip));
}

uint16_t dfi__ip_port(const union ip *ip)
{
	return ntohs(
	    ip->any.sa_family == AF_INET ? ip->in.sin_port : ip->in6.sin6_port);
}

void dfi__ip_set_port(union ip *ip, uint16_t port)
{
	if (ip->any.sa_family == AF_INET)
		ip->in.sin_port = htons(port);
	else
		ip->in6.sin6_port = htons(port);
}

struct in6_addr dfi__ip_as_v6(const union ip *ip)
{
	struct in6_addr address = { .s6_addr = { 0 } };

	if (ip->any.sa_family == AF_INET6)
		return ip->in6.sin6_addr;
	address.s6_addr[10] = address.s6_addr[11] = 0xff;
	memcpy(&address.s6_addr[12], &ip->in.sin_addr, 4);
	return address;
}

bool dfi__ip_same_host(const union ip *a, const union ip *b)
{
	struct in6_addr first = dfi__ip_as_v6(a), second = dfi__ip_as_v6(b);

	return memcmp(&first, &second, sizeof(first)) == 0;
}

/* The bytes of an address; returns their number. */
static unsigned bytes_of(const union ip *ip, const uint8_t **bytes)
{
	if (ip->any.sa_family == AF_INET) {
		*bytes = (const uint8_t *)&ip->in.sin_addr;
		return sizeof(ip->in.sin_addr);
	}
	*bytes = (const uint8_t *)&ip->in6.sin6_addr;
	return sizeof(ip->in6.sin6_addr);
}

bool dfi__ip_same_network(const union ip *a, const union ip *b, unsigned n_bits)
{
	const uint8_t *first, *second;
	unsigned n = bytes_of(a, &first), whole = n_bits / 8;
	uint8_t rest = (uint8_t)(0xff00 >> n_bits % 8);

	return a->any.sa_family == b->any.sa_family &&
	    bytes_of(b, &second) == n && n_bits <= n * 8 &&
	    memcmp(first, second, whole) == 0 &&
	    (whole == n || !((first[whole] ^ second[whole]) & rest));
}

unsigned dfi__ip_mask_bits(const union ip *mask)
{
	const uint8_t *bytes;
	unsigned n = bytes_of(mask, &bytes), i, bits = 0;

	for (i = 0; i < n; i++)
		bits += (unsigned)__builtin_popcount(bytes[i]);
	return bits;
}

bool dfi__ip_is_link_local(const union ip *ip)
{
	return ip->any.sa_family == AF_INET6 &&
	    IN6_IS_ADDR_LINKLOCAL(&ip->in6.sin6_addr);
}

bool dfi__ip_route(const union ip *to, union ip *from)
{
	int fd = file_up(
	    socket(to->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	socklen_t size = sizeof(*from);
	bool found;

	if (fd < 0)
		return false;
	/* connect() on a datagram socket sends nothing. */
	found = connect(fd, &to->any, sizeof(*to)) == 0 &&
	    getsockname(fd, &from->any, &size) == 0;
	close(fd);
	return found;
}
