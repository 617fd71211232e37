/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replica and its registry in this process, which takes the place of a peer.
 * Opening the clients' flows takes as long as the test likes, as if the
 * registry were far away.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "examples/consensus/links_impl.h"
#include "examples/consensus/replica.h"

#define LONG_MS 60000 /* only what hangs reaches it */
#define PEER_FLOW "test.1-0"

static atomic_uint n_peer, n_clients; /* openings of targets */
static atomic_bool clients_wait;

static void sleep_ms(unsigned ms)
{
	const struct timespec time = { .tv_nsec = ms * 1000000L };

	nanosleep(&time, NULL);
}

/* In place of the library's. */
int dfi_target_open(struct dfi *dfi, const char *flow, uint32_t number,
    const struct dfi_target_attr *attr, struct dfi_target **target)
{
	int (*open)(struct dfi *, const char *, uint32_t,
	    const struct dfi_target_attr *, struct dfi_target **);
	void *symbol = dlsym(RTLD_NEXT, "dfi_target_open");

	memcpy(&open, &symbol, sizeof(open));
	if (!strcmp(flow, PEER_FLOW)) {
		atomic_fetch_add(&n_peer, 1);
	} else {
		atomic_fetch_add(&n_clients, 1);
		while (atomic_load(&clients_wait))
			sleep_ms(1);
	}
	return open(dfi, flow, number, attr, target);
}

static void await(const atomic_uint *count, unsigned n, const char *what)
{
	uint64_t deadline = now_ns() + LONG_MS * UINT64_C(1000000);

	while (atomic_load(count) < n) {
		cr_assert_lt(now_ns(), deadline, "%s", what);
		sleep_ms(1);
	}
}

/* NULL, or the replica that failed. */
static void *run(void *replica)
{
	return replica_run(replica) < 0 ? replica : NULL;
}

/* The peer comes, and is lost. */
static void connect_once(const char *registry)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_attr context = DFI_ATTR_INIT;
	struct dfi_source *source;
	struct dfi *dfi;

	context.registry = registry;
	attr.schema = &link_schema;
	attr.open_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_open(&context, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_open(dfi, PEER_FLOW, 0, &attr, &source), 0,
	    "%s", dfi_errmsg());
	dfi_source_close(source);
	dfi_close(dfi);
}

Test(replica, a_peer_comes_again_while_the_flow_of_clients_is_opened)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct replica_options options = {
		.n_replicas = 2,
		.cluster = "test",
		.bootstrap = true,
		.quiet = true,
		.log_bytes = 1 << 20,
	};
	struct dfi_registry *registry;
	struct replica *replica;
	char address[64];
	pthread_t thread;
	void *failed;

	snprintf(
	    address, sizeof(address), "unix:@dfi-replica-%d", (int)getpid());
	attr.listen = options.registry = address;
	cr_assert_eq(
	    dfi_registry_start(&attr, &registry), 0, "%s", dfi_errmsg());
	atomic_store(&clients_wait, true);
	cr_assert_eq(replica_open(&options, &replica), 0, "%s", dfi_errmsg());
	cr_assert_eq(pthread_create(&thread, NULL, run, replica), 0);
	connect_once(address);
	await(&n_clients, 1, "the flow of clients is not opened");
	await(&n_peer, 2, "a replica waits until clients could come");
	atomic_store(&clients_wait, false);
	replica_stop(replica);
	pthread_join(thread, &failed);
	cr_assert_null(failed);
	replica_close(replica);
	dfi_registry_stop(registry);
}
