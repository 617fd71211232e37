/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and their tokens count only under their own keys, and while these
 * exist.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/log.h>

#include "flows/context/node_table.h"

#define NODE UINT64_C(0xabcdef)

static struct node_table table;
static unsigned n_warnings;

static void count_warning(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	n_warnings += level == DFI_LOG_WARN && strstr(line, "another node");
}

static void setup(void)
{
	dfi_log_set(DFI_LOG_WARN, count_warning, NULL);
}

static void teardown(void)
{
	dfi__node_table_free(&table);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

TestSuite(node_table, .init = setup, .fini = teardown, .timeout = 300);

static void put(const char *key, uint64_t id, uint8_t first)
{
	uint8_t token[MEMBER_TOKEN_SIZE] = { first };
	struct node node = { .id = id, .name = "n", .host = "h" };
	size_t size;
	void *data = dfi__node_encode(&node, token, "@x", &size);

	cr_assert_not_null(data);
	dfi__node_table_put(&table, key, data, size);
	free(data);
}

/* The first byte of its token, or -1. */
static int token_of(uint64_t id)
{
	uint8_t token[MEMBER_TOKEN_SIZE];

	return dfi__node_table_token(&table, id, token) ? token[0] : -1;
}

Test(node_table, node_is_known_as_long_as_its_key)
{
	char key[KEY_SIZE];

	dfi__node_key(key, NODE);
	cr_assert_eq(token_of(NODE), -1);
	put(key, NODE, 1);
	cr_assert_eq(token_of(NODE), 1);
	put(key, NODE, 2);
	cr_assert_eq(token_of(NODE), 2);
	cr_assert_eq(token_of(NODE + 1), -1);
	dfi__node_table_delete(&table, key);
	cr_assert_eq(token_of(NODE), -1);
	cr_assert_null(table.first);
	cr_assert_eq(n_warnings, 0);
}

Test(node_table, entry_under_another_key_is_refused_with_a_warning)
{
	char key[KEY_SIZE];

	dfi__node_key(key, NODE);
	put(key, NODE, 1);
	put("nodes/1", NODE, 2);
	put("nodes/0000000000000001", NODE + 1, 3);
	put("nodes/abcdef", NODE, 4);
	put("nodes/0000000000ABCDEF", NODE, 5);
	put("nodes/0000000000abcdef/", NODE, 6);
	put("nodes/", NODE, 7);
	cr_assert_eq(token_of(NODE), 1);
	cr_assert_eq(token_of(NODE + 1), -1);
	/* The others within the same minute are lines of level debug. */
	cr_assert_eq(n_warnings, 1);
}

Test(node_table, deleting_another_key_forgets_nobody)
{
	char key[KEY_SIZE];

	dfi__node_key(key, NODE);
	put(key, NODE, 1);
	dfi__node_table_delete(&table, "nodes/abcdef");
	dfi__node_table_delete(&table, "nodes/0000000000ABCDEF");
	dfi__node_table_delete(&table, "nodes/0xabcdef");
	dfi__node_table_delete(&table, "nodes/0000000000abcdef/");
	dfi__node_table_delete(&table, "nodes/");
	cr_assert_eq(token_of(NODE), 1);
}
