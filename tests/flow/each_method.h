/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of replicate flows that run once for each way to replicate. */
#ifndef DFI_TESTS_EACH_METHOD_H
#define DFI_TESTS_EACH_METHOD_H

#include <criterion/criterion.h>
#include <stdint.h>
#include <dfi/flow.h>

/* The method of the test that runs (dfi_flow_attr.replicate). */
static uint32_t replication;

/* The function name() as a test of a suite, with one method. */
#define TEST_METHOD(suite, name, method) \
	Test(suite, name)                \
	{                                \
		replication = (method);  \
		name();                  \
	}

/*
 * A test of naive flows, and of those whose replication the library chooses,
 * each in a suite of its own. Where the network is good for datagrams only
 * (unit.test_multicast_flows): a test of multicasts.
 */
#ifdef DFI_DATAGRAMS_ONLY
#define TEST_EACH_METHOD(naive, chosen, datagrams, name)        \
	static void name(void);                                 \
	TEST_METHOD(datagrams, name, DFI_REPLICATION_MULTICAST) \
	static void name(void)
#else
#define TEST_EACH_METHOD(naive, chosen, datagrams, name)   \
	static void name(void);                            \
	TEST_METHOD(naive, name, DFI_REPLICATION_NAIVE)    \
	TEST_METHOD(chosen, name, DFI_REPLICATION_DEFAULT) \
	static void name(void)
#endif

#endif
