/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two flows between invocations. Their ends sleep while they wait, so that
 * they don't disturb the measured threads.
 */
#include "peer.h"

#include <stdio.h>
#include <string.h>

#include "../common/complain.h"
#include "report.h"

static const char plans[] = "dfi-bench.plans";
static const char results[] = "dfi-bench.results";

#define MAGIC (UINT64_C(0x6466692d62656e63) ^ sizeof(struct peer_message))

static bool create(struct dfi *dfi, const struct peer *peer, const char *name)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.goal = DFI_LATENCY;
	attr.schema = &peer->schema.schema;
	attr.n_sources = attr.n_targets = 1;
	if (dfi_flow_create(dfi, name, &attr) == 0)
		return true;
	complain("%s", dfi_errmsg());
	return false;
}

bool peer_open(
    struct dfi *dfi, bool leads, uint32_t timeout_s, struct peer *peer)
{
	struct dfi_target_attr in = DFI_TARGET_ATTR_INIT;
	struct dfi_source_attr out = DFI_SOURCE_ATTR_INIT;

	*peer = (struct peer){ .out = NULL };
	tuple_schema_init(&peer->schema, sizeof(struct peer_message));
	in.schema = out.schema = &peer->schema.schema;
	in.wait = out.wait = DFI_WAIT_BLOCK;
	in.open_timeout_ms = out.open_timeout_ms = timeout_s * 1000;
	if (leads) {
		in.stall_timeout_ms = timeout_s * 1000;
		if (!create(dfi, peer, plans) || !create(dfi, peer, results))
			return false;
	}
	if (dfi_target_open(dfi, leads ? results : plans, 0, &in, &peer->in) ==
		0 &&
	    dfi_source_open(
		dfi, leads ? plans : results, 0, &out, &peer->out) == 0)
		return true;
	complain("meeting the other invocation: %s", dfi_errmsg());
	peer_close(peer);
	return false;
}

void peer_close(struct peer *peer)
{
	if (peer->out)
		dfi_source_close(peer->out);
	if (peer->in)
		dfi_target_close(peer->in);
	*peer = (struct peer){ .out = NULL };
}

bool peer_send(struct peer *peer, struct peer_message *message)
{
	message->magic = MAGIC;
	if (dfi_source_push(peer->out, message) == 0)
		return true;
	complain("the other invocation: %s", dfi_errmsg());
	return false;
}

int peer_receive(struct peer *peer, struct peer_message *message)
{
	const void *tuple;
	int ret = dfi_target_consume(peer->in, &tuple);

	if (ret < 0)
		complain("the other invocation: %s", dfi_errmsg());
	if (ret <= 0)
		return ret < 0 ? -1 : 0;
	memcpy(message, tuple, sizeof(*message));
	message->error[sizeof(message->error) - 1] = '\0';
	if (message->magic != MAGIC) {
		complain("the other invocation is of another build");
		return -1;
	}
	if (message->status) {
		complain("the other invocation: %s", message->error);
		return -1;
	}
	return 1;
}
