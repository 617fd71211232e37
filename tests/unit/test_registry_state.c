/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry with a state directory: what it has after a restart, who may come
 * back, and what happens if it can't store a change.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/error.h>

#include "base/host.h"
#include "base/process.h"
#include "registry/journal/journal.h"
#include "registry_help.h"

#define GRACE_MS 400

extern char **environ;

/* Syncs take no time there; what they do, test_journal.c tests. */
static char directory[] = "/dev/shm/dfi-state-XXXXXX";
static char state[64];
static const char *address;
static struct dfi_registry *registry;
static struct loop *loop, *watcher_loop;
static struct registry_client *owner, *watcher;
static struct registry_watch *watch;
static struct ear owner_ear, ear;

static int try_start(const char *path, uint32_t grace_ms)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;

	attr.listen = address;
	attr.state = path;
	attr.grace_ms = grace_ms;
	return dfi_registry_start(&attr, &registry);
}

static void start(void)
{
	cr_assert_eq(try_start(state, GRACE_MS), 0, "%s", dfi_errmsg());
}

static void remove_state(void)
{
	char path[512];
	struct dirent *entry;
	DIR *dir = opendir(state);

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", state, entry->d_name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
	rmdir(state);
	rmdir(directory);
}

static void prepare(void)
{
	lines_collect();
	address = fresh_address("socket");
	cr_assert_not_null(mkdtemp(directory));
	snprintf(state, sizeof(state), "%s/state", directory);
	atexit(remove_state);
}

static void setup(void)
{
	prepare();
	start();
	loop = start_loop();
	watcher_loop = start_loop();
	owner = open_client_at(loop, address);
	watcher = open_client_at(watcher_loop, address);
	watch = ears_watch(owner, &owner_ear, watcher, &ear);
}

static void teardown(void)
{
	dfi__client_close(owner);
	dfi__client_close(watcher);
	stop_loop(loop);
	stop_loop(watcher_loop);
	dfi_registry_stop(registry);
}

TestSuite(state, .init = setup, .fini = teardown, .timeout = 300);

static void expect_none(const char *key)
{
	struct registry_value value;

	cr_assert_eq(dfi__client_get(watcher, key, soon(), &value), -ENOENT);
}

static void lose(void)
{
	dfi_registry_stop(registry);
	registry = NULL;
	ear_expect(&owner_ear, "LOST ");
}

/* The watcher has seen the registry again. */
static void await_watcher(void)
{
	int64_t deadline = soon();
	struct registry_value value;
	int ret;

	do
		ret = dfi__client_get(watcher, "none", soon(), &value);
	while (ret == -ENOTCONN && clock_now_ns() < deadline);
	cr_assert_eq(ret, -ENOENT);
}

static void come_back(void)
{
	start();
	ear_expect(&owner_ear, "LOST BACK ");
	await_watcher();
}

Test(state, keys_survive_and_are_not_set_again)
{
	uint64_t leased, lasting, unkept;

	create_text(owner, "p/leased", "a", CLIENT_LEASED);
	create_text(owner, "p/lasting", "b", CLIENT_SHARED);
	create_text(owner, "unkept", "c", 0);
	leased = expect_text(watcher, "p/leased", "a");
	lasting = expect_text(watcher, "p/lasting", "b");
	unkept = expect_text(watcher, "unkept", "c");
	lose();
	come_back();
	ear_expect(&ear, "+p/leased=a +p/lasting=b LOST BACK ");
	cr_assert_eq(expect_text(watcher, "p/leased", "a"), leased);
	cr_assert_eq(expect_text(watcher, "p/lasting", "b"), lasting);
	cr_assert_eq(expect_text(watcher, "unkept", "c"), unkept);
	/* The lease is the client's again: its keys end with it. */
	dfi__client_close(owner);
	ear_expect(&ear, "+p/leased=a +p/lasting=b LOST BACK -p/leased ");
	owner = open_client_at(loop, address);
	expect_text(watcher, "p/lasting", "b");
}

Test(state, a_registry_may_be_restarted_many_times)
{
	char heard[256] = "+p/1=a ", by_owner[256] = "";
	uint64_t revision;
	int i;

	create_text(owner, "p/1", "a", CLIENT_LEASED);
	revision = expect_text(watcher, "p/1", "a");
	for (i = 0; i < 5; i++) {
		dfi_registry_stop(registry);
		strcat(heard, "LOST ");
		ear_expect(&ear, heard);
		strcat(by_owner, "LOST ");
		ear_expect(&owner_ear, by_owner);
		start();
		strcat(heard, "BACK ");
		ear_expect(&ear, heard);
		strcat(by_owner, "BACK ");
		ear_expect(&owner_ear, by_owner);
		cr_assert_eq(expect_text(watcher, "p/1", "a"), revision);
	}
}

Test(state, more_keys_than_a_page_are_resumed)
{
	struct registry_value *values;
	char key[400];
	size_t n;
	int i;

	for (i = 0; i < 1500; i++) {
		snprintf(key, sizeof(key), "many/%0300d", i);
		create_text(owner, key, "value", CLIENT_LEASED);
	}
	cr_assert_eq(dfi__client_list(watcher, "", soon(), &values, &n), 0);
	cr_assert_eq(n, 1500);
	dfi__registry_values_free(values, n);
	lose();
	come_back();
	/* The next change is the first one since. */
	create_text(owner, "p/1", "a", 0);
	cr_assert_eq(expect_text(watcher, "p/1", "a"), 1501);
	cr_assert_eq(dfi__client_list(watcher, "m", soon(), &values, &n), 0);
	cr_assert_eq(n, 1500);
	dfi__registry_values_free(values, n);
}

Test(state, who_does_not_come_back_is_gone_after_the_grace)
{
	int64_t begin;

	create_text(owner, "p/1", "a", CLIENT_LEASED);
	create_text(owner, "p/2", "b", CLIENT_SHARED);
	lose();
	dfi__client_close(owner);
	begin = clock_now_ns();
	start();
	ear_expect(&ear, "+p/1=a +p/2=b LOST BACK -p/1 ");
	cr_assert_geq(clock_now_ns() - begin, GRACE_MS * NS_PER_MS);
	lines_wait("did not come back");
	owner = open_client_at(loop, address);
	expect_text(watcher, "p/2", "b");
	/* Its end is stored as well. */
	dfi_registry_stop(registry);
	start();
	ear_expect(&ear, "+p/1=a +p/2=b LOST BACK -p/1 LOST BACK ");
	expect_none("p/1");
}

static sem_t entered, leave;

static int block(void *arg)
{
	(void)arg;
	sem_post(&entered);
	sem_wait(&leave);
	return 0;
}

static void *block_owner(void *arg)
{
	dfi__loop_call(loop, block, arg, DEADLINE_NEVER);
	return NULL;
}

/* Until release_owner(), the owner does not come back. */
static pthread_t blocker;

static void hold_owner(void)
{
	sem_init(&entered, 0, 0);
	sem_init(&leave, 0, 0);
	cr_assert_eq(pthread_create(&blocker, NULL, block_owner, NULL), 0);
	sem_wait(&entered);
}

static void release_owner(void)
{
	sem_post(&leave);
	pthread_join(blocker, NULL);
	ear_expect(&owner_ear, "LOST BACK ");
}

Test(state, what_was_changed_or_given_up_meanwhile_is_put_right)
{
	create_text(owner, "p/changed", "a", CLIENT_LEASED);
	create_text(owner, "p/forgotten", "a", CLIENT_LEASED);
	create_text(owner, "p/same", "a", CLIENT_LEASED);
	ear_expect(&ear, "+p/changed=a +p/forgotten=a +p/same=a ");
	lose();
	dfi__client_renew(owner, "p/changed", "b", 1);
	dfi__client_forget(owner, "p/forgotten");
	hold_owner();
	cr_assert_eq(try_start(state, 60000), 0);
	ear_expect(&ear, "+p/changed=a +p/forgotten=a +p/same=a LOST BACK ");
	release_owner();
	ear_expect(&ear,
	    "+p/changed=a +p/forgotten=a +p/same=a LOST BACK "
	    "-p/forgotten +p/changed=b ");
	expect_text(watcher, "p/changed", "b");
	expect_none("p/forgotten");
}

Test(state, what_others_delete_before_its_owner_is_back_stays_deleted)
{
	create_text(owner, "p/lasting", "b", CLIENT_SHARED);
	create_text(owner, "p/leased", "a", CLIENT_LEASED | CLIENT_SHARED);
	lose();
	hold_owner();
	cr_assert_eq(try_start(state, 60000), 0);
	ear_expect(&ear, "+p/lasting=b +p/leased=a LOST BACK ");
	cr_assert_eq(dfi__client_delete(watcher, "p/leased", 0, soon()), 0);
	cr_assert_eq(dfi__client_delete(watcher, "p/lasting", 0, soon()), 0);
	release_owner();
	expect_none("p/leased");
	expect_none("p/lasting");
	ear_expect(
	    &ear, "+p/lasting=b +p/leased=a LOST BACK -p/leased -p/lasting ");
}

Test(state, a_registry_without_it_is_restored_by_its_clients_as_before)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;

	create_text(owner, "p/1", "a", CLIENT_LEASED);
	create_text(owner, "p/2", "b", CLIENT_SHARED);
	lose();
	attr.listen = address;
	cr_assert_eq(dfi_registry_start(&attr, &registry), 0);
	ear_expect(&owner_ear, "LOST BACK ");
	await_watcher();
	expect_text(watcher, "p/1", "a");
	expect_text(watcher, "p/2", "b");
	/* And so is one that begins with an empty state. */
	dfi_registry_stop(registry);
	ear_expect(&owner_ear, "LOST BACK LOST ");
	remove_state();
	cr_assert_eq(mkdir(directory, 0700), 0);
	start();
	ear_expect(&owner_ear, "LOST BACK LOST BACK ");
	await_watcher();
	expect_text(watcher, "p/1", "a");
	expect_text(watcher, "p/2", "b");
	/* Also after one that had nothing to restore. */
	dfi_registry_stop(registry);
	ear_expect(&owner_ear, "LOST BACK LOST BACK LOST ");
	start();
	ear_expect(&owner_ear, "LOST BACK LOST BACK LOST BACK ");
	dfi_registry_stop(registry);
	ear_expect(&owner_ear, "LOST BACK LOST BACK LOST BACK LOST ");
	cr_assert_eq(dfi_registry_start(&attr, &registry), 0);
	ear_expect(&owner_ear, "LOST BACK LOST BACK LOST BACK LOST BACK ");
	await_watcher();
	expect_text(watcher, "p/1", "a");
	expect_text(watcher, "p/2", "b");
}

static void copy_journal(const char *from, const char *to)
{
	char command[256];

	snprintf(
	    command, sizeof(command), "cp %s/%s %s/%s", state, from, state, to);
	cr_assert_eq(system(command), 0);
}

Test(state, an_older_copy_of_it_is_noticed)
{
	create_text(owner, "p/1", "a", CLIENT_LEASED);
	copy_journal("journal", "copy");
	create_text(owner, "p/2", "b", CLIENT_LEASED);
	create_text(owner, "p/3", "c", CLIENT_SHARED);
	lose();
	copy_journal("copy", "journal");
	come_back();
	expect_text(watcher, "p/1", "a");
	expect_text(watcher, "p/2", "b");
	expect_text(watcher, "p/3", "c");
	/* And the next time all is as usual. */
	dfi_registry_stop(registry);
	ear_expect(&owner_ear, "LOST BACK LOST ");
	start();
	ear_expect(&owner_ear, "LOST BACK LOST BACK ");
	await_watcher();
	expect_text(watcher, "p/3", "c");
}

/* ---- A journal of other clients ------------------------------------------ */

TestSuite(state_owners, .init = prepare, .timeout = 300);

static int refuse_changes(void *arg, const struct journal_change *change)
{
	(void)arg;
	(void)change;
	return -EBADMSG;
}

static uint64_t this_location(void)
{
	struct host host;

	dfi__host_read(&host);
	return host.boot ^ dfi__process_space();
}

/* Write a journal with keys of clients by hand. */
static void write_leases(const struct journal_change *grants, size_t n)
{
	struct journal_hooks hooks = { .apply = refuse_changes };
	struct journal_directory *dir;
	struct journal_files files;
	struct journal *journal;
	char key[32];
	size_t i;

	cr_assert_eq(dfi__journal_directory_open(state, &dir, &files), 0);
	cr_assert_eq(dfi__journal_open(&files, &hooks, &journal), 0);
	for (i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "p/%zu", i);
		cr_assert_eq(dfi__journal_add(journal, &grants[i]), 0);
		cr_assert_eq(dfi__journal_add(journal,
				 &(struct journal_change){
				     .type = JOURNAL_PUT,
				     .revision = i + 1,
				     .lease = grants[i].lease,
				     .client = grants[i].client,
				     .key = key,
				     .key_size = strlen(key),
				 }),
		    0);
	}
	cr_assert_eq(dfi__journal_commit(journal), 0);
	dfi__journal_close(journal);
	dfi__journal_directory_close(dir);
}

Test(state_owners, processes_that_have_ended_lose_their_keys_at_once)
{
	uint32_t pid = (uint32_t)getpid();
	uint64_t start = dfi__process_start(pid), location = this_location();
	struct journal_change grants[] = {
		/* This process lives, */
		{ .type = JOURNAL_GRANT,
		    .lease = 1,
		    .client = 11,
		    .pid = pid,
		    .start = start,
		    .location = location },
		/* its number belonged to an earlier one, */
		{ .type = JOURNAL_GRANT,
		    .lease = 2,
		    .client = 12,
		    .pid = pid,
		    .start = start - 1,
		    .location = location },
		/* nobody has this number, */
		{ .type = JOURNAL_GRANT,
		    .lease = 3,
		    .client = 13,
		    .pid = INT32_MAX,
		    .start = start,
		    .location = location },
		/* nothing is known of this one, */
		{ .type = JOURNAL_GRANT, .lease = 4, .client = 14 },
		/* and this one was elsewhere. */
		{ .type = JOURNAL_GRANT,
		    .lease = 5,
		    .client = 15,
		    .pid = pid,
		    .start = start - 1,
		    .location = location + 1 },
	};
	struct raw raw;

	write_leases(grants, 5);
	cr_assert_eq(try_start(state, 600000), 0, "%s", dfi_errmsg());
	loop = start_loop();
	watcher = open_client_at(loop, address);
	ear_init(&ear);
	cr_assert_eq(
	    dfi__client_watch(watcher, "p/", ear_hear, &ear, soon(), &watch),
	    0);
	/* Before or after the end of the dead ones is stored. */
	raw_connect(&raw, address);
	cr_assert_eq(raw_join(&raw, 14, 1), 0);
	raw_close(&raw);
	expect_text(watcher, "p/0", "");
	expect_none("p/1");
	expect_none("p/2");
	expect_text(watcher, "p/3", "");
	expect_text(watcher, "p/4", "");
	dfi__client_close(watcher);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

/* A process that does nothing. */
static pid_t spawn_sleeper(void)
{
	char *argv[] = { "sleep", "1000", NULL };
	pid_t pid;

	cr_assert_eq(
	    posix_spawn(&pid, "/bin/sleep", NULL, NULL, argv, environ), 0);
	return pid;
}

Test(state_owners, a_stopped_process_keeps_its_keys_until_it_ends)
{
	pid_t pid = spawn_sleeper();
	struct journal_change grants[] = {
		{ .type = JOURNAL_GRANT,
		    .lease = 1,
		    .client = 11,
		    .pid = (uint32_t)pid,
		    .start = dfi__process_start((uint32_t)pid),
		    .location = this_location() },
		{ .type = JOURNAL_GRANT, .lease = 2, .client = 12 },
	};
	int status;

	kill(pid, SIGSTOP);
	cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	write_leases(grants, 2);
	start();
	loop = start_loop();
	watcher = open_client_at(loop, address);
	ear_init(&ear);
	cr_assert_eq(
	    dfi__client_watch(watcher, "p/", ear_hear, &ear, soon(), &watch),
	    0);
	/* The grace is over. */
	ear_expect(&ear, "+p/0= +p/1= -p/1 ");
	expect_text(watcher, "p/0", "");
	kill(pid, SIGKILL);
	ear_expect(&ear, "+p/0= +p/1= -p/1 -p/0 ");
	waitpid(pid, NULL, 0);
	dfi__client_close(watcher);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

/* ---- What can't be stored ------------------------------------------------ */

static _Atomic int sync_error;
static _Atomic unsigned n_syncs;
/* A sync begins when it has the lock. */
static pthread_mutex_t sync_lock = PTHREAD_MUTEX_INITIALIZER;
static int (*real_sync)(void *arg, int fd);

static int failing_sync(void *arg, int fd)
{
	int err = atomic_load(&sync_error);

	atomic_fetch_add(&n_syncs, 1);
	pthread_mutex_lock(&sync_lock);
	pthread_mutex_unlock(&sync_lock);
	return err ? err : real_sync(arg, fd);
}

static void setup_failing(void)
{
	real_sync = dfi__journal_file_ops.sync;
	dfi__journal_file_ops.sync = failing_sync;
	setup();
}

TestSuite(state_full, .init = setup_failing, .fini = teardown, .timeout = 300);

static void refuses(int err, const char *text)
{
	int ret = dfi__client_create(
	    owner, "p/refused", "x", 1, CLIENT_LEASED, soon(), NULL);

	cr_assert_eq(ret, err, "%d %s", ret, dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), state), "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), text), "%s", dfi_errmsg());
}

static void await_recovery(void)
{
	int64_t deadline = soon();
	int ret;

	do
		ret = dfi__client_create(
		    owner, "p/late", "x", 1, CLIENT_LEASED, soon(), NULL);
	while (ret && clock_now_ns() < deadline);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
}

Test(state_full, changes_are_refused_with_the_reason_and_reads_go_on)
{
	create_text(owner, "p/1", "a", CLIENT_LEASED);
	create_text(owner, "lasting", "b", CLIENT_SHARED);
	atomic_store(&sync_error, -ENOSPC);
	refuses(-ENOSPC, "No space left");
	refuses(-ENOSPC, "make room");
	cr_assert_eq(dfi__client_delete(owner, "lasting", 0, soon()), -ENOSPC);
	cr_assert_eq(dfi__client_put(owner, "lasting", "c", 1, 0, soon(), NULL),
	    -ENOSPC);
	expect_text(watcher, "p/1", "a");
	expect_text(watcher, "lasting", "b");
	expect_none("p/refused");
	ear_expect(&ear, "+p/1=a ");
	atomic_store(&sync_error, 0);
	await_recovery();
	lines_wait("is stored again");
	ear_expect(&ear, "+p/1=a +p/late=x ");
	lose();
	come_back();
	ear_expect(&ear, "+p/1=a +p/late=x LOST BACK ");
	expect_none("p/refused");
	expect_text(watcher, "lasting", "b");
}

Test(state_full, an_error_of_the_disk_is_reported)
{
	atomic_store(&sync_error, -EIO);
	refuses(-EIO, "Input/output error");
	lines_wait("Input/output error");
	atomic_store(&sync_error, 0);
	await_recovery();
}

Test(state_full, the_end_of_a_client_is_reported_and_stored_later)
{
	struct registry_client *other = open_client_at(loop, address);

	cr_assert_eq(dfi__client_create(
			 other, "p/other", "x", 1, CLIENT_LEASED, soon(), NULL),
	    0);
	create_text(owner, "p/1", "a", CLIENT_LEASED);
	ear_expect(&ear, "+p/other=x +p/1=a ");
	atomic_store(&sync_error, -ENOSPC);
	dfi__client_close(other);
	ear_expect(&ear, "+p/other=x +p/1=a -p/other ");
	dfi__client_forget(owner, "p/1");
	ear_expect(&ear, "+p/other=x +p/1=a -p/other -p/1 ");
	atomic_store(&sync_error, 0);
	await_recovery();
	ear_expect(&ear, "+p/other=x +p/1=a -p/other -p/1 +p/late=x ");
	lose();
	come_back();
	ear_expect(
	    &ear, "+p/other=x +p/1=a -p/other -p/1 +p/late=x LOST BACK ");
	expect_none("p/other");
}

#define N_PUTS 100

Test(state_full, several_changes_share_a_sync)
{
	Dfi__Registry__Message *message;
	struct raw raw;
	unsigned before;
	char key[32];
	int i;

	raw_connect(&raw, address);
	cr_assert_eq(raw_join(&raw, 77, 1), 0);
	cr_assert_eq(raw_grant(&raw, 0), 0);
	before = atomic_load(&n_syncs);
	/* Changes gather while the first of them is stored. */
	pthread_mutex_lock(&sync_lock);
	for (i = 0; i < N_PUTS; i++) {
		snprintf(key, sizeof(key), "many/%d", i);
		raw_send_put(&raw, key, false);
	}
	pthread_mutex_unlock(&sync_lock);
	for (i = 0; i < N_PUTS; i++) {
		message = raw_read(&raw);
		cr_assert_not_null(message);
		cr_assert_eq(message->reply->error, 0);
		cr_assert_eq(message->reply->revision, (uint64_t)i + 1);
		dfi__wire_free(message);
	}
	cr_assert_lt(atomic_load(&n_syncs) - before, N_PUTS / 2);
	raw_close(&raw);
}

static void send_revoke(struct raw *raw)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__LeaseRevoke revoke = DFI__REGISTRY__LEASE_REVOKE__INIT;

	request.op_case = DFI__REGISTRY__REQUEST__OP_LEASE_REVOKE;
	request.lease_revoke = &revoke;
	raw_send(raw, &request);
}

static void send_change(struct raw *raw, const char *key, bool deletes)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Delete deletion = DFI__REGISTRY__DELETE__INIT;
	Dfi__Registry__Put op = DFI__REGISTRY__PUT__INIT;

	request.op_case = deletes ? DFI__REGISTRY__REQUEST__OP_DELETE
				  : DFI__REGISTRY__REQUEST__OP_PUT;
	op.key = deletion.key = (char *)key;
	if (deletes)
		request.delete_ = &deletion;
	else
		request.put = &op;
	raw_send(raw, &request);
}

/* The next reply has this error, or revision. */
static void expect_reply(struct raw *raw, int err, uint64_t revision)
{
	Dfi__Registry__Message *message = raw_read(raw);

	cr_assert_not_null(message);
	cr_assert_eq(message->reply->error, err, "%s", message->reply->text);
	if (!err)
		cr_assert_eq(message->reply->revision, revision);
	dfi__wire_free(message);
}

/* Sent at once, they would be one group if they were independent. */
Test(state_full, changes_that_depend_on_each_other_are_made_in_their_order)
{
	struct raw raw;

	raw_connect(&raw, address);
	cr_assert_eq(raw_join(&raw, 77, 1), 0);
	cr_assert_eq(raw_grant(&raw, 0), 0);
	cr_assert_eq(raw_put_leased(&raw, "p/a"), 0);
	cr_assert_eq(raw_put_leased(&raw, "p/b"), 0);
	send_revoke(&raw); /* changes 3 and 4 */
	raw_send_put(&raw, "p/x", false);
	send_change(&raw, "p/b", true);
	send_change(&raw, "p/a", false);
	send_change(&raw, "p/a", false);
	send_change(&raw, "p/a", true);
	send_change(&raw, "p/a", true);
	expect_reply(&raw, 0, 0);
	expect_reply(&raw, -EINVAL, 0);
	expect_reply(&raw, -ENOENT, 0);
	expect_reply(&raw, 0, 5);
	expect_reply(&raw, 0, 6);
	expect_reply(&raw, 0, 7);
	expect_reply(&raw, -ENOENT, 0);
	raw_close(&raw);
	ear_expect(&ear, "+p/a= +p/b= -p/a -p/b +p/a= +p/a= -p/a ");
	/* What was written down is what was done. */
	cr_assert_eq(lines_count("state directory"), 0);
	create_text(owner, "p/c", "c", CLIENT_LEASED);
	lose();
	come_back();
	cr_assert_eq(expect_text(watcher, "p/c", "c"), 8);
	expect_none("p/a");
}

Test(state_full, garbage_behind_a_change_is_refused_after_the_answer)
{
	static const char garbage[] = { 0, 0, 0, 1, 'x' };
	Dfi__Registry__Message *message;
	struct raw raw;

	raw_connect(&raw, address);
	cr_assert_eq(raw_join(&raw, 77, 1), 0);
	cr_assert_eq(raw_grant(&raw, 0), 0);
	raw_send_put(&raw, "p/raw", false);
	raw_send_bytes(&raw, garbage, sizeof(garbage));
	message = raw_read(&raw);
	cr_assert_not_null(message);
	cr_assert_neq(message->reply->id, 0);
	cr_assert_eq(message->reply->error, 0);
	dfi__wire_free(message);
	raw_expect_refusal(&raw, -EBADMSG);
	ear_expect(&ear, "+p/raw= -p/raw ");
	raw_close(&raw);
}

Test(state_full, the_journal_does_not_grow_without_end)
{
	static char value[60000];
	char path[96];
	struct stat st;
	int i;

	memset(value, 'v', sizeof(value) - 1);
	create_text(owner, "p/1", "a", CLIENT_LEASED);
	for (i = 0; i < 300; i++)
		cr_assert_eq(dfi__client_put(owner, "large", value,
				 sizeof(value) - 1, 0, soon(), NULL),
		    0, "%s", dfi_errmsg());
	snprintf(path, sizeof(path), "%s/journal", state);
	cr_assert_eq(stat(path, &st), 0);
	cr_assert_lt(st.st_size, 4 << 20);
	cr_assert_eq(st.st_mode & 07777, 0600);
	lose();
	come_back();
	expect_text(watcher, "large", value);
	expect_text(watcher, "p/1", "a");
	ear_expect(&ear, "+p/1=a LOST BACK ");
}

/* ---- The directory ------------------------------------------------------- */

TestSuite(state_directory, .init = prepare, .timeout = 300);

static void is_refused(const char *path, int err, const char *text)
{
	int ret = try_start(path, 0);

	cr_assert_eq(ret, err, "%d: %s", ret, dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), path), "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), text), "%s", dfi_errmsg());
}

Test(state_directory, is_refused_with_the_reason)
{
	char path[96];
	struct dfi_registry *first;
	struct stat st;

	snprintf(path, sizeof(path), "%s/none/state", directory);
	is_refused(path, -ENOENT, "does not exist");
	cr_assert_eq(mkdir(state, 0755), 0);
	is_refused(state, -EACCES, "mode 0755");
	cr_assert_eq(chmod(state, 0700), 0);
	snprintf(path, sizeof(path), "%s/lock", state);
	fclose(fopen(path, "w"));
	is_refused(path, -ENOTDIR, "not a directory");
	start();
	first = registry;
	address = NULL;
	is_refused(state, -EBUSY, "another registry");
	dfi_registry_stop(first);
	cr_assert_eq(try_start(state, 0), 0);
	dfi_registry_stop(registry);
	remove_state();
	cr_assert_eq(mkdir(directory, 0700), 0);
	cr_assert_eq(try_start(state, 0), 0);
	cr_assert_eq(stat(state, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0700);
	dfi_registry_stop(registry);
}

Test(state_directory, of_another_user_is_refused)
{
	if (geteuid())
		cr_skip_test("only root can give a directory away");
	cr_assert_eq(mkdir(state, 0700), 0);
	cr_assert_eq(chown(state, 1234, 1234), 0);
	is_refused(state, -EACCES, "belongs to user 1234");
}

Test(state_directory, with_a_damaged_journal_is_refused)
{
	char path[96];
	FILE *file;

	cr_assert_eq(mkdir(state, 0700), 0);
	snprintf(path, sizeof(path), "%s/journal", state);
	file = fopen(path, "w");
	fprintf(file, "this is a text of another program, not a journal");
	fclose(file);
	is_refused(state, -EBADMSG, "move it away");
}
