/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: defaults that the environment can change. One table makes the
 * struct and the reading; the check "readme" compares README's table with it.
 */
#ifndef DFI_BASE_SETTINGS_H
#define DFI_BASE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * X(kind, member, variable, default, help)
 * kinds: text; address: an IP address; uid: a user's number, UINT32_MAX for
 * none; auto_size: bytes with an optional suffix K, M or G, or auto (0); limit:
 * as many, or none (UINT64_MAX); room: as many, or 0; ms: milliseconds; us:
 * microseconds, or 0; lease: milliseconds as the registry allows, or 0; retry:
 * milliseconds up to an hour; cpus: a list of processors; choice: one of the
 * words of the setting's table in settings.c.
 */
#define DFI_SETTINGS(X)                                                       \
	X(text, registry, "DFI_REGISTRY", NULL,                               \
	    "address of the registry: unix:PATH, unix:@NAME, tcp:IP:PORT, "   \
	    "tcp:[IPV6]:PORT, or etcd:https://HOST:PORT,... (an etcd)")       \
	X(text, registry_key, "DFI_REGISTRY_KEY", NULL,                       \
	    "key file of the registry, if it is at a TCP address")            \
	X(text, registry_ca, "DFI_REGISTRY_CA", NULL,                         \
	    "PEM file of who signs the registry's certificate")               \
	X(text, registry_cert, "DFI_REGISTRY_CERT", NULL,                     \
	    "PEM file of this process's certificate")                         \
	X(text, registry_private_key, "DFI_REGISTRY_PRIVATE_KEY", NULL,       \
	    "PEM file of this process's private key")                         \
	X(text, etcd_user, "DFI_ETCD_USER", NULL,                             \
	    "name of the user of etcd, if DFI_REGISTRY is etcd:")             \
	X(text, etcd_password_file, "DFI_ETCD_PASSWORD_FILE", NULL,           \
	    "file with the password of that user, in its first line")         \
	X(choice, registry_insecure, "DFI_REGISTRY_INSECURE", "0",            \
	    "leave to join a registry at a TCP address without a key or "     \
	    "certificates, on a closed test network or where all users of "   \
	    "the host are trusted: 0 or 1")                                   \
	X(uid, registry_user, "DFI_REGISTRY_USER", NULL,                      \
	    "number of the user whose registry at a Unix socket is trusted, " \
	    "besides this process's user and root")                           \
	X(ms, registry_grace_ms, "DFI_REGISTRY_GRACE", "10000",               \
	    "milliseconds, 1 to 2147483647, that peers have for publishing "  \
	    "themselves again at a registry that was restarted")              \
	X(lease, lease_ms, "DFI_LEASE", "0",                                  \
	    "milliseconds without a sign of life after which this process "   \
	    "counts as dead, 50 to 3600000; 0: none")                         \
	X(auto_size, ring_memory, "DFI_RING_MEMORY", "auto",                  \
	    "payload bytes of all rings of a target, where a flow leaves "    \
	    "them open: a size such as 64K, 8M or 1G, or auto, by the "       \
	    "caches")                                                         \
	X(limit, ring_memory_limit, "DFI_RING_MEMORY_LIMIT", "none",          \
	    "most bytes that the rings of a context take: a size such as "    \
	    "64K, 8M or 1G, or none")                                         \
	X(room, spare_memory, "DFI_SPARE_MEMORY", "32M",                      \
	    "most bytes of rings that a context keeps for its next targets "  \
	    "when targets close: a size such as 64K, 8M or 1G, or 0; 0 if "   \
	    "DFI_RING_MEMORY_LIMIT is set")                                   \
	X(choice, wait, "DFI_WAIT", "adaptive",                               \
	    "how calls wait: adaptive, spin or block")                        \
	X(us, linger_us, "DFI_LINGER_US", "0",                                \
	    "microseconds, 1 to 2147483647, after which a partial segment "   \
	    "of a bandwidth flow is sent; 0: not before it is full, or "      \
	    "flushed")                                                        \
	X(choice, huge_pages, "DFI_HUGE_PAGES", "try",                        \
	    "huge pages for rings: try, never, or require reserved ones")     \
	X(choice, dump_rings, "DFI_DUMP_RINGS", "0",                          \
	    "whether core dumps of this process hold its rings: 0 or 1")      \
	X(choice, transport, "DFI_TRANSPORT", "auto",                         \
	    "how tuples travel: auto (shm on one host, else verbs, else "     \
	    "ofi), shm, verbs or ofi")                                        \
	X(choice, verify, "DFI_VERIFY", "none",                               \
	    "checks of each segment of the flows that are created: none, "    \
	    "or checksum")                                                    \
	X(names, verbs_device, "DFI_VERBS_DEVICE", NULL,                      \
	    "names of the RDMA devices to use, 1 to 4, separated by commas")  \
	X(addresses, verbs_address, "DFI_VERBS_ADDRESS", NULL,                \
	    "IP addresses of this host, on RDMA devices, to use: 1 to 4, "    \
	    "separated by commas")                                            \
	X(choice, verbs_notify, "DFI_VERBS_NOTIFY", "auto",                   \
	    "how a target learns of segments: auto, footer, checksum or imm") \
	X(retry, verbs_retry_ms, "DFI_VERBS_RETRY", "3000",                   \
	    "milliseconds, 1 to 3600000, for which RDMA repeats what is not " \
	    "answered before a connection breaks")                            \
	X(text, ofi_provider, "DFI_OFI_PROVIDER", "tcp",                      \
	    "provider of libfabric to use; others than tcp are not tested")   \
	X(address, ofi_address, "DFI_OFI_ADDRESS", NULL,                      \
	    "IP address of this host at which peers reach it over libfabric") \
	X(retry, ofi_timeout_ms, "DFI_OFI_TIMEOUT", "5000",                   \
	    "milliseconds, 1 to 3600000, without a sign of life of a peer "   \
	    "after which a connection over libfabric breaks")                 \
	X(ms, open_timeout_ms, "DFI_OPEN_TIMEOUT", "10000",                   \
	    "milliseconds, 1 to 2147483647, to wait for the registry, a "     \
	    "flow or its endpoints")                                          \
	X(cpus, control_cpus, "DFI_CONTROL_CPUS", NULL,                       \
	    "processors that control threads run on: a list such as 0-3,8; "  \
	    "default: those of the process when it loads the library")        \
	X(choice, log_level, "DFI_LOG", "warn",                               \
	    "what is logged on stderr: error, warn, info or debug")

/*
 * Other variables that begin with DFI_, of the scripts and tests of the project
 * itself, which are nobody's mistake. A final * stands for any rest.
 */
#define DFI_FOREIGN_VARIABLES "DFI_JOBS", "DFI_TEST_*", "DFI_TESTBED*"

enum huge_pages {
	HUGE_PAGES_TRY = 1,
	HUGE_PAGES_NEVER,
	HUGE_PAGES_REQUIRE,
};

/* How a target learns of a segment that came over verbs. */
enum verbs_notify {
	VERBS_NOTIFY_AUTO = 1,
	VERBS_NOTIFY_FOOTER, /* it polls footers: the device keeps the order */
	VERBS_NOTIFY_IMM, /* by the completion of a write with immediate data */
	VERBS_NOTIFY_CHECKSUM, /* it polls footers with checksums */
};

#define SETTING_TYPE_text const char *
#define SETTING_TYPE_address const char *
#define SETTING_TYPE_names const char *
#define SETTING_TYPE_addresses const char *
#define SETTING_TYPE_uid uint32_t
#define SETTING_TYPE_size uint64_t
#define SETTING_TYPE_auto_size uint64_t
#define SETTING_TYPE_limit uint64_t
#define SETTING_TYPE_room uint64_t
#define SETTING_TYPE_ms uint32_t
#define SETTING_TYPE_us uint32_t
#define SETTING_TYPE_lease uint32_t
#define SETTING_TYPE_retry uint32_t
#define SETTING_TYPE_cpus const char *
#define SETTING_TYPE_choice uint32_t

/* Most parts of a list of names or addresses. */
#define SETTING_PARTS 4

/* How many parts a list has; NULL: none. */
static inline uint32_t setting_count(const char *list)
{
	uint32_t n = list != NULL;

	for (; list && *list; list++)
		n += *list == ',';
	return n;
}

/* Part number n of a list that has more than that; *size: its length. */
static inline const char *setting_part(
    const char *list, uint32_t n, size_t *size)
{
	while (n-- > 0)
		list = strchr(list, ',') + 1;
	*size = strcspn(list, ",");
	return list;
}

struct settings {
#define X(kind, member, variable, value, help) SETTING_TYPE_##kind member;
	DFI_SETTINGS(X)
#undef X
};

/*
 * Read all settings; texts point into the environment. -EINVAL: a variable has
 * a value that it can't have; the text names it.
 */
int dfi__settings_load(struct settings *settings);

/*
 * DFI_CONTROL_CPUS as it is in the environment, or NULL. For threads that start
 * where no settings are loaded.
 */
const char *dfi__settings_control_cpus(void);

/* A setting as it is in the environment. */
struct setting {
	const char *variable;
	const char *value;   /* NULL: none */
	const char *initial; /* NULL: none */
	const char *help;
	bool in_environment;
	int ret; /* 0, or -EINVAL with dfi_errmsg() */
};

/* Call fn for each setting until it returns something else than 0. */
int dfi__settings_each(
    int (*fn)(void *arg, const struct setting *setting), void *arg);

/*
 * Log each variable of the environment that begins with DFI_ and is unknown,
 * the first time that a process calls this; dfi__settings_load() does.
 */
void dfi__settings_check_environment(void);

/*
 * NULL if name, without its value, is a setting or one of the project's other
 * variables; else the setting whose name is nearest.
 */
const char *dfi__settings_nearest(const char *name);

#endif
