/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads at one registry, for ThreadSanitizer: calls, watches and their
 * ends race on shared clients while others come and go. At last the registry is
 * stopped. Every call must return, with a fitting error; no event comes after
 * an unwatch; the loss is reported once. A registry inside the process is never
 * lost, nor is the one that DFI_TEST_REGISTRY names (flow/with_etcd.sh).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dfi/error.h>
#include <dfi/registry.h>

#include "base/clock.h"
#include "base/loop.h"
#include "registry/client/client.h"
#include "tests/unit/stop_loop.h"

#define N_SHARING 4
#define N_COMING 2
#define N_KEYS 8
#define ROUNDS 4000
#define OTHER_ROUNDS 3000 /* of an etcd, whose calls take milliseconds */

struct stress {
	struct loop *loop;
	struct registry_client *client;
	const char *address;
	struct registry_security security;
	atomic_bool stopping; /* from here on -ENOTCONN fits */
	atomic_int failures;
	atomic_int rounds; /* of all threads */
	int n_rounds;
};

struct worker {
	struct stress *stress;
	unsigned seed;
	pthread_t thread;
};

/* The events of a watch; freed right after the unwatch. */
struct hearing {
	struct stress *stress;
	uint64_t revision;
	unsigned n_lost;
	bool first; /* the present keys come in key order, not by revision */
};

static unsigned draw(struct worker *worker, unsigned below)
{
	worker->seed = worker->seed * 1664525u + 1013904223u;
	return (worker->seed >> 8) % below;
}

static void complain(struct stress *stress, const char *what, int ret)
{
	atomic_fetch_add(&stress->failures, 1);
	fprintf(stderr, "%s: %d: %s\n", what, ret, dfi_errmsg());
}

static void check(struct stress *stress, const char *what, int ret, int fits)
{
	if (ret == 0 || ret == fits)
		return;
	if (ret == -ENOTCONN && atomic_load(&stress->stopping))
		return;
	complain(stress, what, ret);
}

static void hear(void *arg, const struct registry_event *event)
{
	struct hearing *hearing = arg;

	if (event->type == REGISTRY_LOST) {
		if (hearing->n_lost++)
			complain(hearing->stress, "lost twice", 0);
		return;
	}
	if (event->type == REGISTRY_BACK)
		complain(hearing->stress, "heard of a return", 0);
	if (hearing->n_lost)
		complain(hearing->stress, "heard after the loss", 0);
	if (!hearing->first && event->revision <= hearing->revision)
		complain(hearing->stress, "heard out of order", 0);
	hearing->revision = event->revision;
}

static void watch_for_a_while(struct worker *worker, int64_t deadline)
{
	struct stress *stress = worker->stress;
	struct hearing *hearing = calloc(1, sizeof(*hearing));
	struct registry_watch *watch;
	char value[8] = "";
	int ret;

	hearing->stress = stress;
	hearing->first = true;
	ret = dfi__client_watch(
	    stress->client, "k", hear, hearing, deadline, &watch);
	check(stress, "watch", ret, 0);
	if (!ret) {
		check(stress, "put",
		    dfi__client_put(
			stress->client, "k0", value, 8, 0, deadline, NULL),
		    0);
		dfi__client_unwatch(watch);
	}
	memset(hearing, 0xee, sizeof(*hearing));
	free(hearing);
}

static void work_once(struct worker *worker)
{
	struct stress *stress = worker->stress;
	struct registry_client *client = stress->client;
	int64_t deadline = deadline_in_ms(30000);
	struct registry_value value, *values;
	size_t count;
	char key[8];
	int ret;

	snprintf(key, sizeof(key), "k%u", draw(worker, N_KEYS));
	switch (draw(worker, 7)) {
	case 0:
		ret = dfi__client_create(
		    client, key, key, 2, CLIENT_LEASED, deadline, NULL);
		check(stress, "create", ret, -EEXIST);
		break;
	case 1:
		ret = dfi__client_put(client, key, key, 2, 0, deadline, NULL);
		check(stress, "put", ret, 0);
		break;
	case 2:
		ret = dfi__client_get(client, key, deadline, &value);
		check(stress, "get", ret, -ENOENT);
		if (!ret)
			dfi__registry_value_free(&value);
		break;
	case 3:
		ret = dfi__client_delete(client, key, 0, deadline);
		check(stress, "delete", ret, -ENOENT);
		break;
	case 4:
		ret = dfi__client_list(client, "k", deadline, &values, &count);
		check(stress, "list", ret, 0);
		if (!ret)
			dfi__registry_values_free(values, count);
		break;
	case 5:
		/* Times out now and then, with the answer under way. */
		ret = dfi__client_get(
		    client, key, clock_now_ns() + 100000, &value);
		if (ret != -ETIMEDOUT)
			check(stress, "get", ret, -ENOENT);
		if (!ret)
			dfi__registry_value_free(&value);
		break;
	default:
		watch_for_a_while(worker, deadline);
	}
}

static void *share(void *arg)
{
	struct worker *worker = arg;
	struct stress *stress = worker->stress;

	while (!atomic_load(&stress->stopping)) {
		work_once(worker);
		atomic_fetch_add(&stress->rounds, 1);
	}
	work_once(worker);
	return NULL;
}

/* Open a client of its own, leave a leased key and a watch, close. */
static void *come_and_go(void *arg)
{
	struct worker *worker = arg;
	struct stress *stress = worker->stress;
	struct hearing hearing = { .stress = stress, .first = true };
	struct registry_client *client;
	struct registry_watch *watch;
	int ret;

	while (!atomic_load(&stress->stopping)) {
		int64_t deadline = deadline_in_ms(30000);

		hearing.n_lost = 0;
		ret = dfi__client_open(stress->loop, stress->address,
		    &stress->security, 1000, deadline, &client);
		if (ret == -ECONNREFUSED && atomic_load(&stress->stopping))
			break;
		check(stress, "open", ret, 0);
		if (ret)
			continue;
		ret = dfi__client_put(
		    client, "k7", "", 0, CLIENT_LEASED, deadline, NULL);
		check(stress, "put", ret, 0);
		ret = dfi__client_watch(
		    client, "k", hear, &hearing, deadline, &watch);
		check(stress, "watch", ret, 0);
		dfi__client_close(client);
		atomic_fetch_add(&stress->rounds, 1);
	}
	return NULL;
}

static void run(struct stress *stress, struct dfi_registry *registry)
{
	struct worker workers[N_SHARING + N_COMING];
	struct hearing lasting = { .stress = stress, .first = true };
	struct registry_watch *watch;
	int i, ret;

	ret = dfi__client_watch(
	    stress->client, "", hear, &lasting, deadline_in_ms(30000), &watch);
	check(stress, "watch", ret, 0);
	for (i = 0; i < N_SHARING + N_COMING; i++) {
		workers[i].stress = stress;
		workers[i].seed = (unsigned)i;
		pthread_create(&workers[i].thread, NULL,
		    i < N_SHARING ? share : come_and_go, &workers[i]);
	}
	/* This thread works too, until there was enough of everything. */
	while (atomic_load(&stress->rounds) < stress->n_rounds)
		watch_for_a_while(&workers[0], deadline_in_ms(30000));
	atomic_store(&stress->stopping, true);
	dfi_registry_stop(registry);
	for (i = 0; i < N_SHARING + N_COMING; i++)
		pthread_join(workers[i].thread, NULL);
	/* The loss is told before it is reported. */
	ret = dfi__client_delete(
	    stress->client, "k0", 0, deadline_in_ms(30000));
	if (registry ? ret != -ENOTCONN : ret != 0 && ret != -ENOENT)
		complain(stress, "delete at the end", ret);
	dfi__client_unwatch(watch);
	if (lasting.n_lost != !!registry)
		complain(stress, "the loss was not told once", 0);
}

/* registry is NULL if it does not end with the run. */
static bool run_at(
    struct stress *stress, const char *address, struct dfi_registry *registry)
{
	atomic_store(&stress->stopping, false);
	atomic_store(&stress->rounds, 0);
	stress->address = address;
	if (dfi__loop_start("stress", &stress->loop) ||
	    dfi__client_open(stress->loop, address, &stress->security, 0,
		deadline_in_ms(30000), &stress->client)) {
		fprintf(stderr, "open: %s\n", dfi_errmsg());
		return false;
	}
	run(stress, registry);
	dfi__client_close(stress->client);
	stop_loop(stress->loop);
	return true;
}

/* Over a Unix socket, TCP, TLS, and inside the process. */
static bool run_kind(struct stress *stress, int kind, const char *key)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry = NULL;
	char *address;
	bool good;

	attr.listen = kind ? "tcp:127.0.0.1:0" : NULL;
	attr.key = kind == 2 ? key : NULL;
	attr.flags = kind == 1 ? DFI_REGISTRY_INSECURE : 0;
	stress->security.key = attr.key;
	stress->security.insecure = kind == 1;
	if (kind != 3 && dfi_registry_start(&attr, &registry)) {
		fprintf(stderr, "start: %s\n", dfi_errmsg());
		return false;
	}
	/* The registry's own text ends with it. */
	address = strdup(registry ? dfi_registry_address(registry) : "local:");
	good = run_at(stress, address, registry);
	free(address);
	return good;
}

int main(void)
{
	const char *address = getenv("DFI_TEST_REGISTRY");
	struct stress stress = { .n_rounds = address ? OTHER_ROUNDS : ROUNDS };
	bool good = true;
	char key[64];
	int round;

	snprintf(key, sizeof(key), "/tmp/dfi-stress-%ld", (long)getpid());
	if (!address && dfi_registry_key_create(key)) {
		fprintf(stderr, "key: %s\n", dfi_errmsg());
		return 1;
	}
	if (address)
		good = run_at(&stress, address, NULL);
	for (round = 0; round < 8 && good && !address; round++)
		good = run_kind(&stress, round % 4, key);
	unlink(key);
	return good && !atomic_load(&stress.failures) ? 0 : 1;
}
