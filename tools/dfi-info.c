/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-info: what a registry knows. "flows" lists what is published and how much
 * of it is attached, "nodes" the processes that are members.
 */
#include <argp.h>
#include <dfi/dfi.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	const char *registry;
	const char *what;
	bool json;
};

static const char *const goals[] = { "bandwidth", "latency" };
static const char *const routings[] = { "hash", "radix", "range", "round-robin",
	"function", "direct" };

static const char *word(const char *const *words, size_t n, uint32_t i)
{
	return i < n ? words[i] : "unknown";
}

#define WORD(words, i) word(words, sizeof(words) / sizeof((words)[0]), i)

static json_t *flow_json(const struct dfi_flow_info *info)
{
	char instance[17];

	snprintf(instance, sizeof(instance), "%016" PRIx64, info->instance);
	return json_pack("{ss ss ss ss ss ss sb si si si si si si si sI ss}",
	    "name", info->name, "instance", instance, "kind",
	    info->kind == DFI_SHUFFLE ? "shuffle" : "unknown", "goal",
	    WORD(goals, info->goal), "routing", WORD(routings, info->routing),
	    "key", info->key, "persistent",
	    !!(info->flags & DFI_FLOW_PERSISTENT), "sources",
	    (int)info->n_sources, "attached_sources",
	    (int)info->attached_sources, "targets", (int)info->n_targets,
	    "attached_targets", (int)info->attached_targets, "tuple_size",
	    (int)info->tuple_size, "segment_size", (int)info->segment_size,
	    "segment_count", (int)info->segment_count, "ring_bytes",
	    (json_int_t)info->ring_bytes, "schema", info->schema);
}

static int add_flow(void *arg, const struct dfi_flow_info *info)
{
	json_t *rows = arg, *row;

	if (rows) {
		row = flow_json(info);
		if (!row)
			return -ENOMEM;
		json_object_set_new(row, "creator", json_string(info->creator));
		return json_array_append_new(rows, row);
	}
	printf("%s: shuffle, %s, %s%s%s%s\n", info->name,
	    WORD(goals, info->goal), WORD(routings, info->routing),
	    info->routing <= DFI_ROUTE_RANGE ? " of " : "",
	    info->routing <= DFI_ROUTE_RANGE ? info->key : "",
	    info->flags & DFI_FLOW_PERSISTENT ? ", persistent" : "");
	printf("  schema    %s (%u bytes)\n", info->schema, info->tuple_size);
	printf("  sources   %u of %u attached\n", info->attached_sources,
	    info->n_sources);
	printf("  targets   %u of %u attached\n", info->attached_targets,
	    info->n_targets);
	printf("  rings     %u x %u bytes\n", info->segment_count,
	    info->segment_size);
	printf("  creator   %s\n", info->creator);
	return 0;
}

static int add_node(void *arg, const struct dfi_node_info *info)
{
	json_t *rows = arg, *row;
	char id[17];

	snprintf(id, sizeof(id), "%016" PRIx64, info->id);
	if (rows) {
		row = json_pack("{ss ss ss si si si}", "id", id, "name",
		    info->name, "host", info->host, "pid", (int)info->pid,
		    "sources", (int)info->n_sources, "targets",
		    (int)info->n_targets);
		return row ? json_array_append_new(rows, row) : -ENOMEM;
	}
	printf("%s: host %s, pid %u, %u sources, %u targets, id %s\n",
	    info->name, info->host, info->pid, info->n_sources, info->n_targets,
	    id);
	return 0;
}

static int list(struct dfi *dfi, const char *what, json_t *rows)
{
	if (!strcmp(what, "flows"))
		return dfi_flow_list(dfi, add_flow, rows);
	return dfi_node_list(dfi, add_node, rows);
}

static int report(struct dfi *dfi, const struct options *options)
{
	json_t *rows = options->json ? json_array() : NULL, *object;
	int ret = list(dfi, options->what, rows);

	if (!ret && rows) {
		object = json_pack("{sO}", options->what, rows);
		json_dumpf(object, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(object);
	}
	json_decref(rows);
	return ret;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'r':
		options->registry = arg;
		return 0;
	case 'j':
		options->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (options->what ||
		    (strcmp(arg, "flows") != 0 && strcmp(arg, "nodes") != 0))
			argp_error(state, "say flows or nodes, not '%s'", arg);
		options->what = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options->what)
			argp_error(state, "say what to list: flows or nodes");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp_option arguments[] = {
		{ "registry", 'r', "ADDRESS", 0,
		    "The registry to ask (default: DFI_REGISTRY)", 0 },
		{ "json", 'j', NULL, 0, "Print one JSON object", 0 },
		{ 0 },
	};
	static const struct argp argp = { arguments, parse, "flows|nodes",
		"What a DFI registry knows.", NULL, NULL, NULL };
	struct options options = { .registry = NULL };
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi;
	int ret;

	argp_program_version = dfi_version();
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	attr.registry = options.registry;
	attr.node_name = "dfi-info";
	ret = dfi_open(&attr, &dfi);
	if (!ret) {
		ret = report(dfi, &options);
		dfi_close(dfi);
	}
	if (ret < 0) {
		fprintf(stderr, "dfi-info: %s\n", dfi_errmsg());
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
