/* SPDX-License-Identifier: Apache-2.0 */
/* dfi-kv-client: one command for a replicated store, on the command line. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "../../common/complain.h"
#include "../../common/nearest.h"
#include "../../common/output.h"
#include "../../common/usage.h"
#include "client.h"

#define SECOND UINT64_C(1000000000)
#define MAX_WORDS 4
#define AGAIN_NS UINT64_C(10000000) /* until a busy leader is asked again */

/* Exit statuses beside those of sysexits.h. */
enum {
	EXIT_NOT_FOUND = 1,
	EXIT_DIFFERENT = 2,
	EXIT_UNKNOWN = 3,
};

enum key {
	KEY_REPLICAS = 256,
	KEY_REGISTRY,
	KEY_CLUSTER,
	KEY_TIMEOUT,
	KEY_INDEX_READS,
};

static const struct argp_option table[] = {
	{ "replicas", KEY_REPLICAS, "N", 0,
	    "The same N as at the replicas, 1 to 9 (default 3)", 0 },
	{ "registry", KEY_REGISTRY, "ADDRESS", 0,
	    "Address of the registry (default DFI_REGISTRY)", 0 },
	{ "cluster", KEY_CLUSTER, "NAME", 0, "The cluster's name (default kv)",
	    0 },
	{ "timeout", KEY_TIMEOUT, "MS", 0,
	    "Milliseconds after which the outcome counts as unknown, 1 to "
	    "3600000 (default 10000)",
	    0 },
	{ "index-reads", KEY_INDEX_READS, NULL, 0,
	    "The leader confirms a read by asking a majority once, instead of "
	    "writing the read to the log",
	    0 },
	{ 0 },
};

struct arguments {
	struct kv_client_options client;
	const char *words[MAX_WORDS];
	int n_words;
};

struct action {
	const char *name;
	int n_words; /* with the name */
	uint8_t op;  /* 0: for the cluster */
	int (*run)(struct kv_client *client, const struct arguments *arguments);
};

static struct kv_client_answer last;
static bool answered;

static void on_answer(void *arg, const struct kv_client_answer *answer)
{
	(void)arg;
	last = *answer;
	answered = true;
	if (answer->value_size && answer->status == KV_OK) {
		fwrite(answer->value, 1, answer->value_size, stdout);
		putchar('\n');
	} else if (answer->status == KV_DIFFERENT) {
		complain("the value is another one%s%.*s",
		    answer->value_size ? ": " : "", (int)answer->value_size,
		    answer->value);
	}
}

static int exit_status(void)
{
	switch (last.status) {
	case KV_OK:
		return EX_OK;
	case KV_NOT_FOUND:
		complain("there is no such key");
		return EXIT_NOT_FOUND;
	case KV_DIFFERENT:
		return EXIT_DIFFERENT;
	case KV_UNKNOWN:
		complain("no answer in time: the command was done, or was not, "
			 "or will still be; read the key to know");
		return EXIT_UNKNOWN;
	case KV_BUSY:
		complain("no replica has taken the command: nothing was done; "
			 "try again");
		return EX_TEMPFAIL;
	case KV_NO_QUORUM:
		complain("nothing was done: %s", KV_NO_QUORUM_TEXT);
		return EX_UNAVAILABLE;
	default:
		complain("the command is not valid");
		return EX_DATAERR;
	}
}

static int run_command(struct kv_client *client,
    const struct arguments *arguments, struct kv_client_command *command)
{
	command->key = arguments->words[1];
	if (strlen(command->key) > KV_MAX_KEY) {
		complain("a key has at most %d bytes", KV_MAX_KEY);
		return EX_USAGE;
	}
	command->key_size = (uint16_t)strlen(command->key);
	if (kv_client_submit(client, 0, command, 0) < 0) {
		complain("%s", kv_client_error());
		return EX_USAGE;
	}
	while (!answered)
		kv_client_wait(client, SECOND);
	return exit_status();
}

/* 0, or EX_USAGE and a text. */
static int take_value(const char *text, const char **value, uint16_t *size)
{
	if (strlen(text) > KV_MAX_VALUE) {
		complain("a value has at most %d bytes", KV_MAX_VALUE);
		return EX_USAGE;
	}
	*value = text;
	*size = (uint16_t)strlen(text);
	return 0;
}

static int run_get(struct kv_client *client, const struct arguments *arguments)
{
	struct kv_client_command command = { .op = KV_GET };

	return run_command(client, arguments, &command);
}

static int run_delete(
    struct kv_client *client, const struct arguments *arguments)
{
	struct kv_client_command command = { .op = KV_DELETE };

	return run_command(client, arguments, &command);
}

static int run_put(struct kv_client *client, const struct arguments *arguments)
{
	struct kv_client_command command = { .op = KV_PUT };
	int ret = take_value(
	    arguments->words[2], &command.value, &command.value_size);

	return ret ? ret : run_command(client, arguments, &command);
}

static int run_create(
    struct kv_client *client, const struct arguments *arguments)
{
	struct kv_client_command command = {
		.op = KV_CAS,
		.flags = KV_ABSENT,
	};
	int ret = take_value(
	    arguments->words[2], &command.value, &command.value_size);

	return ret ? ret : run_command(client, arguments, &command);
}

static int run_cas(struct kv_client *client, const struct arguments *arguments)
{
	struct kv_client_command command = { .op = KV_CAS };
	int ret = take_value(
	    arguments->words[2], &command.expected, &command.expected_size);

	if (!ret)
		ret = take_value(
		    arguments->words[3], &command.value, &command.value_size);
	return ret ? ret : run_command(client, arguments, &command);
}

static int replica_number(const struct arguments *arguments, unsigned *number)
{
	uint64_t value;

	if (!number_read(arguments->words[1], 0,
		arguments->client.n_replicas - 1, &value)) {
		complain("'%s' is not a replica's number: 0 to %u",
		    arguments->words[1], arguments->client.n_replicas - 1);
		return EX_USAGE;
	}
	*number = (unsigned)value;
	return 0;
}

static int run_status(
    struct kv_client *client, const struct arguments *arguments)
{
	char text[4096];
	unsigned i;
	int ret = EX_UNAVAILABLE;

	for (i = 0; i < arguments->client.n_replicas; i++) {
		if (kv_client_status(
			client, i, SECOND / 2, text, sizeof(text)) < 0) {
			printf("replica %u\nrole silent\n\n", i);
			continue;
		}
		printf("%s\n", text);
		ret = EX_OK;
	}
	return ret;
}

/* The members as the leader has them now. */
static int read_config(struct kv_client *client, struct kv_config *config)
{
	struct kv_client_stats stats;
	unsigned long long incarnation;
	char text[4096], *line, *rest;
	unsigned n = 0;

	kv_client_query(client, &stats);
	if (stats.leader < 0 ||
	    kv_client_status(
		client, (unsigned)stats.leader, SECOND, text, sizeof(text)) < 0)
		return -EAGAIN;
	memset(config, 0, sizeof(*config));
	for (line = strtok_r(text, "\n", &rest); line && n < KV_MAX_REPLICAS;
	     line = strtok_r(NULL, "\n", &rest))
		if (sscanf(line, "member %llu", &incarnation) == 1)
			config->members[n++].incarnation = incarnation;
	return n ? 0 : -EAGAIN;
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/*
 * Repeat the request until the leader accepts the change. A busy leader has not
 * accepted it: it is new, or makes another change, for example for a replica
 * that has just joined.
 */
static int reconfigure(struct kv_client *client, unsigned number,
    uint64_t incarnation, uint64_t until, uint8_t *status)
{
	struct kv_config config;
	uint64_t now;
	int ret;

	*status = KV_BUSY;
	while (*status == KV_BUSY && (now = clock_ns()) < until) {
		kv_client_wait(client, AGAIN_NS);
		if (read_config(client, &config) < 0)
			continue;
		config.members[number].incarnation = incarnation;
		ret = kv_client_reconfigure(
		    client, &config, until - now, status);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int change_member(struct kv_client *client,
    const struct arguments *arguments, uint64_t incarnation)
{
	uint64_t until = clock_ns() + arguments->client.timeout_ns;
	unsigned number;
	uint8_t status;
	int ret = replica_number(arguments, &number);

	if (ret)
		return ret;
	ret = reconfigure(client, number, incarnation, until, &status);
	if (ret < 0) {
		complain("%s", kv_client_error());
		return EX_UNAVAILABLE;
	}
	if (status == KV_OK)
		return EX_OK;
	complain(status == KV_BUSY
		? "no leader took on the change in --timeout: nothing was "
		  "done; try again"
		: "the leader refuses this change of the members");
	return status == KV_BUSY ? EX_TEMPFAIL : EX_DATAERR;
}

static int run_remove(
    struct kv_client *client, const struct arguments *arguments)
{
	return change_member(client, arguments, 0);
}

static int run_add(struct kv_client *client, const struct arguments *arguments)
{
	return change_member(client, arguments, KV_VACANT);
}

static const struct action actions[] = {
	{ "get", 2, KV_GET, run_get },
	{ "put", 3, KV_PUT, run_put },
	{ "create", 3, KV_CAS, run_create },
	{ "delete", 2, KV_DELETE, run_delete },
	{ "cas", 4, KV_CAS, run_cas },
	{ "status", 1, 0, run_status },
	{ "add", 2, 0, run_add },
	{ "remove", 2, 0, run_remove },
	{ "replace", 2, 0, run_add },
};

static const struct action *find_action(const struct arguments *arguments)
{
	size_t i;

	for (i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (arguments->n_words &&
		    !strcmp(actions[i].name, arguments->words[0]))
			return &actions[i];
	return NULL;
}

static const char *nearest_action(const char *name)
{
	const char *names[sizeof(actions) / sizeof(actions[0]) + 1] = { NULL };
	size_t i;

	for (i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		names[i] = actions[i].name;
	return nearest_name(name, names);
}

static void check(struct argp_state *state, const struct arguments *arguments)
{
	const struct action *action = find_action(arguments);

	if (!action && arguments->n_words)
		usage_error(state,
		    "there is no command '%s': the nearest is %s",
		    arguments->words[0], nearest_action(arguments->words[0]));
	else if (!action)
		usage_error(state,
		    "name a command: get, put, create, "
		    "delete, cas, status, add, remove or replace");
	else if (action->n_words != arguments->n_words)
		usage_error(state, "%s takes %d arguments", action->name,
		    action->n_words - 1);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case KEY_REPLICAS:
		arguments->client.n_replicas = (unsigned)option_number(
		    state, "replicas", arg, 1, KV_MAX_REPLICAS);
		return 0;
	case KEY_REGISTRY:
		arguments->client.registry = arg;
		return 0;
	case KEY_CLUSTER:
		arguments->client.cluster = arg;
		return 0;
	case KEY_TIMEOUT:
		arguments->client.timeout_ns = UINT64_C(1000000) *
		    option_number(state, "timeout", arg, 1, 3600000);
		return 0;
	case KEY_INDEX_READS:
		arguments->client.index_reads = true;
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->n_words == MAX_WORDS)
			usage_error(
			    state, "'%s' is one argument too many", arg);
		arguments->words[arguments->n_words++] = arg;
		return 0;
	case ARGP_KEY_END:
		check(state, arguments);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = table,
		.parser = parse_option,
		.args_doc = "get KEY\nput KEY VALUE\ncreate KEY VALUE\n"
			    "delete KEY\ncas KEY EXPECTED VALUE\nstatus\n"
			    "add REPLICA\nremove REPLICA\nreplace REPLICA",
		.doc = "Send one request to a replicated key-value "
		       "store.\n\ncreate puts a value where there is none yet. "
		       "cas puts VALUE if the key has the value EXPECTED. "
		       "status shows the counters of each replica. add, remove "
		       "and replace change the members of the cluster: a "
		       "replica with this number (below --replicas), started "
		       "without a log, takes the place.\vExit status: 0 if the "
		       "request succeeded; 1 if the key does not exist; 2 if "
		       "it has another value; 3 if the outcome is unknown; 64 "
		       "and above as in sysexits.h.",
	};
	struct arguments arguments = {
		.client = {
			.n_replicas = 3,
			.timeout_ns = 10 * SECOND,
			.done = on_answer,
		},
	};
	struct kv_client *client;
	int ret;

	output_open();
	if (options_check(&argp, argv))
		return EX_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	arguments.client.open_timeout_ns = arguments.client.timeout_ns;
	arguments.client.observe = find_action(&arguments)->run == run_status;
	if (kv_client_open(&arguments.client, &client) < 0) {
		complain("%s", kv_client_error());
		return EX_UNAVAILABLE;
	}
	ret = find_action(&arguments)->run(client, &arguments);
	kv_client_close(client);
	return ret;
}
