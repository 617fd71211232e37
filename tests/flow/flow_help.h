/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of flows share: a registry with contexts, random numbers,
 * threads, and waiting for a condition. Helpers that run in a test's main
 * thread fail the test; threads return a text instead, because Criterion's
 * assertions belong to the main thread.
 */
#ifndef DFI_TESTS_FLOW_HELP_H
#define DFI_TESTS_FLOW_HELP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dfi/dfi.h>

/* Long enough that only a hanging test reaches it. */
#define LONG_MS 60000u

/*
 * For what is not to come: a registry answers in less, on a busy machine, too,
 * though the asking thread and those that answer pause for 2 s in turn.
 */
#define SHORT_MS 5000u

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

struct kv {
	uint64_t key, val;
};

extern const struct dfi_schema kv_schema;

/* One registry in this process and two contexts that belong to it. */
struct rig {
	struct dfi_registry *registry;
	struct dfi *dfi;
	struct dfi *other;
};

void rig_start(struct rig *rig);
/* Fails the test if an endpoint is still open. */
void rig_stop(struct rig *rig);
struct dfi *rig_join(const struct rig *rig);

/* Random numbers: splitmix64, so that every seed is a good one. */
struct rng {
	uint64_t state;
};

uint64_t rng_next(struct rng *rng);
/* 0 to n - 1. */
uint32_t rng_below(struct rng *rng, uint32_t n);
/* A hash of two numbers, for content that both ends can compute. */
uint64_t mix(uint64_t a, uint64_t b);

int64_t now_ms(void);

/* Let others run, n times, which is not for long if there are many. */
void yield_times(uint32_t n);

/* Poll until condition(arg), with yields; false after LONG_MS. */
bool eventually(bool (*condition)(void *arg), void *arg);

/* The number in DFI_TEST_<name>, or the default. */
uint64_t test_setting(const char *name, uint64_t value);

/* So many tuples, or the part of them that DFI_TEST_DIVISOR says. */
uint32_t fewer(uint32_t n);

/* The shortest way to a flow of kv tuples; fails the test. */
void create_kv_flow(struct dfi *dfi, const char *name, uint32_t n_sources,
    uint32_t n_targets, uint32_t segment_tuples, uint32_t segment_count);

struct dfi_source *open_source(
    struct dfi *dfi, const char *flow, uint32_t index, uint32_t flags);
struct dfi_target *open_target(
    struct dfi *dfi, const char *flow, uint32_t index, uint32_t flags);

/* Whether all goes over RDMA, as in tests/testbed/flows.sh. */
bool over_verbs(void);

/*
 * dfi_target_consume() with a nonblocking target, but waiting for what is on
 * its way: a push is not in a target's memory at once on every transport.
 */
int consume_soon(struct dfi_target *target, const void **tuple);
/* Tuples that hold a number; what a target of them gives next, or not yet. */
struct kv numbered_kv(uint64_t number);
void push_number(struct dfi_source *source, uint64_t number);
void expect_number(struct dfi_target *target, uint64_t number);
void expect_nothing(struct dfi_target *target);
/* The target's end has come; close it. */
void end_target(struct dfi_target *target);
int consume_batch_soon(struct dfi_target *target, struct dfi_batch *batch);
const void *cursor_get_soon(struct dfi_target_cursor *cursor, size_t size);

/* Likewise dfi_source_push(): credits take their time, too. */
int push_soon(struct dfi_source *source, const void *tuple);

/*
 * Assert the exact code of a call, and that its text has each of the words
 * (a list that ends with NULL).
 */
void expect_error(int line, int ret, int err, ...) __attribute__((sentinel));
#define assert_error(ret, err, ...) \
	expect_error(__LINE__, (ret), (err), __VA_ARGS__, NULL)

#endif
