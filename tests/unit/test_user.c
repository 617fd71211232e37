/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which users' processes and files are trusted, also in a user namespace that
 * does not map all users.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/user.h"
#include "security/key_file.h"
#include "registry/wire/path_lock.h"
#include "tls_help.h"

/* The kernel's default. */
#define NOBODY 65534

static void expect_text(const char *word)
{
	cr_assert(strstr(dfi_errmsg(), word) != NULL, "'%s' is not in '%s'",
	    word, dfi_errmsg());
}

/* In a child, where an assertion would hang: print the error, and end. */
#define CHECK(holds)                                                           \
	do {                                                                   \
		if (!(holds)) {                                                \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, \
			    #holds, dfi_errmsg());                             \
			_exit(1);                                              \
		}                                                              \
	} while (0)

#define NO_NAMESPACE 77

/*
 * As one whose user has no number, as everybody's. A test's own process has
 * more threads than one, which unshare(2) doesn't like.
 */
static void in_empty_namespace(void (*check)(void))
{
	int status;
	pid_t pid;

	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		if (unshare(CLONE_NEWUSER) < 0)
			_exit(NO_NAMESPACE);
		CHECK(geteuid() == NOBODY);
		check();
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "%x", (unsigned)status);
	if (WEXITSTATUS(status) == NO_NAMESPACE)
		cr_skip_test("no user namespace");
	cr_assert_eq(WEXITSTATUS(status), 0);
}

static bool has_text(const char *word)
{
	return strstr(dfi_errmsg(), word) != NULL;
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

	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0, ""), 0);
	peer.uid = 0;
	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0, ""), 0);
	peer.uid = 70002;
	cr_assert_eq(dfi__user_check(&peer, "it", others, 2, ""), 0);
	cr_assert_eq(dfi__user_check(&peer, "it", others, 1, ""), -EACCES);
	expect_text("it (pid 1) runs as user 70002, this process as user");
}

/* The same holds in another PID namespace that is no child of this one. */
Test(user, of_a_process_that_is_not_visible_is_trusted_all_the_same)
{
	static const uid_t other = 70001;
	struct ucred peer = { .pid = 0, .uid = geteuid() };

	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0, ""), 0);
	peer.uid = other;
	cr_assert_eq(dfi__user_check(&peer, "it", &other, 1, ""), 0);
	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0, ""), -EACCES);
	expect_text("its pid is not visible here");
}

Test(user, nobody_is_a_user_where_all_are_mapped)
{
	struct ucred peer = { .pid = 1, .uid = NOBODY };
	static const uid_t other = NOBODY;

	if (!dfi__user_is_mapped(NOBODY))
		cr_skip_test("not all users are mapped here");
	cr_assert_eq(dfi__user_check(&peer, "it", &other, 1, ""), 0);
	cr_assert_eq(dfi__user_check(&peer, "it", NULL, 0, ""), -EACCES);
	expect_text("runs as user 65534");
}

static void trust_nobody(void)
{
	struct ucred peer = { .pid = 1, .uid = NOBODY };
	static const uid_t other = NOBODY;

	CHECK(!dfi__user_is_mapped(NOBODY));
	CHECK(dfi__user_is_mapped(0));
	CHECK(dfi__user_check(&peer, "it", &other, 1, "") == -EACCES);
	CHECK(has_text("does not map"));
	peer.pid = 0;
	CHECK(dfi__user_check(&peer, "it", &other, 1, "") == -EACCES);
	/* But of itself a process knows who it is. */
	peer.pid = getpid();
	CHECK(dfi__user_check(&peer, "it", NULL, 0, "") == 0);
}

Test(user, that_is_not_mapped_is_never_trusted)
{
	in_empty_namespace(trust_nobody);
}

static const char *path;

static void refuse_key(void)
{
	unsigned char key[REGISTRY_KEY_BYTES];

	CHECK(dfi__key_file_read(path, key) == -EINVAL);
	CHECK(has_text("does not map"));
}

Test(user, that_is_not_mapped_owns_no_key_file)
{
	unsigned char key[REGISTRY_KEY_BYTES];

	path = make_key("key");
	cr_assert_eq(dfi__key_file_read(path, key), 0);
	in_empty_namespace(refuse_key);
}

static void refuse_lock(void)
{
	CHECK(dfi__path_lock_try(path) == -EACCES);
	CHECK(has_text("does not map"));
}

Test(user, that_is_not_mapped_owns_no_lock)
{
	int fd;

	path = file_named("there");
	write_file("there" PATH_LOCK_SUFFIX, "", 0, 0600);
	fd = dfi__path_lock_try(path);
	cr_assert_geq(fd, 0, "%s", dfi_errmsg());
	close(fd);
	in_empty_namespace(refuse_lock);
}

static void take_lock(void)
{
	int fd = dfi__path_lock_try(path);

	CHECK(fd >= 0);
	dfi__path_lock_drop(path, fd);
}

Test(user, that_is_not_mapped_has_the_lock_that_it_makes)
{
	path = file_named("none");
	in_empty_namespace(take_lock);
	cr_assert_not(dfi__path_lock_exists(path));
}
