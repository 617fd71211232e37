/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of dfi-bench rpc. */
#include "options_impl.h"

#include "../common/usage.h"
#include "values.h"

static void check(
    const struct argp_state *state, const struct common_options *common)
{
	uint32_t size = common->n_tuple_sizes ? common->tuple_sizes[0] : 64;

	refuse_role(state, common);
	if (common->n_tuple_sizes > 1 || size < 24 || size > RPC_MAX_TUPLE)
		usage_error(state,
		    "--tuple-size: a request is one size from 24 to %d bytes",
		    RPC_MAX_TUPLE);
}

static error_t parse_rpc(int key, char *arg, struct argp_state *state)
{
	struct rpc_options *options = state->input;

	switch (key) {
	case KEY_CLIENTS:
		parse_counts(state, "clients", arg,
		    &(struct count_list){ options->clients, 1,
			DFI_MAX_ENDPOINTS, MAX_CLIENT_COUNTS },
		    &options->n_client_counts);
		return 0;
	case KEY_THINK:
		options->think_ns =
		    (uint64_t)(parse_seconds(state, "think", arg) * 1e9);
		return 0;
	case KEY_JOINS:
		options->n_joins = (uint32_t)parse_number(
		    state, "joins", arg, 0, 1000000);
		return 0;
	case ARGP_KEY_END:
		check(state, &options->common);
		return 0;
	default:
		return parse_rest(key, state, &options->common);
	}
}

void rpc_options_parse(int argc, char **argv, struct rpc_options *options)
{
	static const struct argp_option table[] = {
		{ "clients", KEY_CLIENTS, "LIST", 0,
		    "Clients at once, 1 to 4096, a thread each: a list with "
		    "commas, with a result for each (default 1,2,4,8,16,32,64)",
		    0 },
		{ "think", KEY_THINK, "TIME", 0,
		    "How long a client waits between a reply and its next "
		    "request, as 1ms (default: not at all)",
		    0 },
		{ "joins", KEY_JOINS, "N", 0,
		    "Times that a client leaves and joins in a round, up to "
		    "1000000 (default 20)",
		    0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = table,
		.parser = parse_rpc,
		.doc = "Measure requests and replies of a service over two "
		       "open flows, and the time from joining it to the first "
		       "reply, beside the same service over Unix sockets. All "
		       "is in one process; --procs and --pin have no effect, "
		       "and --wait is for the flows.",
		.children = common_children,
	};
	static const uint32_t size = 64;

	*options = (struct rpc_options){
		.common = common_defaults(),
		.clients = { 1, 2, 4, 8, 16, 32, 64 },
		.n_client_counts = 7,
		.n_joins = 20,
	};
	parse_options(&argp, argc, argv, options);
	default_tuple_sizes(&options->common, &size, 1);
}
