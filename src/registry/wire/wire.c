/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framing around protobuf-c. Works on libevent's buffers only: no sockets, no
 * state, and no trust in the input.
 */
#include "wire.h"

#include <arpa/inet.h>
#include <endian.h>
#include <event2/buffer.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"

/* How TLS records begin: no length of ours is that large. */
#define TLS_HANDSHAKE 0x16030100u
#define TLS_ALERT 0x15030300u

static int write_message(
    struct evbuffer *out, const Dfi__Registry__Message *message)
{
	size_t size = dfi__registry__message__get_packed_size(message);
	struct evbuffer_iovec space;
	uint32_t header;

	if (size > WIRE_MESSAGE_MAX)
		return dfi__fail(-EMSGSIZE,
		    "a registry message of %zu bytes is longer than %d", size,
		    WIRE_MESSAGE_MAX);
	/* With one vector, the space is contiguous. */
	if (evbuffer_reserve_space(
		out, (ev_ssize_t)(WIRE_HEADER_SIZE + size), &space, 1) != 1)
		return dfi__fail(-ENOMEM, "no memory for a registry message");
	header = htonl((uint32_t)size);
	memcpy(space.iov_base, &header, sizeof(header));
	dfi__registry__message__pack(
	    message, (uint8_t *)space.iov_base + WIRE_HEADER_SIZE);
	space.iov_len = WIRE_HEADER_SIZE + size;
	if (evbuffer_commit_space(out, &space, 1))
		return dfi__fail(-ENOMEM, "no memory for a registry message");
	return 0;
}

int dfi__wire_write_request(
    struct evbuffer *out, Dfi__Registry__Request *request)
{
	Dfi__Registry__Message message = DFI__REGISTRY__MESSAGE__INIT;

	message.body_case = DFI__REGISTRY__MESSAGE__BODY_REQUEST;
	message.request = request;
	return write_message(out, &message);
}

int dfi__wire_write_reply(struct evbuffer *out, Dfi__Registry__Reply *reply)
{
	Dfi__Registry__Message message = DFI__REGISTRY__MESSAGE__INIT;

	message.body_case = DFI__REGISTRY__MESSAGE__BODY_REPLY;
	message.reply = reply;
	return write_message(out, &message);
}

int dfi__wire_write_event(struct evbuffer *out, Dfi__Registry__Event *event)
{
	Dfi__Registry__Message message = DFI__REGISTRY__MESSAGE__INIT;

	message.body_case = DFI__REGISTRY__MESSAGE__BODY_EVENT;
	message.event = event;
	return write_message(out, &message);
}

int dfi__wire_read(struct evbuffer *in, Dfi__Registry__Message **message)
{
	Dfi__Registry__Message *decoded;
	uint32_t header, size;
	uint8_t *frame;

	if (evbuffer_get_length(in) < WIRE_HEADER_SIZE)
		return 0;
	evbuffer_copyout(in, &header, sizeof(header));
	size = ntohl(header);
	if (size >> 8 == TLS_HANDSHAKE >> 8 || size >> 8 == TLS_ALERT >> 8)
		return dfi__fail(-EPROTO,
		    "it speaks TLS, and this side has neither key nor "
		    "certificate");
	if (size == 0 || size > WIRE_MESSAGE_MAX)
		return dfi__fail(-EMSGSIZE,
		    "a registry message claims %u bytes, 1 to %d are allowed",
		    size, WIRE_MESSAGE_MAX);
	if (evbuffer_get_length(in) < WIRE_HEADER_SIZE + (size_t)size)
		return 0;
	frame = evbuffer_pullup(in, (ev_ssize_t)(WIRE_HEADER_SIZE + size));
	if (!frame)
		return dfi__fail(-ENOMEM, "no memory for a registry message");
	decoded = dfi__registry__message__unpack(
	    NULL, size, frame + WIRE_HEADER_SIZE);
	evbuffer_drain(in, WIRE_HEADER_SIZE + (size_t)size);
	if (!decoded)
		return dfi__fail(-EBADMSG,
		    "a registry message of %u bytes can't be decoded", size);
	if (decoded->body_case == DFI__REGISTRY__MESSAGE__BODY__NOT_SET) {
		dfi__wire_free(decoded);
		return dfi__fail(-EBADMSG,
		    "a registry message of %u bytes has no body", size);
	}
	*message = decoded;
	return 1;
}

bool dfi__wire_begins(unsigned char byte)
{
	_Static_assert(WIRE_MESSAGE_MAX < 1 << 24, "lengths begin with 0");
	return byte == 0;
}

void dfi__wire_free(Dfi__Registry__Message *message)
{
	if (message)
		dfi__registry__message__free_unpacked(message, NULL);
}

uint64_t dfi__wire_digest(uint64_t client, const void *value, size_t size)
{
	return htole64(XXH3_64bits_withSeed(size ? value : "", size, client));
}

int dfi__wire_check_versions(uint32_t registry, uint32_t client)
{
	if (registry == client)
		return 0;
	return dfi__fail(-EPROTO,
	    "the registry speaks protocol version %u, the client version %u: "
	    "upgrade DFI where the %s runs",
	    registry, client, registry < client ? "registry" : "client");
}
