/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that others write to during the read: the bytes of one moment, or an
 * error.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/common/csv_file.h"

#define HEAD "id\n1\n2\n"

static char path[] = "/tmp/test_csv_file.XXXXXX";
static int writer = -1;
static struct csv_file file;

/* A file with HEAD, of which the first bytes have been read. */
static void begin(void)
{
	char bytes[4];

	writer = mkstemp(path);
	cr_assert_geq(writer, 0);
	cr_assert_eq(write(writer, HEAD, strlen(HEAD)), (ssize_t)strlen(HEAD));
	cr_assert_eq(csv_file_open(path, &file), 0);
	cr_assert_eq(csv_file_read(&file, bytes, sizeof(bytes)), 4);
	cr_assert_eq(memcmp(bytes, HEAD, 4), 0);
}

static void end(void)
{
	csv_file_close(&file);
	close(writer);
	unlink(path);
}

static void append(const char *text)
{
	cr_assert_eq(
	    pwrite(writer, text, strlen(text), lseek(writer, 0, SEEK_END)),
	    (ssize_t)strlen(text));
}

/* All that is left: how many bytes. */
static size_t read_rest(void)
{
	char bytes[4];
	size_t n = 0;
	ssize_t got;

	while ((got = csv_file_read(&file, bytes, sizeof(bytes))) > 0)
		n += (size_t)got;
	cr_assert_eq(got, 0);
	return n;
}

Test(csv_file, leaves_out_what_is_appended_while_it_is_read, .fini = end)
{
	bool grown;

	begin();
	append("3\n");
	cr_expect_eq(read_rest(), strlen(HEAD) - 4);
	cr_expect_eq(csv_file_check(&file, &grown), 0);
	cr_expect(grown, "row 3 began behind the end");
}

Test(csv_file, is_as_it_was_if_nobody_writes, .fini = end)
{
	bool grown;

	begin();
	cr_expect_eq(read_rest(), strlen(HEAD) - 4);
	cr_expect_eq(csv_file_check(&file, &grown), 0);
	cr_expect_not(grown);
}

Test(csv_file, says_that_a_line_end_came_behind_the_last_row, .fini = end)
{
	bool grown;

	begin();
	append("\n");
	(void)read_rest();
	cr_expect_eq(csv_file_check(&file, &grown), 0);
	cr_expect_not(grown, "the last row was whole");
}

Test(csv_file, refuses_a_file_that_is_written_anew, .fini = end)
{
	bool grown;

	begin();
	cr_assert_eq(pwrite(writer, "id\n7\n8\n9\n", 9, 0), 9);
	(void)read_rest();
	cr_expect_eq(csv_file_check(&file, &grown), -1);
}

Test(csv_file, refuses_a_file_that_shrinks, .fini = end)
{
	bool grown;

	begin();
	cr_assert_eq(ftruncate(writer, 5), 0);
	cr_expect_eq(read_rest(), 1);
	cr_expect_eq(csv_file_check(&file, &grown), -1);
}
