/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of an ordered open flow is lost with a position that it has taken
 * and sent nothing under: all targets hear of the gap at the same place.
 */
#include "../flow/open_help.h"

/* The helpers have a function of that name. */
#define open_source source_state
#include "flows/kinds/open/open_source.h"
#undef open_source

TestSuite(order_gap, .init = setup, .fini = teardown, .timeout = 300);

static void create(void)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_REPLICATE,
		.schema = &kv_schema,
		.n_sources = 2,
		.n_targets = 2,
		.segment_size = 4 * (uint32_t)sizeof(struct kv),
		.segment_count = 8,
		.transport = DFI_TRANSPORT_SHM,
		.replicate = { .ordered = 1 },
		.open = { .membership = DFI_MEMBERS_OPEN,
		    .on_loss = DFI_ON_LOSS_DROP },
	};

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

/* Take a position, as for a segment, and send nothing. */
static uint64_t take_position(struct dfi_source *source)
{
	struct source_order *order = source_state(source)->order;
	uint64_t position;

	pthread_mutex_lock(&order->lock);
	cr_assert_eq(shared_counter_take(order->counter, 1, &position), 1);
	order->end = position + 1;
	pthread_mutex_unlock(&order->lock);
	return position;
}

/* The next event but for those of members is a gap; its value. */
static uint64_t expect_gap(struct dfi_target *target)
{
	struct dfi_event event = { .type = DFI_JOINED };
	const void *tuple;

	while (event.type != DFI_GAP) {
		cr_assert_eq(dfi_target_consume(target, &tuple), -ENOMSG, "%s",
		    dfi_errmsg());
		cr_assert_eq(dfi_target_event(target, &event), 0);
	}
	cr_assert_eq(event.seat, DFI_ANY_SEAT);
	return event.value;
}

/* The next tuple, past the event that its source's neighbour is lost. */
static void expect_behind(struct dfi_target *target, uint64_t number)
{
	struct dfi_event event;
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(target, &tuple)) == -ENOMSG) {
		cr_assert_eq(dfi_target_event(target, &event), 0);
		cr_assert_eq(event.type, DFI_LOST);
	}
	cr_assert_eq(ret, 1, "%s", dfi_errmsg());
	cr_assert_eq(((const struct kv *)tuple)->val, number);
}

static uint64_t position_of(const struct dfi_target *target)
{
	uint64_t position;

	cr_assert_eq(
	    dfi_target_position(target, &position), 0, "%s", dfi_errmsg());
	return position;
}

static void lose_a_position(struct dfi_source *s[2], uint64_t *hole)
{
	push_number(s[0], 0);
	flush(s[0]);
	push_number(s[1], 1);
	flush(s[1]);
	*hole = take_position(s[1]);
	push_number(s[0], 2);
	flush(s[0]);
	dfi_source_abort(s[1]);
	cr_assert_eq(dfi_source_close(s[1]), -ECANCELED);
}

Test(order_gap, an_event_reports_it_at_its_place)
{
	struct dfi_source *s[2];
	struct dfi_target *t[2];
	uint64_t hole;
	uint32_t i;

	create();
	for (i = 0; i < 2; i++)
		t[i] = target(i);
	for (i = 0; i < 2; i++) {
		s[i] = source_with_events(i, 0);
		await_targets(s[i], 2);
	}
	lose_a_position(s, &hole);
	for (i = 0; i < 2; i++) {
		(void)expect_event(t[i], DFI_JOINED, 0);
		(void)expect_event(t[i], DFI_JOINED, 1);
		expect_number(t[i], 0);
		expect_number(t[i], 1);
		cr_assert_eq(position_of(t[i]), hole);
		cr_assert_eq(expect_gap(t[i]), hole + 1);
		cr_assert_eq(position_of(t[i]), hole + 1);
		expect_behind(t[i], 2);
	}
	close_source(s[0]);
	close_target(t[0]);
	close_target(t[1]);
}

Test(order_gap, who_has_no_events_sees_it_by_the_position)
{
	struct dfi_source *s[2];
	struct dfi_target *t;
	uint64_t hole, i;

	create();
	t = open_target(rig.other, "f", 0, 0);
	for (i = 0; i < 2; i++) {
		s[i] = source_with_events((uint32_t)i, 0);
		await_targets(s[i], 1);
	}
	lose_a_position(s, &hole);
	for (i = 0; i < 3; i++)
		expect_number(t, i);
	cr_assert_eq(position_of(t), hole + 2);
	close_source(s[0]);
	close_target(t);
}
