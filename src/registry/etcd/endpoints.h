/* SPDX-License-Identifier: Apache-2.0 */
/* The address of an etcd: its members' endpoints, and where DFI's keys are. */
#ifndef DFI_REGISTRY_ETCD_ENDPOINTS_H
#define DFI_REGISTRY_ETCD_ENDPOINTS_H

#include <stdbool.h>

#define ETCD_SYNTAX                                                          \
	"etcd:https://HOST:PORT[,HOST:PORT]...[/PREFIX], or http:// if all " \
	"hosts are loopback addresses"

#define ETCD_ENDPOINTS 16 /* at most */
#define ETCD_PREFIX "dfi" /* without one in the address */

struct etcd_endpoints {
	char *address;                  /* as the user has written it */
	char *endpoint[ETCD_ENDPOINTS]; /* "https://HOST:PORT" */
	unsigned n;
	char *prefix; /* of all keys, without the '/' behind it */
	bool tls;
	bool routable; /* one of them is at no loopback address */
};

/* -EINVAL: no such address; the text states the syntax. -ENOMEM. */
int dfi__etcd_endpoints_parse(
    const char *address, struct etcd_endpoints *endpoints);
void dfi__etcd_endpoints_free(struct etcd_endpoints *endpoints);

#endif
