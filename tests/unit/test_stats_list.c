/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of nodes that can't be asked for their counters: each is listed, with
 * the reason, and the others are still asked.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flows/context/context.h"
#include "flows/descriptor/descriptor.h"
#include "registry/client/client.h"
#include "transport/transport.h"
#include <dfi/dfi.h>

static struct dfi_registry *registry;
static struct dfi *dfi;

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(stats_list, .init = setup, .fini = teardown, .timeout = 300);

static void publish_at(
    const char *key, const struct node *node, const char *address)
{
	uint8_t token[MEMBER_TOKEN_SIZE] = { 0 };
	size_t size;
	void *data = dfi__node_encode(node, token, address, &size);

	cr_assert_not_null(data);
	cr_assert_eq(dfi__client_create(dfi->registry, key, data, size,
			 CLIENT_LEASED, deadline_in_ms(60000), NULL),
	    0, "%s", dfi_errmsg());
	free(data);
}

static void publish(const struct node *node, const char *address)
{
	char key[KEY_SIZE];

	dfi__node_key(key, node->id);
	publish_at(key, node, address);
}

struct seen {
	uint64_t id;
	unsigned n, n_answers, n_own;
	char error[256];
};

static int see(void *arg, const struct dfi_node_stats *stats)
{
	struct seen *seen = arg;

	seen->n++;
	seen->n_answers += !stats->error;
	seen->n_own += stats->node.is_own;
	cr_assert_eq(stats->node.is_own, stats->node.id == dfi->node.id);
	if (stats->node.id == seen->id)
		snprintf(seen->error, sizeof(seen->error), "%s",
		    stats->error ? stats->error : "");
	return 0;
}

static void expect_error(
    const struct node *node, const char *address, const char *text)
{
	struct seen seen = { .id = node->id };

	publish(node, address);
	cr_assert_eq(dfi_stats_list(dfi, see, &seen), 0, "%s", dfi_errmsg());
	cr_assert_eq(seen.n, 2);
	cr_assert_eq(seen.n_answers, 1);
	cr_assert_eq(seen.n_own, 1);
	cr_assert(
	    strstr(seen.error, text), "no '%s' in '%s'", text, seen.error);
}

Test(stats_list, node_of_another_host_is_named_as_such)
{
	struct node node = dfi->node;

	node.id++;
	node.at.id++;
	node.at.boot++;
	expect_error(&node, "@x", "not on this host");
}

Test(stats_list, node_of_another_network_namespace_is_named_as_such)
{
	struct node node = dfi->node;

	node.id++;
	node.at.id++;
	node.at.net++;
	expect_error(&node, "@x", "another network namespace");
}

Test(stats_list, node_that_proc_hides_is_asked)
{
	struct node node = dfi->node;

	node.id++;
	node.at = (struct host){ .id = 0 };
	expect_error(&node, "@dfi-1-nobody", "/proc");
}

Test(stats_list, node_without_an_address_has_an_old_library)
{
	struct node node = dfi->node;

	node.id++;
	expect_error(&node, "", "version of the library without counters");
}

Test(stats_list, node_that_is_gone_is_said_to_be)
{
	struct node node = dfi->node;

	node.id++;
	expect_error(&node, "@dfi-1-nobody", "@dfi-1-nobody is gone");
}

Test(stats_list, answer_of_another_context_is_not_taken)
{
	struct node node = dfi->node;

	node.id++;
	expect_error(&node, dfi->transport->address, "another context answers");
}

static int count_nodes(void *arg, const struct dfi_node_info *info)
{
	(void)info;
	++*(unsigned *)arg;
	return 0;
}

Test(stats_list, node_under_the_key_of_another_is_left_out)
{
	struct seen seen = { .id = dfi->node.id };
	unsigned n = 0;

	publish_at("nodes/1", &dfi->node, "@x");
	cr_assert_eq(dfi_stats_list(dfi, see, &seen), 0, "%s", dfi_errmsg());
	cr_assert_eq(seen.n, 1);
	cr_assert_eq(seen.n_answers, 1);
	cr_assert_eq(
	    dfi_node_list(dfi, count_nodes, &n), 0, "%s", dfi_errmsg());
	cr_assert_eq(n, 1);
}

static int count_flows(void *arg, const struct dfi_flow_info *info)
{
	cr_assert_str_eq(info->name, "f");
	++*(unsigned *)arg;
	return 0;
}

Test(stats_list, flow_whose_name_is_none_is_left_out)
{
	static const struct dfi_field field = { "key", NULL, DFI_UINT64, 0, 8,
		0 };
	static const struct dfi_schema schema = { &field, 1, 8 };
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	int64_t deadline = deadline_in_ms(60000);
	struct registry_value value;
	unsigned n = 0;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.n_sources = attr.n_targets = 1;
	cr_assert_eq(dfi_flow_create(dfi, "f", &attr), 0, "%s", dfi_errmsg());
	cr_assert_eq(
	    dfi__client_get(dfi->registry, "flows/f", deadline, &value), 0);
	cr_assert_eq(dfi__client_create(dfi->registry, "flows/\033[2J",
			 value.data, value.size, CLIENT_LEASED, deadline, NULL),
	    0, "%s", dfi_errmsg());
	dfi__registry_value_free(&value);
	cr_assert_eq(
	    dfi_flow_list(dfi, count_flows, &n), 0, "%s", dfi_errmsg());
	cr_assert_eq(n, 1);
}
