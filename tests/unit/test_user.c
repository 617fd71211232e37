/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose processes and files are trusted, also in a user namespace that does not
 * map all users.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/user.h"
#include "registry/key_file.h"
#include "tls_help.h"

/* What the kernel has unless it is told otherwise. */
#define NOBODY 65534

static void expect_text(const char *word)
{
	cr_assert(strstr(dfi_errmsg(), word) != NULL, "'%s' is not in '%s'",
	    word, dfi_errmsg());
}

/* Become one whose user has no number, as everybody's. */
static void enter_empty_namespace(void)
{
	if (unshare(CLONE_NEWUSER) < 0)
		cr_skip_test("no user namespace");
	cr_assert_eq(geteuid(), NOBODY);
}

Test(user, map_is_whole_if_it_has_all_users)
{
	cr_assert(dfi__user_map_is_whole("         0          0 4294967295\n"));
	cr_assert(dfi__user_map_is_whole("0 1 1\n1 0 1\n2 2 4294967293\n"));
	cr_assert_not(dfi__user_map_is_whole(""));
	cr_assert_not(dfi__user_map_is_whole("0 1000 1\n"));
	cr_assert_not(dfi__user_map_is_whole("0 100000 65536\n"));
	cr_assert_not(dfi__user_map_is_whole("0 0 4294967294\n"));
	cr_assert_not(dfi__user_map_is_whole("nonsense"));
}

Test(user, is_trusted_if_it_is_ours_or_root_or_named)
{
	static const uid_t others[] = { 70001, 70002 };
	struct ucred peer = { .pid = 1, .uid = geteuid() };

	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0), 0);
	peer.uid = 0;
	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0), 0);
	peer.uid = 70002;
	cr_assert_eq(dfi__user_check(&peer, "it", others, 2), 0);
	cr_assert_eq(dfi__user_check(&peer, "it", others, 1), -EACCES);
	expect_text("it (pid 1) runs as user 70002, this process as user");
}

/* So it is for one in another PID namespace that is no child of this one. */
Test(user, of_a_process_that_is_not_visible_is_trusted_all_the_same)
{
	static const uid_t other = 70001;
	struct ucred peer = { .pid = 0, .uid = geteuid() };

	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0), 0);
	peer.uid = other;
	cr_assert_eq(dfi__user_check(&peer, "it", &other, 1), 0);
	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0), -EACCES);
	expect_text("its pid is not visible here");
}

Test(user, nobody_is_a_user_where_all_are_mapped)
{
	struct ucred peer = { .pid = 1, .uid = NOBODY };
	static const uid_t other = NOBODY;

	if (!dfi__user_is_mapped(NOBODY))
		cr_skip_test("not all users are mapped here");
	cr_assert_eq(dfi__user_check(&peer, "it", &other, 1), 0);
	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0), -EACCES);
	expect_text("runs as user 65534");
}

Test(user, that_is_not_mapped_is_never_trusted)
{
	struct ucred peer = { .pid = 1, .uid = NOBODY };
	static const uid_t other = NOBODY;

	enter_empty_namespace();
	cr_assert_not(dfi__user_is_mapped(NOBODY));
	cr_assert(dfi__user_is_mapped(0));
	cr_assert_eq(dfi__user_check(&peer, "it", &other, 1), -EACCES);
	expect_text("does not map");
	peer.pid = 0;
	cr_assert_eq(dfi__user_check(&peer, "it", &other, 1), -EACCES);
	/* But of itself a process knows who it is. */
	peer.pid = getpid();
	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0), 0);
}

Test(user, that_is_not_mapped_owns_no_key_file)
{
	unsigned char key[REGISTRY_KEY_BYTES];
	const char *path = make_key("key");

	cr_assert_eq(dfi__key_file_read(path, key), 0);
	enter_empty_namespace();
	cr_assert_eq(dfi__key_file_read(path, key), -EINVAL);
	expect_text("does not map");
}
