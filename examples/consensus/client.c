/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the client library. client_lane.c and client_net.c do the work.
 */
#include "client.h"

#include <dfi/error.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_impl.h"

#define SECOND UINT64_C(1000000000)

static _Thread_local char error_text[256];

int client_fail(int ret, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error_text, sizeof(error_text), format, args);
	va_end(args);
	return ret;
}

const char *kv_client_error(void)
{
	return error_text;
}

static int check_options(const struct kv_client_options *options)
{
	if (options->n_replicas < 1 || options->n_replicas > KV_MAX_REPLICAS)
		return client_fail(-EINVAL,
		    "n_replicas is %u: a cluster has 1 to %d replicas",
		    options->n_replicas, KV_MAX_REPLICAS);
	if (options->lanes > KV_MAX_LANES)
		return client_fail(-EINVAL,
		    "lanes is %u: a client has up to %d", options->lanes,
		    KV_MAX_LANES);
	if (options->cluster && !kv_cluster_valid(options->cluster))
		return client_fail(-EINVAL,
		    "the cluster's name '%s' is not 1 to %d of A-Z, a-z, 0-9, "
		    "_ and -",
		    options->cluster, KV_MAX_CLUSTER);
	return 0;
}

static uint64_t given(uint64_t value, uint64_t default_value)
{
	return value ? value : default_value;
}

static int set_options(
    struct kv_client *client, const struct kv_client_options *options)
{
	client->options = *options;
	client->options.lanes = options->lanes ? options->lanes : 1;
	client->options.timeout_ns = given(options->timeout_ns, 10 * SECOND);
	client->options.retry_ns = given(options->retry_ns, SECOND / 5);
	client->options.open_timeout_ns = given(
	    options->open_timeout_ns, 10 * SECOND);
	client->cluster = strdup(options->cluster ? options->cluster : "kv");
	client->registry = options->registry ? strdup(options->registry) : NULL;
	client->lanes = calloc(client->options.lanes, sizeof(client->lanes[0]));
	if (!client->cluster || !client->lanes ||
	    (options->registry && !client->registry))
		return client_fail(-ENOMEM, "no memory for a client");
	client->options.registry = client->registry;
	client->options.cluster = client->cluster;
	return 0;
}

static bool is_ready(const struct kv_client *client)
{
	return client->options.observe ? client->stats.connected != 0
				       : client->session != 0;
}

static int wait_until_ready(struct kv_client *client)
{
	uint64_t until = now_ns() + client->options.open_timeout_ns;

	while (!is_ready(client)) {
		kv_client_poll(client);
		if (is_ready(client))
			break;
		if (client->now >= until && net_majority_lost(client))
			return client_fail(-ENOTRECOVERABLE, "cluster '%s': %s",
			    client->cluster, KV_NO_QUORUM_TEXT);
		if (client->now >= until && !client->stats.connected)
			return client_fail(-ETIMEDOUT,
			    "no replica of cluster '%s' has answered; is one "
			    "running at this registry, with a free place?",
			    client->cluster);
		if (client->now >= until)
			return client_fail(-ETIMEDOUT,
			    "cluster '%s': replicas answer, but none leads",
			    client->cluster);
		links_wait(client->links, kv_client_due(client));
	}
	return 0;
}

int kv_client_open(
    const struct kv_client_options *options, struct kv_client **out)
{
	struct kv_client *client;
	int ret = check_options(options);

	if (ret < 0)
		return ret;
	client = calloc(1, sizeof(*client));
	if (!client)
		return client_fail(-ENOMEM, "no memory for a client");
	client->leader = -1;
	client->now = now_ns();
	ret = kv_random_id(&client->id);
	if (ret < 0)
		client_fail(ret,
		    "no random number for the client's id: getrandom(): %s",
		    strerror(-ret));
	else
		ret = set_options(client, options);
	if (!ret) {
		client->cluster_id = kv_cluster_id(client->cluster);
		ret = net_open(client);
	}
	if (!ret)
		ret = wait_until_ready(client);
	if (ret < 0) {
		kv_client_close(client);
		return ret;
	}
	*out = client;
	return 0;
}

void kv_client_close(struct kv_client *client)
{
	unsigned i;

	if (!client)
		return;
	client->closing = true;
	links_close(client->links);
	for (i = 0; client->lanes && i < client->options.lanes; i++) {
		free(client->lanes[i].command);
		free(client->lanes[i].result);
	}
	free(client->lanes);
	free(client->registry);
	free(client->cluster);
	free(client);
}

int kv_client_poll(struct kv_client *client)
{
	client->now = now_ns();
	client->ended = 0;
	while (links_poll(client->links, 64) == 64)
		;
	lanes_settle(client);
	net_turn(client);
	lanes_turn(client);
	links_flush(client->links);
	return client->ended;
}

uint64_t kv_client_due(const struct kv_client *client)
{
	uint64_t net = net_due(client);

	return net < client->due ? net : client->due;
}

int kv_client_wait(struct kv_client *client, uint64_t timeout_ns)
{
	uint64_t until = now_ns() + timeout_ns, due;
	int ended;

	for (;;) {
		ended = kv_client_poll(client);
		if (ended || client->now >= until)
			return ended;
		due = kv_client_due(client);
		links_wait(client->links, due < until ? due : until);
	}
}

int kv_client_fd(struct kv_client *client)
{
	return links_fd(client->links);
}

/*
 * A number that differs from the client's id and those of all lanes' commands.
 */
static void ask(struct kv_client *client)
{
	client->question = client->id ^ ++client->questions;
}

int kv_client_status(struct kv_client *client, unsigned replica,
    uint64_t timeout_ns, char *text, size_t size)
{
	static const uint64_t again_ns = SECOND / 20;
	uint64_t until = now_ns() + timeout_ns, at = 0, due;
	struct kv_message *message;

	if (replica >= client->options.n_replicas || !size)
		return client_fail(-EINVAL, "there is no replica %u", replica);
	client->text = text;
	client->text_size = size;
	ask(client);
	while (client->question && now_ns() < until) {
		if (now_ns() >= at && client->servers[replica].welcome) {
			at = now_ns() + again_ns;
			message = net_begin(client, replica, KV_STATUS, 0);
			if (message) {
				message->number = client->question;
				net_send(client, message);
			}
		}
		kv_client_poll(client);
		due = at > client->now ? at : client->now + again_ns;
		if (client->question)
			links_wait(client->links, due);
	}
	if (!client->question)
		return 0;
	client->question = 0;
	return client_fail(-ETIMEDOUT, "replica %u does not answer", replica);
}

static bool send_config(
    struct kv_client *client, const struct kv_config *config)
{
	struct kv_command command = {
		.op = KV_CONFIG,
		.value_size = sizeof(*config),
	};
	struct kv_message *message;

	if (client->leader < 0)
		return false;
	message = net_begin(client, (unsigned)client->leader, KV_REQUEST,
	    sizeof(command) + sizeof(*config));
	if (!message)
		return false;
	message->number = client->question;
	memcpy(message->body, &command, sizeof(command));
	memcpy(message->body + sizeof(command), config, sizeof(*config));
	net_send(client, message);
	return true;
}

int kv_client_reconfigure(struct kv_client *client,
    const struct kv_config *config, uint64_t timeout_ns, uint8_t *status)
{
	uint64_t until = now_ns() + timeout_ns;
	bool sent = false;

	ask(client);
	for (;;) {
		if (!sent)
			sent = send_config(client, config);
		kv_client_poll(client);
		if (!client->question && client->answer != KV_NOT_LEADER &&
		    client->answer != KV_NO_QUORUM) {
			*status = client->answer;
			return 0;
		}
		if (!client->question) {
			ask(client);
			sent = false;
		}
		if (client->now >= until)
			break;
		links_wait(client->links, client->now + SECOND / 200);
	}
	client->question = 0;
	return client_fail(-ETIMEDOUT, "the leader does not answer");
}

void kv_client_query(
    const struct kv_client *client, struct kv_client_stats *stats)
{
	*stats = client->stats;
	stats->leader = client->leader;
}
