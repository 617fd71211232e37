/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on a stream: each follows its length, 4 bytes, big-endian. Sizes are
 * checked before they are used; the reader checks whether a message makes
 * sense.
 */
#ifndef DFI_REGISTRY_WIRE_WIRE_H
#define DFI_REGISTRY_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dfi_registry.pb-c.h"

/*
 * All members of a registry have the same. So it also stands for what they
 * leave there for each other: the entries of nodes, barriers and sequencers,
 * and a sequencer's memory. RING_LAYOUT stands for flows and their endpoints.
 */
#define WIRE_VERSION 3
#define WIRE_HEADER_SIZE 4
#define WIRE_MESSAGE_MAX (256 << 10) /* bytes, without the header */

struct evbuffer;

/* A request to carry out an operation: WIRE_REQUEST(PUT, put, &operation). */
#define WIRE_REQUEST(CASE, member, operation)                 \
	{                                                     \
		.base = PROTOBUF_C_MESSAGE_INIT(              \
		    &dfi__registry__request__descriptor),     \
		.op_case = DFI__REGISTRY__REQUEST__OP_##CASE, \
		.member = (operation),                        \
	}

/* Append one frame. -EMSGSIZE, -ENOMEM: nothing is appended. */
int dfi__wire_write_request(
    struct evbuffer *out, Dfi__Registry__Request *request);
int dfi__wire_write_reply(struct evbuffer *out, Dfi__Registry__Reply *reply);
int dfi__wire_write_event(struct evbuffer *out, Dfi__Registry__Event *event);

/*
 * Take one message off the front of in: 1 and *message, which the caller frees
 * with dfi__wire_free(); 0 if it isn't complete yet. -EMSGSIZE: it claims to be
 * empty or too long. -EBADMSG: it can't be decoded or has no body; the stream
 * can't be read on. -ENOMEM.
 */
int dfi__wire_read(struct evbuffer *in, Dfi__Registry__Message **message);

/* Tells whether a stream of messages may begin with this byte. */
bool dfi__wire_begins(unsigned char byte);

/* NULL is allowed. */
void dfi__wire_free(Dfi__Registry__Message *message);

/* What stands for a value in a list of a client's own keys. */
uint64_t dfi__wire_digest(uint64_t client, const void *value, size_t size);

/* 0, or -EPROTO with a text that names both versions. */
int dfi__wire_check_versions(uint32_t registry, uint32_t client);

#endif
