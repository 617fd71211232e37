/* SPDX-License-Identifier: Apache-2.0 */
/* A connected pair of Unix stream sockets, by a name without a file. */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rival_bytes.h"

static socklen_t name_socket(
    const struct worker *worker, struct sockaddr_un *name)
{
	int n;

	*name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
	    "dfi-bench-%lx", (unsigned long)rival_number(worker));
	return (
	    socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int accept_source(struct worker *worker, int listener)
{
	struct rival_address address = { 0 };
	struct sockaddr_un name;
	socklen_t size = name_socket(worker, &name);

	if (bind(listener, (struct sockaddr *)&name, size) < 0 ||
	    listen(listener, 1) < 0)
		return -1;
	rival_publish(worker, &address);
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static int connect_target(struct worker *worker, int fd)
{
	struct rival_address address;
	struct sockaddr_un name;
	socklen_t size = name_socket(worker, &name);
	int ret = rival_await(worker, &address);

	return ret ? ret : connect(fd, (struct sockaddr *)&name, size);
}

static int unix_prepare(struct worker *worker)
{
	bool source = worker->seat->role == ROLE_SOURCE;
	int fd, ret = rival_bytes_prepare(worker);
	struct rival_bytes *bytes = worker->state;

	if (ret)
		return ret;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return worker_fail_errno(worker, "a socket");
	ret = source ? connect_target(worker, fd) : accept_source(worker, fd);
	bytes->in = bytes->out = source ? fd : ret;
	if (!source)
		close(fd);
	return ret < 0 ? worker_fail_errno(worker, "a connection") : 0;
}

static const char *version(void)
{
	return "Unix stream sockets";
}

const struct rival rival_unix = {
	.version = version,
	.job = {
		.prepare = unix_prepare,
		.run = rival_bytes_run,
		.finish = rival_bytes_finish,
	},
};
