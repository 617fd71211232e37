/* SPDX-License-Identifier: Apache-2.0 */
/* Operations as etcd's requests, and the values of its answers. */
#ifndef DFI_REGISTRY_ETCD_REQUEST_H
#define DFI_REGISTRY_ETCD_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct etcd_client;
struct etcd_operation;
struct etcd_watch;

/* A key with its value, as etcd has it. */
struct etcd_value {
	char *key; /* as DFI has it */
	void *bytes;
	const void *data; /* in bytes */
	size_t size;
	uint64_t revision; /* of the last change */
	uint64_t created;  /* revision of its creation */
	uint64_t owner;    /* who has put it; 0: not a client of DFI */
	uint64_t put;      /* the number of that put */
};

/* false: no memory, or no key of DFI. Free it with dfi__value_free(). */
bool dfi__value_read(const struct etcd_client *client, const json_t *pair,
    struct etcd_value *value);
void dfi__value_free(struct etcd_value *value);

/* Parts of requests: NULL if there is no memory. */
json_t *dfi__request_key(const struct etcd_client *client, const char *key);
json_t *dfi__request_range(
    const struct etcd_client *client, const char *text, bool exact);
json_t *dfi__request_fence_key(const struct etcd_client *client);
/* Add conditions to a list: this client has put the key last. */
json_t *dfi__request_add_own(
    const struct etcd_client *client, json_t *conditions, const char *key);
/* A put of a value in its own envelope. */
json_t *dfi__request_put(const struct etcd_client *client, const char *key,
    const void *value, size_t size, uint64_t put, bool leased);
/* The transaction is made only if the fence is as this client knows it. */
json_t *dfi__request_fenced(
    const struct etcd_client *client, json_t *operations);

/* The whole request of an operation, and its path. */
json_t *dfi__request_of(const struct etcd_operation *operation);
const char *dfi__request_path(const struct etcd_operation *operation);

#endif
