/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A barrier's handling of the registry's events, in orders that are rare in
 * real runs: names used again while others are still in their last use.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "flows/sync/barrier_participants.h"

#define SELF 0
#define SELF_ID 100

static struct barrier_participants participants;

static void setup(void)
{
	cr_assert_eq(
	    dfi__participants_init(&participants, 3, SELF, SELF_ID), 0);
}

static void teardown(void)
{
	free(participants.participant);
}

TestSuite(participant, .init = setup, .fini = teardown);

/* It has lost a participant, and leaves. */
static void put_last(uint32_t index, uint64_t id, uint64_t lost_id,
    uint64_t completed, uint64_t set)
{
	struct barrier_participant participant = {
		.id = id,
		.round = completed,
		.set = set,
		.lost_id = lost_id,
		.n_participants = 3,
	};

	dfi__participants_put(&participants, index, &participant);
}

static void put(uint32_t index, uint64_t id, uint64_t round, uint64_t set)
{
	struct barrier_participant participant = {
		.id = id,
		.round = round,
		.set = set,
		.n_participants = 3,
	};

	dfi__participants_put(&participants, index, &participant);
}

/* All open, as participants 100, 101 and 102; the set that they wait for. */
static uint64_t open_all(void)
{
	put(0, SELF_ID, 0, 0);
	put(1, 101, 0, 0);
	put(2, 102, 0, 0);
	cr_assert_neq(participants.set, 0);
	return participants.set;
}

static void complete_round(uint64_t round, uint64_t set)
{
	put(0, SELF_ID, round, set);
	put(1, 101, round, set);
	cr_assert_eq(participants.completed, round - 1);
	put(2, 102, round, set);
	cr_assert_eq(participants.completed, round);
}

Test(participant, a_round_is_complete_when_all_have_arrived)
{
	uint64_t set = open_all();

	complete_round(1, set);
	complete_round(2, set);
	cr_assert_eq(participants.lost, 3);
}

Test(participant, a_participant_may_be_a_round_ahead)
{
	uint64_t set = open_all();

	put(0, SELF_ID, 1, set);
	put(1, 101, 1, set);
	put(2, 102, 1, set);
	put(2, 102, 2, set);
	put(1, 101, 2, set);
	cr_assert_eq(participants.completed, 1);
	put(0, SELF_ID, 2, set);
	cr_assert_eq(participants.completed, 2);
}

Test(participant, a_lost_participant_ends_the_rounds_and_no_later_one_counts)
{
	uint64_t set = open_all();

	complete_round(1, set);
	put(1, 101, 2, set);
	dfi__participants_delete(&participants, 1);
	put(0, SELF_ID, 2, set);
	put(2, 102, 2, set);
	cr_assert_eq(participants.completed, 1);
	cr_assert_eq(participants.lost, 1);
	cr_assert_eq(
	    participants.participant[1].id, 101, "its name is forgotten");
}

Test(participant, who_has_arrived_before_we_came_does_not_count)
{
	put(1, 91, 1, 12345);
	put(0, SELF_ID, 0, 0);
	put(2, 102, 0, 0);
	cr_assert_eq(participants.set, 0);
	dfi__participants_delete(&participants, 1);
	cr_assert_eq(participants.lost, 3, "it was never one of us");
	put(1, 101, 0, 0);
	cr_assert_neq(participants.set, 0);
}

/*
 * Participant 1 has counted on an earlier participant 0, whose end it has yet
 * to see.
 */
Test(participant, who_waits_for_our_predecessor_does_not_count)
{
	put(1, 91, 0, 0);
	put(0, SELF_ID, 0, 0);
	put(1, 91, 1, 12345);
	put(2, 102, 0, 0);
	cr_assert_eq(participants.set, 0);
	dfi__participants_delete(&participants, 1);
	cr_assert_eq(participants.lost, 3);
	put(1, 101, 0, 0);
	complete_round(1, participants.set);
}

Test(participant, who_waits_for_our_predecessor_is_lost_once_we_count_on_it)
{
	open_all();
	put(1, 101, 1, 12345);
	cr_assert_eq(participants.lost, 1);
}

Test(participant, a_predecessor_of_ours_is_not_us)
{
	put(0, 90, 4, 12345);
	dfi__participants_delete(&participants, 0);
	put(0, SELF_ID, 0, 0);
	cr_assert_eq(participants.lost, 3);
	complete_round(1, open_all());
}

Test(participant, an_entry_that_comes_back_older_has_still_arrived)
{
	uint64_t set = open_all();

	put(0, SELF_ID, 1, set);
	put(1, 101, 1, set);
	put(1, 101, 0, 0);
	cr_assert_eq(participants.lost, 3);
	put(2, 102, 1, set);
	cr_assert_eq(participants.completed, 1);
}

/* Its last entry is gone with a registry, and so is the participant. */
Test(participant, who_is_a_round_ahead_proves_that_all_had_arrived)
{
	uint64_t set = open_all();

	complete_round(1, set);
	put(0, SELF_ID, 2, set);
	put(1, 101, 3, set);
	cr_assert_eq(participants.completed, 2);
	dfi__participants_delete(&participants, 2);
	cr_assert_eq(participants.lost, 2);
	cr_assert_eq(participants.completed, 2);
}

Test(participant, another_one_in_its_place_is_its_loss)
{
	open_all();
	put(1, 111, 0, 0);
	cr_assert_eq(participants.lost, 1);
	cr_assert_eq(
	    participants.participant[1].id, 101, "its name is forgotten");
}

Test(participant, another_one_in_our_place_is_our_loss)
{
	open_all();
	put(SELF, 111, 0, 0);
	cr_assert_eq(participants.lost, SELF);
}

/* We missed its arrival, as the registry was lost. */
Test(participant, who_waits_for_us_counts_whenever_it_came)
{
	uint64_t set = open_all();

	free(participants.participant);
	setup();
	put(0, SELF_ID, 0, 0);
	put(2, 102, 1, set);
	cr_assert_eq(participants.set, 0);
	put(1, 101, 1, set);
	cr_assert_eq(participants.set, set);
	put(0, SELF_ID, 1, set);
	cr_assert_eq(participants.completed, 1);
}

/* It can't be told from a new one before it says so. */
Test(participant, who_has_never_arrived_in_an_earlier_use_does_not_count)
{
	put(0, SELF_ID, 0, 0);
	put(1, 91, 0, 0);
	put_last(1, 91, 77, 3, 12345);
	put(2, 102, 0, 0);
	cr_assert_eq(participants.set, 0);
	dfi__participants_delete(&participants, 1);
	cr_assert_eq(participants.lost, 3, "it was never one of us");
	put(1, 101, 0, 0);
	complete_round(1, participants.set);
}

Test(participant, who_leaves_an_earlier_use_as_we_come_does_not_count)
{
	put_last(1, 91, 77, 3, 12345);
	put(0, SELF_ID, 0, 0);
	put(2, 102, 0, 0);
	cr_assert_eq(participants.set, 0);
	dfi__participants_delete(&participants, 1);
	put(1, 101, 0, 0);
	complete_round(1, participants.set);
}

Test(participant, who_leaves_names_whom_it_has_lost)
{
	uint64_t set = open_all();

	complete_round(1, set);
	put(1, 101, 2, set);
	put_last(1, 101, 102, 1, set);
	dfi__participants_delete(&participants, 1);
	cr_assert_eq(participants.lost, 2);
	cr_assert_eq(participants.completed, 1);
}

/* We have missed the last one's arrival, as the registry was lost. */
Test(participant, who_leaves_says_which_rounds_were_complete)
{
	uint64_t set = open_all();

	put(0, SELF_ID, 1, set);
	put(1, 101, 1, set);
	put_last(1, 101, 102, 1, set);
	cr_assert_eq(participants.completed, 1);
	cr_assert_eq(participants.lost, 2);
}

Test(participant, who_leaves_an_earlier_use_once_we_count_on_it_is_lost)
{
	open_all();
	put_last(1, 101, 77, 3, 12345);
	cr_assert_eq(participants.lost, 1);
	cr_assert_eq(participants.completed, 0);
}

Test(participant, our_own_entry_that_is_gone_ends_the_rounds)
{
	open_all();
	dfi__participants_delete(&participants, SELF);
	cr_assert_eq(participants.lost, SELF);
}

Test(participant, who_goes_before_we_are_in_is_no_loss)
{
	put(1, 91, 0, 0);
	dfi__participants_delete(&participants, 1);
	cr_assert_eq(participants.lost, 3);
	put(1, 92, 0, 0);
	put(1, 101, 0, 0);
	cr_assert_eq(participants.lost, 3);
	put(2, 102, 0, 0);
	put(0, SELF_ID, 0, 0);
	complete_round(1, participants.set);
}

Test(participant, another_number_of_participants_is_seen)
{
	struct barrier_participant participant = { .id = 105,
		.n_participants = 6 };

	put(0, SELF_ID, 0, 0);
	dfi__participants_put(&participants, 5, &participant);
	cr_assert(participants.disagree);
	cr_assert_eq(participants.other_index, 5);
	cr_assert_eq(participants.other.n_participants, 6);
}

Test(participant, an_index_that_cannot_be_is_ignored)
{
	put(3, 103, 0, 0);
	put(UINT32_MAX, 104, 0, 0);
	dfi__participants_delete(&participants, 3);
	cr_assert_not(participants.disagree);
	complete_round(1, open_all());
}

Test(participant, an_entry_survives_its_encoding)
{
	struct barrier_participant participant = {
		.node = { .id = 7, .pid = 8, .name = "n", .host = "h" },
		.id = UINT64_MAX - 1,
		.round = UINT64_MAX - 2,
		.set = UINT64_MAX - 3,
		.lost_id = UINT64_MAX - 4,
		.n_participants = UINT32_MAX,
	};
	struct barrier_participant copy;
	size_t size;
	void *data = dfi__participant_encode(&participant, &size);

	cr_assert_not_null(data);
	cr_assert_eq(dfi__participant_decode(data, size, &copy), 0);
	cr_assert_eq(copy.id, participant.id);
	cr_assert_eq(copy.round, participant.round);
	cr_assert_eq(copy.set, participant.set);
	cr_assert_eq(copy.lost_id, participant.lost_id);
	cr_assert_eq(copy.n_participants, participant.n_participants);
	cr_assert_eq(copy.node.pid, 8);
	cr_assert_str_eq(copy.node.name, "n");
	cr_assert_str_eq(copy.node.host, "h");
	free(data);
	cr_assert_eq(dfi__participant_decode("\xff\xff", 2, &copy), -EBADMSG);
}
