/* SPDX-License-Identifier: Apache-2.0 */
/* Key files: their creation, and which of them are refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dfi/error.h>
#include <dfi/registry.h>

#include "security/key_file.h"
#include "tls_help.h"

#define MAGIC "dfi-registry-key-1 "
#define DIGITS "00112233445566778899aabbccddeeff"

static unsigned char key[REGISTRY_KEY_BYTES];

static void refuse(const char *path, const char *why)
{
	cr_assert_eq(dfi__key_file_read(path, key), -EINVAL, "%s", path);
	cr_assert_not_null(strstr(dfi_errmsg(), path), "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), why), "%s", dfi_errmsg());
}

static void refuse_text(const char *text, const char *why)
{
	const char *path = write_file("bad", text, strlen(text), 0600);

	refuse(path, "no key");
	refuse(path, why);
}

Test(key_file, holds_a_random_secret_of_its_owner)
{
	static const unsigned char zero[REGISTRY_KEY_BYTES];
	unsigned char other[REGISTRY_KEY_BYTES];
	mode_t mask = umask(0277);
	struct stat st;

	cr_assert_eq(dfi_registry_key_create(file_named("one")), 0);
	umask(mask);
	make_key("two");
	cr_assert_eq(stat(file_named("one"), &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0600);
	cr_assert_eq(dfi__key_file_read(file_named("one"), key), 0);
	cr_assert_eq(dfi__key_file_read(file_named("two"), other), 0);
	cr_assert_neq(memcmp(key, other, sizeof(key)), 0);
	cr_assert_neq(memcmp(key, zero, sizeof(key)), 0);
}

Test(key_file, is_never_overwritten)
{
	unsigned char again[REGISTRY_KEY_BYTES];

	cr_assert_eq(dfi__key_file_read(make_key("key"), key), 0);
	cr_assert_eq(dfi_registry_key_create(file_named("key")), -EEXIST);
	cr_assert_not_null(strstr(dfi_errmsg(), file_named("key")));
	cr_assert_eq(dfi__key_file_read(file_named("key"), again), 0);
	cr_assert_eq(memcmp(key, again, sizeof(key)), 0);
}

Test(key_file, needs_a_directory_and_a_name)
{
	cr_assert_eq(dfi_registry_key_create("/nonexistent/key"), -ENOENT);
	cr_assert_eq(dfi_registry_key_create(NULL), -EINVAL);
}

Test(key_file, is_read_as_it_is_written)
{
	static const char text[] = MAGIC DIGITS DIGITS "\n";
	size_t i;

	write_file("key", text, strlen(text), 0600);
	cr_assert_eq(dfi__key_file_read(file_named("key"), key), 0);
	for (i = 0; i < sizeof(key); i++)
		cr_assert_eq(key[i], i % 16 * 0x11);
	write_file("key", text, strlen(text) - 1, 0400);
	cr_assert_eq(dfi__key_file_read(file_named("key"), key), 0);
	write_file("crlf", MAGIC DIGITS DIGITS "\r\n", strlen(text) + 1, 0400);
	cr_assert_eq(dfi__key_file_read(file_named("crlf"), key), 0);
}

Test(key_file, that_others_can_read_or_write_is_refused)
{
	static const unsigned modes[] = { 0640, 0604, 0620, 0602, 0610, 0644,
		0666, 0777 };
	const char *path = make_key("key");
	size_t i;

	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		cr_assert_eq(chmod(path, modes[i]), 0);
		refuse(path, "others than its owner");
		cr_assert_not_null(strstr(dfi_errmsg(), "0600"));
	}
	cr_assert_eq(chmod(path, 0600), 0);
	cr_assert_eq(dfi__key_file_read(path, key), 0);
}

Test(key_file, of_another_user_is_refused)
{
	const char *path = make_key("key");
	char directory[64];

	if (geteuid() != 0)
		cr_skip_test("only root can give a file away");
	snprintf(directory, sizeof(directory), "%s", path);
	*strrchr(directory, '/') = '\0';
	cr_assert_eq(chmod(directory, 0755), 0);
	cr_assert_eq(chown(path, 1, 1), 0);
	/* Root may use anybody's file. */
	cr_assert_eq(dfi__key_file_read(path, key), 0);
	cr_assert_eq(chmod(path, 0604), 0);
	cr_assert_eq(seteuid(65534), 0);
	refuse(path, "another user");
	cr_assert_eq(seteuid(0), 0);
}

Test(key_file, that_is_something_else_is_refused)
{
	static const char binary[] = MAGIC DIGITS DIGITS;
	char text[sizeof(binary)];

	refuse_text("", "empty");
	refuse_text("\n", "keygen");
	refuse_text("-----BEGIN PRIVATE KEY-----\n", "DFI_REGISTRY_CERT");
	refuse_text(DIGITS DIGITS "\n", "keygen");
	refuse_text(MAGIC DIGITS "\n", "end is missing");
	refuse_text(MAGIC, "end is missing");
	refuse_text(MAGIC DIGITS DIGITS "0\n", "more follows");
	refuse_text(MAGIC DIGITS DIGITS "\n\n", "more follows");
	refuse_text(MAGIC DIGITS DIGITS "\r\n\n", "more follows");
	refuse_text("dfi-registry-key-2 " DIGITS DIGITS "\n", "this version");
	refuse_text("\xef\xbb\xbf" MAGIC DIGITS DIGITS "\n", "encoding");
	refuse_text(
	    MAGIC DIGITS "00112233445566778899AABBCCDDEEFF\n", "a to f");
	refuse_text(
	    MAGIC DIGITS "0011223344556677 899aabbccddeeff\n", "a to f");
	memcpy(text, binary, sizeof(text));
	text[40] = '\0';
	refuse(write_file("bad", text, sizeof(text), 0600), "no key");
}

Test(key_file, that_is_no_regular_file_is_refused_at_once)
{
	const char *path = file_named("fifo");

	cr_assert_eq(mkfifo(path, 0600), 0);
	refuse(path, "regular");
	refuse("/tmp", "");
	refuse("/dev/null", "regular");
	refuse(file_named("missing"), "No such file");
}
