/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared-memory transport: regions between two instances in one process, by
 * the same path as between two processes; which peers are refused; and that all
 * resources are returned.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/error.h>
#include <dfi/log.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/maps.h"
#include "base/settings.h"
#include "base/wait.h"
#include "transport/shm/message.h"
#include "transport/shm/shm.h"
#include "tests/unit/stop_loop.h"

#include "../proc/descriptors.h"
#include "dumped.h"

#define SIZE UINT64_C(100000)

extern char **environ;

/*
 * 0, or why no memory can be reserved: the only way to run short of it is to
 * use it up.
 */
static int reserve_error;

/* 0, or why there are no memory files. */
static int memfd_error;

int memfd_create(const char *name, unsigned flags)
{
	if (!memfd_error)
		return (int)syscall(SYS_memfd_create, name, flags);
	errno = memfd_error;
	return -1;
}

/* How many signals a timer still sends, each before a reservation is done. */
static unsigned signals_left;

static bool gets_signals(void)
{
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	return !sigismember(&blocked, SIGPROF);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	if (signals_left && gets_signals()) {
		signals_left--;
		errno = EINTR;
		return -1;
	}
	if (!reserve_error)
		return (int)syscall(SYS_fallocate, fd, mode, offset, size);
	errno = reserve_error;
	return -1;
}

/* An instance of the transport, as a process has one. */
struct side {
	struct settings settings;
	struct loop *loop;
	struct transport *transport;
};

static struct side owner, peer;

static void ignore(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static void start(struct side *side)
{
	cr_assert_eq(dfi__settings_load(&side->settings), 0);
	side->settings.huge_pages = HUGE_PAGES_NEVER;
	/* test_spare.c tests kept memory. */
	side->settings.spare_memory = 0;
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
	dfi_log_set(DFI_LOG_WARN, ignore, NULL);
	start(&owner);
	start(&peer);
}

static void teardown(void)
{
	stop(&peer);
	stop(&owner);
}

TestSuite(shm, .init = setup, .fini = teardown, .timeout = 300);

static struct region *create(uint64_t size)
{
	struct region *region = NULL;

	cr_assert_eq(dfi__shm_ops.region.create(owner.transport, size, &region),
	    0, "%s", dfi_errmsg());
	return region;
}

/* A ring that is the whole region. */
static const struct ring_layout whole = { .n_rings = 1, .ring_size = SIZE };

static int open_at(
    struct side *side, const struct region_name *name, struct remote **remote)
{
	return dfi__shm_ops.ring.open(side->transport, NULL, name, &whole, 0,
	    NULL, WAIT_LIMIT(deadline_in_ms(60000)), remote);
}

static void expect_text(const char *word)
{
	cr_assert(strstr(dfi_errmsg(), word) != NULL, "'%s' is not in '%s'",
	    word, dfi_errmsg());
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

Test(shm, region_is_shared)
{
	struct region *region = create(SIZE);
	const char *base = region->base;
	struct remote *remote, *local;

	cr_assert_geq(region->name.size, SIZE);
	cr_assert_eq((uintptr_t)base % 4096, 0);
	cr_assert_eq(
	    open_at(&peer, &region->name, &remote), 0, "%s", dfi_errmsg());
	cr_assert_eq(open_at(&owner, &region->name, &local), 0);
	/* Two mappings for the two sides, one for both on one side. */
	cr_assert_neq((void *)remote->ring, region->base);
	cr_assert_eq((void *)local->ring, region->base);
	remote->ring[SIZE - 1] = 'x';
	cr_assert_eq(base[SIZE - 1], 'x');
	dfi__shm_ops.ring.close(remote);
	dfi__shm_ops.ring.close(local);
	dfi__shm_ops.region.destroy(region);
}

Test(shm, write_and_credit_publish_and_wake)
{
	struct region *region = create(SIZE);
	_Atomic uint32_t *waits = region->base;
	/* Behind the region's wait word, like a flow's first ring. */
	struct ring_layout layout = {
		.n_rings = 2,
		.first_ring = 128,
		.ring_size = (SIZE - 128) / 2,
		.wait_offset = 64,
	};
	char *in_ring = (char *)region->base + 128 + layout.ring_size;
	_Atomic uint64_t *words = (_Atomic uint64_t *)(void *)(in_ring + 4096);
	struct ring_credit *credit = (struct ring_credit *)(void *)in_ring;
	_Atomic uint32_t *writer_waits = (_Atomic uint32_t *)(void *)(in_ring +
	    64);
	struct transport_write write = {
		.payload_offset = 1024,
		.payload_size = 8,
		.footer_offset = 4096,
		.footer = { 11, 22 },
	};
	struct remote *remote;

	cr_assert_eq(
	    dfi__shm_ops.ring.open(peer.transport, NULL, &region->name, &layout,
		1, NULL, WAIT_LIMIT(deadline_in_ms(60000)), &remote),
	    0);
	strcpy(remote->ring + 1024, "payload");
	atomic_set(waits, 1);
	cr_assert_eq(dfi__shm_ops.ring.write(remote, &write), 0);
	cr_assert_str_eq(in_ring + 1024, "payload");
	cr_assert_eq(atomic_peek(&words[0]), 11);
	cr_assert_eq(atomic_peek(&words[1]), 22);
	cr_assert_eq(atomic_peek(waits), 0);
	atomic_set(writer_waits, 1);
	cr_assert_eq(dfi__shm_ops.ring.give_credit(
			 region, NULL, &layout, 1, 7, RING_OPEN),
	    1);
	cr_assert_eq(atomic_peek(&credit->consumed), 7);
	cr_assert_eq(atomic_peek(&credit->closed), 0);
	cr_assert_eq(atomic_peek(writer_waits), 0);
	cr_assert_eq(dfi__shm_ops.ring.give_credit(
			 region, NULL, &layout, 1, 7, RING_CLOSED),
	    1);
	cr_assert_eq(atomic_peek(&credit->closed), 1);
	dfi__shm_ops.ring.close(remote);
	dfi__shm_ops.region.destroy(region);
}

Test(shm, nobody_can_change_the_size_of_a_region)
{
	struct region *region = create(SIZE);
	int fd = -1;

	cr_assert_eq(dfi__shm_pass_fetch(
			 &region->name, WAIT_LIMIT(deadline_in_ms(60000)), &fd),
	    0);
	cr_assert_eq(ftruncate(fd, 0), -1);
	cr_assert_eq(errno, EPERM);
	cr_assert_eq(ftruncate(fd, 1 << 20), -1);
	cr_assert_eq(errno, EPERM);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	cr_assert_eq(errno, EPERM);
	close(fd);
	dfi__shm_ops.region.destroy(region);
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
	dfi__shm_ops.region.destroy(region);
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
	dfi__shm_ops.region.destroy(region);
	/* The right key of a region that no longer exists. */
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

static socklen_t abstract_address(const char *text, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(address->sun_path + 1, text + 1);
	return (
	    socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(text));
}

static int connect_raw(const char *text)
{
	struct sockaddr_un address;
	socklen_t size = abstract_address(text, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, size), 0);
	return fd;
}

/* How many connections it closes before it answers one. */
#define N_HANG_UPS 3

/* An owner that takes a request, and answers as the test says, or dies. */
struct false_owner {
	struct region_name name;
	const char *answer;
	unsigned n_hang_ups;
	int listener;
	pthread_t thread;
};

static void *answer_falsely(void *arg)
{
	struct false_owner *liar = arg;
	char request[64];
	unsigned i;
	int fd;

	for (i = 0; i < liar->n_hang_ups; i++)
		close(accept(liar->listener, NULL, NULL));
	fd = accept(liar->listener, NULL, NULL);
	if (fd < 0)
		return NULL;
	if (recv(fd, request, sizeof(request), 0) > 0 && liar->answer)
		send(fd, liar->answer, strlen(liar->answer), MSG_NOSIGNAL);
	else
		close(liar->listener);
	close(fd);
	return NULL;
}

static void start_false_owner(struct false_owner *liar)
{
	struct sockaddr_un address;
	socklen_t size;

	liar->name = (struct region_name){ .key = 1, .size = 4096 };
	sprintf(liar->name.address, "@dfi-test-%d", (int)getpid());
	size = abstract_address(liar->name.address, &address);
	liar->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert_geq(liar->listener, 0);
	cr_assert_eq(
	    bind(liar->listener, (struct sockaddr *)&address, size), 0);
	cr_assert_eq(listen(liar->listener, 1), 0);
	pthread_create(&liar->thread, NULL, answer_falsely, liar);
}

static void stop_false_owner(struct false_owner *liar)
{
	pthread_join(liar->thread, NULL);
	if (liar->answer)
		close(liar->listener);
}

Test(shm, owner_that_dies_while_it_answers_is_gone)
{
	struct false_owner liar = { .answer = NULL };
	struct remote *remote;

	start_false_owner(&liar);
	cr_assert_eq(open_at(&peer, &liar.name, &remote), -ECONNRESET);
	expect_text(liar.name.address);
	expect_text("is gone");
	stop_false_owner(&liar);
}

Test(shm, owner_that_answers_nonsense_is_named)
{
	struct false_owner liar = { .answer = "hello" };
	struct remote *remote;

	start_false_owner(&liar);
	cr_assert_eq(open_at(&peer, &liar.name, &remote), -ECONNRESET);
	expect_text(liar.name.address);
	expect_text("no valid answer");
	stop_false_owner(&liar);
}

/* Like an owner with too many at once. It isn't gone. */
Test(shm, owner_that_hangs_up_is_asked_again)
{
	struct false_owner liar = {
		.answer = "hello",
		.n_hang_ups = N_HANG_UPS,
	};
	struct region *granted = create(SIZE);
	struct remote *remote;
	size_t size;
	void *data;

	start_false_owner(&liar);
	cr_assert_eq(open_at(&peer, &liar.name, &remote), -ECONNRESET);
	expect_text("no valid answer");
	stop_false_owner(&liar);

	start_false_owner(&liar);
	cr_assert_eq(dfi__shm_ops.region.grant(granted, &liar.name, 0,
			 WAIT_LIMIT(deadline_in_ms(60000))),
	    -ECONNRESET);
	expect_text("no valid answer");
	stop_false_owner(&liar);

	start_false_owner(&liar);
	cr_assert_eq(dfi__shm_report_fetch(liar.name.address, 0,
			 deadline_in_ms(60000), &data, &size),
	    -EBADMSG);
	stop_false_owner(&liar);
	dfi__shm_ops.region.destroy(granted);
}

/* The sockets of this process that have an address: to listen, or accepted. */
static int count_sockets(const char *text)
{
	struct sockaddr_un wanted, address;
	socklen_t size = abstract_address(text, &wanted), got;
	int fd, n = 0;

	for (fd = 0; fd < 256; fd++) {
		got = sizeof(address);
		if (getsockname(fd, (struct sockaddr *)&address, &got) == 0 &&
		    got == size && memcmp(&address, &wanted, size) == 0)
			n++;
	}
	return n;
}

static int do_nothing(void *arg)
{
	(void)arg;
	return 0;
}

/*
 * Otherwise a peer that asks for a region would wait for a child of a dead
 * owner.
 */
Test(shm, forked_child_neither_listens_nor_keeps_peers)
{
	const char *address = owner.transport->address;
	int idle = connect_raw(address), status;
	int64_t wait_limit = deadline_in_ms(60000);
	pid_t pid;

	while (count_sockets(address) < 2)
		cr_assert_lt(clock_now_ns(), wait_limit);
	/* And what is done with an accepted one was done. */
	dfi__loop_call(owner.loop, do_nothing, NULL, DEADLINE_NEVER);
	pid = fork();
	if (!pid)
		_exit(count_sockets(address));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "%x", (unsigned)status);
	cr_assert_eq(WEXITSTATUS(status), 0);
	cr_assert_eq(count_sockets(address), 2);
	close(idle);
}

/* The reply's second word, or 1 if the owner just hung up. */
static int ask(const void *request, size_t size)
{
	int fd = connect_raw(owner.transport->address), reply[2] = { 0, 0 };
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	ssize_t got;

	cr_assert_eq(send(fd, request, size, MSG_NOSIGNAL), (ssize_t)size);
	cr_assert_eq(poll(&pollfd, 1, 60000), 1);
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

	/* A silent one does not keep the others waiting. */
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
	dfi__shm_ops.ring.close(remote);
	dfi__shm_ops.region.destroy(region);
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
	dfi__loop_call(owner.loop, await_word, arg, DEADLINE_NEVER);
	return NULL;
}

/* The same with its request unread: that would turn the answer into a reset. */
static void expect_refusal(char *what)
{
	char *argv[] = { (char *)DFI_SHM_PEER, owner.transport->address, what,
		NULL };
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

Test(shm, process_of_another_user_is_refused)
{
	expect_refusal(NULL);
}

#define N_STRANGERS 300

static int strangers[N_STRANGERS];

static void connect_all(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *name = owner.transport->address;
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
	    strlen(name));
	int i;

	strcpy(address.sun_path + 1, name + 1);
	for (i = 0; i < N_STRANGERS; i++) {
		strangers[i] = socket(
		    AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		cr_assert_eq(
		    connect(strangers[i], (struct sockaddr *)&address, length),
		    0);
	}
}

static void *connect_all_as_nobody(void *arg)
{
	if (syscall(SYS_setresuid, -1, 65534, -1))
		return NULL;
	connect_all();
	return arg;
}

/* The next message on a connection, within the test's time limit. */
static ssize_t receive(int socket, void *reply, size_t size)
{
	struct pollfd pollfd = { .fd = socket, .events = POLLIN };

	cr_assert_eq(poll(&pollfd, 1, -1), 1);
	return recv(socket, reply, size, 0);
}

static unsigned n_lines;

static void count_line(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	n_lines += strstr(line, "runs as user") != NULL;
}

/* None of them asks, and the owner waits for none of them. */
Test(shm, processes_of_another_user_hold_no_descriptor)
{
	unsigned descriptors = count_descriptors("");
	struct shm_reply reply;
	pthread_t thread;
	void *connected;
	int i;

	if (geteuid() != 0)
		cr_skip_test("only root can become another user");
	dfi__shm_pass_timeout_s = 1000;
	dfi_log_set(DFI_LOG_WARN, count_line, NULL);
	pthread_create(&thread, NULL, connect_all_as_nobody, &reply);
	pthread_join(thread, &connected);
	if (!connected)
		cr_skip_test("not allowed to become another user");
	for (i = 0; i < N_STRANGERS; i++) {
		cr_assert_eq(receive(strangers[i], &reply, sizeof(reply)),
		    sizeof(reply));
		cr_assert_eq(reply.error, -EACCES);
		cr_assert_eq(receive(strangers[i], &reply, 1), 0);
	}
	cr_assert_eq(count_descriptors(""), descriptors + N_STRANGERS);
	for (i = 0; i < N_STRANGERS; i++)
		close(strangers[i]);
	dfi_log_set(DFI_LOG_WARN, ignore, NULL);
	cr_assert_eq(n_lines, 1);
}

/*
 * Of our own user: the first of too many are dropped, and a peer that asks is
 * served.
 */
Test(shm, peers_that_do_not_ask_hold_few_descriptors)
{
	unsigned descriptors;
	struct region *region = create(SIZE);
	struct remote *remote;
	char byte;
	int i;

	dfi__shm_pass_timeout_s = 1000;
	descriptors = count_descriptors("");
	connect_all();
	for (i = 0; i < N_STRANGERS - 128; i++)
		cr_assert_eq(receive(strangers[i], &byte, 1), 0);
	cr_assert_eq(count_descriptors(""), descriptors + N_STRANGERS + 128);
	cr_assert_eq(
	    open_at(&peer, &region->name, &remote), 0, "%s", dfi_errmsg());
	dfi__shm_ops.ring.close(remote);
	for (i = 0; i < N_STRANGERS; i++)
		close(strangers[i]);
	dfi__shm_ops.region.destroy(region);
}

static void *make_report(void *arg, uint64_t after, size_t *size)
{
	uint64_t *words = arg;
	char *data;

	if (words[0] == after)
		return NULL;
	*size = words[1];
	data = malloc(*size + 1);
	memset(data, (int)after, *size);
	return data;
}

static int fetch(uint64_t after, char **data, size_t *size)
{
	void *at = NULL;
	int ret = dfi__shm_report_fetch(
	    owner.transport->address, after, deadline_in_ms(60000), &at, size);

	*data = at;
	return ret;
}

Test(shm, report_is_given_to_who_asks)
{
	uint64_t words[2] = { 7, TRANSPORT_REPORT_MAX };
	char *data;
	size_t size;

	cr_assert_eq(fetch(1, &data, &size), -EIO);
	dfi__shm_report(owner.transport, make_report, words);
	cr_assert_eq(fetch('a', &data, &size), 0, "%s", dfi_errmsg());
	cr_assert_eq(size, TRANSPORT_REPORT_MAX);
	cr_assert_eq(data[0], 'a');
	cr_assert_eq(data[size - 1], 'a');
	free(data);
	words[1] = 0;
	cr_assert_eq(fetch(1, &data, &size), 0);
	cr_assert_eq(size, 0);
	free(data);
	cr_assert_eq(fetch(7, &data, &size), -EIO);
	words[1] = TRANSPORT_REPORT_MAX + 1;
	cr_assert_eq(fetch(1, &data, &size), -EBADMSG);
	dfi__shm_report(owner.transport, NULL, NULL);
	cr_assert_eq(fetch(1, &data, &size), -EIO);
}

Test(shm, report_is_refused_to_another_user)
{
	uint64_t words[2] = { 7, 100 };

	dfi__shm_report(owner.transport, make_report, words);
	expect_refusal("report");
}

/* It may also be longer. */
Test(shm, request_of_another_version_is_refused)
{
	uint32_t request[8] = { SHM_REPORT_MAGIC, SHM_REPORT_VERSION + 1, 1 };

	cr_assert_eq(ask(request, 16), -EPROTO);
	cr_assert_eq(ask(request, sizeof(request)), -EPROTO);
	request[0] = SHM_GRANT_MAGIC;
	request[1] = SHM_PASS_VERSION + 1;
	cr_assert_eq(ask(request, 16), -EPROTO);
	cr_assert_eq(ask(request, sizeof(request)), -EPROTO);
}

Test(shm, refusal_without_a_version_is_no_valid_answer)
{
	struct false_owner liar = { .answer = "PIFD\xb9\xff\xff\xff" };
	struct remote *remote;

	cr_assert_eq((unsigned char)liar.answer[4], (unsigned char)-EPROTO);
	start_false_owner(&liar);
	cr_assert_eq(open_at(&peer, &liar.name, &remote), -ECONNRESET);
	expect_text("no valid answer");
	stop_false_owner(&liar);
}

/* One that takes this many connections, and answers nothing. */
static int start_quiet_owner(struct region_name *name, int backlog)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t size;

	*name = (struct region_name){ .key = 1, .size = SIZE };
	sprintf(name->address, "@dfi-silent-%d", (int)getpid());
	size = abstract_address(name->address, &address);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
	cr_assert_eq(listen(fd, backlog), 0);
	return fd;
}

Test(shm, report_of_a_process_that_is_gone_or_quiet_is_an_error)
{
	struct region_name name;
	int quiet;
	size_t size;
	void *data;

	cr_assert_eq(dfi__shm_report_fetch("@dfi-1-nobody", 0,
			 deadline_in_ms(60000), &data, &size),
	    -ECONNRESET);
	quiet = start_quiet_owner(&name, 5);
	cr_assert_eq(dfi__shm_report_fetch(
			 name.address, 0, deadline_in_ms(20), &data, &size),
	    -ETIMEDOUT);
	expect_text("doesn't answer");
	close(quiet);
}

static bool is_gone_at_last(void *arg)
{
	return ++*(unsigned *)arg == 3;
}

/* Longer than this test may take. */
#define GIVEN_UP_LATER(looks)        \
	(&(const struct wait_limit){ \
	    deadline_in_ms(INT32_MAX), is_gone_at_last, (looks) })

Test(shm, owner_that_is_known_to_be_gone_is_not_waited_for)
{
	struct region *granted = create(SIZE);
	struct region_name name;
	struct remote *remote;
	unsigned looks = 0;
	int quiet = start_quiet_owner(&name, 5);

	cr_assert_eq(dfi__shm_ops.ring.open(peer.transport, NULL, &name, &whole,
			 0, NULL, GIVEN_UP_LATER(&looks), &remote),
	    -ECONNRESET);
	expect_text("is gone, as the registry says");
	looks = 0;
	cr_assert_eq(dfi__shm_ops.region.grant(
			 granted, &name, 0, GIVEN_UP_LATER(&looks)),
	    -ECONNRESET);
	expect_text("is gone, as the registry says");
	cr_assert_eq(dfi__shm_ops.ring.open(peer.transport, NULL, &name, &whole,
			 0, NULL, WAIT_LIMIT(deadline_in_ms(20)), &remote),
	    -ETIMEDOUT);
	expect_text("doesn't answer");
	close(quiet);
	dfi__shm_ops.region.destroy(granted);
}

/* Of those that wait for a place in its backlog nothing comes to be polled. */
Test(shm, owner_that_is_gone_is_not_waited_for_at_its_door)
{
	struct region_name name;
	struct remote *remote;
	unsigned looks = 0;
	int quiet = start_quiet_owner(&name, 0), first;

	first = connect_raw(name.address);
	cr_assert_eq(dfi__shm_ops.ring.open(peer.transport, NULL, &name, &whole,
			 0, NULL, GIVEN_UP_LATER(&looks), &remote),
	    -ECONNRESET);
	expect_text("is gone, as the registry says");
	cr_assert_eq(looks, 3);
	close(first);
	close(quiet);
}

Test(shm, region_goes_with_its_last_user)
{
	unsigned descriptors = count_descriptors(""), i;
	struct region *region;
	struct remote *remotes[3];
	int64_t wait_limit;

	cr_assert_eq(count_mappings(), 0);
	region = create(SIZE);
	cr_assert_eq(open_at(&owner, &region->name, &remotes[0]), 0);
	cr_assert_eq(open_at(&peer, &region->name, &remotes[1]), 0);
	cr_assert_eq(open_at(&peer, &region->name, &remotes[2]), 0);
	cr_assert_eq(count_mappings(), 3);
	dfi__shm_ops.region.destroy(region);
	for (i = 0; i < 3; i++) {
		/* It still exists for those that have it open. */
		memset(remotes[i]->ring, 1, SIZE);
		dfi__shm_ops.ring.close(remotes[i]);
	}
	cr_assert_eq(count_mappings(), 0);
	/* The owner's side closes its sockets on its own thread. */
	wait_limit = deadline_in_ms(30000);
	while (
	    count_descriptors("") != descriptors && clock_now_ns() < wait_limit)
		sched_yield();
	cr_assert_eq(count_descriptors(""), descriptors);
}

/* Neither where they are read nor where they are written. */
Test(shm, core_dumps_hold_rings_only_if_asked)
{
	struct mappings mappings;
	struct remote *remote;
	struct region *region;
	uint32_t asked;

	for (asked = 0; asked < 2; asked++) {
		owner.settings.dump_rings = asked;
		peer.settings.dump_rings = asked;
		region = create(SIZE);
		cr_assert_eq(open_at(&peer, &region->name, &remote), 0);
		mappings = mappings_of("memfd:dfi", NULL);
		cr_assert_eq(mappings.n, 2);
		cr_assert_eq(mappings.dumped, asked ? 2 : 0);
		dfi__shm_ops.ring.close(remote);
		dfi__shm_ops.region.destroy(region);
	}
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
	    dfi__shm_ops.region.create(owner.transport, 3u << 20, &region),
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
	dfi__shm_ops.region.destroy(region);
}

Test(shm, one_descriptor_is_enough_for_a_region)
{
	struct region *region = NULL;
	struct rlimit limit, low;
	int lowest, ret;

	lowest = fcntl(STDIN_FILENO, F_DUPFD, 0);
	cr_assert_geq(lowest, 0);
	close(lowest);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)lowest + 1;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	ret = dfi__shm_ops.region.create(owner.transport, SIZE, &region);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	dfi__shm_ops.region.destroy(region);
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
	    dfi__shm_ops.region.create(owner.transport, SIZE, &none), -EMFILE);
	cr_expect(strstr(dfi_errmsg(), "ulimit -n") != NULL);
	cr_expect_eq(open_at(&peer, &region->name, &remote), -EMFILE);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_null(none);
	cr_assert_null(remote);
	dfi__shm_ops.region.destroy(region);
}

/* All numbers up to a limit above those in use. */
static void use_up_descriptors(struct rlimit *before)
{
	struct rlimit low;
	int fd;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, before), 0);
	low = *before;
	fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 200);
	cr_assert_geq(fd, 0);
	low.rlim_cur = (rlim_t)fd + 1;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	while (fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) >= 0)
		;
	cr_assert_eq(errno, EMFILE);
}

static int answer_of(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	struct shm_reply reply;

	cr_assert_eq(poll(&pollfd, 1, 10000), 1, "no answer");
	cr_assert_eq(recv(fd, &reply, sizeof(reply), 0), sizeof(reply));
	return reply.error;
}

#define N_ASKERS 5

/* They connect before the first was answered. */
Test(shm, peers_are_served_by_who_has_no_descriptor_left)
{
	struct region *region = create(SIZE);
	struct shm_request request = { UINT32_C(0x44464950), 1,
		region->name.key };
	int askers[N_ASKERS], i;
	struct sockaddr_un address;
	struct rlimit limit;
	socklen_t size = abstract_address(region->name.address, &address);

	for (i = 0; i < N_ASKERS; i++) {
		askers[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		cr_assert_geq(askers[i], 0);
	}
	use_up_descriptors(&limit);
	for (i = 0; i < N_ASKERS; i++) {
		cr_assert_eq(
		    connect(askers[i], (struct sockaddr *)&address, size), 0);
		cr_assert_eq(send(askers[i], &request, sizeof(request), 0),
		    sizeof(request));
	}
	for (i = 0; i < N_ASKERS; i++)
		cr_assert_eq(answer_of(askers[i]), 0);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (i = 0; i < N_ASKERS; i++)
		close(askers[i]);
	dfi__shm_ops.region.destroy(region);
}

/* One message with a descriptor. */
static void send_with(int socket, const void *bytes, size_t size, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec data = { .iov_base = (void *)bytes, .iov_len = size };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };

	message.msg_control = control.bytes;
	message.msg_controllen = sizeof(control.bytes);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
	cr_assert_eq(sendmsg(socket, &message, 0), (ssize_t)size);
}

/* The error differs from that of an invalid region. */
Test(shm, region_is_not_granted_to_a_process_without_descriptors)
{
	struct region *region = create(SIZE), *granted = create(SIZE);
	struct shm_grant_request request = {
		.base = { UINT32_C(0x44464956), 1, region->name.key },
		.key = granted->name.key,
		.size = granted->name.size,
	};
	int64_t wait_limit = deadline_in_ms(60000);
	int fd = ((struct shm_region *)granted)->fd, socket;
	struct rlimit limit;

	region->granted_size = granted->name.size;
	socket = connect_raw(region->name.address);
	while (count_sockets(region->name.address) < 2)
		cr_assert_lt(clock_now_ns(), wait_limit);
	/* Otherwise it would give up its reserve for the next one. */
	dfi__loop_call(owner.loop, do_nothing, NULL, DEADLINE_NEVER);
	use_up_descriptors(&limit);
	send_with(socket, &request, sizeof(request), fd);
	cr_assert_eq(answer_of(socket), -EMFILE);
	close(socket);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	socket = connect_raw(region->name.address);
	send_with(socket, &request, sizeof(request), fd);
	cr_assert_eq(answer_of(socket), 0);
	close(socket);
	dfi__shm_ops.region.destroy(granted);
	dfi__shm_ops.region.destroy(region);
}

/* The answer is a struct shm_reply, with the least byte of the error first. */
static void grant_to_poor(const char *answer, int error, const char *remedy)
{
	struct false_owner poor = { .answer = answer };
	struct region *granted = create(SIZE);

	cr_assert_eq((unsigned char)answer[4], (unsigned char)error);
	start_false_owner(&poor);
	cr_assert_eq(dfi__shm_ops.region.grant(granted, &poor.name, 0,
			 WAIT_LIMIT(deadline_in_ms(60000))),
	    error);
	expect_text(poor.name.address);
	expect_text(remedy);
	stop_false_owner(&poor);
	dfi__shm_ops.region.destroy(granted);
}

Test(shm, process_without_descriptors_for_a_grant_is_named)
{
	grant_to_poor("PIFD\xe8\xff\xff\xff", -EMFILE, "ulimit -n");
}

Test(shm, process_without_memory_for_a_grant_is_named)
{
	grant_to_poor("PIFD\xf4\xff\xff\xff", -ENOMEM, "ulimit -v");
}

/* Nobody gets it, as its use could raise a signal. */
Test(shm, region_that_cannot_be_reserved_is_refused_and_leaves_nothing)
{
	static const uint32_t huge_pages[] = { HUGE_PAGES_NEVER,
		HUGE_PAGES_TRY };
	unsigned descriptors = count_descriptors(""), i;
	struct region *region = NULL;

	reserve_error = ENOSPC;
	for (i = 0; i < 2; i++) {
		owner.settings.huge_pages = huge_pages[i];
		cr_assert_eq(dfi__shm_ops.region.create(
				 owner.transport, 2u << 20, &region),
		    -ENOMEM);
		expect_text("2097152 bytes for a region could not be reserved");
		expect_text("DFI_RING_MEMORY");
	}
	cr_assert_null(region);
	cr_assert_eq(count_mappings(), 0);
	cr_assert_eq(count_descriptors(""), descriptors);
}

/* As by vm.memfd_noexec=2 of some kernels, or a seccomp filter. */
Test(shm, system_that_forbids_memory_files_is_named)
{
	static const uint32_t huge_pages[] = { HUGE_PAGES_NEVER, HUGE_PAGES_TRY,
		HUGE_PAGES_REQUIRE };
	struct region *region = NULL;
	unsigned i;

	memfd_error = EACCES;
	for (i = 0; i < 3; i++) {
		owner.settings.huge_pages = huge_pages[i];
		cr_assert_eq(dfi__shm_ops.region.create(
				 owner.transport, 2u << 20, &region),
		    -EIO);
		expect_text("vm.memfd_noexec");
		expect_text("seccomp");
	}
	cr_assert_null(region);
}

/*
 * Use up the mappings that this process may have. Unmapping the room that is
 * returned gives most of them back.
 */
static char *fill_mappings(unsigned long limit)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *room;
	unsigned long i;

	room = mmap(NULL, limit * page, PROT_NONE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	cr_assert_neq(room, MAP_FAILED);
	for (i = 0; i < limit; i += 2)
		if (mprotect(room + i * page, page, PROT_READ) < 0)
			break;
	/* Each of these takes one, those above two. */
	while (mmap(NULL, page, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) !=
	    MAP_FAILED)
		;
	return room;
}

Test(shm, limit_of_mappings_is_named)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct region *region = NULL;
	unsigned long limit = 0;
	char *room, text[512], other[512];
	FILE *file;
	int ret;

#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("AddressSanitizer needs mappings of its own");
#endif
	file = fopen("/proc/sys/vm/max_map_count", "re");
	cr_assert(file && fscanf(file, "%lu", &limit) == 1);
	fclose(file);
	if (limit > 200000)
		cr_skip_test("filling %lu mappings takes too long", limit);
	room = fill_mappings(limit);
	ret = dfi__shm_ops.region.create(owner.transport, SIZE, &region);
	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	dfi__fail_map(page, "it");
	snprintf(other, sizeof(other), "%s", dfi_errmsg());
	/* The test's own reports need some. */
	munmap(room, limit * page);
	cr_assert_eq(ret, -ENOMEM);
	cr_assert(strstr(text, "vm.max_map_count"), "%s", text);
	cr_assert(strstr(other, "vm.max_map_count"), "%s", other);
	cr_assert_eq(dfi__fail_map(page, "it"), -ENOMEM);
	expect_text("it: ");
	expect_text("out of memory");
}

Test(shm, signals_do_not_keep_a_region_from_being_reserved)
{
	struct region *region;

	signals_left = 1000;
	cr_assert_eq(
	    owner.transport->ops->region.create(owner.transport, SIZE, &region),
	    0, "%s", dfi_errmsg());
	cr_assert_eq(signals_left, 1000);
	cr_assert(gets_signals());
	owner.transport->ops->region.destroy(region);
}

Test(shm, region_has_all_of_its_memory)
{
	struct region *region = create(SIZE);
	struct stat st;

	cr_assert_eq(fstat(((struct shm_region *)region)->fd, &st), 0);
	cr_assert_geq((uint64_t)st.st_blocks * 512, SIZE);
	dfi__shm_ops.region.destroy(region);
}

/* The error names what is missing, not the huge pages. */
Test(shm, huge_pages_that_are_required_need_descriptors_and_address_space_too)
{
	struct rlimit files, space, low;
	struct region *region = NULL;

	owner.settings.huge_pages = HUGE_PAGES_REQUIRE;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	low = files;
	low.rlim_cur = 3;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	cr_expect_eq(dfi__shm_ops.region.create(owner.transport, SIZE, &region),
	    -EMFILE);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	expect_text("needs 1 file descriptor");
	expect_text("ulimit -n");
	cr_assert_eq(getrlimit(RLIMIT_AS, &space), 0);
	low = space;
	low.rlim_cur = 1 << 30;
	cr_assert_eq(setrlimit(RLIMIT_AS, &low), 0);
	cr_expect_eq(dfi__shm_ops.region.create(
			 owner.transport, UINT64_C(1) << 32, &region),
	    -ENOMEM);
	cr_assert_eq(setrlimit(RLIMIT_AS, &space), 0);
	expect_text("4294967296 bytes of address space");
	expect_text("ulimit -v");
	cr_assert_null(region);
}

/* At once: nothing is mapped, and nothing is displaced. */
Test(shm, region_larger_than_memory_is_refused)
{
	static const uint32_t huge_pages[] = { HUGE_PAGES_NEVER,
		HUGE_PAGES_TRY };
	uint64_t size = UINT64_C(1) << 46;
	unsigned descriptors = count_descriptors(""), i;
	int64_t start = clock_now_ns();
	struct region *region = NULL;

	for (i = 0; i < 2; i++) {
		owner.settings.huge_pages = huge_pages[i];
		cr_assert_eq(
		    dfi__shm_ops.region.create(owner.transport, size, &region),
		    -ENOMEM);
		expect_text("70368744177664 bytes");
		expect_text("are left (");
		expect_text("DFI_RING_MEMORY");
	}
	cr_assert_null(region);
	cr_assert_eq(count_descriptors(""), descriptors);
	cr_assert_lt(clock_now_ns() - start, INT64_C(10000000000));
}

/* Not a SIGXFSZ, which would end the process. */
Test(shm, region_larger_than_a_file_may_be_is_refused)
{
	struct rlimit limit, low;
	struct region *region = NULL;

	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	low = limit;
	low.rlim_cur = SIZE / 2;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &low), 0);
	cr_expect_eq(dfi__shm_ops.region.create(owner.transport, SIZE, &region),
	    -ENOMEM);
	cr_expect(strstr(dfi_errmsg(), "ulimit -f") != NULL);
	owner.settings.huge_pages = HUGE_PAGES_REQUIRE;
	cr_expect_eq(dfi__shm_ops.region.create(owner.transport, SIZE, &region),
	    -ENOMEM);
	cr_expect(strstr(dfi_errmsg(), "ulimit -f") != NULL);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_null(region);
}
