/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See record.h. The reader trusts no byte: a file may be damaged, or another's.
 * This file does no I/O.
 */
#include "record.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int dfi__journal_bytes_add(
    struct journal_bytes *bytes, const void *from, size_t size)
{
	size_t needed = bytes->size + size, room = bytes->room;
	uint8_t *at;

	if (needed > room) {
		room = needed > 2 * room ? needed : 2 * room;
		at = realloc(bytes->at, room);
		if (!at)
			return -ENOMEM;
		bytes->at = at;
		bytes->room = room;
	}
	if (size)
		memcpy(bytes->at + bytes->size, from, size);
	bytes->size = needed;
	return 0;
}

void dfi__journal_bytes_free(struct journal_bytes *bytes)
{
	free(bytes->at);
	*bytes = (struct journal_bytes){ .at = NULL };
}

/* The longest change without its key and value. */
#define FIXED_MAX 64

struct fixed {
	uint8_t bytes[FIXED_MAX];
	size_t size;
};

static void add(struct fixed *fixed, const void *from, size_t size)
{
	memcpy(fixed->bytes + fixed->size, from, size);
	fixed->size += size;
}

static void add_64(struct fixed *fixed, uint64_t value)
{
	value = htole64(value);
	add(fixed, &value, sizeof(value));
}

static void add_32(struct fixed *fixed, uint32_t value)
{
	value = htole32(value);
	add(fixed, &value, sizeof(value));
}

static void add_16(struct fixed *fixed, uint16_t value)
{
	value = htole16(value);
	add(fixed, &value, sizeof(value));
}

static void fill(struct fixed *fixed, const struct journal_change *change)
{
	uint8_t type = (uint8_t)change->type;

	add(fixed, &type, 1);
	if (change->type != JOURNAL_GRANT)
		add_64(fixed, change->revision);
	if (change->type != JOURNAL_DELETE)
		add_64(fixed, change->lease);
	switch (change->type) {
	case JOURNAL_GRANT:
		add_64(fixed, change->client);
		add_64(fixed, change->start);
		add_64(fixed, change->location);
		add_32(fixed, change->ttl_ms);
		add_32(fixed, change->pid);
		break;
	case JOURNAL_PUT:
		add_64(fixed, change->client);
		add_16(fixed, (uint16_t)change->key_size);
		add_32(fixed, (uint32_t)change->size);
		break;
	case JOURNAL_DELETE:
		add_16(fixed, (uint16_t)change->key_size);
		break;
	case JOURNAL_END:
	case JOURNAL_COUNT:
		break;
	}
}

int dfi__journal_encode(
    struct journal_bytes *bytes, const struct journal_change *change)
{
	bool has_key = change->type == JOURNAL_PUT ||
	    change->type == JOURNAL_DELETE;
	struct fixed fixed = { .size = 0 };
	size_t before = bytes->size;
	int ret;

	fill(&fixed, change);
	ret = dfi__journal_bytes_add(bytes, fixed.bytes, fixed.size);
	if (!ret && has_key)
		ret = dfi__journal_bytes_add(
		    bytes, change->key, change->key_size);
	if (!ret && has_key)
		ret = dfi__journal_bytes_add(bytes, "", 1);
	if (!ret && change->type == JOURNAL_PUT)
		ret = dfi__journal_bytes_add(
		    bytes, change->value, change->size);
	if (ret)
		bytes->size = before;
	return ret;
}

struct reader {
	const uint8_t *at, *end;
	bool failed;
};

static const void *take(struct reader *reader, size_t size)
{
	const uint8_t *at = reader->at;

	if (reader->failed || size > (size_t)(reader->end - at)) {
		reader->failed = true;
		return NULL;
	}
	reader->at += size;
	return at;
}

static uint64_t take_64(struct reader *reader)
{
	const void *at = take(reader, sizeof(uint64_t));
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

static uint32_t take_32(struct reader *reader)
{
	const void *at = take(reader, sizeof(uint32_t));
	uint32_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static uint16_t take_16(struct reader *reader)
{
	const void *at = take(reader, sizeof(uint16_t));
	uint16_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return le16toh(value);
}

static void take_key(struct reader *reader, struct journal_change *change)
{
	change->key = take(reader, change->key_size + 1);
	if (change->key &&
	    strnlen(change->key, change->key_size + 1) != change->key_size)
		reader->failed = true;
}

static void take_rest(struct reader *reader, struct journal_change *change)
{
	switch (change->type) {
	case JOURNAL_GRANT:
		change->lease = take_64(reader);
		change->client = take_64(reader);
		change->start = take_64(reader);
		change->location = take_64(reader);
		change->ttl_ms = take_32(reader);
		change->pid = take_32(reader);
		break;
	case JOURNAL_PUT:
		change->revision = take_64(reader);
		change->lease = take_64(reader);
		change->client = take_64(reader);
		change->key_size = take_16(reader);
		change->size = take_32(reader);
		take_key(reader, change);
		change->value = take(reader, change->size);
		break;
	case JOURNAL_DELETE:
		change->revision = take_64(reader);
		change->key_size = take_16(reader);
		take_key(reader, change);
		break;
	case JOURNAL_END:
	case JOURNAL_COUNT:
		change->revision = take_64(reader);
		change->lease = take_64(reader);
		break;
	default:
		reader->failed = true;
		break;
	}
}

int dfi__journal_decode(
    const uint8_t **from, const uint8_t *end, struct journal_change *change)
{
	struct reader reader = { .at = *from, .end = end };
	const uint8_t *type = take(&reader, 1);

	*change = (struct journal_change){ .type = type ? *type : 0 };
	take_rest(&reader, change);
	if (reader.failed)
		return -EBADMSG;
	*from = reader.at;
	return 0;
}
