/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared-memory transport: regions between two instances in one process,
 * which takes the way that two processes take; who is refused; and that
 * everything is given back.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/error.h>
#include <dfi/log.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/settings.h"
#include "base/wait.h"
#include "transport/shm.h"

#define SIZE UINT64_C(100000)

extern char **environ;

/* An instance of the transport, as a process has one. */
struct side {
	struct settings settings;
	struct loop *loop;
	struct transport *transport;
};

static struct side owner, peer;

static void silence(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static void start(struct side *side)
{
	cr_assert_eq(dfi__settings_load(&side->settings), 0);
	side->settings.huge_pages = HUGE_PAGES_NEVER;
	cr_assert_eq(dfi__loop_start("side", &side->loop), 0);
	cr_assert_eq(
	    dfi__shm_ops.start(side->loop, &side->settings, &side->transport),
	    0);
}

static void stop(struct side *side)
{
	side->transport->ops->stop(side->transport);
	dfi__loop_stop(side->loop);
}

static void setup(void)
{
	dfi_log_set(DFI_LOG_WARN, silence, NULL);
	start(&owner);
	start(&peer);
}

static void teardown(void)
{
	stop(&peer);
	stop(&owner);
}

TestSuite(shm, .init = setup, .fini = teardown, .timeout = 30);

static struct region *create(uint64_t size)
{
	struct region *region = NULL;

	cr_assert_eq(dfi__shm_ops.region_create(owner.transport, size, &region),
	    0, "%s", dfi_errmsg());
	return region;
}

static int open_at(
    struct side *side, const struct region_name *name, struct remote **remote)
{
	return dfi__shm_ops.remote_open(
	    side->transport, name, deadline_in_ms(10000), remote);
}

static void expect_text(const char *word)
{
	cr_assert(strstr(dfi_errmsg(), word) != NULL, "'%s' is not in '%s'",
	    word, dfi_errmsg());
}

static unsigned count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
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

Test(shm, region_is_zeroed_and_shared)
{
	struct region *region = create(SIZE);
	const char *base = region->base;
	struct remote *remote, *local;
	uint64_t i;

	cr_assert_geq(region->name.size, SIZE);
	cr_assert_eq((uintptr_t)base % 4096, 0);
	for (i = 0; i < region->name.size; i++)
		cr_assert_eq(base[i], 0);
	cr_assert_eq(
	    open_at(&peer, &region->name, &remote), 0, "%s", dfi_errmsg());
	cr_assert_eq(open_at(&owner, &region->name, &local), 0);
	/* Two mappings for the two sides, one for both on one side. */
	cr_assert_neq((void *)remote->direct, region->base);
	cr_assert_eq((void *)local->direct, region->base);
	remote->direct[SIZE - 1] = 'x';
	cr_assert_eq(base[SIZE - 1], 'x');
	dfi__shm_ops.remote_close(remote);
	dfi__shm_ops.remote_close(local);
	dfi__shm_ops.region_destroy(region);
}

Test(shm, write_and_credit_publish_and_wake)
{
	struct region *region = create(SIZE);
	_Atomic uint32_t *waits = region->base;
	_Atomic uint64_t *words =
	    (_Atomic uint64_t *)(void *)((char *)region->base + 4096);
	struct transport_write write = {
		.payload = "payload",
		.payload_offset = 1024,
		.payload_size = 8,
		.footer_offset = 4096,
		.footer = { 11, 22 },
		.wake_offset = 0,
	};
	struct remote *remote;

	cr_assert_eq(open_at(&peer, &region->name, &remote), 0);
	atomic_set(waits, 1);
	cr_assert_eq(dfi__shm_ops.write(remote, &write), 0);
	cr_assert_str_eq((char *)region->base + 1024, "payload");
	cr_assert_eq(atomic_peek(&words[0]), 11);
	cr_assert_eq(atomic_peek(&words[1]), 22);
	cr_assert_eq(atomic_peek(waits), 0);
	atomic_set(waits, 1);
	cr_assert_eq(dfi__shm_ops.give_credit(region, 4096 + 64, 7, 0), 0);
	cr_assert_eq(atomic_peek(&words[8]), 7);
	cr_assert_eq(atomic_peek(waits), 0);
	dfi__shm_ops.remote_close(remote);
	dfi__shm_ops.region_destroy(region);
}

Test(shm, nobody_can_change_the_size_of_a_region)
{
	struct region *region = create(SIZE);
	int fd = -1;

	cr_assert_eq(
	    dfi__shm_pass_fetch(&region->name, deadline_in_ms(10000), &fd), 0);
	cr_assert_eq(ftruncate(fd, 0), -1);
	cr_assert_eq(errno, EPERM);
	cr_assert_eq(ftruncate(fd, 1 << 20), -1);
	cr_assert_eq(errno, EPERM);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	cr_assert_eq(errno, EPERM);
	close(fd);
	dfi__shm_ops.region_destroy(region);
}

Test(shm, region_of_another_size_than_named_is_refused)
{
	struct region *region = create(SIZE);
	struct region_name name = region->name;
	struct remote *remote = NULL;

	name.size += 4096;
	cr_assert_eq(open_at(&peer, &name, &remote), -EBADMSG);
	name.size = 4096;
	cr_assert_eq(open_at(&peer, &name, &remote), -EBADMSG);
	cr_assert_null(remote);
	dfi__shm_ops.region_destroy(region);
}

Test(shm, unknown_key_is_a_closed_region)
{
	struct region *region = create(SIZE);
	struct region_name name = region->name;
	struct remote *remote;

	name.key++;
	cr_assert_eq(open_at(&peer, &name, &remote), -ECONNRESET);
	expect_text("has closed the region");
	expect_text(name.address);
	cr_assert_eq(open_at(&owner, &name, &remote), -ECONNRESET);
	dfi__shm_ops.region_destroy(region);
	/* The right key of a region that is no more. */
	name.key--;
	cr_assert_eq(open_at(&peer, &name, &remote), -ECONNRESET);
}

Test(shm, owner_that_is_gone_is_named)
{
	struct region_name name = { "@dfi-1-nobody", 1, 4096 };
	struct remote *remote;

	cr_assert_eq(open_at(&peer, &name, &remote), -ECONNRESET);
	expect_text("@dfi-1-nobody is gone");
}

static int connect_raw(const char *text)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	strcpy(address.sun_path + 1, text + 1);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
			     strlen(text))),
	    0);
	return fd;
}

/* The reply's second word, or 1 if the owner just hung up. */
static int ask(const void *request, size_t size)
{
	int fd = connect_raw(owner.transport->address), reply[2] = { 0, 0 };
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	ssize_t got;

	cr_assert_eq(send(fd, request, size, MSG_NOSIGNAL), (ssize_t)size);
	cr_assert_eq(poll(&pollfd, 1, 10000), 1);
	got = recv(fd, reply, sizeof(reply), 0);
	close(fd);
	return got == sizeof(reply) ? reply[1] : 1;
}

Test(shm, garbage_gets_no_region_and_harms_nobody)
{
	static const uint32_t magic = UINT32_C(0x44464950);
	uint32_t request[4] = { magic, 99, 0, 0 };
	struct region *region = create(SIZE);
	struct remote *remote;
	char noise[5000];
	int idle;

	/* One that says nothing does not keep the others waiting. */
	idle = connect_raw(owner.transport->address);
	memset(noise, 0xa5, sizeof(noise));
	cr_assert_eq(ask(noise, 1), 1);
	cr_assert_eq(ask(noise, 16), 1);
	cr_assert_eq(ask(noise, sizeof(noise)), 1);
	cr_assert_eq(ask(request, 15), 1);
	cr_assert_eq(ask(request, 16), -EPROTO);
	request[1] = 1;
	cr_assert_eq(ask(request, 16), -ENOENT);
	cr_assert_eq(open_at(&peer, &region->name, &remote), 0);
	dfi__shm_ops.remote_close(remote);
	dfi__shm_ops.region_destroy(region);
	close(idle);
}

/* Keeps the owner's control thread from accepting until the peer has spoken. */
static int await_word(void *arg)
{
	char word;

	return read(*(int *)arg, &word, 1) == 1 ? 0 : -EIO;
}

static void *hold_owner(void *arg)
{
	dfi__loop_call(owner.loop, await_word, arg);
	return NULL;
}

/* Even with its request unread, which would turn the answer into a reset. */
Test(shm, process_of_another_user_is_refused)
{
	char *argv[] = { (char *)DFI_SHM_PEER, owner.transport->address, NULL };
	posix_spawn_file_actions_t actions;
	int status, words[2];
	pthread_t holder;
	pid_t pid;

	if (geteuid() != 0)
		cr_skip_test("only root can become another user");
	cr_assert_eq(pipe2(words, O_CLOEXEC), 0);
	cr_assert_eq(pthread_create(&holder, NULL, hold_owner, &words[0]), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, words[1], STDOUT_FILENO);
	cr_assert_eq(
	    posix_spawn(&pid, argv[0], &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(words[1]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(pthread_join(holder, NULL), 0);
	close(words[0]);
	cr_assert(WIFEXITED(status));
	/* The program exits with the errno value that it was told. */
	cr_assert_eq(WEXITSTATUS(status), EACCES);
}

Test(shm, region_goes_with_its_last_user)
{
	unsigned descriptors = count_descriptors(), i;
	struct region *region;
	struct remote *remotes[3];

	cr_assert_eq(count_mappings(), 0);
	region = create(SIZE);
	cr_assert_eq(open_at(&owner, &region->name, &remotes[0]), 0);
	cr_assert_eq(open_at(&peer, &region->name, &remotes[1]), 0);
	cr_assert_eq(open_at(&peer, &region->name, &remotes[2]), 0);
	cr_assert_eq(count_mappings(), 3);
	dfi__shm_ops.region_destroy(region);
	for (i = 0; i < 3; i++) {
		/* Still there for those that have it open. */
		memset(remotes[i]->direct, 1, SIZE);
		dfi__shm_ops.remote_close(remotes[i]);
	}
	cr_assert_eq(count_mappings(), 0);
	/* The owner's side closes its sockets on its own thread. */
	for (i = 0; i < 1000000 && count_descriptors() != descriptors; i++)
		sched_yield();
	cr_assert_eq(count_descriptors(), descriptors);
}

static unsigned free_huge_pages(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long n = 0;
	char line[256];

	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "HugePages_Free: %lu", &n) == 1)
			break;
	fclose(file);
	return (unsigned)n;
}

Test(shm, huge_pages_that_are_required_but_not_there_are_an_error)
{
	struct region *region = NULL;

	if (free_huge_pages() > 0)
		cr_skip_test("this machine has free huge pages");
	owner.settings.huge_pages = HUGE_PAGES_REQUIRE;
	cr_assert_eq(
	    dfi__shm_ops.region_create(owner.transport, 3u << 20, &region),
	    -ENOMEM);
	cr_assert_null(region);
	expect_text("reserve 2 pages");
	expect_text("vm.nr_hugepages");
	expect_text("DFI_HUGE_PAGES=try");
}

Test(shm, huge_pages_that_are_tried_fall_back)
{
	struct region *region;

	owner.settings.huge_pages = HUGE_PAGES_TRY;
	region = create(3u << 20);
	memset(region->base, 1, 3u << 20);
	dfi__shm_ops.region_destroy(region);
}

Test(shm, no_descriptor_left_is_an_error_with_a_remedy)
{
	struct rlimit limit, low;
	struct region *region = create(SIZE), *none = NULL;
	struct remote *remote = NULL;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = 3;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	cr_expect_eq(
	    dfi__shm_ops.region_create(owner.transport, SIZE, &none), -EMFILE);
	cr_expect(strstr(dfi_errmsg(), "ulimit -n") != NULL);
	cr_expect_eq(open_at(&peer, &region->name, &remote), -EMFILE);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_null(none);
	cr_assert_null(remote);
	dfi__shm_ops.region_destroy(region);
}
