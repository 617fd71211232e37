/* SPDX-License-Identifier: Apache-2.0 */
/* The disk of a replica: its content after restarts, crashes and damage. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "examples/consensus/journal.h"
#include "examples/consensus/snapshot.h"

static const struct journal_identity own = {
	.cluster = 7,
	.incarnation = 99,
	.self = 1,
	.n_replicas = 3,
	.config = { { { 98 }, { 99 }, { 100 } } },
};

static char folder[] = "/tmp/test_journal.XXXXXX";

/* What a replay has given. */
struct replayed {
	unsigned n_entries;
	uint64_t last_slot, commit;
	kv_ballot promise;
};

static void on_synced(void *arg)
{
	(void)arg;
}

static int restore(void *arg, const struct kv_record *record)
{
	struct replayed *replayed = arg;

	if (record->type == KV_RECORD_PROMISE)
		replayed->promise = record->ballot;
	if (record->type == KV_RECORD_COMMIT)
		replayed->commit = record->slot;
	if (record->type == KV_RECORD_ENTRY) {
		replayed->n_entries++;
		replayed->last_slot = record->entry->slot;
	}
	return 0;
}

static struct journal *begin(uint64_t file_size, struct replayed *replayed)
{
	const struct journal_setup setup = {
		.dir = folder,
		.synced = on_synced,
		.file_size = file_size,
	};
	struct journal_identity identity;
	struct journal *journal;
	bool found;

	*replayed = (struct replayed){ .n_entries = 0 };
	cr_assert_eq(journal_open(&setup, &identity, &found, &journal), 0);
	if (!found)
		cr_assert_eq(journal_create(journal, &own), 0);
	else
		cr_assert_eq(memcmp(&identity, &own, sizeof(own)), 0);
	cr_assert_eq(journal_replay(journal, restore, replayed), 0);
	cr_assert_eq(journal_start(journal), 0);
	return journal;
}

static void wait_for(struct journal *journal, uint64_t position)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	unsigned tries;

	for (tries = 0; journal_synced(journal) < position; tries++) {
		cr_assert_lt(tries, 600000);
		journal_submit(journal);
		nanosleep(&pause, NULL);
	}
}

static void promise(struct journal *journal, kv_ballot ballot)
{
	const struct kv_record record = {
		.type = KV_RECORD_PROMISE,
		.ballot = ballot,
	};

	wait_for(journal, journal_append(journal, &record));
}

static void accept_slots(struct journal *journal, uint64_t from, uint64_t to)
{
	struct kv_entry entry = {
		.ballot = 3,
		.size = sizeof(struct kv_command),
		.command = { .op = KV_NOOP },
	};
	struct kv_record record = {
		.type = KV_RECORD_ENTRY,
		.entry = &entry,
	};

	for (entry.slot = from; entry.slot <= to; entry.slot++)
		wait_for(journal, journal_append(journal, &record));
}

static unsigned count_files(void)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	unsigned n = 0;

	cr_assert(dir);
	while ((entry = readdir(dir)))
		n += !strncmp(entry->d_name, "log-", 4);
	closedir(dir);
	return n;
}

static const char *path_of(const char *name)
{
	static char paths[2][64];
	static unsigned turn;
	char *path = paths[turn++ % 2];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static int open_log(int flags)
{
	int fd = open(path_of("log-0000000001"), flags | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	return fd;
}

static void set_up(void)
{
	cr_assert(mkdtemp(folder));
}

static void tear_down(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(journal, .init = set_up, .fini = tear_down);

Test(journal, gives_back_what_was_synced)
{
	const struct kv_record commit = {
		.type = KV_RECORD_COMMIT,
		.slot = 4,
	};
	struct replayed replayed;
	struct journal *journal = begin(0, &replayed);

	cr_assert_eq(replayed.n_entries, 0);
	promise(journal, 5);
	accept_slots(journal, 1, 4);
	wait_for(journal, journal_append(journal, &commit));
	journal_close(journal);

	journal = begin(0, &replayed);
	cr_assert_eq(replayed.n_entries, 4);
	cr_assert_eq(replayed.last_slot, 4);
	cr_assert_eq(replayed.commit, 4);
	cr_assert_eq(replayed.promise, 5);
	journal_close(journal);
}

Test(journal, cuts_off_a_torn_record_and_goes_on_behind_the_last_whole_one)
{
	struct replayed replayed;
	struct journal *journal = begin(0, &replayed);
	struct stat status;
	int fd;

	accept_slots(journal, 1, 3);
	journal_close(journal);
	fd = open_log(O_RDWR);
	cr_assert_eq(fstat(fd, &status), 0);
	cr_assert_eq(ftruncate(fd, status.st_size - 5), 0);
	close(fd);

	journal = begin(0, &replayed);
	cr_assert_eq(replayed.last_slot, 2);
	accept_slots(journal, 3, 5);
	journal_close(journal);
	journal = begin(0, &replayed);
	cr_assert_eq(replayed.n_entries, 5);
	cr_assert_eq(replayed.last_slot, 5);
	journal_close(journal);
}

Test(journal, cuts_off_what_was_written_and_not_synced_at_the_end)
{
	static const char garbage[300] = { 0x4a, 0x4b, 1 };
	struct replayed replayed;
	struct journal *journal = begin(0, &replayed);
	int fd;

	accept_slots(journal, 1, 3);
	journal_close(journal);
	fd = open_log(O_WRONLY | O_APPEND);
	cr_assert_eq(write(fd, garbage, sizeof(garbage)), sizeof(garbage));
	close(fd);

	journal = begin(0, &replayed);
	cr_assert_eq(replayed.n_entries, 3);
	journal_close(journal);
}

Test(journal, refuses_damage_to_what_was_synced)
{
	const struct journal_setup setup = {
		.dir = folder,
		.synced = on_synced,
	};
	struct journal_identity identity;
	struct replayed replayed;
	struct journal *journal = begin(0, &replayed);
	bool found;
	int fd;

	accept_slots(journal, 1, 5);
	journal_close(journal);
	fd = open_log(O_RDWR);
	/* Neither in the first records nor in the last one. */
	cr_assert_eq(pwrite(fd, "damage", 6, 130), 6);
	close(fd);

	cr_assert_eq(journal_open(&setup, &identity, &found, &journal), 0);
	cr_assert_eq(journal_replay(journal, restore, &replayed), -EBADMSG);
	journal_close(journal);
}

/* The result of a start with the folder. */
static int refusal(void)
{
	const struct journal_setup setup = {
		.dir = folder,
		.synced = on_synced,
	};
	struct journal_identity identity;
	struct replayed replayed;
	struct journal *journal;
	bool found;
	int ret = journal_open(&setup, &identity, &found, &journal);

	if (ret)
		return ret;
	cr_assert(found);
	ret = journal_replay(journal, restore, &replayed);
	journal_close(journal);
	return ret;
}

/* A folder with files 1 to 4 or more, of which file 1 has a slot. */
static void fill_folder(void)
{
	struct replayed replayed;
	struct journal *journal = begin(1, &replayed);

	promise(journal, 5);
	accept_slots(journal, 1, 3);
	journal_close(journal);
	cr_assert_geq(count_files(), 4);
	cr_assert_eq(refusal(), 0);
}

static void replace_by_fifo(const char *name)
{
	unlink(path_of(name));
	cr_assert_eq(mkfifo(path_of(name), 0600), 0);
}

Test(journal, refuses_a_folder_without_its_identity)
{
	fill_folder();
	cr_assert_eq(unlink(path_of("identity")), 0);
	cr_assert_eq(refusal(), -EBADMSG);
}

Test(journal, refuses_a_folder_with_a_snapshot_only)
{
	int fd = open(
	    path_of("snapshot"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	close(fd);
	cr_assert_eq(refusal(), -EBADMSG);
}

Test(journal, refuses_an_identity_with_more_bytes)
{
	int fd;

	fill_folder();
	fd = open(path_of("identity"), O_WRONLY | O_APPEND | O_CLOEXEC);
	cr_assert_eq(write(fd, "x", 1), 1);
	close(fd);
	cr_assert_eq(refusal(), -EBADMSG);
}

Test(journal, refuses_a_folder_without_any_of_its_files)
{
	struct replayed replayed;

	journal_close(begin(0, &replayed));
	cr_assert_eq(unlink(path_of("log-0000000001")), 0);
	cr_assert_eq(refusal(), -EBADMSG);
}

Test(journal, refuses_a_folder_without_a_file_in_between)
{
	fill_folder();
	cr_assert_eq(unlink(path_of("log-0000000002")), 0);
	cr_assert_eq(refusal(), -EBADMSG);
}

Test(journal, refuses_a_file_without_a_first_record)
{
	struct replayed replayed;
	int fd;

	journal_close(begin(0, &replayed));
	fd = open_log(O_WRONLY);
	cr_assert_eq(ftruncate(fd, 20), 0);
	cr_assert_eq(refusal(), -EBADMSG);
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(refusal(), -EBADMSG);
	close(fd);
}

Test(journal, refuses_a_file_under_another_number)
{
	struct replayed replayed;

	journal_close(begin(0, &replayed));
	cr_assert_eq(
	    rename(path_of("log-0000000001"), path_of("log-0000000002")), 0);
	cr_assert_eq(refusal(), -EBADMSG);
}

Test(journal, refuses_a_file_of_another_replica)
{
	struct journal_identity other;
	const struct journal_setup setup = {
		.dir = folder,
		.synced = on_synced,
	};
	struct replayed replayed;
	struct journal *journal;
	bool found;

	journal_close(begin(0, &replayed));
	cr_assert_eq(unlink(path_of("identity")), 0);
	cr_assert_eq(rename(path_of("log-0000000001"), path_of("kept")), 0);
	cr_assert_eq(journal_open(&setup, &other, &found, &journal), 0);
	other = own;
	other.incarnation++;
	cr_assert_eq(journal_create(journal, &other), 0);
	journal_close(journal);
	cr_assert_eq(refusal(), 0);
	cr_assert_eq(rename(path_of("kept"), path_of("log-0000000001")), 0);
	cr_assert_eq(refusal(), -EBADMSG);
}

Test(journal, refuses_what_is_no_regular_file_without_waiting_for_it)
{
	fill_folder();
	replace_by_fifo("log-0000000001");
	cr_assert_eq(refusal(), -EBADMSG);
	replace_by_fifo("identity");
	cr_assert_eq(refusal(), -EBADMSG);
	cr_assert_eq(unlink(path_of("identity")), 0);
	cr_assert_eq(symlink("nowhere", path_of("identity")), 0);
	cr_assert_eq(refusal(), -EBADMSG);
}

Test(journal, passes_over_copies_of_its_files)
{
	fill_folder();
	cr_assert_eq(link(path_of("log-0000000001"), path_of("log-1")), 0);
	cr_assert_eq(
	    link(path_of("log-0000000001"), path_of("log-0000000001.old")), 0);
	cr_assert_eq(refusal(), 0);
}

Test(journal, begins_anew_where_a_crash_came_before_the_identity)
{
	struct replayed replayed;
	struct journal *journal;

	journal_close(begin(0, &replayed));
	cr_assert_eq(unlink(path_of("identity")), 0);
	journal = begin(0, &replayed);
	accept_slots(journal, 1, 2);
	journal_close(journal);
	journal = begin(0, &replayed);
	cr_assert_eq(replayed.last_slot, 2);
	journal_close(journal);
}

Test(journal, belongs_to_one_process)
{
	const struct journal_setup setup = {
		.dir = folder,
		.synced = on_synced,
	};
	struct journal_identity identity;
	struct replayed replayed;
	struct journal *journal = begin(0, &replayed), *other;
	bool found;

	cr_assert_eq(journal_open(&setup, &identity, &found, &other), -EBUSY);
	journal_close(journal);
}

static int held; /* by the remains of another process */

static void release(int number)
{
	(void)number;
	flock(held, LOCK_UN);
}

/* A signal releases the lock, so that it comes while the journal waits. */
Test(journal, waits_for_the_last_child_of_a_killed_replica)
{
	const struct itimerval soon = { .it_value = { .tv_usec = 100000 } };
	struct replayed replayed;

	held = open(path_of("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_geq(held, 0);
	cr_assert_eq(flock(held, LOCK_EX), 0);
	signal(SIGALRM, release);
	cr_assert_eq(setitimer(ITIMER_REAL, &soon, NULL), 0);
	journal_close(begin(0, &replayed));
	close(held);
}

Test(journal, removes_files_that_a_snapshot_has_and_keeps_the_promise)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	struct replayed replayed;
	struct journal *journal = begin(1, &replayed); /* a file each */
	unsigned before, tries;

	promise(journal, 8);
	accept_slots(journal, 1, 6);
	before = count_files();
	cr_assert_geq(before, 6);
	journal_trim(journal, 4);
	for (tries = 0; count_files() > before - 5; tries++) {
		cr_assert_lt(tries, 600000);
		nanosleep(&pause, NULL);
	}
	journal_close(journal);

	journal = begin(1, &replayed);
	cr_assert_eq(replayed.last_slot, 6);
	cr_assert_eq(replayed.n_entries, 2);
	cr_assert_eq(replayed.promise, 8);
	journal_close(journal);
}

/* How it ends; -ETIME: that is not noticed. */
static int end_of_snapshot(void (*on_child)(int))
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct kv_store *store = kv_store_new(&own.config);
	struct snapshots *snapshots;
	int err = -ETIME, tries;
	uint64_t slot;

	signal(SIGCHLD, on_child);
	cr_assert_not_null(store);
	cr_assert_eq(snapshots_open(NULL, &snapshots), 0);
	cr_assert_eq(snapshots_begin(snapshots, store), 0);
	for (tries = 0; tries < 60000; tries++) {
		if (snapshots_check(snapshots, &slot, &err))
			break;
		nanosleep(&pause, NULL);
	}
	cr_assert_not(snapshots_busy(snapshots));
	snapshots_close(snapshots);
	kv_store_free(store);
	return err;
}

Test(snapshot, that_nobody_saw_end_has_failed)
{
	cr_assert_eq(end_of_snapshot(SIG_IGN), -ECHILD);
}

Test(snapshot, ends_well)
{
	cr_assert_eq(end_of_snapshot(SIG_DFL), 0);
}
