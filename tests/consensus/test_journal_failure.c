/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failing disk: the replica ends, and no record that may be missing on the
 * disk counts as safe. Each case ends its process, so each removes its folder
 * first.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "examples/consensus/journal.h"

static const struct journal_identity own = {
	.cluster = 7,
	.incarnation = 99,
	.self = 1,
	.n_replicas = 3,
};

static atomic_bool sync_fails, reported;

/* Instead of the C library's. */
int fdatasync(int fd)
{
	if (sync_fails) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static void on_synced(void *arg)
{
	(void)arg;
	reported = true;
}

static int restore(void *arg, const struct kv_record *record)
{
	(void)arg;
	(void)record;
	return 0;
}

/* Wait until the record is on the disk. */
static void promise(struct journal *journal, kv_ballot ballot)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	const struct kv_record record = {
		.type = KV_RECORD_PROMISE,
		.ballot = ballot,
	};
	unsigned tries;

	journal_append(journal, &record);
	reported = false;
	journal_submit(journal);
	for (tries = 0; !reported; tries++) {
		cr_assert_lt(tries, 600000, "neither safe nor an end");
		nanosleep(&pause, NULL);
	}
}

/* The disk worked until here. Now its folder is gone. */
static struct journal *begin(uint64_t file_size)
{
	static char folder[] = "/tmp/test_journal_failure.XXXXXX";
	char command[64];
	const struct journal_setup setup = {
		.dir = folder,
		.synced = on_synced,
		.file_size = file_size,
	};
	struct journal_identity identity;
	struct journal *journal;
	bool found;

	cr_assert(mkdtemp(folder));
	cr_assert_eq(journal_open(&setup, &identity, &found, &journal), 0);
	cr_assert_eq(journal_create(journal, &own), 0);
	cr_assert_eq(journal_replay(journal, restore, NULL), 0);
	cr_assert_eq(journal_start(journal), 0);
	promise(journal, 5);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_assert_eq(system(command), 0);
	return journal;
}

Test(journal, ends_the_replica_if_fdatasync_fails, .exit_code = EX_IOERR)
{
	struct journal *journal = begin(0);

	sync_fails = true;
	promise(journal, 6);
	cr_assert_fail("a record is safe that was never synced");
}

Test(journal, ends_the_replica_if_write_fails, .exit_code = EX_IOERR)
{
	const struct rlimit none = { 0, 0 };
	struct journal *journal = begin(0);

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	promise(journal, 6);
	cr_assert_fail("a record is safe that was never written");
}

/* The folder of the new file is gone. */
Test(journal, ends_the_replica_if_a_file_cannot_begin, .exit_code = EX_IOERR)
{
	struct journal *journal = begin(1);

	promise(journal, 6);
	cr_assert_fail("a record is safe that has no file");
}
