/* SPDX-License-Identifier: Apache-2.0 */
/* A back-end of the load generator: see load_kv.h. */
#include "load_kv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "../../common/complain.h"
#include "../../common/usage.h"
#include "client.h"

#define OPEN_TIMEOUT_NS UINT64_C(20000000000)

struct client {
	struct kv_client *kv;
	load_done *done;
	void *arg;
};

static void answered(void *arg, const struct kv_client_answer *answer)
{
	struct client *client = arg;
	enum load_outcome outcome = LOAD_REFUSED;

	switch (answer->status) {
	case KV_OK:
		outcome = LOAD_OK;
		break;
	case KV_NOT_FOUND:
		outcome = LOAD_MISSING;
		break;
	case KV_UNKNOWN:
		outcome = LOAD_UNKNOWN;
		break;
	default:
		break;
	}
	client->done(client->arg, answer->lane, outcome, answer->value,
	    answer->value_size);
}

/* "NAME:REPLICAS[@REGISTRY]" into options; name is freed by the caller. */
static int parse(
    const char *where, char **name, struct kv_client_options *options)
{
	uint64_t n;
	char *colon, *at;

	*name = strdup(where);
	if (!*name)
		return complain("no memory for '%s'", where);
	at = strchr(*name, '@');
	if (at) {
		*at = '\0';
		options->registry = at + 1;
	}
	colon = strchr(*name, ':');
	if (!colon || !number_read(colon + 1, 1, KV_MAX_REPLICAS, &n))
		return complain(
		    "'%s' is not NAME:REPLICAS or NAME:REPLICAS@REGISTRY, "
		    "with 1 to %d replicas",
		    where, KV_MAX_REPLICAS);
	*colon = '\0';
	options->cluster = *name;
	options->n_replicas = (unsigned)n;
	return 0;
}

static int connect_to(
    const char *where, struct kv_client_options *options, struct kv_client **kv)
{
	char *name;
	int ret = parse(where, &name, options);

	if (ret == 0 && kv_client_open(options, kv))
		ret = complain("cannot open the store at %s: %s", where,
		    kv_client_error());
	free(name);
	return ret;
}

static void *open_client(const char *where, uint32_t lanes, load_done *done,
    void *arg, bool index_reads)
{
	struct client *client = calloc(1, sizeof(*client));
	struct kv_client_options options = {
		.lanes = lanes,
		.index_reads = index_reads,
		.open_timeout_ns = OPEN_TIMEOUT_NS,
		.done = answered,
		.arg = client,
	};

	if (!client) {
		complain("no memory for a client");
		return NULL;
	}
	client->done = done;
	client->arg = arg;
	if (connect_to(where, &options, &client->kv)) {
		free(client);
		return NULL;
	}
	return client;
}

static void *client_open(const char *where, uint32_t number, uint32_t lanes,
    load_done *done, void *arg)
{
	(void)number;
	return open_client(where, lanes, done, arg, false);
}

static void *client_open_index(const char *where, uint32_t number,
    uint32_t lanes, load_done *done, void *arg)
{
	(void)number;
	return open_client(where, lanes, done, arg, true);
}

static void client_close(void *arg)
{
	struct client *client = arg;

	kv_client_close(client->kv);
	free(client);
}

static int client_submit(
    void *arg, uint32_t lane, const struct load_request *request)
{
	struct client *client = arg;
	struct kv_client_command command = {
		.op = request->value ? KV_PUT : KV_GET,
		.key_size = (uint16_t)request->key_size,
		.value_size = (uint16_t)request->value_size,
		.key = request->key,
		.value = request->value,
	};

	if (kv_client_submit(client->kv, lane, &command, 0))
		return complain(
		    "cannot submit a command: %s", kv_client_error());
	return 1;
}

static int client_poll(void *arg, uint64_t wait_ns)
{
	struct client *client = arg;
	int ret = wait_ns ? kv_client_wait(client->kv, wait_ns)
			  : kv_client_poll(client->kv);

	return ret < 0
	    ? complain("the client of the store failed: %s", kv_client_error())
	    : 0;
}

const struct load_backend load_kv = {
	.name = "dfi-kv",
	.where = "kv:3",
	.where_help = "NAME:REPLICAS of the cluster, and @REGISTRY if that is "
		      "not DFI_REGISTRY; reads go through the log",
	.max_lanes = KV_MAX_LANES,
	.open = client_open,
	.close = client_close,
	.submit = client_submit,
	.poll = client_poll,
};

const struct load_backend load_kv_index = {
	.name = "dfi-kv-index",
	.where = "kv:3",
	.where_help = "the same; the leader confirms many reads by one round",
	.max_lanes = KV_MAX_LANES,
	.open = client_open_index,
	.close = client_close,
	.submit = client_submit,
	.poll = client_poll,
};
