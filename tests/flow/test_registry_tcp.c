/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows whose registry is reached over TCP: with a key from the attributes or
 * from the environment, at loopback and at a public address of this machine.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flow_help.h"

#define N_TUPLES 20000u

static char directory[] = "/tmp/dfi-test-XXXXXX";
static char key[64], other[64];

static void setup(void)
{
	cr_assert_not_null(mkdtemp(directory));
	snprintf(key, sizeof(key), "%s/key", directory);
	snprintf(other, sizeof(other), "%s/other", directory);
	cr_assert_eq(dfi_registry_key_create(key), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_key_create(other), 0, "%s", dfi_errmsg());
	unsetenv("DFI_REGISTRY_KEY");
	unsetenv("DFI_REGISTRY_INSECURE");
}

static void teardown(void)
{
	unlink(key);
	unlink(other);
	rmdir(directory);
}

TestSuite(registry_tcp, .init = setup, .fini = teardown);

static struct dfi_registry *start(const char *listen, const char *key_file)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry = NULL;

	if (key_file)
		need_tls();
	attr.listen = listen;
	attr.key = key_file;
	cr_assert_eq(
	    dfi_registry_start(&attr, &registry), 0, "%s", dfi_errmsg());
	return registry;
}

static int join(
    const struct dfi_registry *registry, const char *key_file, struct dfi **dfi)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	attr.registry = dfi_registry_address(registry);
	attr.registry_key = key_file;
	return dfi_open(&attr, dfi);
}

static void *send_all(void *arg)
{
	struct dfi *dfi = arg;
	struct dfi_source *source;
	struct kv tuple;

	if (dfi_source_open(dfi, "flow", 0, NULL, &source))
		return "open";
	for (tuple.key = 0; tuple.key < N_TUPLES; tuple.key++) {
		tuple.val = mix(tuple.key, 1);
		if (dfi_source_push(source, &tuple))
			return "push";
	}
	return dfi_source_close(source) ? "close" : NULL;
}

/* One flow from a context to another, both members of the registry. */
static void run_flow(struct dfi *from, struct dfi *to)
{
	struct dfi_target *target;
	const void *tuple;
	pthread_t thread;
	uint64_t n = 0;
	void *failed;
	int ret;

	create_kv_flow(from, "flow", 1, 1, 16, 8);
	pthread_create(&thread, NULL, send_all, from);
	target = open_target(to, "flow", 0, 0);
	while ((ret = dfi_target_consume(target, &tuple)) > 0) {
		const struct kv *kv = tuple;

		cr_assert_eq(kv->key, n++);
		cr_assert_eq(kv->val, mix(kv->key, 1));
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(n, N_TUPLES);
	pthread_join(thread, &failed);
	cr_assert_null(failed, "%s", (const char *)failed);
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
}

struct guest {
	struct dfi_barrier *barrier;
	int ret;
};

static void *meet(void *arg)
{
	struct guest *guest = arg;

	guest->ret = dfi_barrier_wait(guest->barrier, LONG_MS);
	return NULL;
}

static void run_barrier(struct dfi *one, struct dfi *two)
{
	struct guest guest;
	struct dfi_barrier *barrier;
	pthread_t thread;

	cr_assert_eq(
	    dfi_barrier_open(one, "b", 2, 0, &barrier), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_barrier_open(two, "b", 2, 1, &guest.barrier), 0, "%s",
	    dfi_errmsg());
	pthread_create(&thread, NULL, meet, &guest);
	cr_assert_eq(dfi_barrier_wait(barrier, LONG_MS), 0, "%s", dfi_errmsg());
	pthread_join(thread, NULL);
	cr_assert_eq(guest.ret, 0);
	cr_assert_eq(dfi_barrier_close(barrier), 0);
	cr_assert_eq(dfi_barrier_close(guest.barrier), 0);
}

static void flow_at(const char *listen)
{
	struct dfi_registry *registry = start(listen, key);
	struct dfi *from, *to, *none;

	cr_assert_eq(join(registry, key, &from), 0, "%s", dfi_errmsg());
	setenv("DFI_REGISTRY_KEY", key, 1);
	cr_assert_eq(join(registry, NULL, &to), 0, "%s", dfi_errmsg());
	assert_error(join(registry, other, &none), -EACCES, "another key");
	run_flow(from, to);
	run_barrier(from, to);
	cr_assert_eq(dfi_close(from), 0);
	cr_assert_eq(dfi_close(to), 0);
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

Test(registry_tcp, with_a_key_serves_flows_at_loopback)
{
	flow_at("tcp:127.0.0.1:0");
}

static bool find_address(char text[64])
{
	struct ifaddrs *all, *one;
	bool found = false;
	char ip[INET_ADDRSTRLEN];

	cr_assert_eq(getifaddrs(&all), 0);
	for (one = all; one && !found; one = one->ifa_next) {
		const struct sockaddr_in *in = (void *)one->ifa_addr;

		if (!in || in->sin_family != AF_INET ||
		    !(one->ifa_flags & IFF_UP) ||
		    (one->ifa_flags & IFF_LOOPBACK))
			continue;
		inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		snprintf(text, 64, "tcp:%s:0", ip);
		found = true;
	}
	freeifaddrs(all);
	return found;
}

Test(registry_tcp, with_a_key_serves_flows_at_a_routable_address)
{
	char text[64];

	if (!find_address(text))
		cr_skip_test("this machine has no address but loopback");
	flow_at(text);
}

Test(registry_tcp, without_a_key_serves_flows_at_loopback_if_that_is_said)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi *from, *to;

	attr.listen = "tcp:127.0.0.1:0";
	assert_error(dfi_registry_start(&attr, &registry), -EPERM, "keygen",
	    "--insecure");
	attr.flags = DFI_REGISTRY_INSECURE;
	cr_assert_eq(dfi_registry_start(&attr, &registry), 0);
	assert_error(
	    join(registry, NULL, &from), -EPERM, "DFI_REGISTRY_INSECURE");
	setenv("DFI_REGISTRY_INSECURE", "1", 1);
	cr_assert_eq(join(registry, NULL, &from), 0, "%s", dfi_errmsg());
	cr_assert_eq(join(registry, NULL, &to), 0, "%s", dfi_errmsg());
	run_flow(from, to);
	cr_assert_eq(dfi_close(from), 0);
	cr_assert_eq(dfi_close(to), 0);
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

Test(registry_tcp, a_key_in_the_environment_does_not_disturb_unix_sockets)
{
	struct rig rig;

	setenv("DFI_REGISTRY_KEY", "/nonexistent/key", 1);
	rig_start(&rig);
	run_flow(rig.dfi, rig.other);
	rig_stop(&rig);
}

Test(registry_tcp, insecure_is_said_by_attribute_or_environment)
{
	struct dfi_registry_attr registry_attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi *dfi;
	char text[64];

	if (!find_address(text))
		cr_skip_test("this machine has no address but loopback");
	registry_attr.listen = text;
	assert_error(dfi_registry_start(&registry_attr, &registry), -EPERM,
	    "keygen", "--insecure");
	registry_attr.flags = DFI_REGISTRY_INSECURE;
	cr_assert_eq(dfi_registry_start(&registry_attr, &registry), 0);
	attr.registry = dfi_registry_address(registry);
	assert_error(dfi_open(&attr, &dfi), -EPERM, "DFI_REGISTRY_INSECURE");
	setenv("DFI_REGISTRY_INSECURE", "0", 1);
	assert_error(dfi_open(&attr, &dfi), -EPERM, "DFI_REGISTRY_INSECURE");
	setenv("DFI_REGISTRY_INSECURE", "yes", 1);
	assert_error(dfi_open(&attr, &dfi), -EINVAL, "at a TCP address",
	    "all users of the host are trusted: 0 or 1");
	setenv("DFI_REGISTRY_INSECURE", "1", 1);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_close(dfi), 0);
	unsetenv("DFI_REGISTRY_INSECURE");
	attr.registry_flags = DFI_REGISTRY_INSECURE;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

Test(registry_tcp, attributes_that_do_not_exist_are_refused)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi;

	attr.registry = "unix:@dfi-nobody-is-here";
	attr.registry_flags = 2;
	assert_error(dfi_open(&attr, &dfi), -EINVAL, "registry_flags");
	attr.registry_flags = 0;
	attr.reserved2 = 1;
	assert_error(dfi_open(&attr, &dfi), -E2BIG, "reserved2");
}
