/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of a GROUP BY column when an attacker chooses them. */
#include <criterion/criterion.h>
#include <dfi/dfi.h>
#include <stdio.h>
#include <string.h>

#include "examples/aggregate/dictionary.h"

/* As many as the first table takes, of texts that meet in one slot. */
#define N 500u
#define SLOTS 1024u

Test(dictionary, of_texts_that_are_chosen_to_meet_has_them_apart)
{
	struct dictionary dictionary = { .n_slots = 0 };
	uint32_t i, n = 0, in_a_row = 0;
	char name[16];

	for (i = 0; n < N; i++) {
		struct text text = { name, 0, false };

		text.size = (size_t)snprintf(name, sizeof(name), "%u", i);
		if (dfi_hash_bytes(name, text.size, 0) % SLOTS != 0)
			continue;
		cr_assert_eq(dictionary_add(&dictionary, text), ++n);
		cr_assert_eq(dictionary_add(&dictionary, text), n);
	}
	cr_assert_eq(dictionary.n_slots, SLOTS);
	while (dictionary.slots[in_a_row])
		in_a_row++;
	cr_assert_lt(in_a_row, N, "each is looked for at all others");
	dictionary_free(&dictionary);
}
