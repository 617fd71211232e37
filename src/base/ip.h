/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses with a port as text: "10.0.0.1:7000", "[fd00::1]:7000". */
#ifndef DFI_BASE_IP_H
#define DFI_BASE_IP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

union ip {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Sizes of the text of an address without a port, and with one. */
#define IP_TEXT_SIZE 48
#define IP_PORT_TEXT_SIZE 56

/* Parse an address and a port; names are not looked up. false: it is none. */
bool dfi__ip_parse(const char *text, union ip *ip);

/* Parse an address without a port; the port becomes 0. */
bool dfi__ip_parse_host(const char *text, union ip *ip);

/* Copy sa. false: it is neither IPv4 nor IPv6. */
bool dfi__ip_copy(const struct sockaddr *sa, union ip *ip);

void dfi__ip_host_text(const union ip *ip, char text[IP_TEXT_SIZE]);
void dfi__ip_text(const union ip *ip, char text[IP_PORT_TEXT_SIZE]);

uint16_t dfi__ip_port(const union ip *ip);
void dfi__ip_set_port(union ip *ip, uint16_t port);

/* Whether both are addresses of one host, whatever the port. */
bool dfi__ip_same_host(const union ip *a, const union ip *b);

/* Whether the first bits of both are the same: they are of one network. */
bool dfi__ip_same_network(
    const union ip *a, const union ip *b, unsigned n_bits);

/* The bits of a netmask that are set. */
unsigned dfi__ip_mask_bits(const union ip *mask);

bool dfi__ip_is_link_local(const union ip *ip);

/* The address as IPv6; IPv4 becomes ::ffff:a.b.c.d. */
struct in6_addr dfi__ip_as_v6(const union ip *ip);

/*
 * This host's source address for packets to another host, by the kernel's
 * routes. Sends nothing. false: there is no route.
 */
bool dfi__ip_route(const union ip *to, union ip *from);

#endif
