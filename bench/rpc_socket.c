/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same service over Unix sockets that keep messages apart
 * (SOCK_SEQPACKET): the server's thread waits for all clients by epoll.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../common/complain.h"
#include "../common/threads.h"
#include "rpc.h"

#define EVENTS 64

static bool succeeded(const char *call, long ret)
{
	if (ret < 0)
		complain("%s: %s", call, strerror(errno));
	return ret >= 0;
}

static bool watch(const struct rpc_service *service, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return succeeded(
	    "epoll_ctl", epoll_ctl(service->epoll, EPOLL_CTL_ADD, fd, &event));
}

static bool accept_one(const struct rpc_service *service)
{
	int fd = accept4(service->listener, NULL, NULL, SOCK_CLOEXEC);

	return succeeded("accept", fd) && watch(service, fd);
}

static bool answer(const struct rpc_service *service, int fd)
{
	uint64_t tuple[RPC_MAX_TUPLE / 8];
	ssize_t n = recv(fd, tuple, service->tuple_size, 0);

	if (n > 0)
		n = send(fd, tuple, (size_t)n, MSG_NOSIGNAL);
	else
		close(fd); /* the client has left */
	return succeeded("the server", n);
}

/* True: go on. */
static bool serve_events(struct rpc_service *service)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(service->epoll, events, EVENTS, -1), i;
	bool done = succeeded("epoll_wait", n);

	for (i = 0; done && i < n; i++) {
		if (events[i].data.fd == service->stops)
			return false;
		done = events[i].data.fd == service->listener
		    ? accept_one(service)
		    : answer(service, events[i].data.fd);
	}
	service->failed = !done;
	return done;
}

static void *serve(void *service)
{
	while (serve_events(service))
		;
	return NULL;
}

static socklen_t address_of(
    const struct rpc_service *service, struct sockaddr_un *address)
{
	size_t length = strlen(service->address);

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address->sun_path + 1, service->address, length);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static void close_server(struct rpc_service *service)
{
	const int fds[] = { service->listener, service->epoll, service->stops };
	unsigned i;

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static bool socket_start(struct rpc_service *service)
{
	struct sockaddr_un address;
	socklen_t size;
	bool done;

	snprintf(service->address, sizeof(service->address), "dfi-bench-rpc-%d",
	    (int)getpid());
	size = address_of(service, &address);
	service->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	service->epoll = epoll_create1(EPOLL_CLOEXEC);
	service->stops = eventfd(0, EFD_CLOEXEC);
	done = succeeded("socket", service->listener) &&
	    succeeded("epoll_create1", service->epoll) &&
	    succeeded("eventfd", service->stops) &&
	    succeeded("bind",
		bind(service->listener, (struct sockaddr *)&address, size)) &&
	    succeeded("listen", listen(service->listener, SOMAXCONN)) &&
	    watch(service, service->listener) &&
	    watch(service, service->stops) &&
	    thread_start(&service->thread, serve, service) == 0;
	if (!done)
		close_server(service);
	return done;
}

static bool socket_stop(struct rpc_service *service)
{
	bool done = succeeded("eventfd", eventfd_write(service->stops, 1));

	pthread_join(service->thread, NULL);
	close_server(service);
	return done && !service->failed;
}

static bool socket_join(struct rpc_client *client)
{
	struct sockaddr_un address;
	socklen_t size = address_of(client->service, &address);

	client->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (!succeeded("socket", client->fd))
		return false;
	if (succeeded("connect",
		connect(client->fd, (struct sockaddr *)&address, size)))
		return true;
	close(client->fd);
	return false;
}

static bool socket_call(struct rpc_client *client)
{
	size_t size = client->service->tuple_size;
	ssize_t n;

	if (!succeeded(
		"send", send(client->fd, client->request, size, MSG_NOSIGNAL)))
		return false;
	n = recv(client->fd, client->reply, size, 0);
	if (n == 0)
		complain("the server has left");
	return succeeded("recv", n) && n > 0;
}

static bool socket_leave(struct rpc_client *client)
{
	return succeeded("close", close(client->fd));
}

const struct rpc_ops rpc_socket_ops = {
	.name = "Unix sockets",
	.start = socket_start,
	.stop = socket_stop,
	.join = socket_join,
	.call = socket_call,
	.leave = socket_leave,
};
