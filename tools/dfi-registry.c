/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-registry: a registry as a process of its own. It serves until SIGTERM or
 * SIGINT. On stdout there is only the address, if asked for; the library logs
 * to stderr.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include <dfi/error.h>
#include <dfi/registry.h>

struct options {
	const char *listen;
	bool print_address;
};

const char *argp_program_version = "dfi-registry " DFI_VERSION;

static const char doc[] =
    "Serve a DFI registry until SIGTERM or SIGINT.\v"
    "ADDR is unix:PATH, unix:@NAME (an abstract socket), tcp:127.0.0.1:PORT "
    "or tcp:[::1]:PORT; port 0 takes any free one. Without --listen the "
    "registry takes an abstract socket with a random name.\n\n"
    "Exit status: 0 after a signal; 64 for a usage error; 78 if ADDR is not "
    "an address of this host alone; 1 if the registry can't be started.\n\n"
    "DFI_LOG=error|warn|info|debug sets how much is logged to stderr.";

static const struct argp_option option_table[] = {
	{ .name = "listen",
	    .key = 'l',
	    .arg = "ADDR",
	    .doc = "Listen at this address" },
	{ .name = "print-address",
	    .key = 'p',
	    .doc = "Print the address as one line when it answers" },
	{ .name = NULL },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'l':
		options->listen = arg;
		return 0;
	case 'p':
		options->print_address = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_table,
		.parser = parse,
		.doc = doc,
	};
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry;
	struct options options = { .listen = NULL };
	sigset_t signals;
	int ret, number;

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	attr.listen = options.listen;
	ret = dfi_registry_start(&attr, &registry);
	if (ret) {
		fprintf(stderr, "dfi-registry: %s\n", dfi_errmsg());
		return ret == -EPERM ? EX_CONFIG : EXIT_FAILURE;
	}
	if (options.print_address) {
		puts(dfi_registry_address(registry));
		fflush(stdout);
	}
	sigwait(&signals, &number);
	dfi_registry_stop(registry);
	return EXIT_SUCCESS;
}
