/* SPDX-License-Identifier: Apache-2.0 */
/* Attribute structs of callers that are older or newer than the library. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include <dfi/error.h>

#include "base/attr.h"

/* The library's struct; older callers lack late, newer ones have more. */
struct attr {
	uint32_t size;
	uint32_t early;
	uint64_t late;
};

struct newer {
	uint32_t size;
	uint32_t early;
	uint64_t late;
	uint64_t newest;
};

static struct attr loaded;

static int load(const void *src)
{
	memset(&loaded, 0xee, sizeof(loaded));
	return dfi__attr_load(&loaded, sizeof(loaded), src, "dfi_some_attr");
}

Test(attr, null_means_all_defaults)
{
	static const struct attr zero;

	cr_assert_eq(load(NULL), 0);
	cr_assert_eq(memcmp(&loaded, &zero, sizeof(zero)), 0);
}

Test(attr, same_size_is_copied)
{
	struct attr attr = { sizeof(attr), 1, 2 };

	cr_assert_eq(load(&attr), 0);
	cr_assert_eq(loaded.early, 1);
	cr_assert_eq(loaded.late, 2);
}

Test(attr, members_that_an_older_caller_lacks_are_zero)
{
	struct attr attr = { offsetof(struct attr, late), 1, 2 };

	cr_assert_eq(load(&attr), 0);
	cr_assert_eq(loaded.early, 1);
	cr_assert_eq(loaded.late, 0);
	attr.size = sizeof(attr.size);
	cr_assert_eq(load(&attr), 0);
	cr_assert_eq(loaded.early, 0);
}

Test(attr, newer_caller_is_served_if_it_asks_for_nothing_new)
{
	struct newer attr = { sizeof(attr), 1, 2, 0 };

	cr_assert_eq(load(&attr), 0);
	cr_assert_eq(loaded.late, 2);
	attr.newest = UINT64_C(1) << 63;
	cr_assert_eq(load(&attr), -E2BIG);
	cr_assert(strstr(dfi_errmsg(), "dfi_some_attr") != NULL);
	cr_assert(strstr(dfi_errmsg(), "newer library") != NULL);
}

Test(attr, size_zero_is_refused_with_the_remedy)
{
	struct attr attr = { 0, 1, 2 };

	cr_assert_eq(load(&attr), -EINVAL);
	cr_assert(strstr(dfi_errmsg(), "dfi_some_attr.size") != NULL);
	cr_assert(strstr(dfi_errmsg(), "_INIT") != NULL);
	attr.size = 3;
	cr_assert_eq(load(&attr), -EINVAL);
}
