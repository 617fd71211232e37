/* SPDX-License-Identifier: Apache-2.0 */
/* A context that is closed during a call with it. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>

#include "../flow/flow_help.h"
#include "flows/context/context.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(context, .init = setup, .fini = teardown, .timeout = 300);

static int open_source_in_vain(void)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;

	attr.open_timeout_ms = SHORT_MS;
	return dfi_source_open(rig.dfi, "f", 0, &attr, &source);
}

static int open_target_in_vain(void)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	attr.open_timeout_ms = SHORT_MS;
	return dfi_target_open(rig.dfi, "nothing", 0, &attr, &target);
}

static void *call(void *arg)
{
	int (*open_in_vain)(void) = *(int (**)(void))arg;

	return (void *)(intptr_t)open_in_vain();
}

static bool is_used(void *arg)
{
	return atomic_load(&((struct dfi *)arg)->n_users) > 0;
}

Test(context, is_not_closed_under_a_call)
{
	int (*calls[])(void) = { open_source_in_vain, open_target_in_vain };
	pthread_t thread;
	void *result;
	size_t i;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	for (i = 0; i < N_ELEMENTS(calls); i++) {
		pthread_create(&thread, NULL, call, &calls[i]);
		cr_assert(eventually(is_used, rig.dfi));
		assert_error(
		    dfi_close(rig.dfi), -EBUSY, "calls use the context");
		pthread_join(thread, &result);
		cr_assert_eq((int)(intptr_t)result, -ETIMEDOUT);
		cr_assert_eq(atomic_load(&rig.dfi->n_users), 0);
	}
}

Test(context, takes_nobody_while_it_is_closed)
{
	uint32_t closing = UINT32_MAX;

	atomic_store(&rig.dfi->n_users, closing);
	cr_assert_eq(open_source_in_vain(), -EBUSY);
	assert_error(dfi_flow_remove(rig.dfi, "f"), -EBUSY, "being closed");
	assert_error(dfi_close(rig.dfi), -EBUSY, "being closed");
	cr_assert_eq(atomic_load(&rig.dfi->n_users), closing);
	atomic_store(&rig.dfi->n_users, 0);
}

struct closing {
	struct dfi *dfi;
	int ret;
	_Atomic bool done;
};

static void *close_context(void *arg)
{
	struct closing *closing = arg;

	closing->ret = dfi_close(closing->dfi);
	closing->done = true;
	return NULL;
}

/* Not by a call with it: while that runs, dfi_close() says -EBUSY. */
static bool is_retired(void *arg)
{
	const struct dfi *dfi = arg;

	return __atomic_load_n(&dfi->magic, __ATOMIC_SEQ_CST) != CONTEXT_MAGIC;
}

/* A call that has seen it open, and not yet its close. */
Test(context, stays_while_a_call_looks_whether_it_is_closed)
{
	struct closing closing = { .done = false };
	struct dfi_attr attr = DFI_ATTR_INIT;
	pthread_t thread;

	attr.registry = dfi_registry_address(rig.registry);
	cr_assert_eq(dfi_open(&attr, &closing.dfi), 0, "%s", dfi_errmsg());
	cr_assert(dfi__handle_hold(closing.dfi, CONTEXT_MAGIC));
	pthread_create(&thread, NULL, close_context, &closing);
	cr_assert(eventually(is_retired, closing.dfi));
	cr_assert_not(closing.done);
	cr_assert_neq(atomic_load(&closing.dfi->n_users), 0);
	assert_error(dfi_close(closing.dfi), -EBADF, "was closed before");
	dfi__handle_release(closing.dfi);
	pthread_join(thread, NULL);
	cr_assert_eq(closing.ret, 0);
}
