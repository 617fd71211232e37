/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The installed library refuses requests for faults, instead of ignoring them.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "buffers/multicast/faults.h"

static void take(void *arg, const void *data, size_t size)
{
	cr_assert_eq(*(const char *)data, 'x');
	cr_assert_eq(size, 1);
	++*(int *)arg;
}

Test(faults_none, all_that_comes_is_delivered)
{
	int n = 0;
	struct faults *faults = (struct faults *)(void *)&n;

	unsetenv("DFI_TEST_FAULTS");
	cr_assert_eq(dfi__faults_open(1, &faults), 0);
	cr_assert_null(faults);
	dfi__faults_receive(faults, "x", 1, 0, take, &n);
	dfi__faults_progress(faults, INT64_MAX - 1, take, &n);
	cr_assert_eq(n, 1);
	cr_assert_eq(dfi__faults_due(faults), INT64_MAX);
	dfi__faults_close(faults);
}

Test(faults_none, asking_for_faults_is_an_error)
{
	struct faults *faults = NULL;

	setenv("DFI_TEST_FAULTS", "drop=0.1", 1);
	cr_assert_eq(dfi__faults_open(1, &faults), -EINVAL);
	cr_assert_not_null(strstr(dfi_errmsg(), "DFI_TEST_FAULTS=drop=0.1"));
	cr_assert_not_null(strstr(dfi_errmsg(), "injects no faults"));
}
