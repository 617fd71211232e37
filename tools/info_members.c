/* SPDX-License-Identifier: Apache-2.0 */
/* dfi-info flows: who holds the seats of an open flow. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "../common/complain.h"
#include "info.h"

static const char *role(const struct dfi_member_info *info)
{
	return info->role == DFI_ROLE_TARGET ? "target" : "source";
}

static int add_member(void *arg, const struct dfi_member_info *info)
{
	char incarnation[17];

	snprintf(
	    incarnation, sizeof(incarnation), "%016" PRIx64, info->incarnation);
	return info_append(arg,
	    json_pack("{ss si ss so so si si ss sI si si ss sb}", "role",
		role(info), "seat", (int)info->seat, "incarnation", incarnation,
		"node", info_text_json(info->node), "host",
		info_text_json(info->host), "pid", (int)info->pid, "n_peers",
		(int)info->n_peers, "peers", info->peers, "epoch",
		(json_int_t)info->epoch, "n_partitions",
		(int)info->n_partitions, "n_moving", (int)info->n_moving,
		"partitions", info->partitions, "leaving", (int)info->leaving));
}

/* A flow that is gone by now has no members. */
static int list_members(struct dfi *dfi, const struct dfi_flow_info *flow,
    int (*fn)(void *arg, const struct dfi_member_info *info), void *arg)
{
	int ret = dfi_member_list(dfi, flow->name, fn, arg);

	return ret == -ENOENT || ret == -EPROTOTYPE ? 0 : ret;
}

json_t *info_members_json(struct dfi *dfi, const struct dfi_flow_info *flow)
{
	json_t *rows;

	if (!flow->membership)
		return json_null();
	rows = json_array();
	if (rows && list_members(dfi, flow, add_member, rows)) {
		json_decref(rows);
		return NULL;
	}
	return rows;
}

/* "    owns 16 partitions: 0-15; epoch 3; 4 are yet to be taken or released" */
static void print_partitions(const struct dfi_member_info *info)
{
	if (!info->epoch && !info->leaving)
		return;
	printf("    owns %u partition%s%s%s", info->n_partitions,
	    info->n_partitions == 1 ? "" : "s", info->n_partitions ? ": " : "",
	    info->partitions);
	if (info->epoch)
		printf("; epoch %" PRIu64, info->epoch);
	if (info->n_moving)
		printf("; %u %s yet to be taken or released", info->n_moving,
		    info->n_moving == 1 ? "is" : "are");
	printf("%s\n", info->leaving ? "; leaves" : "");
}

static int print_member(void *arg, const struct dfi_member_info *info)
{
	char node[INFO_TEXT_SIZE], host[INFO_TEXT_SIZE];
	const char *others = info->role == DFI_ROLE_TARGET ? "source"
							   : "target";

	(void)arg;
	printf("  %s %-2u %016" PRIx64 ", %s (host %s, pid %u), ", role(info),
	    info->seat, info->incarnation,
	    escape_text(node, sizeof(node), info->node),
	    escape_text(host, sizeof(host), info->host), info->pid);
	if (info->n_peers)
		printf("rings with %s%s %s\n", others,
		    info->n_peers > 1 ? "s" : "", info->peers);
	else
		printf("no rings\n");
	print_partitions(info);
	return 0;
}

int info_print_members(struct dfi *dfi, const struct dfi_flow_info *flow)
{
	return list_members(dfi, flow, print_member, NULL);
}
