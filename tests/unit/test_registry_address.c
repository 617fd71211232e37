/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a registry may listen, what becomes of the socket's file, and what a
 * client is told that finds nobody there.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dfi/error.h>

#include "registry/address.h"
#include "registry_help.h"

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

	ret = dfi__client_open(loop, address, NULL, 0, soon(), &client);
	dfi__loop_stop(loop);
	return ret;
}

static const char *path_of(const char *address)
{
	return address + strlen("unix:");
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
		cr_assert_eq(open_error(routable[i]), -EPERM);
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
}

Test(address, port_zero_is_answered_with_the_port_that_was_taken)
{
	struct dfi_registry *registry = start_at("tcp:127.0.0.1:0");
	unsigned port = 0;

	cr_assert_eq(
	    sscanf(dfi_registry_address(registry), "tcp:127.0.0.1:%u", &port),
	    1);
	cr_assert_gt(port, 0);
	cr_assert_eq(start_error(dfi_registry_address(registry)), -EEXIST);
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

/* What kill -9 leaves behind: a socket file that nobody listens at. */
static void leave_socket(const char *text)
{
	struct address address;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	cr_assert_eq(dfi__address_parse(text, &address), 0);
	cr_assert_eq(bind(fd, &address.socket.any, address.size), 0);
	cr_assert_eq(listen(fd, 1), 0);
	close(fd);
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
	dfi__loop_stop(loop);
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
	dfi__loop_stop(loop);
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
	struct dfi_registry *one = start_at(address), *two;
	struct stat st;

	unlink(path_of(address));
	two = start_at(address);
	dfi_registry_stop(one);
	cr_assert_eq(stat(path_of(address), &st), 0);
	dfi_registry_stop(two);
	cr_assert_eq(stat(path_of(address), &st), -1);
}

Test(address, a_directory_that_is_missing_is_enoent)
{
	cr_assert_eq(start_error("unix:/nonexistent/registry"), -ENOENT);
}

/* Each of them finds the leftover; one takes its place, none both. */
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
	dfi__loop_stop(loop);
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
