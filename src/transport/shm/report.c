/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports: what a process tells about itself over its socket when asked. Each
 * connection has one request and one answer, each one packet, so that neither
 * end can keep the other's control thread busy or waiting.
 */
#include "shm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/error.h"
#include "base/log.h"
#include "message.h"

static void send_report(int socket, int error, const void *data, size_t size)
{
	struct shm_reply reply = { .magic = SHM_REPORT_MAGIC, .error = error };
	struct iovec parts[] = {
		{ .iov_base = &reply, .iov_len = sizeof(reply) },
		{ .iov_base = (void *)data, .iov_len = size },
	};
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		dfi__log(DFI_LOG_DEBUG, "shared memory: sending a report: %s",
		    strerror(errno));
}

void dfi__shm_report_serve(
    struct shm *shm, int socket, const struct shm_request *request)
{
	void *(*report)(void *arg, uint64_t after, size_t *size);
	void *arg, *data;
	size_t size = 0;

	pthread_mutex_lock(&shm->lock);
	report = shm->report;
	arg = shm->report_arg;
	pthread_mutex_unlock(&shm->lock);
	data = report ? report(arg, request->key, &size) : NULL;
	if (!data)
		send_report(socket, -ENOMEM, NULL, 0);
	else if (size > TRANSPORT_REPORT_MAX)
		send_report(socket, -EMSGSIZE, NULL, 0);
	else
		send_report(socket, 0, data, size);
	free(data);
}

void dfi__shm_report(struct transport *transport,
    void *(*report)(void *arg, uint64_t after, size_t *size), void *arg)
{
	struct shm *shm = (struct shm *)transport;

	pthread_mutex_lock(&shm->lock);
	shm->report = report;
	shm->report_arg = arg;
	pthread_mutex_unlock(&shm->lock);
}

static int reply_error(int error, const char *address)
{
	switch (error) {
	case -EACCES:
		return dfi__fail(-EACCES,
		    "the process at %s refused this one, as another user's",
		    address);
	case -ENOMEM:
		return dfi__fail(-EIO,
		    "the process at %s has no memory for an answer", address);
	default:
		return dfi__fail(-EBADMSG,
		    "the process at %s gave no valid answer", address);
	}
}

/* Receive the single packet of an answer; a bare -EAGAIN if there is none. */
static int receive_report(
    int socket, const char *address, void **data, size_t *size)
{
	struct shm_reply reply = { .magic = 0 };
	char *room = malloc(TRANSPORT_REPORT_MAX);
	uint32_t version;
	struct iovec parts[] = {
		{ .iov_base = &reply, .iov_len = sizeof(reply) },
		{ .iov_base = room, .iov_len = TRANSPORT_REPORT_MAX },
	};
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	ssize_t got;
	int ret = 0;

	if (!room)
		return dfi__fail(-ENOMEM, "a report: out of memory");
	got = recvmsg(socket, &message, MSG_DONTWAIT);
	/* As for regions, a refusal comes before the request is read. */
	if (got <= 0) {
		ret = -EAGAIN;
	} else if (got < (ssize_t)sizeof(reply) ||
	    message.msg_flags & MSG_TRUNC ||
	    (reply.magic != SHM_REPORT_MAGIC && reply.error != -EACCES)) {
		ret = reply_error(-EBADMSG, address);
	} else if (reply.error == -EPROTO &&
	    got == sizeof(struct shm_other_version)) {
		memcpy(&version, room, sizeof(version));
		ret = dfi__shm_fail_version(
		    address, version, SHM_REPORT_VERSION);
	} else if (reply.error) {
		ret = reply_error(reply.error, address);
	}
	if (ret < 0) {
		free(room);
		return ret;
	}
	*data = room;
	*size = (size_t)got - sizeof(reply);
	return 0;
}

/* A report to fetch. */
struct fetching {
	const char *address;
	uint64_t after;
	int64_t deadline;
	void *data;
	size_t size;
};

static int fetch(void *arg)
{
	struct fetching *fetching = arg;
	struct shm_request request = {
		.magic = SHM_REPORT_MAGIC,
		.version = SHM_REPORT_VERSION,
		.key = fetching->after,
	};
	const struct wait_limit *wait_limit = WAIT_LIMIT(fetching->deadline);
	int socket, ret;

	ret = dfi__shm_pass_ask(fetching->address, &request, sizeof(request),
	    -1, wait_limit, &socket);
	if (ret < 0)
		return ret;
	ret = receive_report(
	    socket, fetching->address, &fetching->data, &fetching->size);
	close(socket);
	return ret;
}

int dfi__shm_report_fetch(const char *address, uint64_t after, int64_t deadline,
    void **data, size_t *size)
{
	struct fetching fetching = {
		.address = address,
		.after = after,
		.deadline = deadline,
	};
	int ret = dfi__shm_pass_retry(
	    fetch, &fetching, WAIT_LIMIT(deadline), address);

	if (ret < 0)
		return ret;
	*data = fetching.data;
	*size = fetching.size;
	return 0;
}
