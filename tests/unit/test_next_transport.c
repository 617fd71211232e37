/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which transport a source takes. Only passing the memory's descriptor shows
 * whether it can be shared; here it fails, and the loopback is the next
 * transport. A fake network stands for a third one.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../flow/flow_help.h"
#include "../transport/loopback/loopback.h"
#include "base/error.h"
#include "flows/context/network.h"
#include "flows/endpoint/source.h"

static struct rig rig; /* its contexts also offer regions over the network */
static struct dfi *from;

static int fetch_error;
static unsigned n_fetches;
static char logged[1024]; /* the line about the way that was taken instead */

/* See tests/CMakeLists.txt. */
int __wrap_dfi__shm_pass_fetch(const struct region_name *name,
    const struct wait_limit *wait_limit, int *fd);

int __wrap_dfi__shm_pass_fetch(const struct region_name *name,
    const struct wait_limit *wait_limit, int *fd)
{
	(void)name;
	(void)wait_limit;
	(void)fd;
	n_fetches++;
	return dfi__fail(fetch_error, "no descriptor came");
}

static void note(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, ": writes to node "))
		snprintf(logged, sizeof(logged), "%s", line);
}

static void setup(void)
{
	setenv("DFI_TEST_LOOPBACK", "1", 1);
	setenv("DFI_TRANSPORT", "verbs", 1);
	rig_start(&rig);
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	dfi_log_set(DFI_LOG_INFO, note, NULL);
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(from), 0);
	rig_stop(&rig);
}

TestSuite(next_transport, .init = setup, .fini = teardown, .timeout = 300);

/* A context with this setting, and what its attempts to fetch come to. */
static void start(const char *setting, int error)
{
	setenv("DFI_TRANSPORT", setting, 1);
	from = rig_join(&rig);
	fetch_error = error;
}

/* A tuple goes over the loopback. */
static void expect_loopback(void)
{
	struct dfi_target *target = open_target(rig.dfi, "f", 0, 0);
	struct dfi_source *source = open_source(from, "f", 0, 0);
	const struct transport *transport = source->rings[0].remote->transport;

	cr_assert_eq(transport->ops, &loopback_ops);
	push_number(source, 7);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_number(target, 7);
	end_target(target);
}

static void expect_failure(int error)
{
	struct dfi_target *target = open_target(rig.dfi, "f", 0, 0);
	struct dfi_source *source;

	assert_error(dfi_source_open(from, "f", 0, NULL, &source), error,
	    "flow 'f'", "source 0", "target 0", "no descriptor came");
	cr_assert_eq(n_fetches, 1);
	cr_assert_eq(dfi_target_close(target), 0);
}

static void expect_next(int error)
{
	start("auto", error);
	expect_loopback();
	cr_assert_eq(n_fetches, 1);
	cr_assert_not_null(
	    strstr(logged, "flow 'f': source 0: "), "%s", logged);
	cr_assert_not_null(
	    strstr(logged, " over loopback: no descriptor came"), "%s", logged);
}

Test(next_transport, is_taken_where_the_socket_is_not_the_owner)
{
	expect_next(-ECONNRESET);
}

Test(next_transport, is_taken_where_the_owner_refuses)
{
	expect_next(-EACCES);
}

Test(next_transport, is_not_taken_where_a_resource_is_missing)
{
	start("auto", -EMFILE);
	expect_failure(-EMFILE);
}

Test(next_transport, is_not_taken_where_memory_is_demanded)
{
	start("shm", -EACCES);
	expect_failure(-EACCES);
}

Test(next_transport, is_the_only_one_where_a_network_is_demanded)
{
	start("verbs", -EACCES);
	expect_loopback();
	cr_assert_eq(n_fetches, 0);
}

/*
 * This process finds the fake network first. The address is of another process,
 * so that no transport here has the route to it.
 */
Test(next_transport, is_of_the_kind_that_the_address_has)
{
	const struct region_address there = {
		.transport = transport_row("loopback"),
		.name.address = "loopback:1:1",
	};
	struct transport *transport;

	start("verbs", 0);
	unsetenv("DFI_TEST_LOOPBACK");
	cr_assert_eq(
	    dfi__network_open(from, DFI_TRANSPORT_VERBS, &transport), 0);
	cr_assert_eq(transport->ops, &dfi__verbs_ops);
	setenv("DFI_TEST_LOOPBACK", "1", 1);
	cr_assert_eq(dfi__network_reach(from, &there, &transport), 0);
	cr_assert_eq(transport->ops, &loopback_ops);
}
