/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routing inside the library: from a flow's declaration to the target of a
 * tuple. Everything about keys is resolved once, when a source opens.
 */
#ifndef DFI_FLOWS_DECLARE_ROUTE_H
#define DFI_FLOWS_DECLARE_ROUTE_H

#include <dfi/flow.h>
#include <stdbool.h>
#include <dfi/route.h>

struct flow;

struct key_field {
	uint32_t type;
	uint32_t offset;
	uint32_t size;
};

struct router {
	uint32_t routing;   /* enum dfi_routing */
	uint32_t n_targets; /* or partitions, of an open flow */
	uint32_t n_keys;
	struct key_field keys[DFI_MAX_KEYS];
	uint32_t radix_shift, radix_bits;
	const int64_t *splits; /* the flow's */
	uint32_t next;         /* round robin */
	uint32_t (*function)(void *arg, const void *tuple, uint32_t n_targets);
	uint64_t (*set_function)(
	    void *arg, const void *tuple, uint32_t n_targets);
	void *function_arg; /* of both */
};

/*
 * Set the flow's keys from a list of field names, separated by commas. attr is
 * the name of the attribute in error texts. -EINVAL.
 */
int dfi__route_keys(struct flow *flow, const char *attr, const char *key);

/*
 * Check the routing part of a flow's declaration, and fill flow->keys. The
 * flow's other members are valid. key is the list of field names; NULL: the
 * first field. -EINVAL.
 */
int dfi__route_declare(struct flow *flow, const char *key);

/*
 * The first attribute that is only for the routing of a shuffle flow, or NULL.
 */
const char *dfi__routing_attr(const struct dfi_flow_attr *attr);

/* Initialise the router of source number index of the flow. */
void dfi__router_init(
    struct router *router, const struct flow *flow, uint32_t index);

/*
 * The target of a tuple. Only the application's function may give a number >=
 * n_targets. Not for DFI_ROUTE_DIRECT.
 */
uint32_t dfi__route(struct router *router, const void *tuple);

/* By dfi_hash64_partition() of an integer of 8 bytes: inline code may do it. */
bool dfi__router_hashes64(const struct router *router);

#endif
