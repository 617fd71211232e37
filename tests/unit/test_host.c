/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts share memory, and the text for those that don't. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/error.h"
#include "base/host.h"

static const struct host self = { 1, 2, 3 };

static void expect(struct host other, enum host_distance distance)
{
	cr_assert_eq(dfi__host_distance(&self, &other), distance);
	cr_assert_eq(dfi__host_distance(&other, &self), distance);
}

Test(host, is_known_by_machine_and_network_namespace)
{
	expect(self, HOST_SAME);
	expect((struct host){ 4, 2, 5 }, HOST_OTHER_NETWORK);
	expect((struct host){ 4, 5, 3 }, HOST_OTHER);
	expect((struct host){ 4, 5, 6 }, HOST_OTHER);
}

Test(host, that_proc_hides_may_be_the_same)
{
	static const struct host none = { 0, 0, 0 };

	expect(none, HOST_UNKNOWN);
	cr_assert_eq(dfi__host_distance(&none, &none), HOST_UNKNOWN);
	expect((struct host){ 0, 0, 3 }, HOST_UNKNOWN);
	expect((struct host){ 0, 0, 4 }, HOST_UNKNOWN);
	expect((struct host){ 0, 2, 0 }, HOST_UNKNOWN);
	/* Without a namespace, another machine is another machine. */
	expect((struct host){ 0, 5, 0 }, HOST_OTHER);
}

Test(host, of_this_process_is_known)
{
	struct host host, again;

	dfi__host_read(&host);
	dfi__host_read(&again);
	cr_assert(host.boot && host.net && host.id);
	cr_assert_eq(dfi__host_distance(&host, &again), HOST_SAME);
}

Test(host, that_is_unknown_is_explained_where_a_process_is_not_found)
{
	dfi__fail(-ECONNRESET, "nobody is there");
	cr_assert_eq(dfi__host_explain(-ECONNRESET, HOST_SAME), -ECONNRESET);
	cr_assert_str_eq(dfi_errmsg(), "nobody is there");
	cr_assert_eq(dfi__host_explain(0, HOST_UNKNOWN), 0);
	cr_assert_str_eq(dfi_errmsg(), "nobody is there");
	cr_assert_eq(dfi__host_explain(-ECONNRESET, HOST_UNKNOWN), -ECONNRESET);
	cr_assert(strstr(dfi_errmsg(), "nobody is there, or"));
	cr_assert(strstr(dfi_errmsg(), "/proc"));
}
