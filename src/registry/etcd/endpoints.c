/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of etcd as text, and which of them other hosts can reach. */
#include "endpoints.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/ip.h"
#include "etcd.h"

#define HOST_SIZE 256

static int bad(const char *address, const char *what)
{
	return dfi__fail(-EINVAL, "registry address '%s': %s; use %s", address,
	    what, ETCD_SYNTAX);
}

static int fail_memory(void)
{
	return dfi__fail(-ENOMEM, "no memory for the address of an etcd");
}

/* Take "http://" or "https://" off *text; it must be the same everywhere. */
static bool take_scheme(const char **text, bool *tls)
{
	if (!strncmp(*text, "https://", 8)) {
		*text += 8;
		*tls = true;
		return true;
	}
	if (!strncmp(*text, "http://", 7)) {
		*text += 7;
		*tls = false;
		return true;
	}
	return false;
}

static bool is_loopback(const char *host)
{
	struct in6_addr ip;
	union ip parsed;

	if (!strcmp(host, "localhost"))
		return true;
	if (!dfi__ip_parse_host(host, &parsed))
		return false;
	ip = dfi__ip_as_v6(&parsed);
	return IN6_IS_ADDR_V4MAPPED(&ip) ? ip.s6_addr[12] == 127
					 : IN6_IS_ADDR_LOOPBACK(&ip);
}

static const char *check_port(const char *port, size_t size)
{
	size_t i;

	if (!size || size > 5 || strtoul(port, NULL, 10) > 65535)
		return "a port is not a number from 1 to 65535";
	for (i = 0; i < size; i++)
		if (port[i] < '0' || port[i] > '9')
			return "a port is not a number from 1 to 65535";
	return NULL;
}

static bool is_host_text(const char *host)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz"
				      "0123456789.-_:";

	return *host && strspn(host, letters) == strlen(host);
}

/* Check "HOST:PORT" of this size. Returns what is wrong, or NULL. */
static const char *check_endpoint(const char *text, size_t size, bool *routable)
{
	const char *colon = memrchr(text, ':', size), *why;
	char host[HOST_SIZE];
	bool brackets;
	size_t length;

	if (!colon)
		return "a port is missing";
	why = check_port(colon + 1, size - (size_t)(colon + 1 - text));
	if (why)
		return why;
	length = (size_t)(colon - text);
	brackets = length > 2 && text[0] == '[' && colon[-1] == ']';
	if (brackets) {
		text++;
		length -= 2;
	}
	if (length >= sizeof(host))
		return "the name of a host is too long";
	memcpy(host, text, length);
	host[length] = '\0';
	if (!is_host_text(host) || (strchr(host, ':') && !brackets))
		return "a host is neither a name nor an IP address";
	if (!is_loopback(host))
		*routable = true;
	return NULL;
}

static int add(struct etcd_endpoints *endpoints, const char *text, size_t size)
{
	const char *why = check_endpoint(text, size, &endpoints->routable);

	if (why)
		return bad(endpoints->address, why);
	if (endpoints->n == ETCD_ENDPOINTS)
		return bad(endpoints->address, "more than 16 endpoints");
	if (asprintf(&endpoints->endpoint[endpoints->n], "http%s://%.*s",
		endpoints->tls ? "s" : "", (int)size, text) < 0) {
		endpoints->endpoint[endpoints->n] = NULL;
		return fail_memory();
	}
	endpoints->n++;
	return 0;
}

static int parse_prefix(struct etcd_endpoints *endpoints, const char *text)
{
	size_t size = strlen(text);

	while (size && text[size - 1] == '/')
		size--;
	if (size > 64)
		return bad(endpoints->address,
		    "the prefix has more than 64 characters");
	endpoints->prefix = size ? strndup(text, size) : strdup(ETCD_PREFIX);
	return endpoints->prefix ? 0 : fail_memory();
}

static int parse(struct etcd_endpoints *endpoints)
{
	const char *text = endpoints->address + strlen(ETCD_SCHEME);
	bool tls;
	size_t size;
	int ret;

	if (!take_scheme(&text, &endpoints->tls))
		return bad(endpoints->address, "https:// is missing");
	for (;;) {
		size = strcspn(text, ",/");
		ret = add(endpoints, text, size);
		if (ret)
			return ret;
		text += size;
		if (*text != ',')
			break;
		text++;
		if (take_scheme(&text, &tls) && tls != endpoints->tls)
			return bad(endpoints->address, "http and https");
	}
	return parse_prefix(endpoints, *text ? text + 1 : "");
}

int dfi__etcd_endpoints_parse(
    const char *address, struct etcd_endpoints *endpoints)
{
	int ret;

	memset(endpoints, 0, sizeof(*endpoints));
	endpoints->address = strdup(address);
	ret = endpoints->address ? parse(endpoints) : fail_memory();
	if (ret)
		dfi__etcd_endpoints_free(endpoints);
	return ret;
}

void dfi__etcd_endpoints_free(struct etcd_endpoints *endpoints)
{
	unsigned i;

	for (i = 0; i < endpoints->n; i++)
		free(endpoints->endpoint[i]);
	free(endpoints->address);
	free(endpoints->prefix);
	memset(endpoints, 0, sizeof(*endpoints));
}
