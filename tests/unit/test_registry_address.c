/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses where a registry may listen, the socket's file, and the errors
 * of a client that finds nobody there.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/error.h>

#include "registry/wire/address.h"
#include "registry_help.h"

/* 0, or why the file system has no locks. */
static int lock_error;

int flock(int fd, int operation)
{
	if (!lock_error)
		return (int)syscall(SYS_flock, fd, operation);
	errno = lock_error;
	return -1;
}

/* Where a registry starts when a client was refused twice. */
static const char *starts_late;
static unsigned n_refused;
static struct dfi_registry *late;

int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t size)
{
	int ret = (int)syscall(SYS_connect, fd, to.__sockaddr__, size);
	const char *address = starts_late;

	if (ret < 0 && errno == ECONNREFUSED && address && ++n_refused == 2) {
		starts_late = NULL;
		late = start_at(address);
		errno = ECONNREFUSED;
	}
	return ret;
}

static int start_error(const char *listen)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry;

	attr.listen = listen;
	return dfi_registry_start(&attr, &registry);
}

static int open_error(const char *address)
{
	struct loop *loop = start_loop();
	struct registry_client *client;
	int ret;

	ret = dfi__client_open(loop, address, &insecure, 0, soon(), &client);
	if (!ret)
		dfi__client_close(client);
	stop_loop(loop);
	return ret;
}

static const char *path_of(const char *address)
{
	return address + strlen("unix:");
}

static int open_error_of_stranger(const char *address)
{
	struct loop *loop = start_loop();
	struct registry_client *client;
	int ret;

	ret = dfi__client_open(loop, address, NULL, 0, soon(), &client);
	stop_loop(loop);
	return ret;
}

/* Every user of the host reaches it, and may answer there. */
Test(address, of_loopback_is_eperm_without_proof_or_a_flag)
{
	static const char *const loopback[] = { "tcp:127.0.0.1:0",
		"tcp:127.9.9.9:7000", "tcp:[::1]:7000",
		"tcp:[::ffff:127.0.0.1]:1" };
	size_t i;

	for (i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++) {
		cr_assert_eq(start_error(loopback[i]), -EPERM);
		cr_assert_not_null(strstr(dfi_errmsg(), "dfi-registry keygen"));
		cr_assert_not_null(strstr(dfi_errmsg(), "every user"));
		cr_assert_not_null(strstr(dfi_errmsg(), "--insecure"));
		cr_assert_eq(open_error_of_stranger(loopback[i]), -EPERM);
		cr_assert_not_null(strstr(dfi_errmsg(), "DFI_REGISTRY_KEY"));
		cr_assert_not_null(
		    strstr(dfi_errmsg(), "DFI_REGISTRY_INSECURE=1"));
	}
}

Test(address, a_routable_one_is_eperm_and_the_text_says_what_to_do)
{
	static const char *const routable[] = { "tcp:0.0.0.0:7000",
		"tcp:192.168.1.1:0", "tcp:[::]:7000", "tcp:[fe80::1]:7000",
		"tcp:8.8.8.8:53", "tcp:[::ffff:10.0.0.1]:1" };
	size_t i;

	for (i = 0; i < sizeof(routable) / sizeof(routable[0]); i++) {
		cr_assert_eq(start_error(routable[i]), -EPERM);
		cr_assert_not_null(strstr(dfi_errmsg(), "dfi-registry keygen"));
		cr_assert_not_null(strstr(dfi_errmsg(), "loopback"));
		cr_assert_eq(open_error_of_stranger(routable[i]), -EPERM);
		cr_assert_not_null(strstr(dfi_errmsg(), "DFI_REGISTRY_KEY"));
	}
}

Test(address, what_is_none_is_einval_and_the_text_says_the_syntax)
{
	static const char *const bad[] = { "", "unix", "unix:", "unix:@",
		"/tmp/x", "tcp:", "tcp:127.0.0.1",
		"tcp:127.0.0.1:", "tcp:127.0.0.1:x", "tcp:127.0.0.1:65536",
		"tcp:127.0.0.1:-1", "tcp:localhost:7000", "tcp:::1:7000",
		"tcp:[::1:7000", "tcp:[]:7000", "tcp:[127.0.0.1]:7000",
		"tcp:127.0.0.1:99999999999999999999",
		"tcp:[0000:0000:0000:0000:0000:0000:0000:0000:0000:0001]:1",
		"udp:127.0.0.1:7000" };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(start_error(bad[i]), -EINVAL, "%s", bad[i]);
		cr_assert_not_null(strstr(dfi_errmsg(), "unix:@NAME"));
		cr_assert_eq(open_error(bad[i]), -EINVAL, "%s", bad[i]);
	}
}

Test(address, the_longest_path_is_accepted_and_one_more_is_not)
{
	char text[128];
	struct address address;

	memset(text, 'x', sizeof(text));
	memcpy(text, "unix:@", 6);
	text[5 + 107] = '\0';
	cr_assert_eq(dfi__address_parse(text, &address), 0);
	text[5 + 107] = 'x';
	text[5 + 108] = '\0';
	cr_assert_eq(dfi__address_parse(text, &address), -EINVAL);
	cr_assert_not_null(strstr(dfi_errmsg(), "108 bytes"));
	cr_assert_not_null(strstr(dfi_errmsg(), "at most 107"));
}

Test(address, port_zero_is_answered_with_the_port_that_was_taken)
{
	struct dfi_registry *registry = start_at("tcp:127.0.0.1:0"), *second;
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	unsigned port = 0;

	cr_assert_eq(
	    sscanf(dfi_registry_address(registry), "tcp:127.0.0.1:%u", &port),
	    1);
	cr_assert_gt(port, 0);
	attr.listen = dfi_registry_address(registry);
	attr.flags = DFI_REGISTRY_INSECURE;
	cr_assert_eq(dfi_registry_start(&attr, &second), -EEXIST);
	dfi_registry_stop(registry);
}

Test(address, the_default_is_another_one_each_time)
{
	struct dfi_registry *one = start_at(NULL), *two;

	cr_assert_eq(dfi_registry_start(NULL, &two), 0);
	cr_assert_str_neq(dfi_registry_address(one), dfi_registry_address(two));
	dfi_registry_stop(one);
	dfi_registry_stop(two);
}

Test(address, attributes_are_checked)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry;

	cr_assert_eq(dfi_registry_start(&attr, NULL), -EINVAL);
	attr.flags = 2;
	cr_assert_eq(dfi_registry_start(&attr, &registry), -EINVAL);
	attr.flags = 0;
	attr.size = 0;
	cr_assert_eq(dfi_registry_start(&attr, &registry), -EINVAL);
	cr_assert_eq(dfi_registry_stop(NULL), 0);
}

Test(address, the_socket_file_is_private_and_goes_with_the_registry)
{
	const char *address = fresh_address("registry");
	struct dfi_registry *registry = start_at(address);
	struct stat st;

	cr_assert_eq(stat(path_of(address), &st), 0);
	cr_assert(S_ISSOCK(st.st_mode));
	cr_assert_eq(st.st_mode & 0777, 0600);
	cr_assert_eq(st.st_nlink, 1);
	dfi_registry_stop(registry);
	cr_assert_eq(stat(path_of(address), &st), -1);
}

/* Cleaners of temporary files look for this: a live socket of that name. */
Test(address, the_socket_is_known_to_the_kernel_by_its_own_path)
{
	const char *address = fresh_address("registry");
	struct dfi_registry *registry = start_at(address);
	FILE *file = fopen("/proc/net/unix", "r");
	char line[512];
	bool found = false;

	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		found |= strlen(line) > strlen(path_of(address)) &&
		    !strcmp(line + strlen(line) - strlen(path_of(address)),
			path_of(address));
	}
	fclose(file);
	cr_assert(found);
	dfi_registry_stop(registry);
}

Test(address, a_path_of_107_bytes_works)
{
	char name[107 - sizeof("/tmp/dfi-test-XXXXXX/") + 2];
	struct dfi_registry *registry;
	struct loop *loop = start_loop();
	struct registry_client *client;
	const char *address;

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	address = fresh_address(name);
	cr_assert_eq(strlen(path_of(address)), 107);
	registry = start_at(address);
	client = open_client(loop, registry);
	dfi__client_close(client);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

static int bind_socket(const char *text)
{
	struct address address;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	cr_assert_eq(dfi__address_parse(text, &address), 0);
	cr_assert_eq(bind(fd, &address.socket.any, address.size), 0);
	return fd;
}

/* kill -9 leaves this behind: a socket file without a listener. */
static void leave_socket(const char *text)
{
	int fd = bind_socket(text);

	cr_assert_eq(listen(fd, 1), 0);
	close(fd);
}

static const char *lock_of(const char *address)
{
	static char name[128];

	snprintf(name, sizeof(name), "%s.lock", path_of(address));
	return name;
}

static int make_lock(const char *address, mode_t mode)
{
	int fd = open(lock_of(address), O_CREAT | O_EXCL | O_RDWR, mode);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fchmod(fd, mode), 0);
	return fd;
}

Test(address, the_lock_file_is_private_and_goes_with_the_registry)
{
	const char *address = fresh_address("registry");
	struct dfi_registry *registry = start_at(address);
	struct stat st;

	cr_assert_eq(stat(lock_of(address), &st), 0);
	cr_assert_eq(st.st_mode, S_IFREG | 0600);
	dfi_registry_stop(registry);
	cr_assert_eq(stat(lock_of(address), &st), -1);
}

Test(address, a_lock_of_the_directory_keeps_no_registry_from_its_place)
{
	const char *address = fresh_address("registry");
	struct dfi_registry *registry;
	char directory[64];
	int fd;

	leave_socket(address);
	snprintf(directory, sizeof(directory), "%.*s",
	    (int)(strrchr(address, '/') - path_of(address)), path_of(address));
	fd = open(directory, O_RDONLY | O_DIRECTORY);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	registry = start_at(address);
	dfi_registry_stop(registry);
	close(fd);
}

/* Without a lock nothing is replaced, also if the lock's name is something
 * else. */
static void expect_no_lock(const char *address, const char *why)
{
	struct dfi_registry *registry;

	lines_collect();
	leave_socket(address);
	cr_assert_eq(start_error(address), -EEXIST);
	cr_assert_not_null(strstr(dfi_errmsg(), why), "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), "remove"));
	cr_assert_eq(unlink(path_of(address)), 0);
	/* It isn't needed where the path is free. */
	registry = start_at(address);
	cr_assert_eq(lines_count("by hand"), 1);
	dfi_registry_stop(registry);
}

Test(address, a_lock_file_that_others_can_open_does_not_count)
{
	const char *address = fresh_address("registry");
	int fd = make_lock(address, 0644);

	cr_assert_eq(flock(fd, LOCK_EX), 0);
	expect_no_lock(address, "mode 0644");
	unlink(lock_of(address));
	close(fd);
}

Test(address, a_lock_file_of_another_user_does_not_count)
{
	const char *address = fresh_address("registry");
	int fd = make_lock(address, 0600);

	if (fchown(fd, 65534, (gid_t)-1) != 0) {
		unlink(lock_of(address));
		cr_skip_test("only root can give files away");
	}
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	expect_no_lock(address, "user 65534");
	unlink(lock_of(address));
	close(fd);
}

Test(address, a_symbolic_link_is_no_lock_file)
{
	const char *address = fresh_address("registry");

	cr_assert_eq(symlink("elsewhere", lock_of(address)), 0);
	expect_no_lock(address, "not a regular file");
	unlink(lock_of(address));
}

Test(address, a_file_system_without_locks_is_said_to_have_none)
{
	lock_error = ENOSYS;
	expect_no_lock(fresh_address("registry"), "has no locks");
}

Test(address, a_lock_that_is_held_is_waited_for_within_a_bound)
{
	const char *address = fresh_address("registry");
	struct dfi_registry *registry = start_at(address);

	/* It lives, so that there is no second one beside it. */
	unlink(path_of(address));
	cr_assert_eq(start_error(address), -EBUSY);
	cr_assert_not_null(strstr(dfi_errmsg(), lock_of(address)));
	dfi_registry_stop(registry);
	/* A killed process leaves this. */
	close(make_lock(address, 0600));
	dfi_registry_stop(start_at(address));
}

/* A registry that starts has taken the old socket away already. */
Test(address, a_client_waits_for_a_registry_that_just_starts)
{
	const char *address = fresh_address("registry");
	int lock = make_lock(address, 0600);

	leave_socket(address);
	starts_late = address;
	cr_assert_eq(open_error(address), 0, "%s", dfi_errmsg());
	cr_assert_eq(n_refused, 2);
	dfi_registry_stop(late);
	close(lock);
}

/* As in a container with the socket, but not its directory. */
Test(address, a_client_at_a_socket_that_is_mounted_alone_learns_of_it)
{
	const char *address = fresh_address("registry");
	struct registry_client *client;
	struct dfi_registry *registry;
	char inside[140];
	struct loop *loop;

	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		cr_skip_test("only root can mount");
	registry = start_at(address);
	snprintf(inside, sizeof(inside), "%s.inside", address);
	close(open(path_of(inside), O_CREAT | O_WRONLY, 0600));
	cr_assert_eq(
	    mount(path_of(address), path_of(inside), NULL, MS_BIND, NULL), 0);
	lines_collect();
	loop = start_loop();
	cr_assert_eq(
	    dfi__client_open(loop, inside, NULL, 0, soon(), &client), 0);
	dfi_registry_stop(registry);
	registry = start_at(address);
	lines_wait("mount its directory");
	cr_assert_eq(open_error(inside), -ECONNREFUSED);
	cr_assert_not_null(strstr(dfi_errmsg(), "mount its directory"));
	dfi__client_close(client);
	stop_loop(loop);
	dfi_registry_stop(registry);
	umount(path_of(inside));
	unlink(path_of(inside));
}

Test(address, a_leftover_socket_is_replaced)
{
	const char *address = fresh_address("registry");
	struct dfi_registry *registry;
	struct loop *loop = start_loop();
	struct registry_client *client;
	struct stat st;

	leave_socket(address);
	registry = start_at(address);
	cr_assert_eq(stat(path_of(address), &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	client = open_client(loop, registry);
	dfi__client_close(client);
	stop_loop(loop);
	dfi_registry_stop(registry);
}

Test(address, a_registry_that_lives_is_not_replaced)
{
	const char *address = fresh_address("registry");
	struct dfi_registry *registry = start_at(address);
	struct loop *loop = start_loop();
	struct registry_client *client;
	char name[64];

	cr_assert_eq(start_error(address), -EEXIST);
	cr_assert_not_null(strstr(dfi_errmsg(), "in use"));
	client = open_client(loop, registry);
	dfi__client_close(client);
	stop_loop(loop);
	dfi_registry_stop(registry);
	snprintf(name, sizeof(name), "unix:@dfi-test-taken-%d", getpid());
	registry = start_at(name);
	cr_assert_eq(start_error(name), -EEXIST);
	dfi_registry_stop(registry);
}

Test(address, a_file_that_is_no_socket_is_left_alone)
{
	const char *address = fresh_address("file");
	char text[8] = "";
	int fd = open(path_of(address), O_CREAT | O_WRONLY, 0600);

	cr_assert_eq(write(fd, "text", 4), 4);
	close(fd);
	cr_assert_eq(start_error(address), -EEXIST);
	fd = open(path_of(address), O_RDONLY);
	cr_assert_eq(read(fd, text, sizeof(text)), 4);
	close(fd);
}

Test(address, stop_leaves_a_file_that_is_not_its_own)
{
	const char *address = fresh_address("registry");
	struct dfi_registry *registry = start_at(address);
	struct stat st;
	int fd;

	unlink(path_of(address));
	fd = bind_socket(address);
	dfi_registry_stop(registry);
	cr_assert_eq(stat(path_of(address), &st), 0);
	close(fd);
}

Test(address, a_directory_that_is_missing_is_enoent)
{
	cr_assert_eq(start_error("unix:/nonexistent/registry"), -ENOENT);
}

/* Each of them finds the leftover; one takes its place. */
static void *compete(void *arg)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry = NULL;
	int ret;

	attr.listen = arg;
	ret = dfi_registry_start(&attr, &registry);
	cr_assert(ret == 0 || ret == -EEXIST || ret == -EBUSY);
	return registry;
}

Test(address, of_many_that_find_a_leftover_one_wins)
{
	char address[64];
	pthread_t threads[8];
	void *registry, *winner = NULL;
	struct loop *loop = start_loop();
	struct registry_client *client;
	size_t i;

	snprintf(address, sizeof(address), "%s", fresh_address("registry"));
	leave_socket(address);
	for (i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, compete, address);
	for (i = 0; i < 8; i++) {
		pthread_join(threads[i], &registry);
		cr_assert(!registry || !winner);
		if (registry)
			winner = registry;
	}
	cr_assert_not_null(winner);
	client = open_client(loop, winner);
	dfi__client_close(client);
	stop_loop(loop);
	dfi_registry_stop(winner);
}

Test(address, where_nobody_listens_is_econnrefused_with_the_remedy)
{
	char addresses[4][64] = { "unix:@dfi-test-nobody",
		"unix:/nonexistent/registry" };
	struct dfi_registry *registry = start_at("tcp:127.0.0.1:0");
	size_t i;

	snprintf(addresses[2], sizeof(addresses[2]), "%s",
	    dfi_registry_address(registry));
	dfi_registry_stop(registry);
	snprintf(addresses[3], sizeof(addresses[3]), "%s",
	    fresh_address("leftover"));
	leave_socket(addresses[3]);
	for (i = 0; i < 4; i++) {
		cr_assert_eq(open_error(addresses[i]), -ECONNREFUSED);
		cr_assert_not_null(strstr(dfi_errmsg(), addresses[i]));
		cr_assert_not_null(strstr(dfi_errmsg(), "dfi-registry"));
		cr_assert_not_null(strstr(dfi_errmsg(), "DFI_REGISTRY"));
	}
}

Test(address, a_forked_child_cannot_stop_the_registry)
{
	const char *address = fresh_address("registry");
	struct dfi_registry *registry = start_at(address);
	struct stat st;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(dfi_registry_stop(registry) == -EOWNERDEAD ? 0 : 1);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert_eq(stat(path_of(address), &st), 0);
	dfi_registry_stop(registry);
}
