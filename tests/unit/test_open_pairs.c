/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The making of pairs in orders that are rare: a side fails when the other has
 * seen it, or two pairs of a seat are unmade late.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/open_flow.h>

#include "../flow/flow_help.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/wait.h"
#include "flows/context/context.h"
#include "flows/endpoint/source.h"
#include "flows/endpoint/target.h"
#include "flows/kinds/kinds.h"
#include "flows/kinds/open/pairs.h"
#include "flows/members/attach.h"
#include "registry/client/client.h"

#define SEATS 4

/* A side of the flow whose pairs the test makes, and what made them. */
struct side {
	struct pairs pairs;
	struct peers sleeper;
	struct flow flow;
	enum open_role role;
	_Atomic uint32_t n_made, n_failed, n_unmade;
	uint64_t made[64]; /* the ids of pairs, in order */
	uint32_t fails;    /* so often the making fails when seen */
	bool retries;      /* a source's side, before the target has noticed */
	/* A seat whose pair is made when the test says so, or SEATS. */
	uint32_t slow_seat;
	sem_t in_slow, go_on;
};

static struct rig rig;
static struct side side;

static int64_t soon(void)
{
	return deadline_in_ms(LONG_MS);
}

static void setup(void)
{
	rig_start(&rig);
	sem_init(&side.in_slow, 0, 0);
	sem_init(&side.go_on, 0, 0);
	side.slow_seat = SEATS;
}

static void teardown(void)
{
	rig_stop(&rig);
	sem_destroy(&side.in_slow);
	sem_destroy(&side.go_on);
}

TestSuite(open_pairs, .init = setup, .fini = teardown, .timeout = 300);

static void create(uint32_t on_loss)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = DFI_ROUTE_DIRECT,
		.segment_size = 8 * (uint32_t)sizeof(struct kv),
		.segment_count = 8,
		.open = { .membership = DFI_MEMBERS_OPEN, .on_loss = on_loss },
	};

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

/* Take a seat, whose pairs ops makes. */
static void open_side(
    enum open_role role, uint32_t seat, const struct pairs_ops *ops)
{
	cr_assert_eq(dfi__attach_find(rig.other, "f",
			 role == OPEN_SOURCE ? "source" : "target", seat, NULL,
			 soon(), &side.flow),
	    0, "%s", dfi_errmsg());
	side.role = role;
	side.pairs.ops = ops;
	side.pairs.owner = &side;
	side.pairs.sleeper = &side.sleeper;
	cr_assert_eq(dfi__pairs_open(&side.pairs, rig.other, &side.flow, role,
			 seat, soon()),
	    0, "%s", dfi_errmsg());
}

static void close_side(void)
{
	dfi__pairs_close(&side.pairs);
	dfi__flow_free(&side.flow);
}

/* ---- Sides that fail --------------------------------------------------- */

static void unmake_real(void *end)
{
	if (side.role == OPEN_TARGET)
		(void)dfi_target_close(end);
	else
		(void)dfi_source_close(end);
}

/* Whether the other side has attached to the pair of that id. */
static bool is_attached(uint64_t id)
{
	struct seat_watch *seats = &side.pairs.seats;
	bool attached = false;
	uint32_t i;

	pthread_mutex_lock(&seats->lock);
	for (i = 0; i < seats->n_others; i++)
		attached |= seats->pairs[i][0] == id;
	pthread_mutex_unlock(&seats->lock);
	return attached;
}

static int open_target_side(struct flow *part, int64_t deadline, void **out)
{
	static const struct dfi_target_attr attr = {
		.size = sizeof(attr),
		.flags = DFI_NONBLOCK,
	};
	struct wait_policy wait = { .sleeps = true };

	return dfi__target_open(rig.other, &dfi__shuffle_kind, part,
	    part->part.first_target, &attr, &wait, deadline,
	    (struct dfi_target **)out);
}

static int open_source_side(struct flow *part, int64_t deadline, void **out)
{
	static const struct dfi_source_attr attr = {
		.size = sizeof(attr),
		.flags = DFI_NONBLOCK,
		.linger_us = DFI_NO_LINGER,
	};
	struct wait_policy wait = { .sleeps = true };

	return dfi__source_open(rig.other, &dfi__shuffle_kind, part,
	    part->part.first_source, &attr, &wait, deadline,
	    (struct dfi_source **)out);
}

/*
 * As a source's side whose claim is answered too late: the target makes another
 * pair.
 */
static int fail_source_side(struct flow *part, int64_t deadline)
{
	uint64_t id = part->part.pair;
	char key[KEY_SIZE];
	int ret = dfi__attach_claim(
	    rig.other, part, part->part.first_source, "", NULL, deadline);

	dfi__endpoint_key(key, part, "source", part->part.first_source);
	dfi__client_forget(rig.other->registry, key);
	dfi__flow_free(part);
	while (!ret && !side.retries && is_attached(id))
		yield_times(1);
	return ret;
}

/* The target's side fails when the source's has attached. */
static int fail_target_side(struct flow *part, int64_t deadline)
{
	uint64_t id = part->part.pair;
	void *end;
	int ret = open_target_side(part, deadline, &end);

	if (ret < 0)
		return ret;
	while (!is_attached(id))
		yield_times(1);
	return dfi_target_close(end);
}

/* A real side of a pair, or one that fails when the other has seen it. */
static int make_real(
    void *owner, struct flow *part, int64_t deadline, void **out)
{
	bool fails = side.fails > 0, is_target = side.role == OPEN_TARGET;
	uint64_t id = part->part.pair;
	int ret = dfi__context_enter(rig.other);

	(void)owner;
	cr_assert_eq(ret, 0);
	if (fails)
		ret = is_target ? fail_target_side(part, deadline)
				: fail_source_side(part, deadline);
	else
		ret = is_target ? open_target_side(part, deadline, out)
				: open_source_side(part, deadline, out);
	if (ret < 0 || (fails && !is_target))
		dfi__context_leave(rig.other);
	if (ret < 0) {
		side.n_failed++;
		return ret;
	}
	side.made[side.n_made++] = id;
	if (!fails)
		return 0;
	side.fails--;
	return dfi__fail(-ETIMEDOUT, "the test lets this fail");
}

static void discard_real(void *end)
{
	dfi__source_vanish(end);
}

static const struct pairs_ops real_ops = {
	.make = make_real,
	.unmake = unmake_real,
	.discard = discard_real,
};

static void await_count(_Atomic uint32_t *count, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;

	while (*count < n && now_ms() < until)
		yield_times(1);
	cr_assert_eq(*count, n);
}

/* Wait for the next pair of a seat that can be taken. */
static struct pair *await_pair(uint32_t seat)
{
	int64_t until = now_ms() + LONG_MS;
	struct pair *pair;

	do {
		pthread_mutex_lock(&side.pairs.seats.lock);
		pair = dfi__pairs_take(&side.pairs, seat, false);
		pthread_mutex_unlock(&side.pairs.seats.lock);
	} while (!pair && now_ms() < until);
	cr_assert_not_null(pair, "no pair of seat %u", seat);
	return pair;
}

static void fail_target(uint32_t on_loss)
{
	int64_t until = now_ms() + LONG_MS;
	struct kv kv = numbered_kv(7);
	struct dfi_source *source;
	struct pair *pair;
	int ret;

	create(on_loss);
	side.fails = 2;
	open_side(OPEN_TARGET, 1, &real_ops);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	/* It uses each pair as soon as it is there. */
	while (side.n_made < 3 && now_ms() < until)
		cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
	pair = await_pair(0);
	cr_assert_eq(side.n_made, 3);
	cr_assert_eq(side.n_failed, 0, "a retry was refused");
	cr_assert_neq(side.made[0], side.made[1]);
	cr_assert_neq(side.made[1], side.made[2]);
	/* The source may not have heard yet. */
	do
		ret = dfi_source_push_to(source, 1, &kv);
	while (ret == -EAGAIN || ret == -ENXIO);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_number(pair->end, 7);
	dfi__pairs_retire(&side.pairs, pair);
	close_side();
}

Test(open_pairs, a_target_that_fails_when_seen_makes_the_pair_again)
{
	fail_target(DFI_ON_LOSS_DROP);
}

/* Nobody is lost: the source has heard nothing of that pair's target. */
Test(open_pairs, a_target_that_fails_when_seen_harms_no_source)
{
	fail_target(DFI_ON_LOSS_FAIL);
}

static void fail_source(uint32_t on_loss)
{
	int64_t until = now_ms() + LONG_MS;
	struct kv kv = numbered_kv(7);
	struct dfi_target *target;
	struct pair *pair;
	const void *tuple;
	int ret;

	create(on_loss);
	target = open_target(rig.dfi, "f", 2, DFI_NONBLOCK);
	side.fails = 2;
	open_side(OPEN_SOURCE, 0, &real_ops);
	/* The target's calls show it that the source's side is gone. */
	while (side.n_made < 3 && now_ms() < until)
		cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN, "%s",
		    dfi_errmsg());
	pair = await_pair(2);
	cr_assert_neq(side.made[0], side.made[1]);
	cr_assert_neq(side.made[1], side.made[2]);
	cr_assert_eq(
	    dfi_source_push_to(pair->end, 0, &kv), 0, "%s", dfi_errmsg());
	dfi__pairs_retire(&side.pairs, pair);
	while ((ret = dfi_target_consume(target, &tuple)) == -EAGAIN)
		yield_times(1);
	cr_assert_eq(ret, 1, "%s", dfi_errmsg());
	cr_assert_eq(((const struct kv *)tuple)->val, numbered_kv(7).val);
	close_side();
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(open_pairs, a_source_that_fails_when_seen_gets_another_pair)
{
	fail_source(DFI_ON_LOSS_DROP);
}

Test(open_pairs, a_source_that_fails_when_seen_harms_no_target)
{
	fail_source(DFI_ON_LOSS_FAIL);
}

/*
 * The target may take what it has seen of the first attempt for a loss, also
 * after the source has attached again.
 */
static void leave_before(uint32_t on_loss)
{
	int64_t until = now_ms() + LONG_MS;
	struct kv kv = numbered_kv(7);
	struct dfi_target *target;
	struct pair *pair;
	const void *tuple;
	int ret;

	create(on_loss);
	target = open_target(rig.dfi, "f", 2, DFI_NONBLOCK);
	side.fails = 1;
	side.retries = true;
	open_side(OPEN_SOURCE, 0, &real_ops);
	await_count(&side.n_made, 2);
	cr_assert_eq(side.made[0], side.made[1]);
	while (side.n_made < 3 && now_ms() < until)
		cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN, "%s",
		    dfi_errmsg());
	cr_assert_eq(side.n_made, 3, "the source keeps a pair that it left");
	cr_assert_neq(side.made[1], side.made[2]);
	pair = await_pair(2);
	cr_assert_eq(
	    dfi_source_push_to(pair->end, 0, &kv), 0, "%s", dfi_errmsg());
	dfi__pairs_retire(&side.pairs, pair);
	while ((ret = dfi_target_consume(target, &tuple)) == -EAGAIN)
		yield_times(1);
	cr_assert_eq(ret, 1, "%s", dfi_errmsg());
	close_side();
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(open_pairs, a_source_that_was_seen_to_leave_gets_another_pair)
{
	leave_before(DFI_ON_LOSS_DROP);
}

Test(open_pairs, a_source_that_was_seen_to_leave_harms_no_target)
{
	leave_before(DFI_ON_LOSS_FAIL);
}

/* ---- Changes in the order of keys --------------------------------------- */

static void see(struct seat_watch *watch, enum registry_event_type type,
    const char *key, const void *data, size_t size)
{
	struct registry_event event = {
		.type = type,
		.key = key,
		.data = data,
		.size = size,
		.revision = UINT64_MAX,
	};

	dfi__seat_watch_see(watch, &event);
}

/*
 * A target died while the registry was away. The next one has made its pair
 * before this source's connection is back.
 */
Test(open_pairs, a_pair_may_be_seen_before_its_target)
{
	struct endpoint target = { .node = rig.dfi->node, .incarnation = 7 };
	char key[KEY_SIZE], pair_key[KEY_SIZE];
	struct seat_watch watch;
	struct flow part;
	uint64_t id;
	size_t size;
	void *data;

	create(DFI_ON_LOSS_DROP);
	cr_assert_eq(dfi__attach_find(
			 rig.other, "f", "source", 0, NULL, soon(), &side.flow),
	    0, "%s", dfi_errmsg());
	cr_assert_eq(dfi__seat_watch_open(&watch, rig.other, &side.flow,
			 OPEN_SOURCE, 0, 0, soon()),
	    0, "%s", dfi_errmsg());
	id = dfi__seat_watch_pair(&watch, target.incarnation, 0);
	cr_assert_eq(dfi__flow_pair(&side.flow, 0, 2, id, 1, &part), 0);
	dfi__endpoint_key(pair_key, &part, "target", 2);
	dfi__endpoint_key(key, &side.flow, "target", 2);
	data = dfi__endpoint_encode(&target, &size);
	see(&watch, REGISTRY_LOST, NULL, NULL, 0);
	see(&watch, REGISTRY_PUT, pair_key, data, size);
	see(&watch, REGISTRY_PUT, key, data, size);
	cr_assert_eq(seat_watch_holder(&watch, 2), target.incarnation);
	see(&watch, REGISTRY_BACK, NULL, NULL, 0);
	cr_assert_eq(
	    dfi__seat_watch_attached(&watch, 2, target.incarnation), id);
	free(data);
	dfi__flow_free(&part);
	dfi__seat_watch_close(&watch);
	dfi__flow_free(&side.flow);
}

/* ---- Pairs that are unmade late ---------------------------------------- */

static int make_nothing(
    void *owner, struct flow *part, int64_t deadline, void **out)
{
	(void)owner;
	(void)deadline;
	if (part->part.first_source == side.slow_seat) {
		sem_post(&side.in_slow);
		sem_wait(&side.go_on);
	}
	side.made[side.n_made] = part->part.pair;
	*out = &side.made[side.n_made++];
	dfi__flow_free(part);
	return 0;
}

static void unmake_nothing(void *end)
{
	(void)end;
	side.n_unmade++;
}

static const struct pairs_ops no_ops = {
	.make = make_nothing,
	.unmake = unmake_nothing,
};

static void take_seat(struct seat_watch *source, uint32_t seat)
{
	cr_assert_eq(dfi__seat_watch_open(source, rig.dfi, &side.flow,
			 OPEN_SOURCE, seat, 0, soon()),
	    0, "%s", dfi_errmsg());
}

/*
 * The helper finds two pairs of a seat that the owner is done with, unmakes the
 * newer one first, and sees that its source still holds the seat.
 */
Test(open_pairs, a_pair_that_is_over_is_not_made_again)
{
	struct seat_watch first, second, slow;
	struct pair *pair;
	uint32_t i;

	create(DFI_ON_LOSS_DROP);
	open_side(OPEN_TARGET, 0, &no_ops);
	take_seat(&first, 1);
	pair = await_pair(1);
	dfi__seat_watch_close(&first);
	take_seat(&second, 1);
	await_count(&side.n_made, 2);
	/* The first pair is in the slot that the helper looks at last. */
	cr_assert_eq(pair, &side.pairs.of[1].pair[SEAT_PAIRS - 1]);
	side.slow_seat = 3;
	take_seat(&slow, 3);
	sem_wait(&side.in_slow);
	dfi__pairs_retire(&side.pairs, pair);
	dfi__pairs_retire(&side.pairs, await_pair(1));
	sem_post(&side.go_on);
	await_count(&side.n_unmade, 2);
	/* When this pair is there, the helper has looked at seat 1 again. */
	take_seat(&first, 0);
	(void)await_pair(0);
	for (i = 0; i < side.n_made; i++)
		cr_assert(i == 1 || side.made[i] != side.made[1],
		    "the pair of the second source was made twice");
	cr_assert_eq(side.n_made, 4);
	dfi__seat_watch_close(&first);
	dfi__seat_watch_close(&second);
	dfi__seat_watch_close(&slow);
	close_side();
}

static void unmake_slowly(void *end)
{
	(void)end;
	if (side.slow_seat < SEATS) {
		sem_post(&side.in_slow);
		sem_wait(&side.go_on);
	}
	side.n_unmade++;
}

static const struct pairs_ops slow_ops = {
	.make = make_nothing,
	.unmake = unmake_slowly,
};

static bool has_heard_of(void *target)
{
	struct seat_watch *watch = &side.pairs.seats;
	uint64_t holder;

	pthread_mutex_lock(&watch->lock);
	holder = seat_watch_holder(watch, 2);
	pthread_mutex_unlock(&watch->lock);
	return holder == ((struct seat_watch *)target)->incarnation;
}

/* The registry says that a target's side of a pair is there. */
static void see_side(uint32_t seat, uint64_t incarnation, uint32_t attempt)
{
	struct seat_watch *watch = &side.pairs.seats;
	uint64_t id = dfi__seat_watch_pair(watch, incarnation, attempt);
	struct endpoint target = {
		.node = rig.dfi->node,
		.incarnation = incarnation,
	};
	char key[KEY_SIZE];
	struct flow part;
	size_t size;
	void *data = dfi__endpoint_encode(&target, &size);

	cr_assert_eq(dfi__flow_pair(&side.flow, watch->seats.own_seat, seat, id,
			 watch->incarnation, &part),
	    0);
	dfi__endpoint_key(key, &part, "target", seat);
	see(watch, REGISTRY_PUT, key, data, size);
	free(data);
	dfi__flow_free(&part);
}

/*
 * The owner has yet to take a pair of which the target has made another. While
 * the helper closes it, without the lock, it is not the owner's any more.
 */
Test(open_pairs, a_pair_that_is_left_over_is_not_taken)
{
	struct seat_watch target;
	struct pair *pair;

	create(DFI_ON_LOSS_DROP);
	open_side(OPEN_SOURCE, 0, &slow_ops);
	cr_assert_eq(dfi__seat_watch_open(&target, rig.dfi, &side.flow,
			 OPEN_TARGET, 2, 0, soon()),
	    0, "%s", dfi_errmsg());
	cr_assert(eventually(has_heard_of, &target));
	see_side(2, target.incarnation, 0);
	await_count(&side.n_made, 1);
	side.slow_seat = 2;
	see_side(2, target.incarnation, 1);
	sem_wait(&side.in_slow);
	pthread_mutex_lock(&side.pairs.seats.lock);
	pair = dfi__pairs_take(&side.pairs, 2, false);
	pthread_mutex_unlock(&side.pairs.seats.lock);
	side.slow_seat = SEATS;
	sem_post(&side.go_on);
	cr_assert_null(pair, "a pair was taken that is being closed");
	pair = await_pair(2);
	cr_assert_eq(pair->id, side.made[1]);
	cr_assert_neq(pair->id, side.made[0]);
	cr_assert_eq(side.n_unmade, 1);
	dfi__pairs_retire(&side.pairs, pair);
	dfi__seat_watch_close(&target);
	close_side();
}

/* ---- What is left ------------------------------------------------------ */

static size_t count_keys(void)
{
	struct registry_value *values;
	size_t n;

	cr_assert_eq(
	    dfi__client_list(rig.dfi->registry, "flows/", soon(), &values, &n),
	    0, "%s", dfi_errmsg());
	dfi__registry_values_free(values, n);
	return n;
}

struct visited {
	struct dfi_target *target;
	size_t keys;
};

/* The target's calls take over that sources have ended. */
static bool keys_are(void *arg)
{
	struct visited *visited = arg;
	const void *tuple;

	cr_assert_eq(dfi_target_consume(visited->target, &tuple), -EAGAIN);
	return count_keys() == visited->keys;
}

Test(open_pairs, visits_leave_no_keys)
{
	uint32_t n = (uint32_t)test_setting("OPEN_VISITS", fewer(200)), i;
	struct visited visited;
	struct dfi_source *source;
	const void *tuple;
	struct kv kv;

	create(DFI_ON_LOSS_DROP);
	visited.target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	visited.keys = count_keys();
	for (i = 0; i < n; i++) {
		kv = numbered_kv(i);
		source = open_source(rig.dfi, "f", DFI_ANY_SEAT, 0);
		cr_assert_eq(
		    dfi_source_push_to(source, 0, &kv), 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
		cr_assert_eq(consume_soon(visited.target, &tuple), 1);
	}
	cr_assert(eventually(keys_are, &visited), "%zu keys, and now %zu",
	    visited.keys, count_keys());
	cr_assert_eq(dfi_target_close(visited.target), 0, "%s", dfi_errmsg());
}

/* ---- Tables ------------------------------------------------------------ */

/* The value of the table of that number, or of any if it is 0. */
static bool find_table(uint64_t number, char *key, struct registry_value *table)
{
	struct registry_value *values;
	const char *at;
	bool found = false;
	size_t n, i;

	cr_assert_eq(
	    dfi__client_list(rig.dfi->registry, "flows/", soon(), &values, &n),
	    0, "%s", dfi_errmsg());
	for (i = 0; i < n && !found; i++) {
		at = strstr(values[i].key, "/tables/");
		found = at &&
		    (!number ||
			strtoull(at + strlen("/tables/"), NULL, 10) == number);
		if (!found || !table)
			continue;
		snprintf(key, KEY_SIZE, "%s", values[i].key);
		cr_assert_eq(
		    dfi__client_get(rig.dfi->registry, key, soon(), table), 0);
	}
	dfi__registry_values_free(values, n);
	return found;
}

static bool has_table(void *arg)
{
	const uint64_t *number = arg;

	return find_table(*number, NULL, NULL);
}

static bool has_none(void *arg)
{
	(void)arg;
	return !find_table(0, NULL, NULL);
}

static bool have_ended(void *arg)
{
	struct dfi_target **targets = arg;
	const void *tuple;
	bool all = true;
	uint32_t t;

	for (t = 0; t < 3; t++)
		all &= dfi_target_consume(targets[t], &tuple) == 0;
	return all;
}

static bool is_removed(void *arg)
{
	(void)dfi_flow_remove(rig.dfi, "f");
	return has_none(arg);
}

/*
 * Those who were to delete the first table have left before. Who came later
 * would count on from what is left, while others count from 1.
 */
Test(open_pairs, the_last_target_leaves_no_table)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.open = { .membership = DFI_MEMBERS_OPEN, .partitions = 8 },
	};
	struct registry_value first = { .data = NULL };
	struct dfi_target *targets[3];
	char key[KEY_SIZE];
	uint64_t t;

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	for (t = 0; t < 3; t++) {
		targets[t] = open_target(
		    rig.other, "f", (uint32_t)t, DFI_NONBLOCK);
		cr_assert(eventually(has_table, &(uint64_t){ t + 1 }));
		if (t == 0)
			cr_assert(find_table(1, key, &first));
		if (t == 1)
			cr_assert_eq(
			    dfi__client_put(rig.dfi->registry, key, first.data,
				first.size, 0, soon(), NULL),
			    0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	/* They have heard of it. */
	cr_assert(eventually(have_ended, targets));
	for (t = 0; t < 3; t++)
		cr_assert_eq(dfi_target_close(targets[t]), 0);
	cr_assert(eventually(has_none, NULL));
	dfi__registry_value_free(&first);
}

/*
 * Who comes while the last one goes may know the newest table, so it stays as
 * long as endpoints can come: numbers would begin anew for others only.
 */
Test(open_pairs, a_table_stays_for_who_comes_next)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.open = { .membership = DFI_MEMBERS_OPEN, .partitions = 8 },
	};
	struct dfi_target *target;
	uint64_t t;

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	for (t = 1; t < 4; t++) {
		target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
		cr_assert(eventually(has_table, &(uint64_t){ t }));
		cr_assert_eq(dfi_target_close(target), 0);
		cr_assert(find_table(0, NULL, NULL));
	}
	/* The last one may be leaving yet: a repeated call finds it gone. */
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	cr_assert(eventually(is_removed, NULL));
}
