/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream run FOLDER [OPTION...]: a stream of events on this machine
 * stream generate FOLDER NUMBER EVENTS RATE: an event file
 * stream produce FOLDER NUMBER [RATE]: a producer
 * stream consume FOLDER: a consumer
 * stream results FOLDER: what the store has
 */
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../common/children.h"
#include "../../common/complain.h"
#include "../../common/output.h"
#include "../../common/usage.h"
#include "events.h"
#include "store.h"

enum {
	OPT_KILL = 256,
	OPT_STOP,
	OPT_ADD,
};

static const struct argp_option table[] = {
	{ "producers", 'p', "N", 0, "(default 2)", 0 },
	{ "consumers", 'c', "N", 0, "(default 2)", 0 },
	{ "seconds", 's', "S", 0, "for which there are events (default 5)", 0 },
	{ "rate", 'r', "N", 0,
	    "events a second of each producer (default 20000)", 0 },
	{ "kill", OPT_KILL, "WHO", 0,
	    "producer, which comes again, or consumer; after a quarter of the "
	    "time",
	    0 },
	{ "add", OPT_ADD, "consumer", 0, "in the middle", 0 },
	{ "stop", OPT_STOP, "consumer", 0, "for 1.5 s, after that", 0 },
	{ 0 },
};

static bool is(const char *text, const char *word)
{
	return !strcmp(text, word);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct run_options *options = state->input;

	switch (key) {
	case 'p':
		options->producers = (unsigned)option_number(
		    state, "--producers", arg, 1, PRODUCERS);
		return 0;
	case 'c':
		options->consumers = (unsigned)option_number(
		    state, "--consumers", arg, 1, CONSUMERS - 1);
		return 0;
	case 's':
		options->seconds = (unsigned)option_number(
		    state, "--seconds", arg, 1, 86400);
		return 0;
	case 'r':
		options->rate = option_number(
		    state, "--rate", arg, 1, 100000000);
		return 0;
	case OPT_KILL:
		if (is(arg, "producer"))
			options->kill_producer = true;
		else if (is(arg, "consumer"))
			options->kill_consumer = true;
		else
			usage_error(state,
			    "--kill: '%s' is neither producer nor consumer",
			    arg);
		return 0;
	case OPT_STOP:
	case OPT_ADD:
		if (!is(arg, "consumer"))
			usage_error(state, "%s: '%s' is no consumer",
			    key == OPT_ADD ? "--add" : "--stop", arg);
		if (key == OPT_ADD)
			options->add_consumer = true;
		else
			options->stop_consumer = true;
		return 0;
	case ARGP_KEY_ARG:
		if (options->folder)
			usage_error(state, "one folder is enough: '%s'", arg);
		options->folder = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options->folder)
			usage_error(state,
			    "a folder for event files and the "
			    "store is missing");
		if (options->kill_consumer && options->consumers < 2 &&
		    !options->add_consumer)
			usage_error(state,
			    "--kill consumer: nobody is left: have two "
			    "consumers, or --add one");
		if (options->stop_consumer && options->kill_consumer &&
		    options->consumers < 2)
			usage_error(state,
			    "--stop consumer: the only one is killed: have two "
			    "consumers");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* An empty one is made: a store of other events would not be right. */
static int new_folder(const char *folder)
{
	return mkdir(folder, 0777) < 0
	    ? complain("%s: %s: name a folder that does not exist", folder,
		  strerror(errno))
	    : 0;
}

static int run_command(int argc, char **argv)
{
	static const struct argp argp = {
		.options = table,
		.parser = parse_option,
		.args_doc = "FOLDER",
		.doc = "Aggregate a stream of events by windows of event time, "
		       "while producers and consumers come, go and die.",
	};
	struct run_options options = {
		.producers = 2,
		.consumers = 2,
		.seconds = 5,
		.rate = 20000,
	};

	argv[0] = (char *)(uintptr_t) "stream run";
	if (options_check(&argp, argv) < 0)
		return 64;
	argp_err_exit_status = 64;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	return new_folder(options.folder) < 0 ? 1 : run(&options);
}

static struct board *map_board(void)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
	    MAP_SHARED, CHILD_FD, 0);

	child_enter();
	if (board == MAP_FAILED)
		err(1, "the leader's counters");
	return board;
}

/* Where the files of all parts are. */
static bool is_folder(const char *folder)
{
	struct stat status;

	if (!stat(folder, &status) && S_ISDIR(status.st_mode))
		return true;
	complain("%s: there is no such folder: make it, for all parts of the "
		 "stream",
	    folder);
	return false;
}

static int usage(void)
{
	complain("stream run FOLDER [OPTION...] (see stream run --help), "
		 "generate FOLDER NUMBER EVENTS RATE, produce FOLDER NUMBER "
		 "[RATE], consume FOLDER, or results FOLDER");
	return 64;
}

static int produce_command(int argc, char **argv)
{
	bool led = argc == 6 && is(argv[5], "board");
	uint64_t number, rate = 0;

	if (argc < 4 || (argc > 5 && !led) ||
	    !number_read(argv[3], 0, PRODUCERS - 1, &number) ||
	    (argc > 4 && !number_read(argv[4], 0, UINT32_MAX, &rate)))
		return usage();
	if (!is_folder(argv[2]))
		return 1;
	return produce(
	    argv[2], (unsigned)number, rate, led ? map_board() : NULL);
}

static int generate_command(int argc, char **argv)
{
	uint64_t number, n, rate;

	if (argc != 6 || !number_read(argv[3], 0, PRODUCERS - 1, &number) ||
	    !number_read(argv[4], 0, UINT32_MAX, &n) ||
	    !number_read(argv[5], 1, UINT32_MAX, &rate))
		return usage();
	if (!is_folder(argv[2]))
		return 1;
	return events_generate(argv[2], (unsigned)number, n, rate) < 0;
}

int main(int argc, char **argv)
{
	output_open();
	if (argc > 1 && is(argv[1], "run"))
		return run_command(argc - 1, argv + 1);
	if (argc > 1 && is(argv[1], "produce"))
		return produce_command(argc, argv);
	if (argc > 1 && is(argv[1], "generate"))
		return generate_command(argc, argv);
	if (argc == 3 && is(argv[1], "consume"))
		return !is_folder(argv[2]) || consume(argv[2]);
	if (argc == 3 && is(argv[1], "results"))
		return !is_folder(argv[2]) || store_print(argv[2]) < 0;
	return usage();
}
