/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching: find the flow, wait for it if necessary, and claim an index. A
 * claim is a create-if-absent in the registry, so an index has one owner.
 */
#include "attach.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/schema.h"
#include "registry/client/client.h"
#include "transport/transport.h"
#include "flows/declare/combine_flow.h"
#include "flows/context/context.h"
#include "flows/context/shared_counter.h"
#include "peers.h"
#include "flows/declare/tree.h"

struct awaited_flow {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool there, lost;
	void *data; /* its descriptor, the first that came */
	size_t size;
};

/*
 * Keep the first descriptor that came, even if the flow has gone since. The
 * attach then fails with an error that says who died.
 */
static void keep(
    struct awaited_flow *awaited, const struct registry_event *event)
{
	if (awaited->there)
		return;
	awaited->data = malloc(event->size + 1);
	if (awaited->data && event->size)
		memcpy(awaited->data, event->data, event->size);
	awaited->size = event->size;
	awaited->there = true;
}

static void on_event(void *arg, const struct registry_event *event)
{
	struct awaited_flow *awaited = arg;

	pthread_mutex_lock(&awaited->lock);
	if (event->type == REGISTRY_LOST)
		awaited->lost = true;
	else if (event->type == REGISTRY_PUT)
		keep(awaited, event);
	pthread_cond_signal(&awaited->changed);
	pthread_mutex_unlock(&awaited->lock);
}

/* Wait for a PUT of the flow's key, until the deadline. */
static int await_put(
    struct awaited_flow *awaited, const char *name, int64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);
	int ret = 0, err = 0;

	pthread_mutex_lock(&awaited->lock);
	while (!awaited->there && !awaited->lost && err != ETIMEDOUT)
		err = pthread_cond_timedwait(
		    &awaited->changed, &awaited->lock, &until);
	if (!awaited->there && awaited->lost)
		ret = dfi__fail(-ENOTCONN,
		    "flow '%s': the connection to the registry was lost while "
		    "waiting for the flow",
		    name);
	else if (!awaited->there)
		ret = dfi__fail(
		    -ETIMEDOUT, "flow '%s': nobody has created it", name);
	else if (!awaited->data)
		ret = dfi__fail(-ENOMEM, "flow '%s': out of memory", name);
	pthread_mutex_unlock(&awaited->lock);
	return ret;
}

static int await_flow(struct dfi *dfi, const char *name, const char *key,
    int64_t deadline, struct flow *flow)
{
	struct awaited_flow awaited = { .there = false };
	struct registry_watch *watch;
	pthread_condattr_t attr;
	int ret;

	pthread_mutex_init(&awaited.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&awaited.changed, &attr);
	pthread_condattr_destroy(&attr);
	ret = dfi__client_watch_key(
	    dfi->registry, key, on_event, &awaited, deadline, &watch);
	if (!ret) {
		ret = await_put(&awaited, name, deadline);
		dfi__client_unwatch(watch);
	}
	if (!ret)
		ret = dfi__flow_decode(name, awaited.data, awaited.size, flow);
	free(awaited.data);
	pthread_cond_destroy(&awaited.changed);
	pthread_mutex_destroy(&awaited.lock);
	return ret;
}

static int read_flow(
    struct dfi *dfi, const char *name, int64_t deadline, struct flow *flow)
{
	struct registry_value value;
	char key[KEY_SIZE];
	int ret;

	dfi__flow_key(key, name);
	ret = dfi__client_get(dfi->registry, key, deadline, &value);
	if (ret == -ENOENT)
		return await_flow(dfi, name, key, deadline, flow);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s'", name);
	ret = dfi__flow_decode(name, value.data, value.size, flow);
	dfi__registry_value_free(&value);
	return ret;
}

static int get_flow(
    struct dfi *dfi, const char *name, int64_t deadline, struct flow *flow)
{
	int ret = read_flow(dfi, name, deadline, flow);

	if (ret < 0)
		return ret;
	ret = dfi__combine_check(flow);
	if (ret < 0)
		dfi__flow_free(flow);
	return ret;
}

/* Match the schema of a source or target with the flow's. */
static int match_schema(
    const struct flow *flow, const char *role, const struct dfi_schema *schema)
{
	struct plan *plan;
	int ret;

	if (flow->kind != DFI_COMBINE || !strcmp(role, "source"))
		return dfi__schema_match(flow->schema, schema, flow->name);
	ret = dfi__combine_plan(flow, &plan);
	if (ret < 0)
		return ret;
	ret = dfi__schema_match(plan->schema, schema, flow->name);
	dfi__plan_free(plan);
	return ret;
}

int dfi__attach_find(struct dfi *dfi, const char *name, const char *role,
    uint32_t index, const struct dfi_schema *schema, int64_t deadline,
    struct flow *flow)
{
	bool is_source = !strcmp(role, "source");
	uint32_t n;
	int ret;

	ret = dfi__flow_check_name(name);
	if (!ret && schema)
		ret = dfi__schema_check(schema);
	if (ret < 0)
		return ret;
	ret = get_flow(dfi, name, deadline, flow);
	if (ret < 0)
		return ret;
	n = is_source ? flow->n_sources : flow->n_targets;
	if (index == DFI_ANY_SEAT && !flow->membership)
		ret = dfi__fail(-ERANGE,
		    "flow '%s': %s DFI_ANY_SEAT: only open flows "
		    "(DFI_MEMBERS_OPEN) have seats: name a number from 0 to %u",
		    name, role, n - 1);
	else if (index != DFI_ANY_SEAT && index >= n)
		ret = dfi__fail(-ERANGE,
		    "flow '%s': %s %u: the flow has %u, numbered from 0", name,
		    role, index, n);
	else if (schema)
		ret = match_schema(flow, role, schema);
	if (!ret)
		ret = is_source ? dfi__tree_source(flow, index)
				: dfi__tree_target(flow);
	if (ret < 0)
		dfi__flow_free(flow);
	return ret;
}

int dfi__attach_find_combiner(struct dfi *dfi, const char *name, uint32_t index,
    int64_t deadline, struct flow *input, struct flow *output)
{
	uint32_t n;
	int ret = dfi__flow_check_name(name);

	if (!ret)
		ret = get_flow(dfi, name, deadline, input);
	if (ret < 0)
		return ret;
	n = dfi__tree_size(input);
	if (!n)
		ret = dfi__fail(-EPROTOTYPE,
		    "flow '%s' has no combiners: it was declared without "
		    "fan_in",
		    name);
	else if (index >= n)
		ret = dfi__fail(-ERANGE,
		    "flow '%s': combiner %u: the flow has %u, numbered from 0",
		    name, index, n);
	if (!ret)
		ret = dfi__flow_copy(input, output);
	if (ret < 0) {
		dfi__flow_free(input);
		return ret;
	}
	ret = dfi__tree_input(input, index);
	if (!ret)
		ret = dfi__tree_output(output, index);
	if (ret < 0) {
		dfi__flow_free(input);
		dfi__flow_free(output);
	}
	return ret;
}

void dfi__attach_describe(const struct transport *transport,
    const struct remote *remote, const char *separator,
    char text[TRANSPORT_WAY_SIZE])
{
	char device[TRANSPORT_WAY_SIZE];
	size_t used = strlen(text);

	transport->ops->describe(transport, remote, device);
	snprintf(text + used, TRANSPORT_WAY_SIZE - used, "%s%s",
	    used ? separator : "", device);
}

/*
 * Encode an endpoint's entry; NULL: no memory. device: of a source. port may be
 * NULL.
 */
static void *encode(const struct dfi *dfi, const struct region *region,
    const char *why, const struct shared_counter *sequencer, const char *device,
    const struct multicast_address *datagram_address, enum attach_end end,
    uint64_t given_back, size_t *size)
{
	struct endpoint endpoint = {
		.node = dfi->node,
		.cancelled = end == ATTACH_CANCELLED,
		.done = end == ATTACH_DONE,
		.left = end == ATTACH_LEFT,
		.given_back = given_back,
		.has_datagram_address = datagram_address != NULL,
	};
	const struct export *export = region ? region->exports : NULL;
	struct region_address more[REGION_MORE_ADDRESSES];

	endpoint.region.more = more;
	if (region)
		dfi__region_publish(region, &endpoint.region);
	snprintf(endpoint.device, sizeof(endpoint.device), "%s", device);
	for (; export; export = export->next)
		dfi__attach_describe(
		    export->transport, NULL, " and ", endpoint.device);
	snprintf(endpoint.region.why, sizeof(endpoint.region.why), "%s", why);
	if (sequencer)
		endpoint.sequencer = sequencer->published;
	if (datagram_address)
		endpoint.datagram_address = *datagram_address;
	return dfi__endpoint_encode(&endpoint, size);
}

static int out_of_memory(const struct flow *flow)
{
	return dfi__fail(-ENOMEM, "flow '%s': out of memory", flow->name);
}

/* Turn the result of a claim into the error of the call. */
static int claimed(
    int ret, const struct flow *flow, const char *role, uint32_t index)
{
	if (ret == -EEXIST)
		return dfi__fail(-EEXIST,
		    "flow '%s': %s %u is attached already", flow->name, role,
		    index);
	if (ret < 0)
		return dfi__fail_within(
		    ret, "flow '%s': %s %u", flow->name, role, index);
	return 0;
}

int dfi__attach_claim(struct dfi *dfi, const struct flow *flow, uint32_t index,
    const char *device, const struct multicast_address *datagram_address,
    int64_t deadline)
{
	char key[KEY_SIZE];
	size_t size;
	void *data = encode(dfi, NULL, "", NULL, device, datagram_address,
	    ATTACH_STAYS, 0, &size);
	int ret;

	if (!data)
		return out_of_memory(flow);
	dfi__endpoint_key(key, flow, "source", index);
	ret = dfi__client_create(
	    dfi->registry, key, data, size, CLIENT_LEASED, deadline, NULL);
	free(data);
	return claimed(ret, flow, flow_source_word(flow), index);
}

int dfi__attach_join(struct dfi *dfi, struct flow *flow, uint32_t index,
    const struct region *region, const char *why,
    const struct shared_counter *sequencer,
    const struct multicast_address *datagram_address, struct peers *sources,
    int64_t deadline)
{
	char key[KEY_SIZE];
	struct registry_entry entry = { .key = key };
	uint32_t before;
	void *data = encode(dfi, region, why, sequencer, "", datagram_address,
	    ATTACH_STAYS, 0, &entry.size);
	int ret;

	if (!data)
		return out_of_memory(flow);
	entry.value = data;
	dfi__endpoint_key(key, flow, "target", index);
	ret = dfi__peers_join(
	    sources, dfi, flow, "source", &entry, &before, deadline);
	free(data);
	/* A source attaches only after all targets have. */
	if (ret == -EEXIST && before < sources->n)
		return dfi__fail(-EEXIST,
		    "flow '%s': %s %u has been attached before: a flow runs "
		    "once, and %s %u is attached already",
		    flow->name, flow_target_word(flow), index, sources->word,
		    sources->first + before);
	return claimed(ret, flow, flow_target_word(flow), index);
}

int dfi__attach_end(struct dfi *dfi, const struct flow *flow, uint32_t index,
    const struct region *region, const struct shared_counter *sequencer,
    enum attach_end end, uint64_t given_back, int64_t deadline)
{
	char key[KEY_SIZE];
	size_t size;
	void *data = encode(
	    dfi, region, "", sequencer, "", NULL, end, given_back, &size);
	char said[ERROR_TEXT_SIZE];
	int ret;

	if (!data)
		return out_of_memory(flow);
	dfi__endpoint_key(key, flow, "target", index);
	snprintf(said, sizeof(said), "%s", dfi_errmsg());
	ret = dfi__client_change(dfi->registry, key, data, size, deadline);
	free(data);
	/* The index has a new owner, whose entry stays: no error. */
	if (ret == -EEXIST)
		(void)dfi__fail(ret, "%s", said);
	else if (ret < 0)
		return dfi__fail_within(ret,
		    "flow '%s': %s %u: %s: the sources that are attached "
		    "know, others won't",
		    flow->name, flow_target_word(flow), index,
		    end == ATTACH_CANCELLED ? "cancel" : "its end");
	return 0;
}
