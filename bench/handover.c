/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source pushes batches by key as fast as the first target takes them. A
 * second one opens its seat and gets every second partition: the first owner
 * hears of each that leaves once it has consumed what was sent before, and
 * releases it at once.
 */
#include "handover.h"

#include <dfi/event.h>
#include <dfi/open_flow.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "../common/complain.h"
#include "flow_job.h"

#define FLOW "dfi-bench.handover"
#define TUPLE 64
#define BATCH 32
#define PARTITIONS 256
#define LOAD_TUPLES 200000 /* before the second target joins */
#define LIMIT_NS (UINT64_C(60) * 1000 * 1000 * 1000)

struct owner {
	struct dfi_target *target;
	pthread_t thread;
	_Atomic uint64_t tuples;
	_Atomic uint64_t first_leaving_ns;
	_Atomic uint32_t gained;
	_Atomic uint64_t whole_ns; /* of a tuple behind the last gained */
	uint32_t awaited;          /* partitions; 0: none */
	int ret;
};

struct load {
	struct dfi_source *source;
	pthread_t thread;
	_Atomic bool stops;
	uint64_t tuples;
	int ret;
};

static void *push_all(void *arg)
{
	static const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
	struct load *load = arg;
	uint64_t batch[BATCH][TUPLE / 8] = { { 0 } };
	uint64_t key = 0;
	int ret = 0, i;

	while (ret >= 0 && !atomic_load(&load->stops)) {
		for (i = 0; i < BATCH; i++)
			batch[i][0] = key++ * odd;
		ret = dfi_source_push_batch(load->source, batch, BATCH);
		load->tuples += ret > 0 ? (uint64_t)ret : 0;
	}
	load->ret = ret < 0 ? ret : dfi_source_close(load->source);
	return NULL;
}

static int take_event(struct owner *owner)
{
	struct dfi_event event;
	int ret = dfi_target_event(owner->target, &event);

	if (ret < 0)
		return ret;
	if (event.type == DFI_GAINED)
		atomic_fetch_add(&owner->gained, 1);
	if (event.type != DFI_LEAVING)
		return 0;
	if (!atomic_load(&owner->first_leaving_ns))
		atomic_store(&owner->first_leaving_ns, now_ns());
	return dfi_partition_release(owner->target, event.partition);
}

static void *own(void *arg)
{
	struct owner *owner = arg;
	struct dfi_batch batch;
	int ret;

	for (;;) {
		ret = dfi_target_consume_batch(owner->target, &batch);
		if (ret == -ENOMSG)
			ret = take_event(owner);
		else if (ret <= 0)
			break;
		else {
			if (owner->awaited &&
			    atomic_load(&owner->gained) == owner->awaited &&
			    !atomic_load(&owner->whole_ns))
				atomic_store(&owner->whole_ns, now_ns());
			atomic_fetch_add(&owner->tuples, (uint64_t)ret);
			dfi_target_release(owner->target, &batch);
		}
		if (ret < 0)
			break;
	}
	owner->ret = ret;
	return NULL;
}

static bool create(struct dfi *dfi)
{
	static struct tuple_schema schema;
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	tuple_schema_init(&schema, TUPLE);
	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema.schema;
	attr.n_sources = 1;
	attr.n_targets = 2;
	attr.routing = DFI_ROUTE_HASH;
	attr.transport = DFI_TRANSPORT_SHM;
	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.partitions = PARTITIONS;
	return dfi_flow_create(dfi, FLOW, &attr) == 0;
}

static bool open_owner(struct dfi *dfi, uint32_t seat, struct owner *owner)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	attr.flags = DFI_EVENTS;
	return dfi_target_open(dfi, FLOW, seat, &attr, &owner->target) == 0 &&
	    !pthread_create(&owner->thread, NULL, own, owner);
}

/* Wait until a word is at least that. false: it took too long. */
static bool await(const _Atomic uint64_t *word, uint64_t least)
{
	uint64_t until = now_ns() + LIMIT_NS;

	while (atomic_load(word) < least) {
		if (now_ns() > until)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	}
	return true;
}

/* The ends of the threads, and whether all tuples came. */
static bool end(struct dfi *dfi, struct load *load, struct owner owners[2])
{
	bool done = dfi_flow_finish(dfi, FLOW) == 0;
	uint32_t i;

	atomic_store(&load->stops, true);
	pthread_join(load->thread, NULL);
	for (i = 0; i < 2; i++) {
		pthread_join(owners[i].thread, NULL);
		done = dfi_target_close(owners[i].target) == 0 &&
		    !owners[i].ret && done;
	}
	done = dfi_flow_remove(dfi, FLOW) == 0 && done;
	return done && !load->ret &&
	    load->tuples ==
	    atomic_load(&owners[0].tuples) + atomic_load(&owners[1].tuples);
}

bool handover_measure(struct session *session, struct handover *result)
{
	struct owner owners[2] = { { .target = NULL },
		{ .awaited = PARTITIONS / 2 } };
	struct load load = { .source = NULL };
	uint64_t begin, left;

	if (!create(session->dfi) || !open_owner(session->dfi, 0, &owners[0]) ||
	    dfi_source_open(session->dfi, FLOW, 0, NULL, &load.source) < 0 ||
	    pthread_create(&load.thread, NULL, push_all, &load) ||
	    !await(&owners[0].tuples, LOAD_TUPLES)) {
		complain("a hand-over: %s", dfi_errmsg());
		return false;
	}
	begin = now_ns();
	if (!open_owner(session->dfi, 1, &owners[1]) ||
	    !await(&owners[1].whole_ns, 1)) {
		complain("a hand-over did not end: %s", dfi_errmsg());
		return false;
	}
	left = atomic_load(&owners[0].first_leaving_ns);
	result->drain_ms = (double)(left - begin) * 1e-6;
	result->value_ms = (double)(owners[1].whole_ns - left) * 1e-6;
	result->verified = end(session->dfi, &load, owners);
	return true;
}
