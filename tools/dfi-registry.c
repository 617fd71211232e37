/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-registry: a registry as its own process. It serves until SIGTERM or
 * SIGINT. It prints its address on stdout; the library logs to stderr.
 * "dfi-registry keygen FILE" makes a key file instead.
 */
#include <argp.h>
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include <dfi/error.h>
#include <dfi/registry.h>

#include "../common/complain.h"
#include "../common/usage.h"

struct options {
	struct dfi_registry_attr attr;
	bool print_address;
	bool keygen;
	const char *key_file; /* for keygen */
	uint32_t users[DFI_MAX_REGISTRY_USERS];
};

enum {
	OPTION_CA = 256,
	OPTION_CERT,
	OPTION_PRIVATE_KEY,
	OPTION_INSECURE,
	OPTION_ALLOW_USER,
	OPTION_STATE,
	OPTION_GRACE,
};

const char *argp_program_version = "dfi-registry " DFI_VERSION;

static const char doc[] =
    "Serve a DFI registry until SIGTERM or SIGINT, or make a key file for one."
    "\v"
    "ADDR is one of:\n"
    "  unix:PATH         a Unix socket; PATH has at most 107 bytes\n"
    "  unix:@NAME        an abstract Unix socket\n"
    "  tcp:IP:PORT       port 0: any free one; IP 0.0.0.0: all of this host\n"
    "  tcp:[IPV6]:PORT   the same; tcp:[::]:PORT: all of this host\n"
    "The registry prints its address when it is ready.\n"
    "\n"
    "Put PATH into a directory that only you may write to: "
    "unix:$XDG_RUNTIME_DIR/dfi.sock, or, if that variable is not set, "
    "unix:$HOME/dfi.sock. The registry locks PATH.lock while it runs, and "
    "replaces the socket of a killed registry. To give a container access, "
    "mount the directory, not the socket: after a restart, a socket that is "
    "mounted alone does not lead to the registry.\n"
    "\n"
    "A client of a registry can read and change what its members share. At a "
    "Unix socket the kernel identifies the client's user. Every user of this "
    "host can reach a TCP address, also a loopback address. There the registry "
    "serves only TLS 1.3, and only clients that prove their identity, in one "
    "of two ways:\n"
    "\n"
    "A key. \"dfi-registry keygen FILE\" makes a file with 256 random bits. "
    "Start the registry with --key FILE, copy the file to all hosts, and set "
    "DFI_REGISTRY_KEY to it there. Its mode must stay 0600.\n"
    "\n"
    "Certificates. Start the registry with --cert, --private-key and --ca. Its "
    "certificate must name its IP address in subjectAltName. Set "
    "DFI_REGISTRY_CA, DFI_REGISTRY_CERT and DFI_REGISTRY_PRIVATE_KEY for its "
    "clients.\n"
    "\n"
    "With --state DIR, the registry keeps its keys, and the leases and the "
    "numbers of its clients, in a journal there. After a restart, also after "
    "it was killed or the machine lost power, it has all that it had "
    "acknowledged, and its clients go on where they were. Each change is "
    "synced to the disk before it is acknowledged; several share one sync. "
    "DIR is made if it is missing. It must belong to this user and have mode "
    "0700, as what is in it makes its reader a member. If a change can't be "
    "stored, it is refused with the reason. Without --state, a registry that "
    "ends forgets everything, and its clients restore it.\n"
    "\n"
    "The registry logs refused clients to stderr, once a minute for each "
    "reason. DFI_LOG=error|warn|info|debug sets how much it logs.\n"
    "\n"
    "A client takes one file descriptor, or two at a Unix socket. The registry "
    "raises its soft limit (ulimit -Sn) to the hard one.\n"
    "\n"
    "Exit status: 0 after a signal, or when the key file is made; 64 for a "
    "wrong command line; 78 if ADDR is a TCP address and nothing is set by "
    "which clients prove their identity; 1 for any other failure.";

static const struct argp_option option_table[] = {
	{ .name = "listen",
	    .key = 'l',
	    .arg = "ADDR",
	    .doc = "Listen at this address (default: an abstract socket with a "
		   "random name)" },
	{ .name = "key",
	    .key = 'k',
	    .arg = "FILE",
	    .doc = "Serve only clients that have the same key file" },
	{ .name = "cert",
	    .key = OPTION_CERT,
	    .arg = "FILE",
	    .doc = "Certificate of the registry, PEM" },
	{ .name = "private-key",
	    .key = OPTION_PRIVATE_KEY,
	    .arg = "FILE",
	    .doc = "Private key of --cert, PEM, mode 0600" },
	{ .name = "ca",
	    .key = OPTION_CA,
	    .arg = "FILE",
	    .doc = "Serve only clients with a certificate that this authority "
		   "signed, PEM. --insecure makes it optional" },
	{ .name = "insecure",
	    .key = OPTION_INSECURE,
	    .doc = "Serve all clients of a TCP address: for a closed test "
		   "network, or a loopback address if you trust all users of "
		   "the host. Clients set DFI_REGISTRY_INSECURE=1" },
	{ .name = "allow-user",
	    .key = OPTION_ALLOW_USER,
	    .arg = "USER",
	    .doc = "Also serve processes of this user, a name or a number, at "
		   "a Unix socket; may be repeated. They set DFI_REGISTRY_USER "
		   "to the number of the registry's user" },
	{ .name = "state",
	    .key = OPTION_STATE,
	    .arg = "DIR",
	    .doc = "Keep the state in this directory, across restarts" },
	{ .name = "grace",
	    .key = OPTION_GRACE,
	    .arg = "SECONDS",
	    .doc = "How long after a restart with --state clients may come "
		   "back, 1 to 3600 (default: 10). Those of this host whose "
		   "processes have ended are not waited for" },
	{ .name = "print-address",
	    .key = 'p',
	    .doc = "Print only the address, in one line, when the registry is "
		   "ready" },
	{ .name = NULL },
};

static void allow_user(
    struct options *options, const char *user, struct argp_state *state)
{
	const struct passwd *entry = getpwnam(user);
	unsigned long number;
	char *end = NULL;

	errno = 0;
	number = entry ? entry->pw_uid : strtoul(user, &end, 10);
	if (!entry &&
	    (errno || end == user || *end || *user == '-' ||
		number >= UINT32_MAX))
		usage_error(state, "there is no user '%s'", user);
	if (options->attr.n_users == DFI_MAX_REGISTRY_USERS)
		usage_error(
		    state, "more than %d users", DFI_MAX_REGISTRY_USERS);
	options->users[options->attr.n_users++] = (uint32_t)number;
	options->attr.users = options->users;
}

static void set_grace(
    struct options *options, const char *text, struct argp_state *state)
{
	unsigned long seconds;
	char *end = NULL;

	errno = 0;
	seconds = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || !seconds ||
	    seconds > 3600)
		usage_error(
		    state, "--grace '%s': 1 to 3600 seconds are allowed", text);
	options->attr.grace_ms = (uint32_t)seconds * 1000;
}

static error_t parse_argument(
    struct options *options, char *arg, struct argp_state *state)
{
	if (!options->keygen && strcmp(arg, "keygen") == 0)
		options->keygen = true;
	else if (options->keygen && !options->key_file)
		options->key_file = arg;
	else
		usage_error(state,
		    options->keygen
			? "keygen makes one file: '%s' is one too many"
			: "unknown argument '%s': the only command is keygen "
			  "FILE",
		    arg);
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'l':
		options->attr.listen = arg;
		return 0;
	case 'k':
		options->attr.key = arg;
		return 0;
	case OPTION_CA:
		options->attr.ca = arg;
		return 0;
	case OPTION_CERT:
		options->attr.cert = arg;
		return 0;
	case OPTION_PRIVATE_KEY:
		options->attr.private_key = arg;
		return 0;
	case OPTION_INSECURE:
		options->attr.flags |= DFI_REGISTRY_INSECURE;
		return 0;
	case OPTION_ALLOW_USER:
		allow_user(options, arg, state);
		return 0;
	case OPTION_STATE:
		options->attr.state = arg;
		return 0;
	case OPTION_GRACE:
		set_grace(options, arg, state);
		return 0;
	case 'p':
		options->print_address = true;
		return 0;
	case ARGP_KEY_ARG:
		return parse_argument(options, arg, state);
	case ARGP_KEY_END:
		if (options->keygen && !options->key_file)
			usage_error(state, "keygen: say which file to make");
		if (options->attr.grace_ms && !options->attr.state)
			usage_error(state, "--grace: it needs --state");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int fail(int ret)
{
	complain("%s", dfi_errmsg());
	return ret == -EPERM ? EX_CONFIG : EXIT_FAILURE;
}

/* Each client takes two descriptors: raise the limit to its maximum. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	    limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* A signal during the start ends the process, even if the start waits. */
static void end_early(int number)
{
	(void)number;
	_exit(EXIT_SUCCESS);
}

static void on_signals(void (*handler)(int number))
{
	struct sigaction action = { .sa_handler = handler };

	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

/* Print the address; false: it was requested and can't be printed. */
static bool announce(const struct options *options, const char *address)
{
	char plain[4096];

	if (options->print_address)
		printf("%s\n", address);
	else
		printf("dfi-registry: listens at %s\n",
		    escape_text(plain, sizeof(plain), address));
	if (!fflush(stdout) || !options->print_address)
		return true;
	complain("the address can't be written: %s", strerror(errno));
	return false;
}

static int serve(const struct options *options)
{
	struct dfi_registry *registry;
	sigset_t signals;
	int ret, number;

	raise_file_limit();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	on_signals(end_early);
	ret = dfi_registry_start(&options->attr, &registry);
	if (ret)
		return fail(ret);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (announce(options, dfi_registry_address(registry))) {
		sigwait(&signals, &number);
		ret = EXIT_SUCCESS;
	} else {
		ret = EXIT_FAILURE;
	}
	dfi_registry_stop(registry);
	return ret;
}

/*
 * --help and --version end in argp_parse(). Only then do write errors matter: a
 * registry serves without a standard output.
 */
static bool is_parsing;
static char written[32768]; /* stdio ignores a size without memory */

static void check_help(void)
{
	if (!is_parsing || fflush(stdout) == 0)
		return;
	complain("standard output: %s", strerror(errno));
	_exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_table,
		.parser = parse,
		.args_doc = "\nkeygen FILE",
		.doc = doc,
	};
	struct options options = { .attr = DFI_REGISTRY_ATTR_INIT };
	int ret;

	if (options_check(&argp, argv))
		return EX_USAGE;
	is_parsing = true;
	/* The help is one write, whose error check_help() tells. */
	setvbuf(stdout, written, _IOFBF, sizeof(written));
	atexit(check_help);
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	is_parsing = false;
	if (!options.keygen)
		return serve(&options);
	ret = dfi_registry_key_create(options.key_file);
	return ret ? fail(ret) : EXIT_SUCCESS;
}
