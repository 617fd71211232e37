/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libevent freezes the front of an output, so that only the bufferevent removes
 * from it; it touches the front itself only in the handling of EV_WRITE.
 */
#include "stream.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <errno.h>
#include <sys/socket.h>

#include "wire.h"

static ssize_t send_some(int fd, const struct evbuffer_iovec *piece)
{
	ssize_t n;

	/* The thread may be the application's, which may want SIGPIPE. */
	do
		n = send(fd, piece->iov_base, piece->iov_len,
		    MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

bool dfi__stream_flush(struct bufferevent *stream)
{
	struct evbuffer *output = bufferevent_get_output(stream);
	int fd = bufferevent_getfd(stream);
	struct evbuffer_iovec piece;
	ssize_t n;

	while (evbuffer_get_length(output)) {
		evbuffer_peek(output, -1, NULL, &piece, 1);
		n = send_some(fd, &piece);
		if (n <= 0)
			return false;
		evbuffer_unfreeze(output, 1);
		evbuffer_drain(output, (size_t)n);
		evbuffer_freeze(output, 1);
	}
	return true;
}

void dfi__stream_refuse(int fd, int err, const char *why)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;
	struct evbuffer *out = evbuffer_new();
	unsigned char *bytes;

	reply.error = err;
	reply.text = (char *)why;
	reply.version = WIRE_VERSION;
	if (out && !dfi__wire_write_reply(out, &reply) &&
	    (bytes = evbuffer_pullup(out, -1)))
		send(fd, bytes, evbuffer_get_length(out),
		    MSG_DONTWAIT | MSG_NOSIGNAL);
	if (out)
		evbuffer_free(out);
}
