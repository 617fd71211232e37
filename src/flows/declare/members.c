/* SPDX-License-Identifier: Apache-2.0 */
/* Reads who holds the seats of open flows, for programs such as dfi-info. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dfi/open_flow.h>
#include <dfi/stats.h>
#include "base/error.h"
#include "registry/client/client.h"
#include "flows/context/context.h"
#include "flows/descriptor/descriptor.h"
#include "members.h"
#include "present.h"

static int compare_sides(const void *a, const void *b)
{
	const struct side *left = a, *right = b;

	if (left->pair != right->pair)
		return left->pair < right->pair ? -1 : 1;
	return left->is_target - right->is_target;
}

/* pairs/<id>/sources/<i> or pairs/<id>/targets/<j> */
static bool read_side(const char *rest, const char *key, struct side *side)
{
	char *end;

	if (strncmp(rest, "pairs/", strlen("pairs/")) != 0)
		return false;
	side->pair = strtoull(rest + strlen("pairs/"), &end, 16);
	side->is_target = !strncmp(end, "/targets/", strlen("/targets/"));
	return (side->is_target ||
		   !strncmp(end, "/sources/", strlen("/sources/"))) &&
	    dfi__endpoint_index(key, &side->seat);
}

static int read_sides(struct members *members)
{
	char prefix[KEY_SIZE];
	size_t i, length;

	members->sides = calloc(
	    members->n ? members->n : 1, sizeof(members->sides[0]));
	if (!members->sides)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", members->flow.name);
	dfi__flow_prefix(prefix, &members->flow);
	length = strlen(prefix);
	for (i = 0; i < members->n; i++)
		if (!strncmp(members->values[i].key, prefix, length) &&
		    read_side(members->values[i].key + length,
			members->values[i].key,
			&members->sides[members->n_sides]))
			members->n_sides++;
	qsort(members->sides, members->n_sides, sizeof(members->sides[0]),
	    compare_sides);
	return 0;
}

/* With whom both sides of a pair are there. */
static void find_peers(const struct members *members, bool is_target,
    uint32_t seat, struct dfi_member_info *info)
{
	const struct flow *flow = &members->flow;
	struct present peers = { { 0 } };
	const struct side *side = members->sides, *own, *other;
	size_t i;

	for (i = 1; i < members->n_sides; i++, side++) {
		if (side[0].pair != side[1].pair || side[0].is_target ||
		    !side[1].is_target)
			continue;
		own = &side[is_target];
		other = &side[!is_target];
		if (own->seat != seat || other->seat >= DFI_MAX_ENDPOINTS ||
		    present_has(&peers, other->seat))
			continue;
		present_set(&peers, other->seat);
		info->n_peers++;
	}
	dfi__present_list(peers.bits,
	    is_target ? flow->n_sources : flow->n_targets, true, info->peers,
	    sizeof(info->peers));
}

static const struct registry_value *find_seat(
    const struct members *members, const char *role, uint32_t seat)
{
	char key[KEY_SIZE];
	size_t i;

	dfi__endpoint_key(key, &members->flow, role, seat);
	for (i = 0; i < members->n; i++)
		if (!strcmp(members->values[i].key, key))
			return &members->values[i];
	return NULL;
}

static int list_role(struct members *members, bool is_target,
    int (*fn)(void *arg, const struct dfi_member_info *info), void *arg)
{
	uint32_t n = is_target ? members->flow.n_targets
			       : members->flow.n_sources;
	const struct registry_value *value;
	struct dfi_member_info info;
	struct endpoint endpoint;
	uint32_t seat;
	int ret = 0;

	for (seat = 0; !ret && seat < n; seat++) {
		value = find_seat(
		    members, is_target ? "target" : "source", seat);
		if (!value ||
		    dfi__endpoint_decode(value->data, value->size, &endpoint) <
			0)
			continue;
		info = (struct dfi_member_info){
			.role = is_target ? DFI_ROLE_TARGET : DFI_ROLE_SOURCE,
			.seat = seat,
			.incarnation = endpoint.incarnation,
			.pid = endpoint.node.pid,
		};
		snprintf(
		    info.node, sizeof(info.node), "%s", endpoint.node.name);
		snprintf(
		    info.host, sizeof(info.host), "%s", endpoint.node.host);
		free(endpoint.region.more);
		find_peers(members, is_target, seat, &info);
		if (is_target)
			dfi__members_partitions(members, &info);
		ret = fn(arg, &info);
	}
	return ret;
}

static int find_flow(struct members *members, const char *name)
{
	char key[KEY_SIZE];
	size_t i;

	dfi__flow_key(key, name);
	for (i = 0; i < members->n; i++)
		if (!strcmp(members->values[i].key, key))
			return dfi__flow_decode(name, members->values[i].data,
			    members->values[i].size, &members->flow);
	return dfi__fail(-ENOENT, "flow '%s' doesn't exist", name);
}

static int list_members(struct members *members, const char *name,
    int (*fn)(void *arg, const struct dfi_member_info *info), void *arg)
{
	int ret = find_flow(members, name);

	if (ret < 0)
		return ret;
	if (!members->flow.membership)
		ret = dfi__fail(-EPROTOTYPE,
		    "flow '%s' is not open (DFI_MEMBERS_OPEN): it has no seats",
		    name);
	if (!ret)
		ret = read_sides(members);
	if (!ret)
		ret = dfi__members_read_table(members);
	if (!ret)
		ret = list_role(members, false, fn, arg);
	if (!ret)
		ret = list_role(members, true, fn, arg);
	free(members->sides);
	free(members->table_memory);
	dfi__flow_free(&members->flow);
	return ret;
}

int dfi_member_list(struct dfi *dfi, const char *name,
    int (*fn)(void *arg, const struct dfi_member_info *info), void *arg)
{
	struct members members = { .n = 0 };
	char key[KEY_SIZE];
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = dfi__flow_check_name(name);
	if (!ret && !fn)
		ret = dfi__fail(-EINVAL, "dfi_member_list: fn is NULL");
	if (ret < 0)
		return ret;
	dfi__flow_key(key, name);
	ret = dfi__client_list(dfi->registry, key, context_deadline(dfi, 0),
	    &members.values, &members.n);
	if (ret < 0)
		return ret;
	ret = list_members(&members, name, fn, arg);
	dfi__registry_values_free(members.values, members.n);
	return ret;
}
