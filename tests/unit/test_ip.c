/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include "base/ip.h"

Test(ip, texts_come_back_as_they_were)
{
	static const char *const texts[] = { "10.0.0.1:7000", "[fd00::1]:1",
		"[fe80::5054:ff:fe12:3456]:65535" };
	char text[IP_PORT_TEXT_SIZE];
	union ip ip;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cr_assert(dfi__ip_parse(texts[i], &ip), "%s", texts[i]);
		dfi__ip_text(&ip, text);
		cr_assert_str_eq(text, texts[i]);
	}
}

Test(ip, what_is_no_address_is_refused)
{
	static const char *const texts[] = { "", ":", "10.0.0.1",
		"10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:7x",
		"10.0.0.1:-1", "host:7", "fd00::1:7", "[fd00::1:7",
		"[fd00::1]7", "[10.0.0.1]:7", "[]:7", "]:7",
		"[fd00:fd00:fd00:fd00:fd00:fd00:fd00:fd00:fd00:fd00]:7" };
	union ip ip;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_assert_not(dfi__ip_parse(texts[i], &ip), "%s", texts[i]);
}

Test(ip, hosts_are_compared_without_their_ports)
{
	union ip a, b;

	cr_assert(dfi__ip_parse("10.0.0.1:7", &a));
	cr_assert(dfi__ip_parse("10.0.0.1:8", &b));
	cr_assert(dfi__ip_same_host(&a, &b));
	cr_assert(dfi__ip_parse("[::ffff:10.0.0.1]:8", &b));
	cr_assert(dfi__ip_same_host(&a, &b));
	cr_assert(dfi__ip_parse("10.0.0.2:7", &b));
	cr_assert_not(dfi__ip_same_host(&a, &b));
	cr_assert_not(dfi__ip_is_link_local(&a));
	cr_assert(dfi__ip_parse_host("fe80::1", &b));
	cr_assert(dfi__ip_is_link_local(&b));
}

Test(ip, addresses_of_one_network_have_the_same_first_bits)
{
	union ip a, b, mask;

	cr_assert(dfi__ip_parse_host("10.0.1.1", &a));
	cr_assert(dfi__ip_parse_host("10.0.2.1", &b));
	cr_assert(dfi__ip_same_network(&a, &b, 0));
	cr_assert(dfi__ip_same_network(&a, &b, 16));
	cr_assert(dfi__ip_same_network(&a, &b, 22));
	cr_assert_not(dfi__ip_same_network(&a, &b, 23));
	cr_assert_not(dfi__ip_same_network(&a, &b, 32));
	cr_assert(dfi__ip_same_network(&a, &a, 32));
	cr_assert_not(dfi__ip_same_network(&a, &a, 33));
	cr_assert(dfi__ip_parse_host("fd00::1", &b));
	cr_assert_not(dfi__ip_same_network(&a, &b, 0));
	cr_assert(dfi__ip_parse_host("fd00::2", &a));
	cr_assert(dfi__ip_same_network(&a, &b, 64));
	cr_assert_not(dfi__ip_same_network(&a, &b, 128));
	cr_assert(dfi__ip_parse_host("255.255.240.0", &mask));
	cr_assert_eq(dfi__ip_mask_bits(&mask), 20);
	cr_assert(dfi__ip_parse_host("ffff:ffff:ffff:ffff::", &mask));
	cr_assert_eq(dfi__ip_mask_bits(&mask), 64);
}

Test(ip, route_to_this_host_is_its_own_address)
{
	union ip to, from;

	cr_assert(dfi__ip_parse("127.0.0.1:9", &to));
	cr_assert(dfi__ip_route(&to, &from));
	cr_assert(dfi__ip_same_host(&to, &from));
}
