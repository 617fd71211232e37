/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each replica checks its own memory, but replicas that start together all see
 * the same free memory. So this checks the sum before any of them starts. A
 * child estimates it, as this process opens no context of the library.
 */
#include "run_memory.h"

#include <dfi/dfi.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../common/complain.h"
#include "../../common/memory.h"
#include "load_keys.h"
#include "needs.h"

struct estimate {
	const struct run_arguments *arguments;
	uint64_t *bytes; /* shared with the child */
};

static uint64_t load_bytes(const struct load_options *load)
{
	struct load_plan plan = load->plan;
	uint64_t bytes, most = 0;
	uint32_t i;

	for (i = 0; i < load->n_outstanding; i++) {
		plan.outstanding = load->outstanding[i];
		bytes = load_needs(&plan);
		most = bytes > most ? bytes : most;
	}
	return most;
}

/* All replicas of a protocol, with their data. */
static int add_replicas(struct dfi *dfi, const struct run_arguments *arguments,
    const char *protocol, uint64_t *bytes)
{
	const struct load_plan *plan = &arguments->load.plan;
	const struct replica_options options = {
		.n_replicas = arguments->store.replicas,
		.log = arguments->store.log,
		.log_bytes = (size_t)arguments->store.memory_mib << 20,
		.nopaxos = strcmp(protocol, "paxos") != 0,
		.flows = arguments->store.flows,
	};
	uint64_t others, log;
	int ret = needs_replica(dfi, &options, &others, &log);

	*bytes = options.n_replicas *
	    (others + log +
		needs_data(
		    &options, plan->records, LOAD_KEY_SIZE, plan->value_size));
	return ret;
}

static int estimate(struct dfi *dfi, const struct estimate *estimate)
{
	const struct run_arguments *arguments = estimate->arguments;
	uint64_t client, bytes, most = 0;
	uint32_t i;
	int ret;

	for (i = 0; i < arguments->n_protocols; i++) {
		ret = add_replicas(
		    dfi, arguments, arguments->protocols[i], &bytes);
		if (ret < 0)
			return ret;
		most = bytes > most ? bytes : most;
	}
	ret = needs_client(dfi, arguments->store.replicas, &client);
	/*
	 * One more client observes. This process and a registry run beside
	 * them.
	 */
	*estimate->bytes = most + (arguments->load.plan.clients + 1) * client +
	    load_bytes(&arguments->load) + 2 * NEEDS_PROCESS;
	return ret;
}

static int child_main(void *arg)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi *dfi;
	int ret;

	ret = dfi_registry_start(NULL, &registry);
	if (ret < 0)
		goto report;
	attr.registry = dfi_registry_address(registry);
	ret = dfi_open(&attr, &dfi);
	if (ret < 0)
		goto stop_registry;
	ret = estimate(dfi, arg);
	dfi_close(dfi);
stop_registry:
	dfi_registry_stop(registry);
report:
	if (ret < 0)
		complain("cannot tell how much memory the store needs: %s",
		    dfi_errmsg());
	return ret < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The bytes, or 0 after a complaint. */
static uint64_t ask_child(const struct run_arguments *arguments)
{
	struct children children = { .n = 0 };
	struct estimate question = { .arguments = arguments };
	uint64_t bytes = 0;

	question.bytes = mmap(NULL, sizeof(*question.bytes),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (question.bytes == MAP_FAILED) {
		complain("no memory: %s", strerror(errno));
		return 0;
	}
	if (!children_fork(&children, "estimate", child_main, &question) &&
	    !children_end(&children, -1))
		bytes = *question.bytes;
	munmap(question.bytes, sizeof(*question.bytes));
	return bytes;
}

int run_memory_check(const struct run_arguments *arguments)
{
	const struct run_options *store = &arguments->store;
	uint64_t bytes = ask_child(arguments);
	char what[96], advice[160];

	if (!bytes)
		return -1;
	snprintf(what, sizeof(what),
	    "%" PRIu32 " replicas and %" PRIu32 " clients need",
	    store->replicas, arguments->load.plan.clients);
	snprintf(advice, sizeof(advice),
	    "choose a smaller --memory, which is %" PRIu32
	    " MiB for the log of each replica, or fewer --replicas, --clients "
	    "or --records",
	    store->memory_mib);
	return memory_check(what, bytes, advice);
}
