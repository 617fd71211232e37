/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of flows: a registry with contexts, random numbers,
 * threads, and waits for a condition. Helpers for a test's main thread fail the
 * test. Helpers for other threads return a text instead, because Criterion's
 * assertions belong to the main thread.
 */
#ifndef DFI_TESTS_FLOW_HELP_H
#define DFI_TESTS_FLOW_HELP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dfi/dfi.h>

/* Only a hanging test reaches this limit. */
#define LONG_MS 60000u

/*
 * The wait for an event that must not come. A registry answers in less, even on
 * a busy machine, though the asking thread and the answering threads pause for
 * 2 s in turn.
 */
#define SHORT_MS 5000u

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

struct kv {
	uint64_t key, val;
};

extern const struct dfi_schema kv_schema;

/*
 * A registry in this process and two of its contexts. With
 * DFI_TEST_REGISTRY=local: the contexts share a private one, and registry is
 * NULL.
 */
struct rig {
	struct dfi_registry *registry;
	struct dfi *dfi;
	struct dfi *other;
};

void rig_start(struct rig *rig);
/* Fails the test if an endpoint is still open. */
void rig_stop(struct rig *rig);
struct dfi *rig_join(const struct rig *rig);
/* The address of its registry. */
const char *rig_address(const struct rig *rig);

/* Random numbers by splitmix64, for which every seed is good. */
struct rng {
	uint64_t state;
};

uint64_t rng_next(struct rng *rng);
/* 0 to n - 1. */
uint32_t rng_below(struct rng *rng, uint32_t n);
/* A hash of two numbers, for content that both ends can compute. */
uint64_t mix(uint64_t a, uint64_t b);

int64_t now_ms(void);

/* Yield n times; that is short even with many threads. */
void yield_times(uint32_t n);

/* Poll until condition(arg), with yields; false after LONG_MS. */
bool eventually(bool (*condition)(void *arg), void *arg);

/* The number in DFI_TEST_<name>, or the default. */
uint64_t test_setting(const char *name, uint64_t value);

/* n, divided by DFI_TEST_DIVISOR. */
uint32_t fewer(uint32_t n);

/* Create a flow of kv tuples with few arguments; fails the test. */
void create_kv_flow(struct dfi *dfi, const char *name, uint32_t n_sources,
    uint32_t n_targets, uint32_t segment_tuples, uint32_t segment_count);

struct dfi_source *open_source(
    struct dfi *dfi, const char *flow, uint32_t index, uint32_t flags);
struct dfi_target *open_target(
    struct dfi *dfi, const char *flow, uint32_t index, uint32_t flags);

/*
 * The counters of the device of the context's targets; all 0: it uses none.
 * Fails the test if the query does.
 */
struct dfi_transport_stats device_stats(struct dfi *dfi);
/* A counter of its transport; fails the test if there is none of that name. */
uint64_t counter(const struct dfi_transport_stats *stats, const char *name);

/* Skips the test where OpenSSL is not installed. */
void need_tls(void);

/* Whether all flows use RDMA, as in tests/testbed/flows.sh. */
bool over_verbs(void);
/* Whether all flows use RDMA or libfabric. */
bool over_network(void);

/*
 * dfi_target_consume() on a nonblocking target, which waits for tuples on their
 * way: not every transport moves a push to the target's memory at once.
 */
int consume_soon(struct dfi_target *target, const void **tuple);
/* Tuples that hold a number, and the next such tuple of a target, if any. */
struct kv numbered_kv(uint64_t number);
void push_number(struct dfi_source *source, uint64_t number);
void expect_number(struct dfi_target *target, uint64_t number);
void expect_nothing(struct dfi_target *target);
/* Check that the target has ended, and close it. */
void end_target(struct dfi_target *target);
int consume_batch_soon(struct dfi_target *target, struct dfi_batch *batch);
const void *cursor_get_soon(struct dfi_target_cursor *cursor, size_t size);

/* dfi_source_push() that waits for credits on their way. */
int push_soon(struct dfi_source *source, const void *tuple);

/*
 * Assert the exact error of a call, and that its text has each of the words.
 * NULL ends the list.
 */
void expect_error(int line, int ret, int err, ...) __attribute__((sentinel));
#define assert_error(ret, err, ...) \
	expect_error(__LINE__, (ret), (err), __VA_ARGS__, NULL)

#endif
