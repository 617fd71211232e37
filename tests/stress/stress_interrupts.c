/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal handlers interrupt waiting calls at any moment: each handler ends
 * exactly one call with -EINTR. The handler runs in turn on the waiting thread
 * and on another one. The limit of a sleep, which hides lost wake-ups, is an
 * hour. So an interrupt that is lost just before the sleep shows as a call that
 * does not end.
 *
 * stress_interrupts [INTERRUPTS]: of each kind of handle.
 */
#include <signal.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/notify.h"
#include "base/wait.h"
#include "stress_help.h"

#define INTERRUPTS 3000

struct kv {
	uint64_t key, val;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct kv, key),
	DFI_FIELD(struct kv, val),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct kv, fields);

static struct dfi *dfi;
static struct dfi_source *source;
static struct dfi_target *target;
static struct dfi_target_group *group;
static struct dfi_barrier *participants[2];

/*
 * ThreadSanitizer keeps a signal back until the thread calls a function that it
 * wraps, so one that comes just before the sleep would wait for its end. In a
 * build with it the handler runs on the other thread only.
 */
#ifdef __SANITIZE_THREAD__
#define ON_OWNER false
#else
#define ON_OWNER true
#endif

/* A kind of handle: how its owner waits, and how it is interrupted. */
struct kind {
	const char *name;
	int (*wait)(void);
	void (*interrupt)(void);
};

static const struct kind *kind;
static _Atomic uint32_t n_reported; /* calls that returned -EINTR */
static uint32_t n_interrupts = INTERRUPTS;

static int wait_for_tuple(void)
{
	const void *tuple;

	return dfi_target_consume(target, &tuple);
}

static int wait_for_room(void)
{
	struct kv kv = { 0, 0 };
	int ret;

	do {
		ret = dfi_source_push(source, &kv);
	} while (!ret);
	return ret;
}

static int wait_for_targets(void)
{
	struct dfi_target_group_batch batch;

	return dfi_target_group_consume_batch(group, &batch);
}

static int wait_for_participant(void)
{
	return dfi_barrier_wait(participants[0], 0);
}

static void interrupt_target(void)
{
	dfi_target_interrupt(target);
}

static void interrupt_source(void)
{
	dfi_source_interrupt(source);
}

static void interrupt_group(void)
{
	dfi_target_group_interrupt(group);
}

static void interrupt_barrier(void)
{
	dfi_barrier_interrupt(participants[0]);
}

static void on_signal(int number)
{
	(void)number;
	kind->interrupt();
}

/* Waits as long as it is interrupted. */
static void *own(void *result)
{
	int ret;

	while ((ret = kind->wait()) == -EINTR)
		atomic_fetch_add(&n_reported, 1);
	*(int *)result = ret;
	return NULL;
}

/* Interrupt the owner again and again; *result is what its last call returns.
 */
static pthread_t interrupt_often(const struct kind *of, int *result)
{
	struct rng rng = { 1 };
	int64_t deadline;
	pthread_t owner;
	uint32_t i, pause;

	kind = of;
	atomic_store(&n_reported, 0);
	owner = start_thread(own, result);
	for (i = 1; i <= n_interrupts; i++) {
		for (pause = rng_below(&rng, 20000); pause; pause--)
			__asm__("");
		if (ON_OWNER && i % 2)
			pthread_kill(owner, SIGUSR1);
		else
			raise(SIGUSR1);
		deadline = clock_now_ns() + (int64_t)LONG_MS * NS_PER_MS;
		while (atomic_load(&n_reported) != i) {
			check(clock_now_ns() < deadline,
			    "%s: interrupt %u is lost: %u were told", of->name,
			    i, atomic_load(&n_reported));
			sched_yield();
		}
	}
	return owner;
}

static void open_flow(const char *name, enum dfi_wait wait)
{
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_source_attr to = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr from = DFI_TARGET_ATTR_INIT;

	flow.kind = DFI_SHUFFLE;
	flow.schema = &schema;
	flow.n_sources = flow.n_targets = 1;
	flow.segment_size = sizeof(struct kv);
	flow.segment_count = 2;
	to.wait = from.wait = wait;
	check(dfi_flow_create(dfi, name, &flow) == 0, "no flow");
	check(dfi_target_open(dfi, name, 0, &from, &target) == 0, "no target");
	check(dfi_source_open(dfi, name, 0, &to, &source) == 0, "no source");
}

static void interrupt_consuming(const char *name, enum dfi_wait wait)
{
	struct kind of = { name, wait_for_tuple, interrupt_target };
	pthread_t owner;
	int ret;

	open_flow(name, wait);
	owner = interrupt_often(&of, &ret);
	check(dfi_source_close(source) == 0, "the source does not close");
	pthread_join(owner, NULL);
	check(ret == 0, "%s: %d at the end", name, ret);
	check(dfi_target_close(target) == 0, "the target does not close");
}

static void interrupt_pushing(const char *name, enum dfi_wait wait)
{
	struct kind of = { name, wait_for_room, interrupt_source };
	pthread_t owner;
	int ret;

	open_flow(name, wait);
	owner = interrupt_often(&of, &ret);
	check(dfi_target_cancel(target) == 0, "the target does not cancel");
	pthread_join(owner, NULL);
	check(ret == -EPIPE, "%s: %d at the end", name, ret);
	check(dfi_source_close(source) == 0, "the source does not close");
	check(dfi_target_close(target) == 0, "the target does not close");
}

static void interrupt_groups(const char *name, enum dfi_wait wait)
{
	struct kind of = { name, wait_for_targets, interrupt_group };
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	pthread_t owner;
	int ret;

	attr.wait = wait;
	open_flow(name, wait);
	check(dfi_target_group_open(dfi, &attr, &group) == 0, "no group");
	check(dfi_target_group_add(group, target, NULL) == 0, "no participant");
	owner = interrupt_often(&of, &ret);
	check(dfi_source_close(source) == 0, "the source does not close");
	pthread_join(owner, NULL);
	check(ret == 0, "%s: %d at the end", name, ret);
	check(dfi_target_group_close(group) == 0, "the group does not close");
	check(dfi_target_close(target) == 0, "the target does not close");
}

static void interrupt_barriers(void)
{
	struct kind of = { "barrier", wait_for_participant, interrupt_barrier };
	pthread_t owner;
	uint32_t i;
	int ret;

	for (i = 0; i < 2; i++)
		check(dfi_barrier_open(dfi, "b", 2, i, &participants[i]) == 0,
		    "no barrier");
	owner = interrupt_often(&of, &ret);
	check(dfi_barrier_wait(participants[1], 0) == 0,
	    "the round does not end");
	pthread_join(owner, NULL);
	check(ret == 0, "barrier: %d at the end", ret);
	for (i = 0; i < 2; i++)
		check(
		    dfi_barrier_close(participants[i]) == 0, "does not close");
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;

	if (argc > 1)
		n_interrupts = (uint32_t)strtoul(argv[1], NULL, 10);
	dfi__wait_longest_ns = dfi__notify_longest_ns = INT64_C(3600) *
	    NS_PER_S;
	/* The kernel restarts some of these calls, and not others. */
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, NULL);
	check(dfi_registry_start(NULL, &registry) == 0, "no registry");
	attr.registry = dfi_registry_address(registry);
	check(dfi_open(&attr, &dfi) == 0, "no context");
	interrupt_consuming("consuming-sleeps", DFI_WAIT_BLOCK);
	interrupt_consuming("consuming", DFI_WAIT_ADAPTIVE);
	interrupt_pushing("pushing-sleeps", DFI_WAIT_BLOCK);
	interrupt_pushing("pushing", DFI_WAIT_ADAPTIVE);
	interrupt_groups("group-sleeps", DFI_WAIT_BLOCK);
	interrupt_groups("group", DFI_WAIT_ADAPTIVE);
	interrupt_barriers();
	check(dfi_close(dfi) == 0, "the context does not close");
	return dfi_registry_stop(registry) < 0;
}
