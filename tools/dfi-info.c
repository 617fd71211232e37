/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-info: the content of a registry. "flows" lists the published flows and
 * their attached endpoints, "nodes" the member processes, "stat" the counters
 * of their sources and targets (info_stat.c). Without a registry, "devices"
 * lists what this host reaches others by, and "config" the settings of a
 * program that is started from here.
 */
#include <argp.h>
#include <dfi/dfi.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "../common/complain.h"
#include "../common/nearest.h"
#include "../common/output.h"
#include "../common/usage.h"
#include "info.h"

struct options {
	const char *registry;
	const char *what;
	bool json;
	double watch; /* seconds between lists; 0: one list */
};

static const char *const goals[] = { "bandwidth", "latency" };
static const char *const routings[] = { "hash", "radix", "range", "round-robin",
	"function", "direct", "any" };

static const char *const kinds[] = { "unknown", "shuffle", "replicate",
	"combine" };
static const char *const replications[] = { "none", "naive", "multicast" };
static const char *const memberships[] = { "closed", "open" };
static const char *const on_losses[] = { "fail", "drop", "replay" };
static const char *const losses[] = { "recover", "notify" };
static const char *const origins[] = { "default", "environment", "attribute" };
static const char *const transports[] = { "default", "auto", "shm", "verbs" };
static const char *const verifies[] = { "default", "none", "checksum" };

static const char *word(const char *const *words, size_t n, uint32_t i)
{
	return i < n ? words[i] : "unknown";
}

#define WORD(words, i) word(words, sizeof(words) / sizeof((words)[0]), i)

static json_t *flow_json(struct dfi *dfi, const struct dfi_flow_info *info)
{
	char instance[17];

	snprintf(instance, sizeof(instance), "%016" PRIx64, info->instance);
	return json_pack("{ss ss ss ss ss ss sb ss si so sb ss ss si si si si "
			 "si si si sI so so so si si si ss ss ss ss ss si si "
			 "sb so}",
	    "name", info->name, "instance", instance, "kind",
	    WORD(kinds, info->kind), "goal", WORD(goals, info->goal), "routing",
	    info->kind == DFI_REPLICATE && !info->routing
		? "all"
		: WORD(routings, info->routing),
	    "replication", WORD(replications, info->replication), "ordered",
	    !!info->ordered, "loss_policy",
	    info->kind == DFI_REPLICATE ? WORD(losses, info->loss_policy)
					: "none",
	    "gap_timeout_us", (int)info->gap_timeout_us, "key",
	    info_text_json(info->key), "persistent",
	    !!(info->flags & DFI_FLOW_PERSISTENT), "transport",
	    WORD(transports, info->transport), "verify",
	    WORD(verifies, info->verify), "sources", (int)info->n_sources,
	    "attached_sources", (int)info->attached_sources, "targets",
	    (int)info->n_targets, "attached_targets",
	    (int)info->attached_targets, "tuple_size", (int)info->tuple_size,
	    "segment_size", (int)info->segment_size, "segment_count",
	    (int)info->segment_count, "ring_bytes",
	    (json_int_t)info->ring_bytes, "schema",
	    info_text_json(info->schema), "creator",
	    info_text_json(info->creator), "devices",
	    info_text_json(info->devices), "fan_in", (int)info->fan_in,
	    "combiners", (int)info->n_combiners, "attached_combiners",
	    (int)info->attached_combiners, "missing_sources",
	    info->missing_sources, "missing_targets", info->missing_targets,
	    "missing_combiners", info->missing_combiners, "membership",
	    WORD(memberships, info->membership), "on_loss",
	    info->membership ? WORD(on_losses, info->on_loss) : "none",
	    "min_sources", (int)info->min_sources, "min_targets",
	    (int)info->min_targets, "finished", (int)info->finished, "members",
	    info_members_json(dfi, info));
}

/* Returns how a replicate flow chooses target sets, or NULL. */
static const char *groups_by(const struct dfi_flow_info *info)
{
	return info->kind == DFI_REPLICATE && info->routing
	    ? WORD(routings, info->routing)
	    : NULL;
}

/*
 * "shuffle, bandwidth, hash of key", "replicate, latency, naive",
 * "replicate, bandwidth, multicast, groups by function",
 * "combine, bandwidth, group by shop,city"
 */
static void print_kind(const struct dfi_flow_info *info)
{
	printf("%s: %s, %s, ", info->name, WORD(kinds, info->kind),
	    WORD(goals, info->goal));
	if (info->kind == DFI_REPLICATE)
		printf("%s%s%s%s", WORD(replications, info->replication),
		    info->ordered ? ", ordered" : "",
		    groups_by(info) ? ", groups by " : "",
		    groups_by(info) ? groups_by(info) : "");
	else if (info->kind == DFI_COMBINE)
		printf("%s%s", info->key[0] ? "group by " : "one group",
		    info->key);
	else
		printf("%s%s%s", WORD(routings, info->routing),
		    info->routing <= DFI_ROUTE_RANGE ? " of " : "",
		    info->routing <= DFI_ROUTE_RANGE ? info->key : "");
}

/* "  sources   1 of 3 attached; missing: 0, 2" */
static void print_attached(
    const char *role, uint32_t n, uint32_t of, const char *missing)
{
	printf("  %-9s %u of %u attached%s%s\n", role, n, of,
	    missing[0] ? "; missing: " : "", missing);
}

/* "  sources   1 of 3 seats are held; pushes wait for 2" */
static void print_seats(
    const char *role, uint32_t n, uint32_t of, uint32_t least)
{
	printf("  %-9s %u of %u seats are held", role, n, of);
	if (least)
		printf("; pushes wait for %u", least);
	printf("\n");
}

/* Who must be there, and who is. */
static int print_open(struct dfi *dfi, const struct dfi_flow_info *info)
{
	printf("  open      on loss: %s%s\n", WORD(on_losses, info->on_loss),
	    info->finished ? "; finished: no more sources can come" : "");
	print_seats("sources", info->attached_sources, info->n_sources,
	    info->min_sources);
	print_seats("targets", info->attached_targets, info->n_targets,
	    info->min_targets);
	return info_print_members(dfi, info);
}

struct flow_list {
	struct dfi *dfi;
	json_t *rows; /* NULL: print text */
	size_t n;     /* flows so far */
};

static int add_flow(void *arg, const struct dfi_flow_info *info)
{
	struct flow_list *list = arg;
	char text[INFO_TEXT_SIZE];
	int ret;

	list->n++;
	if (list->rows)
		return info_append(list->rows, flow_json(list->dfi, info));
	print_kind(info);
	printf("%s%s%s%s\n",
	    info->flags & DFI_FLOW_PERSISTENT ? ", persistent" : "",
	    info->transport ? ", transport " : "",
	    info->transport ? WORD(transports, info->transport) : "",
	    info->verify == DFI_VERIFY_CHECKSUM ? ", verified" : "");
	if (info->loss_policy == DFI_LOSS_NOTIFY)
		printf("  losses    are reported, %u us after others came\n",
		    info->gap_timeout_us);
	printf("  schema    %s (%u bytes)\n",
	    escape_text(text, sizeof(text), info->schema), info->tuple_size);
	if (info->membership && (ret = print_open(list->dfi, info)) < 0)
		return ret;
	if (!info->membership)
		print_attached("sources", info->attached_sources,
		    info->n_sources, info->missing_sources);
	if (info->fan_in)
		print_attached("combiners", info->attached_combiners,
		    info->n_combiners, info->missing_combiners);
	if (info->fan_in)
		printf("  tree      fan-in %u\n", info->fan_in);
	if (!info->membership)
		print_attached("targets", info->attached_targets,
		    info->n_targets, info->missing_targets);
	printf("  rings     %u x %u bytes\n", info->segment_count,
	    info->segment_size);
	if (info->devices[0])
		printf("  devices   %s\n",
		    escape_text(text, sizeof(text), info->devices));
	printf(
	    "  creator   %s\n", escape_text(text, sizeof(text), info->creator));
	return 0;
}

static int add_node(void *arg, const struct dfi_node_info *info)
{
	json_t *rows = arg;
	char id[17], name[INFO_TEXT_SIZE], host[INFO_TEXT_SIZE];

	snprintf(id, sizeof(id), "%016" PRIx64, info->id);
	if (rows)
		return info_append(rows,
		    json_pack("{ss so so si si si}", "id", id, "name",
			info_text_json(info->name), "host",
			info_text_json(info->host), "pid", (int)info->pid,
			"sources", (int)info->n_sources, "targets",
			(int)info->n_targets));
	printf("%s: host %s, pid %u, %u sources, %u targets, id %s\n",
	    escape_text(name, sizeof(name), info->name),
	    escape_text(host, sizeof(host), info->host), info->pid,
	    info->n_sources, info->n_targets, id);
	return 0;
}

static json_t *device_row(const struct dfi_device_info *info)
{
	return json_pack("{ss ss si ss ss ss ss si si ss sb sb sb so}",
	    "transport", info->transport, "device", info->device, "port",
	    (int)info->port, "interface", info->interface, "address",
	    info->address, "state", info->state, "link_layer", info->link_layer,
	    "mtu", (int)info->mtu, "gid_index", (int)info->gid_index, "gid",
	    info->gid, "usable", !info->reason[0], "chosen", (int)info->chosen,
	    "plain_text", (int)info->plain_text, "reason",
	    info_text_json(info->reason));
}

static bool is_ofi(const struct dfi_device_info *info)
{
	return strcmp(info->transport, "ofi") == 0;
}

/* What libfabric means for the tuples. */
static void print_provider(const struct dfi_device_info *info)
{
	if (info->plain_text)
		printf("  tuples    plain text: who is on the path to other "
		       "hosts can read and change them\n");
	else
		printf(
		    "  address   reaches this host only: set DFI_REGISTRY to "
		    "a registry on the network,\n"
		    "            or DFI_OFI_ADDRESS\n");
	if (strcmp(info->device, "tcp") != 0)
		printf("  provider  not tested: only tcp is\n");
}

static int add_device(void *arg, const struct dfi_device_info *info)
{
	bool usable = !info->reason[0];
	json_t *rows = arg;

	if (rows)
		return info_append(rows, device_row(info));
	if (!info->device[0]) {
		printf("no %s: %s\n",
		    is_ofi(info) ? "libfabric" : "RDMA devices", info->reason);
		return 0;
	}
	printf("%s ", info->device);
	if (is_ofi(info))
		printf("by libfabric");
	else
		printf("port %u", info->port);
	printf(", %s%s%s: %s%s\n",
	    info->address[0] ? info->address : "no address",
	    info->interface[0] ? " on " : "", info->interface,
	    usable ? "usable" : "not usable", info->chosen ? ", chosen" : "");
	if (!usable)
		printf("  reason    %s\n", info->reason);
	if (info->state[0])
		printf("  port      %s, %s, MTU %u\n", info->state,
		    info->link_layer[0] ? info->link_layer : "other link layer",
		    info->mtu);
	if (info->gid_index >= 0)
		printf("  GID       %d, %s\n", info->gid_index, info->gid);
	if (usable && is_ofi(info))
		print_provider(info);
	return 0;
}

struct settings_list {
	json_t *rows;
	bool invalid; /* one of them */
};

static int add_setting(void *arg, const struct dfi_setting_info *info)
{
	struct settings_list *list = arg;
	char value[4096];
	bool bad = info->error;

	list->invalid = list->invalid || bad;
	if (list->rows)
		return info_append(list->rows,
		    json_pack("{ss so ss so ss so}", "variable", info->variable,
			"value", info_optional_json(info->value), "origin",
			WORD(origins, info->origin), "default",
			info_optional_json(info->initial), "help", info->help,
			"error", info_optional_json(info->error)));
	printf("%-25s %-15s %s%s\n", info->variable,
	    info->value ? escape_text(value, sizeof(value), info->value) : "-",
	    WORD(origins, info->origin), bad ? ", not valid" : "");
	if (bad)
		printf("  %s\n", info->error);
	return 0;
}

/* --registry has the same effect as for a context. */
static int list_settings(const char *registry, json_t *rows)
{
	struct settings_list list = { .rows = rows };
	struct dfi_attr attr = DFI_ATTR_INIT;
	int ret;

	attr.registry = registry;
	ret = dfi_setting_list(&attr, add_setting, &list);
	return !ret && list.invalid ? NOT_VALID : ret;
}

static double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int list_stats(struct dfi *dfi, json_t *rows)
{
	static double last;
	double before = last;

	last = seconds_now();
	return info_list_stats(dfi, rows, before > 0 ? last - before : 0);
}

static int list(struct dfi *dfi, const struct options *options, json_t *rows)
{
	struct flow_list found = { .dfi = dfi, .rows = rows };
	const char *what = options->what;
	int ret;

	if (!strcmp(what, "config"))
		return list_settings(options->registry, rows);
	if (!strcmp(what, "devices"))
		return dfi_device_list(add_device, rows);
	if (!strcmp(what, "stat"))
		return list_stats(dfi, rows);
	if (!strcmp(what, "nodes"))
		return dfi_node_list(dfi, add_node, rows);
	ret = dfi_flow_list(dfi, add_flow, &found);
	if (!ret && !found.n && !rows)
		puts("no flows are published");
	return ret;
}

/* The clock that errors use. */
static json_int_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (json_int_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int list_json(struct dfi *dfi, const struct options *options)
{
	json_t *rows = json_array(), *object = NULL;
	int ret = rows ? list(dfi, options, rows) : NO_JSON;

	if (!ret || ret == NOT_VALID)
		object = json_pack("{sO}", options->what, rows);
	if (object && !strcmp(options->what, "stat") &&
	    json_object_set_new(object, "time_ns", json_integer(wall_ns())) < 0)
		ret = NO_JSON;
	if (object &&
	    json_dumpf(object, stdout,
		options->watch > 0 ? JSON_COMPACT : JSON_INDENT(2)) == 0)
		putchar('\n');
	else if (!ret || ret == NOT_VALID)
		ret = NO_JSON;
	json_decref(object);
	json_decref(rows);
	return ret;
}

/* Returns the exit status. */
static int report(struct dfi *dfi, const struct options *options)
{
	int ret = options->json ? list_json(dfi, options)
				: list(dfi, options, NULL);

	output_flush();
	if (ret == NOT_VALID)
		complain("a setting is not valid");
	else if (ret)
		complain("%s", ret == NO_JSON ? "out of memory" : dfi_errmsg());
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Print until a list fails or a signal ends the program. */
static int watch(struct dfi *dfi, const struct options *options)
{
	double whole;
	struct timespec pause = {
		.tv_nsec = (long)(modf(options->watch, &whole) * 1e9),
	};
	int status;

	pause.tv_sec = (time_t)whole;
	while ((status = report(dfi, options)) == EXIT_SUCCESS) {
		nanosleep(&pause, NULL);
		if (!options->json)
			putchar('\n');
	}
	return status;
}

static double parse_seconds(const char *arg, struct argp_state *state)
{
	char *end;
	double seconds = arg ? strtod(arg, &end) : 1;

	if (arg && (end == arg || *end || !(seconds >= 0.01) || seconds > 1e6))
		usage_error(state,
		    "--watch: '%s' is not a number of seconds from 0.01 to "
		    "1000000",
		    arg);
	return seconds;
}

static const char *const lists[] = { "flows", "nodes", "stat", "top", "devices",
	"config", NULL };

static bool is_top(const struct options *options)
{
	return strcmp(options->what, "top") == 0;
}

static bool is_list(const char *what)
{
	return strcmp(what, nearest_name(what, lists)) == 0;
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
	case 'w':
		options->watch = parse_seconds(arg, state);
		return 0;
	case ARGP_KEY_ARG:
		if (options->what)
			usage_error(state, "one list at a time: '%s' and '%s'",
			    options->what, arg);
		if (!is_list(arg))
			usage_error(state,
			    "say flows, nodes, stat, top, devices or config, "
			    "not '%s': the nearest is %s",
			    arg, nearest_name(arg, lists));
		options->what = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options->what)
			usage_error(state,
			    "say what to list: flows, nodes, stat, top, "
			    "devices or config");
		if (options->watch > 0 && strcmp(options->what, "stat") != 0 &&
		    !is_top(options))
			usage_error(state, "--watch is for stat and top");
		if (options->json && is_top(options))
			usage_error(state,
			    "--json is not for top: use stat --watch --json");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool needs_registry(const struct options *options)
{
	return strcmp(options->what, "devices") != 0 &&
	    strcmp(options->what, "config") != 0;
}

static const char *registry_name(const struct options *options)
{
	return options->registry ? options->registry : getenv("DFI_REGISTRY");
}

/* Complains, and returns false, if none can be asked. */
static bool names_registry(const struct options *options)
{
	const char *name = registry_name(options);

	if (!name || !*name)
		complain("no registry is named: give its address with "
			 "--registry, or set DFI_REGISTRY, such as "
			 "unix:/run/dfi.sock");
	else if (!strncmp(name, "local:", strlen("local:")))
		complain("the registry %s is private to each process: only "
			 "that process can list it; give the address of a "
			 "dfi-registry with --registry, such as "
			 "unix:/run/dfi.sock",
		    name);
	else
		return true;
	return false;
}

int main(int argc, char **argv)
{
	static const struct argp_option arguments[] = {
		{ "registry", 'r', "ADDRESS", 0,
		    "Address of the registry (default DFI_REGISTRY)", 0 },
		{ "json", 'j', NULL, 0, "Print one JSON object", 0 },
		{ "watch", 'w', "SECONDS", OPTION_ARG_OPTIONAL,
		    "With stat: print it again every SECONDS (default 1), with "
		    "rates; with --json one object in each line. With top: "
		    "look again every SECONDS",
		    0 },
		{ 0 },
	};
	static const char doc[] =
	    "Show what a DFI registry knows, the devices of this host, or all "
	    "settings.\v  flows    published flows and their attached "
	    "endpoints\n"
	    "  nodes    processes that are members of the registry\n"
	    "  stat     counters and errors of each process of this host and "
	    "user: of its\n"
	    "           sources, its targets and its devices\n"
	    "  top      a screen of the flows of this host and user: rates, "
	    "waits and who\n"
	    "           waits for whom; q quits, s sorts\n"
	    "  devices  devices of this host by which flows reach other hosts\n"
	    "  config   all settings, their values, and where the values come "
	    "from\n"
	    "\n"
	    "A registry at a TCP address serves TLS. To use it, set one of:\n"
	    "  DFI_REGISTRY_KEY=FILE    key file of the registry\n"
	    "  DFI_REGISTRY_CA=FILE     authority that signed the registry's "
	    "certificate\n"
	    "  DFI_REGISTRY_INSECURE=1  no TLS: on a closed test network, or "
	    "where you\n"
	    "                           trust all users of the host\n"
	    "\n"
	    "With DFI_REGISTRY_CA, this program's certificate is "
	    "DFI_REGISTRY_CERT=FILE and DFI_REGISTRY_PRIVATE_KEY=FILE.\n"
	    "\n"
	    "An etcd at etcd:https://HOST:PORT,... wants "
	    "DFI_ETCD_USER=NAME and\n"
	    "DFI_ETCD_PASSWORD_FILE=FILE, except at a loopback address.";
	static const struct argp argp = { arguments, parse,
		"flows|nodes|stat|top|devices|config", doc, NULL, NULL, NULL };
	struct options options = { .registry = NULL };
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi = NULL;
	int status;

	output_open();
	argp_program_version = dfi_version();
	if (options_check(&argp, argv))
		return EX_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	if (is_top(&options) && !info_top_has_screen())
		return EXIT_FAILURE;
	if (needs_registry(&options) && !names_registry(&options))
		return EXIT_FAILURE;
	attr.registry = options.registry;
	attr.node_name = "dfi-info";
	if (needs_registry(&options) && dfi_open(&attr, &dfi) < 0) {
		complain("%s", dfi_errmsg());
		return EXIT_FAILURE;
	}
	if (is_top(&options))
		status = info_top(dfi, registry_name(&options),
		    options.watch > 0 ? options.watch : 1);
	else
		status = options.watch > 0 ? watch(dfi, &options)
					   : report(dfi, &options);
	if (dfi)
		dfi_close(dfi);
	return status;
}
