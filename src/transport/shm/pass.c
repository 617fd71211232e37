/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passing a region's file descriptor from its owner to a peer, over an abstract
 * Unix socket that vanishes with its process. Both ends check that the other
 * runs as the same user. The owner's side runs on the control thread and never
 * waits; the peer's side runs in the thread that opens a source.
 *
 * A peer asks as soon as it has connected. Another user's is refused without
 * listening to it, so that it holds no descriptor of ours, and of peers that do
 * not ask only some are waited for.
 *
 * Passing a region takes a descriptor only for the connection. One is kept for
 * that, and given up when there is no other, so that peers of a process that
 * has none left are served one after the other.
 */
#include "shm.h"

#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/accept.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/user.h"

#define PASS_MAGIC UINT32_C(0x44464950) /* "DFIP" */
#define SHOW_MAGIC UINT32_C(0x44464956) /* "DFIV" */
#define PASS_VERSION 1
#define BACKLOG 1024
#define PASSES_MAX 128
#define NAP_MAX_MS 16

int dfi__shm_pass_timeout_s = 5;

/* A peer that has connected and not yet been answered. */
struct shm_pass {
	TAILQ_ENTRY(shm_pass) link;
	struct shm *shm;
	struct event *event;
	int socket;
	bool root; /* who is not our user */
};

/* Room for one descriptor; the kernel closes those that don't fit. */
union control {
	struct cmsghdr header;
	char bytes[CMSG_LEN(sizeof(int))];
};

/* Whether it may have our memory: our user, or root, which may do anything. */
static int check_peer(int socket, const char *name, struct ucred *peer)
{
	int ret = dfi__user_peer(socket, name, peer);

	return ret ? ret : dfi__user_check(peer, name, NULL, 0, "");
}

static void fill_address(
    const char *text, struct sockaddr_un *address, socklen_t *size)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	/* An abstract name starts with a zero byte, here written as '@'. */
	strncpy(address->sun_path + 1, text + 1, sizeof(address->sun_path) - 2);
	*size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
	    strlen(address->sun_path + 1));
}

/* A message, with a descriptor if that isn't -1. */
static int send_message(
    int socket, const void *bytes, size_t size, int fd, int flags)
{
	struct iovec data = { .iov_base = (void *)bytes, .iov_len = size };
	union control control = { .bytes = { 0 } };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };

	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
	}
	if (sendmsg(socket, &message, MSG_NOSIGNAL | flags) < 0)
		return -errno;
	return 0;
}

static int send_reply(int socket, int error, int fd)
{
	struct shm_reply reply = { .magic = PASS_MAGIC, .error = error };

	return send_message(socket, &reply, sizeof(reply), fd, MSG_DONTWAIT);
}

/*
 * If it was given up, have it again before others take what is free now. It
 * only has to be open, so it is of no use to a forked child, and does no harm.
 */
static int keep_reserve(struct shm *shm)
{
	if (shm->reserve < 0)
		shm->reserve = file_up(eventfd(0, EFD_CLOEXEC));
	return shm->reserve < 0 ? -errno : 0;
}

static bool give_up_reserve(struct shm *shm)
{
	if (shm->reserve < 0)
		return false;
	close(shm->reserve);
	shm->reserve = -1;
	return true;
}

static void free_pass(struct shm_pass *pass)
{
	TAILQ_REMOVE(&pass->shm->passes, pass, link);
	pass->shm->n_passes--;
	event_free(pass->event);
	dfi__fork_close(pass->socket);
	keep_reserve(pass->shm);
	free(pass);
}

static void serve_region(struct shm_pass *pass, uint64_t key)
{
	struct shm_region *region;
	int ret;

	/* Under the lock, so that the descriptor can't be closed meanwhile. */
	pthread_mutex_lock(&pass->shm->lock);
	for (region = pass->shm->regions; region; region = region->next)
		if (region->base.name.key == key)
			break;
	if (region) {
		ret = send_reply(pass->socket, 0, region->fd);
		region->n_passed += !ret;
		region->elsewhere |= !ret && pass->root;
	} else {
		ret = send_reply(pass->socket, -ENOENT, -1);
	}
	pthread_mutex_unlock(&pass->shm->lock);
	if (ret < 0)
		dfi__log(DFI_LOG_DEBUG, "shared memory: passing a region: %s",
		    strerror(-ret));
}

static void take_descriptor(struct cmsghdr *header, int *fd)
{
	memcpy(fd, CMSG_DATA(header), sizeof(int));
	*fd = file_up(*fd);
	if (*fd < 0)
		*fd = -EMFILE;
}

/*
 * One message, with the descriptor that it carries in *fd, or -1 there, or
 * -EMFILE if it carries one, but this process may have no more: so unix(7) says
 * what it means that there is less than fits.
 */
static ssize_t receive(int socket, void *to, size_t size, int flags, int *fd)
{
	struct iovec data = { .iov_base = to, .iov_len = size };
	union control control;
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *header;
	ssize_t got;

	*fd = -1;
	memset(to, 0, size);
	got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
	header = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_level == SOL_SOCKET &&
	    header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		take_descriptor(header, fd);
	else if (got >= 0 && message.msg_flags & MSG_CTRUNC)
		*fd = -EMFILE;
	return got;
}

static void serve_show(
    struct shm_pass *pass, const struct shm_show_request *request, int fd)
{
	int ret = dfi__shm_show_serve(pass->shm, request, fd);

	if (ret < 0)
		dfi__log(DFI_LOG_DEBUG,
		    "shared memory: a peer shows a region: %s", strerror(-ret));
	send_reply(pass->socket, ret, -1);
}

static void serve_request(struct shm_pass *pass,
    const struct shm_show_request *request, ssize_t got, int fd)
{
	const struct shm_request *base = &request->base;
	bool shows = got == sizeof(*request) && base->magic == SHOW_MAGIC;

	if (got == sizeof(*base) && base->magic == SHM_REPORT_MAGIC) {
		dfi__shm_report_serve(pass->shm, pass->socket, base);
		return;
	}
	if (!shows && (got != sizeof(*base) || base->magic != PASS_MAGIC)) {
		dfi__log_seldom(&pass->shm->nonsense, DFI_LOG_WARN,
		    "shared memory: a peer sent no valid request");
		return;
	}
	if (base->version != PASS_VERSION)
		send_reply(pass->socket, -EPROTO, -1);
	else if (shows)
		serve_show(pass, request, fd);
	else
		serve_region(pass, base->key);
}

static void serve(struct shm_pass *pass)
{
	struct shm_show_request request;
	ssize_t got;
	int fd;

	got = receive(pass->socket, &request, sizeof(request),
	    MSG_DONTWAIT | MSG_TRUNC, &fd);
	/* Without memory for that, a child that is forked just now keeps it. */
	if (fd >= 0)
		dfi__fork_add_unmapped(fd);
	serve_request(pass, &request, got, fd);
	if (fd >= 0)
		dfi__fork_close(fd);
}

static void on_request(evutil_socket_t socket, short what, void *arg)
{
	struct shm_pass *pass = arg;

	(void)socket;
	if (what & EV_READ)
		serve(pass);
	free_pass(pass);
}

/* At once, for dfi_errmsg(): an answer if there is room for it, and no more. */
static void refuse(struct shm *shm, int socket, int error)
{
	struct shm_request request;

	dfi__log_seldom(&shm->strangers, DFI_LOG_WARN,
	    "shared memory: refused: %s", dfi_errmsg());
	/*
	 * Nothing more comes in, and nothing that has is left unread: else
	 * closing would lose the answer.
	 */
	shutdown(socket, SHUT_RD);
	while (recv(socket, &request, sizeof(request), MSG_DONTWAIT) > 0)
		;
	send_reply(socket, error, -1);
	close(socket);
	keep_reserve(shm);
}

/*
 * Of too many, the one that has been waited for longest has had its time. If it
 * was only slow, it connects once more.
 */
static void make_room(struct shm *shm)
{
	struct shm_pass *first = TAILQ_FIRST(&shm->passes);

	if (shm->n_passes < PASSES_MAX)
		return;
	/* It may have asked, and not yet been heard. */
	serve(first);
	free_pass(first);
}

static void on_peer(void *arg, int socket)
{
	struct timeval timeout = { .tv_sec = dfi__shm_pass_timeout_s };
	struct shm *shm = arg;
	struct shm_pass *pass;
	struct ucred peer;
	int ret;

	ret = check_peer(socket, "a peer", &peer);
	if (ret < 0) {
		refuse(shm, socket, ret);
		return;
	}
	/* A child that the application forks would hide our death from it. */
	if (dfi__fork_add(socket) < 0) {
		close(socket);
		return;
	}
	make_room(shm);
	pass = calloc(1, sizeof(*pass));
	if (!pass) {
		dfi__fork_close(socket);
		return;
	}
	pass->shm = shm;
	pass->socket = socket;
	pass->root = peer.uid == 0 && geteuid() != 0;
	pass->event = event_new(
	    dfi__loop_base(shm->loop), socket, EV_READ, on_request, pass);
	if (!pass->event || event_add(pass->event, &timeout) < 0) {
		if (pass->event)
			event_free(pass->event);
		dfi__fork_close(socket);
		free(pass);
		return;
	}
	TAILQ_INSERT_TAIL(&shm->passes, pass, link);
	shm->n_passes++;
}

static void on_pause_over(void *arg)
{
	keep_reserve(arg);
}

/* Out of descriptors, for instance: peers wait in the backlog for a moment. */
static bool on_accept_error(void *arg, int err)
{
	struct shm *shm = arg;

	if ((err == EMFILE || err == ENFILE) && give_up_reserve(shm))
		return true;
	dfi__fail_files(err, 1, "accept", "shared memory: accepting a peer");
	dfi__log_seldom(&shm->failures, DFI_LOG_ERROR, "%s", dfi_errmsg());
	return false;
}

/*
 * Children close it, or peers would go on connecting after this process's
 * death, and wait for answers.
 */
static int open_listener(struct shm *shm)
{
	struct sockaddr_un address;
	socklen_t size;
	int ret;

	shm->listener = file_up(
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (shm->listener < 0)
		return dfi__fail_files(
		    errno, 2, "socket", "shared memory: passing regions");
	ret = dfi__fork_add(shm->listener);
	if (ret < 0) {
		close(shm->listener);
		return ret;
	}
	fill_address(shm->base.address, &address, &size);
	if (bind(shm->listener, (struct sockaddr *)&address, size) == 0 &&
	    listen(shm->listener, BACKLOG) == 0)
		return 0;
	ret = dfi__fail(-EIO, "shared memory: listening on %s: %s",
	    shm->base.address, strerrordesc_np(errno));
	dfi__fork_close(shm->listener);
	return ret;
}

static int listen_on_loop(void *arg)
{
	static const struct accept_hooks hooks = {
		.accepted = on_peer,
		.failed = on_accept_error,
		.resumed = on_pause_over,
	};
	struct shm *shm = arg;
	uint64_t name;
	int ret;

	TAILQ_INIT(&shm->passes);
	shm->reserve = -1;
	if (getrandom(&name, sizeof(name), 0) != sizeof(name))
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	snprintf(shm->base.address, sizeof(shm->base.address), "@dfi-%d-%016lx",
	    (int)getpid(), (unsigned long)name);
	ret = open_listener(shm);
	if (ret < 0)
		return ret;
	ret = keep_reserve(shm);
	if (ret < 0) {
		ret = dfi__fail_files(
		    -ret, 2, "eventfd", "shared memory: passing regions");
		goto err_listener;
	}
	shm->acceptor = dfi__accept_start(
	    dfi__loop_base(shm->loop), shm->listener, &hooks, shm);
	if (shm->acceptor)
		return 0;
	ret = dfi__fail(-ENOMEM, "shared memory: out of memory");
	give_up_reserve(shm);
err_listener:
	dfi__fork_close(shm->listener);
	return ret;
}

int dfi__shm_pass_start(struct shm *shm)
{
	return dfi__loop_call(shm->loop, listen_on_loop, shm);
}

static int stop_on_loop(void *arg)
{
	struct shm *shm = arg;

	dfi__accept_stop(shm->acceptor);
	dfi__fork_close(shm->listener);
	while (!TAILQ_EMPTY(&shm->passes))
		free_pass(TAILQ_FIRST(&shm->passes));
	give_up_reserve(shm);
	return 0;
}

void dfi__shm_pass_stop(struct shm *shm)
{
	dfi__loop_call(shm->loop, stop_on_loop, shm);
}

static int no_answer(const char *address)
{
	return dfi__fail(-ETIMEDOUT,
	    "shared memory: the process at %s doesn't answer", address);
}

/* Whether there is still hope for an answer: 0, or an error. */
static int check_hope(const char *address, const struct wait_limit *wait_limit)
{
	if (wait_limit_given_up(wait_limit))
		return dfi__fail(-ECONNRESET,
		    "shared memory: the process at %s is gone, as the registry "
		    "says",
		    address);
	return clock_now_ns() < wait_limit->deadline ? 0 : no_answer(address);
}

static int await(
    int socket, const char *address, const struct wait_limit *wait_limit)
{
	struct pollfd pollfd = { .fd = socket, .events = POLLIN };
	int n, ret;

	do {
		n = poll(&pollfd, 1, wait_limit_look_ms(wait_limit));
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return dfi__fail(-EIO, "poll: %s", strerror(errno));
		ret = check_hope(address, wait_limit);
	} while (!ret);
	return ret;
}

int dfi__shm_pass_ask(int socket, const char *address,
    const struct shm_request *request, const struct wait_limit *wait_limit)
{
	/* What became of the connection is read, then. */
	if (send(socket, request, sizeof(*request), MSG_NOSIGNAL) < 0 &&
	    errno != EPIPE && errno != ECONNRESET)
		return dfi__fail(-ECONNRESET,
		    "shared memory: the process at %s is gone (%s)", address,
		    strerror(errno));
	return await(socket, address, wait_limit);
}

/* There is no event to wait for. Longer and longer, as there may be many. */
static void pace(int *length_ms)
{
	poll(NULL, 0, *length_ms);
	*length_ms = *length_ms < NAP_MAX_MS ? 2 * *length_ms : NAP_MAX_MS;
}

int dfi__shm_pass_retry(int (*attempt)(void *arg), void *arg,
    const struct wait_limit *wait_limit, const char *address)
{
	int ret, length_ms = 1;

	for (;;) {
		ret = attempt(arg);
		if (ret != -EAGAIN)
			return ret;
		ret = check_hope(address, wait_limit);
		if (ret < 0)
			return ret;
		pace(&length_ms);
	}
}

static int no_connection(int err, const char *address)
{
	if (err == EACCES || err == EPERM)
		return dfi__fail(-EACCES,
		    "shared memory: no permission to connect to the process "
		    "at %s: a sandbox or a security module forbids it",
		    address);
	return dfi__fail(-ECONNRESET,
	    "shared memory: the process at %s is gone (%s)", address,
	    strerror(err));
}

int dfi__shm_pass_connect(
    const char *address, const struct wait_limit *wait_limit, int *out)
{
	char who[TRANSPORT_ADDRESS_SIZE + 40];
	struct sockaddr_un name;
	struct ucred owner;
	socklen_t size;
	int fd, ret, length_ms = 1;

	fd = file_up(
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return dfi__fail_files(errno, 2, "socket",
		    "shared memory: getting a region of the process at %s",
		    address);
	fill_address(address, &name, &size);
	while (connect(fd, (struct sockaddr *)&name, size) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN) {
			ret = no_connection(errno, address);
			goto close_fd;
		}
		/* Its backlog is full. */
		ret = check_hope(address, wait_limit);
		if (ret < 0)
			goto close_fd;
		pace(&length_ms);
	}
	snprintf(who, sizeof(who), "shared memory: the process at %s", address);
	ret = check_peer(fd, who, &owner);
	if (!ret) {
		*out = fd;
		return 0;
	}
close_fd:
	close(fd);
	return ret;
}

static int no_valid_answer(const struct region_name *name)
{
	return dfi__fail(-ECONNRESET,
	    "shared memory: the process at %s gave no valid answer",
	    name->address);
}

/*
 * One reply, with the descriptor in *fd as receive() leaves it. A bare -EAGAIN
 * if there is none: the process is gone, or had too many peers.
 */
static int receive_reply(int socket, const struct region_name *name,
    struct shm_reply *reply, int *fd)
{
	ssize_t got = receive(socket, reply, sizeof(*reply), MSG_TRUNC, fd);

	if (got <= 0)
		return -EAGAIN;
	if (got != sizeof(*reply) || reply->magic != PASS_MAGIC)
		return no_valid_answer(name);
	return 0;
}

static int reply_error(
    const struct shm_reply *reply, const struct region_name *name)
{
	switch (reply->error) {
	case -EPROTO:
		return dfi__fail(-EPROTO,
		    "shared memory: the process at %s uses another version "
		    "of the library",
		    name->address);
	case -EACCES:
		return dfi__fail(-EACCES,
		    "shared memory: the process at %s refused this one, as "
		    "another user's: run both as one user",
		    name->address);
	case -ENOMEM:
		return dfi__fail(-ENOMEM,
		    "shared memory: the process at %s has no address space, "
		    "mapping or memory left for the region that was shown to "
		    "it: raise its limit (ulimit -v, sysctl "
		    "vm.max_map_count), free memory, or make rings smaller "
		    "(segment_count, DFI_RING_MEMORY)",
		    name->address);
	case -EMFILE:
		return dfi__fail(-EMFILE,
		    "shared memory: the process at %s has no file descriptor "
		    "left for the region that was shown to it: raise its limit "
		    "(ulimit -n)",
		    name->address);
	case -EBADMSG:
		return dfi__shm_fail_shown(name);
	default:
		return dfi__fail(-ECONNRESET,
		    "shared memory: the process at %s has closed the region",
		    name->address);
	}
}

/* A region to get, and its descriptor. */
struct fetching {
	const struct region_name *name;
	const struct wait_limit *wait_limit;
	int fd;
};

static int fetch(void *arg)
{
	struct fetching *fetching = arg;
	const struct region_name *name = fetching->name;
	struct shm_request request = {
		.magic = PASS_MAGIC,
		.version = PASS_VERSION,
		.key = name->key,
	};
	struct shm_reply reply;
	int socket = -1, fd = -1, ret;

	ret = dfi__shm_pass_connect(
	    name->address, fetching->wait_limit, &socket);
	if (ret < 0)
		return ret;
	ret = dfi__shm_pass_ask(
	    socket, name->address, &request, fetching->wait_limit);
	if (!ret)
		ret = receive_reply(socket, name, &reply, &fd);
	if (!ret && reply.error)
		ret = reply_error(&reply, name);
	if (!ret && fd == -1)
		ret = no_valid_answer(name);
	else if (!ret && fd < 0)
		ret = dfi__fail_files(EMFILE, 2, "recvmsg",
		    "shared memory: getting a region of the process at %s",
		    name->address);
	if (ret < 0 && fd >= 0)
		close(fd);
	if (!ret)
		fetching->fd = fd;
	close(socket);
	return ret;
}

int dfi__shm_pass_fetch(const struct region_name *name,
    const struct wait_limit *wait_limit, int *out)
{
	struct fetching fetching = { .name = name, .wait_limit = wait_limit };
	int ret = dfi__shm_pass_retry(
	    fetch, &fetching, wait_limit, name->address);

	if (!ret)
		*out = fetching.fd;
	return ret;
}

/* A region to show, and to whom. */
struct showing {
	const struct region_name *to;
	const struct shm_show_request *request;
	const struct wait_limit *wait_limit;
	int fd;
};

static int show(void *arg)
{
	const struct showing *showing = arg;
	const struct region_name *to = showing->to;
	struct shm_reply reply;
	int socket = -1, none = -1, ret;

	ret = dfi__shm_pass_connect(to->address, showing->wait_limit, &socket);
	if (ret < 0)
		return ret;
	/* What became of the connection is read, then. */
	ret = send_message(socket, showing->request, sizeof(*showing->request),
	    showing->fd, 0);
	if (ret < 0 && ret != -EPIPE && ret != -ECONNRESET)
		ret = dfi__fail(-ECONNRESET,
		    "shared memory: the process at %s is gone (%s)",
		    to->address, strerror(-ret));
	else
		ret = await(socket, to->address, showing->wait_limit);
	if (!ret)
		ret = receive_reply(socket, to, &reply, &none);
	if (!ret && reply.error)
		ret = reply_error(&reply, to);
	if (none >= 0)
		close(none);
	close(socket);
	return ret;
}

int dfi__shm_pass_show(const struct region_name *to,
    struct shm_show_request *request, int fd,
    const struct wait_limit *wait_limit)
{
	struct showing showing = {
		.to = to,
		.request = request,
		.wait_limit = wait_limit,
		.fd = fd,
	};

	request->base.magic = SHOW_MAGIC;
	request->base.version = PASS_VERSION;
	return dfi__shm_pass_retry(show, &showing, wait_limit, to->address);
}
