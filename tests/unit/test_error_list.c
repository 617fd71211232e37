/* SPDX-License-Identifier: Apache-2.0 */
/* The errors that a process remembers. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/error_list.h"

struct seen {
	struct dfi_error_info info[DFI_MAX_ERRORS];
	uint32_t n;
};

static int see(void *arg, const struct dfi_error_info *info)
{
	struct seen *seen = arg;

	cr_assert_lt(seen->n, DFI_MAX_ERRORS);
	seen->info[seen->n++] = *info;
	return 0;
}

static struct seen list(void)
{
	struct seen seen = { .n = 0 };

	cr_assert_eq(dfi_error_list(see, &seen), 0);
	return seen;
}

static void meet(int err, int number)
{
	dfi__fail(err, "disk %d is full", number);
	cr_assert_eq(dfi__error_keep(err), err);
}

Test(error_list, is_empty_at_first)
{
	cr_assert_eq(list().n, 0);
	cr_assert_eq(dfi__error_keep(0), 0);
	cr_assert_eq(dfi__error_keep(7), 7);
	cr_assert_eq(list().n, 0);
	cr_assert_eq(dfi_error_list(NULL, NULL), -EINVAL);
}

Test(error_list, keeps_the_same_error_once_and_counts_it)
{
	struct seen seen;

	meet(-EIO, 1);
	meet(-EIO, 2);
	meet(-ENOMEM, 1);
	meet(-EIO, 1);
	seen = list();
	cr_assert_eq(seen.n, 3);
	cr_assert_eq(seen.info[0].code, -EIO);
	cr_assert_str_eq(seen.info[0].text, "disk 2 is full");
	cr_assert_eq(seen.info[0].count, 1);
	cr_assert_eq(seen.info[0].first_ns, seen.info[0].last_ns);
	cr_assert_eq(seen.info[1].code, -ENOMEM);
	/* The last error that occurred comes last. */
	cr_assert_eq(seen.info[2].code, -EIO);
	cr_assert_str_eq(seen.info[2].text, "disk 1 is full");
	cr_assert_eq(seen.info[2].count, 2);
	cr_assert_lt(seen.info[2].first_ns, seen.info[0].last_ns);
	cr_assert_geq(seen.info[2].last_ns, seen.info[1].last_ns);
}

Test(error_list, forgets_those_not_met_for_longest)
{
	struct seen seen;
	int i;

	for (i = 0; i < DFI_MAX_ERRORS; i++)
		meet(-EIO, i);
	meet(-EIO, 0);
	meet(-EIO, 1000);
	seen = list();
	cr_assert_eq(seen.n, DFI_MAX_ERRORS);
	cr_assert_str_eq(seen.info[0].text, "disk 2 is full");
	cr_assert_str_eq(seen.info[DFI_MAX_ERRORS - 2].text, "disk 0 is full");
	cr_assert_eq(seen.info[DFI_MAX_ERRORS - 2].count, 2);
	cr_assert_str_eq(
	    seen.info[DFI_MAX_ERRORS - 1].text, "disk 1000 is full");
}

Test(error_list, leaves_out_misuse_and_what_is_met_all_the_time)
{
	static const int codes[] = { -EINVAL, -E2BIG, -ERANGE, -EBUSY, -EAGAIN,
		-EPIPE };
	size_t i;

	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		meet(codes[i], 1);
	cr_assert_eq(list().n, 0);
	meet(-ETIMEDOUT, 1);
	cr_assert_eq(list().n, 1);
}

Test(error_list, cuts_long_texts_and_still_knows_them)
{
	struct seen seen;
	char text[400];
	int i;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (i = 0; i < 2; i++) {
		dfi__fail(-EIO, "%s", text);
		dfi__error_keep(-EIO);
	}
	seen = list();
	cr_assert_eq(seen.n, 1);
	cr_assert_eq(seen.info[0].count, 2);
	cr_assert_eq(strlen(seen.info[0].text), sizeof(seen.info[0].text) - 1);
}

static int stop_at_once(void *arg, const struct dfi_error_info *info)
{
	(void)info;
	++*(int *)arg;
	return 3;
}

Test(error_list, ends_when_the_function_says_so)
{
	int calls = 0;

	meet(-EIO, 1);
	meet(-EIO, 2);
	cr_assert_eq(dfi_error_list(stop_at_once, &calls), 3);
	cr_assert_eq(calls, 1);
}

struct cancelled {
	int calls, ret;
};

/* Writing a log from here may be a cancellation point. */
static int test_for_a_cancel(void *arg, const struct dfi_error_info *info)
{
	struct cancelled *cancelled = arg;

	(void)info;
	cancelled->calls++;
	pthread_cancel(pthread_self());
	pthread_testcancel();
	return 0;
}

static void *list_and_say(void *arg)
{
	struct cancelled *cancelled = arg;

	cancelled->ret = dfi_error_list(test_for_a_cancel, cancelled);
	pthread_testcancel();
	return NULL;
}

/* A list abandoned in the middle is never freed: LeakSanitizer finds it. */
Test(error_list, ends_before_a_cancel_in_its_function_takes_effect)
{
	struct cancelled cancelled = { .ret = 1 };
	pthread_t thread;
	void *ended;

	meet(-EIO, 1);
	meet(-EIO, 2);
	cr_assert_eq(
	    pthread_create(&thread, NULL, list_and_say, &cancelled), 0);
	cr_assert_eq(pthread_join(thread, &ended), 0);
	cr_assert_eq(ended, PTHREAD_CANCELED);
	cr_assert_eq(cancelled.calls, 2);
	cr_assert_eq(cancelled.ret, 0);
}

/* It opens a context of its own, whose errors others see. */
Test(error_list, of_a_forked_child_has_none_of_its_parent)
{
	int status;
	pid_t pid;

	meet(-EIO, 1);
	pid = fork();
	if (!pid) {
		if (list().n)
			_exit(1);
		meet(-EIO, 1);
		_exit(list().n == 1 && list().info[0].count == 1 ? 0 : 2);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "%#x", (unsigned)status);
	cr_assert_eq(list().n, 1);
}
