/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of passing a region's file descriptor to a peer, over an
 * abstract Unix socket that vanishes with its process. It runs on the control
 * thread and never waits. The peer's side is ask.c.
 *
 * A peer sends its request as soon as it has connected. The owner refuses the
 * process of another user without reading, so that such a process occupies no
 * descriptor of ours. The number of peers that have connected without a request
 * is bounded.
 *
 * Passing a region needs a descriptor for the connection only. One is reserved
 * for that, and closed when the process has no other, so that peers of such a
 * process are served one by one.
 */
#include "shm.h"

#include <errno.h>
#include <event2/event.h>
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
#include "base/version.h"
#include "message.h"

#define BACKLOG 1024
#define PASSES_MAX 128

int dfi__shm_pass_timeout_s = 5;

/* A peer that has connected and has no answer yet. */
struct shm_pass {
	TAILQ_ENTRY(shm_pass) link;
	struct shm *shm;
	struct event *event;
	int socket;
	int pid;
	bool root; /* it is not our user */
};

static int send_reply(int socket, int error, int fd)
{
	struct shm_reply reply = { .magic = SHM_PASS_MAGIC, .error = error };

	return dfi__shm_message_send(
	    socket, &reply, sizeof(reply), fd, MSG_DONTWAIT);
}

/*
 * If the reserve was used, open it again before other code takes the free
 * descriptor. It only has to be open; a forked child may keep it without harm.
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

	/* The lock keeps the descriptor from being closed meanwhile. */
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

static void serve_grant(
    struct shm_pass *pass, const struct shm_grant_request *request, int fd)
{
	int ret = dfi__shm_grant_serve(pass->shm, request, fd);

	if (ret < 0)
		dfi__log(DFI_LOG_DEBUG,
		    "shared memory: taking a region that a peer grants: %s",
		    strerror(-ret));
	send_reply(pass->socket, ret, -1);
}

/* Of a kind of request; 0: there is no such kind. */
static uint32_t version_of(uint32_t magic)
{
	switch (magic) {
	case SHM_PASS_MAGIC:
	case SHM_GRANT_MAGIC:
		return SHM_PASS_VERSION;
	case SHM_REPORT_MAGIC:
		return SHM_REPORT_VERSION;
	default:
		return 0;
	}
}

static void refuse_version(const struct shm_pass *pass,
    const struct shm_request *request, uint32_t ours)
{
	bool reports = request->magic == SHM_REPORT_MAGIC;
	struct shm_other_version answer = {
		.base.magic = reports ? SHM_REPORT_MAGIC : SHM_PASS_MAGIC,
		.base.error = -EPROTO,
		.version = ours,
	};

	dfi__log_seldom(&pass->shm->other_versions, DFI_LOG_WARN,
	    "shared memory: refused process %d: it speaks version %u, this "
	    "one %u: %s",
	    pass->pid, request->version, ours,
	    version_remedy(request->version, ours));
	dfi__shm_message_send(
	    pass->socket, &answer, sizeof(answer), -1, MSG_DONTWAIT);
}

/* The version comes first: other versions may have other sizes. */
static void serve_request(struct shm_pass *pass,
    const struct shm_grant_request *request, ssize_t got, int fd)
{
	const struct shm_request *base = &request->base;
	bool whole = got >= (ssize_t)sizeof(*base);
	uint32_t version = whole ? version_of(base->magic) : 0;
	size_t size = base->magic == SHM_GRANT_MAGIC ? sizeof(*request)
						     : sizeof(*base);

	if (version && base->version != version)
		refuse_version(pass, base, version);
	else if (!version || got != (ssize_t)size)
		dfi__log_seldom(&pass->shm->nonsense, DFI_LOG_WARN,
		    "shared memory: a peer sent no valid request");
	else if (base->magic == SHM_REPORT_MAGIC)
		dfi__shm_report_serve(pass->shm, pass->socket, base);
	else if (base->magic == SHM_GRANT_MAGIC)
		serve_grant(pass, request, fd);
	else
		serve_region(pass, base->key);
}

static void serve(struct shm_pass *pass)
{
	struct shm_grant_request request;
	ssize_t got;
	int fd;

	got = dfi__shm_message_receive(pass->socket, &request, sizeof(request),
	    MSG_DONTWAIT | MSG_TRUNC, &fd);
	/* Without memory for that, a child of this moment keeps it. */
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

/* Refuse a connection with an answer, if there is room for one. */
static void refuse(struct shm *shm, int socket, int error)
{
	struct shm_request request;

	dfi__log_seldom(&shm->strangers, DFI_LOG_WARN,
	    "shared memory: refused: %s", dfi_errmsg());
	/*
	 * Nothing more comes in and nothing is left unread: otherwise closing
	 * would discard the answer.
	 */
	shutdown(socket, SHUT_RD);
	while (recv(socket, &request, sizeof(request), MSG_DONTWAIT) > 0)
		;
	send_reply(socket, error, -1);
	close(socket);
	keep_reserve(shm);
}

/*
 * Of too many peers, close the one that has waited longest. If it was only
 * slow, it connects again.
 */
static void make_room(struct shm *shm)
{
	struct shm_pass *first = TAILQ_FIRST(&shm->passes);

	if (shm->n_passes < PASSES_MAX)
		return;
	/* Its request may have arrived without having been read. */
	serve(first);
	free_pass(first);
}

static void take_peer(struct shm *shm, int socket)
{
	struct timeval timeout = { .tv_sec = dfi__shm_pass_timeout_s };
	struct shm_pass *pass;
	struct ucred peer;
	int ret;

	ret = dfi__shm_message_check(socket, "a peer", &peer);
	if (ret < 0) {
		refuse(shm, socket, ret);
		return;
	}
	/* A child of the application would hide our death from it. */
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
	pass->pid = peer.pid;
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

/* For instance, no descriptors are left: peers wait for a moment. */
static void accept_failed(struct shm *shm, int err)
{
	if ((err == EMFILE || err == ENFILE) && give_up_reserve(shm))
		return;
	dfi__fail_files(err, 1, "accept", "shared memory: accepting a peer");
	dfi__log_seldom(&shm->failures, DFI_LOG_ERROR, "%s", dfi_errmsg());
	dfi__accept_pause(shm->acceptor);
	shm->paused = true;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct shm *shm = arg;
	int i, new = 0;

	(void)fd;
	(void)what;
	if (shm->paused)
		keep_reserve(shm);
	shm->paused = false;
	for (i = 0; i < ACCEPTS_PER_TURN && new >= 0; i++) {
		new = dfi__accept_next(shm->acceptor);
		if (new >= 0)
			take_peer(shm, new);
	}
	if (new < 0 && new != -EAGAIN)
		accept_failed(shm, -new);
}

/*
 * A forked child closes the listener; otherwise peers could connect after this
 * process's death, and would wait for answers.
 */
static int open_listener(struct shm *shm)
{
	struct sockaddr_un address;
	socklen_t size = dfi__shm_message_address(shm->base.address, &address);
	int ret;

	shm->listener = dfi__shm_message_socket();
	if (shm->listener < 0)
		return dfi__fail_files(
		    errno, 2, "socket", "shared memory: passing regions");
	ret = dfi__fork_add(shm->listener);
	if (ret < 0) {
		close(shm->listener);
		return ret;
	}
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
	    dfi__loop_base(shm->loop), shm->listener, on_readable, shm);
	if (shm->acceptor)
		return 0;
	ret = dfi__fail(-ENOMEM, "shared memory: out of memory");
	give_up_reserve(shm);
err_listener:
	dfi__fork_close(shm->listener);
	return ret;
}

int dfi__shm_pass_start(struct shm *shm, int64_t deadline)
{
	return dfi__loop_call(shm->loop, listen_on_loop, shm, deadline);
}

void dfi__shm_pass_stop(struct shm *shm)
{
	if (!shm->acceptor)
		return;
	dfi__accept_stop(shm->acceptor);
	dfi__fork_close(shm->listener);
	while (!TAILQ_EMPTY(&shm->passes))
		free_pass(TAILQ_FIRST(&shm->passes));
	give_up_reserve(shm);
}
