/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes and the texts that belong to a thread. */
#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const struct {
	int code;
	const char *name;
} codes[] = {
#define X(code, text) { code, #code },
	DFI_ERRORS(X)
#undef X
};
#define N_CODES (sizeof(codes) / sizeof(codes[0]))

Test(error, every_code_has_a_text_of_its_own)
{
	size_t i, j;

	for (i = 0; i < N_CODES; i++) {
		const char *text = dfi_strerror(-codes[i].code);

		cr_assert_str_neq(text, "unknown error", "%s", codes[i].name);
		cr_assert_gt(strlen(text), 5);
		for (j = 0; j < i; j++)
			cr_assert_str_neq(text, dfi_strerror(-codes[j].code));
	}
}

Test(error, other_codes_are_unknown)
{
	cr_assert_str_eq(dfi_strerror(0), "success");
	cr_assert_str_eq(dfi_strerror(EINVAL), "unknown error");
	cr_assert_str_eq(dfi_strerror(-100000), "unknown error");
	cr_assert_str_eq(dfi_strerror(INT_MIN), "unknown error");
	cr_assert_str_eq(dfi_strerror(1), "unknown error");
}

Test(error, of_a_peer_is_a_known_one)
{
	size_t i;

	for (i = 0; i < N_CODES; i++) {
		cr_assert_eq(dfi__peer_error(-codes[i].code), -codes[i].code);
		cr_assert_eq(dfi__peer_error(codes[i].code), -EBADMSG);
	}
	cr_assert_eq(dfi__peer_error(0), -EBADMSG);
	cr_assert_eq(dfi__peer_error(-100000), -EBADMSG);
	cr_assert_eq(dfi__peer_error(INT_MIN), -EBADMSG);
	cr_assert_eq(dfi__peer_error(INT_MAX), -EBADMSG);
}

static void *look(void *arg)
{
	*(bool *)arg = !*dfi_errmsg();
	dfi__fail(-EIO, "of the other thread");
	return NULL;
}

Test(error, text_belongs_to_its_thread)
{
	bool was_empty = false;
	pthread_t thread;

	cr_assert_str_eq(dfi_errmsg(), "");
	cr_assert_eq(dfi__fail(-EINVAL, "size %d", 3), -EINVAL);
	cr_assert_eq(pthread_create(&thread, NULL, look, &was_empty), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert(was_empty);
	cr_assert_str_eq(dfi_errmsg(), "size 3");
}

Test(error, context_is_put_before_the_text)
{
	dfi__fail(-EIO, "disk %d is full", 7);
	cr_assert_eq(dfi__fail_within(-ENOMEM, "flow '%s'", "orders"), -ENOMEM);
	cr_assert_str_eq(dfi_errmsg(), "flow 'orders': disk 7 is full");
	dfi__fail_within(-EIO, "outer");
	cr_assert_str_eq(dfi_errmsg(), "outer: flow 'orders': disk 7 is full");
}

Test(error, long_texts_are_cut)
{
	char *text = malloc(5000);
	size_t length;

	memset(text, 'x', 4999);
	text[4999] = '\0';
	dfi__fail(-EIO, "%s", text);
	length = strlen(dfi_errmsg());
	cr_assert_geq(length, 255);
	cr_assert_lt(length, 4999);
	dfi__fail_within(-EIO, "short");
	cr_assert_eq(strlen(dfi_errmsg()), length);
	cr_assert_eq(strncmp(dfi_errmsg(), "short: xxx", 10), 0);
	dfi__fail_within(-EIO, "%s", text);
	cr_assert_eq(strlen(dfi_errmsg()), length);
	/* A text may quote the last one. */
	dfi__fail(-EIO, "inner");
	free(text);
	cr_assert_str_eq(dfi_errmsg(), "inner");
}
