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

Test(ip, route_to_this_host_is_its_own_address)
{
	union ip to, from;

	cr_assert(dfi__ip_parse("127.0.0.1:9", &to));
	cr_assert(dfi__ip_route(&to, &from));
	cr_assert(dfi__ip_same_host(&to, &from));
}
