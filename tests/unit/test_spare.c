/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spare regions of the shared-memory transport: which are used again, which
 * never are, and the limits. The number of its file identifies a region.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/error.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/settings.h"
#include "transport/shm/shm.h"
#include "tests/unit/stop_loop.h"

#include "../proc/descriptors.h"

#define SIZE (UINT64_C(64) << 10)
#define NOBODY 65534

extern char **environ;

/* An instance of the transport, as a process has one. */
struct side {
	struct settings settings;
	struct loop *loop;
	struct transport *transport;
};

static struct side owner, peer;

static void start(struct side *side)
{
	cr_assert_eq(dfi__settings_load(&side->settings), 0);
	side->settings.huge_pages = HUGE_PAGES_NEVER;
	side->settings.spare_memory = 32 << 20;
	side->settings.ring_memory_limit = UINT64_MAX;
	cr_assert_eq(dfi__loop_start("side", &side->loop), 0);
	cr_assert_eq(dfi__shm_ops.start(
			 side->loop, &side->settings, NULL, &side->transport),
	    0);
}

static void stop(struct side *side)
{
	side->transport->ops->stop(side->transport);
	stop_loop(side->loop);
}

static void setup(void)
{
	/* The limit holds on slow machines as well. */
	dfi__shm_wait_limit_ns = INT64_MAX;
	start(&owner);
	start(&peer);
}

static void teardown(void)
{
	stop(&peer);
	stop(&owner);
}

TestSuite(spare, .init = setup, .fini = teardown, .timeout = 300);

static struct region *create_at(struct side *side, uint64_t size)
{
	struct region *region = NULL;

	cr_assert_eq(dfi__shm_ops.region.create(side->transport, size, &region),
	    0, "%s", dfi_errmsg());
	cr_assert_geq(region->name.size, size);
	return region;
}

static struct region *create(uint64_t size)
{
	return create_at(&owner, size);
}

static void destroy(struct region *region)
{
	dfi__shm_ops.region.destroy(region);
}

static ino_t file_of(const struct region *region)
{
	struct stat st;

	cr_assert_eq(fstat(((const struct shm_region *)region)->fd, &st), 0);
	return st.st_ino;
}

/* Create and destroy: the file that it was. */
static ino_t pass_by(uint64_t size)
{
	struct region *region = create(size);
	ino_t file = file_of(region);

	destroy(region);
	return file;
}

static int open_at(
    struct side *side, const struct region_name *name, struct remote **remote)
{
	struct ring_layout whole = { .n_rings = 1, .ring_size = name->size };

	return dfi__shm_ops.ring.open(side->transport, NULL, name, &whole, 0,
	    NULL, WAIT_LIMIT(deadline_in_ms(60000)), remote);
}

static struct remote *open_ring(struct side *side, const struct region *region)
{
	struct remote *remote = NULL;

	cr_assert_eq(
	    open_at(side, &region->name, &remote), 0, "%s", dfi_errmsg());
	return remote;
}

static void close_ring(struct remote *remote)
{
	dfi__shm_ops.ring.close(remote);
}

static unsigned count_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[1024];
	unsigned n = 0;

	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, "memfd:dfi") != NULL;
	fclose(file);
	return n;
}

/* Descriptors of regions; others come and go on control threads. */
static unsigned count_files(void)
{
	return count_descriptors("memfd:dfi");
}

Test(spare, destroyed_region_is_used_again)
{
	struct region *region = create(SIZE);
	ino_t file = file_of(region);
	char *last = (char *)region->base + SIZE - 1;
	uint64_t key = region->name.key;

	*last = 'x';
	destroy(region);
	region = create(SIZE);
	cr_assert_eq(file_of(region), file);
	cr_assert_eq((char *)region->base + SIZE - 1, last);
	cr_assert_eq(*last, 'x', "cleared, which takes time");
	cr_assert_neq(region->name.key, key);
	destroy(region);
}

Test(spare, one_that_is_in_use_is_nobody_elses)
{
	struct region *first = create(SIZE), *second = create(SIZE);

	cr_assert_neq(file_of(first), file_of(second));
	destroy(first);
	destroy(second);
	first = create(SIZE);
	second = create(SIZE);
	cr_assert_neq(file_of(first), file_of(second));
	destroy(first);
	destroy(second);
	cr_assert_eq(count_files(), 2);
}

Test(spare, size_counts_in_pages)
{
	ino_t file = pass_by(SIZE);

	cr_assert_neq(pass_by(SIZE + 1), file);
	cr_assert_neq(pass_by(SIZE - 4096), file);
	cr_assert_neq(pass_by(2 * SIZE), file);
	cr_assert_eq(pass_by(SIZE - 1), file);
	cr_assert_eq(pass_by(SIZE), file);
}

Test(spare, newest_is_taken_first)
{
	struct region *first = create(SIZE), *second = create(SIZE);
	ino_t file = file_of(second);

	destroy(first);
	destroy(second);
	cr_assert_eq(pass_by(SIZE), file);
}

/* The usual order: the target closes while its source is still closing. */
Test(spare, peer_must_have_released_it)
{
	struct region *region = create(SIZE), *other;
	struct remote *first = open_ring(&peer, region);
	struct remote *second = open_ring(&peer, region);
	ino_t file = file_of(region);

	destroy(region);
	other = create(SIZE);
	cr_assert_neq(file_of(other), file);
	memset(first->ring + 128, 1, SIZE - 128);
	close_ring(first);
	cr_assert_neq(pass_by(SIZE), file);
	memset(second->ring + 128, 2, SIZE - 128);
	close_ring(second);
	/* The other one that is spare now is the newer. */
	region = create(SIZE);
	cr_assert_neq(file_of(region), file);
	cr_assert_eq(pass_by(SIZE), file);
	destroy(region);
	destroy(other);
}

Test(spare, each_use_counts_its_own_peers)
{
	struct region *region;
	struct remote *remote;
	ino_t file = pass_by(SIZE);
	int i;

	for (i = 0; i < 5; i++) {
		region = create(SIZE);
		cr_assert_eq(file_of(region), file);
		remote = open_ring(&peer, region);
		if (i % 2)
			destroy(region);
		close_ring(remote);
		if (!(i % 2))
			destroy(region);
	}
	region = create(SIZE);
	remote = open_ring(&peer, region);
	destroy(region);
	cr_assert_neq(pass_by(SIZE), file);
	close_ring(remote);
}

Test(spare, own_remote_keeps_it_in_use)
{
	struct region *region = create(SIZE);
	struct remote *remote = open_ring(&owner, region);
	ino_t file = file_of(region);

	destroy(region);
	cr_assert_neq(pass_by(SIZE), file);
	memset(remote->ring + 128, 1, SIZE - 128);
	close_ring(remote);
	cr_assert_eq(pass_by(SIZE), file);
}

/* A process that has the region mapped. */
static pid_t start_holder(const struct region *region)
{
	char key[32], size[32], word;
	char *argv[] = { (char *)DFI_SHM_PEER, owner.transport->address,
		(char *)"hold", key, size, NULL };
	posix_spawn_file_actions_t actions;
	int words[2];
	pid_t pid;

	snprintf(key, sizeof(key), "%" PRIu64, region->name.key);
	snprintf(size, sizeof(size), "%" PRIu64, region->name.size);
	cr_assert_eq(pipe2(words, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, words[1], STDOUT_FILENO);
	cr_assert_eq(
	    posix_spawn(&pid, argv[0], &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(words[1]);
	cr_assert_eq(read(words[0], &word, 1), 1);
	close(words[0]);
	return pid;
}

static void kill_holder(pid_t pid)
{
	int status;

	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
}

/* It is unknown which step it would have done next when it died. */
static void try_killed(bool before)
{
	struct region *region = create(SIZE);
	ino_t file = file_of(region);
	pid_t pid;

	pid = start_holder(region);
	cr_assert_eq(((char *)region->base)[SIZE - 1], 'h');
	/* It has overwritten memory, but has not released it. */
	atomic_store(shm_released(region->base), 0);
	if (before)
		kill_holder(pid);
	destroy(region);
	cr_assert_neq(pass_by(SIZE), file);
	if (!before)
		kill_holder(pid);
	cr_assert_neq(pass_by(SIZE), file);
	cr_assert_eq(count_files(), 2);
	/* Later its memory is freed as well. */
	dfi__shm_wait_limit_ns = -1;
	cr_assert_neq(pass_by(SIZE), file);
	cr_assert_eq(count_files(), 1);
	cr_assert_eq(count_mappings(), 1);
}

Test(spare, peer_that_was_killed_has_not_released_it)
{
	try_killed(true);
}

Test(spare, peer_that_is_killed_after_the_owner_left_has_not_released_it)
{
	try_killed(false);
}

Test(spare, peer_that_took_only_the_descriptor_has_not_released_it)
{
	struct region *region = create(SIZE);
	ino_t file = file_of(region);
	int fd = -1;

	cr_assert_eq(dfi__shm_pass_fetch(
			 &region->name, WAIT_LIMIT(deadline_in_ms(60000)), &fd),
	    0);
	destroy(region);
	cr_assert_neq(pass_by(SIZE), file);
	close(fd);
	cr_assert_neq(pass_by(SIZE), file);
}

/* The credentials of the calling thread alone. */
static int become(void *arg)
{
	return syscall(SYS_setresuid, -1, *(int *)arg, -1) < 0 ? -errno : 0;
}

Test(spare, region_that_root_has_had_is_not_used_again)
{
	int nobody = NOBODY, root = 0;
	struct region *region = create(SIZE);
	ino_t file = file_of(region);

	if (geteuid() != 0)
		cr_skip_test("only root can become another user");
	cr_assert_eq(
	    dfi__loop_call(owner.loop, become, &nobody, DEADLINE_NEVER), 0);
	close_ring(open_ring(&peer, region));
	cr_assert_eq(
	    dfi__loop_call(owner.loop, become, &root, DEADLINE_NEVER), 0);
	cr_assert_eq(atomic_load(shm_released(region->base)), 1);
	destroy(region);
	cr_assert_eq(count_files(), 0);
	cr_assert_neq(pass_by(SIZE), file);
}

Test(spare, region_that_was_exported_is_not_used_again)
{
	struct export export = { .transport = NULL };
	struct region *region = create(SIZE);

	region->exports = &export;
	destroy(region);
	cr_assert_eq(count_files(), 0);
	cr_assert_eq(count_mappings(), 0);
}

Test(spare, old_name_opens_nothing)
{
	struct region *region = create(SIZE);
	struct region_name name = region->name;
	struct remote *remote = NULL;

	destroy(region);
	cr_assert_eq(open_at(&peer, &name, &remote), -ECONNRESET);
	cr_assert(strstr(dfi_errmsg(), "has closed the region") != NULL);
	cr_assert_eq(open_at(&owner, &name, &remote), -ECONNRESET);
	region = create(SIZE);
	cr_assert_eq(open_at(&peer, &name, &remote), -ECONNRESET);
	cr_assert_eq(open_at(&owner, &name, &remote), -ECONNRESET);
	cr_assert_null(remote);
	destroy(region);
	/* That granted it to no process. */
	cr_assert_eq(count_files(), 1);
	pass_by(SIZE);
	cr_assert_eq(count_files(), 1);
}

static void pass_many(struct region **regions, uint32_t n, uint64_t size)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		regions[i] = create(size);
	for (i = 0; i < n; i++)
		destroy(regions[i]);
}

Test(spare, oldest_goes_first_beyond_the_bound)
{
	struct region *regions[5];
	ino_t files[5];
	uint32_t i;

	owner.settings.spare_memory = 3 * SIZE + 4096;
	for (i = 0; i < 5; i++) {
		regions[i] = create(SIZE);
		files[i] = file_of(regions[i]);
	}
	for (i = 0; i < 5; i++)
		destroy(regions[i]);
	cr_assert_eq(count_files(), 3);
	cr_assert_eq(count_mappings(), 3);
	for (i = 0; i < 3; i++) {
		regions[i] = create(SIZE);
		cr_assert_eq(file_of(regions[i]), files[4 - i]);
	}
	for (i = 0; i < 3; i++)
		destroy(regions[i]);
	/* As many as it takes, but not for one that is never kept. */
	pass_by(3 * SIZE + 8192);
	cr_assert_eq(count_files(), 3);
	pass_by(2 * SIZE);
	cr_assert_eq(count_files(), 2);
	pass_by(3 * SIZE + 4096);
	cr_assert_eq(count_files(), 1);
}

Test(spare, none_are_kept_where_they_are_not_wanted)
{
	struct region *regions[3];

	owner.settings.spare_memory = 0;
	pass_many(regions, 3, SIZE);
	cr_assert_eq(count_files(), 0);
	owner.settings.spare_memory = 32 << 20;
	owner.settings.ring_memory_limit = UINT64_C(1) << 40;
	pass_many(regions, 3, SIZE);
	cr_assert_eq(count_files(), 0);
	cr_assert_eq(count_mappings(), 0);
}

Test(spare, small_ones_are_bounded_by_their_number)
{
	struct region *regions[40];

	pass_many(regions, 40, 4096);
	cr_assert_eq(count_files(), 32);
	cr_assert_eq(count_mappings(), 32);
}

Test(spare, descriptors_are_given_back_before_a_region_is_refused)
{
	struct region *regions[4], *region = NULL;
	struct rlimit limit, low;
	int lowest, ret;

	pass_many(regions, 4, SIZE);
	lowest = fcntl(STDIN_FILENO, F_DUPFD, 0);
	cr_assert_geq(lowest, 0);
	close(lowest);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)lowest;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	ret = dfi__shm_ops.region.create(owner.transport, 2 * SIZE, &region);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(count_files(), 1);
	destroy(region);
}

static uint64_t mapped_bytes(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[256];

	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "VmSize:", 7))
			kib = strtoull(line + 7, NULL, 10);
	fclose(file);
	return kib << 10;
}

#define MIB (UINT64_C(1) << 20)

Test(spare, address_space_is_given_back_before_a_region_is_refused)
{
	struct region *region = NULL, *theirs;
	struct rlimit limit, low;
	struct remote *remote = NULL;
	int at_owner, at_peer;

	owner.settings.spare_memory = peer.settings.spare_memory = 64 * MIB;
	theirs = create(48 * MIB);
	pass_by(64 * MIB);
	destroy(create_at(&peer, 64 * MIB));
	cr_assert_eq(count_files(), 3);
	cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
	low = limit;
	low.rlim_cur = mapped_bytes() + 16 * MIB;
	cr_assert_eq(setrlimit(RLIMIT_AS, &low), 0);
	at_owner = dfi__shm_ops.region.create(
	    owner.transport, 48 * MIB, &region);
	at_peer = open_at(&peer, &theirs->name, &remote);
	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	cr_assert_eq(at_owner, 0, "%s", dfi_errmsg());
	cr_assert_eq(at_peer, 0, "%s", dfi_errmsg());
	cr_assert_eq(count_files(), 2);
	close_ring(remote);
	destroy(region);
	destroy(theirs);
}

Test(spare, all_are_freed_when_the_transport_stops)
{
	struct region *regions[10];
	struct remote *remote;
	struct side side;
	uint32_t i;

	start(&side);
	for (i = 0; i < 10; i++)
		regions[i] = create_at(&side, SIZE);
	remote = open_ring(&peer, regions[0]);
	for (i = 0; i < 10; i++)
		destroy(regions[i]);
	cr_assert_eq(count_files(), 10);
	stop(&side);
	cr_assert_eq(count_files(), 0);
	cr_assert_eq(count_mappings(), 1);
	memset(remote->ring, 1, SIZE);
	close_ring(remote);
	cr_assert_eq(count_mappings(), 0);
}

Test(spare, thousand_cycles_keep_what_the_first_kept)
{
	struct region *regions[3];
	struct remote *remotes[3];
	uint32_t i, k;

	for (i = 0; i < 1000; i++) {
		for (k = 0; k < 3; k++) {
			regions[k] = create((1 + k) * SIZE);
			remotes[k] = open_ring(&peer, regions[k]);
		}
		for (k = 0; k < 3; k++) {
			if (i % 2)
				destroy(regions[k]);
			close_ring(remotes[k]);
			if (!(i % 2))
				destroy(regions[k]);
		}
		cr_assert_eq(count_files(), 3);
		cr_assert_eq(count_mappings(), 3);
	}
}
