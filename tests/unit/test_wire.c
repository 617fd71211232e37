/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framing of the registry's messages: a written message is read back, and other
 * input is refused without harm.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <event2/buffer.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "registry/wire/wire.h"

static struct evbuffer *stream;

static void setup(void)
{
	stream = evbuffer_new();
}

static void teardown(void)
{
	evbuffer_free(stream);
}

TestSuite(wire, .init = setup, .fini = teardown);

static void write_put(const char *key, const void *data, size_t size)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Put put = DFI__REGISTRY__PUT__INIT;

	put.key = (char *)key;
	put.value.data = (uint8_t *)data;
	put.value.len = size;
	put.create = true;
	request.id = 42;
	request.op_case = DFI__REGISTRY__REQUEST__OP_PUT;
	request.put = &put;
	cr_assert_eq(dfi__wire_write_request(stream, &request), 0);
}

static void write_reply(void)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;
	Dfi__Registry__Value one = DFI__REGISTRY__VALUE__INIT;
	Dfi__Registry__Value two = DFI__REGISTRY__VALUE__INIT;
	Dfi__Registry__Value *values[] = { &one, &two };

	one.key = "flows/a";
	one.data.data = (uint8_t *)"1234";
	one.data.len = 4;
	one.revision = UINT64_MAX;
	two.key = "flows/b";
	reply.id = UINT64_MAX;
	reply.error = -EEXIST;
	reply.text = "it exists";
	reply.version = WIRE_VERSION;
	reply.n_values = 2;
	reply.values = values;
	reply.more = true;
	cr_assert_eq(dfi__wire_write_reply(stream, &reply), 0);
}

static void write_event(void)
{
	Dfi__Registry__Event event = DFI__REGISTRY__EVENT__INIT;
	Dfi__Registry__Value value = DFI__REGISTRY__VALUE__INIT;

	value.key = "k";
	value.revision = 9;
	event.watch = 5;
	event.type = DFI__REGISTRY__EVENT_TYPE__DELETE;
	event.value = &value;
	cr_assert_eq(dfi__wire_write_event(stream, &event), 0);
}

Test(wire, a_request_is_read_as_it_was_written)
{
	static const uint8_t data[] = { 0, 1, 2, 0, 255 };
	Dfi__Registry__Message *message;

	write_put("flows/x", data, sizeof(data));
	cr_assert_eq(dfi__wire_read(stream, &message), 1);
	cr_assert_eq(message->body_case, DFI__REGISTRY__MESSAGE__BODY_REQUEST);
	cr_assert_eq(message->request->id, 42);
	cr_assert_eq(message->request->op_case, DFI__REGISTRY__REQUEST__OP_PUT);
	cr_assert_str_eq(message->request->put->key, "flows/x");
	cr_assert_eq(message->request->put->value.len, sizeof(data));
	cr_assert_eq(
	    memcmp(message->request->put->value.data, data, sizeof(data)), 0);
	cr_assert(message->request->put->create);
	cr_assert_not(message->request->put->leased);
	dfi__wire_free(message);
	cr_assert_eq(dfi__wire_read(stream, &message), 0);
}

Test(wire, replies_and_events_are_read_in_order)
{
	Dfi__Registry__Message *message;

	write_reply();
	write_event();
	cr_assert_eq(dfi__wire_read(stream, &message), 1);
	cr_assert_eq(message->body_case, DFI__REGISTRY__MESSAGE__BODY_REPLY);
	cr_assert_eq(message->reply->id, UINT64_MAX);
	cr_assert_eq(message->reply->error, -EEXIST);
	cr_assert_str_eq(message->reply->text, "it exists");
	cr_assert_eq(message->reply->n_values, 2);
	cr_assert_str_eq(message->reply->values[0]->key, "flows/a");
	cr_assert_eq(message->reply->values[0]->revision, UINT64_MAX);
	cr_assert_eq(message->reply->values[1]->data.len, 0);
	cr_assert(message->reply->more);
	dfi__wire_free(message);
	cr_assert_eq(dfi__wire_read(stream, &message), 1);
	cr_assert_eq(message->body_case, DFI__REGISTRY__MESSAGE__BODY_EVENT);
	cr_assert_eq(message->event->watch, 5);
	cr_assert_eq(message->event->type, DFI__REGISTRY__EVENT_TYPE__DELETE);
	dfi__wire_free(message);
}

Test(wire, a_message_cut_anywhere_is_incomplete)
{
	Dfi__Registry__Message *message;
	struct evbuffer *part = evbuffer_new();
	size_t size, n;
	uint8_t *bytes;

	write_reply();
	size = evbuffer_get_length(stream);
	bytes = evbuffer_pullup(stream, -1);
	for (n = 0; n < size; n++) {
		cr_assert_eq(dfi__wire_read(part, &message), 0);
		evbuffer_add(part, bytes + n, 1);
	}
	cr_assert_eq(dfi__wire_read(part, &message), 1);
	dfi__wire_free(message);
	evbuffer_free(part);
}

static void write_header(uint32_t size)
{
	uint32_t header = htonl(size);

	evbuffer_add(stream, &header, sizeof(header));
}

Test(wire, a_size_outside_the_limits_is_refused_before_the_bytes_come)
{
	static const uint32_t sizes[] = { 0, WIRE_MESSAGE_MAX + 1, INT32_MAX,
		UINT32_MAX };
	Dfi__Registry__Message *message;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		write_header(sizes[i]);
		cr_assert_eq(dfi__wire_read(stream, &message), -EMSGSIZE);
		evbuffer_drain(stream, WIRE_HEADER_SIZE);
	}
	write_header(WIRE_MESSAGE_MAX);
	cr_assert_eq(dfi__wire_read(stream, &message), 0);
}

Test(wire, tls_is_distinguished_from_garbage)
{
	static const char *const tls[] = { "\x16\x03\x01\x02",
		"\x15\x03\x03\x00" };
	Dfi__Registry__Message *message;
	size_t i;

	for (i = 0; i < 2; i++) {
		cr_assert_not(dfi__wire_begins((unsigned char)tls[i][0]));
		evbuffer_drain(stream, evbuffer_get_length(stream));
		evbuffer_add(stream, tls[i], 4);
		cr_assert_eq(dfi__wire_read(stream, &message), -EPROTO);
		cr_assert_not_null(strstr(dfi_errmsg(), "TLS"));
	}
	cr_assert(dfi__wire_begins(0));
}

Test(wire, a_message_over_the_limit_is_not_written)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Put put = DFI__REGISTRY__PUT__INIT;

	put.value.data = calloc(1, WIRE_MESSAGE_MAX);
	put.value.len = WIRE_MESSAGE_MAX;
	request.op_case = DFI__REGISTRY__REQUEST__OP_PUT;
	request.put = &put;
	cr_assert_eq(dfi__wire_write_request(stream, &request), -EMSGSIZE);
	cr_assert_eq(evbuffer_get_length(stream), 0);
	put.value.len -= 64;
	cr_assert_eq(dfi__wire_write_request(stream, &request), 0);
	free(put.value.data);
}

Test(wire, garbage_is_ebadmsg)
{
	static const char *const garbage[] = { "GET / HTTP/1.1\r\n\r\n",
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x0a\x7f",
		"\x0a", "\x0b", "\x08\x01" };
	Dfi__Registry__Message *message;
	size_t i;

	for (i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		write_header((uint32_t)strlen(garbage[i]));
		evbuffer_add(stream, garbage[i], strlen(garbage[i]));
		cr_assert_eq(dfi__wire_read(stream, &message), -EBADMSG);
		cr_assert_eq(evbuffer_get_length(stream), 0);
	}
}

Test(wire, versions_that_differ_are_eproto_and_both_are_named)
{
	cr_assert_eq(dfi__wire_check_versions(3, 3), 0);
	cr_assert_eq(dfi__wire_check_versions(17, 23), -EPROTO);
	cr_assert_not_null(strstr(dfi_errmsg(), "version 17"));
	cr_assert_not_null(strstr(dfi_errmsg(), "version 23"));
	cr_assert_not_null(strstr(dfi_errmsg(), "where the registry runs"));
	cr_assert_eq(dfi__wire_check_versions(23, 17), -EPROTO);
	cr_assert_not_null(strstr(dfi_errmsg(), "where the client runs"));
}

static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Read every string and byte of a message, so that a bad one is noticed. */
static size_t touch(const ProtobufCMessage *message)
{
	uint8_t *packed = malloc(protobuf_c_message_get_packed_size(message));
	size_t size = protobuf_c_message_pack(message, packed);

	free(packed);
	return size;
}

/* Change some bytes, or cut or stretch the message; the header says so. */
static size_t mutate(uint8_t *bytes, size_t size, size_t room)
{
	unsigned n = 1 + (unsigned)(draw() % 4);

	while (n--) {
		size_t at = (size_t)(draw() % size);

		switch (draw() % 4) {
		case 0:
			bytes[at] = (uint8_t)draw();
			break;
		case 1:
			bytes[at] ^= (uint8_t)(1u << (draw() % 8));
			break;
		case 2:
			size = at + 1;
			break;
		default:
			if (size == room)
				break;
			memmove(bytes + at + 1, bytes + at, size - at);
			size++;
		}
	}
	return size;
}

Test(wire, mutated_messages_are_read_or_refused)
{
	struct evbuffer *input = evbuffer_new();
	Dfi__Registry__Message *message;
	size_t sizes[3], total = 0, n_read = 0, i;
	uint8_t originals[3][256], bytes[300];

	for (i = 0; i < 3; i++) {
		if (i == 0)
			write_put("flows/orders", "descriptor", 10);
		else if (i == 1)
			write_reply();
		else
			write_event();
		evbuffer_drain(stream, WIRE_HEADER_SIZE);
		sizes[i] = (size_t)evbuffer_remove(
		    stream, originals[i], sizeof(originals[i]));
	}
	for (i = 0; i < 150000; i++) {
		size_t size = sizes[i % 3];
		uint32_t header;
		int ret;

		memcpy(bytes, originals[i % 3], size);
		size = mutate(bytes, size, sizeof(bytes));
		header = htonl((uint32_t)size);
		evbuffer_add(input, &header, sizeof(header));
		evbuffer_add(input, bytes, size);
		ret = dfi__wire_read(input, &message);
		cr_assert(ret == 1 || ret == -EBADMSG);
		cr_assert_eq(evbuffer_get_length(input), 0);
		if (ret < 0)
			continue;
		total += touch(&message->base);
		dfi__wire_free(message);
		n_read++;
	}
	/* Otherwise the mutations were too wild to test anything. */
	cr_assert_gt(n_read, 10000);
	cr_assert_gt(total, n_read);
	evbuffer_free(input);
}
